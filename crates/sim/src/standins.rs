//! The runner: hands every change to every part of the cluster, in a fixed order, until nobody has anything left to do, and then
//! sleeps until somebody's time has come.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use jiff::Timestamp;

use crate::apiserver::{ApiServer, At, Change, Follower};
use crate::fields;
use crate::kinds::Kind;
use crate::standin::StandIn;

/// So many rounds at one instant are more than any story needs; two parts that undo each other's work would go on for ever.
const ROUNDS_AT_ONE_INSTANT_MAX: u64 = 500_000;
/// So many in a row without anybody from outside having had a turn.
const ROUNDS_IN_A_ROW_MAX: u64 = 50_000;

/// All parts of a cluster, and what they have not heard yet.
pub struct StandIns {
    server: ApiServer,
    follower: Follower,
    unheard: VecDeque<Change>,
    parts: Vec<Part>,
    instant: Timestamp,
    rounds_at_instant: u64,
}

struct Part {
    stand_in: Box<dyn StandIn>,
    writes_at_instant: u64,
}

impl StandIns {
    /// The parts act in the order given. They hear of what is there already as if it had just been made.
    pub fn new(server: ApiServer, parts: Vec<Box<dyn StandIn>>) -> Self {
        let unheard =
            Kind::ALL.iter().flat_map(|kind| server.list(*kind).into_iter().map(|object| made(*kind, object)));
        Self {
            unheard: unheard.collect(),
            follower: server.follow(),
            parts: parts.into_iter().map(|stand_in| Part { stand_in, writes_at_instant: 0 }).collect(),
            instant: server.now(),
            rounds_at_instant: 0,
            server,
        }
    }

    /// Runs for ever. It may be dropped at any wait and called again: nothing is lost.
    pub async fn run(&mut self) -> Infallible {
        loop {
            self.settle();
            let wait =
                self.next().map(|at| Duration::try_from(at.duration_since(self.server.now())).unwrap_or_default());
            match wait {
                None => self.follower.changed().await,
                Some(wait) => tokio::select! {
                    biased;
                    () = self.follower.changed() => {}
                    () = tokio::time::sleep(wait) => {}
                },
            }
        }
    }

    /// Does everything that can be done at this instant.
    pub fn settle(&mut self) {
        let mut in_a_row = 0;
        while self.round() {
            in_a_row += 1;
            if in_a_row > ROUNDS_IN_A_ROW_MAX || self.rounds_at_instant > ROUNDS_AT_ONE_INSTANT_MAX {
                self.give_up();
            }
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.parts.iter().filter_map(|part| part.stand_in.next()).min()
    }

    /// Everybody hears what is new, then acts on it, then on the time. Says whether anything happened.
    fn round(&mut self) -> bool {
        self.look_at_the_clock();
        self.collect(None);
        let heard = std::mem::take(&mut self.unheard);
        for change in &heard {
            for place in 0..self.parts.len() {
                self.parts[place].stand_in.heed(change, &self.server);
                self.collect(Some(place));
            }
        }
        let mut is_busy = !heard.is_empty();
        for place in 0..self.parts.len() {
            self.parts[place].stand_in.settle(&self.server);
            self.collect(Some(place));
        }
        for place in 0..self.parts.len() {
            let stand_in = &mut self.parts[place].stand_in;
            if stand_in.next().is_some_and(|at| at <= self.instant) {
                stand_in.wake(self.instant, &self.server);
                self.collect(Some(place));
                is_busy = true;
            }
        }
        // What somebody wrote without having heard anything must be heard too.
        is_busy || !self.unheard.is_empty()
    }

    /// Takes over what was written since the last look and notes who wrote it.
    fn collect(&mut self, writer: Option<usize>) {
        while let Some(change) = self.follower.try_next() {
            self.unheard.push_back(change);
            if let Some(place) = writer {
                self.parts[place].writes_at_instant += 1;
            }
        }
    }

    fn look_at_the_clock(&mut self) {
        let now = self.server.now();
        if now != self.instant {
            self.instant = now;
            self.rounds_at_instant = 0;
            for part in &mut self.parts {
                part.writes_at_instant = 0;
            }
        }
        self.rounds_at_instant += 1;
    }

    fn give_up(&self) -> ! {
        let mut writers: Vec<(u64, &str)> =
            self.parts.iter().map(|part| (part.writes_at_instant, part.stand_in.name())).collect();
        writers.sort_by(|a, b| b.cmp(a));
        let writers: Vec<String> = writers.iter().map(|(writes, name)| format!("{name}: {writes} writes")).collect();
        let last = self.unheard.back().map(|change| format!("{} {}", change.kind, change.at.name));
        panic!(
            "the cluster does not come to rest at {} after {} rounds; {}; last written: {}",
            self.instant,
            self.rounds_at_instant,
            writers.join(", "),
            last.as_deref().unwrap_or("nothing")
        );
    }
}

fn made(kind: Kind, object: std::sync::Arc<serde_json::Value>) -> Change {
    let at: At = fields::at(&object);
    Change { kind, at, before: None, after: Some(object) }
}

#[cfg(test)]
mod tests;
