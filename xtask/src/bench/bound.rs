//! What no plan can be cheaper than: the fractional relaxation of packing pods onto machines.
//!
//! Pods that are alike form a class. In the relaxation a machine can be bought in any fraction and a class split at will, and
//! affinity, spreads, ports, limits and daemons are left out; only demands on labels, taints and amounts remain. A small machine is
//! filled with whole pods, a large one with fractions of pods. Each real plan is one of its solutions, so its optimum is below every
//! plan's price:
//!
//! ```text
//! least  Σ price(m)·y(f)   so that  Σ over f of y(f)·f(c) ≥ pods(c)        for each class c
//!                                   where f runs over all ways to fill each machine m: Σ over c of f(c)·asks(c,r) ≤ has(m,r)
//! ```
//!
//! `columns` solves it in floating point. Its answer is not believed: `certify` turns it into a solution of the dual program in whole
//! numbers, and any such solution, good or bad, is a lower bound.

mod certify;
mod columns;
mod fillings;
mod knapsack;
mod problem;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use model::ids::PodName;
use model::plan::Plan;
use model::snapshot::Snapshot;

use problem::Problem;

/// Dollars per hour that any plan costs which places the pods that this one places.
pub(super) fn lower_bound(snapshot: &Snapshot, plan: &Plan) -> f64 {
    let placed: BTreeSet<&PodName> = plan.placements.iter().map(|(pod, _)| pod).collect();
    lower_bound_pico(snapshot, &placed) as f64 / 1e12
}

fn lower_bound_pico(snapshot: &Snapshot, placed: &BTreeSet<&PodName>) -> i128 {
    let problem = Problem::of(snapshot, placed);
    let worths = columns::class_worths(&problem);
    certify::certified_pico(&problem, &worths)
}
