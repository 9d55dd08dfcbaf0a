use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use futures::stream;
use k8s_openapi::api::core::v1::Pod;
use model::ids::Uid;
use serde_json::json;

use super::*;
use crate::store::Settings;
use crate::wake::Duty;

fn pod(name: &str) -> Object {
    let wire = json!({"metadata": {"namespace": "shop", "name": name, "uid": name}, "spec": {"nodeName": "n", "containers": []}});
    Object::from(serde_json::from_value::<Pod>(wire).unwrap())
}

fn waiting(name: &str) -> Object {
    let wire = json!({
        "metadata": {"namespace": "shop", "name": name, "uid": name}, "spec": {"containers": []},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    });
    Object::from(serde_json::from_value::<Pod>(wire).unwrap())
}

/// Feeds facts that are all there; nothing has to be waited for.
fn run(store: &Mutex<Store>, facts: Vec<Fact>) -> Vec<News> {
    let (mut told, second) = (Vec::new(), Cell::new(0));
    let now = || {
        second.set(second.get() + 1);
        Instant::from_unix_seconds(second.get())
    };
    {
        let mut feeding = pin!(feed(stream::iter(facts), store, now, |news| {
            assert!(store.try_lock().is_ok(), "nobody is told anything while the store is locked");
            told.push(news);
        }));
        assert_eq!(feeding.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()));
    }
    told
}

fn new_store() -> Mutex<Store> {
    Mutex::new(Store::new(Settings::default(), Instant::from_unix_seconds(0)))
}

fn names(store: &Mutex<Store>) -> Vec<String> {
    let snapshot = store.lock().unwrap().snapshot(Instant::from_unix_seconds(1));
    snapshot.pods.keys().map(|name| name.name.to_string()).collect()
}

#[test]
fn a_list_that_is_made_again_removes_what_it_does_not_have() {
    let store = new_store();
    let (begin, end) = (Fact::Restarted { kind: Kind::Pod }, Fact::Listed { kind: Kind::Pod, version: None });
    run(&store, vec![begin.clone(), Fact::Applied(pod("a")), Fact::Applied(pod("b")), end.clone()]);
    run(&store, vec![Fact::Applied(pod("c")), Fact::Deleted(pod("a").gone())]);
    assert_eq!(names(&store), ["b", "c"]);
    run(&store, vec![begin.clone(), Fact::Applied(pod("c"))]);
    assert_eq!(names(&store), ["b", "c"], "nothing goes before the list is complete");
    let told = run(&store, vec![end]);
    assert_eq!(names(&store), ["c"]);
    let [News::Change(change)] = &told[..] else { panic!("{told:?}") };
    assert!(change.wake.contains(&Duty::Disrupt), "{change:?}");
    run(&store, vec![begin, Fact::Absent { kind: Kind::Pod }]);
    assert_eq!(names(&store), ["c"], "no cluster is without pods");
}

#[test]
fn what_is_known_need_not_be_read_to_be_there() {
    let store = new_store();
    let versioned = |version: &str| {
        let mut object = pod("a");
        if let Object::Pod(pod) = &mut object {
            pod.metadata.resource_version = Some(version.into());
        }
        object
    };
    let key = pod("a").key();
    let knows = |version| store.lock().unwrap().knows(&key, version);
    assert!(!knows(Some(1)), "nobody has heard of it");
    run(&store, vec![Fact::Applied(versioned("7"))]);
    assert!(knows(Some(6)) && knows(Some(7)) && !knows(Some(8)) && !knows(None));
    let (begin, end) = (Fact::Restarted { kind: Kind::Pod }, Fact::Listed { kind: Kind::Pod, version: None });
    run(&store, vec![begin.clone(), Fact::Known(key.clone()), end.clone()]);
    assert_eq!(names(&store), ["a"], "the list has it");
    run(&store, vec![begin, end]);
    assert!(names(&store).is_empty() && !knows(Some(7)));
}

#[test]
fn one_object_that_cannot_be_read_stops_nothing() {
    let store = new_store();
    let odd =
        Undecodable { key: pod("odd").key(), uid: None, node: None, problem: "a number where a list should be".into() };
    let facts = vec![
        Fact::Restarted { kind: Kind::Pod },
        Fact::Undecodable(odd.clone()),
        Fact::Applied(waiting("good")),
        Fact::Listed { kind: Kind::Pod, version: None },
    ];
    let told = run(&store, facts);
    assert_eq!(told[0], News::Undecodable(odd));
    let News::Change(change) = &told[1] else { panic!("{told:?}") };
    assert_eq!(change.wake, [Duty::Provision(Uid::from("good"))].into());
    assert_eq!((told.len(), names(&store)), (2, vec!["good".to_owned()]));
}

#[test]
fn a_stream_that_has_nothing_yet_is_waited_for_without_the_lock() {
    let store = new_store();
    let facts = stream::iter([Fact::Applied(pod("a"))]).chain(stream::pending());
    let mut feeding = pin!(feed(facts, &store, || Instant::from_unix_seconds(0), |_| {}));
    assert!(feeding.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(names(&store), ["a"]);
}
