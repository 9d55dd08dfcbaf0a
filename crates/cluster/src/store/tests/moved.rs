use std::time::Duration;

use super::*;

fn owned(by: &str) -> Value {
    json!({"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": by, "uid": by, "controller": true},
    ]}})
}

fn born(second: i64) -> Value {
    json!({"metadata": {"creationTimestamp": at(second).to_string()}})
}

fn replica(name: &str, second: i64, node: &str) -> Value {
    let node = if node.is_empty() { json!({}) } else { bound(node) };
    merged(merged(owned("web"), born(second)), merged(node, json!({"metadata": {"name": name}})))
}

fn moved(store: &Store, name: &str) -> Option<Instant> {
    store.moved_pods(at(200), Duration::from_secs(3600), Duration::ZERO).get(&named(name)).map(|moved| moved.when)
}

/// Three replicas on a machine that we have decided to remove.
fn leaving() -> Store {
    let pods = ["a", "b", "c"].map(|name| pod(name, replica(name, 0, "n")));
    let machine = [node("n", "id", json!({})), claim("n", launched("id")).into()];
    let mut store = store();
    store.restart(Kind::Pod);
    let mut store = store.with(machine.into_iter().chain(pods));
    store.finish_list(Kind::Pod, None, at(1));
    store.mark_for_deletion([&"n".into()], at(900), at(1));
    store
}

#[test]
fn the_successor_of_a_pod_that_had_to_leave_its_machine_counts_as_moved() {
    let mut store = leaving();
    store.apply(pod("a", merged(replica("a", 0, "n"), deleting())), at(100));
    store.apply(pod("d", replica("d", 100, "")), at(101));
    store.apply(pod("e", replica("e", 101, "")), at(102));
    assert_eq!(moved(&store, "d"), Some(at(101)));
    assert_eq!(moved(&store, "e"), None, "one has left, so one has followed");
    store.apply(pod("d", replica("d", 100, "elsewhere")), at(103));
    assert_eq!(moved(&store, "d"), Some(at(101)), "it stays so wherever it goes");
    // One that is gone without a word counts like one that was asked to go.
    store.end(pod("b", replica("b", 0, "n")));
    store.apply(pod("f", replica("f", 104, "")), at(105));
    assert_eq!(moved(&store, "f"), Some(at(105)));
}

#[test]
fn pods_of_other_owners_and_pods_that_leave_of_themselves_move_nobody() {
    let mut store = leaving();
    store.apply(pod("a", merged(replica("a", 0, "n"), deleting())), at(100));
    store.apply(pod("x", merged(owned("other"), born(101))), at(101));
    store.apply(pod("y", born(101)), at(101));
    store.apply(pod("old", replica("old", 10, "")), at(102));
    for name in ["x", "y", "old"] {
        assert_eq!(moved(&store, name), None, "{name}");
    }
    let mut store = leaving();
    store.unmark([&"n".into()], at(2));
    store.apply(pod("a", merged(replica("a", 0, "n"), deleting())), at(100));
    store.apply(pod("d", replica("d", 100, "")), at(101));
    assert_eq!(moved(&store, "d"), None, "its machine stays");
}

#[test]
fn a_successor_is_not_waited_for_for_ever() {
    let mut store = leaving();
    store.apply(pod("a", merged(replica("a", 0, "n"), deleting())), at(100));
    store.snapshot(at(700));
    store.apply(pod("d", replica("d", 701, "")), at(701));
    assert_eq!(moved(&store, "d"), None);
}

#[test]
fn who_was_moved_is_remembered_as_long_as_it_is_there_and_anybody_cares() {
    let mut store = leaving();
    store.apply(pod("a", merged(replica("a", 0, "n"), deleting())), at(100));
    store.apply(pod("d", replica("d", 100, "")), at(101));
    // Somebody else leaves much later, which is when what is old is cleared away.
    store.apply(pod("b", merged(replica("b", 0, "n"), deleting())), at(8000));
    for cooldown in [300_u64, 3600, 7200] {
        let until = i64::try_from(101 + cooldown).unwrap();
        let known = |now: i64, rest, within| {
            store.moved_pods(at(now), Duration::from_secs(rest), Duration::from_secs(within)).len()
        };
        assert_eq!((known(until, cooldown, 1), known(until + 1, cooldown, 1)), (1, 0), "rests for {cooldown} s");
        // Twice as dear, or more.
        let half = i64::try_from(101 + cooldown / 2).unwrap();
        assert_eq!((known(half, 1, cooldown), known(half + 1, 1, cooldown)), (1, 0), "to be paid in {cooldown} s");
    }
    store.end(pod("d", replica("d", 100, "")));
    assert_eq!(moved(&store, "d"), None);
}

/// A pod that has no owner comes back under its own name, if somebody makes it again.
#[test]
fn every_further_move_is_counted() {
    let machine = |name: &str| [node(name, name, json!({})), claim(name, launched(name)).into()];
    let mut store = store().with(machine("n").into_iter().chain(machine("m")));
    store.restart(Kind::Pod);
    store.finish_list(Kind::Pod, None, at(1));
    let own = |second: i64, node: &str| {
        merged(json!({"metadata": {"uid": second.to_string()}}), merged(born(second), bound(node)))
    };
    for (name, shape) in [
        ("x", own as fn(i64, &str) -> Value),
        ("y", |second, node| merged(replica("y", second, node), json!({"metadata": {"uid": second.to_string()}}))),
    ] {
        store.apply(pod(name, shape(10, "n")), at(10));
        for (times, from, to) in [(1, "n", "m"), (2, "m", "n"), (3, "n", "m")] {
            let second = 100 * i64::from(times);
            store.mark_for_deletion([&from.into()], at(9000), at(second));
            store.end(pod(name, shape(second - 90, from)));
            store.unmark([&from.into()], at(second));
            store.apply(pod(name, shape(second + 10, to)), at(second + 10));
            let found = store.moved_pods(at(second + 10), Duration::from_secs(300), Duration::ZERO);
            assert_eq!(found.get(&named(name)).map(|moved| moved.times), Some(times), "{name}");
        }
    }
}

#[test]
fn the_generation_changes_with_what_a_snapshot_shows_and_with_nothing_else() {
    let mut store = leaving();
    let before = store.generation();
    store.apply(pod("a", replica("a", 0, "n")), at(5));
    store.snapshot(at(6));
    assert_eq!(store.generation(), before, "the same as before");
    store.apply(pod("a", merged(replica("a", 0, "n"), json!({"metadata": {"labels": {"app": "new"}}}))), at(7));
    let labelled = store.generation();
    assert_ne!(labelled, before);
    store.unmark([&"n".into()], at(8));
    assert_ne!(store.generation(), labelled);
}
