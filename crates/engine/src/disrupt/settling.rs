//! When nodes have been quiet for long enough, and who waits for whom until then.
//!
//! A command waits for its second look anyway, so nodes may be chosen while their quiet still lasts (`Scene::settled_by`), as long
//! as nothing begins before it has ended (`begins_at`). And nodes settle in waves: a Deployment that shrinks takes pods from all
//! of its nodes within seconds. Who decided on the first of them alone would move pods onto the others, where they would be in
//! the way of the next decision; so the first wait for the rest of the wave (`held_until`), but no longer than costs them
//! nothing or little. Decision 0073.

use std::time::Duration;

use model::disruption::Disruption;
use model::node::Node;
use model::snapshot::Snapshot;
use model::time::Instant;

use super::Scene;
use super::candidates::Candidate;

/// Who settles so soon is not kept waiting for others.
const DUE: Duration = Duration::from_secs(5);

/// Who settles so much later than the others still belongs to their wave.
const WAVE: Duration = Duration::from_secs(10);

/// The same for a Node, if pods that come and go there are of any concern.
pub(super) fn node_settles_at(snapshot: &Snapshot, node: &Node) -> Option<Instant> {
    let pool = snapshot.pools.get(node.pool.as_ref()?).filter(|pool| !pool.is_static())?;
    let tenure = node.tenure.as_ref().filter(|_| node.is_initialized())?;
    tenure.settles_at(pool)
}

/// When the last of the nodes that a command empties or fills has settled, if that is still to come.
pub fn begins_at(scene: &Scene<'_>, command: &Disruption) -> Option<Instant> {
    let nodes = command.nodes().chain(command.destinations()).filter_map(|name| scene.snapshot.nodes.get(name));
    let last = nodes.filter_map(|node| node_settles_at(scene.snapshot, node)).max()?;
    (last > scene.snapshot.now).then_some(last)
}

/// Whether a node is chosen before it has settled.
pub(super) fn is_foreseen(candidate: &Candidate<'_>) -> bool {
    candidate.tenure.consolidatable.is_none()
}

/// Until when candidates that are foreseen wait for nodes that settle shortly after them. Who has settled waits for nobody, and who is
/// left in peace is due before long, so nobody is held for ever however busy the others are.
pub(super) fn held_until(scene: &Scene<'_>, candidates: &[Candidate<'_>]) -> Option<Instant> {
    let (now, foreseen) = (scene.snapshot.now, scene.settled_by);
    let waiting = candidates.iter().filter(|candidate| is_foreseen(candidate));
    let first = waiting.filter_map(|candidate| candidate.tenure.settles_at(candidate.pool)).min()?;
    if first <= now.plus(DUE) {
        return None;
    }
    let nodes = scene.snapshot.nodes.values().filter(|node| !node.is_leaving);
    let late = nodes.filter_map(|node| node_settles_at(scene.snapshot, node));
    let last = late.filter(|at| *at > foreseen && *at <= foreseen.plus(WAVE)).max()?;
    Some(first.minus(DUE).min(last.minus(foreseen.since(now))))
}
