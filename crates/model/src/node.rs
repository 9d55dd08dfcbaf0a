//! Nodes: machines that run, and machines that were asked for and have not come yet.

use std::sync::Arc;
use std::time::Duration;

use crate::ids::{NodeName, PoolName};
use crate::instance::InstanceType;
use crate::labels::Labels;
use crate::pod::DoNotDisrupt;
use crate::pool::Pool;
use crate::requirements::Requirements;
use crate::resources::Resources;
use crate::taints::Taint;
use crate::time::Instant;
use crate::volume::AttachLimits;

/// A node of the cluster, or a claim that will become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The Node's name, or the claim's while there is no Node.
    pub name: NodeName,
    /// The pool that it belongs to, if it is ours.
    pub pool: Option<PoolName>,
    pub labels: Labels,
    /// Taints that keep pods off now. What a starting node sheds by itself is not here.
    pub taints: Vec<Taint>,
    pub capacity: Resources,
    pub allocatable: Resources,
    pub attach_limits: AttachLimits,
    pub progress: Progress,
    /// Whether it is going away; it then takes no pods, and its own need a new place.
    pub is_leaving: bool,
    pub created: Instant,
    /// Whether and when it may leave; only machines that have a claim of ours say so.
    pub tenure: Option<Tenure>,
}

/// What a machine's claim and its Node say about whether and when it may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    pub claim: NodeName,
    /// Whether the kubelet says that the Node is ready.
    pub is_ready: bool,
    /// Whether the cloud has been asked to end it, so that it counts for nothing any more.
    pub is_ending: bool,
    /// Whether an annotation of the Node keeps everybody from disrupting it, and for how long.
    pub do_not_disrupt: DoNotDisrupt,
    /// When it became initialized.
    pub initialized: Option<Instant>,
    /// Since when it may be consolidated.
    pub consolidatable: Option<Instant>,
    pub drifted: Option<Drifted>,
    /// When a pod last came to it or left it.
    pub last_pod_event: Option<Instant>,
    /// How long it may drain; unset means as long as it takes.
    pub grace: Option<Duration>,
    /// How long it may live.
    pub expire_after: Option<Duration>,
}

/// A node that no longer is what its pool or class says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drifted {
    pub since: Instant,
    pub reason: Arc<str>,
}

impl Tenure {
    /// Of a claim of which nothing else is known; for building.
    pub fn of(claim: NodeName) -> Self {
        Self {
            claim,
            is_ready: true,
            is_ending: false,
            do_not_disrupt: DoNotDisrupt::No,
            initialized: None,
            consolidatable: None,
            drifted: None,
            last_pod_event: None,
            grace: None,
            expire_after: None,
        }
    }

    /// When the machine has been quiet for as long as its pool asks; `None` when nobody asks or nobody knows.
    pub fn settles_at(&self, pool: &Pool) -> Option<Instant> {
        let quiet_since = self.last_pod_event.or(self.initialized);
        Some(quiet_since?.plus(pool.consolidation.after?))
    }
}

/// How far a node has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Asked for, but the cloud has not said which machine it will be: any of these types, within these requirements.
    Unlaunched { types: Vec<Arc<InstanceType>>, requirements: Requirements },
    /// The machine exists; the Node may be missing or still starting.
    Starting { has_node: bool },
    /// Ready for pods. Nodes of others are always taken to be.
    Initialized,
}

impl Node {
    pub fn is_initialized(&self) -> bool {
        self.progress == Progress::Initialized
    }

    /// Whether there is a Node object, whose labels the scheduler sees.
    pub fn has_node(&self) -> bool {
        !matches!(self.progress, Progress::Unlaunched { .. } | Progress::Starting { has_node: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_there_before_it_is_initialized() {
        let node = |progress: Progress| Node {
            name: "n".into(),
            pool: None,
            labels: Labels::new(),
            taints: Vec::new(),
            capacity: Resources::default(),
            allocatable: Resources::default(),
            attach_limits: AttachLimits::new(),
            progress,
            is_leaving: false,
            created: Instant::from_unix_seconds(0),
            tenure: None,
        };
        let unlaunched = Progress::Unlaunched { types: Vec::new(), requirements: Requirements::default() };
        for (progress, has_node, is_initialized) in [
            (unlaunched, false, false),
            (Progress::Starting { has_node: false }, false, false),
            (Progress::Starting { has_node: true }, true, false),
            (Progress::Initialized, true, true),
        ] {
            let node = node(progress);
            assert_eq!((node.has_node(), node.is_initialized()), (has_node, is_initialized), "{:?}", node.progress);
        }
    }
}
