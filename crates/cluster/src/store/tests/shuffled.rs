//! Whatever happens to facts on their way, the same newest states give the same snapshot.

use std::fmt;

use model::snapshot::Snapshot;
use proptest::prelude::*;

use super::*;
use crate::object::Gone;

#[derive(Clone)]
enum Event {
    Apply(Box<Object>),
    Delete(Gone),
    /// Somebody takes a snapshot, and holds it or not.
    Look {
        holds: bool,
    },
}

/// A failure would fill pages otherwise.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apply(object) => write!(f, "{} at {:?}", object.key(), object.version()),
            Self::Delete(gone) => write!(f, "end of {} at {:?}", gone.key, gone.version),
            Self::Look { holds } => write!(f, "look, holding: {holds}"),
        }
    }
}

/// The lives of a few objects that have much to do with one another: each is a list of states, and perhaps an end.
#[derive(Clone)]
struct Life {
    states: Vec<Object>,
    ends: bool,
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.states.last().filter(|_| !self.ends);
        last.map_or(Ok(()), |last| write!(f, "{last:?}"))
    }
}

fn number() -> impl Strategy<Value = usize> {
    0..3_usize
}

fn maybe(value: Value) -> impl Strategy<Value = Value> {
    prop_oneof![Just(json!({})), Just(value)]
}

/// One state of one object of some kind; who it is comes apart.
fn state(kind: Kind) -> BoxedStrategy<Value> {
    match kind {
        Kind::Pod => pod_state(),
        Kind::Node => {
            let labels = prop_oneof![
                Just(json!({})),
                Just(json!({CLASS_LABEL: "d", "karpenter.sh/nodepool": "x0", "node.kubernetes.io/instance-type": "m"})),
                Just(json!({
                    CLASS_LABEL: "d", "karpenter.sh/nodepool": "x1", "karpenter.sh/registered": "true",
                    "karpenter.sh/initialized": "true",
                })),
            ];
            (labels, number(), maybe(deleting()), maybe(json!({"spec": {"unschedulable": true}})))
                .prop_map(|(labels, id, end, rest)| {
                    let id = ["", "id-1", "id-2"][id];
                    let base = json!({"metadata": {"labels": labels}, "spec": {"providerID": id}, "status": {"capacity": {"cpu": "4"}}});
                    merged(merged(base, end), rest)
                })
                .boxed()
        }
        Kind::NodeClaim => (number(), number(), maybe(deleting()))
            .prop_map(|(id, pool, end)| {
                let status = if id == 0 { json!({}) } else { launched(&format!("id-{id}")) };
                let base = serde_json::to_value(claim("", in_pool(pool))).unwrap();
                merged(merged(base, status), end)
            })
            .boxed(),
        Kind::NodePool => maybe(condition("Ready", "True"))
            .prop_map(|ready| {
                let Object::NodePool(base) = node_pool("", json!({})) else { unreachable!() };
                merged(serde_json::to_value(base).unwrap(), ready)
            })
            .boxed(),
        Kind::DaemonSet => number()
            .prop_map(|cpu| {
                let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu.to_string()}}});
                json!({"metadata": {"namespace": "shop"}, "spec": {"selector": {}, "template": {"spec": {"containers": [container]}}}})
            })
            .boxed(),
        Kind::PersistentVolumeClaim => number()
            .prop_map(|number| {
                let spec = if number == 0 { json!({"storageClassName": "x0"}) } else { json!({"volumeName": format!("x{number}")}) };
                json!({
                    "metadata": {"namespace": "shop", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": spec,
                })
            })
            .boxed(),
        Kind::PersistentVolume => number()
            .prop_map(|number| {
                let zone = json!({"key": "zone", "operator": "In", "values": [number.to_string()]});
                json!({"spec": {"csi": {"driver": "disk", "volumeHandle": "h"}, "nodeAffinity": {"required": {
                    "nodeSelectorTerms": [{"matchExpressions": [zone]}],
                }}}})
            })
            .boxed(),
        Kind::StorageClass => number()
            .prop_map(|number| {
                let mode = ["Immediate", "WaitForFirstConsumer", "WaitForFirstConsumer"][number];
                json!({"provisioner": format!("driver-{number}"), "volumeBindingMode": mode})
            })
            .boxed(),
        Kind::CsiNode => number()
            .prop_map(|count| {
                json!({"spec": {"drivers": [{"name": "disk", "nodeID": "n", "allocatable": {"count": count}}]}})
            })
            .boxed(),
        Kind::Namespace => {
            number().prop_map(|team| json!({"metadata": {"labels": {"team": team.to_string()}}})).boxed()
        }
        _ => number()
            .prop_map(|most| json!({"metadata": {"namespace": "shop"}, "spec": {"maxUnavailable": most, "selector": {}}}))
            .boxed(),
    }
}

fn in_pool(pool: usize) -> Value {
    json!({"metadata": {"labels": {"karpenter.sh/nodepool": format!("x{pool}")}}})
}

fn pod_state() -> BoxedStrategy<Value> {
    let place = prop_oneof![Just(json!({})), Just(waiting()), Just(bound("x0")), Just(bound("x1"))];
    let rest = prop_oneof![
        Just(json!({})),
        Just(deleting()),
        Just(json!({"status": {"phase": "Succeeded"}})),
        Just(json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x0"}}]}})),
        Just(json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "1"}}},
        ]}}}})),
        Just(json!({"metadata": {"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x0", "uid": "d", "controller": true},
        ]}})),
    ];
    (place, rest, number())
        .prop_map(|(place, rest, cpu)| {
            let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu.to_string()}}});
            let base = json!({"metadata": {"namespace": "shop"}, "spec": {"containers": [container]}});
            merged(merged(base, place), rest)
        })
        .boxed()
}

const KINDS: [Kind; 11] = [
    Kind::Pod,
    Kind::Node,
    Kind::NodeClaim,
    Kind::NodePool,
    Kind::DaemonSet,
    Kind::PersistentVolumeClaim,
    Kind::PersistentVolume,
    Kind::StorageClass,
    Kind::CsiNode,
    Kind::Namespace,
    Kind::PodDisruptionBudget,
];

/// Nodes and claims share names on purpose.
fn life(kind: Kind, number: usize) -> impl Strategy<Value = Life> {
    let states = proptest::collection::vec((state(kind), 1..1000_u64), 0..4);
    (states, any::<bool>()).prop_map(move |(states, ends)| {
        let mut version = 0;
        let states = states.into_iter().map(|(state, step)| {
            version += step;
            let identity = json!({"metadata": {"name": format!("x{number}"), "uid": format!("x{number}-uid")}});
            let wire = merged(merged(state, identity), super::version(version));
            Object::decode(kind, wire.to_string().as_bytes()).unwrap_or_else(|error| panic!("{kind}: {error}: {wire}"))
        });
        Life { states: states.collect(), ends }
    })
}

fn lives() -> impl Strategy<Value = Vec<Life>> {
    let lives: Vec<_> = KINDS.iter().flat_map(|kind| (0..3).map(|number| life(*kind, number))).collect();
    lives
}

/// Every state of every life, some of them twice, in any order, and some looks in between.
fn events(lives: &[Life]) -> impl Strategy<Value = Vec<Event>> + use<> {
    let mut events = Vec::new();
    for life in lives {
        events.extend(life.states.iter().map(|state| Event::Apply(Box::new(state.clone()))));
        events.extend(life.states.last().map(|state| Event::Apply(Box::new(state.clone()))));
        if let Some(last) = life.states.last().filter(|_| life.ends) {
            let mut gone = last.gone();
            gone.version = gone.version.map(|version| version + 1);
            events.push(Event::Delete(gone.clone()));
            events.push(Event::Delete(gone));
        }
    }
    events.extend([true, false, true, false, true].map(|holds| Event::Look { holds }));
    Just(events).prop_shuffle()
}

fn with_catalog(mut store: Store) -> Store {
    for pool in ["x0", "x1"] {
        store.set_catalog(&pool.into(), vec![machine_type("m")], at(0));
    }
    store
}

fn answers(store: &mut Store) -> (Snapshot, String) {
    let batch = store.batch(at(1));
    let names =
        |pods: &[Arc<model::pod::Pod>]| pods.iter().map(|pod| pod.name.to_string()).collect::<Vec<_>>().join(" ");
    let lists = [&batch.pending, &batch.displaced, &batch.ignored].map(|pods| names(pods));
    let usage = format!("{lists:?} {:?} {:?}", store.pool_usage(), store.pool_claims(&"x0".into()));
    (Snapshot::clone(&batch.snapshot), usage)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    // 01/STA-01, 02/ST1
    #[test]
    fn the_order_of_facts_does_not_matter((lives, events) in lives().prop_flat_map(|lives| {
        let events = events(&lives);
        (Just(lives), events)
    })) {
        let mut told = with_catalog(store());
        let mut held = Vec::new();
        for event in events {
            match event {
                Event::Apply(object) => drop(told.apply(*object, at(0))),
                Event::Delete(gone) => drop(told.delete(&gone, at(0))),
                Event::Look { holds } => {
                    let snapshot = told.snapshot(at(0));
                    held.extend(holds.then(|| (snapshot.clone(), Snapshot::clone(&snapshot))));
                }
            }
        }
        let last = lives.iter().filter(|life| !life.ends).filter_map(|life| life.states.last());
        let mut fresh = with_catalog(store()).with(last.cloned());
        prop_assert_eq!(answers(&mut told), answers(&mut fresh));
        for last in lives.iter().filter_map(|life| life.states.last()) {
            told.delete(&Gone { version: None, ..last.gone() }, at(1));
        }
        prop_assert!(told.pods.is_empty());
        prop_assert!(told.machines.is_empty(), "{:?}", told.machines);
        let left = format!("{:?}{:?}{:?}", told.daemons, told.volumes, told.leaving);
        let fresh = with_catalog(store());
        prop_assert_eq!(left, format!("{:?}{:?}{:?}", fresh.daemons, fresh.volumes, fresh.leaving));
        for (snapshot, copy) in held {
            prop_assert_eq!(&*snapshot, &copy, "a snapshot that is held does not change");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    // 01/STA-01, 02/ST1
    #[test]
    fn lists_make_good_what_was_missed((lives, events) in lives().prop_flat_map(|lives| {
        let events = events(&lives);
        (Just(lives), events)
    }), missed in proptest::collection::vec(any::<bool>(), 400)) {
        let mut told = with_catalog(store());
        for (event, is_missed) in events.into_iter().zip(missed) {
            match event {
                Event::Apply(object) if !is_missed => drop(told.apply(*object, at(0))),
                Event::Look { .. } => drop(told.snapshot(at(0))),
                // No end is ever told.
                Event::Apply(_) | Event::Delete(_) => {}
            }
        }
        let last: Vec<&Object> = lives.iter().filter(|life| !life.ends).filter_map(|life| life.states.last()).collect();
        for kind in KINDS {
            told.restart(kind);
            for object in last.iter().filter(|object| object.kind() == kind) {
                told.apply(Object::clone(object), at(0));
            }
            told.finish_list(kind, None, at(0));
        }
        let mut fresh = with_catalog(store()).with(last.into_iter().cloned());
        prop_assert_eq!(answers(&mut told), answers(&mut fresh));
    }
}

#[test]
fn a_snapshot_is_renewed_in_place_once_nobody_holds_it() {
    let mut store = store().with([pod("a", bound("n"))]);
    let first = store.snapshot(at(1));
    assert!(Arc::ptr_eq(&first, &store.snapshot(at(1))), "nothing has changed");
    store.apply(pod("b", bound("n")), at(1));
    let second = store.snapshot(at(2));
    assert!(!Arc::ptr_eq(&first, &second), "the first is still held");
    assert_eq!((first.pods.len(), second.pods.len()), (1, 2));
    assert!(Arc::ptr_eq(&first.pods[&named("a")], &second.pods[&named("a")]), "no pod is copied");
    let address = Arc::as_ptr(&first);
    drop(first);
    store.apply(pod("c", bound("n")), at(3));
    let third = store.snapshot(at(3));
    assert_eq!((Arc::as_ptr(&third), third.pods.len(), third.now), (address, 3, at(3)));
    store.apply(pod("d", bound("n")), at(3));
    let fourth = store.snapshot(at(4));
    assert_eq!((second.pods.len(), third.pods.len(), fourth.pods.len()), (2, 3, 4), "both were held");
}
