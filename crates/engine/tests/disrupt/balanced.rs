//! The policy that weighs savings against disturbance.

use model::disruption::{Stay, Verb, Verdict};
use model::pool::ConsolidationPolicy::{Balanced, WhenEmptyOrUnderutilized};

use crate::cluster::{Cluster, cluster};
use crate::fixture::*;

fn cpu(name: &str, milli: i64) -> PodSketch {
    pod(name).label("app", name).asks("cpu", milli)
}

fn balanced() -> Cluster {
    cluster(vec![pool("p").types(series(32))]).policy("p", Balanced)
}

// 02/BA1 02/BA7
#[test]
fn what_saves_much_for_little_is_approved() {
    let command = balanced().machine("n", "fake-it-30", vec![cpu("x", 500)]).command();
    let score = &command.worth.scores[0];
    assert_eq!((command.verb(), score.verdict), (Verb::Replace, Verdict::Approved));
    assert!(score.approved_event().starts_with("score 0.9"), "{}", score.approved_event());
    let spare =
        balanced().machine("a", "fake-it-3", vec![cpu("x", 500)]).machine("b", "fake-it-3", vec![cpu("y", 3000)]);
    assert_eq!(spare.command().verb(), Verb::Delete);
}

// 02/BA1 02/BA2
#[test]
fn what_saves_little_for_much_is_rejected() {
    // A third less for all of the pool's peace.
    let cluster = || cluster(vec![pool("p").types(series(32))]).machine("n", "fake-it-8", vec![cpu("x", 5500)]);
    assert_eq!(cluster().policy("p", WhenEmptyOrUnderutilized).all_leaving(), ["n"]);
    assert!(matches!(cluster().policy("p", Balanced).stay("n"), Stay::Score { .. }));
}

// 02/BA5
#[test]
fn every_balanced_pool_must_approve_and_others_are_not_asked() {
    let two = |policy| {
        cluster(vec![pool("p").types(series(32))])
            .policy("p", policy)
            .machine("a", "fake-it-1", (0..15).map(|i| cpu(&format!("x{i}"), 10)).collect())
            .machine("b", "fake-it-31", vec![cpu("y", 31_500)])
    };
    assert_eq!(two(WhenEmptyOrUnderutilized).all_leaving(), ["a"]);
    assert!(matches!(two(Balanced).stay("a"), Stay::Score { .. }), "two cpus for the peace of most pods");
}

// 02/BA6
#[test]
fn empty_nodes_go_first_under_a_small_budget() {
    let cluster = balanced()
        .machine("empty", "fake-it-0", vec![])
        .machine("large", "fake-it-30", vec![cpu("x", 500)])
        .budget("p", &["1"]);
    assert_eq!(cluster.all_leaving(), ["empty"]);
    assert!(cluster.budget("p", &["0%"]).all_leaving().is_empty());
}

// 02/BA4
#[test]
fn totals_count_every_node_of_the_pool_and_what_is_unknown_speaks_for_nothing() {
    // A third of its price, for the trouble of one pod among many: alone it is too little, beside others it is enough.
    let oversized = || balanced().machine("n", "fake-it-8", vec![cpu("x", 5500)]);
    let crowd = |i: usize| (0..40).map(|j| cpu(&format!("c{i}-{j}"), 10)).collect::<Vec<_>>();
    let beside = (0..3).fold(oversized(), |cluster, i| {
        let name = format!("kept{i}");
        cluster.machine(&name, "fake-it-3", crowd(i)).tenure(&name, |tenure| tenure.do_not_disrupt = true)
    });
    assert!(matches!(oversized().stay("n"), Stay::Score { .. }));
    assert!(beside.all_leaving().contains(&"n".to_owned()));
}
