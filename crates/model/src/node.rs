//! Nodes: machines that run, and machines that were asked for and have not come yet.

use std::sync::Arc;

use crate::ids::{NodeName, PoolName};
use crate::instance::InstanceType;
use crate::labels::Labels;
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
