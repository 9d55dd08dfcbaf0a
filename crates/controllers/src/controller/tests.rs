use std::sync::Mutex;

use kube::core::Status;
use model::ids::NodeName;
use serde_json::json;

use super::*;
use crate::error::Doing;
use crate::testing::World;

/// A duty about claims that loses every race, or sees nothing but what it is shown.
#[derive(Clone, Default)]
struct Recording {
    loses_races: bool,
    seen: Arc<Mutex<Vec<NodeName>>>,
}

impl Controller for Recording {
    type Key = NodeName;
    const NAME: &'static str = "recording";

    fn wakes_for(call: &Duty) -> Option<NodeName> {
        match call {
            Duty::Claim(name) => Some(name.clone()),
            _ => None,
        }
    }

    fn first_keys(&self, store: &Store) -> Vec<NodeName> {
        store.claims().names().cloned().collect()
    }

    async fn tick(&self, _ctx: &Ctx, key: &NodeName, _id: &TickId) -> Result<Next, ControllerError> {
        self.seen.lock().unwrap().push(key.clone());
        if self.loses_races {
            let conflict = Status::failure("somebody was faster", "Conflict").with_code(409);
            return Err(kube::Error::Api(conflict.boxed())).doing("writing");
        }
        Ok(Next::OnChange)
    }
}

/// A duty that needs the whole picture and sees whether everything was remembered before.
struct Whole {
    remembered: Arc<Mutex<Vec<&'static str>>>,
}

impl Controller for Whole {
    type Key = ();
    const NAME: &'static str = "whole";
    const NEEDS_ALL_LISTED: bool = true;

    fn wakes_for(_call: &Duty) -> Option<()> {
        None
    }

    fn first_keys(&self, _store: &Store) -> Vec<()> {
        vec![()]
    }

    async fn tick(&self, _ctx: &Ctx, _key: &(), _id: &TickId) -> Result<Next, ControllerError> {
        self.remembered.lock().unwrap().push("looked");
        Ok(Next::OnChange)
    }
}

fn tell(world: &World, name: &str) {
    let claim: api::NodeClaim = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, "uid": name},
        "spec": {"requirements": [], "nodeClassRef":
            {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}},
    }))
    .unwrap();
    world.ctx.tell(|store, now| store.apply(claim, now));
}

#[tokio::test(start_paused = true)]
async fn a_race_that_is_lost_again_and_again_is_run_later_and_later() {
    let world = World::new();
    tell(&world, "a");
    let duty = Recording { loses_races: true, ..Recording::default() };
    world.run_only(duty.clone(), Duration::from_secs(60)).await;
    let tries = duty.seen.lock().unwrap().len();
    assert!((10..20).contains(&tries), "{tries} tries in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_duty_that_has_not_begun_piles_up_nothing_and_begins_with_all_that_is_known() {
    let world = World::new();
    let (duty, mut duties) = (Recording::default(), Duties::new(world.ctx.clone()));
    let queue = duties.add(duty.clone());
    ["a", "b"].into_iter().for_each(|name| tell(&world, name));
    assert_eq!(queue.depth(), runtime::queue::Depth::default());
    let mut tasks = Tasks::new(Stop::new());
    duties.spawn(&mut tasks);
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        tell(&world, "c");
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    tasks.run(later, Duration::from_secs(1)).await.unwrap();
    assert_eq!(*duty.seen.lock().unwrap(), ["a", "b", "c"].map(NodeName::from));
}

#[tokio::test(start_paused = true)]
async fn what_is_left_under_way_is_remembered_once_and_before_anybody_looks() {
    let world = World::new();
    let (remembered, mut duties) = (Arc::new(Mutex::new(Vec::new())), Duties::new(world.ctx.clone()));
    duties.add(Whole { remembered: remembered.clone() });
    duties.add(Whole { remembered: remembered.clone() });
    let memory = remembered.clone();
    duties.remember(move || memory.lock().unwrap().push("remembered"));
    let mut tasks = Tasks::new(Stop::new());
    duties.spawn(&mut tasks);
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(remembered.lock().unwrap().is_empty(), "not everything was listed");
        world.sync();
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    tasks.run(later, Duration::from_secs(1)).await.unwrap();
    assert_eq!(*remembered.lock().unwrap(), ["remembered", "looked", "looked"]);
}
