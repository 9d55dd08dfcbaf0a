use model::budget::Reason;

use super::*;
use crate::testing::{Trouble, pending_pod};

const FAILURES: &str = "karpenter_voluntary_disruption_queue_failures_total";

// 02/QU2, 02/QU4, 02/QU12
#[tokio::test(start_paused = true)]
async fn when_its_time_is_up_a_command_is_taken_back_and_not_a_moment_before() {
    let stage = Stage::with(&["a", "b"]).await;
    let number = stage.begun(&["a", "b"], 2).await;
    let made = stage.replacements();
    stage.initialize(&made[0]);
    for _ in 0..10 {
        pass(60).await;
        assert!(matches!(stage.tick(number).await, Next::After(_)));
        assert!(stage.is_tainted("a") && stage.is_leaving("a"), "the mark is renewed while it waits");
    }
    pass(1).await;
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_as_before("a") && stage.is_as_before("b"));
    assert_eq!(
        stage.claims(),
        ["a".to_owned(), "b".to_owned(), made[0].clone()],
        "what has not come is given up, what has come is a node like others"
    );
    assert_eq!(stage.replacements(), [""; 0], "and says nothing of what it was for");
    let labels = "decision=\"replace\",reason=\"drifted\",consolidation_type=\"\"";
    assert!(stage.world.counted(&format!("{FAILURES}{{{labels}}} 1")));
    let until = stage.world.ctx.now().plus(Duration::from_secs(60));
    assert_eq!(stage.commands.resting(stage.world.ctx.now()), [("general".into(), until)].into());
}

// 02/QU3
#[tokio::test(start_paused = true)]
async fn a_replacement_that_only_we_know_of_is_waited_for() {
    let stage = Stage::with(&["a"]).await;
    let number = stage.begun(&["a"], 1).await;
    let made = stage.replacements().remove(0);
    stage.world.server.remove("NodeClaim", &made);
    assert!(matches!(stage.tick(number).await, Next::After(_)));
    assert!(stage.is_tainted("a"));
    let gone = cluster::Key { kind: cluster::Kind::NodeClaim, namespace: "".into(), name: made.as_str().into() };
    stage.world.ctx.tell(|store, now| store.delete(&cluster::Gone { key: gone, uid: None, version: None }, now));
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_as_before("a"), "nobody knows of it any more");
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_only_the_api_server_knows_of_is_waited_for() {
    let stage = Stage::with(&["a"]).await;
    let number = stage.begun(&["a"], 1).await;
    let made = stage.replacements().remove(0);
    let key = cluster::Key { kind: cluster::Kind::NodeClaim, namespace: "".into(), name: made.as_str().into() };
    stage.world.ctx.tell(|store, now| store.delete(&cluster::Gone { key, uid: None, version: None }, now));
    assert!(matches!(stage.tick(number).await, Next::After(_)));
    assert!(stage.is_tainted("a"));
}

// 02/DR6
// Spec 02, flaw 24: what is not needed any more is not left running.
#[tokio::test(start_paused = true)]
async fn when_one_replacement_is_given_up_the_nodes_are_released_and_the_others_are_not_kept() {
    let stage = Stage::with(&["a"]).await;
    let number = stage.begun(&["a"], 2).await;
    let made = stage.replacements();
    let deleted = json!({"metadata": {"deletionTimestamp": EPOCH}});
    stage.world.put(merged(stage.claim(&made[0]).unwrap(), deleted));
    stage.world.sync();
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_as_before("a"));
    assert_eq!(stage.replacements(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_a_waiting_pod_is_to_have_is_not_given_up() {
    let stage = Stage::with(&["a"]).await;
    let number = stage.begun(&["a"], 1).await;
    let made = stage.replacements();
    stage.world.put(pending_pod("web", "1"));
    stage.world.sync();
    let (pod, now) = (model::ids::PodName::new("shop", "web"), stage.world.ctx.now());
    stage.world.ctx.store().nominate(&pod, &made[0].as_str().into(), now);
    pass(601).await;
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_as_before("a"));
    assert_eq!(stage.claims(), ["a".to_owned(), made[0].clone()]);
}

// 02/QU5
#[tokio::test(start_paused = true)]
async fn events_tell_of_launching_waiting_and_terminating() {
    let stage = Stage::with(&["a"]).await;
    let number = stage.begun(&["a"], 1).await;
    assert_eq!(stage.told("DisruptionLaunching").await, ["Launching NodeClaim: Drifted"]);
    assert_eq!(stage.told("DisruptionWaitingReadiness").await, ["Waiting on readiness to continue disruption"]);
    assert_eq!(stage.told("DisruptionTerminating").await, [""; 0]);
    stage.initialize(&stage.replacements()[0]);
    stage.tick(number).await;
    let mut ends = stage.told("DisruptionTerminating").await;
    ends.sort();
    assert_eq!(ends, ["Disrupting Node: Drifted", "Disrupting NodeClaim: Drifted"]);
}

// A command of the reference hangs on its first claim, and stays for ever when that one is gone.
// Spec 02, flaw 22: a command hangs on none of its nodes.
#[tokio::test(start_paused = true)]
async fn a_command_goes_on_when_one_of_its_nodes_goes_by_anothers_hand() {
    let stage = Stage::with(&["a", "b"]).await;
    let number = stage.begun(&["a", "b"], 1).await;
    for (kind, name) in [("NodeClaim", "a"), ("Node", "a")] {
        stage.world.server.remove(kind, name);
    }
    stage.world.sync();
    assert!(matches!(stage.tick(number).await, Next::After(_)));
    stage.initialize(&stage.replacements()[0]);
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_deleted("b"));
    assert!(stage.known_claims().is_empty());
}

// One of the reference deletes its claims and is then rolled back as failed.
// Spec 02, flaw 23: it is one or the other.
#[tokio::test(start_paused = true)]
async fn what_is_complete_just_after_its_time_is_done_and_not_taken_back() {
    let stage = Stage::with(&["a"]).await;
    let number = stage.begun(&["a"], 1).await;
    pass(700).await;
    stage.initialize(&stage.replacements()[0]);
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_deleted("a") && stage.is_tainted("a"));
    assert!(!stage.world.ctx.metrics.encode().contains(&format!("{FAILURES}{{")));
}

#[tokio::test(start_paused = true)]
async fn deleting_is_tried_until_it_is_done_and_counted_once() {
    let stage = Stage::with(&["a", "b"]).await;
    for _ in 0..4 {
        stage.world.server.trouble("DELETE /apis/karpenter.sh/v1/nodeclaims/a", Trouble::Refuses(500));
    }
    let number = stage.ripe(command(Method::Emptiness, &["a", "b"], 0));
    stage.try_tick(number).await.unwrap_err();
    assert!(stage.is_deleted("b") && !stage.is_deleted("a") && stage.is_tainted("a"));
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert!(stage.is_deleted("a"));
    let labels =
        "capacity_type=\"spot\",consolidation_policy=\"when_empty_or_underutilized\",termination_mode=\"graceful\"";
    assert!(
        stage.world.counted(&format!(
            "karpenter_nodeclaims_disrupted_total{{reason=\"empty\",nodepool=\"general\",{labels}}} 2"
        ))
    );
}

// The reference tries a pool whose replacements never come first on every pass.
// Spec 02, flaws 14 and 15: what has just failed is not tried again at once.
#[tokio::test(start_paused = true)]
async fn a_pool_rests_longer_after_each_failure_until_something_works() {
    let stage = Stage::with(&["a"]).await;
    for rest in [60, 120, 240, 480, 600, 600] {
        stage.world.server.trouble("POST /apis/karpenter.sh/v1/nodeclaims", Trouble::Refuses(500));
        stage.tick(stage.ripe(command(Method::Drift, &["a"], 1))).await;
        assert!(stage.is_as_before("a"));
        let now = stage.world.ctx.now();
        let until = now.plus(Duration::from_secs(rest));
        assert_eq!(stage.commands.resting(now), [("general".into(), until)].into());
        pass(rest).await;
        assert!(stage.commands.resting(stage.world.ctx.now()).is_empty());
    }
    let number = stage.begun(&["a"], 1).await;
    stage.initialize(&stage.replacements()[0]);
    stage.tick(number).await;
    machine(&stage.world, "b", &[]);
    stage.world.sync();
    stage.world.server.trouble("POST /apis/karpenter.sh/v1/nodeclaims", Trouble::Refuses(500));
    stage.tick(stage.ripe(command(Method::Drift, &["b"], 1))).await;
    let now = stage.world.ctx.now();
    assert_eq!(stage.commands.resting(now), [("general".into(), now.plus(Duration::from_secs(60)))].into());
}

// The reference leaves those that were made running, and nobody knows of them.
#[tokio::test(start_paused = true)]
async fn when_one_replacement_cannot_be_made_those_that_were_are_given_up() {
    let stage = Stage::with(&["a"]).await;
    stage.world.server.trouble("POST /apis/karpenter.sh/v1/nodeclaims", Trouble::Refuses(422));
    let number = stage.ripe(command(Method::Drift, &["a"], 3));
    assert_eq!(stage.tick(number).await, Next::OnChange);
    assert_eq!(stage.world.server.asked("POST /apis/karpenter.sh/v1/nodeclaims").len(), 3);
    assert_eq!(stage.replacements(), [""; 0]);
    assert!(stage.is_as_before("a"));
}

// 02/DR8. The reference leaks its reservation when a command fails before its claim is made.
// Spec 02, flaw 25: no room is lost to a command that failed.
#[tokio::test(start_paused = true)]
async fn room_that_a_failed_replacement_of_a_static_pool_reserved_is_given_back() {
    let stage = Stage::with(&["a"]).await;
    let fixed = json!({"spec": {"replicas": 1, "limits": {"nodes": "2"}}});
    stage.world.put(merged(node_pool("general"), fixed));
    stage.world.sync();
    for _ in 0..3 {
        stage.world.server.trouble("POST /apis/karpenter.sh/v1/nodeclaims", Trouble::Refuses(500));
        stage.tick(stage.ripe(command(Method::StaticDrift, &["a"], 1))).await;
        assert!(stage.is_as_before("a"));
        assert_eq!(stage.world.ctx.store().pool_claims(&"general".into()).active.len(), 1, "it counts again");
    }
    let number = stage.ripe(command(Method::StaticDrift, &["a"], 1));
    assert!(matches!(stage.tick(number).await, Next::After(_)));
    assert_eq!(stage.replacements().len(), 1);
    machine(&stage.world, "b", &[]);
    stage.world.sync();
    let over = stage.ripe(command(Method::StaticDrift, &["b"], 1));
    assert_eq!(stage.tick(over).await, Next::OnChange);
    assert_eq!(stage.replacements().len(), 1, "the limit holds");
    assert_eq!(command(Method::StaticDrift, &["a"], 1).reason(), Reason::Drifted);
}
