//! Hosts that are asked for by name.

use model::pod::Weighted;

use crate::fixture::*;

const HOST: &str = "kubernetes.io/hostname";

#[test]
fn no_machine_is_made_for_who_must_be_on_a_host_by_name() {
    let bound =
        |sketch: PodSketch| sketch.change(|pod| pod.wants.volumes.alternatives = vec![reqs(&[(HOST, "In node-1")])]);
    let world = || world(vec![pool("p")]).node("node-1", &[], 100);
    let answer = world().judged(vec![bound(pod("a").asks("cpu", 500))]);
    assert_eq!((answer.placed(), answer.claims()), (0, 0));
    assert_eq!(world().judged(vec![bound(pod("a").asks("cpu", 50))]).node("a"), "node-1");
    assert_eq!(world().judged(vec![pod("a").asks("cpu", 50).selects(HOST, "NotIn node-1")]).claims(), 1);
}

#[test]
fn a_preferred_host_that_is_full_is_given_up_and_not_bought() {
    let fond = |pod: &mut model::pod::Pod| {
        pod.wants.preferred_nodes.push(Weighted { weight: 1, item: reqs(&[(HOST, "In node-1")]) });
    };
    let world = world(vec![pool("p")]).node("node-1", &[], 0).node("node-2", &[], 4000);
    assert_eq!(world.judged(vec![pod("a").asks("cpu", 500).change(fond)]).node("a"), "node-2");
}
