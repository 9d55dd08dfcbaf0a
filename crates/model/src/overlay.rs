//! NodeOverlays as values: corrections to what a cloud reports.

use std::sync::Arc;

use crate::requirements::Requirements;
use crate::resources::Resources;

/// One overlay. Heavier ones win; equal weights go by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    pub name: Arc<str>,
    pub weight: i32,
    pub requirements: Requirements,
    pub price: Option<PriceChange>,
    /// Extended resources that matching machines have.
    pub capacity: Resources,
}

/// What happens to a price. The result is never below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceChange {
    /// This many pico-dollars per hour instead.
    Replace { pico: i64 },
    /// So many pico-dollars more, or less.
    Add { pico: i64 },
    /// So many millionths of the price more, or less: −10 % is −100 000.
    AddParts { per_million: i64 },
}
