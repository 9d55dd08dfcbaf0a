use model::node::Progress;

use super::*;
use crate::wake::Duty;

fn progress(store: &Store, name: &str) -> Progress {
    store.machines()[&NodeName::from(name)].node.progress.clone()
}

// 01/STA-04, 02/ST2
#[test]
fn a_claim_and_its_node_are_one_machine_as_soon_as_both_know_its_id() {
    let mut store = store().with([claim("c", json!({})).into()]);
    assert!(matches!(progress(&store, "c"), Progress::Unlaunched { .. }));
    store.apply(node("n", "id-1", not_registered()), at(0));
    assert_eq!(store.shown(), ["c"], "a Node of ours that nobody knows yet stays behind its claim");
    let change = store.apply(claim("c", launched("id-1")), at(0));
    assert!(change.wake.contains(&Duty::Claim("c".into())) && change.wake.contains(&Duty::Node("n".into())));
    assert_eq!(store.shown(), ["n"]);
    assert_eq!(progress(&store, "n"), Progress::Starting { has_node: true });
    let change = store.apply(node("n", "id-1", json!({})), at(0));
    assert!(change.wake.contains(&Duty::Claim("c".into())), "{change:?}");
    assert_eq!(progress(&store, "n"), Progress::Initialized);
    assert_eq!(store.machine_of_claim(&"c".into()).unwrap().node.name.as_str(), "n");
    store.end(node("n", "id-1", json!({})));
    assert_eq!(store.shown(), ["c"], "the machine may still be there");
    store.end(claim("c", json!({})).into());
    assert!(store.shown().is_empty());
}

#[test]
fn a_claim_finds_its_node_before_anybody_has_said_which_type_that_is() {
    let mut store = store().with([claim("c", launched("id-1")).into()]);
    let Object::Node(mut typeless) = node("n", "id-1", not_registered()) else { unreachable!() };
    typeless.metadata.labels.as_mut().unwrap().remove("node.kubernetes.io/instance-type");
    let change = store.apply(*typeless, at(0));
    assert!(change.wake.contains(&Duty::Claim("c".into())), "it can be registered: {change:?}");
    let life = store.claim_life(&"c".into()).unwrap().value;
    assert_eq!(life.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n"]);
    assert_eq!(store.shown(), ["c"], "until then its claim speaks for it");
}

// 01/STA-04, 02/ST2
#[test]
fn a_node_of_others_that_learns_its_id_takes_its_own_place() {
    let mut store = store().with([node("n", "", foreign())]);
    assert_eq!((store.shown(), progress(&store, "n")), (vec!["n"], Progress::Initialized));
    store.apply(node("n", "", merged(foreign(), json!({"spec": {"providerID": "id-1"}}))), at(0));
    assert_eq!(store.shown(), ["n"]);
    assert_eq!(store.nodes_with_id("id-1").count(), 1);
    store.apply(node("n", "", merged(foreign(), json!({"spec": {"providerID": "id-2"}}))), at(0));
    assert_eq!((store.nodes_with_id("id-1").count(), store.nodes_with_id("id-2").count()), (0, 1));
    store.end(node("n", "", foreign()));
    assert_eq!((store.shown().len(), store.nodes_with_id("id-2").count()), (0, 0));
}

// 01/STA-02, 02/ST2
#[test]
fn a_node_and_a_claim_of_one_name_leave_nothing_behind() {
    let mut store = store().with([
        claim("x", launched("id-1")).into(),
        node("x", "id-1", json!({})),
        node("y", "", foreign()),
        claim("y", launched("id-2")).into(),
    ]);
    assert_eq!(store.shown(), ["nodeclaim/y", "x", "y"], "y is two machines, and both are to be seen");
    assert_eq!(store.machine_of_claim(&"y".into()).unwrap().node.name.as_str(), "nodeclaim/y");
    let snapshot = store.snapshot(at(0));
    let hosts: Vec<&str> = snapshot.nodes.values().map(|node| &*node.labels["kubernetes.io/hostname"]).collect();
    assert_eq!(hosts, ["nodeclaim/y", "x", "y"]);
    store.end(node("y", "", foreign()));
    assert_eq!(store.shown(), ["x", "y"]);
    assert_eq!(store.machines()[&"y".into()].claim, Some("y".into()));
    store.end(claim("x", json!({})).into());
    store.end(node("x", "id-1", json!({})));
    store.end(claim("y", json!({})).into());
    assert!(store.shown().is_empty() && store.claims_with_id("id-1").next().is_none());
    assert_eq!(store.snapshot(at(1)).nodes.len(), 0);
}

#[test]
fn of_two_with_one_id_the_oldest_counts() {
    let born = |minute: u32| json!({"metadata": {"creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z")}});
    let objects = || {
        [
            claim("late", merged(launched("id-1"), born(3))).into(),
            claim("early", merged(launched("id-1"), born(2))).into(),
            node("second", "id-1", born(6)),
            node("first", "id-1", born(5)),
        ]
    };
    let mut backwards = objects();
    backwards.reverse();
    for objects in [objects(), backwards] {
        let mut store = store().with(objects);
        assert_eq!(store.shown(), ["first", "second"]);
        assert_eq!(store.machines()[&"first".into()].claim, Some("early".into()));
        assert_eq!(store.machines()[&"second".into()].claim, None);
        store.end(node("first", "id-1", born(5)));
        assert_eq!(store.machines()[&"second".into()].claim, Some("early".into()));
        store.end(claim("early", born(2)).into());
        assert_eq!(store.machines()[&"second".into()].claim, Some("late".into()));
    }
}

#[test]
fn claims_and_pools_of_other_classes_are_nobody_here() {
    let other = json!({"spec": {"nodeClassRef": {"kind": "EC2NodeClass", "group": "karpenter.k8s.aws", "name": "d"}}});
    let mut store = store();
    let change = store.apply(claim("c", merged(launched("id-1"), other.clone())), at(0));
    assert!(change.is_empty() && store.shown().is_empty() && store.claims().is_empty());
    let change = store.apply(node_pool("b", json!({"spec": {"template": other}})), at(0));
    assert!(change.is_empty() && store.node_pools().is_empty());
    assert!(store.end(claim("c", other).into()).is_empty());
}

// 01/STA-03, 02/ST4
#[test]
fn the_end_of_either_half_marks_the_machine() {
    let is_leaving = |store: &Store, name: &str| store.machines()[&NodeName::from(name)].node.is_leaving;
    let both = || store().with([claim("c", launched("id-1")).into(), node("n", "id-1", json!({}))]);
    let mut store = both();
    assert!(!is_leaving(&store, "n"));
    store.apply(node("n", "id-1", deleting()), at(0));
    assert!(is_leaving(&store, "n"));
    let mut store = both();
    store.apply(claim("c", merged(launched("id-1"), deleting())), at(0));
    assert!(is_leaving(&store, "n"));
    let mut store = both();
    let ending = merged(launched("id-1"), condition("InstanceTerminating", "True"));
    store.apply(claim("c", ending), at(0));
    assert!(is_leaving(&store, "n"));
    store.apply(node("m", "", merged(foreign(), deleting())), at(0));
    assert!(is_leaving(&store, "m"));
}

// 02/ST9
#[test]
fn passing_taints_are_hidden_on_our_nodes_until_these_are_ready() {
    let tainted = json!({"spec": {"taints": [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}, {"key": "readiness.k8s.io/x", "effect": "NoSchedule"},
        {"key": "cni", "effect": "NoExecute"}, {"key": "own", "effect": "NoSchedule"},
    ]}});
    let ours = json!({"spec": {"startupTaints": [{"key": "cni", "effect": "NoExecute"}]}});
    let mut store = store().with([claim("c", merged(launched("id-1"), ours)).into()]);
    let taints = |store: &mut Store, node: Object| {
        store.apply(node, at(0));
        let shown = store.machines()[&NodeName::from("n")].node.clone();
        shown.taints.iter().map(|taint| taint.key.to_string()).collect::<Vec<_>>()
    };
    let starting = json!({"metadata": {"labels": {"karpenter.sh/initialized": ""}}});
    assert_eq!(taints(&mut store, node("n", "id-1", merged(tainted.clone(), starting))), ["own"]);
    assert_eq!(taints(&mut store, node("n", "id-1", tainted.clone())).len(), 4);
    store.end(claim("c", json!({})).into());
    assert_eq!(taints(&mut store, node("n", "", merged(foreign(), tainted))).len(), 4);
}

#[test]
fn drivers_of_a_node_limit_its_volumes() {
    let drivers = |count: i32| {
        let wire = json!({"metadata": {"name": "n"}, "spec": {"drivers": [
            {"name": "disk", "nodeID": "x", "allocatable": {"count": count}},
        ]}});
        Object::from(read::<k8s_openapi::api::storage::v1::CSINode>(wire))
    };
    let mut store = store().with([drivers(3), node("n", "", foreign())]);
    let limit = |store: &mut Store| store.snapshot(at(1)).nodes[&"n".into()].attach_limits.get(&"disk".into()).copied();
    assert_eq!(limit(&mut store), Some(3));
    store.apply(drivers(5), at(0));
    assert_eq!(limit(&mut store), Some(5));
    store.end(drivers(5));
    assert_eq!(limit(&mut store), None);
}

#[test]
fn volumes_that_are_attached_are_found_by_their_node() {
    let attachment = |node: &str| {
        let wire = json!({"metadata": {"name": "va"}, "spec": {
            "attacher": "disk", "nodeName": node, "source": {"persistentVolumeName": "pv"},
        }});
        Object::from(read::<k8s_openapi::api::storage::v1::VolumeAttachment>(wire))
    };
    let mut store = store().with([node("n", "", merged(foreign(), deleting()))]);
    assert!(store.apply(attachment("n"), at(0)).wake.contains(&Duty::Node("n".into())));
    let volumes =
        |store: &Store, node: &str| store.attachments_on(&node.into()).filter_map(|a| a.volume.clone()).count();
    assert_eq!((volumes(&store, "n"), volumes(&store, "m")), (1, 0));
    store.apply(attachment("m"), at(0));
    assert_eq!((volumes(&store, "n"), volumes(&store, "m")), (0, 1));
    store.end(attachment("m"));
    assert_eq!(volumes(&store, "m"), 0);
}

#[test]
fn what_says_nothing_new_wakes_nobody_but_has_its_version() {
    let stamped = |number: u64| {
        let conditions = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": format!("2026-01-01T00:00:{:02}Z", number)},
        ], "images": [{"names": ["x"], "sizeBytes": number}]}});
        node("n", "id-1", merged(conditions, version(number)))
    };
    let mut store = store().with([claim("c", merged(launched("id-1"), version(1))).into(), stamped(1)]);
    assert!(store.apply(stamped(2), at(0)).is_empty());
    assert_eq!(store.node(&"n".into()).unwrap().metadata.resource_version.as_deref(), Some("2"));
    assert!(store.apply(claim("c", merged(launched("id-1"), version(2))), at(0)).is_empty());
    assert_eq!(store.claim(&"c".into()).unwrap().metadata.resource_version.as_deref(), Some("2"));
}
