//! Which daemons a node will run.

use std::sync::Arc;

use model::labels::Labels;
use model::resources::Resources;
use model::snapshot::Daemon;
use model::taints::{Effect, Taint};

use crate::rules::node_affinity;

/// The daemons that belong on a node with these labels and taints.
///
/// Daemons that ask for devices are left out, like pods that do: whether they can run at all is not known here.
pub(crate) fn expected<'a>(
    daemons: &'a [Arc<Daemon>],
    labels: &'a Labels,
    taints: &'a [Taint],
) -> impl Iterator<Item = &'a Arc<Daemon>> {
    daemons.iter().filter(move |daemon| {
        let is_tolerated = |taint: &Taint| daemon.tolerations.iter().any(|toleration| toleration.tolerates(taint));
        !daemon.has_resource_claims
            && taints.iter().all(|taint| taint.effect == Effect::PreferNoSchedule || is_tolerated(taint))
            && node_affinity::mismatch(&daemon.selector, &daemon.terms, labels).is_none()
    })
}

/// Requests with the pod's own place counted, whoever wrote them down.
pub(crate) fn with_place(requests: &Resources) -> Resources {
    let mut counted = requests.clone();
    counted.pods = counted.pods.max(1);
    counted
}
