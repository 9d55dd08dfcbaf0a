//! The policy that weighs savings against disturbance.

use std::sync::Arc;

use model::disruption::{Stay, Verb, Verdict};
use model::instance::InstanceType;
use model::labels::{INSTANCE_TYPE, NODE_POOL};
use model::pod::DoNotDisrupt;
use model::pool::ConsolidationPolicy::{Balanced, WhenEmptyOrUnderutilized};
use model::price::Price;

use crate::cluster::{Cluster, cluster};
use crate::fixture::*;

fn cpu(name: &str, milli: i64) -> PodSketch {
    pod(name).label("app", name).asks("cpu", milli)
}

fn balanced() -> Cluster {
    cluster(vec![pool("p").types(series(32))]).policy("p", Balanced)
}

/// A type of the series at this price, however it is bought.
fn costs(place: usize, dollars: f64) -> Arc<InstanceType> {
    let mut changed = InstanceType::clone(&series(32)[place]);
    changed.offerings.iter_mut().for_each(|one| one.price = Price::from_dollars(dollars).unwrap());
    Arc::new(changed)
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
    // Two nodes of two cpus, one of each pool, can become one of three. The one pool has another node whose pods would be
    // much trouble, so it finds the saving large; the other one finds it small.
    let types = |names: &[(usize, f64)]| names.iter().map(|(place, price)| costs(*place, *price)).collect::<Vec<_>>();
    let crowd = || (0..18).map(|i| cpu(&format!("c{i}"), 100)).collect();
    let two = |of_p, of_q| {
        cluster(vec![pool("p").types(types(&[(1, 2.0)])), pool("q").types(types(&[(2, 2.5)]))])
            .policy("p", of_p)
            .policy("q", of_q)
            .machine("a", "fake-it-1", vec![cpu("x", 1200)])
            .machine("crowd", "fake-it-1", crowd())
            .tenure("crowd", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always)
            .machine("b", "fake-it-1", vec![cpu("y", 1200)])
            .node("b", |node| {
                node.pool = Some("q".into());
                node.labels.insert(NODE_POOL.into(), "q".into());
            })
            .pool("q", |pool| pool.instance_types.insert(0, costs(1, 2.0)))
    };
    let leaving = |of_p, of_q| two(of_p, of_q).all_leaving();
    assert_eq!(leaving(WhenEmptyOrUnderutilized, WhenEmptyOrUnderutilized), ["a", "b"]);
    assert_eq!(leaving(Balanced, WhenEmptyOrUnderutilized), ["a", "b"], "the second is not asked");
    assert_eq!([leaving(Balanced, Balanced), leaving(WhenEmptyOrUnderutilized, Balanced)], [vec![""; 0], vec![]]);
    let decision = two(Balanced, Balanced).decide();
    let verdicts: Vec<_> = decision.scores.iter().map(|score| (score.pool.as_str(), score.verdict)).collect();
    assert!(verdicts.ends_with(&[("p", Verdict::Approved), ("q", Verdict::Rejected)]), "each is told: {verdicts:?}");
}

#[test]
fn a_node_that_may_not_leave_alone_may_leave_with_others() {
    // The small one has most of the pods and costs little; the large one is far too large. One machine is enough for both.
    let both = || {
        // The kind of the small one is sold out.
        let mut small = InstanceType::clone(&costs(1, 0.5));
        small.offerings.iter_mut().for_each(|one| one.is_available = false);
        let types = vec![Arc::new(small), costs(2, 1.0), costs(5, 3.5)];
        cluster(vec![pool("p").types(types)])
            .policy("p", Balanced)
            .machine("small", "fake-it-1", (0..15).map(|i| cpu(&format!("x{i}"), 100)).collect())
            .machine("large", "fake-it-5", vec![cpu("y", 1200)])
    };
    assert_eq!(both().leaving(), [["large", "small"]]);
    let command = both().command();
    assert_eq!((command.replacements.len(), command.worth.scores[0].verdict), (1, Verdict::Approved));
    let alone = both().tenure("large", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always);
    assert!(matches!(alone.stay("small"), Stay::Score { .. }));
}

// 02/BA6
#[test]
fn empty_nodes_go_first_under_a_small_budget() {
    let both = balanced()
        .machine("empty", "fake-it-0", vec![])
        .machine("large", "fake-it-30", vec![cpu("x", 500)])
        .budget("p", &["1"]);
    assert_eq!(both.all_leaving(), ["empty"]);
    assert!(both.budget("p", &["0%"]).all_leaving().is_empty());
    // Each could become a smaller one; but the pods of one fit beside the other's.
    let spare =
        balanced().machine("a", "fake-it-5", vec![cpu("x", 500)]).machine("b", "fake-it-5", vec![cpu("y", 500)]);
    assert_eq!(spare.budget("p", &["1"]).command().verb(), Verb::Delete);
    let three = balanced()
        .machine("cheap", "fake-it-1", vec![cpu("x", 100)])
        .machine("dear", "fake-it-3", vec![cpu("y", 100)])
        .machine("crowded", "fake-it-3", (0..10).map(|i| cpu(&format!("c{i}"), 10)).collect())
        .machine("room", "fake-it-3", vec![cpu("z", 3000)]);
    assert_eq!(three.budget("p", &["1"]).all_leaving(), ["dear"], "the most money for the least trouble");
    // What is too little for one pool is enough for another that is not asked.
    let mixed = cluster(vec![pool("p").types(series(9)), pool("q").types(series(9))]).policy("p", Balanced);
    let mixed = mixed.machine("a", "fake-it-8", vec![cpu("x", 5500)]).machine("b", "fake-it-8", vec![cpu("y", 5500)]);
    let mixed = mixed.node("b", |node| {
        node.pool = Some("q".into());
        node.labels.insert(NODE_POOL.into(), "q".into());
    });
    assert_eq!(mixed.all_leaving(), ["b"]);
}

// 02/BA4
#[test]
fn totals_count_every_node_of_the_pool_and_what_is_unknown_speaks_for_nothing() {
    // A third of its price, for the trouble of one pod among many: alone it is too little, beside others it is enough.
    let oversized = || balanced().machine("n", "fake-it-8", vec![cpu("x", 5500)]);
    let crowd = |i: usize| (0..40).map(|j| cpu(&format!("c{i}-{j}"), 10)).collect::<Vec<_>>();
    let beside = (0..3).fold(oversized(), |cluster, i| {
        let name = format!("kept{i}");
        cluster
            .machine(&name, "fake-it-3", crowd(i))
            .tenure(&name, |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always)
    });
    assert!(matches!(oversized().stay("n"), Stay::Score { .. }));
    assert!(beside.all_leaving().contains(&"n".to_owned()));
    // One whose price nobody knows costs nothing, and its pods count all the same.
    let unpriced = oversized()
        .machine("unpriced", "fake-it-3", crowd(0))
        .label("unpriced", INSTANCE_TYPE, "gone")
        .tenure("unpriced", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always);
    assert_eq!(unpriced.all_leaving(), ["n"]);
    // Nothing is known of a pool whose nodes nobody counts.
    let uncounted = || balanced().machine("n", "fake-it-30", vec![cpu("x", 500)]);
    assert_eq!(uncounted().all_leaving(), ["n"]);
    assert!(matches!(uncounted().node("n", |node| node.pool = None).stay("n"), Stay::Score { score: 0, .. }));
}
