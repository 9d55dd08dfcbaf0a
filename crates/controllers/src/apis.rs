//! APIs that a cluster may have or not: looked for again and again, and told of when that changes.
//!
//! Kinds that we watch (CapacityBuffer, NodeOverlay) are found to be missing by their watches; here are those that nobody
//! watches. Whoever wants to use one asks `ctx.apis` first.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::{Duty, Store};
use runtime::Next;

use crate::controller::{Controller, TickId};
use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};

/// As often as watches look for kinds that are missing.
const ROUND: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OptionalApi {
    /// Recommendations of how much pods should ask for.
    VerticalPodAutoscalers,
    /// Devices that pods claim (dynamic resource allocation).
    ResourceClaims,
}

impl OptionalApi {
    pub const ALL: [Self; 2] = [Self::VerticalPodAutoscalers, Self::ResourceClaims];

    fn group_version(self) -> &'static str {
        match self {
            Self::VerticalPodAutoscalers => "autoscaling.k8s.io/v1",
            Self::ResourceClaims => "resource.k8s.io/v1",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::VerticalPodAutoscalers => "verticalpodautoscalers",
            Self::ResourceClaims => "resourceclaims",
        }
    }
}

/// Whether an API is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Served,
    Absent,
    /// Nobody has looked yet.
    Unknown,
}

/// What was found when somebody last looked.
#[derive(Debug, Default)]
pub struct Apis(Mutex<BTreeMap<OptionalApi, Presence>>);

impl Apis {
    pub fn presence(&self, api: OptionalApi) -> Presence {
        self.lock().get(&api).copied().unwrap_or(Presence::Unknown)
    }

    /// Says whether that is news.
    fn note(&self, api: OptionalApi, found: Presence) -> bool {
        self.lock().insert(api, found) != Some(found)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OptionalApi, Presence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Discovery;

impl Controller for Discovery {
    type Key = OptionalApi;
    const NAME: &'static str = "state.apis";

    fn wakes_for(_call: &Duty) -> Option<OptionalApi> {
        None
    }

    fn first_keys(&self, _store: &Store) -> Vec<OptionalApi> {
        OptionalApi::ALL.to_vec()
    }

    async fn tick(&self, ctx: &Ctx, api: &OptionalApi, _id: &TickId) -> Result<Next, ControllerError> {
        let found = look_for(ctx, *api).await?;
        if ctx.apis.note(*api, found) {
            let (version, resource) = (api.group_version(), api.plural());
            match found {
                Presence::Served => tracing::info!(version, resource, "the cluster serves this API"),
                _ => tracing::info!(
                    version,
                    resource,
                    "the cluster does not serve this API; it is looked for again from time to time"
                ),
            }
        }
        Ok(Next::After(ROUND))
    }
}

async fn look_for(ctx: &Ctx, api: OptionalApi) -> Result<Presence, ControllerError> {
    let version = api.group_version();
    match ctx.client.list_api_group_resources(version).await {
        Ok(list) if list.resources.iter().any(|resource| resource.name == api.plural()) => Ok(Presence::Served),
        Ok(_) => Ok(Presence::Absent),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Presence::Absent),
        Err(error) => Err(error).doing(format!("looking for {} in {version}", api.plural())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    #[tokio::test(start_paused = true)]
    async fn what_is_missing_is_looked_for_until_it_is_there() {
        let world = World::new();
        world.server.withdraw("VerticalPodAutoscaler");
        let presences = || OptionalApi::ALL.map(|api| world.ctx.apis.presence(api));
        assert_eq!(presences(), [Presence::Unknown, Presence::Unknown]);
        let coming = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            assert_eq!(presences(), [Presence::Absent, Presence::Served]);
            world.server.serve_again("VerticalPodAutoscaler");
            world.server.withdraw("ResourceClaim");
        };
        futures::join!(world.run(ROUND + Duration::from_secs(5)), coming);
        assert_eq!(presences(), [Presence::Served, Presence::Absent]);
        let asked = world.server.asked("GET /apis/autoscaling.k8s.io/v1").len();
        assert_eq!(asked, 2, "once a minute, and nothing is listed or watched");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_changes_nothing() {
        use crate::testing::Trouble;
        let world = World::new();
        let api = OptionalApi::ResourceClaims;
        Discovery.tick(&world.ctx, &api, &world.id()).await.unwrap();
        world.server.trouble("GET /apis/resource.k8s.io/v1", Trouble::Refuses(500));
        assert!(Discovery.tick(&world.ctx, &api, &world.id()).await.is_err());
        assert_eq!(world.ctx.apis.presence(api), Presence::Served);
    }

    #[test]
    fn only_a_difference_is_news() {
        let apis = Apis::default();
        let note = |found| apis.note(OptionalApi::ResourceClaims, found);
        let told = [Presence::Absent, Presence::Absent, Presence::Served, Presence::Served, Presence::Absent].map(note);
        assert_eq!(told, [true, false, true, false, true]);
    }
}
