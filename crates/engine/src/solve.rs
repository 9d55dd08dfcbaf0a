//! Where pods go.
//!
//! `solve` answers one question about one snapshot. It works on numbers (`world`), seats pods one by one, most important
//! first (`greedy`), thinks again where pods are left (`search`), and writes the result down in words (`finish`) with a
//! reason for every pod that stays without a place (`explain`).

mod bits;
mod catalogue;
mod claims;
mod classes;
mod explain;
mod finish;
mod goals;
mod greedy;
mod hash;
mod kinds;
mod lift;
mod limits;
mod listing;
mod machines;
mod neighbours;
mod outlook;
mod pack;
mod queue;
mod reach;
mod reserve;
mod rooms;
mod search;
mod simplex;
mod sites;
mod sizes;
mod topology;
mod walk;
mod wishes;
mod words;
mod world;
mod worth;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use model::ids::{NodeName, PodName};
use model::plan::Plan;
use model::pod::Pod;
use model::snapshot::Snapshot;

pub use catalogue::Catalogue;
use greedy::Greedy;
pub(crate) use greedy::{scatter, whatif};
use reserve::Reservations;
use world::World;

/// What a machine of unknown speed is given to do at first, in candidate evaluations. The benchmark measures with it too.
pub const FIRST_EFFORT: u64 = 2_000_000_000;

/// What is to be answered.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The pods that need a place. Where they stand now does not count.
    pub pods: Vec<&'a Pod>,
    /// Nodes to leave out, as if they were gone, and with them the pods on them that are not asked for.
    pub without: BTreeSet<NodeName>,
    /// Nodes that take none of the pods, whatever these tolerate; all else that they are they stay.
    pub closed: BTreeSet<NodeName>,
    /// Where pods are to go if they still can. They are seated before all others, so that nobody takes their places.
    pub promised: BTreeMap<PodName, NodeName>,
    /// Whether more pods are to come, so that the plan must say which claims need not wait for them.
    pub expects_more: bool,
    /// The most candidate evaluations to spend.
    pub effort: u64,
}

impl<'a> Question<'a> {
    /// Where all of these go, whatever it takes.
    pub fn about(pods: Vec<&'a Pod>) -> Self {
        Self {
            pods,
            without: BTreeSet::new(),
            closed: BTreeSet::new(),
            promised: BTreeMap::new(),
            expects_more: false,
            effort: u64::MAX,
        }
    }
}

/// Finds places for pods. The same snapshot, question and effort give the same plan, byte for byte.
///
/// Setting `cancel` ends the work at the next step with what has been found so far.
pub fn solve(snapshot: &Snapshot, question: &Question<'_>, cancel: &AtomicBool) -> Plan {
    solve_with(&Catalogue::of(snapshot), snapshot, question, cancel)
}

/// The same with a catalogue that was kept. One that no longer fits costs time, not truth: it is made anew for this question.
pub fn solve_with(catalogue: &Catalogue, snapshot: &Snapshot, question: &Question<'_>, cancel: &AtomicBool) -> Plan {
    on_world(catalogue, snapshot, question, |world| {
        let mut greedy = Greedy::new(world, question.effort);
        let is_complete = greedy.run(cancel).is_ok();
        let best = if is_complete {
            let improved = search::improved(greedy, question.effort, cancel);
            pack::cheaper(improved, question.effort, cancel)
        } else {
            greedy
        };
        finish::finish(best, cancel)
    })
}

/// Lowers a snapshot for a question, with a catalogue that fits.
fn on_world<R>(
    catalogue: &Catalogue,
    snapshot: &Snapshot,
    question: &Question<'_>,
    asks: impl FnOnce(&World<'_>) -> R,
) -> R {
    let mut pods = question.pods.clone();
    // Whoever asks may list pods in any order; the answer must not depend on it.
    if !pods.is_sorted_by(|a, b| a.name < b.name) {
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        pods.dedup_by(|a, b| a.name == b.name);
    }
    let pools = world::usable_pools(snapshot);
    let reserved =
        if catalogue.has_types_of(&pools) { catalogue.reserved.clone() } else { catalogue::reserved(&pools) };
    let reservations = Reservations::new(snapshot, &reserved, &question.without);
    let own;
    let catalogue = if catalogue.fits(&pools, &reservations) {
        catalogue
    } else {
        own = Catalogue::new(&pools, reserved, &reservations);
        &own
    };
    asks(&World::build(snapshot, pods, question, pools, (catalogue, reservations)))
}
