//! Which nodes leave on purpose: empty ones, drifted ones, and those whose pods can be had for less.
//!
//! ```text
//! candidates ─▶ decide ─▶ (wait) ─▶ still_holds ─▶ (taint, create replacements) ─▶ advance ─▶ (delete) or (roll back)
//! ```
//!
//! `decide` lowers the snapshot once, plans for pods that wait anyway, and then tries the methods in the order of
//! [`Method::ALL`]. What it finds are commands that do not stand in each other's way: their nodes differ, their pods fit
//! beside each other, and together they keep all budgets. Every node that stays has a reason.

mod advance;
mod budgets;
mod candidates;
mod consolidate;
mod deliberate;
mod drift;
mod emptiness;
mod ground;
mod imagine;
mod replace;
mod score;
mod search;
mod settling;
mod validate;
mod worth;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::disruption::{Disruption, Method, Moved, PoolScore, Stay, Staying};
use model::ids::{NodeName, PodName, PoolName};
use model::pod::Pod;
use model::snapshot::Snapshot;
use model::time::Instant;

pub use advance::{Advance, Failure, Flight, Replacement, advance, back_off, time_limit};
pub use budgets::{Allowance, allowances};
pub use candidates::{Candidate, Candidates, candidates};
use deliberate::Deliberation;
pub use ground::Memory;
pub use settling::begins_at;
pub use validate::{still_holds, still_holds_with};

/// What is looked at.
#[derive(Clone, Debug)]
pub struct Scene<'a> {
    pub snapshot: &'a Snapshot,
    /// Nodes that will have been quiet for long enough by then may be chosen; see [`begins_at`]. The snapshot's own time when
    /// nothing is foreseen.
    pub settled_by: Instant,
    /// Pods that wait for a node and are fit for us, and those that stand for the room of buffers. Those on nodes that are
    /// leaving are found in the snapshot.
    pub pending: Vec<&'a Pod>,
    /// Where pods that wait, and those of nodes that are leaving, are to go, as far as that was planned before.
    pub promised: BTreeMap<PodName, NodeName>,
    /// Nodes that pods are about to come to.
    pub nominated: BTreeSet<NodeName>,
    /// Pods that came in the place of some that we moved.
    pub moved: BTreeMap<PodName, Moved>,
    /// Commands that wait for their second look, and those that are being carried out: their nodes are spoken for, and the
    /// places that their pods are to have are taken.
    pub under_way: Vec<&'a Disruption>,
    /// Pools in which replacements failed lately, and until when they are left alone; see [`back_off`].
    pub paused: BTreeMap<PoolName, Instant>,
    /// For each static pool, how many claims it has that are neither leaving nor being replaced, and how many are being replaced.
    pub static_pools: BTreeMap<PoolName, StaticCount>,
}

/// The claims of a static pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaticCount {
    pub active: i64,
    pub replacing: i64,
    /// How many more the limit on nodes allows, if there is one.
    pub room: Option<i64>,
}

/// What the operator chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether a spot node may be replaced by a spot node: the gate SpotToSpotConsolidation.
    pub spot_to_spot: bool,
    /// A replacement must have saved what it costs after this time. Decision 0052.
    pub payback: Duration,
    /// A pod that was moved is not moved again for so long, and for longer when it was moved before; see [`Moved`].
    pub pod_move_cooldown: Duration,
    /// How many threads may be used. The answer does not depend on it.
    pub threads: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            spot_to_spot: false,
            payback: Duration::from_secs(24 * 60 * 60),
            pod_move_cooldown: Duration::from_secs(30),
            threads: 2,
        }
    }
}

/// What is to be done, and why the rest stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Commands that can all be begun now; those of [`Method::is_validated`] wait for their second look first.
    pub commands: Vec<Disruption>,
    /// Every node that stays, in the order of names.
    pub staying: Vec<Staying>,
    /// What each pool's budgets allow for each reason.
    pub allowances: Vec<Allowance>,
    /// How many nodes each method could choose from.
    pub eligible: Vec<(Method, usize)>,
    /// How pools with the policy Balanced scored what was considered, accepted or not.
    pub scores: Vec<PoolScore>,
    /// When time alone may change the answer: a budget's window ends, a protection runs out.
    pub look_again: Option<Instant>,
    pub effort: Effort,
}

/// How much work a decision was, or would have been had nothing been remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Questions of the kind "what if these nodes left?".
    pub questions: u64,
    /// Of those, refused by a bound, without placing a single pod.
    pub refused_at_sight: u64,
    /// Questions for which new machines were planned in full.
    pub plans: u64,
}

/// What became of a command while it waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validity {
    /// It may begin as it stands here: nodes that no longer qualify may have been dropped from a command of empty ones.
    Holds {
        command: Disruption,
        dropped: Vec<(NodeName, Dropped)>,
    },
    Fails {
        why: Rejection,
        stays: Vec<(NodeName, Stay)>,
    },
}

/// Why an empty node was dropped from a command that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// It is no candidate any more.
    Churn,
    Nominated,
    Budget,
}

/// The classes in which rejections are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A candidate is none any more.
    Churn,
    /// A budget, or pods that are about to come.
    Budget,
    /// The pods would no longer find their places, or not for that price.
    Scheduling,
}

impl Rejection {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::Budget => "budget",
            Self::Scheduling => "scheduling",
        }
    }
}

/// What is to be done now. Equal scenes give equal decisions, whatever the number of threads.
pub fn decide(scene: &Scene<'_>, rules: &Rules) -> Decision {
    decide_with(&mut Memory::default(), scene, rules)
}

/// The same with what was kept of earlier decisions, which saves time and changes nothing else.
pub fn decide_with(memory: &mut Memory, scene: &Scene<'_>, rules: &Rules) -> Decision {
    let mut deliberation = Deliberation::new(scene, rules, &memory.catalogue(scene.snapshot));
    // Each method sees the world as the ones before it leave it. The order is that of `Method::ALL`.
    emptiness::remove_empty(&mut deliberation);
    drift::replace_static(&mut deliberation);
    drift::replace_drifted(&mut deliberation);
    consolidate::consolidate(&mut deliberation, memory);
    deliberation.decision()
}
