//! Plays a story: lets time pass in the simulated cluster from cue to cue, and does what each cue says.
//!
//! Time moves only inside `advance`. Between two calls nothing runs, so whoever plays may write files, draw, or wait for the wall
//! clock there. How far each call goes makes no difference to the story.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use provider::ProviderId;
use provider::kwok::Kwok;
use runtime::Rng;

use super::act::{self, Action, CloudAction, Sickness};
use super::cast::{Object, Selection};
use super::comeback::{Comeback, Present};
use super::ledger::{Happening, Ledger, Machine, Watcher, locked};
use super::read::{Story, TimedAction};
use super::report::Report;
use super::trace::Trace;
use crate::apiserver::{At, Deletion};
use crate::kinds::Kind;
use crate::kubelet;
use crate::world::{Beginning, World};

/// A gradual change of scale is made in steps of this length.
const RAMP_STEP: Duration = Duration::from_secs(5);

/// A runtime whose clock stands still while anybody has something to do, and jumps when nobody has.
pub fn paused_runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()
}

/// A story that is being played.
pub struct Play<'a> {
    story: &'a Story,
    seed: u64,
    world: World,
    ledger: Arc<Mutex<Ledger>>,
    /// What is to come, by time and in the order in which it was planned.
    cues: BTreeMap<(Duration, u64), Cue<'a>>,
    planned: u64,
    now: Duration,
    /// Draws what stories leave to chance.
    rng: Rng,
    traced: Present,
}

enum Cue<'a> {
    Step(&'a TimedAction),
    SetReplicas {
        object: &'a Object,
        replicas: u32,
    },
    Arrival {
        trace: &'a Arc<Trace>,
        pod: usize,
    },
    Departure(At),
    /// A machine that the cloud took back falls silent.
    Silence(String),
    /// The oldest pods of a workload end.
    Ends {
        object: &'a Object,
        count: usize,
    },
    Recovers {
        node: String,
        sickness: &'a Sickness,
    },
}

impl<'a> Play<'a> {
    /// Call it inside a paused runtime.
    pub fn new(story: &'a Story, seed: u64) -> anyhow::Result<Self> {
        let ledger = Arc::new(Mutex::new(Ledger::new(story.epoch, BTreeMap::new())));
        let traced = Present::default();
        let world = World::new(Beginning {
            seed,
            epoch: story.epoch,
            assortment: story.setup.assortment.clone(),
            controller: story.controller.clone(),
            watchers: vec![Box::new(Comeback::new(traced.clone())), Box::new(Watcher(ledger.clone()))],
        })?;
        world.cloud.facts().set_delays(story.setup.delays);
        for goods in &story.setup.shortages {
            act::trade(&world.cloud, &CloudAction::Shortage(goods.clone()));
        }
        locked(&ledger).reprice(story.epoch, world.cloud.price_list().collect());
        for manifest in &story.objects {
            act::apply(&world.server, manifest).with_context(|| format!("applying {}", manifest.spoken()))?;
        }
        locked(&ledger).tell(story.epoch, "start", opening(story));
        let (cues, rng) = (BTreeMap::new(), Rng::new(seed).fork("story"));
        let mut play = Self { story, seed, world, ledger, cues, planned: 0, now: Duration::ZERO, rng, traced };
        for step in &story.steps {
            play.plan(step.at, Cue::Step(step));
        }
        Ok(play)
    }

    pub fn now(&self) -> Duration {
        self.now
    }

    /// The cluster, for whoever wants to look at more than the report tells, such as a recorder.
    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// Plays on until so long after the beginning, or to the end if that comes before.
    pub async fn advance(&mut self, until: Duration) -> anyhow::Result<()> {
        let until = until.min(self.story.duration);
        loop {
            let next = self.cues.first_key_value().map(|((at, _), _)| *at);
            let stop = next.map_or(until, |next| next.min(until));
            if stop > self.now {
                self.world.pass(stop - self.now).await?;
                self.now = stop;
            }
            match self.cues.first_entry().filter(|entry| entry.key().0 <= self.now) {
                Some(cue) => {
                    let cue = cue.remove();
                    self.perform(cue)?;
                }
                None if self.now >= until => return Ok(()),
                None => {}
            }
        }
    }

    /// What has happened since the last time that somebody asked.
    pub fn take_happenings(&mut self) -> Vec<Happening> {
        locked(&self.ledger).take_happenings()
    }

    /// Lets the last instant end, and closes the books. What happened last can still be asked for.
    pub async fn end(&mut self) -> anyhow::Result<Report> {
        self.advance(self.story.duration).await?;
        self.world.pass(Duration::ZERO).await?;
        let mut ledger = locked(&self.ledger);
        ledger.close(self.world.server.now());
        Ok(Report::of(&ledger, self.seed, self.now))
    }

    fn plan(&mut self, at: Duration, cue: Cue<'a>) {
        self.cues.insert((at, self.planned), cue);
        self.planned += 1;
    }

    fn tell(&self, word: &'static str, text: String) {
        locked(&self.ledger).tell(self.world.server.now(), word, text);
    }

    fn perform(&mut self, cue: Cue<'a>) -> anyhow::Result<()> {
        let server = &self.world.server;
        match cue {
            Cue::Step(step) => {
                let words = || format!("step at line {} of {}: {}", step.line, self.story.file, step.action);
                let doing = words();
                self.step(step).context(doing)
            }
            Cue::SetReplicas { object, replicas } => match act::set_replicas(server, object, replicas) {
                // Its namespace or its owner has taken it along.
                Err(refusal) if refusal.code == 404 => Ok(()),
                other => other.with_context(|| format!("scaling {object}")),
            },
            Cue::Arrival { trace, pod } => {
                let traced = &trace.pods[pod];
                let made =
                    server.create(trace.object(traced)).with_context(|| format!("creating pod {}", traced.name))?;
                let at = At::of(&made);
                self.traced.comes(at.clone(), trace.clone(), pod);
                if let Some(leaves) = traced.leaves {
                    let stays = leaves.saturating_sub(traced.comes);
                    self.plan(self.now + stays, Cue::Departure(at));
                }
                Ok(())
            }
            Cue::Departure(at) => {
                self.traced.leaves(&at);
                match server.delete(Kind::Pod, &at, &Deletion::default()) {
                    // It was evicted, and is on its way back at this very instant.
                    Err(refusal) if refusal.code == 404 => Ok(()),
                    other => other.with_context(|| format!("deleting pod {}", at.name)),
                }
            }
            Cue::Ends { object, count } => {
                let oldest = act::pods_of(server, object).into_iter().take(count);
                let ends = oldest.map(|at| server.delete(Kind::Pod, &at, &Deletion::default()));
                ends.collect::<Result<(), _>>().with_context(|| format!("ending pods of {object}"))
            }
            Cue::Recovers { node, sickness } => match act::set_health(server, &node, sickness, true) {
                Err(refusal) if refusal.code == 404 => Ok(()),
                other => other.with_context(|| format!("curing {node}")),
            },
            Cue::Silence(node) => match kubelet::stop(server, &node) {
                Err(refusal) if refusal.code == 404 => Ok(()),
                other => other.with_context(|| format!("stopping the kubelet of {node}")),
            },
        }
    }

    fn step(&mut self, step: &'a TimedAction) -> anyhow::Result<()> {
        let server = self.world.server.clone();
        if !matches!(step.action, Action::Expect(_)) {
            let word = if matches!(step.action, Action::Cloud(_)) { "cloud" } else { "step" };
            self.tell(word, step.action.to_string());
        }
        for object in step.action.replicas_of() {
            self.end_ramp(&object);
        }
        match &step.action {
            Action::Apply(manifests) => {
                for manifest in manifests {
                    act::apply(&server, manifest)?;
                }
            }
            Action::Delete(object) => act::delete(&server, object)?,
            Action::Patch { object, patch } => drop(server.patch_written(object.kind, &object.at, &patch.value)?),
            Action::Scale { object, replicas, over, at_random } => {
                if *at_random {
                    self.draw_leavers(object, *replicas)?;
                }
                self.scale(object, *replicas, *over)?;
            }
            Action::Cloud(action) => self.cloud(action),
            Action::Expect(expectation) => {
                locked(&self.ledger).expect(server.now(), step.line, expectation);
            }
            Action::Trace(trace) => {
                for (pod, traced) in trace.pods.iter().enumerate() {
                    self.plan(self.now + traced.comes, Cue::Arrival { trace, pod });
                }
            }
            Action::Churn { object, count, every, lasts } => {
                let times = lasts.as_nanos() / every.as_nanos();
                for time in 0..u32::try_from(times)? {
                    self.plan(self.now + *every * time, Cue::Ends { object, count: *count });
                }
            }
            Action::Sick { goods, count, sickness, lasts } => {
                let struck = self.machines(goods, *count, |_| true);
                for node in struck.into_iter().filter_map(|machine| machine.node) {
                    act::set_health(&server, &node, sickness, false)?;
                    if let Some(lasts) = lasts {
                        self.plan(self.now + *lasts, Cue::Recovers { node, sickness });
                    }
                }
            }
        }
        Ok(())
    }

    fn scale(&mut self, object: &'a Object, replicas: u32, over: Duration) -> anyhow::Result<()> {
        let present =
            self.world.server.get(object.kind, &object.at).with_context(|| format!("there is no {object}"))?;
        if over.is_zero() {
            return Ok(act::set_replicas(&self.world.server, object, replicas)?);
        }
        let from = present["spec"]["replicas"].as_i64().unwrap_or(0);
        let steps = over.as_nanos().div_ceil(RAMP_STEP.as_nanos()).max(1) as i64;
        for step in 1..=steps {
            let reached = from + (i64::from(replicas) - from) * step / steps;
            let at = self.now + over.mul_f64(step as f64 / steps as f64);
            self.plan(at, Cue::SetReplicas { object, replicas: u32::try_from(reached).unwrap_or(0) });
        }
        Ok(())
    }

    /// Of those who say how many replicas an object has, the last is heard: what is left of a gradual change is dropped.
    fn end_ramp(&mut self, object: &Object) {
        self.cues.retain(|_, cue| !matches!(cue, Cue::SetReplicas { object: ramped, .. } if *ramped == object));
    }

    /// Draws the pods that go when a workload shrinks.
    fn draw_leavers(&mut self, object: &Object, replicas: u32) -> anyhow::Result<()> {
        let mut pods = act::pods_of(&self.world.server, object);
        let surplus = pods.len().saturating_sub(replicas as usize);
        for place in 0..surplus {
            let other = place + self.rng.below((pods.len() - place) as u64) as usize;
            pods.swap(place, other);
        }
        act::make_cheap(&self.world.server, &pods[..surplus]).with_context(|| format!("drawing pods of {object}"))
    }

    /// So many machines of these offerings, the oldest first.
    fn machines(&self, goods: &Selection, count: usize, suits: impl Fn(&Machine) -> bool) -> Vec<Machine> {
        let ledger = locked(&self.ledger);
        let suitable = ledger.running().into_iter().filter(|machine| goods.has(&machine.offering) && suits(machine));
        suitable.take(count).cloned().collect()
    }

    fn cloud(&mut self, action: &CloudAction) {
        let CloudAction::Interruption { goods, count, notice } = action else {
            let cloud: &Kwok = &self.world.cloud;
            act::trade(cloud, action);
            let prices = cloud.price_list().collect();
            locked(&self.ledger).reprice(self.world.server.now(), prices);
            return;
        };
        // A cloud gives notice once: whoever has it already is not struck again in the place of another.
        for machine in self.machines(goods, *count, |machine| !machine.is_interrupted) {
            locked(&self.ledger).interrupted(&machine.claim);
            self.world.cloud.interrupt(ProviderId::from(machine.provider_id), *notice);
            if let Some(node) = machine.node {
                self.plan(self.now + *notice, Cue::Silence(node));
            }
        }
    }
}

/// The first line of a story.
fn opening(story: &Story) -> String {
    let objects: Vec<String> = story.objects.iter().map(act::Manifest::spoken).collect();
    let count = objects.len();
    match count {
        0 => format!("{}: an empty cluster", story.name),
        1..=6 => format!("{}: {}", story.name, objects.join(", ")),
        _ => format!("{}: {} and {} more", story.name, objects[..5].join(", "), count - 5),
    }
}
