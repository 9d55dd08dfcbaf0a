use provider::ProviderError;
use serde_json::{Value, json};

use super::*;
use crate::lifecycle::Lifecycle;
use crate::testing::{EPOCH, Scripted, Trouble, World, merged, node_class};

/// A world with so many claims that have come all the way but for a kubelet that reports.
async fn world(count: usize) -> (World, Scripted) {
    let (world, cloud) = World::scripted();
    world.put(node_class("default"));
    for number in 0..count {
        world.put(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("c{number}"), "generation": 1, "creationTimestamp": EPOCH},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [], "expireAfter": "Never",
            },
        }));
    }
    for _ in 0..2 {
        for number in 0..count {
            world.sync();
            let name = NodeName::from(format!("c{number}"));
            Lifecycle::default().tick(&world.ctx, &name, &world.id()).await.unwrap();
        }
    }
    (world, cloud)
}

async fn collect(world: &World) {
    world.sync();
    let next = Collection.tick(&world.ctx, &(), &world.id()).await.unwrap();
    assert_eq!(next, Next::After(Duration::from_secs(120)));
}

fn id_of(world: &World, claim: &str) -> String {
    world.server.get("NodeClaim", claim).unwrap()["status"]["providerID"].as_str().unwrap().to_owned()
}

fn going(world: &World) -> Vec<String> {
    let is_going = |claim: &&Value| claim["metadata"]["deletionTimestamp"].is_string();
    let claims = world.server.all("NodeClaim");
    claims.iter().filter(is_going).map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

// 02/NC3
#[tokio::test(start_paused = true)]
async fn claims_whose_machines_vanished_are_collected_many_at_a_time() {
    let (world, cloud) = world(50).await;
    collect(&world).await;
    assert!(going(&world).is_empty());
    let all: Vec<String> = (1..50).map(|number| id_of(&world, &format!("c{number}"))).collect();
    cloud.script().vanished = all;
    collect(&world).await;
    assert_eq!(going(&world).len(), 49);
    assert!(!going(&world).contains(&"c0".to_owned()));
    let text = world.ctx.metrics.encode();
    assert!(text.lines().any(|line| line.contains(r#"reason="garbage_collected""#) && line.ends_with(" 49")), "{text}");
}

// 02/NC4
#[tokio::test(start_paused = true)]
async fn a_kubelet_that_reports_protects_its_claim() {
    let (world, cloud) = world(1).await;
    cloud.script().vanished = vec![id_of(&world, "c0")];
    let node = world.server.all("Node").remove(0);
    world.put(merged(node, json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})));
    collect(&world).await;
    assert!(going(&world).is_empty());
}

// 02/NC5
#[tokio::test(start_paused = true)]
async fn an_unregistered_claim_is_left_to_the_timeouts() {
    let (world, cloud) = world(0).await;
    cloud.script().vanished = vec!["kwok://a".to_owned()];
    let launched = json!({"type": "Launched", "status": "True", "reason": "Launched", "lastTransitionTime": EPOCH});
    world.put(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a", "generation": 1},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [],
        },
        "status": {"providerID": "kwok://a", "conditions": [launched]},
    }));
    collect(&world).await;
    assert!(going(&world).is_empty());
}

// 02/NC6
#[tokio::test(start_paused = true)]
async fn a_machine_that_runs_protects_its_claim_though_its_node_is_gone() {
    let (world, cloud) = world(2).await;
    // Here a machine is its Node, so both claims point at the one that is left.
    let (kept, lost) = (id_of(&world, "c0"), id_of(&world, "c1"));
    let node = lost.trim_start_matches("kwok://").to_owned();
    world.server.remove("Node", &node);
    let claim = world.server.get("NodeClaim", "c1").unwrap();
    collect(&world).await;
    assert_eq!(going(&world), ["c1"]);
    assert_eq!(cloud.calls("terminate"), 0);
    world.put(merged(claim, json!({"status": {"providerID": kept}, "metadata": {"deletionTimestamp": null}})));
    collect(&world).await;
    assert!(!going(&world).contains(&"c1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_claim_is_gone_is_ended_once_it_is_not_young() {
    let (world, cloud) = world(2).await;
    world.server.remove("NodeClaim", "c0");
    tokio::time::advance(Duration::from_secs(20)).await;
    collect(&world).await;
    assert_eq!(cloud.calls("terminate"), 0, "its claim may be on the way");
    tokio::time::advance(Duration::from_secs(20)).await;
    collect(&world).await;
    assert_eq!(cloud.calls("terminate"), 1);
    assert_eq!(world.server.asked("DELETE /api/v1/nodes").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_only_the_store_misses_keeps_its_machine() {
    let (world, cloud) = world(1).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    world.sync();
    let gone = cluster::Object::decode(
        cluster::Kind::NodeClaim,
        world.server.get("NodeClaim", "c0").unwrap().to_string().as_bytes(),
    );
    let gone = gone.unwrap().gone();
    world.ctx.tell(|store, now| store.delete(&gone, now));
    Collection.tick(&world.ctx, &(), &world.id()).await.unwrap();
    assert_eq!(cloud.calls("terminate"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_registers_while_machines_are_listed_is_kept() {
    let (world, cloud) = world(1).await;
    world.sync();
    cloud.script().list_takes = Duration::from_secs(5);
    let late = merged(
        world.server.get("NodeClaim", "c0").unwrap(),
        json!({"metadata": {"name": "late", "uid": "late"}, "status": null}),
    );
    let joining = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.put(late);
        for _ in 0..2 {
            world.sync();
            Lifecycle::default().tick(&world.ctx, &NodeName::from("late"), &world.id()).await.unwrap();
        }
        world.sync();
    };
    let id = world.id();
    let (next, ()) = futures::join!(Collection.tick(&world.ctx, &(), &id), joining);
    assert_eq!(next.unwrap(), Next::After(EVERY));
    assert_eq!(world.server.all("Node").len(), 2, "both have their machines");
    assert!(going(&world).is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_machine_that_cannot_be_ended_does_not_keep_the_others() {
    let (world, cloud) = world(3).await;
    ["c0", "c1", "c2"].into_iter().for_each(|claim| world.server.remove("NodeClaim", claim));
    tokio::time::advance(Duration::from_secs(60)).await;
    let stuck = ProviderError::Unavailable { doing: "ending".to_owned(), source: None };
    let gone = ProviderError::NotFound { what: "the machine".to_owned() };
    cloud.script().terminations.extend([Err(stuck), Err(gone)]);
    world.sync();
    let failed = Collection.tick(&world.ctx, &(), &world.id()).await.unwrap_err();
    assert!(failed.to_string().starts_with("terminating machine"), "{failed}");
    assert_eq!((cloud.calls("terminate"), failed.reaction()), (3, crate::Reaction::BackOff));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_something_is_not_there_ends_no_collection_for_good() {
    let (world, cloud) = world(1).await;
    world.server.remove("NodeClaim", "c0");
    tokio::time::advance(Duration::from_secs(60)).await;
    world.sync();
    world.server.trouble("GET /apis/karpenter.sh/v1/nodeclaims", Trouble::Refuses(404));
    world.run_only(Collection, Duration::from_secs(60)).await;
    assert_eq!(cloud.calls("terminate"), 0, "claims could not be asked for");
    world.server.trouble("GET /apis/karpenter.sh/v1/nodeclaims", Trouble::Refuses(410));
    world.run_only(Collection, Duration::from_secs(130)).await;
    assert_eq!(cloud.calls("terminate"), 1);
}
