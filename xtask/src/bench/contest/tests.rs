//! What is measured anew, and what is taken from an earlier run.

use std::cell::RefCell;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::*;
use crate::bench::results::{Machine, Results};
use crate::bench::rows::Kind;
use crate::bench::solve;

const PEER: &str = "the-reference";

/// Solves in this process, for both sides: only who is asked matters here.
fn here(command: &mut Command, gave_up_after: Option<f64>) -> io::Result<Output> {
    let arguments: Vec<String> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let after = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name).expect("both sides get files");
        PathBuf::from(&arguments[place + 1])
    };
    let (workload, out) = (after("--workload"), after("--out"));
    let mut answer = solve::run(&workload, &out, 1).map_err(io::Error::other)?;
    if let Some(seconds) = gave_up_after.filter(|_| command.get_program() == PEER) {
        answer = Answer { capped: true, seconds: vec![seconds], plan: None, ..answer };
        answer.write(&out).map_err(io::Error::other)?;
    }
    Ok(Output { status: ExitStatus::from_raw(0), stdout: answer.sha256.into_bytes(), stderr: Vec::new() })
}

/// A folder with results, and what the next run is like.
struct Bench {
    folder: tempfile::TempDir,
    measured: Measured,
    peer: Option<&'static str>,
    pods: usize,
    cap_seconds: u64,
    is_fresh: bool,
    /// After how many seconds the reference gives up.
    gave_up_after: Option<f64>,
    known: Option<RowResult>,
}

impl Bench {
    /// After a first run, in which both sides were asked.
    fn begun() -> Self {
        Self::begun_with(None)
    }

    fn begun_with(gave_up_after: Option<f64>) -> Self {
        let mut bench = Self {
            folder: tempfile::tempdir().unwrap(),
            measured: Measured { binary: "first".to_owned(), ..Measured::default() },
            peer: Some("harness"),
            pods: 4,
            cap_seconds: 600,
            is_fresh: false,
            gave_up_after,
            known: None,
        };
        bench.run(&["ours", PEER]);
        assert!(!bench.known().measured.is_peer_reused);
        bench
    }

    fn known(&self) -> &RowResult {
        self.known.as_ref().unwrap()
    }

    fn row(&self) -> Row {
        Row { name: "tiny", kind: Kind::Diverse, pods: self.pods, is_quick: true }
    }

    fn contest<'a>(&'a self, run: &'a dyn Fn(&mut Command) -> io::Result<Output>) -> Contest<'a> {
        Contest {
            out: self.folder.path(),
            data: Path::new("nowhere"),
            peer: self.peer.map(|hash| (Path::new(PEER), hash)),
            measured: &self.measured,
            runs: 1,
            cap_seconds: self.cap_seconds,
            is_fresh: self.is_fresh,
            run,
        }
    }

    /// Runs the row; the file of results carries what is known to the next run. Says who must be asked.
    #[track_caller]
    fn run(&mut self, asked: &[&str]) {
        let was_asked = RefCell::new(Vec::new());
        let run = |command: &mut Command| {
            was_asked.borrow_mut().push(if command.get_program() == PEER { PEER } else { "ours" });
            here(command, self.gave_up_after)
        };
        let (contest, row) = (self.contest(&run), self.row());
        let file = self.folder.path().join("solve.json");
        let mut results = Results::read(&file, &Machine::default());
        let found = contest.row(&row, results.row(row.name)).unwrap();
        assert_eq!(was_asked.take(), asked);
        assert_eq!(found.peer.is_some(), self.peer.is_some());
        assert_eq!((found.pods, found.measured.binary.as_str()), (self.pods, self.measured.binary.as_str()));
        results.put(found.clone());
        results.write(&file).unwrap();
        self.known = Some(found);
    }
}

#[test]
fn nothing_is_measured_again_when_nothing_has_changed() {
    let mut bench = Bench::begun();
    let before = bench.known().clone();
    bench.run(&[]);
    assert_eq!((&bench.known().sha256, &bench.known().measured), (&before.sha256, &before.measured));
    // The day and the commit are those of the measurement, not of the run that took it over.
    bench.measured = Measured { date: "later".to_owned(), commit: "other".to_owned(), ..bench.measured };
    bench.run(&[]);
    assert_eq!(bench.known().measured.date, "");
}

#[test]
fn another_workload_is_measured_on_both_sides() {
    let mut bench = Bench::begun();
    let before = bench.known().sha256.clone();
    bench.pods = 5;
    bench.run(&["ours", PEER]);
    assert_ne!(bench.known().sha256, before);
    assert!(!bench.known().measured.is_peer_reused);
    bench.run(&[]);
}

#[test]
fn another_binary_of_ours_meets_the_same_answer_of_the_reference() {
    let mut bench = Bench::begun();
    bench.measured.binary = "second".to_owned();
    bench.run(&["ours"]);
    assert!(bench.known().measured.is_peer_reused);
    bench.run(&[]);
}

#[test]
fn another_harness_is_asked_and_we_beside_it() {
    let mut bench = Bench::begun();
    bench.peer = Some("harness-two");
    bench.run(&["ours", PEER]);
    assert_eq!(bench.known().measured.peer_binary, "harness-two");
    assert!(!bench.known().measured.is_peer_reused);
    bench.run(&[]);
}

#[test]
fn a_row_without_the_reference_is_not_good_for_a_run_with_it() {
    let mut bench = Bench::begun();
    bench.peer = None;
    bench.run(&["ours"]);
    bench.peer = Some("harness");
    // What it answered in the first run still lies in the folder.
    bench.run(&["ours"]);
    assert!(bench.known().measured.is_peer_reused);
}

#[test]
fn an_answer_that_is_missing_or_torn_is_asked_for_again() {
    for spoil in [|path: &Path| std::fs::remove_file(path), |path: &Path| std::fs::write(path, "{\"workload\": ")] {
        let mut bench = Bench::begun();
        let files = std::fs::read_dir(bench.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let answers: Vec<PathBuf> = files.filter(|path| path.to_string_lossy().ends_with(".peer.json")).collect();
        assert_eq!(answers.len(), 1);
        spoil(&answers[0]).unwrap();
        bench.measured.binary = "second".to_owned();
        bench.run(&["ours", PEER]);
        assert!(!bench.known().measured.is_peer_reused);
    }
}

#[test]
fn fresh_means_that_both_sides_are_measured_anew() {
    let mut bench = Bench::begun();
    bench.is_fresh = true;
    bench.run(&["ours", PEER]);
    assert!(!bench.known().measured.is_peer_reused);
}

#[test]
fn a_reference_that_was_given_up_is_asked_again_when_it_gets_more_time() {
    let mut bench = Bench::begun_with(Some(600.0));
    assert!(bench.known().peer.as_ref().unwrap().capped && bench.known().price_ratio.is_none());
    bench.run(&[]);
    bench.cap_seconds = 60;
    bench.run(&[]);
    bench.cap_seconds = 1_200;
    bench.run(&["ours", PEER]);
}

#[test]
fn an_answer_to_another_file_is_refused() {
    let bench = Bench::begun();
    let prepared = |sha256: &str| {
        let path = bench.folder.path().join("tiny.workload.json");
        let (workload, _) = Workload::read(&path).unwrap();
        Prepared { path, workload, sha256: sha256.to_owned() }
    };
    let run = |command: &mut Command| here(command, None);
    let (contest, row) = (bench.contest(&run), bench.row());
    assert!(contest.solve_ours(&row, &prepared(&bench.known().sha256)).is_ok());
    let error = contest.solve_ours(&row, &prepared("another")).unwrap_err().to_string();
    assert!(error.contains("did not print the hash"), "{error}");
}
