use model::ids::PodName;
use serde_json::{Value, json};

use super::*;
use crate::metrics::{ByScheduling, SchedulingController};
use crate::testing::{Trouble, World, merged, node_class, node_pool, pending_pod};

/// A world with one class and one pool that takes everything.
fn world() -> World {
    let world = World::new();
    world.put(node_class("default"));
    world.put(node_pool("general"));
    world
}

async fn pass(world: &World) -> Option<Duration> {
    pass_with(world, Gathered::All(1)).await
}

async fn pass_with(world: &World, gathered: Gathered) -> Option<Duration> {
    let mut provisioner = Provisioner::new(&world.ctx);
    provisioner.pass(&world.ctx, &world.id(), gathered).await.unwrap()
}

fn claims(world: &World) -> Vec<Value> {
    world.server.all("NodeClaim")
}

/// What the recorder would write.
async fn told(world: &World) -> Vec<(String, String)> {
    let stop = Stop::new();
    stop.cancel();
    world.ctx.recorder.run(world.ctx.client.clone(), &stop).await;
    world.events()
}

// 01/BAT-04
#[tokio::test(start_paused = true)]
async fn nothing_is_decided_before_everything_was_listed() {
    let world = world();
    world.put(pending_pod("web", "1"));
    assert_eq!(pass(&world).await, Some(SOON));
    assert_eq!(claims(&world).len(), 0);
    world.sync();
    assert_eq!(pass(&world).await, Some(AGAIN));
    assert_eq!(claims(&world).len(), 1);
}

// 01/POD-09
#[tokio::test(start_paused = true)]
async fn the_next_pass_counts_on_claims_that_are_on_their_way() {
    let world = world();
    world.put(pending_pod("web-1", "1"));
    world.sync();
    pass(&world).await;
    let before = claims(&world);
    assert_eq!(before.len(), 1);
    for _ in 0..3 {
        pass(&world).await;
    }
    assert_eq!(claims(&world), before, "no watch has shown the claim, and yet it is counted on");
    assert_eq!(
        world.server.get("Pod", "web-1").unwrap()["spec"]["nodeName"],
        Value::Null,
        "binding is not our business"
    );
    world.sync();
    pass(&world).await;
    assert_eq!(claims(&world), before);
    let events = told(&world).await;
    let name = before[0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(events, [("Nominated".to_owned(), format!("Pod should schedule on: nodeclaim/{name}"))]);
}

#[tokio::test(start_paused = true)]
async fn while_pods_arrive_only_full_machines_are_bought() {
    let world = world();
    let mut pool = node_pool("general");
    pool["spec"]["template"]["spec"]["requirements"] =
        json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-2x-amd64-linux"]}]);
    world.put(pool);
    // One and a half machines of two cpus, less what the system keeps.
    (0..3).for_each(|number| world.put(pending_pod(&format!("web-{number}"), "900m")));
    world.put(pending_pod("huge", "100000"));
    world.sync();
    pass_with(&world, Gathered::Some(4)).await;
    assert_eq!(claims(&world).len(), 1);
    let events = told(&world).await;
    assert!(events.iter().all(|(reason, _)| reason == "Nominated"), "no verdict on anybody else: {events:?}");
    assert_eq!(events.len(), 2);
    pass_with(&world, Gathered::All(4)).await;
    assert_eq!(claims(&world).len(), 2, "the first is counted on, and the rest gets its own");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_full_but_dear_for_its_pods_waits_for_the_end_of_a_stream() {
    let world = world();
    let mut pool = node_pool("general");
    pool["spec"]["template"]["spec"]["requirements"] = json!([
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-8x-amd64-linux", "c-16x-amd64-linux"]},
    ]);
    world.put(pool);
    // The system keeps a tenth of a cpu, so seven fill the smaller machine, and fifteen the larger one at twice the price.
    (0..22).for_each(|number| world.put(pending_pod(&format!("web-{number}"), "1")));
    world.sync();
    pass_with(&world, Gathered::Some(22)).await;
    let of = |claim: &Value| claim["spec"]["resources"]["requests"]["cpu"].as_str().unwrap_or_default().to_owned();
    assert_eq!(claims(&world).iter().map(of).collect::<Vec<_>>(), ["15"]);
    pass_with(&world, Gathered::All(22)).await;
    assert_eq!(claims(&world).len(), 2);
}

// 01/MET-01
#[tokio::test(start_paused = true)]
async fn a_pod_without_a_place_is_told_why_and_counted() {
    let world = world();
    world.put(pending_pod("huge", "100000"));
    world.put(pending_pod("web", "1"));
    world.sync();
    pass(&world).await;
    assert_eq!(claims(&world).len(), 1, "the others are served");
    let by_us = ByScheduling { controller: SchedulingController::Provisioner };
    assert_eq!(world.ctx.metrics.unschedulable_pods.get_or_create(&by_us).get(), 1.0);
    let text = world.ctx.metrics.encode();
    for line in [
        "karpenter_pods_scheduling_decision_duration_seconds_count 2",
        "karpenter_scheduler_scheduling_duration_seconds_count{controller=\"provisioner\"} 1",
        "karpenter_scheduler_pending_pods_by_effective_zone_count{controller=\"provisioner\",zone=\"flexible\"} 2",
        "karpenter_scheduler_ignored_pods_count 0",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    assert!(!text.contains("karpenter_scheduler_queue_depth{"), "the plan is made");
    pass(&world).await;
    let text = world.ctx.metrics.encode();
    assert!(text.contains("karpenter_pods_scheduling_decision_duration_seconds_count 2"), "a pod is decided on once");
    let events = told(&world).await;
    let refusals: Vec<&String> =
        events.iter().filter(|(reason, _)| reason == "FailedScheduling").map(|(_, m)| m).collect();
    assert_eq!(refusals.len(), 1, "{events:?}");
    assert!(refusals[0].starts_with("Failed to schedule pod, ") && refusals[0].contains("cpu"), "{refusals:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_created_takes_no_other_with_it() {
    let world = world();
    for number in 0..2 {
        let apart = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}},
            ],
        }}}});
        world.put(merged(pending_pod(&format!("db-{number}"), "1"), apart));
    }
    world.sync();
    world.server.trouble("POST /apis/karpenter.sh/v1/nodeclaims", Trouble::Refuses(500));
    pass(&world).await;
    assert_eq!(claims(&world).len(), 1);
    world.sync();
    pass(&world).await;
    assert_eq!(claims(&world).len(), 2, "the pod that got nothing is planned for again");
}

// 01/API-22
#[tokio::test(start_paused = true)]
async fn pools_whose_class_is_served_by_somebody_else_are_left_alone() {
    let world = world();
    world.server.remove("NodePool", "general");
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    world.put(merged(node_pool("theirs"), json!({"spec": {"template": {"spec": {"nodeClassRef": class}}}})));
    world.put(pending_pod("web", "1"));
    world.sync();
    pass(&world).await;
    assert_eq!(claims(&world).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_problem_of_its_own_is_told_and_holds_nobody_up() {
    let world = world();
    world.put(merged(pending_pod("odd", "1"), json!({"spec": {"nodeSelector": {"karpenter.sh/odd": "x"}}})));
    world.put(pending_pod("web", "1"));
    world.sync();
    pass(&world).await;
    assert_eq!(claims(&world).len(), 1);
    assert!(world.ctx.metrics.encode().contains("karpenter_scheduler_ignored_pods_count 1"));
    assert!(
        told(&world)
            .await
            .iter()
            .any(|(reason, text)| reason == "FailedScheduling" && text.contains("karpenter.sh/odd"))
    );
}

#[tokio::test(start_paused = true)]
async fn the_process_plans_by_itself_when_a_pod_appears() {
    let world = world();
    let appearing = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.put(pending_pod("web", "1"));
    };
    futures::join!(world.run(Duration::from_secs(6)), appearing);
    assert_eq!(claims(&world).len(), 1);
    let created = claims(&world)[0]["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    assert_eq!(created, "2026-01-01T00:00:05Z", "in the same second");
}

#[tokio::test(start_paused = true)]
async fn pods_that_the_scheduler_has_not_judged_yet_are_waited_for() {
    let world = world();
    let new = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:05Z"}});
    let appearing = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        // Not like the first, so that nobody knows what the scheduler will say of it.
        let second = merged(pending_pod("second", "2"), new.clone());
        world.put(merged(second.clone(), json!({"status": {"conditions": []}})));
        world.put(merged(pending_pod("first", "1"), new));
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert_eq!(claims(&world).len(), 0);
        world.put(second);
    };
    futures::join!(world.run(Duration::from_secs(8)), appearing);
    let made = claims(&world);
    assert_eq!(made.len(), 1);
    assert_eq!(made[0]["spec"]["resources"]["requests"]["pods"], "2", "one plan for both");
}

#[tokio::test(start_paused = true)]
async fn pods_hear_a_new_reason_and_no_reason_while_pools_are_being_judged() {
    let world = World::new();
    world.put(node_class("default"));
    world.put(merged(node_pool("general"), json!({"status": {"conditions": []}, "spec": {"limits": {"cpu": "0"}}})));
    world.put(pending_pod("web", "1"));
    world.sync();
    let mut provisioner = Provisioner::new(&world.ctx);
    assert_eq!(provisioner.pass(&world.ctx, &world.id(), Gathered::All(1)).await.unwrap(), Some(SOON));
    assert_eq!(told(&world).await, []);
    tokio::time::sleep(FIRST_VERDICTS).await;
    provisioner.pass(&world.ctx, &world.id(), Gathered::All(1)).await.unwrap();
    world.put(merged(node_pool("general"), json!({"spec": {"limits": {"cpu": "0"}}})));
    world.sync();
    provisioner.pass(&world.ctx, &world.id(), Gathered::All(1)).await.unwrap();
    let events: Vec<String> = told(&world).await.into_iter().map(|(_, message)| message).collect();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events.iter().any(|message| message.contains("no dynamic nodepools found")), "{events:?}");
    assert!(events.iter().any(|message| message.contains("limit")), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn one_object_that_cannot_be_read_stops_nothing_and_its_owner_is_told() {
    let world = world();
    world.put(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "broken"}, "spec": 7}));
    world.put(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "odd"}, "spec": {"containers": 3}}));
    world.put(pending_pod("web", "1"));
    world.run(Duration::from_secs(5)).await;
    assert_eq!(claims(&world).len(), 1);
    let events = world.server.all("Event");
    let told = |kind: &str, name: &str| {
        events.iter().any(|event| {
            let about = &event["involvedObject"];
            event["reason"] == "Undecodable" && about["kind"] == *kind && about["name"] == *name
        })
    };
    assert!(told("NodePool", "broken") && told("Pod", "odd"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn an_optional_api_that_is_missing_holds_nothing_up_and_is_found_when_it_appears() {
    let mut settings = crate::settings::Settings::default();
    settings.gates.node_overlay = true;
    settings.gates.capacity_buffer = true;
    let world = World::with(settings);
    world.server.withdraw("NodeOverlay");
    world.server.withdraw("CapacityBuffer");
    world.put(node_class("default"));
    world.put(node_pool("general"));
    world.put(pending_pod("web", "1"));
    let later = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(claims(&world).len(), 1);
        world.server.serve_again("NodeOverlay");
        world.put(
            json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "dear"}, "spec": {
                "requirements": [], "price": "99",
            }}),
        );
        tokio::time::sleep(Duration::from_secs(70)).await;
    };
    futures::join!(world.run(Duration::from_secs(80)), later);
    assert_eq!(world.ctx.store().overlays().count(), 1);
    let snapshot = world.ctx.store().snapshot(world.ctx.now());
    let pool = snapshot.pools.values().next().unwrap();
    assert!(pool.instance_types.iter().all(|sold| sold.offerings.iter().all(|offering| offering.has_price_overlay)));
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_has_outgrown_its_limit_meanwhile_gets_no_more_claims() {
    let world = world();
    world.put(merged(node_pool("general"), json!({"spec": {"limits": {"cpu": "64"}}})));
    world.put(pending_pod("web", "1"));
    world.sync();
    let (mut provisioner, id) = (Provisioner::new(&world.ctx), world.id());
    world.ctx.catalogs.refresh(&world.ctx, &provisioner.cloud).await;
    let look = look(&world.ctx);
    let plan = provisioner.plan(&world.ctx, &look.batch, Gathered::All(1), &id).await.unwrap();
    assert_eq!(plan.claims.len(), 1);
    world.put(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": "other", "labels": {"karpenter.sh/nodepool": "general"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {"providerID": "kwok://other", "capacity": {"cpu": "65"}, "allocatable": {"cpu": "65"}},
    }));
    world.sync();
    carry_out::carry_out(&world.ctx, &look, &plan, &id).await;
    assert_eq!(claims(&world).len(), 1, "only the one that was there");
}

#[tokio::test(start_paused = true)]
async fn pods_on_leaving_nodes_are_looked_at_again_though_none_may_go_now() {
    let world = world();
    let labels = json!({
        "karpenter.kwok.sh/kwoknodeclass": "default", "karpenter.sh/nodepool": "general",
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true", "node.kubernetes.io/instance-type": "m",
    });
    world.put(json!({
        "apiVersion": "v1", "kind": "Node", "spec": {"providerID": "kwok://n"},
        "metadata": {"name": "n", "labels": labels, "finalizers": ["karpenter.sh/termination"], "deletionTimestamp": crate::testing::EPOCH},
    }));
    let protected = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    world.put(merged(crate::testing::pod_on("n", "web", "1"), protected));
    world.sync();
    let next = pass(&world).await;
    assert_eq!(next, Some(AGAIN));
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_plans_for_pods_that_called_before_it_led() {
    let world = world();
    world.put(pending_pod("web", "1"));
    world.sync();
    let stop = Stop::new();
    let ending = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    futures::join!(Provisioner::new(&world.ctx).run(&world.ctx, &stop), ending);
    assert_eq!(claims(&world).len(), 1);
}

// 01/BUF-04
#[tokio::test(start_paused = true)]
async fn room_is_bought_for_buffers_and_nobody_is_told_of_their_pods() {
    let mut settings = crate::settings::Settings::default();
    settings.gates.capacity_buffer = true;
    let world = World::with(settings);
    world.put(node_class("default"));
    world.put(node_pool("general"));
    for (name, cpu) in [("spare", "1"), ("endless", "100000")] {
        world.put(json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"namespace": "shop", "name": name}, "spec": {"replicas": 2, "podTemplateRef": {"name": name}},
        }));
        world.sync();
        let spec = json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]});
        let spec = serde_json::from_value(json!({"spec": spec})).unwrap();
        let template = cluster::store::Template { spec, source: cluster::lower::buffer::Source::PodTemplate };
        world.ctx.tell(|store, now| store.resolve_buffer(&PodName::new("shop", name), Some(template), now));
    }
    assert_eq!(world.ctx.store().batch(world.ctx.now()).buffered.len(), 4);
    pass(&world).await;
    let made = claims(&world);
    assert_eq!(made.len(), 1, "there is room for those that can have some");
    world.sync();
    let mut provisioner = Provisioner::new(&world.ctx);
    let batch = world.ctx.store().batch(world.ctx.now());
    let plan = provisioner.plan(&world.ctx, &batch, Gathered::All(1), &world.id()).await.unwrap();
    assert_eq!(plan.placements.len(), 2, "on the machine that is on its way");
    assert_eq!(report::newly_on_unready(&world.ctx, &batch, &plan), (0, 0));
    pass(&world).await;
    assert_eq!(claims(&world), made);

    assert_eq!(told(&world).await, []);
    let claim = made[0]["metadata"]["name"].as_str().unwrap();
    let store = world.ctx.store();
    assert!(!store.nominated(world.ctx.now()).contains(&claim.into()));
    for pod in batch.pods() {
        assert_eq!(store.pod_times(&pod.name), None, "{}", pod.name);
    }
    let by_us = ByScheduling { controller: SchedulingController::Provisioner };
    assert_eq!(world.ctx.metrics.unschedulable_pods.get_or_create(&by_us).get(), 0.0);
}
