use serde_json::{Value, json};

use crate::testing::{World, merged, node_class, node_pool, pending_pod, pod_on};

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": "2025-12-31T23:59:00Z", "labels": {
            "karpenter.sh/nodepool": "a", "karpenter.kwok.sh/kwoknodeclass": "default",
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
            "node.kubernetes.io/instance-type": "c-4x-amd64-linux", "topology.kubernetes.io/zone": "test-zone-a",
            "karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64",
        }},
        "spec": {"providerID": format!("kwok://{name}")},
        "status": {
            "phase": "Running", "capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "3900m", "memory": "8Gi"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": "2025-12-31T23:59:30Z"}],
        },
    })
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "a", "karpenter.kwok.sh/kwoknodeclass": "default"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [],
        },
        "status": {"providerID": format!("kwok://{name}"), "capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
    })
}

fn foreign_node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "creationTimestamp": "2025-12-31T23:59:00Z"},
        "status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}},
    })
}

/// The lines about a metric, with labels sorted, so that their order does not matter.
fn lines(world: &World, metric: &str) -> Vec<String> {
    let text = world.ctx.metrics.scrape(&world.ctx);
    let of_metric = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(metric));
    of_metric.map(ToOwned::to_owned).collect()
}

#[track_caller]
fn check(world: &World, metric: &str, parts: &[&str], value: &str) {
    let lines = lines(world, metric);
    let has = |line: &&String| parts.iter().all(|part| line.contains(part)) && line.ends_with(&format!(" {value}"));
    assert!(lines.iter().any(|line| has(&line)), "{parts:?} {value} is not among {lines:#?}");
}

// 02/OP7
#[tokio::test(start_paused = true)]
async fn nodes_and_pools_are_told_with_whose_they_are_and_vanish_with_the_object() {
    let world = World::new();
    world.put(node_class("default"));
    world.put(merged(node_pool("a"), json!({"spec": {"limits": {"cpu": "100", "example.com/gpu-slots": "5"}}})));
    world.put(claim("n1"));
    world.put(node("n1"));
    world.put(foreign_node("theirs"));
    let limits = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]}});
    world.put(merged(pod_on("n1", "web", "1"), limits));
    let daemon = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}]}});
    world.put(merged(pod_on("n1", "agent", "500m"), daemon));
    world.sync();

    let ours =
        [r#"node_name="n1""#, r#"managed="true""#, r#"nodepool="a""#, r#"zone="test-zone-a""#, r#"phase="Running""#];
    let cpu = |parts: &[&'static str]| [parts, &[r#"resource_type="cpu""#]].concat();
    check(&world, "karpenter_nodes_allocatable", &cpu(&ours), "3.9");
    check(&world, "karpenter_nodes_total_pod_requests", &cpu(&ours), "1.5");
    check(&world, "karpenter_nodes_total_pod_limits", &cpu(&ours), "2");
    check(&world, "karpenter_nodes_total_daemon_requests", &cpu(&ours), "0.5");
    check(&world, "karpenter_nodes_system_overhead", &cpu(&ours), "0.1");
    check(&world, "karpenter_nodes_current_lifetime_seconds", &ours, "60");
    check(&world, "karpenter_nodes_allocatable", &[r#"node_name="theirs""#, r#"managed="false""#], "2");
    check(&world, "karpenter_nodepools_limit", &[r#"nodepool="a""#, r#"resource_type="example.com/gpu_slots""#], "5");
    check(&world, "karpenter_nodepools_usage", &[r#"nodepool="a""#, r#"resource_type="nodes""#], "1");
    check(&world, "karpenter_nodepools_usage", &[r#"nodepool="a""#, r#"resource_type="cpu""#], "4");
    check(
        &world,
        "karpenter_cluster_utilization_percent",
        &[r#"resource_type="cpu""#],
        &(1.5 / 5.9 * 100.0).to_string(),
    );
    check(&world, "karpenter_cluster_state_node_count", &[], "2");
    check(&world, "karpenter_cluster_state_synced", &[], "1");
    let condition =
        [r#"name="n1""#, r#"type="Ready""#, r#"reason="KubeletReady""#, r#"karpenter_sh_initialized="true""#];
    check(&world, "operator_node_status_condition_current_status_seconds", &condition, "30");

    world.server.remove("NodeClaim", "n1");
    world.server.remove("Node", "n1");
    world.server.remove("NodePool", "a");
    world.sync();
    let text = world.ctx.metrics.scrape(&world.ctx);
    assert!(!text.contains(r#""n1""#) && !text.contains(r#"nodepool="a""#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_pool_costs_what_its_machines_cost_as_they_were_bought() {
    let world = World::new();
    world.put(node_class("default"));
    world.put(node_pool("a"));
    world.put(claim("n1"));
    world.put(node("n1"));
    world.sync();
    check(&world, "karpenter_nodepools_cost_total", &[r#"nodepool="a""#], "0");
    let menu = provider::kwok::types::Menu::generated();
    let spot = menu.types().iter().find(|it| it.name.as_str() == "c-4x-amd64-linux").unwrap();
    let price =
        spot.offerings.iter().find(|it| it.capacity_type() == Some(model::instance::CapacityType::Spot)).unwrap().price;
    world.ctx.tell(|store, now| store.set_catalog(&"a".into(), menu.types().to_vec(), now));
    check(&world, "karpenter_nodepools_cost_total", &[r#"nodepool="a""#], &price.dollars().to_string());
}

// 02/NP10
#[tokio::test(start_paused = true)]
async fn the_cost_of_pools_follows_machines_prices_and_overlays() {
    use model::instance::{CapacityType, InstanceType};
    use model::price::Price;
    let world = World::new();
    world.put(node_class("default"));
    world.put(node_pool("a"));
    world.put(node_pool("b"));
    let on_demand = json!({"metadata": {"labels": {"karpenter.sh/capacity-type": "on-demand"}}});
    world.put_machine("m1", "a", json!({}), json!({}));
    world.put_machine("m2", "a", on_demand.clone(), on_demand);
    world.put_machine("m3", "b", json!({}), json!({}));
    world.sync();
    // A spot machine costs one, one on demand three.
    let sell = |pool: &str, spot: i64, on_demand: i64| {
        let menu = provider::kwok::types::Menu::generated();
        let priced = menu.types().iter().map(|found| {
            let mut found = InstanceType::clone(found);
            for offering in &mut found.offerings {
                let dollars = if offering.capacity_type() == Some(CapacityType::Spot) { spot } else { on_demand };
                offering.price = Price::from_pico(dollars * 1_000_000_000_000);
            }
            std::sync::Arc::new(found)
        });
        let priced = priced.collect();
        world.ctx.tell(|store, now| store.set_catalog(&pool.into(), priced, now));
    };
    let costs = |a: &str, b: &str| {
        check(&world, "karpenter_nodepools_cost_total", &[r#"nodepool="a""#], a);
        check(&world, "karpenter_nodepools_cost_total", &[r#"nodepool="b""#], b);
    };
    sell("a", 1, 3);
    sell("b", 1, 3);
    costs("4", "1");
    world.sync();
    costs("4", "1");
    // What overlays change is what the catalogue of the pool says.
    sell("a", 5, 3);
    costs("8", "1");
    world.server.remove("NodeClaim", "m3");
    world.server.remove("Node", "m3");
    world.sync();
    costs("8", "0");
    world.put_machine("m3", "b", json!({}), json!({}));
    world.sync();
    costs("8", "1");
}

// 02/OP6
#[tokio::test(start_paused = true)]
async fn a_pod_is_followed_from_its_creation_to_its_end() {
    let world = World::new();
    world.put(node_class("default"));
    world.put(node_pool("a"));
    world.put(pending_pod("web", "1"));
    world.sync();
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let name = [r#"name="web",namespace="shop""#];
    check(
        &world,
        "karpenter_pods_state",
        &[name[0], r#"scheduled="false""#, r#"phase="Pending""#, r#"ready="false""#],
        "1",
    );
    check(&world, "karpenter_pods_unbound_time_seconds", &name, "3");
    check(&world, "karpenter_pods_unstarted_time_seconds", &name, "3");
    check(&world, "karpenter_pods_provisioning_scheduling_undecided_time_seconds", &name, "3");
    let pod = model::ids::PodName::new("shop", "web");
    let now = world.ctx.now();
    world.ctx.store().nominate(&pod, &"n1".into(), now);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(lines(&world, "karpenter_pods_provisioning_scheduling_undecided_time_seconds"), Vec::<String>::new());
    check(&world, "karpenter_pods_provisioning_unbound_time_seconds", &name, "2");
    check(&world, "karpenter_pods_provisioning_unstarted_time_seconds", &name, "2");
    world.put(claim("n1"));
    world.put(node("n1"));
    world.put(pod_on("n1", "web", "1"));
    world.sync();
    let running =
        [name[0], r#"node="n1""#, r#"scheduled="true""#, r#"phase="Running""#, r#"ready="true""#, r#"managed="true""#];
    check(&world, "karpenter_pods_state", &running, "1");
    for gone in [
        "karpenter_pods_unbound_time_seconds",
        "karpenter_pods_unstarted_time_seconds",
        "karpenter_pods_provisioning_unbound_time_seconds",
        "karpenter_pods_provisioning_unstarted_time_seconds",
    ] {
        assert_eq!(lines(&world, gone), Vec::<String>::new(), "{gone}");
    }
    world.put(merged(pod_on("n1", "web", "1"), json!({"status": {"phase": "Succeeded"}})));
    world.sync();
    assert_eq!(lines(&world, "karpenter_pods_state"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_of_single_objects_when_the_operator_does_not_want_it() {
    let world = World::with(crate::Settings { observes_cluster_state: false, ..crate::Settings::default() });
    world.put(foreign_node("theirs"));
    world.sync();
    assert_eq!(lines(&world, "karpenter_nodes_allocatable"), Vec::<String>::new());
    check(&world, "karpenter_cluster_state_node_count", &[], "1");
}
