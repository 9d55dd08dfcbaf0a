use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api::NodeClaim;
use provider::{Answer, HookAnswer, ProviderError, RegistrationHook};
use serde_json::json;

use super::*;
use crate::testing::{Trouble, node_pool};

fn with_taints() -> Value {
    json!({
        "metadata": {"labels": {"team": "web"}, "annotations": {"example.com/note": "hello"}},
        "spec": {
            "taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}],
            "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
        },
    })
}

fn taints(node: &Value) -> Vec<String> {
    let text = |taint: &Value, field: &str| taint[field].as_str().unwrap_or_default().to_owned();
    let list = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    list.iter().map(|taint| format!("{}:{}", text(taint, "key"), text(taint, "effect"))).collect()
}

/// A claim whose machine runs and whose Node has not joined yet; then the Node joins as the test wants it.
async fn joined(change: Value, node: Value) -> Stage {
    let stage = Stage::with(claim("a", change));
    stage.world.put(merged(node_class("default"), json!({"spec": {"nodeRegistrationDelay": "10s"}})));
    stage.tick("a").await;
    stage.says("a", "Registered", ["Unknown", "NodeNotFound", "Node not registered with cluster"]);
    let id = stage.claim("a")["status"]["providerID"].as_str().unwrap().to_owned();
    let base = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {}},
        "spec": {"providerID": id, "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]},
    });
    stage.world.put(merged(base, node));
    stage
}

// 02/RE1 02/RE2 02/RE3 02/RE5 02/RE6 02/RE7 02/RE8 02/RE22
#[tokio::test(start_paused = true)]
async fn a_node_that_joins_gets_all_that_its_claim_says() {
    let stage = joined(with_taints(), json!({})).await;
    stage.tick("a").await;
    stage.says("a", "Registered", ["True", "Registered", ""]);
    assert_eq!(stage.claim("a")["status"]["nodeName"], "n");
    let node = stage.node();
    assert_eq!(node["metadata"]["finalizers"], json!([FINALIZER]));
    let labels = &node["metadata"]["labels"];
    assert_eq!((&labels["karpenter.sh/registered"], &labels["team"]), (&json!("true"), &json!("web")));
    assert_eq!(labels[CLASS_LABEL], "default");
    assert!(labels["node.kubernetes.io/instance-type"].is_string());
    assert_eq!(node["metadata"]["annotations"]["example.com/note"], "hello");
    assert_eq!(taints(&node), ["dedicated:NoSchedule", "cni:NoExecute"]);
    let owners = node["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((owners.len(), &owners[0]["name"], &owners[0]["blockOwnerDeletion"]), (1, &json!("a"), &json!(true)));
    let zone = labels["topology.kubernetes.io/zone"].as_str().unwrap();
    assert!(stage.counted(&format!(r#"karpenter_nodes_created_total{{nodepool="",zone="{zone}"}} 1"#)));
    assert!(stage.told("UnregisteredTaintMissing").await.is_empty());
}

// 02/RE2
#[tokio::test(start_paused = true)]
async fn an_owner_that_is_entered_already_is_not_entered_twice() {
    let stage = joined(json!({}), json!({})).await;
    let owner = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "a", "uid": "uid-a"});
    stage.change_node(json!({"metadata": {"ownerReferences": [owner]}}));
    stage.tick("a").await;
    assert_eq!(stage.node()["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
}

// 02/RE4
#[tokio::test(start_paused = true)]
async fn a_node_without_the_unregistered_taint_registers_with_a_warning() {
    let stage = joined(json!({}), json!({"spec": {"taints": null}})).await;
    stage.tick("a").await;
    stage.says("a", "Registered", ["True", "Registered", ""]);
    let text = "Missing karpenter.sh/unregistered taint which prevents registration related race conditions on \
                Karpenter-managed nodes";
    assert_eq!(stage.told("UnregisteredTaintMissing").await, [text]);
}

// 02/RE7 02/RE8
#[tokio::test(start_paused = true)]
async fn taints_that_are_there_win_over_the_claims() {
    let present = json!({"metadata": {"labels": {"karpenter.sh/do-not-sync-taints": "false"}}, "spec": {"taints": [
        {"key": "dedicated", "value": "other", "effect": "NoSchedule"},
        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
    ]}});
    let stage = joined(with_taints(), present).await;
    stage.tick("a").await;
    let node = stage.node();
    assert_eq!(taints(&node), ["dedicated:NoSchedule", "cni:NoExecute"]);
    assert_eq!(node["spec"]["taints"][0]["value"], "other");
}

// 02/RE9 02/RE10
#[tokio::test(start_paused = true)]
async fn a_node_that_asks_us_not_to_gets_no_taints() {
    let stage =
        joined(with_taints(), json!({"metadata": {"labels": {"karpenter.sh/do-not-sync-taints": "true"}}})).await;
    stage.tick("a").await;
    assert!(taints(&stage.node()).is_empty());
    stage.says("a", "Registered", ["True", "Registered", ""]);
}

// 02/RE11
// Spec 02, flaw 31: an agent that is done is not asked again.
#[tokio::test(start_paused = true)]
async fn a_startup_taint_that_was_taken_off_stays_off() {
    let stage = joined(with_taints(), json!({})).await;
    stage.tick("a").await;
    stage.change_node(json!({"spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}));
    stage.tick("a").await;
    stage.tick("a").await;
    assert_eq!(taints(&stage.node()), ["dedicated:NoSchedule"]);
}

/// A hook that says what it is told to say.
struct Hook {
    name: &'static str,
    answer: Mutex<Result<HookAnswer, ProviderError>>,
}

impl RegistrationHook for Hook {
    fn name(&self) -> &str {
        self.name
    }

    fn registered<'a>(&'a self, _claim: &'a NodeClaim) -> Answer<'a, HookAnswer> {
        let answer = self.answer.lock().unwrap().clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            answer
        })
    }
}

fn hook(name: &'static str, answer: Result<HookAnswer, ProviderError>) -> Arc<Hook> {
    Arc::new(Hook { name, answer: Mutex::new(answer) })
}

fn agreed() -> Result<HookAnswer, ProviderError> {
    Ok(HookAnswer::Agreed { labels: BTreeMap::new() })
}

fn pending(seconds: Option<u64>) -> Result<HookAnswer, ProviderError> {
    Ok(HookAnswer::Pending { again_after: seconds.map(Duration::from_secs) })
}

async fn with_hooks(hooks: &[Arc<Hook>]) -> Stage {
    let stage = joined(with_taints(), json!({})).await;
    stage.cloud.script().hooks = hooks.iter().map(|hook| hook.clone() as Arc<dyn RegistrationHook>).collect();
    stage
}

// 02/RE15 02/RE19
#[tokio::test(start_paused = true)]
async fn hooks_that_agree_let_the_node_register() {
    for hooks in [vec![hook("one", agreed())], vec![hook("one", agreed()), hook("two", agreed())]] {
        let stage = with_hooks(&hooks).await;
        stage.tick("a").await;
        stage.says("a", "Registered", ["True", "Registered", ""]);
    }
}

// 02/RE16 02/RE18 02/RE20 02/RE21
#[tokio::test(start_paused = true)]
async fn pending_hooks_hold_the_node_back_and_are_all_named() {
    let hooks = [hook("slow", pending(Some(30))), hook("fine", agreed()), hook("slower", pending(Some(60)))];
    let stage = with_hooks(&hooks).await;
    let begun = stage.world.ctx.now();
    assert_eq!(stage.tick("a").await, after(30));
    assert_eq!(stage.world.ctx.now().since(begun).as_secs(), 1, "they are asked at the same time");
    stage.says("a", "Registered", ["Unknown", "RegistrationHookPending", "slow, slower"]);
    let node = stage.node();
    assert!(node["metadata"]["labels"]["karpenter.sh/registered"].is_null());
    assert_eq!(taints(&node), ["karpenter.sh/unregistered:NoExecute", "dedicated:NoSchedule", "cni:NoExecute"]);
    assert_eq!(node["metadata"]["finalizers"], json!([FINALIZER]));
    // An agent does its work while the hooks still think.
    let left = json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]);
    stage.change_node(json!({"spec": {"taints": left}}));
    *hooks[0].answer.lock().unwrap() = agreed();
    assert_eq!(stage.tick("a").await, after(60));
    stage.says("a", "Registered", ["Unknown", "RegistrationHookPending", "slower"]);
    *hooks[2].answer.lock().unwrap() = agreed();
    stage.tick("a").await;
    stage.says("a", "Registered", ["True", "Registered", ""]);
    assert_eq!(taints(&stage.node()), ["dedicated:NoSchedule"], "its startup taint does not come back");
}

#[tokio::test(start_paused = true)]
async fn hooks_that_do_not_say_when_are_asked_later_and_later() {
    let stage = with_hooks(&[hook("slow", pending(None))]).await;
    for seconds in [1, 2, 4] {
        assert_eq!(stage.tick("a").await, after(seconds));
    }
}

// 02/RE17
#[tokio::test(start_paused = true)]
async fn an_error_of_a_hook_is_reported_and_holds_the_node_back() {
    let error = ProviderError::Unavailable { doing: "asking the network".to_owned(), source: None };
    let stage = with_hooks(&[hook("network", Err(error))]).await;
    let failed = runtime::error::with_causes(&stage.try_tick("a").await.unwrap_err());
    assert!(failed.contains("registration hooks network") && failed.contains("asking the network"), "{failed}");
    stage.says("a", "Registered", ["Unknown", "RegistrationHookPending", "network"]);
}

// 02/RE23
#[tokio::test(start_paused = true)]
async fn labels_of_a_hook_reach_claim_and_node() {
    let labels = BTreeMap::from([("example.com/rack".to_owned(), "r7".to_owned())]);
    let stage = with_hooks(&[hook("racks", Ok(HookAnswer::Agreed { labels }))]).await;
    stage.tick("a").await;
    for object in [stage.claim("a"), stage.node()] {
        assert_eq!(object["metadata"]["labels"]["example.com/rack"], "r7");
    }
}

#[tokio::test(start_paused = true)]
async fn two_nodes_of_one_machine_register_nothing() {
    let stage = joined(json!({}), json!({})).await;
    let twin = merged(stage.node(), json!({"metadata": {"name": "twin", "uid": "other"}}));
    stage.world.put(twin);
    assert_eq!(stage.tick("a").await, after(15 * 60));
    let text = "Invariant violated, matched multiple nodes";
    stage.says("a", "Registered", ["False", "MultipleNodesFound", text]);
}

#[tokio::test(start_paused = true)]
async fn whoever_writes_the_node_meanwhile_is_not_overwritten() {
    let stage = joined(with_taints(), json!({})).await;
    stage.world.sync();
    stage.change_node(json!({"spec": {"taints": [{"key": "theirs", "effect": "NoSchedule"}]}}));
    stage.lifecycle.tick(&stage.world.ctx, &"a".into(), &stage.world.id()).await.unwrap();
    assert_eq!(stage.world.server.asked("PATCH /api/v1/nodes/").len(), 2, "one came too late");
    let node = stage.node();
    let zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().unwrap();
    assert!(stage.counted(&format!(r#"karpenter_nodes_created_total{{nodepool="",zone="{zone}"}} 1"#)));
    assert_eq!(taints(&stage.node()), ["theirs:NoSchedule", "dedicated:NoSchedule", "cni:NoExecute"]);
}

// 02/LI1
#[tokio::test(start_paused = true)]
async fn hooks_that_never_agree_have_fifteen_minutes() {
    let stage = with_hooks(&[hook("slow", pending(Some(3600)))]).await;
    assert_eq!(stage.tick("a").await, after(899), "the hook took a second to answer");
    pass(Duration::from_secs(899)).await;
    stage.tick("a").await;
    assert!(stage.claim("a")["metadata"]["deletionTimestamp"].is_string());
    let text = stage.world.ctx.metrics.encode();
    assert!(text.contains(r#"reason="registration_timeout""#), "{text}");
}

const NODE: &str = "PATCH /api/v1/nodes/n";

// 02/LI1
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_written_has_fifteen_minutes_too() {
    let stage = joined(json!({}), json!({})).await;
    (0..3).for_each(|_| stage.world.server.trouble(NODE, Trouble::Refuses(500)));
    assert!(stage.try_tick("a").await.is_err());
    pass(Duration::from_secs(14 * 60)).await;
    assert!(stage.try_tick("a").await.is_err());
    pass(Duration::from_secs(60)).await;
    stage.tick("a").await;
    assert!(stage.claim("a")["metadata"]["deletionTimestamp"].is_string());
    let line = r#"karpenter_nodeclaims_disrupted_total{reason="registration_timeout""#;
    let text = stage.world.ctx.metrics.encode();
    assert!(text.lines().any(|found| found.starts_with(line) && found.ends_with(" 1")), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_written_keeps_the_claim_from_nothing_else() {
    let stage = Stage::with(claim("a", json!({})));
    // The machine is there with its Node, and the claim has not learned of either.
    stage.world.server.trouble("PATCH /apis/karpenter.sh/v1/nodeclaims/a/status", Trouble::Refuses(500));
    assert!(stage.try_tick("a").await.is_err());
    assert!(stage.claim("a")["status"]["providerID"].is_null());
    stage.world.server.trouble("PATCH /api/v1/nodes", Trouble::Refuses(500));
    assert!(stage.try_tick("a").await.is_err());
    stage.says("a", "Launched", ["True", "Launched", ""]);
    assert_eq!(stage.claim("a")["status"]["providerID"], stage.node()["spec"]["providerID"]);
    assert_eq!(stage.condition("a", "Registered")[0], "Unknown");
    assert_eq!(stage.condition("a", "Ready")[0], "Unknown");
    assert!(stage.claim("a")["status"]["nodeName"].is_null());
    stage.tick("a").await;
    stage.says("a", "Registered", ["True", "Registered", ""]);
}

// 02/RE13
#[tokio::test(start_paused = true)]
async fn what_must_be_written_again_is_counted_and_told_once() {
    use crate::pools::health::{Health, Outcome};
    let owner = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": "uid-default"});
    let pooled = json!({"metadata": {"labels": {"karpenter.sh/nodepool": "default"}, "ownerReferences": [owner]}});
    let stage = joined(pooled, json!({})).await;
    stage.world.put(node_pool("default"));
    let pool = "uid-default".into();
    let failed = || Outcome::Failed { reason: "x".to_owned(), message: "x".to_owned() };
    (0..4).for_each(|_| stage.world.ctx.health.note(&pool, failed()));
    for _ in 0..3 {
        stage.world.server.trouble("PATCH /apis/karpenter.sh/v1/nodeclaims/a/status", Trouble::Refuses(409));
    }
    stage.tick("a").await;
    let zone = stage.claim("a")["metadata"]["labels"]["topology.kubernetes.io/zone"].as_str().unwrap().to_owned();
    assert!(stage.counted(&format!(r#"karpenter_nodes_created_total{{nodepool="default",zone="{zone}"}} 1"#)));
    assert_eq!(stage.world.ctx.health.of(&pool), Health::Unhealthy, "three of the last four failed");
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_does_not_answer_counts_as_one_that_failed() {
    struct Silent;
    impl RegistrationHook for Silent {
        fn name(&self) -> &str {
            "silent"
        }

        fn registered<'a>(&'a self, _claim: &'a NodeClaim) -> Answer<'a, HookAnswer> {
            Box::pin(std::future::pending())
        }
    }
    let stage = joined(with_taints(), json!({})).await;
    stage.cloud.script().hooks = vec![Arc::new(Silent)];
    let failed = runtime::error::with_causes(&stage.try_tick("a").await.unwrap_err());
    assert!(failed.contains("waiting 30 seconds for silent"), "{failed}");
    stage.says("a", "Registered", ["Unknown", "RegistrationHookPending", "silent"]);
}
