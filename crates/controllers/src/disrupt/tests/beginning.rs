use model::plan::Target;

use super::*;
use crate::testing::{Trouble, pod_on};

// 02/QU1, 02/QU6
#[tokio::test(start_paused = true)]
async fn nodes_stay_closed_until_every_replacement_is_there_and_then_they_go() {
    let stage = Stage::with(&["a", "b"]).await;
    let number = stage.begun(&["a", "b"], 2).await;
    for name in ["a", "b"] {
        assert!(stage.is_tainted(name) && stage.is_leaving(name) && !stage.is_deleted(name), "{name}");
        assert_eq!(stage.reason(name).as_deref(), Some("Drifted"));
    }
    let made = stage.replacements();
    assert_eq!(made.len(), 2);
    stage.initialize(&made[0]);
    assert!(matches!(stage.tick(number).await, Next::After(_)));
    assert!(stage.is_tainted("a") && !stage.is_deleted("a"), "one is missing");
    stage.initialize(&made[1]);
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_deleted("a") && stage.is_deleted("b"));
    assert!(stage.is_leaving("a"), "until it is gone");
    assert!(stage.known_claims().is_empty());
}

// 02/QU7
#[tokio::test(start_paused = true)]
async fn without_replacements_nodes_go_at_once() {
    let stage = Stage::with(&["a", "b", "c"]).await;
    let number = stage.ripe(command(Method::Emptiness, &["a", "b"], 0));
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_deleted("a") && stage.is_deleted("b") && stage.is_as_before("c"));
    assert!(stage.is_tainted("a"), "closed before it is drained");
    assert_eq!(stage.reason("b").as_deref(), Some("Empty"));
}

// 02/EM11, 02/CO12
#[tokio::test(start_paused = true)]
async fn a_command_waits_for_its_time_and_touches_nothing_before() {
    let stage = Stage::with(&["a"]).await;
    let what = command(Method::Emptiness, &["a"], 0);
    let ripe = stage.world.ctx.now().plus(Duration::from_secs(15));
    let number = stage.commands.add(stage.world.id(), what, Step::Proposed { ripe });
    let before = stage.world.server.asked("P").len();
    assert_eq!(stage.tick(number).await, Next::After(Duration::from_secs(15)));
    pass(14).await;
    assert_eq!(stage.tick(number).await, Next::After(Duration::from_secs(1)));
    assert_eq!(stage.world.server.asked("P").len(), before, "nothing was written");
    assert!(stage.is_as_before("a"));
}

// 02/QU15
#[tokio::test(start_paused = true)]
async fn what_is_begun_is_counted_by_decision_reason_method_and_pool() {
    let stage = Stage::with(&["a", "b", "c", "d", "e"]).await;
    for (method, names, replacements) in [
        (Method::Emptiness, &["a"][..], 0),
        (Method::MultiConsolidation, &["b", "c"], 1),
        (Method::SingleConsolidation, &["d"], 0),
        (Method::Drift, &["e"], 1),
    ] {
        let mut what = command(method, names, replacements);
        if method != Method::Emptiness {
            names.iter().for_each(|name| stage.host(name, &format!("web-{name}"), &mut what));
        }
        stage.tick(stage.ripe(what)).await;
    }
    for (decision, reason, kind) in [
        ("delete", "empty", "empty"),
        ("replace", "underutilized", "multi"),
        ("delete", "underutilized", "single"),
        ("replace", "drifted", ""),
    ] {
        let labels = format!("decision=\"{decision}\",reason=\"{reason}\",consolidation_type=\"{kind}\"");
        assert!(stage.world.counted(&format!("karpenter_voluntary_disruption_decisions_total{{{labels}}} 1")));
        let by_pool = "karpenter_voluntary_disruption_decisions_by_nodepool_total";
        assert!(stage.world.counted(&format!("{by_pool}{{nodepool=\"general\",{labels}}} 1")));
    }
    let disrupted = "nodepool=\"general\",capacity_type=\"spot\",consolidation_policy=\"when_empty_or_underutilized\"";
    let line = format!("{{reason=\"empty\",{disrupted},termination_mode=\"graceful\"}} 1");
    assert!(stage.world.counted(&format!("karpenter_nodeclaims_disrupted_total{line}")));
    assert!(
        stage
            .world
            .counted("karpenter_voluntary_disruption_consolidation_timeouts_total{consolidation_type=\"multi\"} 0")
    );
}

// 02/QU8
// Spec 02, flaws 3 and 4: nobody sleeps while a command waits, and there is more than one at a time.
#[tokio::test(start_paused = true)]
async fn commands_do_not_wait_for_each_other() {
    let stage = Stage::with(&["a", "b", "c"]).await;
    let slow = stage.begun(&["a"], 1).await;
    let quick = stage.begun(&["b"], 1).await;
    let of_quick = stage
        .replacements()
        .into_iter()
        .find(|name| stage.claim(name).unwrap()["metadata"]["annotations"]["dovetail.sh/replaces"] == "b");
    stage.initialize(&of_quick.unwrap());
    assert_eq!(stage.tick(quick).await, Next::OnChange);
    assert!(stage.is_deleted("b") && !stage.is_deleted("a"));
    assert!(matches!(stage.tick(slow).await, Next::After(_)));
    let third = stage.begun(&["c"], 1).await;
    assert_ne!(third, slow);
}

// 02/QU13
#[tokio::test(start_paused = true)]
async fn what_has_replaced_can_be_replaced() {
    let stage = Stage::with(&["a"]).await;
    let number = stage.begun(&["a"], 1).await;
    let second = stage.replacements().remove(0);
    stage.initialize(&second);
    stage.tick(number).await;
    machine(&stage.world, &second, &[]);
    stage.world.sync();
    let number = stage.begun(&[&second], 1).await;
    let third = stage.replacements().into_iter().find(|name| *name != second).unwrap();
    stage.initialize(&third);
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_deleted(&second) && !stage.is_deleted(&third));
}

// 02/QU10
#[tokio::test(start_paused = true)]
async fn nodes_count_as_leaving_only_when_their_replacements_are_known() {
    let stage = Stage::with(&["a"]).await;
    stage.world.put(pod_on("a", "web", "1"));
    stage.world.sync();
    stage.world.server.trouble("POST /apis/karpenter.sh/v1/nodeclaims", Trouble::Refuses(500));
    let number = stage.ripe(command(Method::Drift, &["a"], 1));
    stage.tick(number).await;
    assert!(stage.is_as_before("a"), "without them nobody's pods need another place");
    pass(61).await;
    stage.begun(&["a"], 1).await;
    let batch = stage.world.ctx.store().batch(stage.world.ctx.now());
    assert_eq!(batch.displaced.len(), 1);
    let replacement = NodeName::from(stage.replacements().remove(0));
    assert!(batch.snapshot.nodes.contains_key(&replacement), "whoever plans for them sees it");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_let_go_before_all_that_were_decided_with_it_are_closed() {
    let stage = Stage::with(&["a", "b"]).await;
    let [first, second] = ["a", "b"].map(|node| stage.ripe(command(Method::Emptiness, &[node], 0)));
    assert_eq!(stage.tick(first).await, Next::After(Duration::from_millis(100)));
    assert!(stage.is_tainted("a") && !stage.is_deleted("a"), "its pods might go to the other one");
    assert_eq!(stage.tick(second).await, Next::OnChange);
    assert!(stage.is_deleted("b"));
    assert_eq!(stage.tick(first).await, Next::OnChange);
    assert!(stage.is_deleted("a"));
}

#[tokio::test(start_paused = true)]
async fn one_that_never_begins_does_not_hold_the_others_up_for_long() {
    let stage = Stage::with(&["a", "b"]).await;
    let [first, _stuck] = ["a", "b"].map(|node| stage.ripe(command(Method::Emptiness, &[node], 0)));
    assert_eq!(stage.tick(first).await, Next::After(Duration::from_millis(100)));
    pass(10).await;
    assert_eq!(stage.tick(first).await, Next::OnChange);
    assert!(stage.is_deleted("a") && !stage.is_deleted("b"));
}

#[tokio::test(start_paused = true)]
async fn pods_are_promised_the_places_that_the_command_has_planned() {
    let stage = Stage::with(&["a", "b"]).await;
    let mut what = command(Method::SingleConsolidation, &["a"], 1);
    stage.host("a", "web", &mut what);
    stage.host("a", "worker", &mut what);
    let (web, worker) = (PodName::new("shop", "web"), PodName::new("shop", "worker"));
    what.moves = vec![(web.clone(), Target::Node("b".into())), (worker.clone(), Target::Claim(0))];
    stage.tick(stage.ripe(what)).await;
    let batch = stage.world.ctx.store().batch(stage.world.ctx.now());
    let replacement = NodeName::from(stage.replacements().remove(0));
    assert_eq!(batch.promised, [(web, "b".into()), (worker, replacement)].into());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_take_pods_are_left_alone_and_the_pods_hear_of_it() {
    let stage = Stage::with(&["a", "b"]).await;
    let mut what = command(Method::SingleConsolidation, &["a"], 0);
    stage.host("a", "web", &mut what);
    what.moves = vec![(PodName::new("shop", "web"), Target::Node("b".into()))];
    stage.tick(stage.ripe(what)).await;
    assert!(stage.world.ctx.store().nominated(stage.world.ctx.now()).contains(&"b".into()));
    assert_eq!(stage.told("Nominated").await, ["Pod should schedule on: nodeclaim/b, node/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_somebody_else_ends_is_left_out_where_nothing_has_to_come_instead() {
    let stage = Stage::with(&["a", "b"]).await;
    let now = json!({"metadata": {"deletionTimestamp": EPOCH}});
    stage.world.put(merged(stage.claim("a").unwrap(), now));
    stage.world.sync();
    let number = stage.ripe(command(Method::Emptiness, &["a", "b"], 0));
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_deleted("b"));
    let with_replacement = stage.ripe(command(Method::Drift, &["a"], 1));
    assert_eq!(stage.tick(with_replacement).await, Next::OnChange);
    assert_eq!(stage.replacements(), [""; 0], "there is nothing to replace");
}

#[tokio::test(start_paused = true)]
async fn who_writes_at_the_same_time_is_waited_out_and_loses_nothing() {
    let stage = Stage::with(&["a"]).await;
    // The store has not seen this yet. A patch that replaced all conditions would undo it.
    let mut changed = stage.claim("a").unwrap();
    changed["status"]["conditions"].as_array_mut().unwrap().push(condition("Drifted"));
    stage.world.put(changed);
    stage.world.server.trouble("PATCH /api/v1/nodes/", Trouble::Refuses(409));
    stage.begun(&["a"], 1).await;
    assert_eq!(stage.reason("a").as_deref(), Some("Drifted"));
    let conditions = stage.claim("a").unwrap()["status"]["conditions"].as_array().cloned().unwrap();
    assert!(conditions.iter().any(|condition| condition["type"] == "Drifted"), "{conditions:?}");
    assert!(stage.is_tainted("a"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_closed_keeps_its_companions_only_where_they_need_it() {
    let stage = Stage::with(&["a", "b"]).await;
    let refuse = || (0..4).for_each(|_| stage.world.server.trouble("PATCH /api/v1/nodes/a", Trouble::Refuses(500)));
    refuse();
    stage.tick(stage.ripe(command(Method::Drift, &["a", "b"], 1))).await;
    assert!(stage.is_as_before("a") && stage.is_as_before("b"));
    assert_eq!(stage.replacements(), [""; 0]);
    refuse();
    stage.tick(stage.ripe(command(Method::Emptiness, &["a", "b"], 0))).await;
    assert!(stage.is_as_before("a") && stage.is_deleted("b"));
}

#[tokio::test(start_paused = true)]
async fn a_replacement_whose_answer_was_lost_was_made_all_the_same() {
    let stage = Stage::with(&["a"]).await;
    stage.world.server.trouble("POST /apis/karpenter.sh/v1/nodeclaims", Trouble::LosesReply);
    stage.begun(&["a"], 1).await;
    assert_eq!(stage.replacements().len(), 1);
    assert!(stage.is_leaving("a"));
}

// 02/DR8
#[tokio::test(start_paused = true)]
async fn a_pool_that_has_no_place_within_its_limit_need_not_rest() {
    let stage = Stage::with(&["a"]).await;
    let fixed = json!({"spec": {"replicas": 1, "limits": {"nodes": "1"}}});
    stage.world.put(merged(node_pool("general"), fixed));
    stage.world.sync();
    assert_eq!(stage.tick(stage.ripe(command(Method::StaticDrift, &["a"], 1))).await, Next::OnChange);
    assert!(stage.is_as_before("a") && stage.replacements().is_empty());
    assert!(stage.commands.resting(stage.world.ctx.now()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_second_look_sees_the_world_as_it_is_when_its_turn_comes() {
    let stage = Stage::with(&["a"]).await;
    let number = stage.ripe(command(Method::Emptiness, &["a"], 0));
    let somebody_else = stage.commands.thinking.lock().await;
    let meanwhile = async {
        tokio::task::yield_now().await;
        stage.world.put(pod_on("a", "web", "1"));
        stage.world.sync();
        drop(somebody_else);
    };
    let (next, ()) = futures::join!(stage.tick(number), meanwhile);
    assert_eq!(next, Next::OnChange);
    assert!(stage.is_as_before("a"), "a pod has come");
}

#[test]
fn of_each_replacement_the_log_names_the_kind_of_capacity_that_a_launch_would_take() {
    use model::requirements::{Operator, Requirement};
    let cases = [(vec!["spot", "on-demand"], "spot"), (vec!["on-demand", "reserved"], "reserved"), (vec![], "")];
    for (allowed, named) in cases {
        let mut planned = PlannedClaim::bare("general".into());
        planned.requirements.add("karpenter.sh/capacity-type", Requirement::new(Operator::In, allowed));
        let told = super::super::report::of_replacements(&[planned.clone(), planned]);
        assert_eq!(told, json!([{"capacity-type": named}, {"capacity-type": named}]));
    }
}
