//! The commands that are known, and the pools that rest after a failure.
//!
//! ```text
//! proposed ──▶ begun ──▶ ending ──▶ (forgotten)
//!    │           └─────▶ taken back ──▶ (forgotten)
//!    └──▶ (forgotten: it no longer holds)
//! ```
//!
//! A command has a number of its own and hangs on none of its nodes: whichever of them goes first by another's hand, the
//! others are not left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::disrupt::{Memory, back_off};
use model::disruption::Disruption;
use model::ids::{NodeName, PoolName};
use model::time::Instant;

use crate::controller::TickId;

/// Tells commands apart, in the order in which they were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(u64);

#[derive(Clone, Debug)]
pub(super) struct Command {
    /// The same in logs and on its replacements.
    pub(super) id: TickId,
    pub(super) what: Arc<Disruption>,
    pub(super) stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing has been touched yet. At `ripe` it is looked at again and then begun.
    Proposed { ripe: Instant },
    /// Its nodes are closed, and its replacements are on their way.
    Begun(Begun),
    /// Everything is there: claims are being deleted, and that is not taken back any more. Some are deleted already.
    Ending { deleted: BTreeSet<NodeName> },
    /// Given up. These replacements are not needed any more.
    TakenBack { unused: Vec<NodeName> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) since: Instant,
    pub(super) replacements: Vec<Expected>,
}

/// A replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) claim: NodeName,
    /// Whether it was initialized once; that is enough.
    pub(super) has_come: bool,
}

/// Shared by those who find commands and those who carry them out.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    book: Mutex<Book>,
    /// Held while somebody computes, so that disruption never takes more than one turn of those that there are. Inside is what the
    /// engine remembers.
    pub(super) thinking: tokio::sync::Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Book {
    all: BTreeMap<Number, Command>,
    last: u64,
    rests: BTreeMap<PoolName, Rest>,
    /// How often commands have come, changed or gone, or rests have changed.
    version: u64,
}

/// A pool whose replacements failed.
#[derive(Clone, Copy, Debug)]
struct Rest {
    failures: u32,
    until: Instant,
}

impl Commands {
    pub(super) fn add(&self, id: TickId, what: Disruption, stage: Stage) -> Number {
        let mut book = self.change();
        book.last += 1;
        let number = Number(book.last);
        book.all.insert(number, Command { id, what: Arc::new(what), stage });
        number
    }

    pub(super) fn get(&self, number: Number) -> Option<Command> {
        self.book().all.get(&number).cloned()
    }

    pub(super) fn set_stage(&self, number: Number, stage: Stage) {
        // How far a command has come does not change what it is about, and that is all that a look sees.
        if let Some(command) = self.book().all.get_mut(&number) {
            command.stage = stage;
        }
    }

    pub(super) fn replace(&self, number: Number, what: Disruption) {
        let mut book = self.book();
        if let Some(command) = book.all.get_mut(&number).filter(|command| *command.what != what) {
            command.what = Arc::new(what);
            book.version += 1;
        }
    }

    pub(super) fn forget(&self, number: Number) {
        self.change().all.remove(&number);
    }

    /// All of them, but for the one that asks.
    pub(super) fn others(&self, than: Option<Number>) -> Vec<Arc<Disruption>> {
        let book = self.book();
        book.all.iter().filter(|(number, _)| Some(**number) != than).map(|(_, command)| command.what.clone()).collect()
    }

    /// The claims that some command is about.
    pub(super) fn claims(&self) -> BTreeSet<NodeName> {
        self.book().all.values().flat_map(|command| command.what.claims().cloned().collect::<Vec<_>>()).collect()
    }

    /// The command that waits for this claim.
    pub(super) fn waiting_for(&self, claim: &NodeName) -> Option<Number> {
        let is_it = |command: &Command| match &command.stage {
            Stage::Begun(begun) => begun.replacements.iter().any(|expected| expected.claim == *claim),
            _ => false,
        };
        self.book().all.iter().find(|(_, command)| is_it(command)).map(|(number, _)| *number)
    }

    /// Whether some command is ripe and has not begun yet.
    pub(super) fn is_any_beginning(&self, now: Instant) -> bool {
        let is_ripe = |command: &Command| matches!(command.stage, Stage::Proposed { ripe } if ripe <= now);
        self.book().all.values().any(is_ripe)
    }

    /// How many nodes are being disrupted.
    pub(super) fn nodes_in_flight(&self) -> usize {
        let book = self.book();
        let begun = book.all.values().filter(|command| !matches!(command.stage, Stage::Proposed { .. }));
        begun.map(|command| command.what.leaving.len()).sum()
    }

    /// Pools that are left alone, and until when.
    pub(super) fn resting(&self, now: Instant) -> BTreeMap<PoolName, Instant> {
        let book = self.book();
        let resting = book.rests.iter().filter(|(_, rest)| now < rest.until);
        resting.map(|(pool, rest)| (pool.clone(), rest.until)).collect()
    }

    /// Replacements could not be had of these pools: they rest, longer each time.
    pub(super) fn failed(&self, pools: BTreeSet<PoolName>, now: Instant) {
        let mut book = self.change();
        for pool in pools {
            let rest = book.rests.entry(pool).or_insert(Rest { failures: 0, until: now });
            rest.failures = rest.failures.saturating_add(1);
            rest.until = now.plus(back_off(rest.failures));
        }
    }

    /// Forgets the failures of pools that are gone: one that is made again under the same name is another one.
    pub(super) fn keep_rests_of(&self, is_there: impl Fn(&PoolName) -> bool) {
        let mut book = self.book();
        let before = book.rests.len();
        book.rests.retain(|pool, _| is_there(pool));
        if book.rests.len() != before {
            book.version += 1;
        }
    }

    pub(super) fn succeeded(&self, pools: &BTreeSet<PoolName>) {
        self.keep_rests_of(|pool| !pools.contains(pool));
    }

    /// A number that is the same as before only if nothing has changed here.
    pub(super) fn version(&self) -> u64 {
        self.book().version
    }

    fn change(&self) -> MutexGuard<'_, Book> {
        let mut book = self.book();
        book.version += 1;
        book
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pools that lose nodes.
pub(super) fn pools_of(what: &Disruption) -> BTreeSet<PoolName> {
    what.leaving.iter().map(|leaver| leaver.pool.clone()).collect()
}

/// The pools that replacements are asked of.
pub(super) fn buying_pools(what: &Disruption) -> BTreeSet<PoolName> {
    what.replacements.iter().map(|planned| planned.pool.clone()).collect()
}
