//! What a reason names is true: lift it, and the pod would be placed there.

use std::sync::Arc;

use model::ids::PoolName;
use model::labels::HOSTNAME;
use model::pod::Pod;
use model::requirements::Clash;
use model::snapshot::Snapshot;
use model::taints::{Match, Toleration};
use model::why::Obstacle;
use proptest::prelude::*;

use crate::judged::{answer, machine_in};
use crate::random::{any_world, seeded};

/// The world and the pod as they would be without an obstacle.
fn lifted(mut snapshot: Snapshot, mut pod: Pod, pool: Option<&PoolName>, obstacle: &Obstacle) -> (Snapshot, Pod) {
    let wants = &mut pod.wants;
    match obstacle {
        Obstacle::Taint(taint) => {
            let key = Some(taint.key.clone());
            wants.tolerations.push(Toleration { key, matches: Match::Any, effect: None });
        }
        Obstacle::Label(clash) => {
            let key = clash_key(clash);
            wants.selector.remove(key);
            for term in &mut wants.terms {
                term.remove(key);
            }
            // A term that asks nothing selects no node at all.
            if wants.terms.iter().any(|term| term.iter().next().is_none()) {
                wants.terms.clear();
            }
        }
        // No more than what the reason says there is.
        Obstacle::Resource { resource, available, .. } => pod.requests.set(resource.clone(), *available),
        Obstacle::Port { .. } => wants.ports.clear(),
        Obstacle::Spread { key, .. } => wants.spread.retain(|spread| spread.key != *key),
        Obstacle::Together { key } => wants.together.retain(|term| term.key != *key),
        Obstacle::Apart { key, .. } => {
            wants.apart.retain(|term| term.key != *key);
            for other in snapshot.pods.values_mut() {
                Arc::make_mut(other).wants.apart.retain(|term| term.key != *key);
            }
        }
        Obstacle::Limit(broken) => {
            let pool = Arc::make_mut(snapshot.pools.get_mut(pool.unwrap()).unwrap());
            match &*broken.resource {
                "nodes" => pool.limits.nodes = Some(broken.would_be),
                name => {
                    let limits = pool.limits.resources.iter_mut().filter(|(axis, _)| axis.name() == name);
                    limits.for_each(|(_, limit)| *limit = broken.would_be);
                }
            }
        }
        Obstacle::NewDomain { key } => {
            for other in snapshot.pods.values_mut() {
                Arc::make_mut(other).wants.spread.retain(|spread| spread.key != *key);
            }
        }
        other => panic!("random worlds have no {other:?}"),
    }
    (snapshot, pod)
}

fn clash_key(clash: &Clash) -> &str {
    match clash {
        Clash::Contradiction { key, .. } | Clash::NoCommonValue { key, .. } | Clash::UnknownKey { key, .. } => key,
    }
}

proptest! {
    #![proptest_config(seeded(400))]

    #[test]
    fn a_pool_takes_the_pod_once_what_it_names_is_lifted((snapshot, pods) in any_world()) {
        let plan = answer(&snapshot, &pods, u64::MAX);
        for unplaced in &plan.unplaced {
            let pod = Pod::clone(&snapshot.pods[&unplaced.pod]);
            for (pool, obstacles) in &unplaced.pools {
                let world = (snapshot.clone(), pod.clone());
                let (world, pod) = obstacles.iter().fold(world, |(snapshot, pod), obstacle| lifted(snapshot, pod, Some(pool), obstacle));
                prop_assert!(!obstacles.is_empty(), "{} could be in {pool}", unplaced.pod);
                prop_assert!(machine_in(&world, &plan, &pod, pool).is_some(), "{} in {pool}: {obstacles:?}", unplaced.pod);
            }
        }
    }

    #[test]
    fn a_node_takes_the_pod_once_what_it_names_is_lifted((snapshot, pods) in any_world()) {
        let plan = answer(&snapshot, &pods, u64::MAX);
        for unplaced in &plan.unplaced {
            let Some((node, obstacles)) = &unplaced.nearest_node else { continue };
            let world = (snapshot.clone(), Pod::clone(&snapshot.pods[&unplaced.pod]));
            let (world, pod) = obstacles.iter().fold(world, |(snapshot, pod), obstacle| lifted(snapshot, pod, None, obstacle));
            let world = judge::replay(&world, &plan).world;
            let refusal = judge::filter(&world, &pod, node);
            prop_assert!(refusal.is_ok(), "{} on {node}: {obstacles:?}, {refusal:?}", unplaced.pod);
        }
    }
}

#[test]
fn a_reason_of_distance_names_the_other_pod() {
    use crate::fixture::*;
    let near = || near(HOSTNAME, &[("app", "x")]);
    let there = || pod("there").label("app", "x");
    let world = world(Vec::new()).node("n", &[], 4000).running("n", vec![there()]);
    let named = |sketch: PodSketch| world.solve(vec![sketch]).plan.unplaced[0].nearest_node.clone().unwrap().1;
    let apart =
        |other: &str| Obstacle::Apart { key: HOSTNAME.into(), other: Some(model::ids::PodName::new("default", other)) };
    assert_eq!(named(pod("a").apart(near())), [apart("there")]);
    let shy = world_with_shy();
    let refused = shy.solve(vec![pod("a").label("app", "x")]).plan.unplaced[0].nearest_node.clone().unwrap().1;
    assert_eq!(refused, [apart("shy")]);
}

fn world_with_shy() -> crate::fixture::World {
    use crate::fixture::*;
    let shy = pod("shy").apart(near(HOSTNAME, &[("app", "x")]));
    world(Vec::new()).node("n", &[], 4000).running("n", vec![shy])
}
