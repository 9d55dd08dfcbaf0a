//! Which marks a claim carries for those who disrupt: whether it has drifted, and whether it has been quiet for long enough to
//! be consolidated.
//!
//! Drift is named after the first cause that holds, and nearer causes come first: the pool's template, by its stamp; the
//! pool's requirements, held against the claim's own labels; the instance type, which must be on sale in some way that suits
//! the claim; and at last whatever the cloud says. A claim whose machine the cloud has not been asked about keeps the mark
//! that it has: a process that has just begun knows less than the one before it did.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use model::claim::Verdict;
use model::instance::{CapacityType, InstanceType};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, Labels, WellKnown};
use model::pool::PoolKind;
use model::requirements::{Requirement, Requirements, Undefined};
use model::time::Instant;

/// A cloud may be slow to list a type that it has just launched; after this nothing excuses a type that nobody sells.
const TYPE_AGE: Duration = Duration::from_secs(60 * 60);
/// How long a type that was found on sale is not looked for again.
const TYPE_AGAIN: Duration = Duration::from_secs(30 * 60);
/// How long what a cloud said about a machine is believed.
pub const ASK_AGAIN: Duration = Duration::from_secs(5 * 60);

/// What of one claim decides its marks.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub created: Instant,
    pub launched: Verdict,
    pub initialized: Verdict,
    pub labels: &'a Labels,
    pub stamp: Option<Stamp<'a>>,
    /// When a pod last came to its node or left it.
    pub last_pod_event: Option<Instant>,
    /// When its instance type was last found on sale.
    pub type_found: Option<Instant>,
    pub cloud: CloudSays<'a>,
}

/// What of its pool does.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub kind: PoolKind,
    pub stamp: Option<Stamp<'a>>,
    /// What the pool asks of its nodes, without the labels that it gives them: those are in the stamp.
    pub requirements: &'a Requirements,
    /// How long a node must be quiet; nothing when its pool is never consolidated.
    pub consolidate_after: Option<Duration>,
    /// Everything that the pool could buy, what is out of stock included. Empty when nobody could say.
    pub types: &'a [Arc<InstanceType>],
    pub well_known: &'a WellKnown,
    /// Labels that only machines out of a reservation have.
    pub reserved_only: &'a [Arc<str>],
}

/// What a template came to, and by which rules it was summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp<'a> {
    pub hash: &'a str,
    pub version: &'a str,
}

/// What the cloud says of a claim's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudSays<'a> {
    /// Nobody has asked yet.
    Nothing,
    Fine,
    Drifted(&'a str),
}

/// The marks that a claim should carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks<'a> {
    pub drift: Drift<'a>,
    pub consolidation: Consolidation,
    /// Whether only the cloud can say more about drift.
    pub awaits_cloud: bool,
    /// Whether the instance type was looked for just now, and found.
    pub has_found_type: bool,
    /// When time alone will have changed something.
    pub until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift<'a> {
    No,
    /// The reason, which is also the message.
    Because(&'a str),
    /// Nobody knows; what the claim says stands.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consolidation {
    Allowed,
    Not(Restless),
}

/// Why a claim is not for consolidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restless {
    /// Its pool keeps so many nodes, whatever they hold.
    StaticPool,
    /// Its pool says so.
    Never,
    NotInitialized,
    /// Something has happened on it too short a time ago.
    Until(Instant),
}

/// The marks of a claim that is there to stay.
pub fn next_marks<'a>(claim: &Subject<'a>, pool: &Terms<'a>, now: Instant) -> Marks<'a> {
    let consolidation = consolidation(claim, pool, now);
    let quiet = match consolidation {
        Consolidation::Not(Restless::Until(quiet)) => Some(quiet),
        _ => None,
    };
    let marks = Marks { drift: Drift::No, consolidation, awaits_cloud: false, has_found_type: false, until: quiet };
    if !claim.launched.is_true() {
        return marks;
    }
    if let Some(reason) = drift_from_pool(claim, pool) {
        return Marks { drift: Drift::Because(reason), ..marks };
    }
    let type_due = type_due(claim);
    let looks_for_type = now >= type_due && !pool.types.is_empty();
    if looks_for_type && !is_on_sale(claim, pool) {
        return Marks { drift: Drift::Because("InstanceTypeNotFound"), ..marks };
    }
    let next_look = if looks_for_type { now.plus(TYPE_AGAIN) } else { type_due };
    let drift = match claim.cloud {
        CloudSays::Nothing => Drift::Unknown,
        CloudSays::Fine => Drift::No,
        CloudSays::Drifted(reason) => Drift::Because(reason),
    };
    Marks {
        drift,
        awaits_cloud: true,
        has_found_type: looks_for_type,
        until: quiet.into_iter().chain((next_look > now).then_some(next_look)).min(),
        ..marks
    }
}

fn consolidation(claim: &Subject<'_>, pool: &Terms<'_>, now: Instant) -> Consolidation {
    if pool.kind != PoolKind::Dynamic {
        return Consolidation::Not(Restless::StaticPool);
    }
    let Some(quiet) = pool.consolidate_after else { return Consolidation::Not(Restless::Never) };
    if !claim.initialized.is_true() {
        return Consolidation::Not(Restless::NotInitialized);
    }
    let until = claim.last_pod_event.unwrap_or(claim.initialized.since).plus(quiet);
    // Clocks of different machines disagree; a node that is to be quiet for no time at all need not wait for that.
    if !quiet.is_zero() && now < until {
        return Consolidation::Not(Restless::Until(until));
    }
    Consolidation::Allowed
}

fn drift_from_pool(claim: &Subject<'_>, pool: &Terms<'_>) -> Option<&'static str> {
    if let (Some(made), Some(wanted)) = (claim.stamp, pool.stamp)
        && made.version == wanted.version
        && made.hash != wanted.hash
    {
        return Some("NodePoolDrifted");
    }
    let labels = Requirements::from_labels(claim.labels);
    (!labels.is_compatible(pool.requirements, Undefined::Absent)).then_some("RequirementsDrifted")
}

/// When the claim's instance type is to be looked for.
fn type_due(claim: &Subject<'_>) -> Instant {
    let again = claim.type_found.map_or(Instant::MIN, |found| found.plus(TYPE_AGAIN));
    claim.created.plus(TYPE_AGE).max(again)
}

/// Whether somebody could buy a machine like the claim's, were there enough of them.
fn is_on_sale(claim: &Subject<'_>, pool: &Terms<'_>) -> bool {
    let Some(name) = claim.labels.get(INSTANCE_TYPE) else { return false };
    let Some(found) = pool.types.iter().find(|found| *found.name.as_str() == **name) else { return false };
    let mut labels = Requirements::from_labels(claim.labels);
    let is_reserved =
        claim.labels.get(CAPACITY_TYPE).is_some_and(|bought| **bought == *CapacityType::Reserved.as_str());
    if is_reserved {
        // A reservation may end while its machine goes on, paid for like any other.
        let kinds = [CapacityType::Reserved, CapacityType::OnDemand].map(|kind| kind.as_str().into());
        labels.remove(CAPACITY_TYPE);
        labels.add(CAPACITY_TYPE, Requirement::one_of(kinds));
        pool.reserved_only.iter().for_each(|key| drop(labels.remove(key)));
    }
    let undefined = Undefined::OpenIfWellKnown(pool.well_known);
    found.offerings.iter().any(|offering| labels.is_compatible(&offering.requirements, undefined))
}
