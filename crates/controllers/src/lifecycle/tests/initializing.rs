use serde_json::json;

use super::*;

/// A claim that is registered, and whose kubelet reports.
async fn registered(change: Value) -> Stage {
    let stage = Stage::with(claim("a", change));
    stage.tick("a").await;
    stage.tick("a").await;
    stage.says("a", "Registered", ["True", "Registered", ""]);
    stage.kubelet_reports("True");
    stage
}

// 02/IN1 02/IN3 02/IN15 02/IN16
#[tokio::test(start_paused = true)]
async fn a_node_is_initialized_once_its_kubelet_reports() {
    let drivers = json!({"metadata": {"annotations": {"karpenter.sh/requested-dra-drivers": "gpu.example.com"}}});
    for change in [json!({}), drivers] {
        let stage = registered(change).await;
        stage.kubelet_reports("False");
        stage.tick("a").await;
        stage.says("a", "Initialized", ["Unknown", "NodeNotReady", "Node status is NotReady"]);
        assert!(stage.node()["metadata"]["labels"]["karpenter.sh/initialized"].is_null());
        stage.kubelet_reports("True");
        stage.tick("a").await;
        stage.says("a", "Initialized", ["True", "Initialized", ""]);
        assert_eq!(stage.node()["metadata"]["labels"]["karpenter.sh/initialized"], "true");
        stage.says("a", "Ready", ["True", "Ready", ""]);
        stage.kubelet_reports("False");
        stage.tick("a").await;
        stage.says("a", "Initialized", ["True", "Initialized", ""]);
    }
}

// 02/IN2
#[tokio::test(start_paused = true)]
async fn nothing_is_initialized_before_it_is_registered() {
    let stage = Stage::with(claim("a", json!({})));
    stage.tick("a").await;
    stage.kubelet_reports("True");
    let twin = merged(stage.node(), json!({"metadata": {"name": "twin", "uid": "other"}}));
    stage.world.put(twin);
    stage.tick("a").await;
    assert_eq!(stage.condition("a", "Registered")[0], "False");
    assert_eq!(stage.condition("a", "Initialized")[..2], ["Unknown", "AwaitingReconciliation"]);
}

// 02/IN4 02/IN5
#[tokio::test(start_paused = true)]
async fn devices_that_were_asked_for_are_waited_for() {
    let stage = registered(json!({"spec": {"resources": {"requests": {"example.com/fuse": "2"}}}})).await;
    stage.change_node(json!({"status": {"allocatable": {"example.com/fuse": "0"}}}));
    stage.tick("a").await;
    let text = "Resource \"example.com/fuse\" was requested but not registered";
    stage.says("a", "Initialized", ["Unknown", "ResourceNotRegistered", text]);
    stage.change_node(json!({"status": {"allocatable": {"example.com/fuse": "1"}}}));
    stage.tick("a").await;
    stage.says("a", "Initialized", ["True", "Initialized", ""]);
}

// 02/IN6 02/IN7
#[tokio::test(start_paused = true)]
async fn startup_taints_are_waited_for() {
    let stage =
        registered(json!({"spec": {"startupTaints": [{"key": "cni", "value": "x", "effect": "NoSchedule"}]}})).await;
    stage.tick("a").await;
    let text = "StartupTaint \"cni=x:NoSchedule\" still exists";
    stage.says("a", "Initialized", ["Unknown", "StartupTaintsExist", text]);
    stage.change_node(json!({"spec": {"taints": []}}));
    stage.tick("a").await;
    stage.says("a", "Initialized", ["True", "Initialized", ""]);
}

// 02/IN8 02/IN9 02/IN10
#[tokio::test(start_paused = true)]
async fn taints_that_pass_are_waited_for() {
    for key in ["node.kubernetes.io/not-ready", "readiness.k8s.io/network"] {
        let stage = registered(json!({})).await;
        stage.change_node(json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}));
        stage.tick("a").await;
        let text = format!("KnownEphemeralTaint \"{key}:NoSchedule\" still exists");
        stage.says("a", "Initialized", ["Unknown", "KnownEphemeralTaintsExist", &text]);
        stage.change_node(json!({"spec": {"taints": []}}));
        stage.tick("a").await;
        stage.says("a", "Initialized", ["True", "Initialized", ""]);
    }
}

// 02/NC7
#[tokio::test(start_paused = true)]
async fn a_node_half_as_large_as_promised_is_reported_with_the_numbers() {
    let stage = Stage::initialized(json!({"spec": {"resources": {"requests": {"memory": "1Gi"}}}})).await;
    stage.says("a", "ConsistentStateFound", ["True", "ConsistentStateFound", ""]);
    stage.change_claim("a", json!({"status": {"capacity": {"memory": "128Gi"}}}));
    stage.change_node(json!({"status": {"capacity": {"memory": "64Gi"}}}));
    stage.tick("a").await;
    stage.says("a", "ConsistentStateFound", ["True", "ConsistentStateFound", ""]);
    pass(Duration::from_secs(600)).await;
    stage.tick("a").await;
    let text = "expected 128Gi of resource memory, but found 64Gi (50.0% of expected)";
    stage.says("a", "ConsistentStateFound", ["False", "ConsistencyCheckFailed", text]);
    assert_eq!(stage.told("FailedConsistencyCheck").await, [text]);
    stage.says("a", "Ready", ["True", "Ready", ""]);
    for times in [2, 3] {
        pass(Duration::from_secs(600)).await;
        stage.tick("a").await;
        assert_eq!(stage.told("FailedConsistencyCheck").await, vec![text; times], "as long as it is so");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_found_to_be_as_promised_is_compared_again_only_after_a_change() {
    let ten_minutes = Duration::from_secs(600);
    for (expire_after, rests) in [("Never", Next::OnChange), ("1h", Next::After(5 * ten_minutes))] {
        let stage = Stage::initialized(json!({"spec": {"expireAfter": expire_after}})).await;
        assert_eq!(stage.tick("a").await, Next::After(ten_minutes));
        pass(ten_minutes).await;
        assert_eq!(
            stage.tick("a").await,
            Next::After(ten_minutes),
            "what was written after the first look is looked at"
        );
        assert_eq!(stage.tick("a").await, rests);
        stage.change_node(json!({"metadata": {"annotations": {"noise": "1"}}}));
        assert_eq!(stage.tick("a").await, Next::After(ten_minutes));
        pass(ten_minutes).await;
        stage.tick("a").await;
        stage.change_claim("a", json!({"metadata": {"annotations": {"noise": "1"}}}));
        assert_eq!(stage.tick("a").await, Next::After(ten_minutes));
    }
}

// 02/NC8
#[tokio::test(start_paused = true)]
async fn claims_and_nodes_of_older_controllers_get_the_label_that_they_lack() {
    let stage = Stage::initialized(json!({})).await;
    stage.change_claim("a", json!({"metadata": {"labels": {CLASS_LABEL: null}}}));
    stage.change_node(json!({"metadata": {"labels": {CLASS_LABEL: null}}}));
    stage.world.put(foreign("theirs"));
    stage.tick("a").await;
    stage.tick("theirs").await;
    assert_eq!(stage.claim("a")["metadata"]["labels"][CLASS_LABEL], "default");
    assert_eq!(stage.node()["metadata"]["labels"][CLASS_LABEL], "default");
    assert!(stage.claim("theirs")["metadata"]["labels"].is_null());
}
