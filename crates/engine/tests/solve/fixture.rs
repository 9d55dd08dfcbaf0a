//! A small cloud, and a short way to say what a world looks like.
//!
//! The cloud has three zones: spot in two of them, on-demand in all. Prices follow cpu, memory and GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::solve::{Question, solve};
use model::ids::{NodeName, PodName};
use model::instance::{InstanceType, Offering};
use model::labels::{
    ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, Labels, NODE_POOL, OS, REGION, WINDOWS_BUILD, WellKnown, ZONE,
};
use model::node::{Node, Progress};
use model::plan::{Plan, Target};
use model::pod::{Life, Pod};
use model::pool::{Limits, Pool, PoolKind, PoolState, Template};
use model::price::Price;
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::Resources;
use model::snapshot::{Daemon, Snapshot};
use model::taints::{Effect, Match, Taint, Toleration};
use model::time::Instant;
use model::topology::{Namespaces, PodTerm, Policy, Selector, Spread, SpreadMode};
use model::volume::AttachLimits;

pub(crate) const GI: i64 = 1 << 30;
pub(crate) const MI: i64 = 1 << 20;

/// `In a b`, `NotIn a`, `Exists`, `Gt 3`, …
pub(crate) fn req(text: &str) -> Requirement {
    let mut words = text.split_whitespace();
    let operator = Operator::parse(words.next().unwrap()).unwrap();
    Requirement::new(operator, words)
}

pub(crate) fn reqs(entries: &[(&str, &str)]) -> Requirements {
    entries.iter().fold(Requirements::default(), |set, (key, text)| set.with(key, req(text)))
}

/// An instance type of the fixture.
pub(crate) struct Shape {
    name: String,
    amounts: Resources,
    arch: &'static str,
    os: &'static str,
    offerings: Vec<(&'static str, &'static str)>,
}

pub(crate) fn shape(name: &str) -> Shape {
    Shape {
        name: name.to_owned(),
        amounts: Resources::default().with("cpu", 4000).with("memory", 4 * GI).with("pods", 5),
        arch: "amd64",
        os: "linux windows darwin",
        offerings: vec![
            ("spot", "test-zone-1"),
            ("spot", "test-zone-2"),
            ("on-demand", "test-zone-1"),
            ("on-demand", "test-zone-2"),
            ("on-demand", "test-zone-3"),
        ],
    }
}

impl Shape {
    pub(crate) fn with(mut self, resource: &str, amount: i64) -> Self {
        self.amounts = self.amounts.with(resource, amount);
        self
    }

    pub(crate) fn arch(mut self, arch: &'static str) -> Self {
        self.arch = arch;
        self
    }

    pub(crate) fn build(self) -> Arc<InstanceType> {
        let gpus = self.amounts.amounts().filter(|(axis, _)| axis.name().starts_with("fake.com/")).count() as f64;
        let cpu = self.amounts.cpu_milli as f64 / 1000.0;
        let price = Price::from_dollars(0.1 * cpu + 0.1 * self.amounts.memory_bytes as f64 / 1e9 + gpus).unwrap();
        let is_large = self.amounts.cpu_milli > 4000 && self.amounts.memory_bytes > 8 * GI;
        let values = |pick: fn(&(&str, &str)) -> String| -> String {
            let all: BTreeSet<String> = self.offerings.iter().map(pick).collect();
            format!("In {}", all.into_iter().collect::<Vec<_>>().join(" "))
        };
        let requirements = reqs(&[
            (INSTANCE_TYPE, &format!("In {}", self.name)),
            (ARCH, &format!("In {}", self.arch)),
            (OS, &format!("In {}", self.os)),
            (ZONE, &values(|offering| offering.1.to_owned())),
            (CAPACITY_TYPE, &values(|offering| offering.0.to_owned())),
            (REGION, "DoesNotExist"),
            (WINDOWS_BUILD, "DoesNotExist"),
            ("size", if is_large { "In large" } else { "In small" }),
            ("special", if is_large { "In optional" } else { "DoesNotExist" }),
            ("integer", &format!("In {}", self.amounts.cpu_milli / 1000)),
        ]);
        let offering = |(capacity_type, zone): &(&str, &str)| Offering {
            requirements: reqs(&[(CAPACITY_TYPE, &format!("In {capacity_type}")), (ZONE, &format!("In {zone}"))]),
            price,
            is_available: true,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
            has_price_overlay: false,
        };
        Arc::new(InstanceType {
            name: self.name.as_str().into(),
            requirements,
            capacity: self.amounts.clone(),
            overhead: Resources::default().with("cpu", 100).with("memory", 10 * MI),
            offerings: self.offerings.iter().map(offering).collect(),
            attach_limits: AttachLimits::new(),
            has_capacity_overlay: false,
        })
    }
}

/// The types of the reference's own tests.
pub(crate) fn usual_types() -> Vec<Arc<InstanceType>> {
    vec![
        shape("default-instance-type").build(),
        shape("small-instance-type").with("cpu", 2000).with("memory", 2 * GI).build(),
        shape("gpu-vendor-instance-type").with("fake.com/vendor-a", 2).build(),
        shape("gpu-vendor-b-instance-type").with("fake.com/vendor-b", 2).build(),
        shape("arm-instance-type").arch("arm64").with("cpu", 16000).with("memory", 128 * GI).build(),
        shape("single-pod-instance-type").with("pods", 1).build(),
    ]
}

/// Types of 1 to `count` cpus, 2 Gi and 10 pods for each.
pub(crate) fn series(count: i64) -> Vec<Arc<InstanceType>> {
    let step = |i: i64| {
        shape(&format!("fake-it-{i}"))
            .with("cpu", 1000 * (i + 1))
            .with("memory", 2 * GI * (i + 1))
            .with("pods", 10 * (i + 1))
    };
    (0..count).map(|i| step(i).build()).collect()
}

#[derive(Debug)]
pub(crate) struct PoolSketch(Pool);

pub(crate) fn pool(name: &str) -> PoolSketch {
    let labels = [(Arc::from(NODE_POOL), Arc::from(name))].into();
    PoolSketch(Pool {
        name: name.into(),
        weight: 0,
        kind: PoolKind::Dynamic,
        state: PoolState::Ready,
        limits: Limits::default(),
        template: Template {
            requirements: reqs(&[(NODE_POOL, &format!("In {name}"))]),
            labels,
            taints: Vec::new(),
            startup_taints: Vec::new(),
        },
        instance_types: usual_types(),
        budgets: Default::default(),
        consolidation: Default::default(),
    })
}

impl PoolSketch {
    pub(crate) fn weight(mut self, weight: i32) -> Self {
        self.0.weight = weight;
        self
    }

    pub(crate) fn requires(mut self, key: &str, text: &str) -> Self {
        self.0.template.requirements.add(key, req(text));
        self
    }

    pub(crate) fn min_values(mut self, key: &str, text: &str, least: u32) -> Self {
        self.0.template.requirements.add(key, req(text).with_min_values(Some(least)));
        self
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0.template.labels.insert(key.into(), value.into());
        self.0.template.requirements.add(key, req(&format!("In {value}")));
        self
    }

    pub(crate) fn types(mut self, types: Vec<Arc<InstanceType>>) -> Self {
        self.0.instance_types = types;
        self
    }

    pub(crate) fn taint(mut self, key: &str, effect: Effect) -> Self {
        self.0.template.taints.push(Taint::new(key, "", effect));
        self
    }

    pub(crate) fn limit(mut self, resource: &str, amount: i64) -> Self {
        match resource {
            "nodes" => self.0.limits.nodes = Some(amount),
            other => self.0.limits.resources.push((model::resources::Resource::from_name(other), amount)),
        }
        self
    }

    pub(crate) fn state(mut self, state: PoolState) -> Self {
        self.0.state = state;
        self
    }

    pub(crate) fn fixed(mut self, replicas: i64) -> Self {
        self.0.kind = PoolKind::Static { replicas };
        self
    }
}

#[derive(Debug)]
pub(crate) struct PodSketch(pub(crate) Pod);

/// A pod of so many thousandths of a cpu.
pub(crate) fn pod(name: &str) -> PodSketch {
    PodSketch(Pod::pending("default", name, Resources::default()))
}

pub(crate) fn pods(prefix: &str, count: usize, make: impl Fn(PodSketch) -> PodSketch) -> Vec<PodSketch> {
    (0..count).map(|i| make(pod(&format!("{prefix}-{i:03}")))).collect()
}

pub(crate) fn selector(entries: &[(&str, &str)]) -> Selector {
    Selector::Matching(entries.iter().fold(Requirements::default(), |set, (k, v)| set.with(k, req(&format!("In {v}")))))
}

pub(crate) fn near(key: &str, labels: &[(&str, &str)]) -> PodTerm {
    PodTerm { key: key.into(), selector: selector(labels), namespaces: Namespaces::Listed(["default".into()].into()) }
}

pub(crate) fn spread_over(key: &str, max_skew: i32, labels: &[(&str, &str)]) -> Spread {
    Spread {
        key: key.into(),
        max_skew,
        min_domains: None,
        mode: SpreadMode::DoNotSchedule,
        selector: selector(labels),
        node_affinity: Policy::Honor,
        node_taints: Policy::Ignore,
    }
}

impl PodSketch {
    pub(crate) fn asks(mut self, resource: &str, amount: i64) -> Self {
        self.0.requests = self.0.requests.with(resource, amount);
        self
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels.insert(key.into(), value.into());
        self
    }

    pub(crate) fn selects(mut self, key: &str, text: &str) -> Self {
        self.0.wants.selector.add(key, req(text));
        self
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut Pod)) -> Self {
        change(&mut self.0);
        self
    }

    pub(crate) fn spread(self, spread: Spread) -> Self {
        self.change(|pod| pod.wants.spread.push(spread))
    }

    pub(crate) fn apart(self, term: PodTerm) -> Self {
        self.change(|pod| pod.wants.apart.push(term))
    }

    pub(crate) fn together(self, term: PodTerm) -> Self {
        self.change(|pod| pod.wants.together.push(term))
    }

    pub(crate) fn tolerates(self, key: &str) -> Self {
        let toleration = Toleration { key: Some(key.into()), matches: Match::Any, effect: None };
        self.change(|pod| pod.wants.tolerations.push(toleration))
    }

    pub(crate) fn priority(self, priority: i32) -> Self {
        self.change(|pod| pod.priority = priority)
    }
}

pub(crate) struct World {
    pub(crate) snapshot: Snapshot,
}

pub(crate) fn world(pools: Vec<PoolSketch>) -> World {
    let mut snapshot = Snapshot::empty(Instant::from_unix_seconds(0));
    snapshot.well_known = Arc::new(WellKnown::with_provider(["size", "special", "integer"]));
    snapshot.pools = pools.into_iter().map(|pool| (pool.0.name.clone(), Arc::new(pool.0))).collect();
    World { snapshot }
}

impl World {
    /// Adds a node that nobody manages.
    pub(crate) fn node(mut self, name: &str, labels: &[(&str, &str)], cpu_milli: i64) -> Self {
        let amounts = Resources::default().with("cpu", cpu_milli).with("memory", 64 * GI).with("pods", 100);
        let mut all: BTreeMap<Arc<str>, Arc<str>> = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        all.insert(HOSTNAME.into(), name.into());
        let node = Node {
            name: name.into(),
            pool: None,
            labels: all,
            taints: Vec::new(),
            capacity: amounts.clone(),
            allocatable: amounts,
            attach_limits: AttachLimits::new(),
            progress: Progress::Initialized,
            is_leaving: false,
            created: Instant::from_unix_seconds(0),
            tenure: None,
        };
        self.snapshot.nodes.insert(name.into(), Arc::new(node));
        self
    }

    /// Adds pods that run on a node.
    pub(crate) fn running(mut self, node: &str, pods: Vec<PodSketch>) -> Self {
        for PodSketch(mut pod) in pods {
            pod.node = Some(node.into());
            pod.is_unschedulable = false;
            pod.life = Life::Active;
            self.snapshot.pods.insert(pod.name.clone(), Arc::new(pod));
        }
        self
    }

    pub(crate) fn solve(&self, pods: Vec<PodSketch>) -> Answer {
        self.answer(pods, |_| {})
    }

    /// The same while more pods are to come.
    pub(crate) fn solve_early(&self, pods: Vec<PodSketch>) -> Answer {
        self.answer(pods, |question| question.expects_more = true)
    }

    fn answer(&self, pods: Vec<PodSketch>, change: impl FnOnce(&mut Question<'_>)) -> Answer {
        let pods: Vec<Pod> = pods.into_iter().map(|sketch| sketch.0).collect();
        let mut question = Question::about(pods.iter().collect());
        change(&mut question);
        let plan = solve(&self.snapshot, &question, &AtomicBool::new(false));
        Answer { plan }
    }
}

pub(crate) struct Answer {
    pub(crate) plan: Plan,
}

impl Answer {
    pub(crate) fn is_placed(&self, name: &str) -> bool {
        self.plan.placements.iter().any(|(pod, _)| *pod.name == *name)
    }

    pub(crate) fn placed(&self) -> usize {
        self.plan.placements.len()
    }

    pub(crate) fn claims(&self) -> usize {
        self.plan.claims.len()
    }

    pub(crate) fn target(&self, name: &str) -> &Target {
        &self.plan.placements.iter().find(|(pod, _)| *pod.name == *name).unwrap().1
    }

    /// The claim that a pod is on.
    pub(crate) fn claim(&self, name: &str) -> &model::plan::PlannedClaim {
        match self.target(name) {
            Target::Claim(number) => &self.plan.claims[*number],
            Target::Node(node) => panic!("{name} is on {node}"),
        }
    }

    /// The only value that a pod's claim leaves for a label.
    pub(crate) fn value(&self, name: &str, key: &str) -> String {
        let requirement = self.claim(name).requirements.get(key).unwrap();
        let values: Vec<&str> = requirement.listed().unwrap().iter().map(|value| &**value).collect();
        values.join(" ")
    }

    /// How many of the pods with this prefix are in each domain, ascending.
    pub(crate) fn skew(&self, prefix: &str, key: &str) -> Vec<usize> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (pod, target) in self.plan.placements.iter().filter(|(pod, _)| pod.name.starts_with(prefix)) {
            let domain = match target {
                Target::Claim(number) if key == HOSTNAME => format!("claim {number}"),
                Target::Claim(_) => self.value(&pod.name, key),
                Target::Node(node) => node.to_string(),
            };
            *counts.entry(domain).or_default() += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable();
        counts
    }

    pub(crate) fn types(&self, name: &str) -> Vec<String> {
        self.claim(name).types.iter().map(ToString::to_string).collect()
    }
}

/// An instance type with something changed.
pub(crate) fn changed(shape: Shape, change: impl FnOnce(&mut InstanceType)) -> Arc<InstanceType> {
    let mut built = Arc::unwrap_or_clone(shape.build());
    change(&mut built);
    Arc::new(built)
}

impl PoolSketch {
    pub(crate) fn startup_taint(mut self, key: &str) -> Self {
        self.0.template.startup_taints.push(Taint::new(key, "", Effect::NoSchedule));
        self
    }
}

impl World {
    /// Adds a daemon that suits every node and asks for nothing but its place.
    pub(crate) fn daemon(mut self, name: &str, change: impl FnOnce(&mut Daemon)) -> Self {
        let mut daemon = Daemon {
            name: PodName::new("kube-system", name),
            labels: Labels::new(),
            requests: Resources::default().with("pods", 1),
            selector: Requirements::default(),
            terms: Vec::new(),
            tolerations: Vec::new(),
            ports: Vec::new(),
            has_resource_claims: false,
        };
        change(&mut daemon);
        self.snapshot.daemons.insert(daemon.name.clone(), Arc::new(daemon));
        self
    }

    pub(crate) fn change_node(mut self, name: &str, change: impl FnOnce(&mut Node)) -> Self {
        change(Arc::make_mut(self.snapshot.nodes.get_mut(&name.into()).unwrap()));
        self
    }

    /// Solves, and has the judge look at the plan.
    pub(crate) fn judged(&self, pods: Vec<PodSketch>) -> Answer {
        self.carried_out(pods).0
    }

    /// The world once a plan for these pods is carried out: they run on its machines, which have come so far.
    pub(crate) fn after(mut self, pods: Vec<PodSketch>, progress: &Progress) -> Self {
        let (_, mut settled) = self.carried_out(pods);
        for (name, node) in &mut settled.nodes {
            if !self.snapshot.nodes.contains_key(name) {
                Arc::make_mut(node).progress = progress.clone();
            }
        }
        self.snapshot = settled;
        self
    }

    /// The world once the claims of a plan are made and the cloud has not answered; its pods wait as before.
    pub(crate) fn asked_for(mut self, answer: &Answer) -> Self {
        for (number, claim) in answer.plan.claims.iter().enumerate() {
            let pool = &self.snapshot.pools[&claim.pool];
            let offered = pool.instance_types.iter().filter(|offered| claim.types.contains(&offered.name));
            let progress =
                Progress::Unlaunched { types: offered.cloned().collect(), requirements: claim.requirements.clone() };
            let name = format!("asked-{number}");
            let mut labels = pool.template.labels.clone();
            labels.extend(claim.labels.clone());
            let node = Node {
                name: name.as_str().into(),
                pool: Some(claim.pool.clone()),
                labels,
                taints: pool.template.taints.clone(),
                capacity: Resources::default(),
                allocatable: Resources::default(),
                attach_limits: AttachLimits::new(),
                progress,
                is_leaving: false,
                created: Instant::from_unix_seconds(0),
                tenure: None,
            };
            self.snapshot.nodes.insert(node.name.clone(), Arc::new(node));
        }
        self
    }

    /// How many pods run on each node, ascending.
    pub(crate) fn crowds(&self) -> Vec<usize> {
        let on = |node: &NodeName| self.snapshot.pods.values().filter(|pod| pod.node.as_ref() == Some(node)).count();
        let mut crowds: Vec<usize> = self.snapshot.nodes.keys().map(on).collect();
        crowds.sort_unstable();
        crowds
    }

    fn carried_out(&self, pods: Vec<PodSketch>) -> (Answer, Snapshot) {
        let mut snapshot = self.snapshot.clone();
        for PodSketch(pod) in &pods {
            snapshot.pods.entry(pod.name.clone()).or_insert_with(|| Arc::new(pod.clone()));
        }
        let answer = self.solve(pods);
        let verdict = judge::replay(&snapshot, &answer.plan);
        assert!(verdict.is_accepted(), "{verdict}\n{:#?}", answer.plan);
        let settled = verdict.world.settled(&snapshot);
        (answer, settled)
    }
}

impl Answer {
    /// The node that a pod is on.
    pub(crate) fn node(&self, name: &str) -> &str {
        match self.target(name) {
            Target::Node(node) => node.as_str(),
            Target::Claim(number) => panic!("{name} is on claim {number}"),
        }
    }
}
