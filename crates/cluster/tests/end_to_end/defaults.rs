//! Spreads that the operator chose for pods without any.

use model::why::Obstacle;
use serde_json::{Value, json};

use crate::fixture::*;

fn by_zone(action: &str) -> Value {
    json!([{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action}])
}

/// A pod of a replica set, with the labels that the set selects by.
fn replica(name: &str, set: &str, labels: Value) -> Value {
    pod(name, json!({"metadata": {"labels": labels, "ownerReferences": owner("apps/v1", "ReplicaSet", set)}}))
}

fn replicas(prefix: &str, count: usize, set: &str, labels: &Value) -> Vec<Value> {
    (0..count).map(|number| replica(&format!("{prefix}-{number}"), set, labels.clone())).collect()
}

/// Two pods of a set run in zone a, on a node that is full.
fn with_two_in_zone_a(cluster: Cluster, set: &str, labels: &Value) -> Cluster {
    let there = replicas("there", 2, set, labels).into_iter().map(|pod| bound(pod, "full"));
    cluster.node(node("full", "a", "200m")).pods(there)
}

// 01/DTS-05
#[test]
fn pods_that_are_there_count_for_a_default_spread() {
    let web = json!({"app": "web"});
    let base = || {
        let cluster = cluster([pool("default", json!({}))]).default_spread(by_zone("DoNotSchedule"));
        with_two_in_zone_a(cluster.replica_set("web", web.clone()), "web", &web)
    };
    let spread = |count: usize| base().pods(replicas("new", count, "web", &web)).pass().spread("new", ZONE);
    assert_eq!(spread(2), counts(&[("b", 2)]));
    assert_eq!(spread(4), counts(&[("a", 1), ("b", 3)]));
}

// 01/DTS-05
#[test]
fn each_workload_and_each_revision_spreads_for_itself() {
    let (web, shop) = (json!({"app": "web"}), json!({"app": "shop"}));
    let (old, new) = (json!({"app": "web", "pod-template-hash": "1"}), json!({"app": "web", "pod-template-hash": "2"}));
    for (standing, others) in [(&web, &shop), (&old, &new)] {
        let base = || {
            let cluster = cluster([pool("default", json!({}))]).default_spread(by_zone("DoNotSchedule"));
            let sets = cluster.replica_set("first", standing.clone()).replica_set("second", others.clone());
            with_two_in_zone_a(sets, "first", standing).pods(replicas("second", 2, "second", others))
        };
        let one_in_each = counts(&[("a", 1), ("b", 1)]);
        assert_eq!(base().pass().spread("second", ZONE), one_in_each, "{others} beside two of {standing}");
        let both = base().pods(replicas("first", 2, "first", standing)).pass();
        assert_eq!(both.spread("first", ZONE), counts(&[("b", 2)]), "{standing}");
        assert_eq!(both.spread("second", ZONE), one_in_each, "{others}");
    }
}

#[test]
fn owners_that_own_each_other_or_themselves_lead_nowhere_and_harm_nobody() {
    let owned = |name: &str, by: &str| pod(name, json!({"metadata": {"ownerReferences": owner("v1", "Pod", by)}}));
    let cluster = cluster([pool("default", json!({}))]).default_spread(by_zone("DoNotSchedule"));
    let answer = cluster.pods([owned("a", "b"), owned("b", "a"), owned("self", "self")]).pass();
    assert_eq!(answer.plan.placements.len(), 3, "{:?}", answer.plan);
}

// 01/DTS-06
#[test]
fn a_default_keeps_its_least_number_of_domains() {
    let web = json!({"app": "web"});
    let placed = |constraints: Value| {
        let cluster = cluster([pool("default", json!({}))]).default_spread(constraints);
        let pass = cluster.replica_set("web", web.clone()).pods(replicas("new", 3, "web", &web)).pass();
        pass.spread("new", ZONE).into_values().collect::<Vec<_>>()
    };
    let mut three = by_zone("DoNotSchedule");
    three[0]["minDomains"] = 3.into();
    assert_eq!(placed(three), [1, 1]);
    assert_eq!(placed(by_zone("DoNotSchedule")).iter().sum::<usize>(), 3);
}

// 01/DTS-06
#[test]
fn a_hard_default_holds_pods_back_and_a_soft_one_gives_way() {
    let web = json!({"app": "web"});
    let with_empty_zone = |action: &str| {
        cluster([pool("default", json!({}))])
            .default_spread(by_zone(action))
            .node(node("full", "c", "0"))
            .replica_set("web", web.clone())
            .pods(replicas("new", 4, "web", &web))
            .pass()
    };
    let hard = with_empty_zone("DoNotSchedule");
    assert_eq!(
        hard.spread("new", ZONE),
        counts(&[("a", 1), ("b", 1)]),
        "nobody is in zone c, and nobody can get there"
    );
    let is_spread = |obstacle: &Obstacle| matches!(obstacle, Obstacle::Spread { max_skew: 1, .. });
    assert_eq!(hard.plan.unplaced.len(), 2);
    assert!(hard.plan.unplaced.iter().all(|unplaced| unplaced.pools[0].1.iter().all(is_spread)));
    let soft = with_empty_zone("ScheduleAnyway");
    assert_eq!((soft.placed(), soft.plan.unplaced.len()), (4, 0));
    let open = cluster([pool("default", json!({}))]).default_spread(by_zone("ScheduleAnyway"));
    let open = open.replica_set("web", web.clone()).pods(replicas("new", 4, "web", &web)).pass();
    assert_eq!(open.spread("new", ZONE), counts(&[("a", 2), ("b", 2)]), "a wish is granted where it can be");
}

// 01/DTS-06
#[test]
fn a_default_that_gives_way_for_one_pod_still_holds_for_its_siblings() {
    let web = json!({"app": "web"});
    let company = json!([{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "anchor"}}}]);
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": company}});
    let tied = replicas("tied", 3, "web", &web)
        .into_iter()
        .map(|pod| merged(pod, json!({"spec": merged(asking("200m"), json!({"affinity": affinity}))})));
    let anchor = bound(pod("anchor", json!({"metadata": {"labels": {"app": "anchor"}}})), "full");
    let pass = cluster([pool("default", json!({}))])
        .default_spread(by_zone("ScheduleAnyway"))
        .replica_set("web", web.clone())
        .node(node("full", "a", "100m"))
        .pods([anchor])
        .pods(tied)
        .pods(replicas("free", 2, "web", &web))
        .pass();
    assert_eq!(pass.spread("tied", ZONE), counts(&[("a", 3)]));
    assert_eq!(pass.spread("free", ZONE), counts(&[("b", 2)]));
    let still_spread = |pod: &model::pod::Pod| pod.wants.spread.len() == 1;
    assert!(pass.batch.pending.iter().all(still_spread), "what was asked of a pod is not forgotten by planning");
}
