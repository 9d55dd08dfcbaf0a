//! Claims without machines and machines without claims.

use std::collections::BTreeSet;
use std::time::Duration;

use model::claim::{ClaimLife, Machine};
use model::ids::Uid;
use model::time::Instant;

/// A machine whose claim nobody has yet seen may belong to a claim that was made while we asked.
const YOUNG: Duration = Duration::from_secs(30);

/// A machine that says whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned<Id> {
    pub id: Id,
    pub claim: Uid,
    pub launched: Option<Instant>,
}

/// Whether a claim's machine is gone for good, given whether the cloud still lists it. A kubelet that reports is better proof
/// of life than a list, and who never registered is left to the timeouts.
pub fn is_lost(life: &ClaimLife, is_listed: bool) -> bool {
    let was_running = life.registered.is_true() && life.machine == Machine::Named;
    let is_alive = life.nodes.iter().any(|node| node.is_ready);
    was_running && life.deleted.is_none() && !is_listed && !is_alive
}

/// The machines whose claims are no more. The claims must have been listed after the machines: a claim is older than its
/// machine, so one that is missing from the later list is gone.
pub fn orphans<'a, Id>(
    machines: &'a [Owned<Id>],
    claims: &'a BTreeSet<Uid>,
    now: Instant,
) -> impl Iterator<Item = &'a Owned<Id>> {
    let is_young = move |machine: &Owned<Id>| machine.launched.is_some_and(|launched| now.since(launched) < YOUNG);
    machines.iter().filter(move |machine| !claims.contains(&machine.claim) && !is_young(machine))
}
