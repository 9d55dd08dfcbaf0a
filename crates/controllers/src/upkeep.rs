//! Keeps the store honest: lets go of what has run out, and looks for claims that no watch has shown.

use std::time::Duration;

use api::NodeClaim;
use cluster::{Duty, Store};
use kube::Api;
use model::ids::NodeName;
use runtime::Next;

use crate::controller::{Controller, TickId};
use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};

const ROUND: Duration = Duration::from_secs(5);
/// A first list takes its time; after this somebody should look.
const UNSYNCED_LONG: Duration = Duration::from_secs(30);

pub(crate) struct Upkeep;

impl Controller for Upkeep {
    type Key = ();
    const NAME: &'static str = "state.upkeep";

    fn wakes_for(_call: &Duty) -> Option<()> {
        None
    }

    fn first_keys(&self, _store: &Store) -> Vec<()> {
        vec![()]
    }

    fn after_gone() -> Next {
        Next::After(ROUND)
    }

    async fn tick(&self, ctx: &Ctx, _key: &(), _id: &TickId) -> Result<Next, ControllerError> {
        ctx.tell(|store, now| store.expire(now));
        let overdue = ctx.store().overdue_claims(ctx.now());
        for claim in overdue {
            look_for(ctx, &claim).await?;
        }
        let unsynced = ctx.store().unsynced_for(ctx.now()).filter(|time| *time > UNSYNCED_LONG);
        if let Some(time) = unsynced {
            let missing: Vec<String> = ctx.store().missing_kinds().iter().map(ToString::to_string).collect();
            let (duration, missing) = (time.as_secs(), missing.join(", "));
            tracing::error!(duration, missing, "cluster is waiting on sync for extended duration");
        }
        Ok(Next::After(ROUND))
    }
}

/// A claim that we created, and that a watch should have shown by now.
async fn look_for(ctx: &Ctx, name: &NodeName) -> Result<(), ControllerError> {
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    match api.get_opt(name.as_str()).await.doing(format!("looking for nodeclaim {name}"))? {
        Some(claim) => ctx.tell(|store, now| store.apply(claim, now)),
        None => ctx.tell(|store, now| store.forget_claim(name, now)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{World, node_class};

    fn claim(name: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, "uid": name},
            "spec": {"requirements": [], "nodeClassRef":
                {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
        }))
        .unwrap()
    }

    // 01/STA-14
    #[tokio::test(start_paused = true)]
    async fn claims_that_no_watch_shows_are_looked_for_and_forgotten_if_they_are_not_there() {
        let world = World::new();
        for name in ["real", "lost"] {
            world.ctx.tell(|store, now| store.assume_claim(claim(name), now));
        }
        world.put(serde_json::to_value(claim("real")).unwrap());
        let names = || world.ctx.store().claims().names().map(ToString::to_string).collect::<Vec<_>>();
        Upkeep.tick(&world.ctx, &(), &world.id()).await.unwrap();
        assert_eq!(names(), ["lost", "real"], "a watch may still be on its way");
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!(Upkeep.tick(&world.ctx, &(), &world.id()).await.unwrap(), Next::After(ROUND));
        assert_eq!(names(), ["real"]);
        assert_eq!(world.server.asked("GET /apis/karpenter.sh/v1/nodeclaims/").len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_whole_process_watches_syncs_and_ends_when_it_is_asked_to() {
        let world = World::new();
        world.put(node_class("default"));
        world.put(serde_json::to_value(claim("real")).unwrap());
        world.run(Duration::from_secs(3)).await;
        assert!(world.ctx.store().is_synced());
        assert_eq!(world.ctx.store().claims().len(), 1);
    }
}
