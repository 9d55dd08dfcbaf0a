//! What makes disruption look again, and what does not.

use std::time::Duration;

use api::record::DecisionKind;

use super::*;

// 01/STA-08, 02/ST8
#[test]
fn quiet_ends_on_request_after_five_minutes_and_with_a_pool() {
    let mut store = store().with([node_pool("a", json!({}))]);
    let mut before = store.quiet_mark(at(0));
    let mut check = |store: &mut Store, second: i64, ends: bool, why: &str| {
        let after = store.quiet_mark(at(second));
        assert_eq!(after != before, ends, "{why}");
        before = after;
    };
    check(&mut store, 299, false, "nothing happened");
    check(&mut store, 300, true, "after five minutes");
    store.end_quiet(at(301));
    check(&mut store, 301, true, "on request");
    store.apply(node_pool("a", condition("ValidationSucceeded", "True")), at(302));
    check(&mut store, 302, false, "a pool's status is nothing new");
    store.apply(node_pool("a", json!({"spec": {"weight": 5}})), at(303));
    check(&mut store, 303, true, "a pool");
    store.apply(claim("c", launched("id-1")), at(304));
    check(&mut store, 304, false, "a claim gives nobody room yet");
    store.apply(node("n", "id-1", not_registered()), at(305));
    check(&mut store, 305, false, "nor does a node that is starting");
    store.apply(node("n", "id-1", json!({})), at(306));
    check(&mut store, 306, true, "a node is ready");
    store.apply(pod("p", json!({})), at(307));
    check(&mut store, 307, false, "a pod that is nowhere");
    store.apply(pod("p", bound("n")), at(308));
    check(&mut store, 308, false, "a pod came");
    store.apply(claim("c", merged(launched("id-1"), condition("Consolidatable", "True"))), at(309));
    check(&mut store, 309, true, "a node may be consolidated");
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    store.apply(node("n", "id-1", protected.clone()), at(309));
    check(&mut store, 309, true, "a node is protected");
    store.apply(pod("p", merged(bound("n"), protected)), at(309));
    check(&mut store, 309, true, "a pod is protected");
    store.apply(pod("p", merged(bound("n"), json!({"status": {"phase": "Succeeded"}}))), at(309));
    check(&mut store, 309, true, "a pod is done");
    store.end(pod("p", json!({})));
    check(&mut store, 310, false, "a pod that was done is cleared away");
    store.apply(claim("c", merged(launched("id-1"), deleting())), at(311));
    check(&mut store, 311, true, "a node is to go");
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "o"},
        "spec": {"requirements": [], "price": "0.1"},
    });
    store.apply(read::<api::NodeOverlay>(overlay), at(312));
    check(&mut store, 312, true, "an overlay");
}

/// Only what is sure to take room or rest away ends no quiet: a look that found nothing would find nothing again.
#[test]
fn whatever_may_give_room_ends_the_quiet() {
    let ready = |is_ready: &str| json!({"status": {"conditions": [{"type": "Ready", "status": is_ready}]}});
    let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let cpu = |cpu: &str| json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}});
    let waiting = waiting();
    let last_event = |second: i64| json!({"status": {"lastPodEventTime": at(second).to_string()}});
    let label = |value: &str| json!({"metadata": {"labels": {"app": value}}});
    let on_n = |change: Value| -> Object { pod("p", merged(bound("n"), change)) };
    let of_c = |change: Value| -> Object { claim("c", merged(launched("id-1"), change)).into() };
    let unready = json!({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}});
    for (why, ends, before, after) in [
        ("a pod shrinks", true, on_n(cpu("2")), on_n(cpu("1"))),
        ("a pod is no longer whom others avoid", true, on_n(label("a")), on_n(label("b"))),
        ("a pod is ready", false, on_n(ready("False")), on_n(ready("True"))),
        ("a pod is not ready any more", true, on_n(ready("True")), on_n(ready("False"))),
        ("a pod begins to wait", false, pod("p", json!({})), pod("p", waiting.clone())),
        ("a pod that waited is held back", true, pod("p", waiting.clone()), pod("p", json!({}))),
        ("a node is closed", false, node("n", "id-1", json!({})), node("n", "id-1", tainted.clone())),
        ("a node is open again", true, node("n", "id-1", tainted), node("n", "id-1", json!({}))),
        ("somebody else's node is open", true, node("other", "id-9", unready), node("other", "id-9", json!({}))),
        ("a node has a label", true, node("n", "id-1", json!({})), node("n", "id-1", label("a"))),
        ("a pod came and went", false, of_c(last_event(1)), of_c(last_event(2))),
    ] {
        let mut store = store().with([of_c(json!({})), node("n", "id-1", json!({}))]);
        store.apply(before, at(1));
        let mark = store.quiet_mark(at(1));
        store.apply(after, at(2));
        assert_eq!(store.quiet_mark(at(2)) != mark, ends, "{why}");
    }
    let mut store = store().with([pod("p", waiting.clone())]);
    let mark = store.quiet_mark(at(1));
    store.end(pod("p", waiting));
    assert_ne!(store.quiet_mark(at(2)), mark, "a node may have been kept for a pod that waited");
}

// Decision 0080.
#[test]
fn a_pod_that_comes_elsewhere_than_was_reckoned_with_leaves_room_behind() {
    for (why, ends, is_seen, place) in [
        ("the last look did not know that it waits", false, false, None),
        ("nobody knows where it was to go", true, true, None),
        ("it went where it was to go", false, true, Some("n")),
        ("it was to go elsewhere", true, true, Some("m")),
    ] {
        let machines = [claim("c", launched("id-1")).into(), node("n", "id-1", json!({})), node("m", "", foreign())];
        let mut store = store().with(machines).with([pod("p", waiting())]);
        if is_seen {
            store.batch_for(DecisionKind::Disruption, at(1));
        }
        // Nobody else's look counts, and every look counts for itself.
        store.batch_for(DecisionKind::Provisioning, at(1));
        place.into_iter().for_each(|place| store.promise(&named("p"), &place.into()));
        let mark = store.quiet_mark(at(1));
        store.apply(pod("p", bound("n")), at(2));
        assert_eq!(store.quiet_mark(at(2)) != mark, ends, "{why}");
    }
}

// Decision 0080.
#[test]
fn the_end_of_a_machine_is_heard_once() {
    let ending = || merged(merged(launched("id-1"), deleting()), condition("InstanceTerminating", "True"));
    let mut store = store().with([claim("c", launched("id-1")).into(), node("n", "id-1", json!({}))]);
    let mut mark = store.quiet_mark(at(0));
    let mut check = |store: &mut Store, ends: bool, why: &str| {
        let now = store.quiet_mark(at(1));
        assert_eq!(now != mark, ends, "{why}");
        mark = now;
    };
    store.apply(claim("c", merged(launched("id-1"), deleting())), at(1));
    check(&mut store, true, "it begins to leave, and limits count it no more");
    store.apply(node("n", "id-1", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}})), at(1));
    check(&mut store, false, "it is closed");
    store.apply(claim("c", ending()), at(1));
    check(&mut store, true, "budgets count it no more");
    store.end(node("n", "id-1", json!({})));
    check(&mut store, false, "its claim stands for it again");
    store.end(claim("c", ending()).into());
    check(&mut store, false, "nothing is left of it");
    store.apply(claim("d", json!({})), at(1));
    check(&mut store, false, "another one is asked for");
    store.end(claim("d", json!({})).into());
    check(&mut store, true, "its pool may buy for it");
    store.apply(claim("e", launched("id-2")), at(1));
    store.apply(node("m", "id-2", not_registered()), at(1));
    check(&mut store, false, "one is known by its Node's name now");
    store.end(claim("e", launched("id-2")).into());
    check(&mut store, true, "and gone before it was ready");
}

// Decision 0080.
#[test]
fn that_a_node_has_settled_is_no_news_for_whoever_foresaw_it() {
    let after = |after: &str| json!({"spec": {"disruption": {"consolidateAfter": after}}});
    let initialized = || condition("Initialized", "True");
    let settled = || {
        let mut both = condition("Initialized", "True");
        let more = condition("Consolidatable", "True")["status"]["conditions"][0].clone();
        both["status"]["conditions"].as_array_mut().unwrap().push(more);
        both
    };
    let of_c = |change: Value| -> Object { claim("c", merged(launched("id-1"), change)).into() };
    let initialized_at = at(1_767_225_600);
    let in_all = |seconds: i64| initialized_at.plus(Duration::from_secs(seconds as u64));
    for (why, ends, pool, before, changed, now) in [
        ("its time was over", false, after("60s"), initialized(), settled(), in_all(60)),
        ("its time was not over", true, after("60s"), initialized(), settled(), in_all(59)),
        ("nobody knows its time", true, after("60s"), json!({}), condition("Consolidatable", "True"), in_all(60)),
        ("it rests again", false, after("60s"), settled(), initialized(), in_all(60)),
    ] {
        let mut store = store().with([node_pool("a", pool), of_c(before), node("n", "id-1", json!({}))]);
        let mark = store.quiet_mark(now);
        store.apply(of_c(changed), now);
        assert_eq!(store.quiet_mark(now) != mark, ends, "{why}");
    }
    let machines = [of_c(initialized()), node("n", "id-1", json!({}))];
    let store = store().with([node_pool("a", after("60s"))]).with(machines);
    assert_eq!(store.next_to_settle(initialized_at), Some(in_all(60)));
    assert_eq!(store.next_to_settle(in_all(60)), None, "it has settled by then");
}

// Decision 0080.
#[test]
fn nominations_hold_only_nodes_that_nothing_else_keeps() {
    let after = |after: &str| json!({"spec": {"disruption": {"consolidateAfter": after}}});
    for (why, is_held, pool, of_claim, of_node) in [
        ("it has yet to settle", false, after("1m"), json!({}), json!({})),
        ("it has settled", true, after("1m"), condition("Consolidatable", "True"), json!({})),
        ("it has drifted and may go at any time", true, after("1m"), condition("Drifted", "True"), json!({})),
        ("it need not settle", true, after("0s"), json!({}), json!({})),
        ("it is starting", false, after("0s"), json!({}), not_registered()),
    ] {
        let machines = [claim("c", merged(launched("id-1"), of_claim)).into(), node("n", "id-1", of_node)];
        let mut store = store().with([node_pool("a", pool)]).with(machines).with([pod("p", waiting())]);
        store.nominate(&named("p"), &"c".into(), at(1));
        assert_eq!(store.nominated(at(1)).len(), 1);
        assert_eq!(store.held_by_nomination(at(1)).len(), usize::from(is_held), "{why}");
        assert!(store.held_by_nomination(at(21)).is_empty());
    }
}

// Decision 0073.
#[test]
fn room_on_a_node_that_has_yet_to_settle_ends_no_quiet() {
    let after = |after: &str| json!({"spec": {"disruption": {"consolidateAfter": after}}});
    let nothing = || json!({});
    let owned = |kind: &str| {
        let owner = json!({"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o-uid", "controller": true});
        json!({"metadata": {"ownerReferences": [owner]}})
    };
    for (why, ends, pool, of_claim, of_pod) in [
        ("nobody is moved to it yet", false, after("1m"), nothing(), nothing()),
        ("it has settled", true, after("1m"), condition("Consolidatable", "True"), nothing()),
        ("it need not settle", true, after("0s"), nothing(), nothing()),
        ("it takes pods at any time", true, after("Never"), nothing(), nothing()),
        ("it has drifted and may be free to go", true, after("1m"), condition("Drifted", "True"), nothing()),
        ("a daemon's pod disturbs no node", true, after("1m"), nothing(), owned("DaemonSet")),
    ] {
        let launched = merged(launched("id-1"), of_claim);
        let pod = |change: Value| pod("p", merged(merged(bound("n"), of_pod.clone()), change));
        let mut store = store().with([node_pool("a", pool), claim("c", launched).into(), node("n", "id-1", json!({}))]);
        store.apply(pod(json!({})), at(1));
        let mark = store.quiet_mark(at(1));
        store.apply(pod(deleting()), at(2));
        assert_eq!(store.quiet_mark(at(2)) != mark, ends, "a pod begins to go: {why}");
        let mark = store.quiet_mark(at(2));
        store.end(pod(deleting()));
        assert_eq!(store.quiet_mark(at(2)) != mark, ends, "a pod is gone: {why}");
    }
}
