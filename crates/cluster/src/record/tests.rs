use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use model::ids::{NodeName, PodName, PoolName};
use model::instance::InstanceType;
use model::plan::Plan;
use model::resources::Resources;
use model::time::Instant;
use serde_json::json;

use super::*;
use crate::feed::Undecodable;
use crate::lower::buffer::Source;
use crate::lower::node::NodeClasses;
use crate::object::{Kind, Object};
use crate::store::{Settings, Store, Template};

fn at(second: i64) -> Instant {
    Instant::from_unix_seconds(second)
}

fn settings() -> Settings {
    let default_spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]);
    Settings {
        classes: NodeClasses::new([("karpenter.kwok.sh", "KWOKNodeClass")]),
        rules: api::labels::LabelRules::with_provider(&["size"], &["karpenter.kwok.sh"]),
        well_known: Arc::new(model::labels::WellKnown::with_provider(["size"])),
        default_spread: serde_json::from_value(default_spread).unwrap(),
        refused: crate::lower::volume::Refused { provisioners: ["old".to_owned()].into(), ..Default::default() },
        nomination: std::time::Duration::from_millis(20_500),
        ..Settings::default()
    }
}

fn object(kind: Kind, value: serde_json::Value) -> Object {
    Object::decode(kind, value.to_string().as_bytes()).unwrap()
}

fn machine() -> Arc<InstanceType> {
    Arc::new(InstanceType {
        name: "m".into(),
        requirements: model::requirements::Requirements::default(),
        capacity: Resources::default().with("cpu", 4000),
        overhead: Resources::default(),
        offerings: Vec::new(),
        attach_limits: model::volume::AttachLimits::new(),
        has_capacity_overlay: false,
    })
}

fn claim(name: &str) -> serde_json::Value {
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let metadata = json!({
        "name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "7",
        "labels": {"karpenter.sh/nodepool": "general"},
    });
    json!({"metadata": metadata, "spec": {"nodeClassRef": class, "requirements": [], "resources": {"requests": {"cpu": "1"}}}})
}

/// Does everything to a store that can be done to one.
fn do_everything(store: &mut Store) {
    let pool: PoolName = "general".into();
    let (a, b): (NodeName, NodeName) = ("a".into(), "b".into());
    let web = PodName::new("shop", "web");
    store.restart(Kind::Pod);
    let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "1", "resourceVersion": "3"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
    store.apply(object(Kind::Pod, pod.clone()), at(1));
    let gone = json!({"metadata": {"name": "old", "namespace": "shop", "uid": "2", "resourceVersion": "4"}, "spec": {"containers": []}});
    store.apply(object(Kind::Pod, gone.clone()), at(1));
    store.finish_list(Kind::Pod, Some(9), at(2));
    store.delete(&object(Kind::Pod, gone).gone(), at(3));
    store.set_absent(Kind::CapacityBuffer, at(3));
    store.excuse(Kind::CsiNode);
    store.see_undecodable(&Undecodable::read(
        Kind::Pod,
        br#"{"metadata": {"name": "odd"}, "spec": {"nodeName": "n"}}"#,
        "odd",
    ));
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let wire = json!({"metadata": {"name": "general", "resourceVersion": "1"},
        "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}}});
    store.apply(object(Kind::NodePool, wire), at(4));
    store.set_catalog(&pool, vec![machine()], at(4));
    store.set_catalog(&"other".into(), vec![machine()], at(4));
    let buffer =
        json!({"metadata": {"name": "spare", "namespace": "shop", "resourceVersion": "1"}, "spec": {"replicas": 2}});
    store.apply(object(Kind::CapacityBuffer, buffer), at(4));
    let spec = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
    let template =
        Template { spec: serde_json::from_value(spec).unwrap(), source: Source::Workload { replicas: Some(3) } };
    store.resolve_buffer(&PodName::new("shop", "spare"), Some(template), at(4));
    for name in ["a", "b", "c"] {
        store.assume_claim(serde_json::from_value(claim(name)).unwrap(), at(5));
    }
    store.forget_claim(&"c".into(), at(6));
    store.mark_for_deletion([&a, &b], at(60), at(7));
    store.unmark([&b], at(8));
    store.begin_replacing(&b, at(90));
    store.nominate(&web, &a, at(9));
    store.promise(&web, &b);
    store.reserve_nodes(&pool, Some(4), 2);
    store.release_nodes(&pool, 1);
    store.set_buffered(BTreeMap::from([(a.clone(), 2)]));
    store.end_quiet(at(10));
    store.expire(at(11));
    store.snapshot(at(11));
    let batch = store.batch(at(12));
    assert!(!batch.is_empty());
    let question = ProvisioningQuestion { pods: batch.pods().count(), expects_more: false, effort: 1 };
    store.note_decision(Decision::new("tick", provisioning(question, &Plan::default())), at(13));
    store.end_replacing(&b);
}

fn record() -> (String, Store) {
    let text = Arc::new(Mutex::new(String::new()));
    let lines = text.clone();
    let mut store = Store::new(settings(), at(0));
    store.record(Journal::new(move |line| lines.lock().unwrap().push_str(line)), Origin::default());
    do_everything(&mut store);
    let text = text.lock().unwrap().clone();
    (text, store)
}

#[test]
fn a_store_made_from_a_recording_is_the_store_that_was_recorded() {
    let (text, mut live) = record();
    let mut lines = text.lines();
    let mut replay = Replay::begin(lines.next().unwrap()).unwrap();
    let decided: Vec<Decided> = lines.filter_map(|line| replay.take(line).unwrap()).collect();
    assert_eq!(decided.len(), 1);
    assert_eq!(
        (decided[0].at, decided[0].decision.tick.as_str(), decided[0].batch.pods().count()),
        (at(13), "tick", 3)
    );
    drop(decided);
    let mut rebuilt = replay.into_store();
    assert_eq!(*rebuilt.snapshot(at(14)), *live.snapshot(at(14)));
    assert_eq!(rebuilt.expire(at(14)), live.expire(at(14)), "what nobody took is told by the next look");
    let all = |store: &Store| format!("{store:?}").replace("journal: Some(Journal)", "journal: None");
    assert_eq!(all(&rebuilt), all(&live));
}

#[test]
fn equal_catalogues_are_written_once_and_idle_looks_at_one_time_too() {
    let (text, _) = record();
    let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
    assert_eq!((count(r#""catalog":{"#), count(r#""offered""#)), (1, 2));
    assert_eq!((count(r#""looked":{}"#), count(r#""looked":{"to":"provisioning"}"#)), (1, 1));
}

#[test]
fn a_recording_that_cannot_be_followed_says_where_and_why() {
    let (text, _) = record();
    let check = |lines: &[&str], expected: &str| {
        let mut replay = match Replay::begin(lines[0]) {
            Ok(replay) => replay,
            Err(error) => return assert!(format!("{error}: {}", error.problem).contains(expected), "{error:?}"),
        };
        let error = lines[1..].iter().find_map(|line| replay.take(line).err()).expect("it cannot be followed");
        assert!(format!("{error}: {}", error.problem).contains(expected), "{error:?}");
    };
    let header = text.lines().next().unwrap();
    check(&["nonsense"], "line 1 of the recording cannot be followed: it is no JSON document");
    check(&[&header.replace("v1alpha1", "v9")], "use the program that made it");
    check(&[header, r#"{"at": "soon", "event": "disturbed"}"#], "line 2 of the recording cannot be followed: `soon`");
    check(&[header, r#"{"at": "2026-01-01T00:00:00Z", "event": {"absent": {"kind": "Pot"}}}"#], r#"no kind "Pot""#);
    let of = |word: &str| text.lines().find(|line| line.contains(word)).unwrap();
    check(&[header, of(r#""offered""#)], "does not stand before it");
    check(&[header, of(r#""decided""#)], "no look for a decision stands before it");
    check(&[header, &of(r#""listed""#).replace("version", "virtue")], "no JSON document of this format");
}

/// Somebody who adds a method that changes the store must think of recordings; this notices when nobody has.
#[test]
fn whatever_changes_the_store_is_noted() {
    const UNTOLD: [&str; 5] = ["refuse", "quiet_mark", "record", "batch", "batch_for"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = std::fs::read_dir(root.join("store")).unwrap().map(|entry| entry.unwrap().path());
    let mut methods = 0;
    for path in files.filter(|path| path.is_file()).chain([root.join("store.rs")]) {
        let text = std::fs::read_to_string(&path).unwrap();
        for method in text.split("\n    pub fn ").skip(1) {
            let name = method.split(['(', '<']).next().unwrap_or_default();
            let (head, rest) = method.split_once('{').unwrap_or_default();
            let body = rest.split("\n    }\n").next().unwrap_or_default();
            if head.contains("&mut self") && !UNTOLD.contains(&name) {
                methods += 1;
                assert!(body.contains("note"), "{name} in {} changes the store and notes nothing", path.display());
            }
        }
    }
    assert!(methods >= 20, "{methods} methods found");
}
