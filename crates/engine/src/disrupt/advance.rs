//! A command on its way: wait for replacements, go, or roll back. And how long a pool rests after a failure.

#[cfg(test)]
mod tests;

use std::time::Duration;

use model::ids::NodeName;
use model::time::Instant;

/// The time limit of a command that has few companions, and the longest there is.
const LIMIT_LEAST: Duration = Duration::from_secs(10 * 60);
const LIMIT_MOST: Duration = Duration::from_secs(60 * 60);
/// What each node that is being disrupted adds to everybody's limit.
const LIMIT_PER_NODE: Duration = Duration::from_millis(80);
/// How long a pool rests after its first failure, and at most.
const REST_LEAST: Duration = Duration::from_secs(60);
const REST_MOST: Duration = Duration::from_secs(10 * 60);

/// A command that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    pub started: Instant,
    pub replacements: Vec<(NodeName, Replacement)>,
    /// How many nodes all commands together are disrupting.
    pub nodes_in_flight: usize,
    /// Whether disruption was stopped in the whole cluster meanwhile.
    pub is_stopped: bool,
}

/// How far a replacement has come. One that was initialized once counts as initialized for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    Initialized,
    /// There, and not initialized yet.
    Coming,
    /// Known to us, but the API server does not show it now; that passes.
    Unseen,
    /// Deleted: no capacity, or it took too long.
    Gone,
}

/// What a command does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advance {
    /// Not all replacements are initialized; at `until` it is given up.
    Wait { until: Instant },
    /// All replacements are there: delete the claims.
    Go,
    /// Take everything back. `unused` are replacements that still come: nobody needs them any more.
    RollBack { failure: Failure, unused: Vec<NodeName> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    ReplacementGone,
    TimedOut,
    /// Nobody is to be disrupted now.
    Stopped,
}

/// What a command does next. What is complete goes, even when its time has just run out: a command is never both done and
/// rolled back. Only whoever stops all disruption stops that too.
pub fn advance(flight: &Flight, now: Instant) -> Advance {
    let with = |wanted: &[Replacement]| -> Vec<NodeName> {
        let found = flight.replacements.iter().filter(|(_, state)| wanted.contains(state));
        found.map(|(name, _)| name.clone()).collect()
    };
    let lacking = with(&[Replacement::Coming, Replacement::Unseen]);
    let roll_back = |failure: Failure| Advance::RollBack { failure, unused: lacking.clone() };
    if flight.is_stopped {
        return roll_back(Failure::Stopped);
    }
    if !with(&[Replacement::Gone]).is_empty() {
        return roll_back(Failure::ReplacementGone);
    }
    if lacking.is_empty() {
        return Advance::Go;
    }
    let until = flight.started.plus(time_limit(flight.nodes_in_flight));
    if now > until { roll_back(Failure::TimedOut) } else { Advance::Wait { until } }
}

/// How long a command may take when so many nodes are being disrupted.
pub fn time_limit(nodes_in_flight: usize) -> Duration {
    let nodes = u32::try_from(nodes_in_flight).unwrap_or(u32::MAX);
    LIMIT_PER_NODE.saturating_mul(nodes).clamp(LIMIT_LEAST, LIMIT_MOST)
}

/// How long a pool is left alone after so many failures in a row: a minute, doubled each time, ten at most. Without it a pool
/// whose replacements never come would be tried first for ever, and all others would wait.
pub fn back_off(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        failures => REST_LEAST.saturating_mul(2_u32.saturating_pow(failures - 1)).min(REST_MOST),
    }
}
