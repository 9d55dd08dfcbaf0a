//! Buffers: pods that do not exist, for room that shall be there.

use model::labels::NODE_POOL;
use model::plan::PlannedClaim;
use model::pod::Pod;
use model::requirements::Requirement;
use serde_json::{Value, json};

use crate::fixture::*;

fn template(spec: Value) -> Value {
    json!({"metadata": {"labels": {"app": "web", "tier": "front"}}, "spec": spec})
}

fn names(pods: &[Pod]) -> Vec<String> {
    pods.iter().map(|pod| pod.name.to_string()).collect()
}

fn base() -> Cluster {
    cluster([pool("default", json!({}))])
}

// 01/BUF-04
#[test]
fn the_pods_of_a_buffer_are_always_the_same_and_like_the_template_without_storage() {
    let lasting = json!({
        "nodeSelector": {ZONE: "b"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    });
    let storage = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "nobody-made-it"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "tmp", "emptyDir": {}},
    ]);
    let spec = merged(asking("1"), lasting);
    let with_storage = merged(spec.clone(), json!({"volumes": storage, "nodeName": "long-gone"}));
    let buffered = base().buffer("spare", 2, template(with_storage.clone())).lowered().1.buffered;
    let later =
        base().pods([pod("web", json!({}))]).node(node("there", "a", "4")).buffer("other", 1, template(asking("1")));
    let later = later.buffer("spare", 2, template(with_storage)).lowered().1.buffered;
    assert_eq!(buffered[..], later[1..], "whatever else is in the cluster");
    assert_eq!(names(&buffered), ["default/capacity-buffer-spare-1", "default/capacity-buffer-spare-2"]);
    let uids: Vec<&str> = buffered.iter().map(|pod| pod.uid.as_str()).collect();
    assert_eq!(uids, ["uid-spare-1", "uid-spare-2"]);
    let real = base().pods([pod("real", template(spec))]).lowered().1.pending.remove(0);
    for virtual_pod in buffered {
        assert!(virtual_pod.is_virtual && virtual_pod.problems.is_empty() && virtual_pod.node.is_none());
        assert_eq!(virtual_pod.labels, real.labels);
        assert_eq!((virtual_pod.requests, virtual_pod.wants), (real.requests.clone(), real.wants.clone()));
    }
}

// 01/BUF-04
#[test]
fn a_buffer_gets_room_that_is_there_or_new_machines_after_all_real_pods() {
    let spare = |cluster: Cluster, count: i32| cluster.buffer("spare", count, template(asking("1500m")));
    let fresh = spare(base(), 2).pass();
    assert_eq!((fresh.placed(), fresh.plan.unplaced.len()), (2, 0));
    assert!(fresh.claims() > 0);
    let on_node = spare(base().node(node("there", "a", "3")), 2).pass();
    assert_eq!((on_node.placed(), on_node.claims()), (2, 0), "room that is there is enough");
    let real = || pod("real", json!({"spec": asking("1")}));
    let tight = || cluster([pool("default", json!({"spec": {"limits": {"cpu": "2"}}}))]).pods([real()]);
    let pass = spare(tight(), 1).pass();
    assert!(pass.target("real").is_some(), "the smaller pod comes first, because it is real");
    let left_out: Vec<String> = pass.plan.unplaced.iter().map(|unplaced| unplaced.pod.to_string()).collect();
    assert_eq!(left_out, ["default/capacity-buffer-spare-1"]);
    let crowded = spare(base().node(node("there", "a", "2")).pods([real()]), 1).pass();
    assert_eq!(crowded.domain("real", HOST), "there");
    assert_eq!(crowded.claims(), 1, "the buffer moves on when a real pod takes its room");
}

// 01/BUF-04
#[test]
fn a_buffer_leaves_no_traces() {
    let spread = json!([{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    let real = |number: usize| {
        let spec = merged(asking("700m"), json!({"topologySpreadConstraints": spread}));
        pod(&format!("real-{number}"), template(spec))
    };
    let quiet = || base().node(node("there", "a", "2")).pods((0..3).map(real));
    let buffered = || quiet().buffer("spare", 5, template(asking("300m")));
    let expected = quiet().pass();
    let (with_buffer, mut batch) = buffered().lowered();
    assert_eq!(batch.buffered.len(), 5);
    batch.buffered.clear();
    assert_eq!(planned(&with_buffer, &batch), expected.plan, "who does not ask about them does not meet them");
    let pass = buffered().pass();
    assert_eq!((pass.placed(), pass.plan.unplaced.len()), (8, 0));
    for number in 0..3 {
        let name = format!("real-{number}");
        assert_eq!(pass.domain(&name, ZONE), expected.domain(&name, ZONE), "{name} stands where it would stand anyway");
    }
    assert_eq!(pass.snapshot, with_buffer, "a plan binds nobody, so the next pass starts from the same world");
    assert_eq!(buffered().pass().plan, pass.plan);
    assert_eq!(quiet().pass().plan, expected.plan, "and without the buffer everything is as before");
}

/// The planned claim, as one of another pool.
fn moved_to(pool: &str, planned: &PlannedClaim) -> PlannedClaim {
    let mut moved = planned.clone();
    moved.pool = pool.into();
    moved.requirements.remove(NODE_POOL);
    moved.requirements.add(NODE_POOL, Requirement::value(pool.into()));
    moved
}

// 01/NPL-06
#[test]
fn neither_pods_nor_buffers_make_a_static_pool_grow_but_its_nodes_take_them() {
    let pools = || [pool("fixed", json!({"spec": {"replicas": 5}})), pool("grows", json!({}))];
    let on = |pool: &str| merged(asking("1500m"), json!({"nodeSelector": {NODE_POOL: pool}}));
    let only_fixed = cluster(pools()).pods([pod("real", json!({"spec": on("fixed")}))]);
    let pass = only_fixed.buffer("spare", 1, template(on("fixed"))).pass();
    assert_eq!((pass.placed(), pass.claims(), pass.plan.unplaced.len()), (0, 0, 2));
    let anywhere = || {
        cluster(pools()).pods([pod("real", json!({"spec": asking("1500m")}))]).buffer(
            "spare",
            3,
            template(asking("1500m")),
        )
    };
    let pass = anywhere().pass();
    assert_eq!(pass.placed(), 4);
    assert!(pass.plan.claims.iter().all(|claim| claim.pool.as_str() == "grows"));
    let planned = cluster([pool("grows", json!({}))]).pods([pod("a", json!({"spec": asking("1500m")}))]).pass().plan;
    let fixed = machine("fixed-1", &moved_to("fixed", &planned.claims[0]), Stage::Initialized);
    let pass = anywhere().machine(fixed).pass();
    assert_eq!(pass.domain("real", HOST), "node-of-fixed-1");
    assert!(pass.plan.claims.iter().all(|claim| claim.pool.as_str() == "grows"));
}
