//! Tiny worlds, where every way to place pods can be tried.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::ids::{NodeName, PodName};
use model::plan::{Plan, PlannedClaim};
use model::pod::Pod;
use model::snapshot::Snapshot;

use crate::judged::{answer, new_claim, single_machines};
use crate::random::{any_open_world, draws};

const MOST_PODS: usize = 4;

/// The same world with one type of machine, sold in three ways, and four pods at most.
fn tiny((mut snapshot, mut pods): (Snapshot, Vec<Pod>)) -> (Snapshot, Vec<Pod>) {
    for pool in snapshot.pools.values_mut() {
        let pool = Arc::make_mut(pool);
        pool.instance_types.truncate(1);
        for offered in &mut pool.instance_types {
            let keeps = [0, 2, 3];
            let offered = Arc::make_mut(offered);
            offered.offerings = keeps.into_iter().map(|way| offered.offerings[way].clone()).collect();
        }
    }
    for pod in pods.drain(pods.len().min(MOST_PODS)..) {
        snapshot.pods.remove(&pod.name);
    }
    (snapshot, pods)
}

/// How many pods have a place, by priority, most important first: the more of the important ones the better.
type Score = Vec<usize>;

fn score(pods: &[Pod], placed: impl Fn(&Pod) -> bool) -> Score {
    let levels: BTreeSet<i32> = pods.iter().map(|pod| pod.priority).collect();
    let count = |level: &i32| pods.iter().filter(|pod| pod.priority == *level && placed(pod)).count();
    levels.iter().rev().map(count).collect()
}

/// The best score that any choice of machines and any order can reach.
fn best_score(snapshot: &Snapshot, pods: &[Pod]) -> Score {
    let machines: Vec<PlannedClaim> =
        snapshot.pools.values().flat_map(|pool| single_machines(snapshot, &new_claim(pool))).collect();
    let shared: Vec<Arc<Pod>> = pods.iter().cloned().map(Arc::new).collect();
    let mut best = score(pods, |_| false);
    let all = score(pods, |_| true);
    for choice in choices(machines.len(), pods.len()) {
        let claims: Vec<PlannedClaim> = choice.iter().map(|machine| machines[*machine].clone()).collect();
        let plan = Plan { claims, ..Plan::default() };
        let world = judge::World::with_plan(snapshot, &plan);
        let raised: Option<Vec<NodeName>> = (0..choice.len()).map(|claim| world.claim_node(claim).cloned()).collect();
        let Some(raised) = raised else { continue };
        let mut search = Search { pods: &shared, raised, seen: BTreeSet::new(), best, all: all.clone() };
        search.go(&world, &mut vec![None; pods.len()]);
        best = search.best;
        if best == all {
            break;
        }
    }
    best
}

/// Every way to take up to `most` of so many kinds, smallest first, each kind as often as one likes.
fn choices(kinds: usize, most: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..most {
        let longer = |choice: &Vec<usize>| {
            let from = choice.last().copied().unwrap_or(0);
            let choice = choice.clone();
            (from..kinds).map(move |kind| [choice.clone(), vec![kind]].concat())
        };
        last = last.iter().flat_map(longer).collect();
        all.extend(last.clone());
    }
    all
}

struct Search<'s> {
    pods: &'s [Arc<Pod>],
    /// Nodes that only count as launched when somebody is on them.
    raised: Vec<NodeName>,
    seen: BTreeSet<Vec<Option<NodeName>>>,
    best: Score,
    all: Score,
}

impl Search<'_> {
    fn go(&mut self, world: &judge::World, seats: &mut Vec<Option<NodeName>>) {
        if !self.seen.insert(seats.clone()) {
            return;
        }
        if self.raised.iter().all(|node| seats.contains(&Some(node.clone()))) {
            let levels: BTreeSet<i32> = self.pods.iter().map(|pod| pod.priority).collect();
            let seated = self.pods.iter().zip(seats.iter()).filter(|(_, seat)| seat.is_some());
            let seated: Vec<i32> = seated.map(|(pod, _)| pod.priority).collect();
            let reached: Score =
                levels.iter().rev().map(|level| seated.iter().filter(|one| *one == level).count()).collect();
            self.best = self.best.clone().max(reached);
        }
        let nodes: Vec<NodeName> = world.nodes().map(|node| node.name.clone()).collect();
        for pod in 0..self.pods.len() {
            if seats[pod].is_some() || self.is_early(world, seats, pod) {
                continue;
            }
            for node in &nodes {
                if judge::filter(world, &self.pods[pod], node).is_err() {
                    continue;
                }
                let mut next = world.clone();
                judge::bind(&mut next, &self.pods[pod], node).unwrap();
                seats[pod] = Some(node.clone());
                self.go(&next, seats);
                seats[pod] = None;
                if self.best == self.all {
                    return;
                }
            }
        }
    }
}

impl Search<'_> {
    /// Whether a more important pod could be placed now. It comes first, even where a lesser one would prepare its place.
    fn is_early(&self, world: &judge::World, seats: &[Option<NodeName>], pod: usize) -> bool {
        let waiting = self
            .pods
            .iter()
            .zip(seats)
            .filter(|(other, seat)| seat.is_none() && other.priority > self.pods[pod].priority);
        waiting.into_iter().any(|(other, _)| world.nodes().any(|node| judge::filter(world, other, &node.name).is_ok()))
    }
}

#[test]
fn whoever_can_be_placed_is_placed() {
    let mut missed = Vec::new();
    for (number, world) in draws(any_open_world(), 1000).into_iter().enumerate() {
        let (snapshot, pods) = tiny(world);
        let plan = answer(&snapshot, &pods, u64::MAX);
        if plan.unplaced.is_empty() {
            continue;
        }
        let placed: BTreeSet<&PodName> = plan.placements.iter().map(|(name, _)| name).collect();
        let reached = score(&pods, |pod| placed.contains(&pod.name));
        let best = best_score(&snapshot, &pods);
        if reached < best {
            missed.push((number, reached, best));
        }
    }
    assert!(missed.is_empty(), "{} {missed:?}", missed.len());
}
