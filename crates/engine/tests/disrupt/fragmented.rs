//! Large clusters: how good the rest is, how soon it is reached, and how much is asked for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::disrupt::{Decision, Rules, decide};
use engine::solve::{Question, solve};
use model::disruption::Disruption;
use model::ids::NodeName;
use model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODE_POOL, ZONE};
use model::node::{Node, Progress, Tenure};
use model::plan::Target;
use model::pod::Pod;
use model::snapshot::Snapshot;
use model::volume::AttachLimits;

use crate::cluster::{Cluster, cluster};
use crate::fixture::*;
use crate::laws::price;

/// Numbers that look random and are the same everywhere.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Carries a command out as clouds and schedulers would if they did what was planned: the cheapest of what a claim lists.
fn carry_out(world: &mut Snapshot, command: &Disruption, number: usize) {
    let name = |claim: usize| NodeName::from(format!("new-{}-{number}-{claim}", world.now.unix_seconds()));
    let names: Vec<NodeName> = (0..command.replacements.len()).map(name).collect();
    for (claim, name) in command.replacements.iter().zip(&names) {
        let pool = world.pools[&claim.pool].clone();
        let offered = pool.instance_type(claim.types[0].as_str()).unwrap();
        let suits =
            |one: &&model::instance::Offering| one.is_available && claim.requirements.overlaps(&one.requirements);
        let bought = offered.offerings.iter().filter(suits).min_by_key(|one| one.price).unwrap();
        let mut labels = pool.template.labels.clone();
        let of_offering = |key: &str| bought.label(key).unwrap().clone();
        for (key, value) in [
            (HOSTNAME, name.shared()),
            (INSTANCE_TYPE, offered.name.shared()),
            (NODE_POOL, pool.name.shared()),
            (ZONE, of_offering(ZONE)),
            (CAPACITY_TYPE, of_offering(CAPACITY_TYPE)),
        ] {
            labels.insert(key.into(), value);
        }
        let since = Some(world.now);
        let node = Node {
            name: name.clone(),
            pool: Some(pool.name.clone()),
            labels,
            taints: Vec::new(),
            capacity: offered.capacity.clone(),
            allocatable: offered.allocatable(),
            attach_limits: AttachLimits::new(),
            progress: Progress::Initialized,
            is_leaving: false,
            created: world.now,
            tenure: Some(Tenure { initialized: since, consolidatable: since, ..Tenure::of(name.clone()) }),
        };
        world.nodes.insert(name.clone(), Arc::new(node));
    }
    for (pod, target) in &command.moves {
        let place = match target {
            Target::Node(node) => node.clone(),
            Target::Claim(claim) => names[*claim].clone(),
        };
        Arc::make_mut(world.pods.get_mut(pod).unwrap()).node = Some(place);
    }
    command.nodes().for_each(|node| drop(world.nodes.remove(node)));
}

/// Decides and carries out until nothing is left to do; says how often, and how many pods were moved.
pub(crate) fn come_to_rest(cluster: &mut Cluster, most_rounds: usize) -> (usize, usize) {
    come_to_rest_by(cluster, most_rounds, |cluster| decide(&cluster.scene(), &cluster.rules))
}

fn come_to_rest_by(cluster: &mut Cluster, most_rounds: usize, decide: impl Fn(&Cluster) -> Decision) -> (usize, usize) {
    let mut moved = 0;
    for round in 0..most_rounds {
        let Decision { commands, .. } = decide(cluster);
        if commands.is_empty() {
            return (round, moved);
        }
        let before = price(&cluster.snapshot);
        for (number, command) in commands.iter().enumerate() {
            carry_out(&mut cluster.snapshot, command, number);
        }
        moved += commands.iter().map(|command| command.worth.evicted).sum::<usize>();
        check_room(&cluster.snapshot);
        assert!(price(&cluster.snapshot) < before);
        cluster.snapshot.now = cluster.snapshot.now.plus(Duration::from_secs(600));
    }
    panic!("no rest after {most_rounds} rounds");
}

/// Nobody stands where there is no room.
fn check_room(world: &Snapshot) {
    for node in world.nodes.values() {
        let pods = world.pods.values().filter(|pod| pod.node.as_ref() == Some(&node.name));
        let used = pods.fold(model::resources::Resources::default(), |sum, pod| sum.plus(&pod.requests));
        assert!(used.fits_in(&node.allocatable), "{} is overfull", node.name);
    }
    assert!(world.pods.values().all(|pod| pod.node.as_ref().is_some_and(|node| world.nodes.contains_key(node))));
}

/// So many nodes of several sizes, filled at random to two fifths of their cpu.
pub(crate) fn fragmented(nodes: usize) -> Cluster {
    let mut chance = Chance(7);
    let mut built = cluster(vec![pool("p").types(series(16)).requires(CAPACITY_TYPE, "In on-demand")]);
    for number in 0..nodes {
        let size = [3_i64, 7, 15][chance.below(3) as usize];
        let (mut left, mut pods) = ((size + 1) * 400, Vec::new());
        while left >= 100 {
            let wanted = (100 * (1 + chance.below(20) as i64)).min(left);
            let name = format!("p-{number:04}-{:02}", pods.len());
            let memory = wanted * (500 + chance.below(1000) as i64) * 1024;
            pods.push(pod(&name).asks("cpu", wanted).asks("memory", memory));
            left -= wanted;
        }
        built = built.machine(&format!("n{number:04}"), &format!("fake-it-{size}"), pods);
    }
    built
}

/// The least that any machines for these pods can cost: what their cpu costs where it is cheapest.
fn least_price(world: &Snapshot) -> f64 {
    let types = world.pools.values().flat_map(|pool| &pool.instance_types);
    let per_milli = types.map(|offered| {
        let price = offered.offerings.iter().map(|one| one.price.dollars()).fold(f64::INFINITY, f64::min);
        price / offered.allocatable().cpu_milli as f64
    });
    let cpu: i64 = world.pods.values().map(|pod| pod.requests.cpu_milli).sum();
    per_milli.fold(f64::INFINITY, f64::min) * cpu as f64
}

#[test]
fn a_thousand_nodes_filled_to_two_fifths_come_to_rest_near_the_least_that_they_can_cost() {
    let mut cluster = fragmented(1000);
    let before = price(&cluster.snapshot);
    let (rounds, moved) = come_to_rest(&mut cluster, 30);
    let after = price(&cluster.snapshot);
    let ratio = after.dollars() / least_price(&cluster.snapshot);
    println!("{before} -> {after}, {ratio:.4} of the bound, {rounds} rounds, {moved} pods moved");
    assert!(ratio <= 1.10, "{ratio:.4} of the bound after {rounds} rounds");
}

#[test]
fn budgets_of_a_tenth_lead_to_rest_as_well() {
    let mut cluster = fragmented(150).budget("p", &["10%"]);
    let (rounds, _) = come_to_rest(&mut cluster, 80);
    let ratio = price(&cluster.snapshot).dollars() / least_price(&cluster.snapshot);
    println!("{ratio:.4} of the bound after {rounds} rounds");
    assert!(ratio <= 1.12, "{ratio:.4} of the bound after {rounds} rounds");
}

/// Buys machines for so many pods of one cpu, and leaves every tenth of the pods.
fn scaled_down(count: usize) -> Cluster {
    let mut built = cluster(vec![pool("p").types(series(32)).requires(CAPACITY_TYPE, "In on-demand")]);
    let all: Vec<Pod> = (0..count).map(|i| pod(&format!("p-{i:05}")).asks("cpu", 1000).asks("memory", GI).0).collect();
    let plan = solve(&built.snapshot, &Question::about(all.iter().collect()), &AtomicBool::new(false));
    let mut kept = BTreeSet::new();
    let mut chance = Chance(3);
    while kept.len() < count / 10 {
        kept.insert(format!("p-{:05}", chance.below(count as u64)));
    }
    for (number, claim) in plan.claims.iter().enumerate() {
        let pods = claim.pods.iter().filter(|name| kept.contains(&*name.name));
        let pods = pods.map(|name| pod(&name.name).asks("cpu", 1000).asks("memory", GI)).collect();
        built = built.machine(&format!("n{number:03}"), claim.types[0].as_str(), pods);
    }
    built
}

#[test]
fn what_is_left_of_many_pods_rests_at_the_cheapest_that_can_be_named() {
    for count in [500, 2000] {
        let mut cluster = scaled_down(count);
        let mut empty = cluster.snapshot.clone();
        empty.nodes.clear();
        let pods: Vec<Pod> = cluster.snapshot.pods.values().map(|pod| Pod { node: None, ..Pod::clone(pod) }).collect();
        let cheapest = solve(&empty, &Question::about(pods.iter().collect()), &AtomicBool::new(false)).price();
        let (rounds, moved) = come_to_rest(&mut cluster, 10);
        let ratio = price(&cluster.snapshot).dollars() / cheapest.dollars();
        println!("{count}: {ratio:.4} of {cheapest} after {rounds} rounds, {moved} moved");
        assert!(ratio <= 1.02, "{count}: {ratio:.4} of {cheapest} after {rounds} rounds");
    }
}

/// Few nodes are searched on one thread whatever the rules say, so this takes many.
#[test]
fn threads_make_no_difference_on_the_way_to_rest() {
    let mut cluster = fragmented(150);
    let (rounds, moved) = come_to_rest_by(&mut cluster, 30, |cluster| {
        let [alone, both] = [1, 2].map(|threads| decide(&cluster.scene(), &Rules { threads, ..cluster.rules }));
        assert_eq!(both, alone, "after {} s", cluster.snapshot.now.unix_seconds());
        both
    });
    assert!(rounds > 1 && moved > 100, "{rounds} rounds, {moved} pods moved");
}

// 02/CO14
#[test]
fn a_cluster_at_rest_is_asked_about_only_so_often() {
    let mut cluster = fragmented(300);
    come_to_rest(&mut cluster, 30);
    let nodes = cluster.snapshot.nodes.len() as u64;
    let decision = decide(&cluster.scene(), &Rules::default());
    assert_eq!(decision.commands, [], "it is at rest");
    let questions = decision.effort.questions;
    assert!((nodes / 2..=2 * nodes).contains(&questions), "{:?} for {nodes} nodes", decision.effort);
}
