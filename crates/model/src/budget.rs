//! Disruption budgets: how many nodes of a pool may be leaving at once, for which reason, and when.
//!
//! Budgets fail closed. Someone who writes a budget wants to slow us down, so a budget that cannot be understood stops
//! every disruption of its pool, also for reasons it does not name, until it is corrected.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use crate::cron::{Cron, CronError};
use crate::time::Instant;

/// What a pool without an active budget allows. Upstream's number, because the metric of allowed disruptions shows it.
pub const UNLIMITED: u32 = i32::MAX as u32;

/// A schedule whose windows overlap so often is taken to have no end.
const MOST_HITS_FOLLOWED: usize = 2000;

/// Why a node is to leave voluntarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    Underutilized,
    Empty,
    Drifted,
    Unhealthy,
}

/// One budget of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    pub nodes: BudgetNodes,
    /// The reasons it limits; unset means all. An empty set means all, too, since a budget that limits nothing is not
    /// what its author meant; it stays visible here so that someone can warn about it. Upstream ignores such a budget. Decision 0012.
    pub reasons: Option<BTreeSet<Reason>>,
    /// When it limits; unset means always.
    pub window: Option<Window>,
}

/// How many nodes may be leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetNodes {
    Count(u32),
    /// Of the pool's nodes, rounded up, so that a small pool is not frozen by a small percentage.
    Percent(u8),
}

/// The times at which a budget is active: from each hit of the schedule on for the duration, the end excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub schedule: Cron,
    pub duration: Duration,
}

/// A budget as the API writes it. Its duration is a number already, because the wire format reads it for every field
/// that has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetText<'a> {
    pub nodes: &'a str,
    pub reasons: Option<Vec<&'a str>>,
    pub schedule: Option<&'a str>,
    pub duration: Option<Duration>,
}

/// All budgets of a pool, the unusable ones included: collect one from the results of [`Budget::parse`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    usable: Vec<Budget>,
    invalid: Vec<InvalidBudget>,
}

/// A budget that stops all disruption of its pool because it cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidBudget {
    /// Its place in the pool's list, from 0 as in a JSON path.
    pub index: usize,
    pub error: BudgetError,
}

/// Why a budget was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BudgetError {
    Nodes {
        text: String,
    },
    Reason {
        text: String,
    },
    Schedule {
        text: String,
        source: CronError,
    },
    /// Even `TZ=UTC` is refused, as upstream does, which puts that very prefix in front of every schedule itself.
    ScheduleZone {
        text: String,
    },
    ScheduleWithoutDuration,
    DurationWithoutSchedule,
}

impl Budgets {
    /// How many nodes of the pool may be leaving for `reason`: the least that any active budget for it allows. Zero
    /// for every reason while one budget is invalid; [`UNLIMITED`] when no budget applies. Nodes that are already
    /// leaving are not subtracted here.
    pub fn allowed_disruptions(&self, reason: Reason, now: Instant, total_nodes: u32) -> u32 {
        if !self.invalid.is_empty() {
            return 0;
        }
        let matching = self.usable.iter().filter(|budget| budget.applies_to(reason));
        matching.map(|budget| budget.allowed_disruptions(now, total_nodes)).min().unwrap_or(UNLIMITED)
    }

    /// The budgets to complain about, in the order of the pool's list.
    pub fn invalid(&self) -> &[InvalidBudget] {
        &self.invalid
    }

    /// The budgets that could be understood, in the order of the pool's list.
    pub fn usable(&self) -> &[Budget] {
        &self.usable
    }
}

impl FromIterator<Result<Budget, BudgetError>> for Budgets {
    fn from_iter<I: IntoIterator<Item = Result<Budget, BudgetError>>>(results: I) -> Budgets {
        let mut budgets = Budgets::default();
        for (index, result) in results.into_iter().enumerate() {
            match result {
                Ok(budget) => budgets.usable.push(budget),
                Err(error) => budgets.invalid.push(InvalidBudget { index, error }),
            }
        }
        budgets
    }
}

impl Budget {
    /// Reads one budget. The first thing that is wrong is reported.
    pub fn parse(text: &BudgetText<'_>) -> Result<Budget, BudgetError> {
        let reasons = text.reasons.as_ref().map(|reasons| reasons.iter().map(|reason| Reason::parse(reason)).collect());
        let window = match (text.schedule, text.duration) {
            (None, None) => None,
            (Some(schedule), Some(duration)) => Some(Window::parse(schedule, duration)?),
            (Some(_), None) => return Err(BudgetError::ScheduleWithoutDuration),
            (None, Some(_)) => return Err(BudgetError::DurationWithoutSchedule),
        };
        Ok(Budget { nodes: BudgetNodes::parse(text.nodes)?, reasons: reasons.transpose()?, window })
    }

    /// Whether nodes leaving for `reason` are limited by this budget while it is active.
    pub fn applies_to(&self, reason: Reason) -> bool {
        self.reasons.as_ref().is_none_or(|reasons| reasons.is_empty() || reasons.contains(&reason))
    }

    /// What this budget alone allows; [`UNLIMITED`] outside its window.
    pub fn allowed_disruptions(&self, now: Instant, total_nodes: u32) -> u32 {
        let is_active = self.window.as_ref().is_none_or(|window| window.contains(now));
        if is_active { self.nodes.of(total_nodes) } else { UNLIMITED }
    }
}

impl BudgetNodes {
    /// Reads `5` or `10%`. A count beyond [`UNLIMITED`] is refused: upstream wraps it around to some unrelated and
    /// perhaps negative number.
    pub fn parse(text: &str) -> Result<BudgetNodes, BudgetError> {
        let (digits, is_percent) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
        let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok()).flatten();
        match number {
            Some(count) if !is_percent && count <= UNLIMITED => Ok(BudgetNodes::Count(count)),
            // No more digits than needed, as in the API's pattern.
            Some(percent @ 0..=100) if is_percent && (digits.len() <= 2 || digits == "100") => {
                Ok(BudgetNodes::Percent(percent as u8))
            }
            _ => Err(BudgetError::Nodes { text: text.to_owned() }),
        }
    }

    /// The number of nodes this is in a pool of `total_nodes`, at most [`UNLIMITED`].
    pub fn of(self, total_nodes: u32) -> u32 {
        let nodes = match self {
            BudgetNodes::Count(count) => u64::from(count),
            BudgetNodes::Percent(percent) => (u64::from(percent) * u64::from(total_nodes)).div_ceil(100),
        };
        u32::try_from(nodes).unwrap_or(UNLIMITED).min(UNLIMITED)
    }
}

impl Window {
    /// Reads a schedule, which is always in UTC.
    pub fn parse(schedule: &str, duration: Duration) -> Result<Window, BudgetError> {
        let schedule = schedule.trim();
        if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
            return Err(BudgetError::ScheduleZone { text: schedule.to_owned() });
        }
        let cron =
            Cron::parse(schedule).map_err(|source| BudgetError::Schedule { text: schedule.to_owned(), source })?;
        Ok(Window { schedule: cron, duration })
    }

    /// Whether `now` is within the duration after some hit. Asking for the first hit since `now - duration` is enough:
    /// any later hit up to `now` only confirms it, so overlapping windows need no care.
    pub fn contains(&self, now: Instant) -> bool {
        match self.schedule.next_after(now.minus(self.duration)) {
            Some(hit) => hit <= now,
            // A schedule that never comes, such as 30 February, limits always. Upstream's library answers with the
            // year 1 here, which upstream takes for a hit in the past; for a brake this is the safe side.
            None => true,
        }
    }

    /// When it next becomes active, or stops to be; after very many windows that overlap, when to ask again. Nothing when that
    /// never happens.
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        if !self.contains(now) {
            return self.schedule.next_after(now);
        }
        let mut end = self.schedule.next_after(now.minus(self.duration))?.plus(self.duration);
        // Each hit within the window moves its end.
        for _ in 0..MOST_HITS_FOLLOWED {
            match self.schedule.next_after(end.minus(self.duration)) {
                Some(hit) if hit <= end => end = hit.plus(self.duration),
                _ => break,
            }
        }
        Some(end)
    }
}

impl Reason {
    /// Every reason, in the order in which the API lists them.
    pub const ALL: [Reason; 4] = [Reason::Underutilized, Reason::Empty, Reason::Drifted, Reason::Unhealthy];

    /// The API's word for it, which metrics and events use as well.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Underutilized => "Underutilized",
            Reason::Empty => "Empty",
            Reason::Drifted => "Drifted",
            Reason::Unhealthy => "Unhealthy",
        }
    }

    /// Reads the API's word, in exactly its spelling.
    pub fn parse(text: &str) -> Result<Reason, BudgetError> {
        let known = Reason::ALL.into_iter().find(|reason| reason.as_str() == text);
        known.ok_or_else(|| BudgetError::Reason { text: text.to_owned() })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for InvalidBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "budgets[{}] cannot be used and stops all disruption of its pool", self.index)
    }
}

impl std::error::Error for InvalidBudget {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl fmt::Display for BudgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BudgetError::Nodes { text } => write!(
                f,
                "nodes `{text}` is neither a count up to {UNLIMITED} nor a percentage; write it like `5` or `10%`"
            ),
            BudgetError::Reason { text } => {
                write!(f, "unknown reason `{text}`; use Underutilized, Empty, Drifted or Unhealthy")
            }
            BudgetError::Schedule { text, .. } => write!(f, "schedule `{text}` is not a cron expression"),
            BudgetError::ScheduleZone { text } => {
                write!(f, "schedule `{text}` names a time zone; budgets are always in UTC, leave the zone out")
            }
            BudgetError::ScheduleWithoutDuration => {
                write!(f, "schedule without duration; say how long the budget is active after each hit, or set neither")
            }
            BudgetError::DurationWithoutSchedule => {
                write!(f, "duration without schedule; say when the budget becomes active, or set neither")
            }
        }
    }
}

impl std::error::Error for BudgetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BudgetError::Schedule { source, .. } => Some(source),
            _ => None,
        }
    }
}
