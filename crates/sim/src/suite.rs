//! One suite for two servers: cases that the API server in memory and a real one must answer alike.
//!
//! A case speaks plain HTTP through a `kube::Client` and knows nothing of who answers. It has a namespace of its own, names what
//! belongs to no namespace after that, and waits with patience where a real cluster's controllers take a moment.

mod custom;
mod evictions;
mod finalizers;
mod lists;
mod locks;
mod names;
mod namespaces;
mod objects;
mod owners;
mod patches;
mod pods;
mod scales;
mod selectors;
mod storage;
mod watches;
mod workloads;
mod world;

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use kube::Client;

pub use world::World;

/// One promise of the API server.
pub struct Case {
    /// The promise, as the name of a test.
    pub name: &'static str,
    /// What must run beside the server.
    pub needs: &'static [Needs],
    run: fn(World) -> BoxFuture<'static, Result<()>>,
}

/// Something that a cluster does by itself and a case relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Somebody keeps the status of PodDisruptionBudgets.
    BudgetStatus,
}

/// Makes cases of functions, each named after its promise.
macro_rules! promises {
    ($($name:ident $([$($needs:ident),+])?),+ $(,)?) => {
        /// The cases of this file.
        pub(super) fn cases() -> Vec<$crate::suite::Case> {
            vec![$($crate::suite::Case {
                name: stringify!($name),
                needs: &[$($($crate::suite::Needs::$needs),+)?],
                run: |world| Box::pin($name(world)),
            }),+]
        }
    };
}
use promises;

/// Every case, in a fixed order.
pub fn cases() -> Vec<Case> {
    [
        objects::cases(),
        locks::cases(),
        patches::cases(),
        finalizers::cases(),
        owners::cases(),
        watches::cases(),
        lists::cases(),
        selectors::cases(),
        names::cases(),
        namespaces::cases(),
        pods::cases(),
        scales::cases(),
        workloads::cases(),
        custom::cases(),
        storage::cases(),
        evictions::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Case {
    /// Plays the case in a namespace of this name, which it makes first.
    pub async fn play(&self, client: Client, namespace: &str) -> Result<()> {
        let world = World::open(client, namespace).await.with_context(|| format!("before {}", self.name))?;
        (self.run)(world).await.with_context(|| self.name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use runtime::{Clock, Rng};

    use super::*;
    use crate::apiserver::ApiServer;
    use crate::budgets::Budgets;
    use crate::standin::StandIn;
    use crate::standins::StandIns;

    #[tokio::test(start_paused = true)]
    async fn the_api_server_in_memory_keeps_every_promise() {
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let server = ApiServer::of_cluster(clock, Rng::new(1)).unwrap();
        let mut failures = Vec::new();
        for (number, case) in cases().iter().enumerate() {
            let client = server.client();
            let name = format!("case-{number}");
            // The budgets are kept by a stand-in, which is not part of the server; in the other cases nobody interferes.
            let parts: Vec<Box<dyn StandIn>> = match case.needs.contains(&Needs::BudgetStatus) {
                true => vec![Box::new(Budgets::new())],
                false => Vec::new(),
            };
            let mut beside = StandIns::new(server.clone(), parts);
            let played = tokio::select! {
                biased;
                played = case.play(client, &name) => played,
                never = beside.run() => match never {},
            };
            if let Err(error) = played {
                failures.push(format!("{error:#}"));
            }
        }
        assert!(failures.is_empty(), "{} cases failed:\n{}", failures.len(), failures.join("\n"));
    }

    #[test]
    fn every_promise_is_made_once() {
        let cases = cases();
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(cases.len() >= 80, "{}", cases.len());
    }
}
