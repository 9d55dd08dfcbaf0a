use std::time::Duration;

use model::node::Progress;

use super::*;
use crate::wake::Duty;

// 01/STA-03, 02/ST4
#[test]
fn a_nomination_lasts_twenty_seconds_and_can_be_renewed() {
    let mut store = store().with([pod("p", waiting()), node("n", "", foreign())]);
    assert!(!store.is_nominated(&"n".into(), at(0)));
    store.nominate(&named("p"), &"n".into(), at(100));
    assert!(store.is_nominated(&"n".into(), at(110)));
    assert!(!store.is_nominated(&"n".into(), at(121)));
    store.nominate(&named("p"), &"n".into(), at(115));
    assert!(store.is_nominated(&"n".into(), at(121)));
    assert!(!store.is_nominated(&"n".into(), at(136)));
    store.snapshot(at(140));
    store.nominate(&named("gone"), &"n".into(), at(140));
    assert!(!store.is_nominated(&"n".into(), at(140)), "nobody comes");
}

#[test]
fn a_nomination_follows_the_machine_from_its_claim_to_its_node() {
    let mut store = store().with([pod("p", waiting()), claim("c", json!({})).into()]);
    store.nominate(&named("p"), &"c".into(), at(0));
    store.apply(claim("c", launched("id-1")), at(1));
    store.apply(node("n", "id-1", json!({})), at(1));
    assert!(store.is_nominated(&"n".into(), at(19)) && !store.is_nominated(&"n".into(), at(20)));
    assert_eq!(store.pod_times(&named("p")).unwrap().place, Some("c".into()));
}

// 02/ST4 differs: 0075
#[test]
fn a_nomination_ends_with_the_last_pod_that_it_was_made_for() {
    let mut store = store().with([pod("p", waiting()), pod("q", waiting()), claim("c", json!({})).into()]);
    store.nominate(&named("p"), &"c".into(), at(0));
    store.nominate(&named("q"), &"c".into(), at(0));
    store.apply(claim("c", launched("id-1")), at(1));
    store.apply(node("n", "id-1", json!({})), at(1));
    store.delete(&pod("p", waiting()).gone(), at(2));
    assert!(store.is_nominated(&"n".into(), at(3)), "another one is still to come");
    store.apply(pod("q", bound("n")), at(4));
    assert!(store.is_nominated(&"n".into(), at(5)), "it has come and is about to begin");
    store.delete(&pod("q", bound("n")).gone(), at(6));
    assert!(!store.is_nominated(&"n".into(), at(7)), "nobody is left who wants it");
    // Planned twice, and bound to a third machine by the scheduler.
    let mut store = store.with([pod("r", waiting()), claim("d", json!({})).into(), claim("e", json!({})).into()]);
    for claim in ["d", "e"] {
        store.nominate(&named("r"), &claim.into(), at(8));
    }
    store.apply(pod("r", bound("n")), at(9));
    assert!(store.is_nominated(&"d".into(), at(9)) && store.is_nominated(&"e".into(), at(9)));
    store.delete(&pod("r", bound("n")).gone(), at(10));
    assert!(!store.is_nominated(&"d".into(), at(11)) && !store.is_nominated(&"e".into(), at(11)));
}

#[test]
fn a_pod_that_goes_with_its_node_leaves_its_place_to_whoever_comes_instead() {
    let mut store =
        store().with([pod("p", bound("old")), claim("a", launched("id-1")).into(), claim("b", json!({})).into()]);
    store.apply(node("old", "id-1", json!({})), at(0));
    store.mark_for_deletion([&"a".into()], at(60), at(0));
    store.nominate(&named("p"), &"b".into(), at(1));
    store.delete(&pod("p", bound("old")).gone(), at(2));
    assert!(store.is_nominated(&"b".into(), at(3)));
}

#[test]
fn a_claim_that_was_just_created_is_there_at_once() {
    let mut store = store().with([node_pool("a", json!({}))]);
    store.set_catalog(&"a".into(), vec![machine_type("m"), machine_type("l")], at(0));
    let change = store.assume_claim(claim("c", json!({"spec": {"resources": {"requests": {"cpu": "2"}}}})), at(1));
    assert!(change.wake.contains(&Duty::Claim("c".into())), "it can be launched before any watch tells of it");
    let snapshot = store.snapshot(at(1));
    let Progress::Unlaunched { types, .. } = &snapshot.nodes[&"c".into()].progress else { panic!("{snapshot:?}") };
    assert_eq!(types.len(), 2);
    assert_eq!(store.pool_usage()[&"a".into()].unlaunched, 1);
    store.set_catalog(&"a".into(), vec![machine_type("m")], at(2));
    let snapshot = store.snapshot(at(2));
    let Progress::Unlaunched { types, .. } = &snapshot.nodes[&"c".into()].progress else { panic!("{snapshot:?}") };
    assert_eq!(types.len(), 1, "it can only become what is on sale");
}

// 01/STA-14, 02/ST14
#[test]
fn a_claim_that_no_watch_shows_is_looked_for_after_fifteen_seconds() {
    let mut store = store();
    store.assume_claim(claim("lost", version(1)), at(100));
    store.assume_claim(claim("slow", version(2)), at(100));
    store.assume_claim(claim("seen", version(3)), at(100));
    store.apply(claim("seen", version(3)), at(101));
    assert_eq!(store.overdue_claims(at(114)), []);
    assert_eq!(store.overdue_claims(at(115)), ["lost".into(), "slow".into()]);
    store.forget_claim(&"lost".into(), at(115));
    store.apply(claim("slow", version(2)), at(115));
    assert!(store.forget_claim(&"seen".into(), at(115)).is_empty());
    assert_eq!((store.shown(), store.overdue_claims(at(200))), (vec!["seen", "slow"], vec![]));
    store.apply(claim("lost", version(1)), at(116));
    assert_eq!(store.shown(), ["seen", "slow"], "what was forgotten does not come back late");
}

#[test]
fn a_claim_that_nobody_looks_for_runs_out() {
    let mut store = store();
    store.assume_claim(claim("c", version(1)), at(0));
    assert_eq!(store.snapshot(at(299)).nodes.len(), 1);
    assert_eq!(store.snapshot(at(300)).nodes.len(), 0);
    assert!(store.expire(at(300)).wake.contains(&Duty::Claim("c".into())), "and whom that wakes is told later");
    assert!(store.expire(at(301)).is_empty());
    store.apply(claim("c", version(1)), at(302));
    assert_eq!(store.shown(), ["c"], "the watch was only slow");
}

#[test]
fn a_watch_may_be_faster_than_the_answer() {
    let mut store = store();
    store.apply(claim("c", merged(launched("id-1"), version(5))), at(0));
    store.assume_claim(claim("c", version(1)), at(1));
    assert_eq!(store.overdue_claims(at(100)), [], "it was seen already");
    assert_eq!(store.machines()[&"c".into()].node.progress, Progress::Starting { has_node: false }, "and is further");
    store.delete(&Object::from(claim("gone", version(9))).gone(), at(0));
    store.assume_claim(claim("gone", version(7)), at(1));
    assert_eq!(store.shown(), ["c"], "it came and went before we knew that it came");
}

#[test]
fn a_list_does_not_take_away_what_was_created_after_it() {
    let list = |version| {
        let mut store = store();
        store.assume_claim(claim("new", super::version(20)), at(0));
        store.apply(claim("old", super::version(3)), at(0));
        store.restart(Kind::NodeClaim);
        store.finish_list(Kind::NodeClaim, version, at(0));
        store.shown().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(list(Some(10)), ["new"]);
    assert_eq!(list(None), ["new"]);
    assert!(list(Some(30)).is_empty());
}

#[test]
fn a_mark_holds_until_it_is_taken_back_or_runs_out() {
    let mut store =
        store().with([claim("c", launched("id-1")).into(), node("n", "id-1", json!({})), pod("p", bound("n"))]);
    let is_leaving = |store: &mut Store, second| store.snapshot(at(second)).nodes[&"n".into()].is_leaving;
    let mark = store.quiet_mark(at(0));
    let change = store.mark_for_deletion([&"c".into(), &"unknown".into()], at(60), at(0));
    assert!(change.wake.contains(&Duty::Provision("n-uid".into())), "{change:?}");
    assert!(is_leaving(&mut store, 1));
    assert_eq!(store.displaced(at(1)).len(), 1);
    store.unmark([&"c".into()], at(2));
    assert!(!is_leaving(&mut store, 2));
    assert_eq!(store.quiet_mark(at(2)), mark, "what we only think about disturbs nothing");
    store.mark_for_deletion([&"c".into()], at(60), at(3));
    assert!(is_leaving(&mut store, 59) && !is_leaving(&mut store, 60));
    store.mark_for_deletion([&"c".into()], at(1000), at(61));
    store.end(claim("c", json!({})).into());
    store.apply(claim("c", merged(launched("id-1"), json!({"metadata": {"uid": "other"}}))), at(62));
    assert!(!is_leaving(&mut store, 62), "a new claim has nothing to do with the old one's mark");
}

#[test]
fn who_waits_is_promised_the_place_that_it_was_planned_onto_until_it_stands_somewhere() {
    let mut store = store().with([pod("p", waiting()), claim("c", json!({})).into(), node("n", "", foreign())]);
    assert_eq!(store.batch(at(0)).promised, [].into());
    store.nominate(&named("p"), &"c".into(), at(0));
    assert_eq!(store.batch(at(0)).promised, [(named("p"), "c".into())].into());
    store.apply(pod("p", bound("n")), at(1));
    store.apply(pod("p", waiting()), at(2));
    assert_eq!(store.batch(at(2)).promised, [].into());
}

#[test]
fn a_promise_follows_its_place_and_ends_with_the_pod_or_the_command() {
    let machines = [claim("c", launched("id-1")).into(), node("n", "id-1", json!({})), claim("next", json!({})).into()];
    let mut store = store().with(machines).with([pod("p", bound("n")), pod("q", bound("n"))]);
    let leaves = |store: &mut Store, second| drop(store.mark_for_deletion([&"c".into()], at(600), at(second)));
    let promised = |store: &mut Store, second| {
        let promised = store.batch(at(second)).promised;
        promised.into_iter().map(|(pod, place)| format!("{} to {place}", pod.name)).collect::<Vec<_>>()
    };
    for name in ["p", "q", "unknown"] {
        store.promise(&named(name), &"next".into());
    }
    assert_eq!(promised(&mut store, 1), [""; 0], "nobody has to leave");
    leaves(&mut store, 1);
    assert_eq!(promised(&mut store, 1), ["p to next", "q to next"]);
    store.apply(claim("next", launched("id-2")), at(2));
    store.apply(node("m", "id-2", json!({})), at(2));
    assert_eq!(promised(&mut store, 2), ["p to m", "q to m"], "it has another name by now");
    store.end(pod("q", bound("n")));
    store.apply(pod("q", merged(bound("n"), json!({"metadata": {"uid": "other"}}))), at(3));
    assert_eq!(promised(&mut store, 3), ["p to m"], "another pod has nothing to do with it");
    store.unmark([&"c".into()], at(4));
    leaves(&mut store, 5);
    assert_eq!(promised(&mut store, 5), [""; 0], "the command was taken back");
}

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
    check(&mut store, 304, true, "a claim");
    store.apply(node("n", "id-1", not_registered()), at(305));
    check(&mut store, 305, true, "a node");
    store.apply(node("n", "id-1", json!({})), at(306));
    check(&mut store, 306, true, "a node is ready");
    store.apply(pod("p", json!({})), at(307));
    check(&mut store, 307, false, "a pod that is nowhere");
    store.apply(pod("p", bound("n")), at(308));
    check(&mut store, 308, true, "a pod came");
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

#[test]
fn the_window_of_nominations_is_a_setting() {
    let settings = Settings { nomination: Duration::from_secs(60), ..store().settings().clone() };
    let mut store = Store::new(settings, at(0)).with([pod("p", bound("m")), node("n", "", foreign())]);
    assert_eq!(store.nominate(&named("p"), &"n".into(), at(0)), None, "a bound pod is not being decided on");
    assert!(store.is_nominated(&"n".into(), at(59)) && !store.is_nominated(&"n".into(), at(60)));
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
        ("a node is closed", true, node("n", "id-1", json!({})), node("n", "id-1", tainted.clone())),
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
