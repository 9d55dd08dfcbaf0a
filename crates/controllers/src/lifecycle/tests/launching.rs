use provider::ProviderError;
use serde_json::json;

use super::*;
use crate::testing::Trouble;

// 02/LA1 02/LA2
#[tokio::test(start_paused = true)]
async fn a_new_claim_gets_one_machine_and_learns_of_it() {
    let stage = Stage::with(claim("a", json!({"metadata": {"labels": {"team": "web"}}})));
    stage.world.put(foreign("theirs"));
    stage.tick("theirs").await;
    stage.tick("a").await;
    stage.tick("a").await;
    assert_eq!(stage.cloud.calls("launch"), 1);
    stage.says("a", "Launched", ["True", "Launched", ""]);
    let claim = stage.claim("a");
    let id = claim["status"]["providerID"].as_str().unwrap();
    assert_eq!(stage.node()["spec"]["providerID"], id);
    let labels = &claim["metadata"]["labels"];
    assert_eq!(labels["team"], "web", "what it said itself stays");
    assert!(
        labels["node.kubernetes.io/instance-type"].is_string() && labels["topology.kubernetes.io/zone"].is_string()
    );
    assert!(claim["status"]["capacity"]["cpu"].is_string() && claim["status"]["allocatable"]["memory"].is_string());
    assert_eq!(claim["metadata"]["labels"][CLASS_LABEL], "default");
}

#[tokio::test(start_paused = true)]
async fn a_launch_whose_report_is_lost_is_repeated_without_a_second_machine() {
    let stage = Stage::with(claim("a", json!({})));
    stage.world.server.trouble("PATCH /apis/karpenter.sh/v1/nodeclaims/a/status", Trouble::Refuses(500));
    assert!(stage.try_tick("a").await.is_err());
    assert_eq!(stage.world.server.all("Node").len(), 1);
    // The process that launched it is no more, and nothing of what it knew.
    let again = Lifecycle::default();
    stage.world.sync();
    again.tick(&stage.world.ctx, &"a".into(), &stage.world.id()).await.unwrap();
    stage.says("a", "Launched", ["True", "Launched", ""]);
    assert_eq!(stage.world.server.all("Node").len(), 1);
}

fn no_capacity() -> ProviderError {
    ProviderError::InsufficientCapacity { message: "all sold out".to_owned(), exhausted: Vec::new(), source: None }
}

// 02/LA3
#[tokio::test(start_paused = true)]
async fn a_claim_that_finds_no_capacity_is_gone_and_says_why() {
    let stage = Stage::with(claim("a", json!({})));
    stage.cloud.script().launches.push_back(no_capacity());
    stage.tick("a").await;
    stage.tick("a").await;
    assert!(!stage.has_claim("a"));
    assert_eq!(stage.told("InsufficientCapacityError").await, ["NodeClaim a event: all sold out"]);
    let line = r#"karpenter_nodeclaims_disrupted_total{reason="insufficient_capacity",nodepool="",capacity_type="",consolidation_policy="",termination_mode="graceful"} 1"#;
    assert!(stage.counted(line));
    assert_eq!((stage.cloud.calls("launch"), stage.cloud.calls("terminate")), (1, 0));
}

// 02/LA4
// Spec 02, flaw 29: `NodeClassNotReady` is sent.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_class_is_not_ready_is_gone_too() {
    let stage = Stage::with(claim("a", json!({})));
    let class = "default".to_owned();
    let refusal = ProviderError::NodeClassNotReady { class, message: "no subnets".to_owned() };
    stage.cloud.script().launches.push_back(refusal);
    stage.tick("a").await;
    stage.tick("a").await;
    assert!(!stage.has_claim("a"));
    let told = stage.told("NodeClassNotReady").await;
    assert_eq!(told, ["NodeClaim a event: node class default is not ready: no subnets"]);
    let line = r#"karpenter_nodeclaims_disrupted_total{reason="nodeclass_not_ready",nodepool="",capacity_type="",consolidation_policy="",termination_mode="graceful"} 1"#;
    assert!(stage.counted(line));
}

// 02/LA5
#[tokio::test(start_paused = true)]
async fn other_errors_show_on_the_claim_and_are_tried_again() {
    let stage = Stage::with(claim("a", json!({})));
    let message = "x".repeat(400);
    let create =
        ProviderError::Create { reason: "AMINotFound".to_owned(), message: "no image".to_owned(), source: None };
    let other = ProviderError::Unavailable { doing: message.clone(), source: None };
    stage.cloud.script().launches.extend([create, other]);
    assert!(stage.try_tick("a").await.is_err());
    stage.says("a", "Launched", ["Unknown", "AMINotFound", "no image"]);
    assert!(stage.try_tick("a").await.is_err());
    let cut = format!("{}...", &message[..300]);
    stage.says("a", "Launched", ["Unknown", "LaunchFailed", &cut]);
    stage.tick("a").await;
    stage.says("a", "Launched", ["True", "Launched", ""]);
}

// 02/LA6 01/API-22
#[tokio::test(start_paused = true)]
async fn a_claim_is_held_before_anything_is_launched_and_claims_of_others_never() {
    let stage = Stage::with(claim("a", json!({})));
    stage.world.put(foreign("theirs"));
    stage.world.server.trouble("PATCH /apis/karpenter.sh/v1/nodeclaims/a", Trouble::Refuses(500));
    assert!(stage.try_tick("a").await.is_err());
    assert_eq!(stage.cloud.calls("launch"), 0, "it is not held yet");
    stage.tick("a").await;
    stage.tick("theirs").await;
    assert_eq!(stage.claim("a")["metadata"]["finalizers"], json!([FINALIZER]));
    assert!(stage.claim("theirs")["metadata"]["finalizers"].is_null());
    assert!(stage.claim("theirs")["status"].is_null());
    let asked = stage.world.server.asked("PATCH /apis/karpenter.sh/v1/nodeclaims/a");
    for patch in asked.iter().filter(|asked| asked.body["metadata"]["finalizers"].is_array()) {
        assert!(
            patch.body["metadata"]["resourceVersion"].is_string(),
            "it goes to the version that was read: {patch:?}"
        );
    }
}

// 02/LA7
#[tokio::test(start_paused = true)]
async fn verdicts_follow_a_new_generation() {
    let stage = Stage::initialized(json!({})).await;
    stage.change_claim("a", json!({"metadata": {"generation": 7}}));
    stage.tick("a").await;
    let claim = stage.claim("a");
    for condition in claim["status"]["conditions"].as_array().unwrap() {
        if condition["type"] != "ConsistentStateFound" {
            assert_eq!(
                (&condition["observedGeneration"], &condition["status"]),
                (&json!(7), &json!("True")),
                "{condition}"
            );
        }
    }
    stage.says("a", "Ready", ["True", "Ready", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_with_nothing_to_do_is_not_written() {
    let stage = Stage::initialized(json!({})).await;
    let before = stage.world.server.asked("PATCH").len();
    stage.tick("a").await;
    stage.tick("a").await;
    assert_eq!(stage.world.server.asked("PATCH").len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_misses_something_or_is_not_allowed_yet_is_tried_again_in_its_time() {
    let missing = || ProviderError::NotFound { what: "launch template lt-1".to_owned() };
    let stage = Stage::with(claim("a", json!({})));
    // The first refusal is news, and writing it down wakes the claim; the others are not.
    stage.cloud.script().launches.extend([missing(), missing(), missing()]);
    stage.world.sync();
    stage.world.run_only(Lifecycle::default(), Duration::from_secs(10)).await;
    stage.says("a", "Launched", ["True", "Launched", ""]);

    let denied = || ProviderError::Denied { doing: "launching".to_owned(), source: None };
    let stage = Stage::with(claim("a", json!({})));
    stage.cloud.script().launches.extend([denied(), denied(), denied(), denied()]);
    stage.world.sync();
    stage.world.run_only(Lifecycle::default(), Duration::from_secs(290)).await;
    stage.says("a", "Launched", ["True", "Launched", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_reads_differently_each_time_is_not_repeated_at_full_speed() {
    let stage = Stage::with(claim("a", json!({})));
    let error = |number: u32| ProviderError::Unavailable { doing: format!("request {number}"), source: None };
    stage.cloud.script().launches.extend((0..1000).map(error));
    stage.world.sync();
    stage.world.run_only(Lifecycle::default(), Duration::from_secs(30)).await;
    assert_eq!(stage.cloud.calls("launch"), 5, "after 1, 2, 4 and 8 seconds");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_nobody_looked_at_for_long_is_launched_before_it_is_judged() {
    let stage = Stage::with(claim("a", json!({})));
    pass(Duration::from_secs(6 * 60)).await;
    stage.tick("a").await;
    stage.says("a", "Launched", ["True", "Launched", ""]);
    assert!(stage.claim("a")["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_looked_at_before_everything_was_listed_and_then_all_of_it_is() {
    let stage = Stage::with(claim("a", json!({})));
    stage.world.put(claim("b", json!({})));
    for name in ["a", "b"] {
        let wire: api::NodeClaim = serde_json::from_value(stage.claim(name)).unwrap();
        stage.world.ctx.tell(|store, now| store.apply(wire, now));
    }
    let listing = async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(stage.world.looks(Lifecycle::NAME), 0);
        stage.world.sync();
    };
    futures::join!(stage.world.run_only(Lifecycle::default(), Duration::from_secs(30)), listing);
    for name in ["a", "b"] {
        stage.says(name, "Launched", ["True", "Launched", ""]);
    }
}
