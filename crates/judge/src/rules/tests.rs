use std::sync::Arc;

use model::pod::{Pod, Protocol};
use model::requirements::Requirements;
use model::topology::{Namespaces, Policy, Selector};

use super::*;
use crate::short::{add_daemon, key, node, one, pod, snapshot};

const OK: &str = "";

/// Whether a pod may be bound to `n` in a cluster of these nodes and pods; a refusal is expected by its rule.
fn check(nodes: &[&str], standing: &[&str], incoming: &str, expected: &str) {
    check_pod(nodes, standing, &pod(incoming), expected);
}

fn check_pod(nodes: &[&str], standing: &[&str], incoming: &Pod, expected: &str) {
    check_world(&World::new(&snapshot(nodes, standing)), incoming, expected);
}

fn check_world(world: &World, incoming: &Pod, expected: &str) {
    let rule = match filter(world, incoming, &"n".into()) {
        Ok(()) => OK,
        Err(Violation::Refused { refusal, .. }) => refusal.rule(),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(rule, expected, "{incoming:?}");
}

#[test]
fn cpu_must_be_free() {
    check(&["n cpu=4"], &["a cpu=2 on=n"], "p cpu=3", "NodeResourcesFit");
    check(&["n cpu=4"], &["a cpu=2 on=n"], "p cpu=2", OK);
    check(&["n cpu=4"], &["a cpu=2 on=n terminating"], "p cpu=3", "NodeResourcesFit");
    check(&["n cpu=4"], &["a cpu=2 on=n ended"], "p cpu=3", OK);
}

#[test]
fn every_pod_takes_one_of_the_places_for_pods() {
    check(&["n pods=1"], &["a on=n"], "p", "NodeResourcesFit");
    check(&["n pods=2"], &["a on=n"], "p", OK);
}

#[test]
fn an_extended_resource_must_be_there_and_free() {
    check(&["n"], &[], "p gpu=1", "NodeResourcesFit");
    check(&["n gpu=1"], &["a gpu=1 on=n"], "p gpu=1", "NodeResourcesFit");
    check(&["n gpu=1"], &[], "p gpu=1", OK);
}

#[test]
fn what_is_not_asked_for_may_be_overdrawn() {
    check(&["n cpu=1 gpu=1"], &["a gpu=2 cpu=2 on=n"], "p", OK);
    check(&["n cpu=1 gpu=1"], &["a gpu=2 cpu=2 on=n"], "p cpu=1", "NodeResourcesFit");
}

#[test]
fn a_leaving_node_takes_nobody() {
    check(&["n leaving"], &[], "p", "NodeUnschedulable");
    check(&["n"], &[], "p", OK);
}

#[test]
fn hard_taints_must_be_tolerated_and_soft_ones_need_not() {
    check(&["n taint=x:NoSchedule"], &[], "p", "TaintToleration");
    check(&["n taint=x:NoExecute"], &[], "p !y", "TaintToleration");
    check(&["n taint=x:NoSchedule taint=y:NoExecute"], &[], "p !x !y", OK);
    check(&["n taint=x:PreferNoSchedule"], &[], "p", OK);
}

#[test]
fn the_selector_must_match_the_labels_that_are_really_there() {
    check(&["n zone=a"], &[], "p @zone=b", "NodeAffinity");
    check(&["n"], &[], "p @zone=b", "NodeAffinity");
    check(&["n zone=b"], &[], "p @zone=b", OK);
}

#[test]
fn one_of_the_required_terms_must_hold() {
    check(&["n zone=c"], &[], "p ?zone=a ?zone=b", "NodeAffinity");
    check(&["n zone=b"], &[], "p ?zone=a ?zone=b", OK);
    check(&["n zone=b disk=hdd"], &[], "p @disk=ssd ?zone=a ?zone=b", "NodeAffinity");
}

#[test]
fn a_term_without_demands_selects_no_node() {
    let mut incoming = pod("p");
    incoming.wants.terms.push(Requirements::default());
    check_pod(&["n"], &[], &incoming, "NodeAffinity");
    incoming.wants.terms.push(one("host", "n"));
    check_pod(&["n"], &[], &incoming, OK);
}

#[test]
fn a_host_port_is_taken_once_per_address() {
    check(&["n"], &["a port=80 on=n"], "p port=80", "NodePorts");
    check(&["n"], &["a port=80 on=n"], "p port=81", OK);
    let mut incoming = pod("p port=80");
    incoming.wants.ports[0].protocol = Protocol::Udp;
    check_pod(&["n"], &["a port=80 on=n"], &incoming, OK);
    incoming.wants.ports[0].protocol = Protocol::Tcp;
    incoming.wants.ports[0].ip = "10.0.0.1".into();
    check_pod(&["n"], &["a port=80 on=n"], &incoming, "NodePorts");
    let mut standing = snapshot(&["n"], &[]);
    let mut other = pod("a port=80 on=n");
    other.wants.ports[0].ip = "::".into();
    standing.pods.insert(other.name.clone(), Arc::new(other));
    check_world(&World::new(&standing), &incoming, OK);
}

#[test]
fn volumes_must_be_within_reach() {
    check(&["n zone=b"], &[], "p vzone=a", "VolumeBinding");
    check(&["n zone=b"], &[], "p vzone=a vzone=b", OK);
    let mut incoming = pod("p vzone=a");
    incoming.wants.volumes.alternatives.push(Requirements::default());
    check_pod(&["n zone=b"], &[], &incoming, OK);
}

#[test]
fn attached_volumes_are_counted_once_each() {
    check(&["n ebs=1"], &["a vol=x on=n"], "p vol=y", "NodeVolumeLimits");
    check(&["n ebs=2"], &["a vol=x on=n"], "p vol=y", OK);
    check(&["n ebs=1"], &["a vol=x on=n"], "p vol=x", OK);
    check(&["n ebs=1"], &["a vol=x vol=y on=n"], "p vol=x", OK);
    check(&["n"], &["a vol=x on=n"], "p vol=y", OK);
}

const ZONES: [&str; 2] = ["n zone=a", "m zone=b"];

#[test]
fn a_domain_may_not_get_ahead_by_more_than_the_skew() {
    check(&ZONES, &["x app=w on=n"], "p app=w spread=zone:1:w", "PodTopologySpread");
    check(&ZONES, &["x app=w on=n"], "p app=w spread=zone:2:w", OK);
    check(&ZONES, &["x app=w on=n", "y app=w on=m"], "p app=w spread=zone:1:w", OK);
    // A pod that its own constraint does not select adds nothing.
    check(&ZONES, &["x app=w on=n"], "p spread=zone:1:w", OK);
    check(&["n", "m zone=b"], &[], "p spread=zone:1:w", "PodTopologySpread");
}

#[test]
fn a_wish_to_spread_keeps_nobody_off() {
    check(&ZONES, &["x app=w on=n"], "p app=w soft=zone:1:w", OK);
}

#[test]
fn spread_counts_only_live_pods_of_the_same_namespace() {
    let spread = "p app=w spread=zone:1:w";
    check(&ZONES, &["x app=w on=n terminating"], spread, OK);
    check(&ZONES, &["x app=w on=n ended"], spread, OK);
    check(&ZONES, &["x ns=other app=w on=n"], spread, OK);
}

#[test]
fn spread_counts_pods_and_domains_of_leaving_nodes() {
    check(&["n zone=a", "m zone=b leaving"], &["x app=w on=n"], "p app=w spread=zone:1:w", "PodTopologySpread");
    check(&["n zone=a", "m zone=b leaving"], &["x app=w on=n", "y app=w on=m"], "p app=w spread=zone:1:w", OK);
}

#[test]
fn with_too_few_domains_the_least_count_is_zero() {
    let standing = ["x app=w on=n", "y app=w on=m"];
    let mut incoming = pod("p app=w spread=zone:1:w");
    incoming.wants.spread[0].min_domains = Some(3);
    check_pod(&ZONES, &standing, &incoming, "PodTopologySpread");
    incoming.wants.spread[0].min_domains = Some(2);
    check_pod(&ZONES, &standing, &incoming, OK);
}

#[test]
fn the_taints_policy_decides_whether_tainted_nodes_are_domains() {
    for tainted in ["m zone=b taint=x:NoSchedule", "m zone=b leaving"] {
        let mut incoming = pod("p app=w spread=zone:1:w");
        check_pod(&["n zone=a", tainted], &["x app=w on=n"], &incoming, "PodTopologySpread");
        incoming.wants.spread[0].node_taints = Policy::Honor;
        check_pod(&["n zone=a", tainted], &["x app=w on=n"], &incoming, OK);
    }
    let mut tolerant = pod("p app=w spread=zone:1:w !x");
    tolerant.wants.spread[0].node_taints = Policy::Honor;
    check_pod(&["n zone=a", "m zone=b taint=x:NoSchedule"], &["x app=w on=n"], &tolerant, "PodTopologySpread");
}

#[test]
fn the_affinity_policy_decides_whether_unwanted_nodes_are_domains() {
    let mut incoming = pod("p app=w spread=zone:1:w @zone=a");
    check_pod(&ZONES, &["x app=w on=n"], &incoming, OK);
    incoming.wants.spread[0].node_affinity = Policy::Ignore;
    check_pod(&ZONES, &["x app=w on=n"], &incoming, "PodTopologySpread");
}

#[test]
fn a_node_is_a_domain_only_with_the_labels_of_all_constraints() {
    let two = "p app=w spread=zone:1:w spread=rack:9:w";
    check(&["n zone=a rack=1", "m zone=b"], &["x app=w on=n"], two, OK);
    check(&["n zone=a rack=1", "m zone=b rack=1"], &["x app=w on=n"], two, "PodTopologySpread");
}

#[test]
fn a_spread_selector_without_demands_counts_nobody() {
    let mut incoming = pod("p app=w spread=zone:1:w");
    incoming.wants.spread[0].selector = Selector::Matching(Requirements::default());
    check_pod(&ZONES, &["x app=w on=n"], &incoming, OK);
}

#[test]
fn affinity_needs_a_partner_in_the_domain() {
    check(&ZONES, &["x app=w on=m"], "p near=zone:w", "InterPodAffinity");
    check(&ZONES, &["x app=w on=n"], "p near=zone:w", OK);
    check(&["n zone=a", "o zone=a"], &["x app=w on=o"], "p near=zone:w", OK);
    check(&["n", "m"], &["x app=w on=n"], "p near=zone:w", "InterPodAffinity");
    check(&ZONES, &["x ns=other app=w on=n"], "p near=zone:w", "InterPodAffinity");
    check(&ZONES, &["x app=w on=n terminating"], "p near=zone:w", OK);
}

#[test]
fn the_first_of_its_kind_needs_no_partner() {
    check(&ZONES, &[], "p near=zone:w", "InterPodAffinity");
    check(&ZONES, &[], "p app=w near=zone:w", OK);
    check(&ZONES, &["x app=w on=m"], "p app=w near=zone:w", "InterPodAffinity");
    check(&["n"], &[], "p app=w near=zone:w", "InterPodAffinity");
}

#[test]
fn a_partner_must_match_all_terms() {
    let mut both = pod("p near=zone:w near=host:w");
    both.wants.together[1].selector = Selector::Matching(one("tier", "x"));
    check_pod(&ZONES, &["x app=w on=n", "y tier=x on=n"], &both, "InterPodAffinity");
    check_pod(&ZONES, &["x app=w tier=x on=n"], &both, OK);
}

#[test]
fn a_pod_keeps_away_from_those_it_shuns() {
    check(&ZONES, &["x app=w on=n"], "p apart=zone:w", "InterPodAffinity");
    check(&ZONES, &["x app=w on=m"], "p apart=zone:w", OK);
    check(&["n", "m"], &["x app=w on=n"], "p apart=zone:w", OK);
}

#[test]
fn a_pod_keeps_away_from_those_that_shun_it() {
    check(&ZONES, &["x apart=zone:w on=n"], "p app=w", "InterPodAffinity");
    check(&ZONES, &["x apart=zone:w on=m"], "p app=w", OK);
    check(&ZONES, &["x apart=zone:w on=n"], "p app=v", OK);
    check(&["n zone=a", "m zone=a leaving"], &["x apart=zone:w on=m"], "p app=w", "InterPodAffinity");
}

#[test]
fn terms_look_only_into_their_namespaces() {
    let mut incoming = pod("p apart=zone:w");
    check_pod(&ZONES, &["x ns=other app=w on=n"], &incoming, OK);
    incoming.wants.apart[0].namespaces = Namespaces::All;
    check_pod(&ZONES, &["x ns=other app=w on=n"], &incoming, "InterPodAffinity");
}

#[test]
fn room_is_kept_for_daemons_that_have_not_come() {
    let world = |standing: &[&str], daemon: &str| {
        let mut snapshot = snapshot(&["n cpu=4 zone=a taint=x:NoSchedule"], standing);
        add_daemon(&mut snapshot, daemon);
        World::new(&snapshot)
    };
    check_world(&world(&[], "d cpu=2 !x"), &pod("p cpu=3 !x"), "NodeResourcesFit");
    check_world(&world(&[], "d cpu=2 !x"), &pod("p cpu=2 !x"), OK);
    // A daemon that belongs elsewhere, or has come, keeps nothing.
    check_world(&world(&[], "d cpu=2"), &pod("p cpu=4 !x"), OK);
    check_world(&world(&[], "d cpu=2 !x @zone=b"), &pod("p cpu=4 !x"), OK);
    check_world(&world(&[], "d cpu=2 !x ?zone=b"), &pod("p cpu=4 !x"), OK);
    check_world(&world(&["d1 cpu=1 daemon on=n"], "d cpu=1 !x"), &pod("p cpu=3 !x"), OK);
    // The daemon itself is not kept out by its own room.
    check_world(&world(&[], "d cpu=2 !x"), &pod("d1 cpu=4 daemon !x"), OK);
}

#[test]
fn a_daemon_takes_one_of_the_places_for_pods_whoever_wrote_its_requests() {
    let mut town = snapshot(&["n pods=1"], &[]);
    add_daemon(&mut town, "d pods=0");
    check_world(&World::new(&town), &pod("p"), "NodeResourcesFit");
    town.daemons.clear();
    check_world(&World::new(&town), &pod("p"), OK);
}

#[test]
fn devices_cannot_be_judged_and_unknown_nodes_are_named() {
    let mut incoming = pod("p");
    incoming.wants.has_resource_claims = true;
    check_pod(&["n"], &[], &incoming, "DynamicResources");
    let world = World::new(&snapshot(&["m"], &[]));
    let unknown = filter(&world, &pod("p"), &"n".into()).unwrap_err();
    assert_eq!(unknown.to_string(), "pod default/p is placed on node n, which is not there");
}

#[test]
fn a_claim_without_a_node_gets_the_hostname_that_the_kubelet_will_set() {
    let mut coming = node("n");
    coming.labels.clear();
    coming.progress = model::node::Progress::Starting { has_node: false };
    let mut snapshot = snapshot(&[], &[]);
    snapshot.nodes.insert(coming.name.clone(), Arc::new(coming.clone()));
    let world = World::new(&snapshot);
    assert_eq!(world.node(&"n".into()).unwrap().labels.get(key("host")).map(|name| &**name), Some("n"));
    // A Node that lacks the label really lacks it.
    coming.progress = model::node::Progress::Initialized;
    snapshot.nodes.insert(coming.name.clone(), Arc::new(coming));
    check_world(&World::new(&snapshot), &pod("p @host=n"), "NodeAffinity");
}
