use std::time::Duration;

use provider::{InterruptionKind, ProviderId};
use serde_json::{Value, json};

use super::*;
use crate::ctx::instant;
use crate::testing::{Scripted, Trouble, World, merged, node_class, node_pool, pod_on};

fn stage() -> (World, Scripted) {
    let (world, cloud) = World::scripted();
    world.put(node_class("default"));
    world.put(node_pool("a"));
    world.put_machine("m", "a", json!({}), json!({}));
    world.sync();
    (world, cloud)
}

fn notice(machine: &str, kind: InterruptionKind, deadline: Option<&str>) -> Interruption {
    Interruption {
        id: format!("{machine} {kind}").into(),
        machine: ProviderId::from(format!("kwok://{machine}")),
        kind,
        deadline: deadline.map(|time| instant(time.parse().unwrap())),
    }
}

async fn hear(world: &World, cloud: &Scripted, notices: &[Interruption]) -> Result<(), ControllerError> {
    cloud.script().notices.extend_from_slice(notices);
    round(&world.ctx, &world.ctx.cloud, &Late::default()).await
}

fn claim(world: &World) -> Value {
    world.server.get("NodeClaim", "m").unwrap()
}

fn is_going(world: &World) -> bool {
    !claim(world)["metadata"]["deletionTimestamp"].is_null()
}

fn deadline(world: &World) -> Value {
    claim(world)["metadata"]["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_taken_away_is_drained_until_then() {
    let (world, cloud) = stage();
    world.put(pod_on("m", "web", "1"));
    world.sync();
    let taken = notice("m", InterruptionKind::SpotInterrupted, Some("2026-01-01T00:02:00Z"));
    hear(&world, &cloud, &[taken]).await.unwrap();
    assert!(is_going(&world));
    assert_eq!(deadline(&world), "2026-01-01T00:02:00Z");
    assert_eq!(cloud.script().notices, []);
    let labels = "reason=\"spot_interrupted\",nodepool=\"a\",capacity_type=\"spot\",consolidation_policy=\"\",termination_mode=\"graceful\"";
    assert!(world.counted(&format!("karpenter_nodeclaims_disrupted_total{{{labels}}} 1")));
    assert!(world.counted(&format!("karpenter_pods_disruption_initiated_total{{{labels}}} 1")));
    let told = world.told().await;
    for (reason, count) in [("SpotInterrupted", 2), ("TerminatingOnInterruption", 2)] {
        assert_eq!(
            told.iter().filter(|(found, _)| found == reason).count(),
            count,
            "{reason}: to claim and node: {told:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_but_a_recommendation_ends_the_machine() {
    for kind in InterruptionKind::ALL {
        let (world, cloud) = stage();
        hear(&world, &cloud, &[notice("m", kind, None)]).await.unwrap();
        assert_eq!(is_going(&world), kind != InterruptionKind::RebalanceRecommendation, "{kind}");
        assert_eq!((deadline(&world), cloud.script().notices.len()), (Value::Null, 0), "nobody said when");
        assert!(!world.told().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_going_is_only_hurried() {
    let (world, cloud) = stage();
    let kind = InterruptionKind::SpotInterrupted;
    hear(&world, &cloud, &[notice("m", kind, Some("2026-01-01T00:05:00Z"))]).await.unwrap();
    hear(&world, &cloud, &[notice("m", kind, Some("2026-01-01T00:02:00Z"))]).await.unwrap();
    assert_eq!(deadline(&world), "2026-01-01T00:02:00Z");
    hear(&world, &cloud, &[notice("m", kind, Some("2026-01-01T00:09:00Z"))]).await.unwrap();
    assert_eq!(deadline(&world), "2026-01-01T00:02:00Z");
    let labels = "reason=\"spot_interrupted\",nodepool=\"a\",capacity_type=\"spot\",consolidation_policy=\"\",termination_mode=\"graceful\"";
    assert!(world.counted(&format!("karpenter_nodeclaims_disrupted_total{{{labels}}} 1")), "counted once");
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_dealt_with_comes_again_and_keeps_no_other() {
    let (world, cloud) = stage();
    world.server.trouble("DELETE /apis/karpenter.sh/v1/nodeclaims/m", Trouble::Refuses(500));
    let kind = InterruptionKind::InstanceStopped;
    let notices = [notice("m", kind, None), notice("stranger", kind, None)];
    hear(&world, &cloud, &notices).await.unwrap();
    assert_eq!(cloud.script().notices, [notice("m", kind, None)], "a machine that nobody knows is done with");
    assert!(!is_going(&world));
    hear(&world, &cloud, &[]).await.unwrap();
    assert!(is_going(&world) && cloud.script().notices.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_notice_that_never_works_delays_no_other() {
    let (world, cloud) = stage();
    world.put_machine("n", "a", json!({}), json!({}));
    world.sync();
    for _ in 0..200 {
        world.server.trouble("DELETE /apis/karpenter.sh/v1/nodeclaims/m", Trouble::Refuses(500));
    }
    let kind = InterruptionKind::InstanceStopped;
    cloud.script().notices.push(notice("m", kind, None));
    let stop = Stop::new();
    let later = async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        cloud.script().notices.push(notice("n", kind, None));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!world.server.get("NodeClaim", "n").unwrap()["metadata"]["deletionTimestamp"].is_null());
        stop.cancel();
    };
    let (end, ()) = futures::join!(run(&world.ctx, &stop), later);
    end.unwrap();
    let tries = world.server.asked("DELETE /apis/karpenter.sh/v1/nodeclaims/m").len();
    assert!((5..20).contains(&tries), "{tries} tries in five minutes");
    assert_eq!(cloud.script().notices, [notice("m", kind, None)]);
}

// The replacement is bought by the usual way: the pods of a node that is leaving need a place.
#[tokio::test(start_paused = true)]
async fn the_whole_process_hears_of_it_and_buys_a_machine_for_the_pods() {
    let (world, cloud) = stage();
    // One that takes its time to end, and will be made again.
    let lasting = json!({"metadata": {"finalizers": ["example.com/slow"], "ownerReferences":
        [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "web", "controller": true}]}});
    world.put(merged(pod_on("m", "web", "1"), lasting));
    let later = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        cloud.script().notices.push(notice("m", InterruptionKind::SpotInterrupted, Some("2026-01-01T00:02:00Z")));
    };
    futures::join!(world.run(Duration::from_secs(30)), later);
    let claims = world.server.all("NodeClaim");
    let others = claims.iter().filter(|claim| claim["metadata"]["name"] != "m").count();
    assert_eq!(others, 1, "{claims:?}");
    assert!(cloud.script().notices.is_empty());
}
