//! Whether a node is as large as the cloud promised.

use std::time::Duration;

use model::claim::ClaimLife;
use model::resources::Resource;
use model::time::Instant;

pub const CHECK_EVERY: Duration = Duration::from_secs(10 * 60);

/// Less than this share of what was promised is worth a warning; kernels and firmware always keep a little for themselves.
const ENOUGH_TENTHS: i128 = 9;

/// A resource that the node has too little of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    pub resource: Resource,
    pub promised: i64,
    pub found: i64,
}

impl Shortfall {
    /// What is there, in tenths of a percent of what was promised, rounded to the nearest.
    pub fn per_mille(&self) -> i64 {
        let promised = i128::from(self.promised.max(1));
        let per_mille = (i128::from(self.found) * 1000 + promised / 2) / promised;
        i64::try_from(per_mille).unwrap_or(i64::MAX)
    }
}

/// When the claim's node is to be looked at again; at once if nobody has looked yet.
pub(super) fn next_check(life: &ClaimLife) -> Option<Instant> {
    let has_node = life.initialized.is_true() && life.nodes.len() == 1;
    has_node.then(|| life.checked.map_or(Instant::MIN, |checked| checked.plus(CHECK_EVERY)))
}

/// What the claim's pods asked for and its node has less of than was promised.
pub fn shortfalls(life: &ClaimLife) -> Vec<Shortfall> {
    let [node] = &*life.nodes else { return Vec::new() };
    let of = |(resource, _): (Resource, i64)| {
        let (promised, found) = (life.promised.get(&resource), node.capacity.get(&resource));
        let is_short = promised > 0 && i128::from(found) * 10 < i128::from(promised) * ENOUGH_TENTHS;
        is_short.then_some(Shortfall { resource, promised, found })
    };
    life.requests.amounts().filter_map(of).collect()
}
