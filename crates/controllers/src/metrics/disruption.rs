//! What is told about nodes that leave on purpose.

use super::book::{Book, Counters, Gauges, Histograms};
use super::labels::{ByConsolidation, ByDecision, ByMethod, ByPoolDecision, ByPoolReason, ByReason, Moved};

const SCORES: &[f64] = &[0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0];

#[derive(Debug)]
pub struct DisruptionMetrics {
    pub evaluation_duration: Histograms<ByMethod>,
    pub decisions: Counters<ByDecision>,
    pub decisions_by_pool: Counters<ByPoolDecision>,
    pub eligible_nodes: Gauges<ByReason>,
    pub failed_validations: Counters<ByConsolidation>,
    pub queue_failures: Counters<ByDecision>,
    pub moves: Counters<Moved>,
    pub scores: Histograms<Moved>,
    pub allowed_disruptions: Gauges<ByPoolReason>,
    pub nodes_consuming_budgets: Gauges<ByPoolReason>,
}

impl DisruptionMetrics {
    pub(super) fn new(book: &mut Book) -> Self {
        let timeouts: Counters<ByConsolidation> = book.counters(
            "karpenter_voluntary_disruption_consolidation_timeouts_total",
            "Searches that ran out of time, which ours do not: always zero.",
        );
        for consolidation_type in ["multi", "single"] {
            drop(timeouts.get_or_create(&ByConsolidation { consolidation_type }));
        }
        Self {
            evaluation_duration: book.histograms(
                "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
                "How long a decision took that a method took part in.",
                super::DURATIONS,
            ),
            decisions: book.counters("karpenter_voluntary_disruption_decisions_total", "Commands that were begun."),
            decisions_by_pool: book.counters(
                "karpenter_voluntary_disruption_decisions_by_nodepool_total",
                "Commands that were begun, for each pool that loses a node.",
            ),
            eligible_nodes: book.gauges(
                "karpenter_voluntary_disruption_eligible_nodes",
                "Nodes that could leave for a reason, before budgets and prices are looked at.",
            ),
            failed_validations: book.counters(
                "karpenter_voluntary_disruption_failed_validations_total",
                "Nodes of commands that did not hold at the second look.",
            ),
            queue_failures: book.counters(
                "karpenter_voluntary_disruption_queue_failures_total",
                "Commands that were taken back, and replacements that had not come.",
            ),
            moves: book.counters(
                "karpenter_consolidation_moves_total",
                "Moves that consolidation thought about, by the pools that they are about.",
            ),
            scores: book.histograms(
                "karpenter_consolidation_score",
                "What share of its money a pool would save for what share of its peace.",
                SCORES,
            ),
            allowed_disruptions: book.gauges(
                "karpenter_nodepools_allowed_disruptions",
                "How many nodes of a pool may be leaving, before those that are.",
            ),
            nodes_consuming_budgets: book.gauges(
                "karpenter_nodepools_nodes_consuming_budgets",
                "Nodes of a pool that are leaving or not ready.",
            ),
        }
    }
}
