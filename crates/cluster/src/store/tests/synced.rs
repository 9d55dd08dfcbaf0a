use std::time::Duration;

use super::*;

fn list(store: &mut Store, kind: Kind, objects: Vec<Object>) {
    store.restart(kind);
    for object in objects {
        store.apply(object, at(0));
    }
    store.finish_list(kind, None, at(0));
}

fn expecting(kinds: &[Kind]) -> Store {
    let settings = Settings { expected: kinds.iter().copied().collect(), ..store().settings().clone() };
    Store::new(settings, at(0))
}

// 01/STA-06, 02/ST6
#[test]
fn the_state_is_complete_when_everything_expected_was_listed_once() {
    let mut store = expecting(&[Kind::Node, Kind::NodeClaim]);
    assert_eq!(store.missing_kinds(), [Kind::Node, Kind::NodeClaim]);
    list(&mut store, Kind::Node, vec![node("n", "id-1", json!({})), node("f", "", foreign())]);
    assert!(!store.is_synced(), "a list of claims may show machines that nobody knows");
    assert_eq!(store.missing_kinds(), [Kind::NodeClaim]);
    assert_eq!(store.unsynced_for(at(40)), Some(Duration::from_secs(40)));
    store.restart(Kind::NodeClaim);
    store.apply(claim("c", launched("id-1")), at(0));
    assert!(!store.is_synced(), "the list is not over");
    store.finish_list(Kind::NodeClaim, None, at(0));
    assert!(store.is_synced());
    assert_eq!((store.unsynced_for(at(50)), store.shown()), (None, vec!["f", "n"]));
    store.apply(node("late", "", foreign()), at(50));
    store.restart(Kind::Node);
    assert!(store.is_synced(), "what was known is known also while it is listed again");
}

/// The reference stops everything while any claim has no machine. Here such a claim is planned with as what it may become.
// 01/STA-06, 02/ST6
#[test]
fn a_claim_without_a_machine_stops_nothing() {
    let mut store = expecting(&[Kind::NodeClaim]);
    list(&mut store, Kind::NodeClaim, vec![claim("c", json!({})).into()]);
    assert!(store.is_synced());
    store.assume_claim(claim("d", json!({})), at(1));
    assert!(store.is_synced());
    assert_eq!(store.snapshot(at(1)).nodes.len(), 2);
}

#[test]
fn nobody_waits_for_a_kind_that_the_cluster_does_not_have() {
    let overlay = || {
        let spec = json!({"requirements": [], "price": "0.1"});
        let wire = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "o"}, "spec": spec});
        Object::from(read::<api::NodeOverlay>(merged(wire, version(1))))
    };
    let mut store = expecting(&[Kind::CapacityBuffer]);
    store.apply(overlay(), at(0));
    store.set_absent(Kind::NodeOverlay, at(0));
    assert_eq!(store.overlays().count(), 0);
    list(&mut store, Kind::NodeOverlay, vec![overlay()]);
    assert_eq!(store.overlays().count(), 1, "the kind has come back, and its objects as they were");
    assert!(!store.is_synced());
    store.excuse(Kind::CapacityBuffer);
    assert!(store.is_synced());
}

#[test]
fn that_a_kind_is_not_served_without_which_nothing_works_is_not_believed() {
    let mut store = expecting(&[Kind::NodeClaim]);
    store.set_absent(Kind::NodeClaim, at(0));
    assert!(!store.is_synced());
    list(&mut store, Kind::NodeClaim, vec![claim("c", launched("id-1")).into()]);
    assert!(store.set_absent(Kind::NodeClaim, at(1)).is_empty());
    assert_eq!((store.is_synced(), store.shown()), (true, vec!["c"]));
}

#[test]
fn a_new_list_takes_away_what_it_does_not_have() {
    let first = pod("a", merged(bound("n"), version(1)));
    let mut store = store().with([first, pod("b", bound("n")), node("n", "", foreign())]);
    list(&mut store, Kind::Pod, vec![pod("b", bound("n")), pod("c", bound("n"))]);
    assert_eq!(store.snapshot(at(1)).pods.keys().map(|name| &*name.name).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(store.shown(), ["n"], "other kinds are not concerned");
    list(
        &mut store,
        Kind::Pod,
        vec![pod("a", merged(bound("n"), version(1))), pod("b", bound("n")), pod("c", bound("n"))],
    );
    assert_eq!(store.pod_count(), 3, "a list that was wrong is made good by the next one");
    list(&mut store, Kind::Pod, vec![pod("b", bound("n")), pod("c", bound("n"))]);
    store.finish_list(Kind::Pod, None, at(0));
    assert_eq!(store.pod_count(), 2, "an end without a beginning takes nothing away");
    store.restart(Kind::Pod);
    let key = pod("b", json!({})).key();
    store.see_undecodable(&Undecodable { key, uid: None, node: None, problem: "no list".into() });
    store.finish_list(Kind::Pod, None, at(0));
    assert_eq!(store.pod_count(), 1, "what cannot be read is still there");
    list(&mut store, Kind::Node, Vec::new());
    assert!(store.shown().is_empty());
}
