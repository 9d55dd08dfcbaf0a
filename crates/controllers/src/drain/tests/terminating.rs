use provider::{ProviderError, Termination};

use super::*;
use crate::testing::Trouble;

fn not_found() -> ProviderError {
    ProviderError::NotFound { what: "the machine".to_owned() }
}

// 02/TE1 02/TE7 02/TE26 02/TE30
#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_closed_drained_and_let_go_with_its_machine() {
    let stage = Stage::with([]);
    assert_eq!(stage.tick().await, Next::After(Duration::from_secs(5)), "pods may still be on their way");
    let node = stage.world.server.get("Node", "n").unwrap();
    assert_eq!(node["spec"]["taints"], json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]));
    let label = &node["metadata"]["labels"]["node.kubernetes.io/exclude-from-external-load-balancers"];
    assert_eq!(label, "karpenter");
    assert_eq!(stage.condition("Drained"), ["Unknown", "Draining"]);
    pass(5).await;
    stage.tick().await;
    assert!(!stage.has_node("n"));
    assert_eq!(stage.cloud.calls("terminate"), 1);
    assert_eq!(stage.condition("Drained"), ["True", "Drained"]);
    assert_eq!(stage.condition("VolumesDetached"), ["True", "VolumesDetached"]);
    assert_eq!(stage.condition("InstanceTerminating"), ["True", "InstanceTerminating"]);
    stage.counted(r#"karpenter_nodes_terminated_total{nodepool="default",zone="z1"} 1"#);
    stage.counted(r#"karpenter_nodes_drained_total{nodepool="default"} 1"#);
    stage.counted(r#"karpenter_nodes_termination_duration_seconds{nodepool="default",quantile="0.5"} 5"#);
    stage.counted(r#"karpenter_nodes_lifetime_duration_seconds_sum{nodepool="default"} 5.0"#);
}

// 02/TE2 02/TE3
#[tokio::test(start_paused = true)]
async fn without_one_claim_the_node_goes_and_no_claim_is_touched() {
    let stage = Stage::new();
    stage.world.put(leaving_node("n", json!({})));
    stage.tick().await;
    assert!(!stage.has_node("n"));
    stage.counted(r#"karpenter_nodes_drained_total{nodepool="default"} 1"#);

    let alive = json!({"metadata": {"deletionTimestamp": null}});
    let twin = claim_of("n", json!({"metadata": {"name": "twin", "deletionTimestamp": null}}));
    let stage = Stage::new();
    [leaving_node("n", json!({})), claim_of("n", alive), twin].into_iter().for_each(|object| stage.world.put(object));
    stage.tick().await;
    assert!(!stage.has_node("n"));
    for claim in stage.world.server.all("NodeClaim") {
        assert!(claim["metadata"]["deletionTimestamp"].is_null(), "{claim}");
    }
    assert_eq!(stage.cloud.calls("terminate"), 0);
}

// 02/TE4
#[tokio::test(start_paused = true)]
async fn nodes_of_others_and_nodes_that_stay_are_left_alone() {
    let stage = Stage::new();
    let unlabelled =
        json!({"metadata": {"labels": {"karpenter.kwok.sh/kwoknodeclass": null, "karpenter.sh/nodepool": null}}});
    stage.world.put(leaving_node("theirs", unlabelled));
    stage.world.put(leaving_node("unheld", json!({"metadata": {"finalizers": ["example.com/other"]}})));
    stage.world.put(leaving_node("stays", json!({"metadata": {"deletionTimestamp": null}})));
    for name in ["theirs", "unheld", "stays"] {
        let before = stage.world.server.get("Node", name);
        assert_eq!(stage.try_tick(name).await.unwrap(), Next::OnChange);
        assert_eq!(stage.world.server.get("Node", name), before);
    }
    assert!(stage.world.server.asked("PATCH").is_empty());
}

// 02/TE5
#[tokio::test(start_paused = true)]
async fn who_deletes_a_node_deletes_its_claim() {
    let stage = Stage::new();
    stage.world.put(leaving_node("n", json!({})));
    stage.world.put(claim_of("n", json!({"metadata": {"deletionTimestamp": null}})));
    stage.tick().await;
    assert!(stage.world.server.get("NodeClaim", "claim-n").unwrap()["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(stage.condition("Drained"), ["Unknown", "Draining"]);
}

// 02/TE6
#[tokio::test(start_paused = true)]
async fn many_nodes_end_at_the_same_time() {
    let stage = Stage::new();
    let names: Vec<String> = (0..30).map(|number| format!("n{number}")).collect();
    for name in &names {
        stage.world.put(leaving_node(name, json!({})));
        stage.world.put(claim_of(name, json!({})));
        stage.world.put(merged(pod(&format!("p-{name}")), json!({"spec": {"nodeName": name}})));
    }
    stage.world.run(Duration::from_secs(30)).await;
    assert_eq!(stage.world.server.all("Node"), [] as [Value; 0]);
    assert_eq!(stage.world.server.all("Pod"), [] as [Value; 0]);
    assert_eq!(stage.world.server.all("NodeClaim"), [] as [Value; 0]);
}

// 02/TE15 02/TE16 02/TE17
#[tokio::test(start_paused = true)]
async fn the_node_stays_until_all_tiers_are_gone_in_their_order() {
    let critical = json!({"spec": {"priorityClassName": "system-node-critical"}});
    let stage = Stage::with([pod("a"), merged(pod("critical"), critical)]);
    let all = ["a", "critical"];
    stage.tick().await;
    assert_eq!(stage.ordered(&all), ["a"]);
    stage.attempt("a").await;
    assert!(!stage.has_pod("a"));
    pass(10).await;
    stage.tick().await;
    assert!(stage.has_node("n"));
    assert_eq!(stage.ordered(&all), ["critical"]);
    stage.attempt("critical").await;
    stage.tick().await;
    assert!(!stage.has_node("n") && stage.evictions.len() == 0);
    let told = stage.told("FailedDraining").await;
    assert_eq!(told, ["Failed to drain node, 2 pods are waiting to be evicted"], "and not again for a while");
}

// 02/TE8 02/TE9 02/TE12 02/TE13
#[tokio::test(start_paused = true)]
async fn pods_that_do_not_leave_block_nothing() {
    let tolerating = |operator: &str| json!({"spec": {"tolerations": [{"key": "karpenter.sh/disrupted", "operator": operator, "effect": "NoSchedule"}]}});
    let owner =
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"}]}});
    let stage = Stage::with([
        merged(pod("exists"), tolerating("Exists")),
        merged(pod("equal"), tolerating("Equal")),
        merged(pod("ended"), json!({"status": {"phase": "Succeeded"}})),
        merged(pod("mirror"), owner),
    ]);
    stage.tick().await;
    pass(5).await;
    stage.tick().await;
    assert!(!stage.has_node("n"));
    assert_eq!(stage.world.server.all("Pod").len(), 4);
    assert!(stage.world.server.asked("POST /api/v1/namespaces/shop/pods").is_empty());
}

// 02/TE18 02/TE19
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_gone_ends_the_wait_unless_the_kubelet_reports() {
    let silent = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    let stage = Stage::with([pod("a")]);
    stage.world.put(leaving_node("n", silent.clone()));
    let down = ProviderError::Unavailable { doing: "asking".to_owned(), source: None };
    stage.cloud.script().gets.extend([down, not_found()]);
    assert!(stage.try_tick("n").await.is_err(), "a cloud that does not answer has not said that it is gone");
    assert!(stage.has_node("n"));
    stage.tick().await;
    assert!(!stage.has_node("n") && stage.has_pod("a"));

    let stage = Stage::with([pod("a")]);
    stage.cloud.script().gets.push_back(not_found());
    stage.tick().await;
    assert!(stage.has_node("n"));
    assert_eq!(stage.ordered(&["a"]), ["a"]);
    assert_eq!(stage.cloud.calls("get"), 0);
}

// 02/TE20
#[tokio::test(start_paused = true)]
async fn pods_that_never_end_are_passed_over_after_a_minute() {
    let stuck = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:10Z", "finalizers": ["example.com/stuck"]}});
    let stage = Stage::with([merged(pod("a"), stuck)]);
    stage.tick().await;
    pass(69).await;
    assert_eq!(stage.tick().await, Next::After(Duration::from_secs(1)));
    pass(1).await;
    stage.tick().await;
    assert!(!stage.has_node("n"));
}

fn attachment(volume: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": format!("at-{volume}")},
        "spec": {"attacher": "csi.example.com", "nodeName": "n", "source": {"persistentVolumeName": volume}},
        "status": {"attached": true},
    })
}

// 02/TE27 02/TE28
#[tokio::test(start_paused = true)]
async fn volumes_are_waited_for_but_not_those_of_pods_that_stay() {
    let stays = json!({"spec": {
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "kept"}}],
    }});
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "kept"},
        "spec": {"volumeName": "pv-kept"},
    });
    let stage = Stage::with([merged(pod("a"), stays), claim, attachment("pv-kept"), attachment("pv-free")]);
    stage.tick().await;
    pass(5).await;
    stage.tick().await;
    assert_eq!(stage.condition("Drained"), ["True", "Drained"]);
    assert_eq!(stage.condition("VolumesDetached"), ["Unknown", "AwaitingVolumeDetachment"]);
    assert!(stage.has_node("n"));
    let told = stage.told("AwaitingVolumeDetachment").await;
    assert_eq!(told, ["Awaiting deletion of bound volumeattachments (at-pv-free)"]);
    stage.world.server.remove("VolumeAttachment", "at-pv-free");
    stage.tick().await;
    assert!(!stage.has_node("n"));
    assert_eq!(stage.condition("VolumesDetached"), ["True", "VolumesDetached"]);
    stage.counted(r#"karpenter_nodes_drained_total{nodepool="default"} 1"#);
}

// 02/TE29
#[tokio::test(start_paused = true)]
async fn after_the_deadline_nobody_waits_for_volumes() {
    let stage = Stage::with([attachment("pv")]);
    stage.world.put(with_deadline("2026-01-01T00:00:08Z"));
    stage.tick().await;
    pass(5).await;
    assert_eq!(stage.tick().await, Next::After(Duration::from_secs(3)));
    pass(3).await;
    stage.tick().await;
    assert!(!stage.has_node("n"));
    assert_eq!(stage.condition("VolumesDetached"), ["False", "TerminationGracePeriodElapsed"]);
    let told = stage.told("TerminationGracePeriodExpiring").await;
    assert_eq!(told, ["All pods will be deleted by 2026-01-01T00:00:08Z"]);
}

#[tokio::test(start_paused = true)]
async fn the_node_waits_for_its_machine_to_be_gone() {
    let stage = Stage::with([]);
    stage.tick().await;
    pass(5).await;
    stage.cloud.script().terminations.push_back(Ok(Termination::Going));
    assert_eq!(stage.tick().await, Next::After(Duration::from_secs(5)));
    assert!(stage.has_node("n"));
    assert_eq!(stage.condition("InstanceTerminating"), ["True", "InstanceTerminating"]);
    stage.tick().await;
    assert!(!stage.has_node("n"));
    stage.counted(r#"karpenter_nodes_drained_total{nodepool="default"} 1"#);
}

#[tokio::test(start_paused = true)]
async fn a_taint_of_another_effect_gives_way() {
    let stage = Stage::with([]);
    let taints =
        json!([{"key": "karpenter.sh/disrupted", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}]);
    stage.world.put(leaving_node("n", json!({"spec": {"taints": taints}})));
    stage.tick().await;
    let node = stage.world.server.get("Node", "n").unwrap();
    let expected =
        json!([{"key": "a", "effect": "NoSchedule"}, {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
    assert_eq!(node["spec"]["taints"], expected);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_before_everything_was_listed() {
    let stage = Stage::with([]);
    let node: Node = serde_json::from_value(stage.world.server.get("Node", "n").unwrap()).unwrap();
    assert_eq!(node.spec.as_ref().unwrap().provider_id.as_deref(), Some(ID));
    stage.world.ctx.tell(|store, now| store.apply(node, now));
    let world = stage.world;
    world.run_only(stage.termination, Duration::from_secs(5)).await;
    assert!(world.server.asked("").is_empty());
    assert_eq!(world.looks(NodeTermination::NAME), 0);
}

// 02/TE30
#[tokio::test(start_paused = true)]
async fn a_drain_that_must_be_written_again_is_counted_once() {
    let stage = Stage::with([]);
    stage.tick().await;
    pass(5).await;
    // What failed is tried once more before the look ends.
    let status = "PATCH /apis/karpenter.sh/v1/nodeclaims/claim-n/status";
    (0..2).for_each(|_| stage.world.server.trouble(status, Trouble::Refuses(409)));
    assert!(stage.try_tick("n").await.is_err());
    stage.tick().await;
    assert!(!stage.has_node("n"));
    stage.counted(r#"karpenter_nodes_drained_total{nodepool="default"} 1"#);

    // Without a claim there is only the Node to write.
    let stage = Stage::new();
    stage.world.put(leaving_node("n", closed()));
    stage.world.server.trouble("PATCH /api/v1/nodes/n", Trouble::Refuses(409));
    assert!(stage.try_tick("n").await.is_err());
    stage.tick().await;
    assert!(!stage.has_node("n"));
    stage.counted(r#"karpenter_nodes_drained_total{nodepool="default"} 1"#);
}

/// What a node has that takes no more pods.
fn closed() -> Value {
    let balancers = "node.kubernetes.io/exclude-from-external-load-balancers";
    json!({
        "metadata": {"labels": {balancers: "karpenter"}},
        "spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]},
    })
}

fn unreadable(change: Value) -> Value {
    merged(merged(pod("odd"), json!({"spec": {"containers": "none"}})), change)
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_read_holds_its_node_until_the_deadline() {
    let stage = Stage::with([unreadable(json!({}))]);
    stage.tick().await;
    pass(121).await;
    assert_eq!(stage.tick().await, Next::After(Duration::from_secs(10)));
    assert!(stage.has_node("n"));
    assert_eq!((stage.cloud.calls("terminate"), stage.condition("Drained")[0].as_str()), (0, "Unknown"));
    let text = "Failed to drain node, a pod cannot be read, so nobody knows whether it may go (Pod=shop/odd)";
    let told = stage.told("FailedDraining").await;
    assert!(told.contains(&text.to_owned()), "{told:?}");
    stage.world.put(with_deadline("2026-01-01T00:02:00Z"));
    stage.tick().await;
    pass(5).await;
    stage.tick().await;
    assert!(!stage.has_node("n"), "the deadline holds for everybody");
}

#[tokio::test(start_paused = true)]
async fn pods_that_end_with_their_node_hold_nothing_though_they_cannot_be_read() {
    let mirror =
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"}]}});
    for change in [mirror, json!({"status": {"phase": "Failed"}}), json!({"spec": {"nodeName": "elsewhere"}})] {
        let stage = Stage::with([unreadable(change)]);
        stage.tick().await;
        pass(5).await;
        stage.tick().await;
        assert!(!stage.has_node("n"));
    }
    let stage = Stage::with([unreadable(json!({}))]);
    stage.tick().await;
    stage.world.server.remove("Pod", "odd");
    pass(5).await;
    stage.tick().await;
    assert!(!stage.has_node("n"), "it is gone");
}
