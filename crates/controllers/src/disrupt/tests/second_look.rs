//! What is told and counted when commands are found, and when they do not hold.

use std::fmt;
use std::sync::Mutex;

use engine::disrupt::{Decision, Rejection};
use model::disruption::{PoolScore, Verdict};
use model::pool::ConsolidationPolicy;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::looking::{all_at_once, consolidatable, run, run_while};
use super::*;
use crate::disrupt::report;

const INVALID: &str = "karpenter_voluntary_disruption_failed_validations_total";

/// Two machines with one pod each, of which one can take both.
async fn one_too_many(disruption: Value) -> Stage {
    let stage = consolidatable(&["a", "b"], disruption).await;
    stage.world.put(pod_on("a", "web", "1"));
    stage.world.put(pod_on("b", "other", "1"));
    stage.world.sync();
    stage
}

/// The node that a command of one node is about.
fn chosen(stage: &Stage) -> String {
    let claims = stage.known_claims();
    assert_eq!(claims.len(), 1, "{claims:?}");
    claims.first().unwrap().to_string()
}

fn score(savings: i64, disruption: i64, verdict: Verdict) -> PoolScore {
    PoolScore {
        pool: "general".into(),
        policy: ConsolidationPolicy::Balanced,
        savings: Some(savings),
        disruption: Some(disruption),
        verdict,
    }
}

// 02/BA7
#[tokio::test(start_paused = true)]
async fn a_balanced_pool_tells_the_score_of_what_it_approves_to_the_node_and_its_claim() {
    let rules = json!({"consolidationPolicy": "Balanced", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
    let stage = one_too_many(rules).await;
    run(&stage, Duration::from_secs(10)).await;
    let text = "score 1.00 >= threshold 0.50 (k: 2, savings 50.0%, disruption 50.0%)";
    assert_eq!(stage.told("ConsolidationApproved").await, [text, text]);
    let moves = "karpenter_consolidation_moves_total{decision=\"approved\",nodepool=\"general\",policy=\"Balanced\"}";
    let metrics = stage.world.ctx.metrics.encode();
    assert!(metrics.lines().any(|line| line.starts_with(moves)), "{metrics}");
}

// 02/BA7
#[tokio::test(start_paused = true)]
async fn approval_of_several_nodes_is_told_to_the_pool_and_a_rejection_is_only_counted() {
    let stage = Stage::with(&["a", "b"]).await;
    let mut several = command(Method::MultiConsolidation, &["a", "b"], 1);
    several.worth.scores = vec![score(400_000, 500_000, Verdict::Approved)];
    let scores = vec![score(400_000, 500_000, Verdict::Approved), score(100_000, 500_000, Verdict::Rejected)];
    let decision = Decision { commands: vec![several], scores, ..Decision::default() };
    report::decided(&stage.world.ctx, &decision, Duration::ZERO);
    let text = "score 0.80 >= threshold 0.50 (k: 2, savings 40.0%, disruption 50.0%)";
    assert_eq!(stage.told("ConsolidationApproved").await, [text]);
    let events = stage.world.server.all("Event");
    let about = events.iter().filter(|event| event["reason"] == "ConsolidationApproved");
    assert!(
        about
            .into_iter()
            .all(|event| event["regarding"]["kind"] == "NodePool" || event["involvedObject"]["kind"] == "NodePool")
    );
    assert_eq!(stage.told("ConsolidationRejected").await, [""; 0]);
    let line = |decision: &str| {
        format!(
            "karpenter_consolidation_moves_total{{decision=\"{decision}\",nodepool=\"general\",policy=\"Balanced\"}} 1"
        )
    };
    for decision in ["approved", "rejected"] {
        assert!(stage.world.counted(&line(decision)), "{}", stage.world.ctx.metrics.encode());
    }
}

// 02/CO12 02/CO24
#[tokio::test(start_paused = true)]
async fn a_move_that_no_longer_holds_is_told_by_its_cause_and_counted_if_the_nodes_are_to_blame() {
    type Change = fn(&World, &str);
    let protect: Change = |world, chosen| {
        let pod = merged(
            pod_on(chosen, "careful", "100m"),
            json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}),
        );
        world.put(pod);
    };
    let forbid: Change = |world, _| {
        let none = json!({"metadata": {"generation": 2}, "spec": {"disruption": {"budgets": [{"nodes": "0"}]}}});
        world.put(merged(node_pool("general"), none));
    };
    let fill: Change = |world, chosen| {
        let other = if chosen == "a" { "b" } else { "a" };
        world.put(pod_on(other, "large", "2500m"));
    };
    for (change, class, counted) in [(protect, "churn", true), (forbid, "budget", true), (fill, "scheduling", false)] {
        let stage = one_too_many(all_at_once()).await;
        let mut node = String::new();
        run_while(&stage, Duration::from_secs(17), async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            node = chosen(&stage);
            change(&stage.world, &node);
            stage.world.sync();
        })
        .await;
        assert!(stage.is_as_before("a") && stage.is_as_before("b"), "{class}");
        let told = stage.told("ConsolidationRejected").await;
        let start = format!("Consolidation rejected: delete: [{node}], reason: {class} (savings: $0.");
        assert_eq!(told.iter().filter(|text| text.starts_with(&start)).count(), 2, "{class}: {told:?}");
        let line = format!("{INVALID}{{consolidation_type=\"single\"}} 1");
        assert_eq!(stage.world.counted(&line), counted, "{class}: {}", stage.world.ctx.metrics.encode());
    }
}

// 02/CO24, and spec 02, flaw 29: there rejections of several nodes are told to nobody.
#[tokio::test(start_paused = true)]
async fn the_rejection_of_several_nodes_is_told_to_each_and_counted_for_all() {
    let stage = Stage::with(&["a", "b"]).await;
    let number = stage.ripe(command(Method::MultiConsolidation, &["a", "b"], 1));
    let found = stage.commands.get(number).unwrap();
    for (class, counted) in [(Rejection::Churn, 2), (Rejection::Scheduling, 2), (Rejection::Budget, 4)] {
        report::rejected(&stage.world.ctx, &found, class, &[]);
        let line = format!("{INVALID}{{consolidation_type=\"multi\"}} {counted}");
        assert!(stage.world.counted(&line), "{class:?}: {}", stage.world.ctx.metrics.encode());
    }
    let told = stage.told("ConsolidationRejected").await;
    for node in ["a", "b"] {
        let text = format!("replace: [{node}] (part of 2-node consolidation), reason: churn");
        assert_eq!(told.iter().filter(|said| said.contains(&text)).count(), 2, "{told:?}");
    }
}

// 02/CO12
#[tokio::test(start_paused = true)]
async fn a_move_that_still_holds_begins_after_fifteen_seconds_and_not_before() {
    let stage = one_too_many(all_at_once()).await;
    let mut node = String::new();
    run_while(&stage, Duration::from_secs(17), async {
        tokio::time::sleep(Duration::from_secs(14)).await;
        node = chosen(&stage);
        assert!(stage.is_as_before(&node));
    })
    .await;
    assert!(stage.is_deleted(&node) && stage.is_tainted(&node));
    assert_eq!(stage.told("ConsolidationRejected").await, [""; 0]);
}

// 02/EM15
#[tokio::test(start_paused = true)]
async fn of_empty_nodes_those_that_are_expected_or_too_many_stay_for_now_and_are_counted() {
    // A pod is about to come to one of them.
    let stage = consolidatable(&["a", "b"], all_at_once()).await;
    machine(&stage.world, "busy", &[]);
    stage.world.put(pod_on("busy", "web", "1"));
    stage.world.sync();
    run_while(&stage, Duration::from_secs(17), async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        stage.world.ctx.store().nominate(&PodName::new("shop", "web"), &"a".into(), stage.world.ctx.now());
    })
    .await;
    assert!(stage.is_as_before("a") && stage.is_deleted("b"));
    let line = format!("{INVALID}{{consolidation_type=\"empty\"}} 1");
    assert!(stage.world.counted(&line), "{}", stage.world.ctx.metrics.encode());
    // Nobody came, so that is not the end of it.
    run(&stage, Duration::from_secs(60)).await;
    assert!(stage.is_deleted("a"));

    // The budget has shrunk.
    let stage = consolidatable(&["a", "b", "c"], all_at_once()).await;
    run_while(&stage, Duration::from_secs(17), async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let one = json!({"metadata": {"generation": 2}, "spec": {"disruption": {"budgets": [{"nodes": "1"}]}}});
        stage.world.put(merged(node_pool("general"), one));
        stage.world.sync();
    })
    .await;
    assert_eq!(["a", "b", "c"].iter().filter(|name| stage.is_deleted(name)).count(), 1);
    let line = format!("{INVALID}{{consolidation_type=\"empty\"}} 2");
    assert!(stage.world.counted(&line), "{}", stage.world.ctx.metrics.encode());
}

/// Keeps the messages of all lines.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

struct Message<'a>(&'a mut Vec<String>);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Heard {
    fn enabled(&self, _metadata: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message(&mut self.0.lock().unwrap()));
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_look_that_comes_very_late_is_worth_a_line() {
    let stage = consolidatable(&["a"], json!({"budgets": [{"nodes": "0"}]})).await;
    let (looker, heard) = (stage.looker(), Heard::default());
    let _guard = tracing::subscriber::set_default(heard.clone());
    let late = || heard.0.lock().unwrap().iter().filter(|line| *line == "abnormal time between runs").count();
    for (wait, lines) in [(1, 0), (900, 0), (901, 1), (10, 1)] {
        pass(wait).await;
        looker.tick(&stage.world.ctx, &(), &stage.world.id()).await.unwrap();
        assert_eq!(late(), lines, "after {wait} s");
    }
}
