//! Small rows from end to end: generated, solved, written, read back, judged, priced and bounded.

use std::path::Path;

use super::answer::{Answer, median};
use super::assess::{Assessment, assess};
use super::file::{Preferences, Workload};
use super::rows::{Kind, Row};
use super::{bound, generate, lower, sha256, solve};

struct Outcome {
    answer: Answer,
    assessment: Assessment,
    bound: f64,
}

/// Our side of a row, as a contest would have it.
fn solved(kind: Kind, pods: usize) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("workload.json"), folder.path().join("answer.json"));
    let row = Row { name: "tiny", kind, pods, is_quick: true };
    let text = generate::generate(&row, Path::new("nowhere")).unwrap().text().unwrap();
    std::fs::write(&file, &text).unwrap();
    solve::run(&file, &out, 2).unwrap();
    let answer = Answer::read(&out).unwrap();
    assert_eq!(answer.sha256, sha256::hex(text.as_bytes()));
    assert_eq!(answer.seconds.len(), 2);
    let world = lower::lower(&Workload::read(&file).unwrap().0).unwrap();
    let plan = answer.plan.as_ref().unwrap().plan(&world.snapshot).unwrap();
    Outcome { assessment: assess(&world.snapshot, &plan), bound: bound::lower_bound(&world.snapshot, &plan), answer }
}

#[test]
fn a_tiny_row_is_placed_without_violations_above_its_bound() {
    let outcome = solved(Kind::Diverse, 30);
    let found = &outcome.assessment;
    assert_eq!((found.placed, found.violations), (30, 0), "{:?}", found.violation_samples);
    assert!(found.nodes >= 6 && found.types_per_claim_min >= 15, "{found:?}");
    assert!(outcome.bound > 0.0 && outcome.bound <= found.price_per_hour, "{} {found:?}", outcome.bound);
    assert!(found.worst_launch_price_per_hour >= found.price_per_hour);
    assert_eq!((found.preferences_kept, found.preferences), (0, 0));
    assert_eq!(outcome.answer.pods, 30);
}

#[test]
fn preferences_are_counted_by_what_the_plan_promises() {
    let respected = solved(Kind::Preference(Preferences::Respect), 6).assessment;
    assert_eq!((respected.placed, respected.violations, respected.preferences), (6, 0, 18));
    // Each of them can have its zone and a host of its own.
    assert!(respected.preferences_kept >= 12, "{respected:?}");
    let ignored = solved(Kind::Preference(Preferences::Ignore), 6).assessment;
    assert_eq!((ignored.placed, ignored.violations, ignored.preferences), (6, 0, 18));
    assert!(ignored.preferences_kept < respected.preferences_kept && ignored.nodes < respected.nodes);
}

#[test]
fn plain_pods_on_the_market_cost_little_more_than_the_bound() {
    let outcome = solved(Kind::Ec2Plain, 40);
    let found = &outcome.assessment;
    assert_eq!((found.placed, found.violations), (40, 0), "{:?}", found.violation_samples);
    assert!(
        outcome.bound <= found.price_per_hour && found.price_per_hour <= outcome.bound * 1.2,
        "{} {found:?}",
        outcome.bound
    );
}

/// The reference's harness is tested with this file; that both sides read it alike is what the contract is for.
#[test]
fn the_peers_sample_is_read_and_solved() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/peer/testdata/sample.json");
    let (workload, _) = Workload::read(&file).unwrap();
    workload.check().unwrap();
    lower::check_lossless(&workload).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("answer.json");
    let answer = solve::run(&file, &out, 1).unwrap();
    let world = lower::lower(&workload).unwrap();
    assert_eq!((world.snapshot.nodes.len(), world.snapshot.daemons.len(), world.snapshot.pools.len()), (1, 1, 2));
    let plan = answer.plan.unwrap().plan(&world.snapshot).unwrap();
    let found = assess(&world.snapshot, &plan);
    assert_eq!((found.placed, found.violations), (workload.pods.len(), 0), "{:?}", found.violation_samples);
    assert!(bound::lower_bound(&world.snapshot, &plan) <= found.price_per_hour);
}

#[test]
fn medians_are_in_the_middle() {
    assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-12);
    assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-12);
    assert!(median(&[]).is_nan());
}
