use serde_json::json;

use super::*;
use crate::testing::{node_pool, pod_on};

const MINUTE: Duration = Duration::from_secs(60);

fn disrupted(reason: &str, count: u64) -> String {
    format!(
        r#"karpenter_nodeclaims_disrupted_total{{reason="{reason}",nodepool="",capacity_type="",consolidation_policy="",termination_mode="graceful"}} {count}"#
    )
}

// 02/LI3 02/LI4 02/LI6
#[tokio::test(start_paused = true)]
async fn a_claim_that_does_not_launch_in_five_minutes_is_given_up() {
    let stage = Stage::with(claim("a", json!({})));
    let error = || provider::ProviderError::Unavailable { doing: "launching".to_owned(), source: None };
    stage.cloud.script().launches.extend([error(), error(), error()]);
    assert!(stage.try_tick("a").await.is_err());
    pass(5 * MINUTE - Duration::from_secs(1)).await;
    assert!(stage.try_tick("a").await.is_err());
    assert!(stage.claim("a")["metadata"]["deletionTimestamp"].is_null());
    pass(Duration::from_secs(1)).await;
    stage.tick("a").await;
    assert!(stage.counted(&disrupted("launch_timeout", 1)));
    stage.tick("a").await;
    assert!(!stage.has_claim("a"));
}

// 02/LI5
#[tokio::test(start_paused = true)]
async fn a_provider_may_ask_for_another_launch_timeout() {
    let stage = Stage::with(claim("a", json!({})));
    let error = || provider::ProviderError::Unavailable { doing: "launching".to_owned(), source: None };
    stage.cloud.script().launches.extend([error(), error()]);
    stage.cloud.script().launch_timeout = Some(10 * MINUTE);
    pass(10 * MINUTE - Duration::from_secs(1)).await;
    assert!(stage.try_tick("a").await.is_err());
    pass(Duration::from_secs(1)).await;
    stage.tick("a").await;
    assert!(stage.counted(&disrupted("launch_timeout", 1)));
}

// 02/LI1 02/LI7
#[tokio::test(start_paused = true)]
async fn a_claim_whose_node_does_not_come_in_fifteen_minutes_is_given_up_with_its_machine() {
    let stage = Stage::with(claim("a", json!({})));
    stage.world.put(merged(node_class("default"), json!({"spec": {"nodeRegistrationDelay": "10h"}})));
    stage.world.put(merged(foreign("theirs"), json!({"metadata": {"finalizers": [FINALIZER]}})));
    assert_eq!(stage.tick("a").await, after(15 * 60));
    pass(15 * MINUTE - Duration::from_secs(1)).await;
    assert_eq!(stage.tick("a").await, after(1));
    pass(Duration::from_secs(1)).await;
    stage.tick("a").await;
    stage.tick("theirs").await;
    stage.tick("a").await;
    assert!(!stage.has_claim("a"));
    assert!(stage.claim("theirs")["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(stage.cloud.calls("terminate"), 1);
    assert!(stage.world.server.all("ConfigMap").is_empty(), "its machine is gone");
    let text = stage.world.ctx.metrics.encode();
    assert!(text.contains(r#"reason="registration_timeout""#), "{text}");
}

// 02/LI2 differs: 0068. Not for want of a registration, and with the reference's settings for nothing else either.
#[tokio::test(start_paused = true)]
async fn a_registered_claim_is_never_given_up() {
    let stage = Stage::waiting(None);
    stage.world.put(claim("a", json!({})));
    stage.tick("a").await;
    stage.tick("a").await;
    stage.says("a", "Registered", ["True", "Registered", ""]);
    pass(1000 * MINUTE).await;
    stage.tick("a").await;
    assert!(stage.claim("a")["metadata"]["deletionTimestamp"].is_null());
}

// 02/NC1 02/NC2
#[tokio::test(start_paused = true)]
async fn a_claim_expires_at_its_age_and_is_counted_once_with_the_pods_that_move() {
    let stage = Stage::initialized(json!({"spec": {"expireAfter": "9m"}})).await;
    let node = stage.node_name();
    let owner = |kind: &str, version: &str| json!({"metadata": {"ownerReferences": [{"apiVersion": version, "kind": kind, "name": "o", "uid": "o"}]}});
    stage.world.put(pod_on(&node, "p1", "100m"));
    stage.world.put(pod_on(&node, "p2", "100m"));
    stage.world.put(merged(pod_on(&node, "daemon", "100m"), owner("DaemonSet", "apps/v1")));
    stage.world.put(merged(pod_on(&node, "mirror", "100m"), owner("Node", "v1")));
    pass(9 * MINUTE - Duration::from_secs(1)).await;
    assert_eq!(stage.tick("a").await, after(1));
    pass(Duration::from_secs(1)).await;
    stage.tick("a").await;
    assert!(stage.claim("a")["metadata"]["deletionTimestamp"].is_string());
    stage.tick("a").await;
    let text = stage.world.ctx.metrics.encode();
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    let claims = line("karpenter_nodeclaims_disrupted_total");
    assert!(claims.contains(r#"reason="expired""#) && claims.ends_with(" 1"), "{claims}");
    let pods = line("karpenter_pods_disruption_initiated_total");
    assert!(pods.contains(r#"reason="expired""#) && pods.ends_with(" 2"), "{pods}");
}

// 02/NC1 02/NC2
#[tokio::test(start_paused = true)]
async fn expiry_goes_by_the_claims_age_and_needs_no_node() {
    let stage = Stage::with(claim("a", json!({"spec": {"expireAfter": "30s"}})));
    stage.world.put(merged(foreign("theirs"), json!({"spec": {"expireAfter": "30s"}})));
    stage.world.put(claim("forever", json!({"metadata": {"finalizers": [FINALIZER]}})));
    pass(MINUTE).await;
    for name in ["a", "theirs", "forever"] {
        stage.tick(name).await;
    }
    stage.tick("a").await;
    assert!(!stage.has_claim("a"));
    assert!(stage.has_claim("theirs") && stage.has_claim("forever"));
    assert!(stage.counted(&disrupted("expired", 1)));
    let none = disrupted("expired", 0).replace("nodeclaims_disrupted", "pods_disruption_initiated");
    assert!(stage.counted(&none));
}

/// A claim of the pool `default`, which exists and works.
fn pooled(name: &str) -> Value {
    let owner = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": "uid-default"});
    claim(name, json!({"metadata": {"labels": {"karpenter.sh/nodepool": "default"}, "ownerReferences": [owner]}}))
}

// 02/LI8 02/LI10 02/RE12 02/RE14
#[tokio::test(start_paused = true)]
async fn timeouts_and_registrations_are_told_to_the_pool() {
    use crate::pools::health::Health;
    let stage = Stage::new();
    stage.world.put(node_pool("default"));
    let health = || stage.world.ctx.health.of(&"uid-default".into());
    ["a", "b", "c"].into_iter().for_each(|name| stage.world.put(pooled(name)));
    stage.tick("a").await;
    stage.tick("a").await;
    assert_eq!(health(), Health::Healthy);
    pass(6 * MINUTE).await;
    let error = || provider::ProviderError::Unavailable { doing: "launching".to_owned(), source: None };
    stage.cloud.script().launches.extend([error(), error(), error()]);
    stage.tick("b").await;
    assert_eq!(health(), Health::Healthy, "one failure is none");
    stage.tick("c").await;
    assert_eq!(health(), Health::Unhealthy);
    stage.world.server.remove("NodePool", "default");
    stage.world.put(pooled("late"));
    stage.tick("late").await;
    stage.tick("late").await;
    assert!(!stage.has_claim("late"), "a pool that is gone is no obstacle");
}

impl Stage {
    /// With nodes that have so long to initialize.
    fn waiting(initialization_timeout: Option<Duration>) -> Self {
        let settings = crate::settings::Settings { initialization_timeout, ..crate::settings::Settings::default() };
        let (world, cloud) = World::scripted_with(settings);
        world.put(node_class("default"));
        world.put(node_pool("default"));
        Self { world, cloud, lifecycle: Lifecycle::default() }
    }

    /// A claim of the pool whose node registers now, and whose kubelet says nothing.
    async fn registers(&self, name: &str) {
        self.world.put(merged(
            pooled(name),
            json!({"metadata": {"creationTimestamp": self.world.ctx.timestamp().to_string()}}),
        ));
        self.tick(name).await;
        self.tick(name).await;
        self.says(name, "Registered", ["True", "Registered", ""]);
    }

    fn is_deleted(&self, name: &str) -> bool {
        self.claim(name)["metadata"]["deletionTimestamp"].is_string()
    }
}

// Spec 02, flaw 21: there it lives until it expires.
#[tokio::test(start_paused = true)]
async fn a_node_that_never_initializes_is_given_up_with_its_pods() {
    let stage = Stage::waiting(Some(60 * MINUTE));
    stage.registers("a").await;
    stage.world.put(pod_on(&stage.node_name(), "p", "100m"));
    pass(60 * MINUTE - Duration::from_secs(1)).await;
    assert_eq!(stage.tick("a").await, after(1));
    assert!(!stage.is_deleted("a"));
    pass(Duration::from_secs(1)).await;
    stage.tick("a").await;
    assert!(stage.is_deleted("a"));
    let text = "Node was not ready for pods 60 minutes after it registered: Node status is NotReady";
    assert_eq!(stage.told("InitializationTimedOut").await, [text]);
    stage.tick("a").await;
    let node = stage.node();
    assert!(node["metadata"]["deletionTimestamp"].is_string(), "it is drained like any other");
    let text = stage.world.ctx.metrics.encode();
    for name in ["karpenter_nodeclaims_disrupted_total", "karpenter_pods_disruption_initiated_total"] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(line.contains(r#"reason="initialization_timeout""#) && line.ends_with(" 1"), "{line}");
    }
}

// Spec 02, flaw 21
#[tokio::test(start_paused = true)]
async fn a_pool_whose_nodes_never_initialize_gets_more_and_more_time_until_one_does() {
    let stage = Stage::waiting(Some(60 * MINUTE));
    let gives_up_after = async |name: &str, hours: u32| {
        stage.registers(name).await;
        pass(hours * 60 * MINUTE - Duration::from_secs(1)).await;
        stage.tick(name).await;
        assert!(!stage.is_deleted(name), "{name}");
        pass(Duration::from_secs(1)).await;
        stage.tick(name).await;
        assert!(stage.is_deleted(name), "{name}");
        pass(Duration::from_secs(1)).await;
    };
    for (name, hours) in [("a", 1), ("b", 2), ("c", 4)] {
        gives_up_after(name, hours).await;
    }
    // Whoever corrects the pool sees soon whether that helps.
    stage.world.put(merged(node_pool("default"), json!({"metadata": {"generation": 2}})));
    for (name, hours) in [("d", 1), ("e", 2)] {
        gives_up_after(name, hours).await;
    }
    stage.registers("good").await;
    let id = stage.claim("good")["status"]["providerID"].clone();
    let node = stage.world.server.all("Node").into_iter().find(|node| node["spec"]["providerID"] == id).unwrap();
    stage.world.put(merged(node, json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})));
    stage.tick("good").await;
    stage.says("good", "Initialized", ["True", "Initialized", ""]);
    gives_up_after("f", 1).await;
}
