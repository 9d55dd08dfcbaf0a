use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use model::instance::InstanceType;
use model::pod::Pod;
use model::pool::Pool;
use model::resources::Resources;
use model::snapshot::Snapshot;
use model::time::Instant;

use super::super::Question;
use super::super::catalogue::Catalogue;
use super::super::greedy::Greedy;
use super::super::reserve::Reservations;
use super::super::world::{World, usable_pools};
use super::cheaper;
use crate::overlay::tests::fixture::{machine, pool};

/// One pool with one type of four cpus.
fn snapshot() -> Snapshot {
    let capacity = Resources::default().with("cpu", 4000).with("pods", 100);
    let four = InstanceType { capacity, ..machine("four", "amd64") };
    let pool = Pool { instance_types: vec![four.into()], ..pool("p") };
    let mut snapshot = Snapshot::empty(Instant::from_unix_seconds(0));
    snapshot.pools.insert(pool.name.clone(), Arc::new(pool));
    snapshot
}

#[test]
fn nothing_is_looked_at_once_nobody_waits_for_a_packing() {
    let snapshot = snapshot();
    let of = |number: i64| {
        Pod::pending("default", &format!("a-{number}"), Resources::default().with("cpu", 700 + 300 * number))
    };
    let pods: Vec<Pod> = (0..6).map(of).collect();
    let (catalogue, question) = (Catalogue::of(&snapshot), Question::about(pods.iter().collect()));
    let packed = |is_cancelled: bool| {
        let reservations = Reservations::new(&snapshot, &BTreeMap::new(), &question.without);
        let pools = usable_pools(&snapshot);
        let world = World::build(&snapshot, pods.iter().collect(), &question, pools, (&catalogue, reservations));
        let mut greedy = Greedy::new(&world, u64::MAX);
        assert!(greedy.run(&AtomicBool::new(false)).is_ok() && greedy.order.len() == pods.len());
        // Seating everybody again is paid for beforehand.
        let paid = greedy.steps + pods.len() as u64;
        let packed = cheaper(greedy, u64::MAX, &AtomicBool::new(is_cancelled));
        packed.steps - paid
    };
    assert!(packed(false) > 0);
    assert_eq!(packed(true), 0);
}
