use provider::{ProviderError, Termination};
use serde_json::json;

use super::*;

fn is_going(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

// 02/FI1 02/FI7
#[tokio::test(start_paused = true)]
async fn the_node_goes_first_then_the_machine_then_the_claim() {
    let stage = Stage::initialized(json!({})).await;
    stage.somebody_deletes("a");
    stage.tick("a").await;
    assert!(is_going(&stage.node()));
    assert_eq!(stage.tick("a").await, Next::OnChange);
    assert_eq!((stage.cloud.calls("terminate"), stage.has_claim("a")), (0, true), "its node is still there");
    stage.world.server.remove("Node", &stage.node_name());
    pass(Duration::from_secs(3)).await;
    stage.tick("a").await;
    assert_eq!((stage.cloud.calls("terminate"), stage.has_claim("a")), (1, false));
    let labels = r#"nodepool="""#;
    assert!(stage.counted(&format!("karpenter_nodeclaims_termination_duration_seconds_sum{{{labels}}} 3.0")));
    let text = stage.world.ctx.metrics.encode();
    assert!(text.contains("karpenter_nodeclaims_terminated_total{"), "{text}");
    assert!(text.contains("karpenter_nodeclaims_instance_termination_duration_seconds_count"), "{text}");
}

// 02/FI2
#[tokio::test(start_paused = true)]
async fn a_claim_stays_ready_while_it_ends() {
    let stage = Stage::initialized(json!({})).await;
    stage.somebody_deletes("a");
    stage.tick("a").await;
    let claim = stage.claim("a");
    for condition in claim["status"]["conditions"].as_array().unwrap() {
        assert_eq!(
            (&condition["observedGeneration"], &condition["status"]),
            (&json!(2), &json!("True")),
            "{condition}"
        );
    }
}

// 02/FI3
#[tokio::test(start_paused = true)]
async fn quantities_in_another_spelling_stop_nothing() {
    let stage =
        Stage::initialized(json!({"spec": {"resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}}}})).await;
    stage.somebody_deletes("a");
    stage.tick("a").await;
    stage.world.server.remove("Node", &stage.node_name());
    stage.tick("a").await;
    assert!(!stage.has_claim("a"));
}

// 02/FI4 02/FI5
#[tokio::test(start_paused = true)]
async fn a_machine_is_asked_to_go_until_it_is_gone() {
    let stage = Stage::initialized(json!({})).await;
    stage.somebody_deletes("a");
    stage.tick("a").await;
    stage.world.server.remove("Node", &stage.node_name());
    let down = ProviderError::Unavailable { doing: "ending".to_owned(), source: None };
    let gone = ProviderError::NotFound { what: "the machine".to_owned() };
    stage.cloud.script().terminations.extend([Err(down), Ok(Termination::Going), Ok(Termination::Going), Err(gone)]);
    assert!(stage.try_tick("a").await.is_err());
    assert_eq!(stage.tick("a").await, after(5));
    stage.says("a", "InstanceTerminating", ["True", "InstanceTerminating", ""]);
    pass(Duration::from_secs(5)).await;
    assert_eq!(stage.tick("a").await, after(5));
    assert_eq!(stage.claim("a")["metadata"]["finalizers"], json!([FINALIZER]));
    pass(Duration::from_secs(5)).await;
    stage.tick("a").await;
    assert!(!stage.has_claim("a"));
    assert!(stage.counted(r#"karpenter_nodeclaims_instance_termination_duration_seconds_sum{nodepool=""} 10.0"#));
}

// 02/FI6 02/FI9
#[tokio::test(start_paused = true)]
async fn all_nodes_with_its_id_go_and_none_without() {
    let stage = Stage::initialized(json!({})).await;
    let node = stage.node();
    let other = |name: &str, id: Value| {
        merged(node.clone(), json!({"metadata": {"name": name, "uid": name}, "spec": {"providerID": id}}))
    };
    stage.world.put(other("twin", node["spec"]["providerID"].clone()));
    stage.world.put(other("nameless", json!("")));
    stage.world.put(other("idless", Value::Null));
    stage.somebody_deletes("a");
    stage.tick("a").await;
    let going = |name: &str| is_going(&stage.world.server.get("Node", name).unwrap());
    assert!(going("twin") && going(node["metadata"]["name"].as_str().unwrap()));
    assert!(!going("nameless") && !going("idless"));
}

// 02/FI8
#[tokio::test(start_paused = true)]
async fn for_a_claim_that_never_launched_nothing_is_ended() {
    let stage = Stage::with(claim("a", json!({"metadata": {"finalizers": [FINALIZER]}})));
    stage.somebody_deletes("a");
    stage.tick("a").await;
    assert!(!stage.has_claim("a"));
    assert_eq!((stage.cloud.calls("launch"), stage.cloud.calls("terminate")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_launch_was_never_reported_goes_with_its_claim() {
    let stage = Stage::with(claim("a", json!({})));
    for _ in 0..2 {
        let status = "PATCH /apis/karpenter.sh/v1/nodeclaims/a/status";
        stage.world.server.trouble(status, crate::testing::Trouble::Refuses(500));
    }
    assert!(stage.try_tick("a").await.is_err());
    assert_eq!((stage.world.server.all("Node").len(), &stage.claim("a")["status"]["providerID"]), (1, &Value::Null));
    stage.somebody_deletes("a");
    stage.tick("a").await;
    assert_eq!((stage.cloud.calls("find"), stage.cloud.calls("terminate")), (1, 1));
    assert!(!stage.has_claim("a"));
}

// 02/FI10
#[tokio::test(start_paused = true)]
async fn nodes_of_a_claim_that_did_not_register_are_not_drained() {
    let stage = Stage::with(claim("a", json!({})));
    stage.world.put(merged(node_class("default"), json!({"spec": {"nodeRegistrationDelay": "10h"}})));
    stage.tick("a").await;
    let id = stage.claim("a")["status"]["providerID"].clone();
    stage.world.put(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"providerID": id}}));
    stage.somebody_deletes("a");
    stage.tick("a").await;
    assert!(!stage.has_claim("a"));
    assert!(!is_going(&stage.node()), "the node is not touched on its behalf");
}

const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";

// 02/FI11 02/FI12
#[tokio::test(start_paused = true)]
async fn the_deadline_is_the_deletion_plus_the_grace() {
    let stage = Stage::initialized(json!({})).await;
    stage.somebody_deletes("a");
    stage.tick("a").await;
    assert!(stage.claim("a")["metadata"]["annotations"][DEADLINE].is_null());

    let stage = Stage::initialized(json!({"spec": {"terminationGracePeriod": "5m"}})).await;
    pass(Duration::from_secs(7)).await;
    stage.somebody_deletes("a");
    stage.tick("a").await;
    assert_eq!(stage.claim("a")["metadata"]["annotations"][DEADLINE], "2026-01-01T00:05:07Z");
    let told = stage.told("TerminationGracePeriodExpiring").await;
    assert_eq!(told, ["All pods will be deleted by 2026-01-01T00:05:07Z"]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_cannot_be_read_is_replaced() {
    let stage = Stage::initialized(json!({"spec": {"terminationGracePeriod": "5m"}})).await;
    stage.somebody_deletes("a");
    stage.change_claim("a", json!({"metadata": {"annotations": {DEADLINE: "soon"}}}));
    stage.tick("a").await;
    assert_eq!(stage.claim("a")["metadata"]["annotations"][DEADLINE], "2026-01-01T00:05:00Z");
    assert!(is_going(&stage.node()));
}

// 02/FI13
#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_there_stays() {
    let grace = json!({"spec": {"terminationGracePeriod": "5m"}});
    let stage = Stage::initialized(grace).await;
    stage.somebody_deletes("a");
    stage.change_claim("a", json!({"metadata": {"annotations": {DEADLINE: "2026-01-01T00:00:01Z"}}}));
    stage.tick("a").await;
    assert_eq!(stage.claim("a")["metadata"]["annotations"][DEADLINE], "2026-01-01T00:00:01Z");
    assert!(is_going(&stage.node()));
}
