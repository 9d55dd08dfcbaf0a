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

#[test]
fn the_window_of_nominations_is_a_setting() {
    let settings = Settings { nomination: Duration::from_secs(60), ..store().settings().clone() };
    let mut store = Store::new(settings, at(0)).with([pod("p", bound("m")), node("n", "", foreign())]);
    assert_eq!(store.nominate(&named("p"), &"n".into(), at(0)), None, "a bound pod is not being decided on");
    assert!(store.is_nominated(&"n".into(), at(59)) && !store.is_nominated(&"n".into(), at(60)));
}
