//! What is kept from one decision to the next, and what searches leave out. Decision 0081.

use std::sync::Arc;
use std::time::Duration;

use engine::disrupt::{Decision, Memory, decide, decide_with};
use model::disruption::{Moved, Stay};
use model::ids::PodName;
use model::labels::ZONE;
use model::node::{Node, Tenure};
use model::pod::{DoNotDisrupt, Pod, Weighted};
use model::resources::Resource;
use model::topology::PodTerm;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::cluster::{Cluster, NOW, at, cluster};
use crate::consolidation::{cpu, priced};
use crate::fixture::*;
use crate::many::any_many;
use crate::random::{draws, seeded};

/// What happens between two decisions.
#[derive(Clone, Debug)]
enum Change {
    Nothing,
    /// A pod comes to a node, or goes, so that it rests from then on.
    Disturbed(Index, bool),
    Settled(Index),
    Relabelled(Index),
    /// A pod asks for less.
    Shrunk(Index),
    Moved(Index),
    Time(u64),
    Nominated(Index),
    Budget(&'static str),
}

fn any_change() -> impl Strategy<Value = Change> {
    let place = any::<Index>;
    prop_oneof![
        2 => Just(Change::Nothing),
        4 => (place(), any::<bool>()).prop_map(|(node, comes)| Change::Disturbed(node, comes)),
        2 => place().prop_map(Change::Settled),
        1 => place().prop_map(Change::Relabelled),
        1 => place().prop_map(Change::Shrunk),
        1 => place().prop_map(Change::Moved),
        2 => (1..3000_u64).prop_map(Change::Time),
        1 => place().prop_map(Change::Nominated),
        1 => prop_oneof![Just("0"), Just("1"), Just("100%")].prop_map(Change::Budget),
    ]
}

/// Nodes that must be quiet for an hour, and of which some are not.
fn any_restless() -> impl Strategy<Value = Cluster> {
    (any_many(), proptest::collection::vec(any::<bool>(), 30)).prop_map(|(cluster, restless)| {
        let cluster = ["p", "q"].iter().fold(cluster, |cluster, pool| cluster.consolidate_after(pool, Some(3600)));
        let mut cluster = cluster;
        for (node, is_restless) in cluster.snapshot.nodes.values_mut().zip(restless) {
            rest(Arc::make_mut(node), is_restless.then_some(NOW - 60));
        }
        cluster
    })
}

fn rest(node: &mut Node, since: Option<i64>) {
    let tenure = node.tenure.as_mut().unwrap();
    tenure.initialized = Some(at(NOW - 7200));
    tenure.last_pod_event = since.map(at);
    tenure.consolidatable = since.is_none().then(|| at(NOW - 3600));
}

impl Cluster {
    fn after(mut self, change: &Change, number: usize) -> Self {
        let now = self.snapshot.now;
        let nodes: Vec<String> = self.snapshot.nodes.keys().map(ToString::to_string).collect();
        let pods: Vec<PodName> = self.snapshot.pods.keys().cloned().collect();
        let node = |place: &Index| nodes[place.index(nodes.len())].as_str();
        let pod = |place: &Index| (!pods.is_empty()).then(|| pods[place.index(pods.len())].clone());
        match change {
            Change::Nothing => self,
            Change::Disturbed(place, comes) => {
                let on = |pod: &Pod| pod.node.as_ref().is_some_and(|on| on.as_str() == node(place));
                let first = self.snapshot.pods.values().find(|pod| on(pod)).map(|pod| pod.name.clone());
                let rested = self.node(node(place), |node| rest(node, Some(now.since(at(0)).as_secs() as i64)));
                if *comes {
                    return rested.running(node(place), vec![cpu(&format!("new-{number}"), 100)]);
                }
                let mut fewer = rested;
                first.iter().for_each(|name| drop(fewer.snapshot.pods.remove(name)));
                fewer
            }
            Change::Settled(place) => self.node(node(place), |node| rest(node, None)),
            Change::Relabelled(place) => self.label(node(place), "colour", "blue"),
            Change::Shrunk(place) => {
                let shrunk = pod(place).and_then(|name| self.snapshot.pods.get_mut(&name));
                shrunk.into_iter().for_each(|pod| {
                    let pod = Arc::make_mut(pod);
                    pod.requests = pod.requests.clone().with("cpu", 1);
                });
                self
            }
            Change::Moved(place) => {
                self.moved.extend(pod(place).map(|name| (name, Moved { when: now, times: 1 })));
                self
            }
            Change::Time(seconds) => {
                self.snapshot.now = now.plus(Duration::from_secs(*seconds));
                self
            }
            Change::Nominated(place) => {
                self.nominated = [node(place).into()].into();
                self
            }
            Change::Budget(nodes) => self.budget("p", &[nodes]),
        }
    }

    /// No pod minds where others are.
    fn carefree(mut self) -> Self {
        for pod in self.snapshot.pods.values_mut() {
            let wants = &mut Arc::make_mut(pod).wants;
            (wants.spread, wants.together, wants.apart) = (Vec::new(), Vec::new(), Vec::new());
            (wants.preferred_together, wants.preferred_apart) = (Vec::new(), Vec::new());
        }
        self
    }
}

/// Decides again and again, with a memory and without.
fn remembers(mut cluster: Cluster, changes: &[Change]) -> u64 {
    let mut memory = Memory::default();
    for (number, change) in changes.iter().enumerate() {
        cluster = cluster.after(change, number);
        let scene = cluster.scene();
        assert_eq!(decide_with(&mut memory, &scene, &cluster.rules), decide(&scene, &cluster.rules), "{change:?}");
    }
    memory.searches_spared()
}

/// What is done, and why everybody else stays.
fn outcome(mut decision: Decision) -> Decision {
    decision.effort = Default::default();
    decision
}

proptest! {
    #![proptest_config(seeded(100))]

    #[test]
    fn what_is_remembered_changes_no_decision(
        cluster in any_restless(),
        is_carefree in any::<bool>(),
        changes in proptest::collection::vec(any_change(), 1..12),
    ) {
        remembers(if is_carefree { cluster.carefree() } else { cluster }, &changes);
    }

    /// A limit that binds nobody has everything looked at, so what was left out before must have made no difference.
    #[test]
    fn nodes_that_take_nobody_and_give_nobody_away_make_no_difference(
        cluster in any_restless(),
        is_carefree in any::<bool>(),
    ) {
        let cluster = if is_carefree { cluster.carefree() } else { cluster };
        let unbounded = |pool: &mut model::pool::Pool| pool.limits.nodes = Some(1_000_000);
        let limited = ["p", "q"].iter().fold(cluster.clone(), |cluster, pool| cluster.pool(pool, unbounded));
        let (free, limited) = (decide(&cluster.scene(), &cluster.rules), decide(&limited.scene(), &limited.rules));
        prop_assert_eq!(outcome(free), outcome(limited));
    }
}

/// A memory that never has what is asked for keeps every law.
#[test]
fn changes_elsewhere_spare_a_search() {
    let changes = draws(proptest::collection::vec(any_change(), 12), 40);
    let clusters = draws(any_restless(), 40);
    let spared: u64 =
        clusters.into_iter().zip(&changes).map(|(cluster, changes)| remembers(cluster.carefree(), changes)).sum();
    assert!(spared > 100, "{spared} of {}", 40 * 12);
}

/// A node with one pod, two that stay and have room, each in a zone of its own, and one that rests in one of the zones with some pods.
fn between(pod: PodSketch, rests_in: &str, resting: Vec<PodSketch>) -> Cluster {
    let types = vec![series(4).pop().unwrap()];
    let own = cluster(vec![pool("p").types(types)]).consolidate_after("p", Some(3600));
    let own = own.machine("n", "fake-it-3", vec![pod]).machine("here", "fake-it-3", vec![]);
    let own = own.machine("there", "fake-it-3", vec![]).label("there", ZONE, "test-zone-2");
    let own = own.machine("rests", "fake-it-3", resting).label("rests", ZONE, rests_in);
    let kept = |tenure: &mut Tenure| tenure.do_not_disrupt = DoNotDisrupt::Always;
    own.tenure("here", kept).tenure("there", kept).node("rests", |node| rest(node, Some(NOW - 60)))
}

/// Who stands on a node that takes nobody still counts, where pods mind where others are.
#[test]
fn pods_on_nodes_that_rest_keep_others_near_and_away() {
    let (one, two) = ("test-zone-1", "test-zone-2");
    let pod = |name: &str, app: &str| pod(name).label("app", app).asks("cpu", 500);
    let near_y = || near(ZONE, &[("app", "y")]);
    let goes_to = |cluster: Cluster| {
        let commands = cluster.decide().commands;
        commands.iter().flat_map(|command| command.destinations().map(ToString::to_string)).collect::<Vec<_>>()
    };
    let weighted = |item: PodTerm| Weighted { weight: 100, item };
    let prefers = |near: PodTerm| pod("x", "x").change(|pod| pod.wants.preferred_together.push(weighted(near)));
    let shuns = |near: PodTerm| pod("x", "x").change(|pod| pod.wants.preferred_apart.push(weighted(near)));
    for (zone, place, other) in [(one, "here", "there"), (two, "there", "here")] {
        let y = || vec![pod("y", "y")];
        assert_eq!(goes_to(between(pod("x", "x").together(near_y()), zone, y())), [place]);
        assert_eq!(goes_to(between(pod("x", "x").apart(near_y()), zone, y())), [other]);
        let avoids_x = vec![pod("y", "y").apart(near(ZONE, &[("app", "x")]))];
        assert_eq!(goes_to(between(pod("x", "x"), zone, avoids_x)), [other]);
        assert_eq!(goes_to(between(prefers(near_y()), zone, y())), [place]);
        assert_eq!(goes_to(between(shuns(near_y()), zone, y())), [other]);
        let alike = |name: &str| pod(name, "s").spread(spread_over(ZONE, 1, &[("app", "s")]));
        assert_eq!(goes_to(between(alike("x"), zone, vec![alike("a"), alike("b")])), [other]);
    }
}

/// Limits count what nodes have that take nobody.
#[test]
fn nodes_that_rest_use_up_limits() {
    let types = series(4);
    let menu = vec![priced(&types[1], |_, _| Some(0.1)), priced(&types[3], |_, _| Some(1.0))];
    let two = cluster(vec![pool("p").types(menu)]).consolidate_after("p", Some(3600));
    let two = two.machine("n", "fake-it-3", vec![cpu("x", 500)]).machine("rests", "fake-it-3", vec![cpu("y", 3500)]);
    let two = two.node("rests", |node| rest(node, Some(NOW - 60)));
    assert_eq!(two.all_leaving(), ["n"]);
    let limited = |cpus: i64| {
        let limit = (Resource::Cpu, cpus * 1000);
        two.clone().pool("p", |pool| pool.limits.resources = vec![limit])
    };
    assert_eq!(limited(7).all_leaving(), ["n"]);
    assert_eq!(limited(5).stay("n"), Stay::NoRoom { pod: PodName::new("default", "x"), others: 0 });
}

/// What it costs to move pods again changes with time alone.
#[test]
fn a_ground_is_another_one_when_moving_costs_less() {
    let types = series(3);
    let menu = vec![priced(&types[1], |_, _| Some(0.99)), priced(&types[2], |_, _| Some(1.0))];
    let own = cluster(vec![pool("p").types(menu)]).machine("n", "fake-it-2", vec![cpu("x", 500)]);
    let mut memory = Memory::default();
    let mut leaving = |ago: i64| {
        let mut own = own.clone();
        own.moved.insert(PodName::new("default", "x"), Moved { when: at(NOW - ago), times: 1 });
        decide_with(&mut memory, &own.scene(), &own.rules).commands.len()
    };
    assert_eq!([leaving(82), leaving(84), leaving(85)], [0, 0, 1]);
    assert_eq!(memory.searches_spared(), 1);
}
