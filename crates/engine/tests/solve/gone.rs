//! Nodes that a question leaves out: they are gone, and with them everybody who is not asked for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::solve::{Question, solve};
use model::ids::NodeName;
use model::labels::{HOSTNAME, ZONE};
use model::plan::Plan;
use model::pod::Pod;
use model::snapshot::Snapshot;
use proptest::prelude::*;

use crate::fixture::*;
use crate::random::{any_world, seeded};

fn without(snapshot: &Snapshot, pods: &[Pod], gone: &BTreeSet<NodeName>) -> Plan {
    let question = Question { without: gone.clone(), ..Question::about(pods.iter().collect()) };
    solve(snapshot, &question, &AtomicBool::new(false))
}

/// The world once nodes are gone: pods that are asked for wait, and whoever else stood there is no more.
fn after(snapshot: &Snapshot, pods: &[Pod], gone: &BTreeSet<NodeName>) -> Snapshot {
    let mut after = snapshot.clone();
    after.nodes.retain(|name, _| !gone.contains(name));
    let is_asked_for = |pod: &Pod| pods.iter().any(|asked| asked.name == pod.name);
    after.pods.retain(|_, pod| is_asked_for(pod) || !pod.node.as_ref().is_some_and(|node| gone.contains(node)));
    for pod in after.pods.values_mut().filter(|pod| is_asked_for(pod)) {
        Arc::make_mut(pod).node = None;
    }
    after
}

fn named(names: &[&str]) -> BTreeSet<NodeName> {
    names.iter().map(|name| (*name).into()).collect()
}

/// Plans without the node `old`, has the judge look at that, and returns the plan.
fn without_old(world: &World, pods: Vec<PodSketch>) -> Answer {
    let pods: Vec<Pod> = pods.into_iter().map(|sketch| sketch.0).collect();
    let mut after = after(&world.snapshot, &pods, &named(&["old"]));
    for pod in &pods {
        after.pods.entry(pod.name.clone()).or_insert_with(|| Arc::new(pod.clone()));
    }
    let plan = without(&world.snapshot, &pods, &named(&["old"]));
    let verdict = judge::replay(&after, &plan);
    assert!(verdict.is_accepted(), "{verdict}\n{plan:#?}");
    Answer { plan }
}

proptest! {
    #![proptest_config(seeded(400))]

    #[test]
    fn a_question_without_nodes_is_the_question_about_the_world_without_them(
        ((snapshot, mut pods), left_out, moves) in (any_world(), 0..16_u8, any::<bool>())
    ) {
        let gone: BTreeSet<NodeName> = (0..4).filter(|i| left_out & (1 << i) != 0).map(|i| format!("node-{i}").into()).collect();
        let on_gone = snapshot.pods.values().filter(|pod| pod.node.as_ref().is_some_and(|node| gone.contains(node)));
        if moves {
            pods.extend(on_gone.map(|pod| Pod::clone(pod)));
        }
        let after = after(&snapshot, &pods, &gone);
        let plan = without(&snapshot, &pods, &gone);
        prop_assert_eq!(&plan, &without(&after, &pods, &BTreeSet::new()));
        let verdict = judge::replay(&after, &plan);
        prop_assert!(verdict.is_accepted(), "{}\n{plan:#?}", verdict);
    }
}

#[test]
fn a_pod_that_is_asked_for_leaves_its_node_and_the_others_end_with_it() {
    let world = world(Vec::new())
        .node("old", &[], 4000)
        .node("other", &[], 4000)
        .running("old", vec![pod("moves").asks("cpu", 1000), pod("ends").asks("cpu", 1000)]);
    let answer = without_old(&world, vec![pod("moves").asks("cpu", 1000)]);
    assert_eq!(answer.node("moves"), "other");
    assert_eq!(answer.placed() + answer.plan.unplaced.len(), 1);
}

#[test]
fn the_zone_of_a_node_that_is_gone_is_no_domain() {
    let spreading = || pod("a").label("app", "x").spread(spread_over(ZONE, 1, &[("app", "x")]));
    let crowd = || pods("there", 2, |sketch| sketch.label("app", "x"));
    let old = (ZONE, "test-zone-9");
    let world =
        world(Vec::new()).node("old", &[old], 4000).node("new", &[(ZONE, "test-zone-1")], 4000).running("new", crowd());
    assert!(
        !world
            .judged(vec![spreading()])
            .plan
            .placements
            .iter()
            .any(|(_, to)| *to == model::plan::Target::Node("new".into()))
    );
    assert_eq!(without_old(&world, vec![spreading()]).node("a"), "new");
}

#[test]
fn company_and_distance_go_with_the_node() {
    let world = world(vec![pool("p")])
        .node("old", &[(ZONE, "test-zone-1")], 4000)
        .node("other", &[(ZONE, "test-zone-1")], 4000)
        .running("old", vec![pod("friend").label("app", "x"), pod("shy").apart(near(ZONE, &[("app", "y")]))]);
    let fond = || pod("fond").together(near(ZONE, &[("app", "x")]));
    assert!(world.judged(vec![fond()]).is_placed("fond"));
    assert!(!without_old(&world, vec![fond()]).is_placed("fond"));
    let lively = || pod("lively").label("app", "y").selects(ZONE, "In test-zone-1");
    assert!(!world.judged(vec![lively()]).is_placed("lively"));
    assert_eq!(without_old(&world, vec![lively()]).node("lively"), "other");
    let hermit = || pod("hermit").label("app", "x").apart(near(HOSTNAME, &[("app", "x")]));
    assert_eq!(without_old(&world, vec![hermit()]).node("hermit"), "other");
}

#[test]
fn what_a_node_that_is_gone_took_of_its_pools_limits_is_free() {
    for (resource, amount) in [("nodes", 1), ("cpu", 4000)] {
        let of_pool = |node: &mut model::node::Node| node.pool = Some("p".into());
        let types = vec![shape("four").build()];
        let world = world(vec![pool("p").types(types).limit(resource, amount)])
            .node("old", &[], 4000)
            .change_node("old", of_pool);
        let big = || vec![pod("big").asks("cpu", 3500)];
        let full = world.node("other", &[], 100).running("old", big());
        assert!(!full.judged(vec![pod("more").asks("cpu", 3000)]).is_placed("more"), "{resource}");
        assert_eq!(without_old(&full, big()).claim("big").pods.len(), 1, "{resource}");
    }
}
