//! Nodes without pods: all that budgets allow leave in one command.

use model::disruption::{Method, Stay};
use model::ids::{NodeName, PodName};
use model::plan::{Plan, Target};

use super::candidates::Candidate;
use super::deliberate::Deliberation;
use super::imagine::Imagined;
use super::settling::is_foreseen;

pub(super) fn remove_empty(deliberation: &mut Deliberation<'_, '_>) {
    let mut found = deliberation.candidates(Method::Emptiness);
    // One command begins as a whole, so those that have settled do not wait for those that are foreseen: their turn comes next.
    if found.iter().any(|candidate| !is_foreseen(candidate)) {
        let foreseen = found.iter().filter(|candidate| is_foreseen(candidate));
        foreseen.for_each(|candidate| deliberation.stays(&candidate.node.name, Stay::OthersFirst));
        found.retain(|candidate| !is_foreseen(candidate));
    }
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
            awaited(&mut deliberation.imagined, name, &mut moves.placements)
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

/// What an empty node is kept for: pods that wait and would find no other place that is there. If there is one, it leaves the
/// imagined world, so that what its pods take there is not taken twice.
fn awaited(imagined: &mut Imagined, node: &NodeName, moves: &mut Vec<(PodName, Target)>) -> Option<Stay> {
    match imagined.relieve(node) {
        Err(pod) => Some(Stay::Awaited { pod }),
        Ok(places) => {
            follow(moves, places);
            None
        }
    }
}

/// Who is sent on from a node that leaves too goes to the later place.
pub(super) fn follow(moves: &mut Vec<(PodName, Target)>, later: Vec<(PodName, Target)>) {
    moves.retain(|(pod, _)| later.iter().all(|(other, _)| other != pod));
    moves.extend(later);
}

/// The most money for the least trouble first.
pub(super) fn by_saving(a: &Candidate<'_>, b: &Candidate<'_>) -> std::cmp::Ordering {
    let worth = |one: &Candidate<'_>, other: &Candidate<'_>| {
        i128::from(one.price.pico()) * i128::from(other.cost.parts().max(1))
    };
    worth(b, a).cmp(&worth(a, b)).then_with(|| a.node.name.cmp(&b.node.name))
}
