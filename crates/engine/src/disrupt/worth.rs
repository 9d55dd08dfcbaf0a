//! What a move must save to be worth its trouble. Decisions 0052 and 0077.

#[cfg(test)]
mod tests;

use std::time::Duration;

use model::eviction::EvictionCost;
use model::price::Price;

/// What it costs to evict a common pod, in pico-dollars: its restart, the caches that it fills again.
const EVICTION_PICO: i128 = 100_000_000;
/// For so long a replacement is paid for beside what it replaces.
const SIDE_BY_SIDE: Duration = Duration::from_secs(5 * 60);
const HOUR_SECONDS: i128 = 3600;

/// What a move costs once, in pico-dollars: evictions, and the time in which old and new machines both run.
pub(super) fn cost_pico(evicted: EvictionCost, replacements: Price) -> i128 {
    let evictions = EVICTION_PICO * i128::from(evicted.parts()) / i128::from(EvictionCost::COMMON.parts());
    evictions.max(0) + i128::from(replacements.pico()) * i128::from(SIDE_BY_SIDE.as_secs()) / HOUR_SECONDS
}

/// The least that a move must save per hour to have paid for itself in time; never nothing, so that every replacement makes
/// the cluster cheaper by some least amount, and there can only be so many.
pub(super) fn least_saving(cost_pico: i128, payback: Duration) -> i64 {
    let seconds = i128::from(payback.as_secs()).max(1);
    let saving = (cost_pico * HOUR_SECONDS + seconds - 1) / seconds;
    i64::try_from(saving).unwrap_or(i64::MAX).max(1)
}

/// After which time a saving has paid for a cost. `None` when it never does.
pub(super) fn pays_back_after(cost_pico: i128, saved_pico: i64) -> Option<Duration> {
    let saved = i128::from(saved_pico);
    (saved > 0).then(|| Duration::from_secs(u64::try_from(cost_pico * HOUR_SECONDS / saved).unwrap_or(u64::MAX)))
}
