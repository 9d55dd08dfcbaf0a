//! A story can be recorded, and from the recording its decisions can be had again.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::process::{Command, Output};

use cluster::record::Replay;
use sim::replay::decide_again;

fn simulate(arguments: &[&str]) -> Output {
    let story = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/eks-workshop.yaml");
    Command::new(env!("CARGO_BIN_EXE_dovetail")).arg("simulate").arg(story).args(arguments).output().unwrap()
}

#[test]
fn a_recorded_story_can_be_decided_again_and_two_recordings_of_it_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let [first, again] = ["first", "again"].map(|name| folder.path().join(name));
    for path in [&first, &again] {
        let played = simulate(&["--seed", "4", "--output", "json", "--record", path.to_str().unwrap()]);
        assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
    }
    let text = std::fs::read_to_string(&first).unwrap();
    assert_eq!(text, std::fs::read_to_string(&again).unwrap());

    let mut lines = text.lines();
    let mut replay = Replay::begin(lines.next().unwrap()).unwrap();
    let origin = &replay.header().origin;
    assert_eq!(origin.seed, Some(4));
    assert!(origin.scenario.as_ref().unwrap().ends_with("eks-workshop.yaml"));
    let decisions: Vec<_> = lines.filter_map(|line| replay.take(line).unwrap()).collect();
    assert!(decisions.iter().filter(|decided| decide_again(decided) == decided.decision.choice).count() >= 2);
    assert!(decisions.iter().all(|decided| decide_again(decided) == decided.decision.choice));
}

#[test]
fn a_recording_that_cannot_be_written_stops_the_story_before_it_begins() {
    let refused = simulate(&["--record", "/nonexistent/recording"]);
    assert_eq!(refused.status.code(), Some(1));
    let line = String::from_utf8(refused.stderr).unwrap();
    assert!(line.contains("cannot write a recording to /nonexistent/recording"), "{line}");
}
