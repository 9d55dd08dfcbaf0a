use runtime::{Backoff, Queue, Stop, Tasks};

use super::super::look::{Look, Turn};
use super::super::{Disruption as Loop, add_about, leftovers};
use super::*;
use crate::controller::Duties;
use crate::testing::{Trouble, pending_pod, pod_on};

impl Stage {
    pub(super) fn looker(&self) -> Loop {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1));
        let queue = Queue::new("test", backoff, self.world.ctx.rng.fork("test"));
        Loop::new(&self.world.ctx, self.commands.clone(), queue)
    }
}

fn tainted(world: &World, name: &str) {
    let node = world.server.get("Node", name).unwrap();
    let taints = json!([{"key": TAINT, "effect": "NoSchedule"}, {"key": "own", "effect": "NoExecute"}]);
    world.put(merged(node, json!({"spec": {"taints": taints}})));
}

fn marked(world: &World, name: &str) {
    let mut claim = world.server.get("NodeClaim", name).unwrap();
    claim["status"]["conditions"].as_array_mut().unwrap().push(condition("DisruptionReason"));
    world.put(claim);
}

// 02/QU11
#[tokio::test(start_paused = true)]
async fn taints_and_marks_that_nobody_stands_behind_are_removed() {
    let stage = Stage::with(&["a", "b", "going", "ours"]).await;
    tainted(&stage.world, "a");
    marked(&stage.world, "b");
    for name in ["going", "ours"] {
        tainted(&stage.world, name);
        marked(&stage.world, name);
    }
    let deleted = json!({"metadata": {"deletionTimestamp": EPOCH}});
    stage.world.put(merged(stage.claim("going").unwrap(), deleted));
    stage.world.sync();
    stage.ripe(command(Method::Drift, &["ours"], 1));
    stage.world.server.trouble("PATCH /api/v1/nodes/", Trouble::Refuses(409));
    leftovers::repair(&stage.world.ctx, &stage.commands).await;
    assert!(stage.is_as_before("a") && stage.is_as_before("b"));
    assert!(stage.is_tainted("going") && stage.is_tainted("ours"));
    let node = stage.world.server.get("Node", "a").unwrap();
    assert_eq!(node["spec"]["taints"], json!([{"key": "own", "effect": "NoExecute"}]), "others are not ours to remove");
    let before = stage.world.server.asked("P").len();
    leftovers::repair(&stage.world.ctx, &stage.commands).await;
    assert_eq!(stage.world.server.asked("P").len(), before, "once is enough");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_removed_now_is_removed_at_the_next_look() {
    let stage = consolidatable(&["a", "b"], nobody()).await;
    tainted(&stage.world, "a");
    tainted(&stage.world, "b");
    stage.world.sync();
    for _ in 0..4 {
        stage.world.server.trouble("PATCH /api/v1/nodes/a", Trouble::Refuses(500));
    }
    let looker = stage.looker();
    looker.tick(&stage.world.ctx, &(), &stage.world.id()).await.unwrap();
    assert!(stage.is_tainted("a") && !stage.is_tainted("b"));
    pass(10).await;
    looker.tick(&stage.world.ctx, &(), &stage.world.id()).await.unwrap();
    assert!(!stage.is_tainted("a"));
}

#[tokio::test(start_paused = true)]
async fn what_is_closed_by_hand_is_opened_though_there_was_nothing_to_open_before() {
    let stage = consolidatable(&["a", "b"], nobody()).await;
    let looker = stage.looker();
    let look_after = async |seconds| {
        pass(seconds).await;
        looker.tick(&stage.world.ctx, &(), &stage.world.id()).await.unwrap();
    };
    look_after(0).await;
    look_after(10).await;
    tainted(&stage.world, "a");
    stage.world.sync();
    look_after(10).await;
    assert!(stage.is_as_before("a"));
    marked(&stage.world, "b");
    stage.world.sync();
    look_after(10).await;
    assert!(stage.is_as_before("b"));
}

#[tokio::test(start_paused = true)]
async fn calls_in_a_crowd_are_answered_by_one_look() {
    let stage = consolidatable(&["a"], nobody()).await;
    let looker = stage.looker();
    let tick = async || looker.tick(&stage.world.ctx, &(), &stage.world.id()).await.unwrap();
    assert_eq!(tick().await, Next::After(Duration::from_secs(1)), "more may come");
    tokio::time::advance(Duration::from_millis(700)).await;
    assert_eq!(tick().await, Next::After(Duration::from_millis(300)));
    tokio::time::advance(Duration::from_millis(300)).await;
    assert_eq!(tick().await, Next::After(Duration::from_secs(10)));
    assert_eq!(tick().await, Next::After(Duration::from_secs(1)), "not again so soon");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(tick().await, Next::After(Duration::from_secs(10)));
}

/// Runs the two duties of this file for so long. Nobody watches: the store knows what it was told.
pub(super) async fn run(stage: &Stage, time: Duration) {
    run_while(stage, time, async {}).await;
}

/// The same, while something happens.
pub(super) async fn run_while(stage: &Stage, time: Duration, story: impl Future<Output = ()>) {
    let mut duties = Duties::new(stage.world.ctx.clone());
    add_about(&mut duties, &stage.world.ctx, stage.commands.clone());
    let mut tasks = Tasks::new(Stop::new());
    duties.spawn(&mut tasks);
    let (end, ()) = futures::join!(tasks.run(tokio::time::sleep(time), time), story);
    end.unwrap();
}

/// Machines that may be consolidated, of a pool with these rules.
pub(super) async fn consolidatable(names: &[&str], disruption: Value) -> Stage {
    let stage = Stage::with(names).await;
    stage.world.put(merged(node_pool("general"), json!({"spec": {"disruption": disruption}})));
    stage.world.sync();
    stage
}

fn nobody() -> Value {
    json!({"budgets": [{"nodes": "0"}]})
}

pub(super) fn all_at_once() -> Value {
    json!({"budgets": [{"nodes": "100%"}]})
}

// 02/EM1, 02/EM6, 02/EM11
#[tokio::test(start_paused = true)]
async fn empty_nodes_go_together_after_a_second_look_and_not_before() {
    let stage = consolidatable(&["a", "b"], all_at_once()).await;
    machine(&stage.world, "busy", &[]);
    stage.world.put(pod_on("busy", "web", "1"));
    stage.world.sync();
    run_while(&stage, Duration::from_secs(17), async {
        tokio::time::sleep(Duration::from_secs(14)).await;
        assert!(stage.is_as_before("a") && stage.is_as_before("b"));
    })
    .await;
    assert!(stage.is_deleted("a") && stage.is_deleted("b") && stage.is_as_before("busy"));
    let labels = "decision=\"delete\",reason=\"empty\",consolidation_type=\"empty\"";
    assert!(stage.world.counted(&format!("karpenter_voluntary_disruption_decisions_total{{{labels}}} 1")));
}

// 02/EM15, 02/CO24
#[tokio::test(start_paused = true)]
async fn a_node_that_a_pod_came_to_meanwhile_stays_and_is_counted() {
    let stage = consolidatable(&["a"], all_at_once()).await;
    run_while(&stage, Duration::from_secs(20), async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(stage.known_claims().len(), 1);
        stage.world.put(pod_on("a", "web", "1"));
        stage.world.sync();
    })
    .await;
    assert!(stage.is_as_before("a"));
    let line = "karpenter_voluntary_disruption_failed_validations_total{consolidation_type=\"empty\"} 1";
    assert!(stage.world.counted(line), "{}", stage.world.ctx.metrics.encode());
}

// 02/BU14, 02/QU15
#[tokio::test(start_paused = true)]
async fn budgets_and_eligible_nodes_are_shown_and_a_pool_that_lets_nobody_go_hears_of_it() {
    let stage =
        consolidatable(&["a", "b"], json!({"budgets": [{"nodes": "0", "reasons": ["Empty"]}, {"nodes": "100%"}]}))
            .await;
    run(&stage, Duration::from_secs(30)).await;
    assert!(stage.is_as_before("a") && stage.is_as_before("b"));
    for line in [
        "karpenter_voluntary_disruption_eligible_nodes{reason=\"empty\"} 2.0",
        "karpenter_nodepools_allowed_disruptions{nodepool=\"general\",reason=\"empty\"} 0.0",
        "karpenter_nodepools_allowed_disruptions{nodepool=\"general\",reason=\"drifted\"} 2.0",
        "karpenter_nodepools_nodes_consuming_budgets{nodepool=\"general\",reason=\"empty\"} 0.0",
    ] {
        assert!(stage.world.counted(line), "{line} is not in {}", stage.world.ctx.metrics.encode());
    }
    let told = stage.told("DisruptionBlocked").await;
    let expected = "No allowed disruptions for disruption reason Empty due to blocking budget";
    assert_eq!(told.iter().filter(|message| *message == expected).count(), 1, "{told:?}");
}

// 02/QU15
// Spec 02, flaw 29: no method overwrites what another one of the same reason has counted.
#[tokio::test(start_paused = true)]
async fn a_node_that_only_one_of_two_methods_may_take_is_counted_and_one_that_both_may_take_is_counted_once() {
    let stage = consolidatable(&["a"], nobody()).await;
    stage.world.put(pod_on("a", "web", "1"));
    let fixed = json!({"spec": {"replicas": 1, "disruption": nobody()}});
    stage.world.put(merged(node_pool("fixed"), fixed));
    let [mut claim, node] = testing::machine("drifted", "fixed");
    claim["status"]["conditions"].as_array_mut().unwrap().push(condition("Drifted"));
    [claim, node].into_iter().for_each(|object| stage.world.put(object));
    stage.world.sync();
    run(&stage, Duration::from_secs(30)).await;
    assert!(stage.is_as_before("a") && stage.is_as_before("drifted"), "no budget lets them go");
    // Pools of replicas are asked before others, of which none has drifted; consolidation of many and of one ask the same nodes.
    for (reason, nodes) in [("drifted", 1), ("underutilized", 1), ("empty", 0)] {
        let line = format!("karpenter_voluntary_disruption_eligible_nodes{{reason=\"{reason}\"}} {nodes}.0");
        assert!(stage.world.counted(&line), "{line} is not in {}", stage.world.ctx.metrics.encode());
    }
}

// 02/BU10
#[tokio::test(start_paused = true)]
async fn no_more_nodes_go_at_once_than_the_budget_has_room_for() {
    let names = ["a", "b", "c", "d", "e"];
    let stage = consolidatable(&names, json!({"budgets": [{"nodes": "2"}]})).await;
    run(&stage, Duration::from_secs(60)).await;
    assert_eq!(names.iter().filter(|name| stage.is_deleted(name)).count(), 2, "nobody has let go of the first two");
    assert!(names.iter().all(|name| stage.is_deleted(name) || stage.is_as_before(name)));
}

// 02/CO22
#[tokio::test(start_paused = true)]
async fn a_node_that_stays_is_told_why_and_so_is_its_claim() {
    let stage = consolidatable(&["a"], json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"})).await;
    stage.world.put(pod_on("a", "web", "1"));
    stage.world.sync();
    run(&stage, Duration::from_secs(40)).await;
    let text = "NodePool \"general\" has consolidation policy WhenEmpty, but node is not empty";
    assert_eq!(stage.told("Unconsolidatable").await, [text, text], "once each, however often it is looked at");
    let blocked = merged(
        stage.world.server.get("Node", "a").unwrap(),
        json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}),
    );
    stage.world.put(blocked);
    stage.world.sync();
    run(&stage, Duration::from_secs(15)).await;
    let text = "Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation";
    assert_eq!(stage.told("DisruptionBlocked").await, [text, text]);
}

// Whoever has just heard that his node is not ready hears what keeps it now, although nothing changes any more.
#[tokio::test(start_paused = true)]
async fn what_a_node_could_not_be_told_yet_it_is_told_as_soon_as_it_may_be() {
    let stage = consolidatable(&[], all_at_once()).await;
    let [claim, node] = testing::machine("a", "general");
    let annotated = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    let starting = json!({"metadata": {"labels": {"karpenter.sh/initialized": null}}});
    [claim, merged(node.clone(), starting)].into_iter().for_each(|object| stage.world.put(object));
    stage.world.sync();
    let first = "Node isn't initialized";
    let second = "Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation";
    run_while(&stage, Duration::from_secs(600), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        stage.world.put(merged(node, annotated));
        stage.world.sync();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(stage.told("DisruptionBlocked").await, [first, first], "not twice in two minutes");
    })
    .await;
    let mut told = stage.told("DisruptionBlocked").await;
    told.sort();
    assert_eq!(told, [second, second, first, first], "and then once, the Node and its claim");
}

// 02/CO22
#[tokio::test(start_paused = true)]
async fn whatever_keeps_a_node_by_rule_is_told_in_the_words_of_the_rule() {
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    let never = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]});
    let cases = [
        (never, json!({}), "NodePool \"general\" has consolidation disabled"),
        (
            all_at_once(),
            label("node.kubernetes.io/instance-type", json!("unheard-of")),
            "Instance Type \"unheard-of\" not found",
        ),
        (
            all_at_once(),
            label("karpenter.sh/capacity-type", Value::Null),
            "Node does not have label \"karpenter.sh/capacity-type\"",
        ),
        (
            all_at_once(),
            label("topology.kubernetes.io/zone", Value::Null),
            "Node does not have label \"topology.kubernetes.io/zone\"",
        ),
    ];
    for (disruption, change, text) in cases {
        let stage = consolidatable(&["a"], disruption).await;
        for kind in ["Node", "NodeClaim"] {
            stage.world.put(merged(stage.world.server.get(kind, "a").unwrap(), change.clone()));
        }
        stage.world.put(pod_on("a", "web", "1"));
        stage.world.sync();
        run(&stage, Duration::from_secs(30)).await;
        assert_eq!(stage.told("Unconsolidatable").await, [text, text], "to the Node and to its claim");
    }
    // A node that may go hears nothing of the kind.
    let stage = consolidatable(&["a", "b"], all_at_once()).await;
    stage.world.put(pod_on("a", "web", "1"));
    stage.world.put(pod_on("b", "other", "1"));
    stage.world.sync();
    run(&stage, Duration::from_secs(10)).await;
    assert_eq!((stage.known_claims().len(), stage.told("Unconsolidatable").await), (1, vec![]));
}

/// How often it was decided which nodes leave.
fn decisions(stage: &Stage) -> Option<u64> {
    let text = stage.world.ctx.metrics.encode();
    let line = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count{reason=\"empty\"";
    text.lines().find(|found| found.starts_with(line)).and_then(|line| line.rsplit(' ').next()?.parse().ok())
}

// 02/BU13
// Spec 02, flaw 5: what was all that kept a node is noticed when it goes.
#[tokio::test(start_paused = true)]
async fn nothing_is_decided_again_until_something_changes() {
    let stage = consolidatable(&["a"], json!({"budgets": [{"nodes": "0"}]})).await;
    let decided = || decisions(&stage);
    run(&stage, Duration::from_secs(60)).await;
    let before = decided().unwrap();
    assert!(before <= 2, "{before} decisions in an idle minute");
    run_while(&stage, Duration::from_secs(420), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = decided();
        stage.world.put(pending_pod("waiting", "1"));
        stage.world.sync();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(decided(), before, "a pod that waits makes no move possible");
        tokio::time::sleep(Duration::from_secs(240)).await;
        assert!(decided() > before, "but it is looked at when it has been quiet for five minutes");
    })
    .await;
    stage.world.server.remove("Pod", "waiting");
    stage.world.put(merged(
        node_pool("general"),
        json!({"metadata": {"generation": 2}, "spec": {"disruption": all_at_once()}}),
    ));
    stage.world.sync();
    run(&stage, Duration::from_secs(20)).await;
    assert!(stage.is_deleted("a"), "the budget was all that kept it");
}

// Decision 0080: the pod alone makes no move possible, but the node will have settled some time.
#[tokio::test(start_paused = true)]
async fn a_node_that_a_pod_came_to_is_foreseen_to_settle_again() {
    let kept = json!({"consolidateAfter": "100s", "budgets": [{"nodes": "0"}]});
    let stage = consolidatable(&["a"], kept).await;
    run_while(&stage, Duration::from_secs(200), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = decisions(&stage);
        let event = json!({"status": {"lastPodEventTime": stage.world.ctx.timestamp().to_string()}});
        stage.world.put(merged(stage.claim("a").unwrap(), event));
        stage.world.sync();
        tokio::time::sleep(Duration::from_secs(75)).await;
        assert_eq!(decisions(&stage), before, "it rests");
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert!(decisions(&stage) > before, "it settles in twenty seconds");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_made_again_does_not_inherit_failures() {
    let stage = Stage::with(&["a"]).await;
    let now = stage.world.ctx.now();
    for _ in 0..4 {
        stage.commands.failed(["general".into(), "gone".into()].into(), now);
    }
    let turn = Turn::wait(&stage.commands).await;
    Look::take(&stage.world.ctx, &turn, None);
    stage.commands.failed(["general".into(), "gone".into()].into(), now);
    let rests = stage.commands.resting(now);
    assert_eq!(rests[&"general".into()], now.plus(Duration::from_secs(600)));
    assert_eq!(rests[&"gone".into()], now.plus(Duration::from_secs(60)), "the first failure of a pool of this name");
}
