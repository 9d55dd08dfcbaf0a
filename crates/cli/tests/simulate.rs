//! `dovetail simulate` from the outside: what it prints, and how it ends.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A story that is over soon.
const SHORT: &str = include_str!("../../../scenarios/one-pod.yaml");

fn simulate(file: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dovetail")).arg("simulate").arg(file).args(more).output().unwrap()
}

fn scenario(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("story.yaml"), text).unwrap();
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The report without the only number that may differ.
fn report(output: &Output) -> (String, Value) {
    let text = text(&output.stdout);
    let report: Value = serde_json::from_str(&text).unwrap();
    let is_other = |line: &&str| !line.trim_start().starts_with("\"wallSeconds\":");
    (text.lines().filter(is_other).collect::<Vec<_>>().join("\n"), report)
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_report_has_the_fields_that_programs_rely_on() {
    let folder = scenario(SHORT);
    let output = simulate(&folder.path().join("story.yaml"), &["--output", "json", "--seed", "3"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let (_, report) = report(&output);
    let mut found = keys(&report);
    found.sort_unstable();
    assert_eq!(found, ["cost", "decisions", "expectations", "nodes", "pods", "seed", "virtualSeconds", "wallSeconds"]);
    assert_eq!((report["seed"].as_u64(), report["virtualSeconds"].as_f64()), (Some(3), Some(60.0)));
    let sorted = |value: &Value| {
        let mut keys: Vec<String> = keys(value).into_iter().map(str::to_owned).collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    assert_eq!(sorted(&report["cost"]), "hourlyEnd total");
    assert_eq!(
        sorted(&report["nodes"][0]),
        "capacityType createdAt deletedAt instanceType name pool pricePerHour readyAt reason zone"
    );
    assert_eq!(sorted(&report["pods"]), "created evicted maxPendingSeconds pending placed");
    assert_eq!(sorted(&report["decisions"][0]), "at kind nodes reason replacements savingsPerHour why");
    assert_eq!(sorted(&report["expectations"][0]), "at message ok");
    assert!(report["nodes"][0]["deletedAt"].is_null());
}

#[test]
fn one_seed_gives_the_same_bytes_at_any_speed() {
    let folder = scenario(SHORT);
    let told =
        |more: &[&str]| report(&simulate(&folder.path().join("story.yaml"), &[&["--output", "json"], more].concat()));
    let (first, _) = told(&[]);
    assert_eq!(first, told(&[]).0);
    let (slow, paced) = told(&["--speed", "60x"]);
    assert_eq!(first, slow);
    assert!(paced["wallSeconds"].as_f64().is_some_and(|wall| wall >= 0.9), "a minute takes a second");
    assert_ne!(first, told(&["--seed", "2"]).0);
}

#[test]
fn a_story_is_told_with_its_cost_and_the_command_that_repeats_it() {
    let folder = scenario(SHORT);
    let file = folder.path().join("story.yaml");
    let output = simulate(&file, &["--seed", "5"]);
    let told = text(&output.stdout);
    for words in
        ["apply Pod alone", "1 pod waits", "launch", "nobody waits any more", "1 of 1 as expected", "$/h", "1 nodes │"]
    {
        assert!(told.contains(words), "{told} should contain {words}");
    }
    assert!(told.ends_with(&format!("dovetail simulate {} --seed 5\n", file.display())), "{told}");
    assert!(output.stderr.is_empty(), "no bar unless somebody is looking");
}

#[test]
fn an_expectation_that_fails_ends_with_1_and_says_how_to_see_it_again() {
    let folder = scenario(&SHORT.replace("nodes: 1", "nodes: 7"));
    let file = folder.path().join("story.yaml");
    for output in ["text", "json"] {
        let output = simulate(&file, &["--output", output]);
        let line = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(line.lines().count() == 1 && line.starts_with("dovetail: 1 of 1 expectations failed"), "{line}");
        assert!(line.contains("--seed 1") && text(&output.stdout).contains("1 nodes instead of 7"), "{line}");
    }
}

#[test]
fn a_scenario_that_makes_no_sense_ends_with_2_and_names_the_line() {
    for (from, to, line, words) in [
        ("duration", "duraton", 8, "duraton"),
        ("at: 10s\n      expect", "at: 10h\n      expect", 16, "duration"),
        ("cpu: 100m", "cpu: lots", 15, "refuse"),
        ("requirements: []", "requirments: []", 30, "spec.template.spec.requirements: Required"),
        ("{runningPods: 1, ", "{types: [], ", 17, "the list is empty"),
    ] {
        assert!(SHORT.contains(from), "{from}");
        let folder = scenario(&SHORT.replace(from, to));
        refuses(
            &folder.path().join("story.yaml"),
            &folder.path().join("story.yaml").display().to_string(),
            line,
            words,
        );
    }
}

#[test]
fn a_trace_that_makes_no_sense_ends_with_2_and_names_its_line() {
    let folder = scenario(&SHORT.replace("apply:\n", "trace: {file: trace.csv}\n    - at: 10s\n      apply:\n"));
    let header = "name,cpu_milli,memory_mib,creation_time,deletion_time";
    std::fs::write(folder.path().join("trace.csv"), format!("{header}\na,1,1,0,9\nb,1,1,5,4\n")).unwrap();
    refuses(&folder.path().join("story.yaml"), "trace.csv", 3, "b leaves at 4");
    std::fs::write(folder.path().join("trace.csv"), format!("{header}\na,1,1,0,9\nalone,1,1,5,9\n")).unwrap();
    refuses(&folder.path().join("story.yaml"), "trace.csv", 3, "already exists");
}

/// Plays nothing, and says on one line what is wrong with which line of which file.
fn refuses(story: &Path, file: &str, line: u64, words: &str) {
    let output = simulate(story, &[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.lines().count() == 1 && output.stdout.is_empty(), "{said}");
    assert!(said.starts_with(&format!("dovetail: {file}:{line}: ")) && said.contains(words), "line {line}: {said}");
}

#[test]
fn a_scenario_that_is_not_there_ends_with_1() {
    let output = simulate(Path::new("/no/such/story.yaml"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/no/such/story.yaml"));
}
