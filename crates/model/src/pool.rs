//! NodePools as the engine sees them.

use std::sync::Arc;
use std::time::Duration;

use crate::budget::Budgets;
use crate::ids::PoolName;
use crate::instance::InstanceType;
use crate::labels::Labels;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::taints::Taint;

/// A pool and what it can launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub name: PoolName,
    /// Pools of greater weight come first.
    pub weight: i32,
    pub kind: PoolKind,
    pub state: PoolState,
    /// What all its nodes together may have; only what is named is limited.
    pub limits: Limits,
    pub template: Template,
    /// What the cloud offers this pool, overlays applied. Empty when it offers nothing or could not say.
    pub instance_types: Vec<Arc<InstanceType>>,
    pub budgets: Budgets,
    pub consolidation: Consolidation,
}

/// When nodes of a pool may be removed or replaced to save money. A static pool never asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consolidation {
    pub policy: ConsolidationPolicy,
    /// How long a node must be free of pod events; `None` for never.
    pub after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConsolidationPolicy {
    WhenEmpty,
    /// Whatever saves anything.
    WhenEmptyOrUnderutilized,
    /// Only what saves enough for what it disturbs.
    Balanced,
}

impl Default for Consolidation {
    fn default() -> Self {
        Self { policy: ConsolidationPolicy::WhenEmptyOrUnderutilized, after: Some(Duration::ZERO) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// Grows and shrinks with the pods.
    Dynamic,
    /// Keeps this many nodes.
    Static { replicas: i64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    Ready,
    NotReady,
    Deleting,
}

/// Limits by resource. The number of nodes is a limit of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub nodes: Option<i64>,
    /// Each resource that is limited, with its limit; zero is a limit too.
    pub resources: Vec<(crate::resources::Resource, i64)>,
}

impl Pool {
    pub fn is_static(&self) -> bool {
        matches!(self.kind, PoolKind::Static { .. })
    }

    /// What the pool is offered under a name.
    pub fn instance_type(&self, name: &str) -> Option<&Arc<InstanceType>> {
        let types = &self.instance_types;
        // Clouds list hundreds of types, most of them in the order of names.
        let found = types.binary_search_by(|offered| offered.name.as_str().cmp(name));
        found.map_or_else(|_| types.iter().find(|offered| offered.name.as_str() == name), |number| types.get(number))
    }
}

impl Limits {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_none() && self.resources.is_empty()
    }

    /// The first limit that using this much would break.
    pub fn first_broken(&self, nodes: i64, used: &Resources) -> Option<BrokenLimit> {
        if let Some(limit) = self.nodes
            && nodes > limit
        {
            return Some(BrokenLimit { resource: "nodes".into(), limit, would_be: nodes });
        }
        self.resources.iter().find_map(|(axis, limit)| {
            let would_be = used.get(axis);
            (would_be > *limit).then(|| BrokenLimit { resource: axis.name().into(), limit: *limit, would_be })
        })
    }
}

/// A limit, and what the use would come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLimit {
    pub resource: Arc<str>,
    pub limit: i64,
    pub would_be: i64,
}

/// What every node of the pool is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// Labels of the nodes, those that name the pool and its class included.
    pub labels: Labels,
    /// The pool's requirements together with its labels.
    pub requirements: Requirements,
    pub taints: Vec<Taint>,
    /// Taints that go away before pods come; they keep nobody off.
    pub startup_taints: Vec<Taint>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_empty_when_nothing_is_limited() {
        let cpu = vec![(crate::resources::Resource::Cpu, 0)];
        assert!(Limits::default().is_empty());
        assert!(!Limits { nodes: Some(0), resources: Vec::new() }.is_empty());
        assert!(!Limits { nodes: None, resources: cpu.clone() }.is_empty());
        assert!(!Limits { nodes: Some(1), resources: cpu }.is_empty());
    }

    #[test]
    fn a_limit_is_broken_by_whatever_is_more_and_by_nothing_less() {
        let limits = Limits { nodes: Some(3), resources: vec![(crate::resources::Resource::from_name("cpu"), 10)] };
        let broken = |nodes: i64, cpu: i64| {
            let broken = limits.first_broken(nodes, &Resources::default().with("cpu", cpu))?;
            Some((broken.resource.to_string(), broken.limit, broken.would_be))
        };
        assert_eq!(broken(2, 9), None);
        assert_eq!(broken(3, 10), None);
        for nodes in [4, 50] {
            assert_eq!(broken(nodes, 11), Some(("nodes".to_owned(), 3, nodes)));
        }
        for cpu in [11, 500] {
            assert_eq!(broken(3, cpu), Some(("cpu".to_owned(), 10, cpu)));
        }
    }
}
