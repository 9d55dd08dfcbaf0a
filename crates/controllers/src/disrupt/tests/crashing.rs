//! An exchange of two machines for two others, with a power cut at every single write.

use runtime::Tasks;

use super::super::add_about;
use super::*;
use crate::controller::Duties;
use crate::{drain, facts, lifecycle};

const ROUND: Duration = Duration::from_secs(20);
/// Enough for all of it when nothing happens, and for whatever is left after a cut.
const ROUNDS_MAX: usize = 4;
const ROUNDS_AFTER: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Cut {
    after_writes: usize,
    last_one_counts: bool,
}

/// Runs a process for so long, and then it ends as by a power cut. The first one is told what to do.
async fn run_and_die(world: &World, what: Option<Disruption>) {
    let ctx = &world.ctx;
    let commands = Arc::new(Commands::default());
    let mut duties = Duties::new(ctx.clone());
    duties.add(lifecycle::Lifecycle::default());
    let evictions = Arc::new(drain::Evictions::default());
    let to_evict = duties.add(drain::EvictionQueue::new(evictions.clone()));
    duties.add(drain::NodeTermination::new(evictions, to_evict));
    let queue = add_about(&mut duties, ctx, commands.clone());
    if let Some(what) = what {
        let ripe = ctx.now().plus(Duration::from_secs(2));
        queue.push(commands.add(world.id(), what, Step::Proposed { ripe }));
    }
    let mut tasks = Tasks::new(runtime::Stop::new());
    facts::spawn(ctx, &mut tasks);
    duties.spawn(&mut tasks);
    let process = tasks.run(std::future::pending::<()>(), ROUND);
    assert!(tokio::time::timeout(ROUND, process).await.is_err(), "it ended by itself");
}

/// Kubelets report.
fn others_act(world: &World) {
    for node in world.server.all("Node") {
        if node["status"]["conditions"].is_null() {
            world.put(merged(node, json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})));
        }
    }
}

fn is_initialized(claim: &Value) -> bool {
    let conditions = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Initialized" && condition["status"] == "True")
}

/// Two machines that the cloud really has.
async fn two_machines() -> (World, Disruption) {
    let world = World::new();
    world.put(node_class("default"));
    world.put(node_pool("general"));
    for name in ["a", "b"] {
        world.put(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "generation": 1, "creationTimestamp": EPOCH, "labels": {"karpenter.sh/nodepool": "general"},
                "finalizers": ["karpenter.sh/termination"]},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [], "resources": {"requests": {"cpu": "1"}}, "expireAfter": "Never",
            },
        }));
    }
    run_and_die(&world, None).await;
    others_act(&world);
    let world = world.reborn();
    run_and_die(&world, None).await;
    let claims = world.server.all("NodeClaim");
    assert!(claims.iter().all(is_initialized), "{claims:?}");
    let mut what = command(Method::Drift, &["a", "b"], 2);
    for leaver in &mut what.leaving {
        let claim = world.server.get("NodeClaim", leaver.claim.as_str()).unwrap();
        leaver.node = claim["status"]["nodeName"].as_str().unwrap().into();
    }
    (world.reborn(), what)
}

/// Says whether there were enough writes for the cut.
async fn exchange(cut: Option<Cut>) -> bool {
    let (mut world, what) = two_machines().await;
    let written = |world: &World| world.server.asked("P").len() + world.server.asked("DELETE").len();
    let (before, mut what, mut was_cut, mut rounds_left) = (written(&world), Some(what), false, ROUNDS_MAX);
    while rounds_left > 0 {
        if let Some(cut) = cut.filter(|_| !was_cut) {
            // The count goes on from where it is, near enough: every write is hit by some cut.
            let after_writes = cut.after_writes.saturating_sub(written(&world) - before);
            world.server.cut_power_after(after_writes, cut.last_one_counts);
        }
        run_and_die(&world, what.take()).await;
        if world.server.restore_power() {
            (was_cut, rounds_left) = (true, ROUNDS_AFTER);
        }
        rounds_left -= 1;
        others_act(&world);
        world = world.reborn();
    }
    let stage = Stage::on(world);
    let claims = stage.world.server.all("NodeClaim");
    let old = ["a", "b"].map(|name| stage.claim(name).is_some());
    assert_eq!(old[0], old[1], "they go together or stay together, {cut:?}");
    let new = claims.len() - old.iter().filter(|is_there| **is_there).count();
    assert!(if old[0] { new == 0 || new == 2 } else { new == 2 }, "{cut:?}: {claims:?}");
    assert!(claims.iter().all(is_initialized), "nothing half made, {cut:?}: {claims:?}");
    assert_eq!(stage.world.server.all("Node").len(), claims.len(), "{cut:?}");
    for claim in &claims {
        let name = claim["metadata"]["name"].as_str().unwrap();
        assert_eq!(stage.reason(name), None, "{cut:?}: {name}");
    }
    for node in stage.world.server.all("Node") {
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        assert!(taints.iter().all(|taint| taint["key"] != TAINT), "{cut:?}: {node}");
    }
    assert!(cut.is_some() || !old[0], "without a cut it is done");
    was_cut
}

async fn exchange_with_every_cut(last_one_counts: bool) {
    let mut cuts = 0;
    while exchange(Some(Cut { after_writes: cuts, last_one_counts })).await {
        cuts += 1;
    }
    assert!(cuts > 20, "only {cuts} writes were hit");
}

#[tokio::test(start_paused = true)]
async fn without_a_cut_two_machines_are_exchanged() {
    exchange(None).await;
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_before_any_write_leaves_no_taint_and_nothing_half_made() {
    exchange_with_every_cut(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_power_cut_after_any_write_leaves_no_taint_and_nothing_half_made() {
    exchange_with_every_cut(true).await;
}
