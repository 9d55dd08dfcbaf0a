//! A cluster to take nodes from: machines of ours on top of the solver's fixture.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::disrupt::{Decision, Rules, Scene, StaticCount, Validity, decide, still_holds};
use model::budget::{Budget, BudgetText};
use model::disruption::{Disruption, Method, Moved, Stay, Unready};
use model::eviction::{is_currently_reschedulable, is_reschedulable};
use model::ids::{NodeName, PodName, PoolName};
use model::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODE_POOL, OS, ZONE};
use model::node::{Drifted, Node, Progress, Tenure};
use model::plan::{Plan, Target};
use model::pod::Pod;
use model::pool::{ConsolidationPolicy, Pool, PoolKind};
use model::snapshot::{PodBudget, Snapshot};
use model::time::Instant;
use model::volume::AttachLimits;

use crate::fixture::{PodSketch, PoolSketch, selector, world};

pub(crate) const NOW: i64 = 1_000_000;

pub(crate) fn at(seconds: i64) -> Instant {
    Instant::from_unix_seconds(seconds)
}

#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) snapshot: Snapshot,
    pub(crate) foresight: Duration,
    pub(crate) pending: Vec<Pod>,
    pub(crate) nominated: BTreeSet<NodeName>,
    pub(crate) under_way: Vec<Disruption>,
    pub(crate) paused: BTreeMap<PoolName, Instant>,
    pub(crate) static_pools: BTreeMap<PoolName, StaticCount>,
    pub(crate) moved: BTreeMap<PodName, Moved>,
    pub(crate) rules: Rules,
}

/// A pod, and the machine that is not ready for it.
pub(crate) fn unready(pod: &str, node: &str) -> Unready {
    let claim = Some(format!("claim-{node}").into());
    Unready { pod: PodName::new("default", pod), claim, node: Some(node.into()) }
}

/// Pools that let all their nodes go.
pub(crate) fn cluster(pools: Vec<PoolSketch>) -> Cluster {
    let mut snapshot = world(pools).snapshot;
    snapshot.now = at(NOW);
    Cluster {
        snapshot,
        foresight: Duration::ZERO,
        pending: Vec::new(),
        nominated: BTreeSet::new(),
        under_way: Vec::new(),
        paused: BTreeMap::new(),
        static_pools: BTreeMap::new(),
        moved: BTreeMap::new(),
        rules: Rules::default(),
    }
}

impl Cluster {
    /// A machine of the first pool that is offered the type: on demand, in the first zone, and settled for long.
    pub(crate) fn machine(mut self, name: &str, type_name: &str, pods: Vec<PodSketch>) -> Self {
        let offers = |pool: &&Arc<Pool>| pool.instance_type(type_name).is_some();
        let pool = self.snapshot.pools.values().find(offers).unwrap().clone();
        let offered = pool.instance_type(type_name).unwrap();
        let mut labels = pool.template.labels.clone();
        for (key, value) in [
            (HOSTNAME, name),
            (INSTANCE_TYPE, type_name),
            (ZONE, "test-zone-1"),
            (CAPACITY_TYPE, "on-demand"),
            (NODE_POOL, pool.name.as_str()),
            (ARCH, "amd64"),
            (OS, "linux"),
        ] {
            labels.insert(key.into(), value.into());
        }
        let tenure = Tenure {
            initialized: Some(at(NOW - 9000)),
            consolidatable: Some(at(NOW - 8000)),
            ..Tenure::of(format!("claim-{name}").into())
        };
        let node = Node {
            name: name.into(),
            pool: Some(pool.name.clone()),
            labels,
            taints: pool.template.taints.clone(),
            capacity: offered.capacity.clone(),
            allocatable: offered.allocatable(),
            attach_limits: AttachLimits::new(),
            progress: Progress::Initialized,
            is_leaving: false,
            created: at(NOW - 10_000),
            tenure: Some(tenure),
        };
        self.snapshot.nodes.insert(name.into(), Arc::new(node));
        self.running(name, pods)
    }

    pub(crate) fn running(mut self, node: &str, pods: Vec<PodSketch>) -> Self {
        for PodSketch(mut pod) in pods {
            (pod.node, pod.is_unschedulable) = (Some(node.into()), false);
            self.snapshot.pods.insert(pod.name.clone(), Arc::new(pod));
        }
        self
    }

    pub(crate) fn waiting(mut self, pods: Vec<PodSketch>) -> Self {
        self.pending.extend(pods.into_iter().map(|sketch| sketch.0));
        for pod in self.pending.iter().filter(|pod| !pod.is_virtual) {
            self.snapshot.pods.insert(pod.name.clone(), Arc::new(pod.clone()));
        }
        self
    }

    pub(crate) fn node(mut self, name: &str, change: impl FnOnce(&mut Node)) -> Self {
        change(Arc::make_mut(self.snapshot.nodes.get_mut(&name.into()).unwrap()));
        self
    }

    pub(crate) fn tenure(self, name: &str, change: impl FnOnce(&mut Tenure)) -> Self {
        self.node(name, |node| change(node.tenure.as_mut().unwrap()))
    }

    pub(crate) fn drifted(self, name: &str, since: i64) -> Self {
        self.tenure(name, |tenure| {
            tenure.drifted = Some(Drifted { since: at(since), reason: "NodePoolDrifted".into() });
        })
    }

    pub(crate) fn label(self, name: &str, key: &str, value: &str) -> Self {
        self.node(name, |node| drop(node.labels.insert(key.into(), value.into())))
    }

    pub(crate) fn pool(mut self, name: &str, change: impl FnOnce(&mut Pool)) -> Self {
        change(Arc::make_mut(self.snapshot.pools.get_mut(&name.into()).unwrap()));
        self
    }

    pub(crate) fn budget(self, pool: &str, budgets: &[&str]) -> Self {
        let text = |nodes: &str| BudgetText { nodes, reasons: None, schedule: None, duration: None }.parsed();
        let budgets: Vec<_> = budgets.iter().map(|nodes| text(nodes)).collect();
        self.pool(pool, |pool| pool.budgets = budgets.into_iter().collect())
    }

    pub(crate) fn policy(self, pool: &str, policy: ConsolidationPolicy) -> Self {
        self.pool(pool, |pool| pool.consolidation.policy = policy)
    }

    pub(crate) fn consolidate_after(self, pool: &str, after: Option<u64>) -> Self {
        self.pool(pool, |pool| pool.consolidation.after = after.map(Duration::from_secs))
    }

    pub(crate) fn replicas(mut self, pool: &str, replicas: i64, count: StaticCount) -> Self {
        self.static_pools.insert(pool.into(), count);
        self.pool(pool, |pool| pool.kind = PoolKind::Static { replicas })
    }

    /// A PodDisruptionBudget over pods of an app.
    pub(crate) fn pdb(mut self, app: &str, allowed: i32, change: impl FnOnce(&mut PodBudget)) -> Self {
        let mut budget = PodBudget {
            namespace: "default".into(),
            name: app.into(),
            selector: selector(&[("app", app)]),
            blocks_always: allowed == 0,
            disruptions_allowed: allowed,
            lets_unhealthy_go: false,
        };
        change(&mut budget);
        self.snapshot.disruption_budgets.push(Arc::new(budget));
        self
    }

    pub(crate) fn scene(&self) -> Scene<'_> {
        Scene {
            snapshot: &self.snapshot,
            settled_by: self.snapshot.now.plus(self.foresight),
            pending: self.pending.iter().collect(),
            promised: BTreeMap::new(),
            nominated: self.nominated.clone(),
            moved: self.moved.clone(),
            under_way: self.under_way.iter().collect(),
            paused: self.paused.clone(),
            static_pools: self.static_pools.clone(),
        }
    }

    /// Decides on one thread and on two, which must not differ, and has the judge look at every command.
    pub(crate) fn decide(&self) -> Decision {
        let decision = decide(&self.scene(), &self.rules);
        let alone = decide(&self.scene(), &Rules { threads: 1, ..self.rules });
        assert_eq!(decision, alone, "threads make no difference");
        self.carried_out(&decision);
        decision
    }

    /// The one command that is decided.
    pub(crate) fn command(&self) -> Disruption {
        let mut decision = self.decide();
        assert_eq!(decision.commands.len(), 1, "{:#?}", decision.commands);
        decision.commands.remove(0)
    }

    /// Who leaves, by command.
    pub(crate) fn leaving(&self) -> Vec<Vec<String>> {
        let names = |command: &Disruption| command.nodes().map(ToString::to_string).collect();
        self.decide().commands.iter().map(names).collect()
    }

    /// Everybody who leaves.
    pub(crate) fn all_leaving(&self) -> Vec<String> {
        let mut all: Vec<String> = self.leaving().into_iter().flatten().collect();
        all.sort();
        all
    }

    /// Why a node stays in the first place.
    pub(crate) fn stay(&self, name: &str) -> Stay {
        let decision = self.decide();
        let found = decision.staying.iter().find(|staying| staying.node.as_str() == name);
        found.unwrap_or_else(|| panic!("{name} leaves: {:?}", decision.commands)).first.clone()
    }

    pub(crate) fn holds(&self, command: &Disruption) -> Validity {
        still_holds(&self.scene(), &self.rules, command)
    }

    /// The cluster once all commands are carried out, each held before the judge.
    pub(crate) fn carried_out(&self, decision: &Decision) -> Snapshot {
        check_moves(&self.snapshot, &decision.commands);
        decision
            .commands
            .iter()
            .enumerate()
            .fold(self.snapshot.clone(), |world, (number, command)| carry_out(&world, command, number))
    }
}

/// Everybody on a node that leaves who will be there again has a place, and nobody else; and all places are on nodes that stay.
pub(crate) fn check_moves(before: &Snapshot, commands: &[Disruption]) {
    let leaving: BTreeSet<&NodeName> = commands.iter().flat_map(Disruption::nodes).collect();
    for command in commands {
        let moves: BTreeMap<&PodName, &Target> = command.moves.iter().map(|(pod, target)| (pod, target)).collect();
        assert_eq!(moves.len(), command.moves.len(), "nobody moves twice: {command:#?}");
        for (pod, target) in &moves {
            let is_there = match target {
                Target::Node(node) => before.nodes.contains_key(node) && !leaving.contains(node),
                Target::Claim(number) => *number < command.replacements.len(),
            };
            assert!(is_there, "{pod} goes to {target:?}, which is no place to be: {commands:#?}");
        }
        let own: BTreeSet<&NodeName> = command.nodes().collect();
        for pod in before.pods.values().filter(|pod| pod.node.as_ref().is_some_and(|node| own.contains(node))) {
            let needs_a_place = match command.method {
                // Nobody on an empty node would be missed, and the pods of static pools are planned for when they wait.
                Method::Emptiness | Method::StaticDrift => false,
                Method::Drift => is_currently_reschedulable(pod, &before.disruption_budgets, before.now),
                Method::MultiConsolidation | Method::SingleConsolidation => is_reschedulable(pod),
            };
            assert_eq!(moves.contains_key(&pod.name), needs_a_place, "{}: {command:#?}", pod.name);
        }
    }
}

/// The world after a command, if the judge accepts it.
pub(crate) fn carry_out(before: &Snapshot, command: &Disruption, number: usize) -> Snapshot {
    let gone: BTreeSet<&NodeName> = command.nodes().collect();
    let moved: BTreeSet<&PodName> = command.moves.iter().map(|(pod, _)| pod).collect();
    let mut world = before.clone();
    world.nodes.retain(|name, _| !gone.contains(name));
    world.pods.retain(|name, pod| moved.contains(name) || !pod.node.as_ref().is_some_and(|node| gone.contains(node)));
    for pod in world.pods.values_mut().filter(|pod| moved.contains(&pod.name)) {
        Arc::make_mut(pod).node = None;
    }
    let is_static = command.method == Method::StaticDrift;
    let plan = Plan {
        placements: command.moves.iter().filter(|(pod, _)| world.pods.contains_key(pod)).cloned().collect(),
        claims: if is_static { Vec::new() } else { command.replacements.clone() },
        ..Plan::default()
    };
    let verdict = judge::replay(&world, &plan);
    assert!(verdict.is_accepted(), "{verdict}\n{command:#?}");
    let mut after = verdict.world.settled(&world);
    let new: Vec<NodeName> = after.nodes.keys().filter(|name| !world.nodes.contains_key(*name)).cloned().collect();
    for name in new {
        let mut node = Node::clone(&after.nodes.remove(&name).unwrap());
        // Names of claims are the judge's, and would come again with the next command.
        let own: NodeName = format!("new-{}-{number}-{}", after.now.unix_seconds(), name).into();
        node.labels.insert(HOSTNAME.into(), own.as_str().into());
        let since = Some(after.now);
        node.tenure = Some(Tenure { initialized: since, consolidatable: since, ..Tenure::of(own.clone()) });
        for pod in after.pods.values_mut().filter(|pod| pod.node.as_ref() == Some(&name)) {
            Arc::make_mut(pod).node = Some(own.clone());
        }
        node.name = own.clone();
        after.nodes.insert(own, Arc::new(node));
    }
    after
}

/// A budget's text, read.
pub(crate) trait Parsed {
    fn parsed(&self) -> Result<Budget, model::budget::BudgetError>;
}

impl Parsed for BudgetText<'_> {
    fn parsed(&self) -> Result<Budget, model::budget::BudgetError> {
        Budget::parse(self)
    }
}
