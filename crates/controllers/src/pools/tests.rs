mod registration;

use api::conditions::{Condition, ConditionStatus, READY};
use cluster::store::{NodeClass, PoolUsage};
use cluster::{Kind, Object, Store};
use jiff::Timestamp;
use model::ids::Uid;
use model::instance::{InstanceType, Offering};
use model::price::Price;
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::Resources;
use serde_json::{Value, json};

use super::health::{CONDITION, Health, Outcome, RegistrationHealth};
use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().unwrap()
}

fn pool(change: impl FnOnce(&mut Value)) -> NodePool {
    let mut wire = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "a", "uid": "a-uid", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        }}},
    });
    change(&mut wire);
    serde_json::from_value(wire).unwrap()
}

fn condition(type_: &str, status: &str, generation: i64) -> Value {
    json!({
        "type": type_, "status": status, "reason": "Because", "message": "of that", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:30Z",
    })
}

fn class(ready: Option<&str>) -> NodeClass {
    NodeClass {
        kind: Kind::KwokNodeClass,
        name: "default".into(),
        generation: 7,
        is_deleting: false,
        ready: ready.map(|status| serde_json::from_value(condition(READY, status, 7)).unwrap()),
        hash: None,
        revision: None,
    }
}

fn status_of(pool: &NodePool, class: Option<&NodeClass>) -> api::nodepool::NodePoolStatus {
    let problems = validate::node_pool(&pool.spec, &api::labels::LabelRules::default());
    let usage = PoolUsage::default();
    let seen = Seen { class, problems: &problems, usage: Some(&usage), health: None };
    status::wanted(pool, &seen, now())
}

fn find<'a>(conditions: &'a [Condition], type_: &str) -> &'a Condition {
    conditions.iter().find(|condition| condition.type_ == type_).unwrap()
}

// 01/API-23, 02/NP3
#[test]
fn a_pool_tells_apart_what_its_class_may_be() {
    let deleting = NodeClass { is_deleting: true, ..class(Some("True")) };
    for (class, status, reason, message) in [
        (None, ConditionStatus::False, "NodeClassNotFound", "KWOKNodeClass \"default\" does not exist; create it"),
        (Some(deleting), ConditionStatus::False, "NodeClassTerminating", "is being deleted; name another"),
        (Some(class(None)), ConditionStatus::False, "NodeClassReadinessUnknown", "does not say yet"),
        (Some(class(Some("Unknown"))), ConditionStatus::False, "NodeClassReadinessUnknown", "kubectl describe"),
        (Some(class(Some("False"))), ConditionStatus::False, "Because", "of that"),
        (Some(class(Some("True"))), ConditionStatus::True, "NodeClassReady", ""),
    ] {
        let found = status_of(&pool(|_| ()), class.as_ref());
        let condition = find(&found.conditions, "NodeClassReady");
        assert_eq!((condition.status, condition.reason.as_str()), (status, reason));
        assert!(condition.message.contains(message), "{}", condition.message);
        assert_eq!(find(&found.conditions, READY).status, status, "{reason}");
        assert_eq!(found.node_class_observed_generation, class.map(|class| class.generation));
    }
}

// 02/NP5
#[test]
fn everything_that_is_wrong_with_a_pool_stands_in_its_condition() {
    let requirement = |key: &str, values: Value| json!([{"key": key, "operator": "In", "values": values}]);
    let with = |part: &str, value: Value| {
        let pool = pool(|wire| {
            wire["spec"]["template"]["metadata"] = json!({});
            wire.pointer_mut(&format!("/spec/template/{}", part.rsplit_once('/').unwrap().0)).unwrap()
                [part.rsplit_once('/').unwrap().1] = value;
        });
        status_of(&pool, Some(&class(Some("True"))))
    };
    let capacity_type = api::labels::CAPACITY_TYPE;
    for (part, value, expected) in [
        ("spec/requirements", requirement(capacity_type, json!(["hourly"])), "none of the values"),
        ("metadata/labels", json!({"karpenter.sh/mine": "x"}), "labels[karpenter.sh/mine]: the label is restricted"),
        ("spec/taints", json!([{"key": "a b", "effect": "NoSchedule"}]), "taints[0]: key \"a b\""),
        ("spec/requirements", requirement("example.com/a", json!([])), "operator In on example.com/a needs"),
    ] {
        let found = with(part, value);
        let condition = find(&found.conditions, "ValidationSucceeded");
        assert_eq!(condition.status, ConditionStatus::False);
        assert_eq!(condition.reason, "NodePoolValidationFailed");
        assert!(condition.message.contains(expected), "{}", condition.message);
        assert_eq!(find(&found.conditions, READY).status, ConditionStatus::False);
    }
    let mixed = with("spec/requirements", requirement(capacity_type, json!(["hourly", "spot"])));
    assert_eq!(find(&mixed.conditions, READY).status, ConditionStatus::True);
}

// 01/API-26, 02/NP1
#[test]
fn counts_name_every_base_resource_also_at_zero() {
    let empty = status_of(&pool(|_| ()), None);
    let texts: Vec<String> = empty.resources.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    assert_eq!(texts, ["cpu=0", "ephemeral-storage=0", "memory=0", "nodes=0", "pods=0"]);
    assert_eq!(empty.nodes, 0);
}

fn apply(store: &mut Store, wire: Value) {
    let kind = Kind::ALL.iter().find(|kind| wire["kind"] == kind.as_str()).unwrap();
    let object = Object::decode(*kind, wire.to_string().as_bytes()).unwrap();
    store.apply(object, model::time::Instant::from_unix_seconds(100));
}

fn claim(name: &str, pool: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "uid": name, "labels": {
            "karpenter.sh/nodepool": pool, "karpenter.kwok.sh/kwoknodeclass": "default",
        }},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {
            "providerID": format!("kwok://{name}"), "capacity": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
            "allocatable": {"cpu": cpu},
        },
    })
}

fn node(name: &str, pool: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("{name}-node"), "labels": {
            "karpenter.sh/nodepool": pool, "karpenter.kwok.sh/kwoknodeclass": "default",
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
            "node.kubernetes.io/instance-type": "m",
        }},
        "spec": {"providerID": format!("kwok://{name}")},
        "status": {"capacity": {"cpu": cpu, "memory": "8Gi", "pods": "110"}, "allocatable": {"cpu": cpu}},
    })
}

// 01/API-26, 02/NP1
#[test]
fn counts_follow_claims_then_nodes_up_and_down() {
    let classes = cluster::lower::node::NodeClasses::new([("karpenter.kwok.sh", "KWOKNodeClass")]);
    let settings = cluster::Settings { classes, ..cluster::Settings::default() };
    let mut store = Store::new(settings, model::time::Instant::from_unix_seconds(0));
    for pool in [
        pool(|_| ()),
        pool(|wire| {
            wire["metadata"]["name"] = json!("fixed");
            wire["spec"]["replicas"] = json!(1);
        }),
        pool(|wire| {
            wire["metadata"]["name"] = json!("foreign");
            wire["spec"]["template"]["spec"]["nodeClassRef"]["kind"] = json!("OtherNodeClass");
        }),
    ] {
        apply(&mut store, serde_json::to_value(pool).unwrap());
    }
    let counted = |store: &Store, pool: &str| {
        let usage = store.pool_usage().remove(&PoolName::from(pool)).unwrap_or_default();
        let resources = counter::resources(&usage);
        (resources["cpu"].to_string(), resources["memory"].to_string(), resources["nodes"].to_string())
    };
    let text = |cpu: &str, memory: &str, nodes: &str| (cpu.to_owned(), memory.to_owned(), nodes.to_owned());
    assert_eq!(counted(&store, "a"), text("0", "0", "0"));
    apply(&mut store, claim("x", "a", "4"));
    assert_eq!(counted(&store, "a"), text("4", "8Gi", "1"), "the claim's promise");
    apply(&mut store, node("x", "a", "3900m"));
    assert_eq!(counted(&store, "a"), text("3900m", "8Gi", "1"), "what the node really has");
    apply(&mut store, claim("y", "a", "2"));
    apply(&mut store, claim("z", "fixed", "1"));
    assert_eq!(counted(&store, "a"), text("5900m", "16Gi", "2"));
    assert_eq!(counted(&store, "fixed"), text("1", "8Gi", "1"), "static pools count too");
    let mut leaving = claim("y", "a", "2");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    apply(&mut store, leaving);
    assert_eq!(counted(&store, "a"), text("3900m", "8Gi", "1"));
    // 01/API-22
    assert!(
        store.node_pool(&PoolName::from("foreign")).is_none(),
        "a pool of somebody else's class is not seen at all"
    );
}

fn machine(name: &str, zone: &str) -> Arc<InstanceType> {
    let is = |value: &str| Requirement::new(Operator::In, [value]);
    Arc::new(InstanceType {
        name: name.into(),
        requirements: Requirements::default()
            .with("node.kubernetes.io/instance-type", is(name))
            .with("kubernetes.io/arch", is("amd64")),
        capacity: Resources::default(),
        overhead: Resources::default(),
        offerings: vec![Offering {
            requirements: Requirements::default().with("topology.kubernetes.io/zone", is(zone)),
            price: Price::from_pico(1),
            is_available: true,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
            has_price_overlay: false,
        }],
        attach_limits: model::volume::AttachLimits::default(),
        has_capacity_overlay: false,
    })
}

fn starved_by(requirements: Value) -> Option<starved::Starved> {
    let wire = pool(|wire| wire["spec"]["template"]["spec"]["requirements"] = requirements);
    let types = vec![machine("m1", "a"), machine("m2", "b")];
    starved::starved(&cluster::lower::pool::pool(&wire, types))
}

#[test]
fn a_pool_that_can_buy_nothing_is_told_which_requirement_is_to_blame() {
    let requirement = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    assert_eq!(starved_by(json!([])), None);
    assert_eq!(starved_by(json!([requirement("example.com/team", &["a"])])), None, "a label of one's own");
    let arch = starved_by(json!([requirement("kubernetes.io/arch", &["arm64"])])).unwrap();
    assert_eq!(arch.filtered, events::Filtered::ByRequirements);
    assert!(
        arch.message.contains("without it 2 would do, so allow more values for kubernetes.io/arch"),
        "{}",
        arch.message
    );
    let zone = json!([
        requirement("node.kubernetes.io/instance-type", &["m1"]),
        requirement("topology.kubernetes.io/zone", &["b"])
    ]);
    assert!(starved_by(zone).unwrap().message.contains("without it 1 would do"));
    let both =
        json!([requirement("kubernetes.io/arch", &["arm64"]), requirement("topology.kubernetes.io/zone", &["c"])]);
    assert!(starved_by(both).unwrap().message.contains("loosen at least two of them"));
    let twice = json!([requirement("example.com/team", &["a"]), requirement("example.com/team", &["b"])]);
    assert!(starved_by(twice).unwrap().message.contains("on example.com/team exclude each other"));
    let few = json!([{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "minValues": 3}]);
    let few = starved_by(few).unwrap();
    assert_eq!(few.filtered, events::Filtered::ByMinValues);
    assert!(few.message.contains("is 3, but") && few.message.contains("only 2 values"), "{}", few.message);
}

#[test]
fn a_broken_schedule_is_told_with_its_place_and_what_it_stops() {
    let wire = pool(|wire| {
        wire["spec"]["disruption"] = json!({"budgets": [
            {"nodes": "1"},
            {"nodes": "0", "schedule": "61 * * * *", "duration": "1h"},
        ]});
    });
    let message = budget_message(&cluster::lower::pool::pool(&wire, Vec::new())).unwrap();
    assert!(message.starts_with("spec.disruption.budgets[1]: "), "{message}");
    assert!(
        message.contains("61") && message.ends_with("no node of this pool is disrupted until that is corrected"),
        "{message}"
    );
    assert_eq!(budget_message(&cluster::lower::pool::pool(&pool(|_| ()), Vec::new())), None);
}

mod ticks {
    use super::*;
    use crate::testing::{World, merged, node_class, node_pool};

    fn name() -> PoolName {
        PoolName::from("a")
    }

    async fn tick(world: &World, pools: &Pools) -> Next {
        world.sync();
        pools.tick(&world.ctx, &name(), &world.id()).await.unwrap()
    }

    fn fresh_pool() -> Value {
        merged(node_pool("a"), json!({"status": null}))
    }

    // 02/NP1, 02/NP3, 02/NP4
    #[tokio::test(start_paused = true)]
    async fn a_new_pool_gets_its_whole_status_in_one_write() {
        let world = World::new();
        world.put(node_class("default"));
        world.put(fresh_pool());
        assert_eq!(tick(&world, &Pools::default()).await, Next::OnChange);
        assert_eq!(world.server.asked("PATCH /apis/karpenter.sh/v1/nodepools/a").len(), 2, "the stamp and the status");
        let written = world.server.get("NodePool", "a").unwrap();
        let conditions = written["status"]["conditions"].as_array().unwrap();
        let shown: Vec<String> = conditions
            .iter()
            .map(|c| format!("{}={}", c["type"].as_str().unwrap(), c["status"].as_str().unwrap()))
            .collect();
        for expected in
            ["ValidationSucceeded=True", "NodeClassReady=True", "NodeRegistrationHealthy=Unknown", "Ready=True"]
        {
            assert!(shown.contains(&expected.to_owned()), "{shown:?}");
        }
        assert_eq!(written["status"]["resources"]["nodes"], "0");
        assert_eq!(written["status"]["nodeClassObservedGeneration"], 1);
        tick(&world, &Pools::default()).await;
        assert_eq!(world.server.asked("PATCH /apis/karpenter.sh/v1/nodepools/a").len(), 2, "nothing is written twice");
    }

    // 01/API-26
    #[tokio::test(start_paused = true)]
    async fn counts_are_written_at_most_every_five_seconds() {
        let world = World::new();
        world.put(node_class("default"));
        world.put(node_pool("a"));
        let pools = Pools::default();
        tick(&world, &pools).await;
        let writes = || world.server.asked("PATCH /apis/karpenter.sh/v1/nodepools/a/status").len();
        let before = writes();
        world.put(claim("x", "a", "4"));
        let Next::After(wait) = tick(&world, &pools).await else { panic!("it must come back to count") };
        assert_eq!((writes(), wait), (before, COUNT_EVERY));
        tokio::time::sleep(wait).await;
        tick(&world, &pools).await;
        assert_eq!(writes(), before + 1);
        let status = &world.server.get("NodePool", "a").unwrap()["status"];
        assert_eq!((&status["nodes"], &status["resources"]["cpu"]), (&json!(1), &json!("4")));
    }

    // 01/API-22, 02/NP3
    #[tokio::test(start_paused = true)]
    async fn pools_of_somebody_elses_class_are_left_alone() {
        let world = World::new();
        let foreign =
            json!({"spec": {"template": {"spec": {"nodeClassRef": {"group": "other.sh", "kind": "OtherNodeClass"}}}}});
        world.put(merged(fresh_pool(), foreign));
        let before = world.server.get("NodePool", "a");
        assert_eq!(tick(&world, &Pools::default()).await, Next::OnChange);
        assert_eq!(world.server.get("NodePool", "a"), before);
    }

    fn stamped(version: &str, hash: &str) -> Value {
        let annotations = json!({"karpenter.sh/nodepool-hash": hash, "karpenter.sh/nodepool-hash-version": version});
        json!({"metadata": {"annotations": annotations}})
    }

    // 01/API-25, 02/NP2
    #[tokio::test(start_paused = true)]
    async fn a_pool_of_another_version_is_stamped_again_with_its_claims_but_not_drifted_ones() {
        let world = World::new();
        world.put(node_class("default"));
        world.put(merged(node_pool("a"), stamped("v3", "1")));
        world.put(merged(claim("plain", "a", "1"), stamped("v3", "1")));
        world.put(merged(claim("other", "b", "1"), stamped("v3", "1")));
        let drifted = json!({"status": {"conditions": [condition("Drifted", "True", 1)]}});
        world.put(merged(merged(claim("drifted", "a", "1"), stamped("v3", "0")), drifted));
        tick(&world, &Pools::default()).await;
        let stamp = |kind: &str, name: &str| {
            let annotations = &world.server.get(kind, name).unwrap()["metadata"]["annotations"];
            let text = |key: &str| annotations[key].as_str().unwrap().to_owned();
            (text("karpenter.sh/nodepool-hash-version"), text("karpenter.sh/nodepool-hash"))
        };
        let (version, hash) = stamp("NodePool", "a");
        assert_eq!(version, api::hash::NODE_POOL_HASH_VERSION);
        assert_eq!(stamp("NodeClaim", "plain"), (version.clone(), hash));
        assert_eq!(stamp("NodeClaim", "drifted"), (version, "0".to_owned()), "what has drifted stays so");
        assert_eq!(stamp("NodeClaim", "other"), ("v3".to_owned(), "1".to_owned()), "another pool's");
    }

    // Spec 02, flaw 30: there a template that is changed while nobody looks, across a new version, is taken for the old one.
    #[tokio::test(start_paused = true)]
    async fn a_template_that_changed_before_it_was_stamped_again_shows_on_its_claims() {
        let world = World::new();
        world.put(node_class("default"));
        let tainted = json!({"spec": {"template": {"spec": {"taints": [{"key": "new", "effect": "NoSchedule"}]}}}});
        world.put(merged(merged(node_pool("a"), stamped("v3", "1")), tainted));
        world.put(merged(claim("old", "a", "1"), stamped("v3", "1")));
        let taints = json!({"spec": {"taints": [{"key": "new", "effect": "NoSchedule"}]}});
        world.put(merged(merged(claim("new", "a", "1"), stamped("v3", "1")), taints.clone()));
        // Whoever was here before had stamped the pool, and had no time to mark this one, which shows nothing.
        world.put(merged(merged(claim("unmarked", "a", "1"), stamped("v3", "0")), taints));
        tick(&world, &Pools::default()).await;
        let hash = |kind: &str, name: &str| {
            let annotations = world.server.get(kind, name).unwrap()["metadata"]["annotations"].clone();
            assert_eq!(annotations["karpenter.sh/nodepool-hash-version"], api::hash::NODE_POOL_HASH_VERSION);
            annotations["karpenter.sh/nodepool-hash"].clone()
        };
        let current = hash("NodePool", "a");
        assert_eq!(hash("NodeClaim", "new"), current);
        assert_ne!(hash("NodeClaim", "old"), current, "so that it shows as drifted");
        assert_eq!(hash("NodeClaim", "unmarked"), json!("0"));
        // It has the hash of what it was made from, so it has not drifted from a pool that is what it was.
        let before = hash("NodeClaim", "old");
        world.put(merged(
            world.server.get("NodePool", "a").unwrap(),
            json!({"spec": {"template": {"spec": {"taints": []}}}}),
        ));
        tick(&world, &Pools::default()).await;
        assert_eq!(hash("NodePool", "a"), before);
    }

    // 01/API-25, 02/NP2
    #[tokio::test(start_paused = true)]
    async fn with_equal_versions_a_changed_template_stamps_the_pool_alone() {
        let world = World::new();
        let version = api::hash::NODE_POOL_HASH_VERSION;
        world.put(node_class("default"));
        world.put(merged(node_pool("a"), stamped(version, "1")));
        world.put(merged(claim("plain", "a", "1"), stamped(version, "1")));
        tick(&world, &Pools::default()).await;
        let hash = |kind: &str, name: &str| {
            world.server.get(kind, name).unwrap()["metadata"]["annotations"]["karpenter.sh/nodepool-hash"].clone()
        };
        assert_ne!(hash("NodePool", "a"), json!("1"));
        assert_eq!(hash("NodeClaim", "plain"), json!("1"), "so that it shows as drifted");
        let weight = json!({"spec": {"weight": 10, "limits": {"cpu": "5"}}});
        let before = hash("NodePool", "a");
        world.put(merged(world.server.get("NodePool", "a").unwrap(), weight));
        tick(&world, &Pools::default()).await;
        assert_eq!(hash("NodePool", "a"), before, "weight and limits are not what nodes are made from");
    }

    // 01/API-23
    #[tokio::test(start_paused = true)]
    async fn a_missing_class_and_broken_input_are_told_and_stop_nothing_else() {
        let world = World::new();
        world.put(fresh_pool());
        world.put(merged(
            node_pool("b"),
            json!({"spec": {"disruption": {"budgets": [
            {"nodes": "1", "schedule": "bad cron", "duration": "1h"}]}}}),
        ));
        world.put(merged(node_class("other"), json!({})));
        world.sync();
        let pools = Pools::default();
        for pool in ["a", "b"] {
            pools.tick(&world.ctx, &PoolName::from(pool), &world.id()).await.unwrap();
        }
        let conditions = world.server.get("NodePool", "a").unwrap()["status"]["conditions"].clone();
        let conditions: Vec<Condition> = serde_json::from_value(conditions).unwrap();
        assert_eq!(find(&conditions, "NodeClassReady").reason, "NodeClassNotFound");
        assert_eq!(find(&conditions, READY).status, ConditionStatus::False);
        world.run(Duration::from_secs(5)).await;
        let events = world.events();
        let told = events.iter().find(|(reason, _)| reason == "InvalidDisruptionBudget").unwrap();
        assert!(told.1.starts_with("spec.disruption.budgets[0]: "), "{}", told.1);
    }

    // 02/RE14, 02/LI10
    #[tokio::test(start_paused = true)]
    async fn outcomes_of_claims_whose_pool_is_gone_or_another_are_passed_over() {
        let world = World::new();
        world.put(node_class("default"));
        world.put(node_pool("a"));
        world.sync();
        let uid = world.server.get("NodePool", "a").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        let owned = |owner: &str, pool: &str| -> api::NodeClaim {
            let owner = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": pool, "uid": owner});
            let wire = merged(claim("x", pool, "1"), json!({"metadata": {"ownerReferences": [owner]}}));
            serde_json::from_value(wire).unwrap()
        };
        health::note_registered(&world.ctx, &owned(&uid, "gone"));
        health::note_failed(&world.ctx, &owned("former", "a"));
        assert_eq!(world.ctx.health.of(&Uid::from(uid.as_str())), Health::Unknown);
        health::note_registered(&world.ctx, &owned(&uid, "a"));
        assert_eq!(world.ctx.health.of(&Uid::from(uid.as_str())), Health::Healthy);
    }

    // 02/LI8
    #[tokio::test(start_paused = true)]
    async fn failures_show_on_the_pool_with_what_the_launch_said() {
        let world = World::new();
        world.put(node_class("default"));
        world.put(node_pool("a"));
        let pools = Pools::default();
        tick(&world, &pools).await;
        let uid = world.server.get("NodePool", "a").unwrap()["metadata"]["uid"].clone();
        let owner = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "a", "uid": uid});
        let unlaunched = json!({
            "metadata": {"ownerReferences": [owner]}, "status": {"conditions": [condition("Launched", "Unknown", 1)]},
        });
        let failed: api::NodeClaim = serde_json::from_value(merged(claim("x", "a", "1"), unlaunched)).unwrap();
        health::note_failed(&world.ctx, &failed);
        health::note_failed(&world.ctx, &failed);
        tick(&world, &pools).await;
        let conditions = world.server.get("NodePool", "a").unwrap()["status"]["conditions"].clone();
        let conditions: Vec<Condition> = serde_json::from_value(conditions).unwrap();
        let healthy = find(&conditions, CONDITION);
        assert_eq!((healthy.status, healthy.reason.as_str()), (ConditionStatus::False, "Because"));
        assert_eq!(find(&conditions, READY).status, ConditionStatus::True, "it informs and stops nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pool_that_cannot_be_stamped_is_judged_all_the_same() {
        let world = World::new();
        world.put(node_class("default"));
        world.put(fresh_pool());
        world.put(claim("x", "a", "1"));
        world.server.trouble("PATCH /apis/karpenter.sh/v1/nodeclaims/x", crate::testing::Trouble::Refuses(422));
        world.sync();
        let failed = Pools::default().tick(&world.ctx, &name(), &world.id()).await.unwrap_err();
        assert_eq!(failed.to_string(), "stamping nodeclaim x");
        let conditions = world.server.get("NodePool", "a").unwrap()["status"]["conditions"].clone();
        let conditions: Vec<Condition> = serde_json::from_value(conditions).unwrap();
        assert_eq!(find(&conditions, READY).status, ConditionStatus::True);
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_pool_that_is_gone_nothing_is_remembered() {
        let world = World::new();
        world.put(node_class("default"));
        world.put(node_pool("a"));
        let pools = Pools::default();
        tick(&world, &pools).await;
        let uid = Uid::from("uid-a");
        world.ctx.health.note(&uid, Outcome::Registered);
        world.server.remove("NodePool", "a");
        tick(&world, &pools).await;
        assert_eq!(world.ctx.health.of(&uid), Health::Unknown);
    }
}
