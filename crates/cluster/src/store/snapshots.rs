//! Snapshots that cost what has changed.
//!
//! The store keeps the last two snapshots that it gave out, and for each what has changed since. When one is wanted and
//! nobody holds an old one any more, the old one is brought up to date in place; while somebody decides on one snapshot, the
//! other serves. Only when both are held is everything copied, and even that copies no pod and no node, just references.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::ids::{NodeName, PodName};
use model::snapshot::Snapshot;

/// More would only help more than two who decide at once, and each costs some memory for every pod.
const MOST_KEPT: usize = 2;

/// A snapshot that has so much to catch up on is not kept: one that nobody asks for would note every pod that ever was.
const MOST_STALE: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Snapshots {
    kept: Vec<Kept>,
    /// How often anything has changed that a snapshot shows.
    generation: u64,
}

#[derive(Debug)]
struct Kept {
    snapshot: Arc<Snapshot>,
    stale: Stale,
}

/// What of a snapshot is out of date.
#[derive(Debug, Default)]
pub(super) struct Stale {
    pub(super) pods: BTreeSet<PodName>,
    pub(super) nodes: BTreeSet<NodeName>,
    pub(super) pools: bool,
    pub(super) daemons: bool,
    pub(super) budgets: bool,
    pub(super) stopped: bool,
}

impl Stale {
    fn is_empty(&self) -> bool {
        let Self { pods, nodes, pools, daemons, budgets, stopped } = self;
        pods.is_empty() && nodes.is_empty() && !(*pools || *daemons || *budgets || *stopped)
    }
}

impl Snapshots {
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn touch(&mut self, mut mark: impl FnMut(&mut Stale)) {
        self.generation += 1;
        self.kept.iter_mut().for_each(|kept| mark(&mut kept.stale));
        self.kept.retain(|kept| kept.stale.pods.len() + kept.stale.nodes.len() <= MOST_STALE);
    }

    pub(super) fn touch_pod(&mut self, name: &PodName) {
        self.touch(|stale| {
            stale.pods.insert(name.clone());
        });
    }

    pub(super) fn touch_node(&mut self, name: &NodeName) {
        self.touch(|stale| {
            stale.nodes.insert(name.clone());
        });
    }

    /// An up-to-date snapshot: `renew` brings one up to date in what is stale, `build` makes one.
    pub(super) fn take(
        &mut self,
        is_it: impl Fn(&Snapshot) -> bool,
        renew: impl FnOnce(&mut Snapshot, &Stale),
        build: impl FnOnce() -> Snapshot,
    ) -> Arc<Snapshot> {
        if let Some(kept) = self.kept.iter().find(|kept| kept.stale.is_empty() && is_it(&kept.snapshot)) {
            return kept.snapshot.clone();
        }
        // The one with less to catch up on first.
        self.kept.sort_by_key(|kept| kept.stale.pods.len());
        for kept in &mut self.kept {
            if let Some(snapshot) = Arc::get_mut(&mut kept.snapshot) {
                renew(snapshot, &std::mem::take(&mut kept.stale));
                return kept.snapshot.clone();
            }
        }
        let snapshot = Arc::new(build());
        self.kept.truncate(MOST_KEPT - 1);
        self.kept.push(Kept { snapshot: snapshot.clone(), stale: Stale::default() });
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_nobody_asks_for_is_given_up() {
        let now = model::time::Instant::from_unix_seconds(0);
        let mut snapshots = Snapshots::default();
        let held = snapshots.take(|_| false, |_, _| {}, || Snapshot::empty(now));
        for number in 0..=MOST_STALE {
            snapshots.touch_pod(&PodName::new("shop", &number.to_string()));
        }
        assert!(snapshots.kept.is_empty());
        assert_eq!(held.pods.len(), 0, "whoever holds it still has it");
    }
}
