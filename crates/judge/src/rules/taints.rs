//! TaintToleration: every taint that keeps pods off is tolerated.

use model::pod::Pod;
use model::taints::Taint;

use crate::violation::Refusal;
use crate::world::Node;

pub(super) fn refusal(pod: &Pod, node: &Node) -> Option<Refusal> {
    first_untolerated(pod, node).map(Refusal::Taint)
}

/// PreferNoSchedule keeps nobody off; it only costs points.
pub(crate) fn first_untolerated(pod: &Pod, node: &Node) -> Option<Taint> {
    let is_tolerated = |taint: &Taint| pod.wants.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    node.hard_taints().into_iter().find(|taint| !is_tolerated(taint))
}
