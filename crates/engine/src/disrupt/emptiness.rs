//! Nodes without pods: all that budgets allow leave in one command.

use std::collections::BTreeSet;

use model::disruption::{Method, Stay};
use model::plan::Plan;

use super::candidates::Candidate;
use super::deliberate::Deliberation;
use super::imagine::{Arriving, Taking};

pub(super) fn remove_empty(deliberation: &mut Deliberation<'_, '_>) {
    let mut found = deliberation.candidates(Method::Emptiness);
    found.sort_by(by_saving);
    let mut leaving: Vec<Candidate<'_>> = Vec::new();
    let mut purse = deliberation.purse.clone();
    let mut moves = Plan::default();
    for candidate in found {
        let name = &candidate.node.name;
        let stay = if deliberation.imagined.buffered.contains(name) {
            Some(Stay::BufferPods(name.clone()))
        } else if let Some(stay) = purse.blocking(&candidate.pool.name, Method::Emptiness.reason()) {
            Some(stay)
        } else {
            awaited(deliberation, &candidate, &mut moves)
        };
        match stay {
            Some(stay) => deliberation.stays(name, stay),
            None => {
                purse.take(&candidate.pool.name);
                leaving.push(candidate);
            }
        }
    }
    leaving.sort_by(|a, b| a.node.name.cmp(&b.node.name));
    if !leaving.is_empty() {
        deliberation.commit(Method::Emptiness, &leaving.iter().collect::<Vec<_>>(), moves, Vec::new());
    }
}

/// What an empty node is kept for: pods that wait and would find no other place that is there.
fn awaited(deliberation: &mut Deliberation<'_, '_>, candidate: &Candidate<'_>, moves: &mut Plan) -> Option<Stay> {
    let name = &candidate.node.name;
    let pods = deliberation.imagined.awaited.get(name)?.clone();
    let plan = deliberation.imagined.plan(&pods, &BTreeSet::from([name.clone()]), Taking::All);
    if plan.claims.is_empty() && plan.unplaced.is_empty() {
        // What this node's pods take is not there for those of the next one.
        deliberation.imagined.carry_out(std::slice::from_ref(name), &plan, Arriving::Closed);
        moves.placements.extend(plan.placements);
        return None;
    }
    Some(Stay::Awaited { pod: pods.into_iter().next()? })
}

/// The most money for the least trouble first.
pub(super) fn by_saving(a: &Candidate<'_>, b: &Candidate<'_>) -> std::cmp::Ordering {
    let worth = |one: &Candidate<'_>, other: &Candidate<'_>| {
        i128::from(one.price.pico()) * i128::from(other.cost.parts().max(1))
    };
    worth(b, a).cmp(&worth(a, b)).then_with(|| a.node.name.cmp(&b.node.name))
}
