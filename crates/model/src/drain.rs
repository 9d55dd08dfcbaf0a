//! What a drain must know of the pods on a node and of the volumes attached to it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::pod::Pod;
use crate::time::Instant;

/// A pod on a node that is leaving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    pub pod: Arc<Pod>,
    /// When it must have ended, once it was told to: the API server has added its grace period already.
    pub ends_by: Option<Instant>,
    /// How long it may take to end.
    pub grace: Option<Duration>,
    /// Whether its priority class makes it one of the last to leave.
    pub is_critical: bool,
    /// The PersistentVolumes that it holds.
    pub volumes: BTreeSet<Arc<str>>,
}

/// A volume that is attached to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The VolumeAttachment.
    pub name: Arc<str>,
    /// The PersistentVolume; one without is in the pod itself and nobody waits for it.
    pub volume: Option<Arc<str>>,
}
