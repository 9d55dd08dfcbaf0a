//! Clusters to take nodes from, the same on every machine and on every day.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::disrupt::{Decision, Rules, Scene, decide};
use engine::solve::{Question, solve};
use model::budget::{Budget, BudgetText};
use model::disruption::Disruption;
use model::ids::NodeName;
use model::instance::{CapacityType, InstanceType, Offering};
use model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODE_POOL, WellKnown, ZONE};
use model::node::{Node, Progress, Tenure};
use model::plan::{PlannedClaim, Target};
use model::pod::Pod;
use model::pool::{Limits, Pool, PoolKind, PoolState, Template};
use model::price::Price;
use model::requirements::{Requirement, Requirements};
use model::resources::{Resource, Resources};
use model::snapshot::Snapshot;
use model::time::Instant;
use model::topology::{Namespaces, PodTerm, Policy, Selector, Spread, SpreadMode};
use model::volume::AttachLimits;

const POOL: &str = "p";
const NOW_UNIX_SECONDS: i64 = 1_800_000_000;
/// Between two decisions; nothing that happened in the one before holds up the next.
const PAUSE: Duration = Duration::from_secs(600);
const REPLICAS: usize = 50;
/// Rounds after which a cluster must have come to rest.
const MOST_ROUNDS: usize = 60;

/// What pods ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Nothing but room, each its own amounts.
    Sizes,
    /// Apps of fifty alike pods; of ten apps three spread over zones, one keeps its pods on different hosts.
    Apps,
}

/// Chance that is the same everywhere: SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(mixed ^ (mixed >> 31)) * u128::from(bound)) >> 64) as u64
    }
}

/// A world with one pool that is offered these types on demand, lets all its nodes go, and has no node yet.
pub fn empty_world<'a>(types: &[Arc<InstanceType>], well_known: impl IntoIterator<Item = &'a str>) -> Snapshot {
    let mut snapshot = Snapshot::empty(Instant::from_unix_seconds(NOW_UNIX_SECONDS));
    snapshot.well_known = Arc::new(WellKnown::with_provider(well_known));
    let all = BudgetText { nodes: "100%", reasons: None, schedule: None, duration: None };
    let requirements = Requirements::default()
        .with(NODE_POOL, Requirement::value(POOL.into()))
        .with(CAPACITY_TYPE, Requirement::value(CapacityType::OnDemand.as_str().into()));
    let pool = Pool {
        name: POOL.into(),
        weight: 0,
        kind: PoolKind::Dynamic,
        state: PoolState::Ready,
        limits: Limits::default(),
        template: Template {
            labels: [(Arc::from(NODE_POOL), Arc::from(POOL))].into(),
            requirements,
            taints: Vec::new(),
            startup_taints: Vec::new(),
        },
        instance_types: types.to_vec(),
        budgets: [Budget::parse(&all)].into_iter().collect(),
        consolidation: Default::default(),
    };
    snapshot.pools.insert(POOL.into(), Arc::new(pool));
    snapshot
}

/// So many pods on machines that were bought for all of them at once, and then improved until nothing is left to do.
pub fn at_rest(mut world: Snapshot, pods: usize, mix: Mix) -> Snapshot {
    let pods = draw_pods(pods, mix);
    let plan = solve(&world, &Question::about(pods.iter().collect()), &AtomicBool::new(false));
    let nodes: Vec<Node> =
        plan.claims.iter().enumerate().map(|(number, claim)| bought(&world, claim, number)).collect();
    let mut places: BTreeMap<_, _> = plan.placements.into_iter().collect();
    for mut pod in pods {
        let Some(Target::Claim(claim)) = places.remove(&pod.name) else { continue };
        (pod.node, pod.is_unschedulable) = (Some(nodes[claim].name.clone()), false);
        world.pods.insert(pod.name.clone(), Arc::new(pod));
    }
    world.nodes = nodes.into_iter().map(|node| (node.name.clone(), Arc::new(node))).collect();
    come_to_rest(&mut world, |_| {});
    world
}

/// So many machines of these types, each filled at random to two fifths of its cpu.
pub fn loose(mut world: Snapshot, nodes: usize, types: &[&str], mix: Mix) -> Snapshot {
    let mut chance = Chance(7);
    let mut drawn = draw_pods(nodes * 40, mix).into_iter();
    for number in 0..nodes {
        let name = types[chance.below(types.len() as u64) as usize];
        let claim = PlannedClaim { types: [name.into()].into(), ..PlannedClaim::bare(POOL.into()) };
        let node = bought(&world, &claim, number);
        let mut left = node.allocatable.cpu_milli * 2 / 5;
        for mut pod in drawn.by_ref() {
            if pod.requests.cpu_milli > left {
                break;
            }
            left -= pod.requests.cpu_milli;
            (pod.node, pod.is_unschedulable) = (Some(node.name.clone()), false);
            world.pods.insert(pod.name.clone(), Arc::new(pod));
        }
        world.nodes.insert(node.name.clone(), Arc::new(node));
    }
    world
}

/// Decides and carries out until nothing is left to do; each decision is told. Says whether there was an end.
pub fn come_to_rest(world: &mut Snapshot, mut told: impl FnMut(&Decision)) -> bool {
    for _ in 0..MOST_ROUNDS {
        let decision = decide(&scene(world), &Rules::default());
        told(&decision);
        for command in &decision.commands {
            carry_out(world, command);
        }
        if decision.commands.is_empty() {
            return true;
        }
        world.now = world.now.plus(PAUSE);
    }
    false
}

/// Nobody waits, and nothing is under way.
pub fn scene(snapshot: &Snapshot) -> Scene<'_> {
    Scene {
        snapshot,
        pending: Vec::new(),
        nominated: Default::default(),
        moved: Default::default(),
        under_way: Vec::new(),
        paused: Default::default(),
        static_pools: Default::default(),
    }
}

/// What all nodes cost per hour.
pub fn price(world: &Snapshot) -> Price {
    let own = |node: &Node| {
        let offered = world.pools[&POOL.into()].instance_type(node.labels.get(INSTANCE_TYPE)?)?.clone();
        let is_own = |one: &&Offering| [ZONE, CAPACITY_TYPE].iter().all(|key| one.label(key) == node.labels.get(*key));
        offered.offerings.iter().find(is_own).map(|one| one.price)
    };
    world.nodes.values().filter_map(|node| own(node)).fold(Price::ZERO, Price::plus)
}

/// As clouds and schedulers would do it if they did what was planned.
fn carry_out(world: &mut Snapshot, command: &Disruption) {
    let mut new = Vec::new();
    for claim in &command.replacements {
        let node = bought(world, claim, world.nodes.len());
        new.push(node.name.clone());
        world.nodes.insert(node.name.clone(), Arc::new(node));
    }
    for (pod, target) in &command.moves {
        let place = match target {
            Target::Node(node) => node.clone(),
            Target::Claim(claim) => new[*claim].clone(),
        };
        if let Some(pod) = world.pods.get_mut(pod) {
            Arc::make_mut(pod).node = Some(place);
        }
    }
    command.nodes().for_each(|node| drop(world.nodes.remove(node)));
}

/// The cheapest machine that a claim lists, settled at once.
fn bought(world: &Snapshot, claim: &PlannedClaim, number: usize) -> Node {
    let pool = &world.pools[&claim.pool];
    let name = (number..)
        .map(|number| NodeName::from(format!("n{}-{number:05}", world.now.unix_seconds() - NOW_UNIX_SECONDS)))
        .find(|name| !world.nodes.contains_key(name))
        .expect("there are more numbers than nodes");
    let offered = pool.instance_type(claim.types[0].as_str()).expect("a claim lists what its pool is offered");
    let suits = |one: &&Offering| {
        one.is_available
            && pool.template.requirements.overlaps(&one.requirements)
            && claim.requirements.overlaps(&one.requirements)
    };
    let bought = offered.offerings.iter().filter(suits).min_by_key(|one| one.price).expect("what is listed is sold");
    let mut labels = pool.template.labels.clone();
    labels.extend(offered.requirements.iter().filter_map(|(key, asked)| Some((key.clone(), single(asked)?))));
    labels.extend(bought.requirements.iter().filter_map(|(key, asked)| Some((key.clone(), single(asked)?))));
    labels.insert(HOSTNAME.into(), name.shared());
    labels.insert(INSTANCE_TYPE.into(), offered.name.shared());
    let since = Some(world.now);
    Node {
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
        name,
    }
}

fn single(asked: &Requirement) -> Option<Arc<str>> {
    asked.listed().filter(|values| values.len() == 1)?.first().cloned()
}

fn draw_pods(count: usize, mix: Mix) -> Vec<Pod> {
    let mut chance = Chance(42);
    let mut pods = Vec::with_capacity(count);
    for number in 0..count {
        let pod = match mix {
            Mix::Sizes => {
                let cpu = 100 * (1 + chance.below(10) as i64);
                let memory = cpu * (1000 + chance.below(2500) as i64) * 1024;
                pod(&format!("p-{number:06}"), cpu, memory)
            }
            Mix::Apps if number % REPLICAS == 0 => {
                let cpu = 50 * (2 + chance.below(19) as i64);
                let memory = (cpu / 50) * (64 + 16 * chance.below(8) as i64) * 1024 * 1024;
                app(pod(&format!("p-{number:06}"), cpu, memory), number / REPLICAS)
            }
            Mix::Apps => {
                let first: &Pod = &pods[number / REPLICAS * REPLICAS];
                let name = format!("p-{number:06}");
                let fresh = Pod::pending("default", &name, Resources::default());
                Pod { name: fresh.name, uid: fresh.uid, ..first.clone() }
            }
        };
        pods.push(pod);
    }
    // Whoever comes next on a machine is of any app.
    for place in (1..pods.len()).rev() {
        pods.swap(place, chance.below(place as u64 + 1) as usize);
    }
    pods
}

fn pod(name: &str, cpu_milli: i64, memory: i64) -> Pod {
    let mut requests = Resources::default();
    requests.set(Resource::Cpu, cpu_milli);
    requests.set(Resource::Memory, memory);
    Pod::pending("default", name, requests)
}

fn app(mut pod: Pod, number: usize) -> Pod {
    let name: Arc<str> = format!("app-{number}").into();
    pod.labels.insert("app".into(), name.clone());
    let selector = Selector::Matching(Requirements::default().with("app", Requirement::value(name)));
    let spread = Spread {
        key: ZONE.into(),
        max_skew: 1,
        min_domains: None,
        mode: SpreadMode::DoNotSchedule,
        selector: selector.clone(),
        node_affinity: Policy::Honor,
        node_taints: Policy::Ignore,
    };
    match number % 10 {
        0..3 => pod.wants.spread.push(spread),
        3 => pod.wants.apart.push(PodTerm { key: HOSTNAME.into(), selector, namespaces: Namespaces::All }),
        _ => {}
    }
    pod
}
