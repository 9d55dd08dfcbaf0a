//! What came of a play, as one JSON object. Times are seconds since the beginning, money is dollars.

use std::time::Duration;

use serde::Serialize;

use super::ledger::{Ledger, Sample};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub seed: u64,
    pub virtual_seconds: f64,
    /// What the play took on the clock of the machine; whoever plays it fills it in. All else follows from the seed.
    pub wall_seconds: f64,
    pub cost: Cost,
    pub nodes: Vec<NodeReport>,
    pub pods: PodReport,
    pub decisions: Vec<DecisionReport>,
    pub expectations: Vec<ExpectationReport>,
    /// For drawings.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    pub total: f64,
    pub hourly_end: f64,
}

/// A machine that was bought.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Of the Node; of the claim, if it never became one.
    pub name: String,
    pub pool: Option<String>,
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    pub price_per_hour: f64,
    pub created_at: f64,
    pub ready_at: Option<f64>,
    /// `None` while it lives.
    pub deleted_at: Option<f64>,
    /// Why it went, or is about to.
    pub reason: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    pub created: usize,
    pub placed: usize,
    pub pending: usize,
    pub evicted: usize,
    pub max_pending_seconds: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionReport {
    pub at: f64,
    pub kind: &'static str,
    pub reason: String,
    pub nodes: Vec<String>,
    pub replacements: Vec<String>,
    pub savings_per_hour: f64,
    pub why: String,
}

#[derive(Debug, Serialize)]
pub struct ExpectationReport {
    pub at: f64,
    pub ok: bool,
    pub message: String,
}

impl Report {
    pub fn is_as_expected(&self) -> bool {
        self.expectations.iter().all(|expectation| expectation.ok)
    }

    pub(super) fn of(ledger: &Ledger, seed: u64, duration: Duration) -> Self {
        let pods = ledger.pods();
        Self {
            seed,
            virtual_seconds: duration.as_secs_f64(),
            wall_seconds: 0.0,
            cost: Cost { total: ledger.spent(), hourly_end: ledger.price().dollars() },
            nodes: nodes(ledger),
            pods: PodReport {
                created: pods.created,
                placed: pods.placed,
                pending: pods.pending,
                evicted: pods.evicted,
                max_pending_seconds: pods.max_pending_secs,
            },
            decisions: decisions(ledger),
            expectations: expectations(ledger),
            samples: ledger.samples().to_vec(),
        }
    }
}

fn nodes(ledger: &Ledger) -> Vec<NodeReport> {
    let secs = |time| ledger.since_start(time).as_secs_f64();
    let nodes = ledger.machines().into_iter().map(|machine| NodeReport {
        name: machine.node.clone().unwrap_or_else(|| machine.claim.clone()),
        pool: machine.pool.clone(),
        instance_type: machine.offering.type_name.to_string(),
        zone: machine.offering.zone.to_string(),
        capacity_type: machine.offering.capacity_type.as_str().to_owned(),
        price_per_hour: machine.price.dollars(),
        created_at: secs(machine.launched),
        ready_at: machine.ready.map(secs),
        deleted_at: machine.ended.map(secs),
        reason: machine.reason.clone(),
    });
    nodes.collect()
}

fn decisions(ledger: &Ledger) -> Vec<DecisionReport> {
    let decisions = ledger.decisions().iter().map(|decision| DecisionReport {
        at: decision.at.as_secs_f64(),
        kind: decision.kind,
        reason: decision.reason.clone(),
        nodes: decision.nodes.clone(),
        replacements: decision.replacements.clone(),
        savings_per_hour: decision.savings.dollars(),
        why: decision.why.clone(),
    });
    decisions.collect()
}

fn expectations(ledger: &Ledger) -> Vec<ExpectationReport> {
    let verdicts = ledger.verdicts.iter().map(|verdict| ExpectationReport {
        at: verdict.at.as_secs_f64(),
        ok: verdict.ok,
        message: verdict.message.clone(),
    });
    verdicts.collect()
}
