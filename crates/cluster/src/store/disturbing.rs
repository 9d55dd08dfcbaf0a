//! Which changes may make a move possible that was not. Whatever only takes room or rest away ends no quiet: where nothing was
//! found to do, nothing would be found again. Decisions 0066, 0073 and 0080.

use model::node::{Node, Tenure};
use model::pod::{Pod, Readiness};

use super::machines::{Machine, Shift};
use crate::lower::eligible::is_provisionable;

/// What machines were, and what they are. One that is shown under another name from now on, its Node's instead of its claim's or the
/// other way round, is still the same.
pub(super) fn same_machines(shifts: &[Shift]) -> Vec<(Option<&Node>, Option<&Node>)> {
    let mut came: Vec<&Machine> =
        shifts.iter().filter(|shift| shift.before.is_none()).filter_map(|shift| shift.after.as_ref()).collect();
    let mut pairs = Vec::with_capacity(shifts.len());
    for shift in shifts {
        let Some(before) = &shift.before else { continue };
        let goes_on = came.iter().position(|machine| machine.claim.is_some() && machine.claim == before.claim);
        let after = match (&shift.after, goes_on) {
            (None, Some(place)) => Some(came.remove(place)),
            (after, _) => after.as_ref(),
        };
        pairs.push((Some(&*before.node), after.map(|machine| &*machine.node)));
    }
    pairs.extend(came.into_iter().map(|machine| (None, Some(&*machine.node))));
    pairs
}

/// Whether a machine may give something that it did not give before: room, itself, or its part of a budget or a limit.
pub(super) fn may_give(before: Option<&Node>, after: Option<&Node>, has_settled: impl Fn(&Node) -> bool) -> bool {
    let counts = |node: &&Node| !is_as_good_as_gone(node);
    match (before.filter(counts), after.filter(counts)) {
        (None, None) => false,
        // Until it is ready for pods it is nobody's destination, whatever is known of it.
        (None, Some(after)) => after.is_initialized(),
        // Its place within a limit or a budget is free.
        (Some(_), None) => true,
        (Some(before), Some(after)) => may_give_more(before, after, has_settled),
    }
}

/// Neither budgets nor limits count it any more, and nobody is moved to it or from it.
fn is_as_good_as_gone(node: &Node) -> bool {
    let is_ending = node.tenure.as_ref().is_none_or(|tenure| tenure.is_ending);
    node.is_leaving && (is_ending || !node.is_initialized())
}

fn may_give_more(before: &Node, after: &Node, has_settled: impl Fn(&Node) -> bool) -> bool {
    if before.is_leaving != after.is_leaving {
        return true;
    }
    let are_starting = !before.is_initialized() && !after.is_initialized();
    if are_starting || (before.is_leaving && before.pool == after.pool) {
        return false;
    }
    let Node {
        name: _,
        pool,
        labels,
        taints,
        capacity,
        allocatable,
        attach_limits,
        progress,
        is_leaving: _,
        created,
        tenure,
    } = before;
    let is_alike = (pool, labels, capacity, created) == (&after.pool, &after.labels, &after.capacity, &after.created)
        && (allocatable, attach_limits, progress) == (&after.allocatable, &after.attach_limits, &after.progress)
        && taints.iter().all(|taint| after.taints.contains(taint))
        && match (tenure, &after.tenure) {
            (Some(before), Some(now)) => is_as_free(before, now, || has_settled(after)),
            (before, now) => before == now,
        };
    !is_alike
}

/// The same but for the last time that a pod came or went, which only puts off when the machine may leave, and for what that means:
/// until when it rests. When that is over is no news for whoever has reckoned with it (decision 0073).
fn is_as_free(before: &Tenure, after: &Tenure, has_settled: impl FnOnce() -> bool) -> bool {
    let Tenure { last_pod_event, consolidatable, .. } = before.clone();
    let is_foreseen = match (before.consolidatable, after.consolidatable) {
        (None, Some(_)) => has_settled(),
        _ => true,
    };
    is_foreseen && *before == Tenure { last_pod_event, consolidatable, ..after.clone() }
}

/// Whether a change of a pod makes no move possible that was not before it. One that comes to a node may have been expected elsewhere.
pub(super) fn only_takes_room(before: Option<&Pod>, after: &Pod, is_where_expected: impl FnOnce() -> bool) -> bool {
    match before {
        // One that begins to wait wants a place, and the provisioner finds it one.
        None => after.node.is_none(),
        // Where the scheduler makes room for it, it will take that.
        Some(before) if after.node.is_none() => !is_provisionable(before) || after.is_nominated,
        Some(before) if before.node.is_none() => is_where_expected(),
        // What its becoming ready allows, the budgets that count it say.
        Some(before) => {
            after.is_ready == Readiness::Ready && *before == Pod { is_ready: before.is_ready, ..after.clone() }
        }
    }
}
