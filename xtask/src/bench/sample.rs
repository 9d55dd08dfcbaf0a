//! Results as tests want them.

use super::assess::Assessment;
use super::results::{Measured, RowResult, Side};
use super::rows::ROWS;

pub(super) fn assessment() -> Assessment {
    Assessment {
        placed: 10,
        nodes: 2,
        price_per_hour: 3.0,
        worst_launch_price_per_hour: 4.0,
        types_per_claim_min: 20,
        preferences_kept: 4,
        preferences: 4,
        ..Assessment::default()
    }
}

pub(super) fn side(change: impl FnOnce(&mut Assessment)) -> Side {
    let mut assessment = assessment();
    change(&mut assessment);
    Side {
        seconds: 0.5,
        lower_seconds: 0.0,
        catalogue_seconds: 0.0,
        pods_per_second: 20.0,
        peak_mb: 1.0,
        runs: 5,
        parallelism: None,
        capped: false,
        assessment: Some(assessment),
    }
}

/// A result that meets every target, whatever row it is of.
pub(super) fn row(name: &str) -> RowResult {
    RowResult {
        workload: name.to_owned(),
        pods: ROWS.iter().find(|row| row.name == name).map_or(10, |row| row.pods),
        types: 400,
        existing_nodes: 0,
        sha256: "workload".to_owned(),
        ours: side(|_| ()),
        peer: Some(Side { seconds: 500.0, ..side(|other| other.price_per_hour = 30.0) }),
        ratio: Some(1_000.0),
        ratio_with_lowering: Some(1_000.0),
        price_ratio: Some(0.1),
        lp_bound: 3.0,
        price_over_lp_bound: Some(1.0),
        counts: true,
        reasons: Vec::new(),
        measured: Measured::default(),
    }
}
