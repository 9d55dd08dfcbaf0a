//! What is told and counted when commands are found, and when they do not hold.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use engine::disrupt::{Decision, Rejection};
use model::disruption::{PoolScore, Share, Verdict};
use model::pool::ConsolidationPolicy;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::looking::{all_at_once, consolidatable, run, run_while};
use super::*;
use crate::disrupt::report;
use crate::testing::Trouble;

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

/// Shares in tenths.
fn score(savings: i128, disruption: i128, verdict: Verdict) -> PoolScore {
    PoolScore {
        pool: "general".into(),
        policy: ConsolidationPolicy::Balanced,
        savings: Some(Share { part: savings, whole: 10 }),
        disruption: Some(Share { part: disruption, whole: 10 }),
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
    several.worth.scores = vec![score(4, 5, Verdict::Approved)];
    let scores = vec![score(4, 5, Verdict::Approved), score(1, 5, Verdict::Rejected)];
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

/// Keeps all lines.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Line>>>);

/// `INFO` and the message, and the fields as they are written.
#[derive(Clone, Debug, Default)]
struct Line {
    text: String,
    fields: BTreeMap<String, String>,
}

impl Heard {
    /// The only line of this text.
    fn only(&self, text: &str) -> Line {
        let all: Vec<Line> = self.0.lock().unwrap().iter().filter(|line| line.text == text).cloned().collect();
        let [line] = &all[..] else { panic!("{text}: {all:?}") };
        line.clone()
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.text.push_str(&format!(" {value:?}")),
            name => drop(self.fields.insert(name.to_owned(), format!("{value:?}"))),
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
        let mut line = Line { text: event.metadata().level().to_string(), ..Line::default() };
        event.record(&mut line);
        self.0.lock().unwrap().push(line);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_look_that_comes_very_late_is_worth_a_line() {
    let stage = consolidatable(&["a"], json!({"budgets": [{"nodes": "0"}]})).await;
    let (looker, heard) = (stage.looker(), Heard::default());
    let _guard = tracing::subscriber::set_default(heard.clone());
    let late =
        || heard.0.lock().unwrap().iter().filter(|line| line.text.ends_with("abnormal time between runs")).count();
    for (wait, lines) in [(1, 0), (900, 0), (901, 1), (10, 1)] {
        pass(wait).await;
        looker.tick(&stage.world.ctx, &(), &stage.world.id()).await.unwrap();
        assert_eq!(late(), lines, "after {wait} s");
    }
}

// Spec 02, 5.7.
#[tokio::test(start_paused = true)]
async fn the_log_tells_in_the_references_words_that_a_command_begins_and_that_it_succeeds() {
    let (stage, heard) = (Stage::with(&["a"]).await, Heard::default());
    let _guard = tracing::subscriber::set_default(heard.clone());
    let mut what = command(Method::Drift, &["a"], 1);
    stage.host("a", "web", &mut what);
    let number = stage.ripe(what);
    let id = stage.commands.get(number).unwrap().id.clone();
    stage.tick(number).await;
    let begun = heard.only("INFO disrupting node(s)");
    let text =
        format!("Drifted/{}: replace: nodepools=[general]: [a] -> [1 replacement] (savings: $0.10)", id.as_str());
    let nodes =
        r#"[{"Node":{"name":"a"},"NodeClaim":{"name":"a"},"capacity-type":"spot","instance-type":"c-4x-amd64-linux"}]"#;
    for (field, expected) in [
        ("command", text.as_str()),
        ("decision", "replace"),
        ("disrupted-node-count", "1"),
        ("replacement-node-count", "1"),
        ("pod-count", "1"),
        ("disrupted-nodes", nodes),
        ("replacement-nodes", r#"[{"capacity-type":"","instance-types":""}]"#),
    ] {
        assert_eq!(begun.fields.get(field).map(String::as_str), Some(expected), "{field}: {begun:?}");
    }
    stage.initialize(&stage.replacements()[0]);
    stage.tick(number).await;
    assert_eq!(heard.only("DEBUG command succeeded").fields["command"], text);
}

// Spec 02, 5.7.
#[tokio::test(start_paused = true)]
async fn the_log_tells_in_the_references_words_that_a_command_fails() {
    let (stage, heard) = (Stage::with(&["a"]).await, Heard::default());
    let _guard = tracing::subscriber::set_default(heard.clone());
    stage.world.server.trouble("POST /apis/karpenter.sh/v1/nodeclaims", Trouble::Refuses(500));
    stage.tick(stage.ripe(command(Method::Drift, &["a"], 1))).await;
    let failed = heard.only("ERROR failed terminating nodes while executing a disruption command");
    assert!(failed.fields["command"].starts_with("Drifted/") && failed.fields["decision"] == "replace", "{failed:?}");
    assert!(!failed.fields["error"].is_empty(), "{failed:?}");
}

// Spec 02, 3.6 and 5.6.
#[tokio::test(start_paused = true)]
async fn a_node_that_may_be_replaced_by_a_cheaper_one_and_its_claim_hear_of_it_and_one_that_only_goes_does_not() {
    let stage = Stage::with(&["a", "b"]).await;
    let commands = vec![
        command(Method::SingleConsolidation, &["a"], 1),
        command(Method::SingleConsolidation, &["b"], 0),
        command(Method::Drift, &["b"], 1),
    ];
    report::decided(&stage.world.ctx, &Decision { commands, ..Decision::default() }, Duration::ZERO);
    let text = "Consolidation candidate: replace: [a] -> [1 replacement] (savings: $0.10)";
    assert_eq!(stage.told("ConsolidationCandidate").await, [text, text]);
}
