//! What is answered to those who ask how we are: scrapers and probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cluster::Kind;
use runtime::Tasks;
use runtime::http::{Routes, Server};

use crate::ctx::Ctx;

/// Kinds without which nothing here makes sense.
const OUR_KINDS: [Kind; 2] = [Kind::NodePool, Kind::NodeClaim];

/// Starts the servers that there are.
pub(crate) fn spawn(
    ctx: &Arc<Ctx>,
    metrics: Option<Server>,
    probes: Option<Server>,
    is_watching: &Arc<AtomicBool>,
    tasks: &mut Tasks,
) {
    if let Some(server) = metrics {
        let scraped = ctx.clone();
        let routes = Routes::default().metrics(move || scraped.metrics.scrape(&scraped));
        tasks.spawn("metrics", server.run(routes, tasks.stop()));
    }
    if let Some(server) = probes {
        let (asked, is_watching) = (ctx.clone(), is_watching.clone());
        let routes = Routes::default().healthz(|| Ok(())).readyz(move || is_ready(&asked, &is_watching));
        tasks.spawn("probes", server.run(routes, tasks.stop()));
    }
}

/// Whether we do our work, or could at once. A stand-by that does not watch yet has nothing that could be missing.
fn is_ready(ctx: &Ctx, is_watching: &AtomicBool) -> Result<(), String> {
    if !is_watching.load(Ordering::Relaxed) {
        return Ok(());
    }
    let missing = ctx.store().missing_kinds();
    let ours: Vec<&str> = OUR_KINDS.iter().filter(|kind| missing.contains(kind)).map(|kind| kind.as_str()).collect();
    if !ours.is_empty() {
        return Err(format!(
            "no list of {} yet; are their definitions in the cluster? see `dovetail crds --apply`",
            ours.join(", ")
        ));
    }
    let names: Vec<&str> = missing.iter().map(|kind| kind.as_str()).collect();
    if names.is_empty() { Ok(()) } else { Err(format!("no list of {} yet", names.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    #[tokio::test(start_paused = true)]
    async fn a_process_that_watches_is_ready_when_everything_was_listed() {
        let world = World::new();
        let is_watching = AtomicBool::new(false);
        assert_eq!(is_ready(&world.ctx, &is_watching), Ok(()));
        is_watching.store(true, Ordering::Relaxed);
        let reason = is_ready(&world.ctx, &is_watching).unwrap_err();
        assert!(reason.contains("NodeClaim") && reason.contains("dovetail crds --apply"), "{reason}");
        world.sync();
        assert_eq!(is_ready(&world.ctx, &is_watching), Ok(()));
    }
}
