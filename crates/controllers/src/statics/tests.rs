use std::time::Duration;

use model::ids::NodeName;
use serde_json::{Value, json};

use super::*;
use crate::settings::{Gates, Settings};
use crate::testing::{Trouble, World, merged, node_class, node_pool, pod_on};

const CLAIMS: &str = "POST /apis/karpenter.sh/v1/nodeclaims";

fn static_pool(replicas: i64, change: Value) -> Value {
    merged(merged(node_pool("a"), json!({"spec": {"replicas": replicas}})), change)
}

fn world(replicas: i64, change: Value) -> World {
    let world = World::new();
    world.put(node_class("default"));
    world.put(static_pool(replicas, change));
    world
}

async fn up(world: &World) -> Next {
    world.sync();
    StaticUp.tick(&world.ctx, &PoolName::from("a"), &world.id()).await.unwrap()
}

async fn down(world: &World) -> Next {
    world.sync();
    StaticDown.tick(&world.ctx, &PoolName::from("a"), &world.id()).await.unwrap()
}

fn count(world: &World) -> usize {
    world.server.all("NodeClaim").len()
}

fn staying(world: &World) -> Vec<String> {
    let claims = world.server.all("NodeClaim").into_iter();
    let staying = claims.filter(|claim| claim["metadata"]["deletionTimestamp"].is_null());
    staying.map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn after(seconds: u64) -> Next {
    Next::After(Duration::from_secs(seconds))
}

fn reserved(world: &World) -> i64 {
    // What a limit of a hundred has left says how much is reserved.
    let mut store = world.ctx.store();
    let pool = PoolName::from("a");
    let claims = store.pool_claims(&pool);
    let present = (claims.active.len() + claims.deleting.len() + claims.replacing.len()) as i64;
    let granted = store.reserve_nodes(&pool, Some(present + 100), 100);
    store.release_nodes(&pool, granted);
    100 - granted
}

// 01/STC-01 02/NP6
#[tokio::test(start_paused = true)]
async fn a_static_pool_is_filled_up_step_by_step_from_its_template() {
    let template = json!({"spec": {"template": {
        "metadata": {"labels": {"team": "x"}},
        "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}], "expireAfter": "24h"},
    }}});
    let world = world(0, template.clone());
    assert_eq!((up(&world).await, count(&world)), (after(60), 0));
    for replicas in [2, 5, 120] {
        world.put(static_pool(replicas, template.clone()));
        assert_eq!((up(&world).await, count(&world) as i64), (after(60), replicas));
    }
    let claim = world.server.all("NodeClaim").remove(0);
    assert_eq!(
        (&claim["metadata"]["labels"]["team"], &claim["metadata"]["labels"]["karpenter.sh/nodepool"]),
        (&json!("x"), &json!("a"))
    );
    assert_eq!((&claim["spec"]["taints"][0]["key"], &claim["spec"]["expireAfter"]), (&json!("t"), &json!("24h")));
    assert_eq!(
        (&claim["spec"]["requirements"], &claim["spec"]["resources"]),
        (&json!([]), &Value::Null),
        "the cloud chooses"
    );
    let labels = "reason=\"provisioned\",nodepool=\"a\",min_values_relaxed=\"false\"";
    assert!(world.counted(&format!("karpenter_nodeclaims_created_total{{{labels}}} 120")));
}

// 01/STC-01 01/STC-04 02/NP6
#[tokio::test(start_paused = true)]
async fn pools_that_are_not_ours_not_ready_going_or_dynamic_get_nothing() {
    let not_ready = json!({"status": {"conditions": [
        {"type": "Ready", "status": "False", "reason": "No", "message": "", "lastTransitionTime": crate::testing::EPOCH},
    ]}});
    let foreign = json!({"spec": {"template": {"spec": {"nodeClassRef": {"group": "example.com", "kind": "Other"}}}}});
    let going = json!({"metadata": {"deletionTimestamp": crate::testing::EPOCH, "finalizers": ["x"]}});
    for change in [not_ready, foreign, going, json!({"spec": {"replicas": null}})] {
        let world = world(3, change.clone());
        assert_eq!((up(&world).await, count(&world)), (Next::OnChange, 0), "{change}");
    }
    let world = world(3, json!({"status": {"conditions": []}}));
    up(&world).await;
    world.put(static_pool(3, json!({})));
    up(&world).await;
    assert_eq!(count(&world), 3, "it has become ready");
}

// 01/STC-02 02/NP6, and spec 02, flaw 25: what is reserved is given back, whatever becomes of it.
#[tokio::test(start_paused = true)]
async fn the_limit_holds_and_places_are_given_back_when_claims_cannot_be_made() {
    let world = world(5, json!({"spec": {"limits": {"nodes": "3"}}}));
    for _ in 0..3 {
        world.server.trouble(CLAIMS, Trouble::Refuses(500));
    }
    world.sync();
    assert!(StaticUp.tick(&world.ctx, &PoolName::from("a"), &world.id()).await.is_err(), "the failure is reported");
    assert_eq!((count(&world), reserved(&world)), (0, 0));
    assert_eq!((up(&world).await, count(&world)), (after(30), 3));
    assert_eq!((up(&world).await, count(&world), reserved(&world)), (after(30), 3, 0));
    world.put(static_pool(5, json!({"spec": {"limits": {"nodes": "4"}}})));
    up(&world).await;
    assert_eq!(count(&world), 4);
}

// 01/STC-02 02/NP6
#[tokio::test(start_paused = true)]
async fn looks_that_overlap_never_exceed_the_limit() {
    let world = world(5, json!({"spec": {"limits": {"nodes": "3"}}}));
    world.sync();
    let (pool, id) = (PoolName::from("a"), world.id());
    let other = world.id();
    let (first, second) =
        futures::join!(StaticUp.tick(&world.ctx, &pool, &id), StaticUp.tick(&world.ctx, &pool, &other));
    first.unwrap();
    second.unwrap();
    assert_eq!((count(&world), reserved(&world)), (3, 0));
}

// A look that is dropped half way gives back what it has not used.
#[tokio::test(start_paused = true)]
async fn a_look_that_is_cut_short_keeps_no_places() {
    let world = world(5, json!({"spec": {"limits": {"nodes": "5"}}}));
    world.sync();
    world.server.cut_power_after(2, false);
    let (pool, id) = (PoolName::from("a"), world.id());
    let look = StaticUp.tick(&world.ctx, &pool, &id);
    assert!(tokio::time::timeout(Duration::from_secs(1), look).await.is_err());
    assert_eq!(reserved(&world), 0);
    world.server.restore_power();
}

// 01/STC-03
#[tokio::test(start_paused = true)]
async fn after_a_restart_nothing_is_made_twice() {
    let gates = Gates { static_capacity: true, ..Gates::default() };
    let world = World::with(Settings { gates, ..Settings::default() });
    world.put(merged(node_class("default"), json!({"spec": {"nodeRegistrationDelay": "1h"}})));
    world.put(static_pool(3, json!({})));
    for _ in 0..3 {
        let world = world.reborn();
        world.run_and_die(Duration::from_secs(4)).await;
        assert_eq!(count(&world), 3, "they are on their way");
    }
}

fn protected() -> Value {
    json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})
}

fn daemon() -> Value {
    json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]}})
}

// 01/STC-05 02/NP7
#[tokio::test(start_paused = true)]
async fn surplus_goes_from_unlaunched_over_empty_and_cheap_to_protected() {
    let world = world(7, json!({}));
    for name in ["a-protected", "b-two-pods", "c-pod", "d-daemons", "e-empty"] {
        world.put_machine(name, "a", json!({}), json!({}));
    }
    world.put(merged(pod_on("a-protected", "p1", "1"), protected()));
    world.put(pod_on("b-two-pods", "p2", "1"));
    world.put(pod_on("b-two-pods", "p3", "1"));
    world.put(pod_on("c-pod", "p4", "1"));
    world.put(merged(pod_on("d-daemons", "p5", "1"), daemon()));
    let [unlaunched, _] = crate::testing::machine("f-unlaunched", "a");
    world.put(merged(unlaunched.clone(), json!({"status": null})));
    let going = json!({"metadata": {"name": "g-going", "deletionTimestamp": crate::testing::EPOCH}});
    world.put(merged(unlaunched, going));
    assert_eq!((down(&world).await, staying(&world).len()), (after(60), 6), "those that are going do not count");
    let mut left = staying(&world);
    for gone in ["f-unlaunched", "d-daemons", "e-empty", "c-pod", "b-two-pods", "a-protected"] {
        world.put(static_pool(left.len() as i64 - 1, json!({})));
        down(&world).await;
        left.retain(|name| name != gone);
        assert_eq!(staying(&world), left, "{gone} goes next");
    }
    assert_eq!(up(&world).await, after(60), "and nothing comes for a pool of none");
}

// 01/STC-05 02/NP7
#[tokio::test(start_paused = true)]
async fn what_cannot_be_deleted_is_reported_and_keeps_no_other() {
    let world = world(0, json!({}));
    ["m", "n", "o"].iter().for_each(|name| world.put_machine(name, "a", json!({}), json!({})));
    world.sync();
    world.server.trouble("DELETE /apis/karpenter.sh/v1/nodeclaims/m", Trouble::Refuses(500));
    assert!(StaticDown.tick(&world.ctx, &PoolName::from("a"), &world.id()).await.is_err());
    assert_eq!(staying(&world), ["m"]);
    down(&world).await;
    assert!(staying(&world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_being_replaced_is_neither_made_nor_taken_away_a_second_time() {
    let world = world(2, json!({}));
    ["m", "n"].iter().for_each(|name| world.put_machine(name, "a", json!({}), json!({})));
    world.sync();
    let until = world.ctx.now().plus(Duration::from_secs(600));
    // As the command does that replaces it.
    world.ctx.store().begin_replacing(&NodeName::from("m"), until);
    world.ctx.tell(|store, now| store.mark_for_deletion([&NodeName::from("m")], until, now));
    assert_eq!((up(&world).await, count(&world)), (after(60), 2));
    world.put_machine("replacement", "a", json!({}), json!({}));
    assert_eq!((down(&world).await, staying(&world).len()), (after(60), 3));
}

// 02/E8
#[tokio::test(start_paused = true)]
async fn the_whole_process_keeps_a_static_pool_at_its_size() {
    let gates = Gates { static_capacity: true, ..Gates::default() };
    let world = World::with(Settings { gates, ..Settings::default() });
    world.put(node_class("default"));
    world.put(static_pool(2, json!({})));
    let changes = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(count(&world), 2);
        let pool = world.server.get("NodePool", "a").unwrap();
        world.put(merged(pool, json!({"spec": {"replicas": 4}, "metadata": {"generation": 2}})));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(staying(&world).len(), 4);
        let pool = world.server.get("NodePool", "a").unwrap();
        world.put(merged(pool, json!({"spec": {"replicas": 1}, "metadata": {"generation": 3}})));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(staying(&world).len(), 1);
    };
    futures::join!(world.run(Duration::from_secs(10)), changes);
}
