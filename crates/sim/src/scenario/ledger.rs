//! Keeps books while a story is played: who waits, what runs, what it costs, what was decided, and whether it is as expected.
//!
//! The ledger hears every change at the instant at which it was made. Lines are written, and expectations judged, when an instant is
//! over: what is so for no time at all is nobody's business.

mod decisions;
mod machines;
mod pods;
mod voices;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::price::Price;

use super::expectation::{Expectation, State, When};
use crate::apiserver::{ApiServer, Change};
use crate::kinds::Kind;
use crate::standin::StandIn;

pub(super) use decisions::Decision;
use decisions::Decisions;
pub(super) use machines::Machine;
use machines::{Machines, Prices};
pub(super) use pods::PodTotals;
use pods::Pods;
use voices::Voices;

const NANOS_PER_HOUR: i128 = 3_600_000_000_000;

/// One line of the story.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
    /// Since the beginning.
    pub at: Duration,
    /// One word for what it is: `step`, `decide`, `launch`, `ready`, `placed`, `gone`, `expect` and the like.
    pub word: &'static str,
    pub text: String,
    /// What the cluster costs from now on.
    pub price: Price,
    /// What it has cost so far, in dollars.
    pub spent: f64,
}

/// How large and how dear the cluster was from an instant on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub at: Duration,
    pub nodes: usize,
    pub price: Price,
    pub pending_pods: usize,
}

/// The verdict on an expectation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) at: Duration,
    pub(super) ok: bool,
    pub(super) message: String,
}

/// The books of one play.
pub(super) struct Ledger {
    epoch: Timestamp,
    /// The instant that is being written about.
    instant: Timestamp,
    pods: Pods,
    machines: Machines,
    decisions: Decisions,
    voices: Voices,
    /// Pico-dollars per hour times nanoseconds.
    spent: i128,
    open: Vec<Open>,
    pub(super) verdicts: Vec<Verdict>,
    happenings: Vec<Happening>,
    samples: Vec<Sample>,
}

/// An expectation that is not settled yet.
struct Open {
    at: Timestamp,
    deadline: Timestamp,
    line: u64,
    expectation: Expectation,
}

impl Ledger {
    pub(super) fn new(epoch: Timestamp, prices: Prices) -> Self {
        Self {
            epoch,
            instant: epoch,
            pods: Pods::default(),
            machines: Machines::new(prices),
            decisions: Decisions::default(),
            voices: Voices::default(),
            spent: 0,
            open: Vec::new(),
            verdicts: Vec::new(),
            happenings: Vec::new(),
            samples: vec![Sample { at: Duration::ZERO, nodes: 0, price: Price::ZERO, pending_pods: 0 }],
        }
    }

    /// Something happens because the scenario says so.
    pub(super) fn tell(&mut self, now: Timestamp, word: &'static str, text: String) {
        self.move_to(now);
        self.say(word, text);
    }

    pub(super) fn expect(&mut self, now: Timestamp, line: u64, expectation: &Expectation) {
        self.move_to(now);
        let lasts = SignedDuration::try_from(expectation.when.lasts()).unwrap_or(SignedDuration::MAX);
        let deadline = now.saturating_add(lasts).unwrap_or(Timestamp::MAX);
        self.open.push(Open { at: now, deadline, line, expectation: expectation.clone() });
    }

    /// Prices have moved.
    pub(super) fn reprice(&mut self, now: Timestamp, prices: Prices) {
        self.move_to(now);
        self.machines.reprice(prices);
    }

    /// The machines that run, oldest first.
    pub(super) fn running(&self) -> Vec<&Machine> {
        self.machines.running()
    }

    /// The cloud has announced that it takes the machine of this claim back.
    pub(super) fn interrupted(&mut self, claim: &str) {
        self.machines.interrupted(claim);
    }

    /// The story is over: what is still open is judged as things stand.
    pub(super) fn close(&mut self, end: Timestamp) {
        self.move_to(end);
        self.move_to(Timestamp::MAX);
        self.pods.close(end);
    }

    pub(super) fn take_happenings(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happenings)
    }

    pub(super) fn samples(&self) -> &[Sample] {
        &self.samples
    }

    pub(super) fn machines(&self) -> Vec<&Machine> {
        self.machines.all()
    }

    pub(super) fn decisions(&self) -> &[Decision] {
        self.decisions.all()
    }

    pub(super) fn pods(&self) -> PodTotals {
        self.pods.totals()
    }

    pub(super) fn price(&self) -> Price {
        self.machines.price()
    }

    /// Dollars so far.
    pub(super) fn spent(&self) -> f64 {
        let pico = self.spent / NANOS_PER_HOUR;
        pico as f64 / 1e12
    }

    pub(super) fn since_start(&self, time: Timestamp) -> Duration {
        Duration::try_from(time.duration_since(self.epoch)).unwrap_or_default()
    }

    fn state(&self) -> State {
        let totals = self.pods.totals();
        State {
            nodes: self.machines.count() as u64,
            types: self.machines.types(),
            price: self.machines.price(),
            pending_pods: totals.pending as u64,
            running_pods: totals.running as u64,
            evicted_pods: totals.evicted as u64,
            oldest: self.machines.oldest().map(|launched| self.since_start(launched)),
        }
    }

    fn say(&mut self, word: &'static str, text: String) {
        self.say_at(self.instant, word, text);
    }

    fn say_at(&mut self, time: Timestamp, word: &'static str, text: String) {
        let (at, price, spent) = (self.since_start(time), self.machines.price(), self.spent());
        self.happenings.push(Happening { at, word, text, price, spent });
    }

    /// Ends the present instant if time has moved: writes its lines, judges what is open, and charges for the time until then.
    pub(super) fn move_to(&mut self, now: Timestamp) {
        if now <= self.instant {
            return;
        }
        self.write_lines();
        self.judge(now);
        let sample = Sample {
            at: self.since_start(self.instant),
            nodes: self.machines.count(),
            price: self.machines.price(),
            pending_pods: self.pods.totals().pending,
        };
        let is_news = self.samples.last().is_none_or(|last| {
            (last.nodes, last.price, last.pending_pods) != (sample.nodes, sample.price, sample.pending_pods)
        });
        if is_news {
            self.samples.push(sample);
        }
        if now < Timestamp::MAX {
            let passed = now.duration_since(self.instant).as_nanos();
            self.spent += i128::from(self.machines.price().pico()) * passed;
            self.instant = now;
        }
    }

    fn write_lines(&mut self) {
        let waiting = self.pods.waiting_line();
        for line in self.decisions.take_lines(self.since_start(self.instant), &waiting) {
            self.say("decide", line);
        }
        for line in self.voices.take_lines() {
            self.say("told", line);
        }
        for (word, line) in self.machines.take_lines() {
            self.say(word, line);
        }
        for (word, line) in self.pods.take_lines() {
            self.say(word, line);
        }
    }

    fn judge(&mut self, now: Timestamp) {
        if self.open.is_empty() {
            return;
        }
        let state = self.state();
        for open in std::mem::take(&mut self.open) {
            let (wanted, wrong) = open.expectation.judge(&state);
            let ok = wrong.is_empty();
            let may_change = match open.expectation.when {
                When::Within(_) => !ok,
                When::Throughout(_) => ok,
            };
            if may_change && now <= open.deadline {
                self.open.push(open);
                continue;
            }
            let took = self.instant.duration_since(open.at).as_secs();
            let message = match (ok, open.expectation.when) {
                (true, When::Within(Duration::ZERO)) => wanted.join(", "),
                (true, When::Within(_)) => format!("{} after {took} s", wanted.join(", ")),
                (true, When::Throughout(time)) => format!("{} throughout {} s", wanted.join(", "), time.as_secs()),
                (false, When::Within(Duration::ZERO)) => format!("{} (line {})", wrong.join(", "), open.line),
                (false, When::Within(time)) => {
                    format!("{} after {} s (line {})", wrong.join(", "), time.as_secs(), open.line)
                }
                (false, When::Throughout(_)) => format!("{} after {took} s (line {})", wrong.join(", "), open.line),
            };
            let is_too_late = matches!(open.expectation.when, When::Within(_));
            match ok {
                true => self.say("expect", message.clone()),
                false if is_too_late => self.say_at(open.deadline, "FAILED", message.clone()),
                false => self.say("FAILED", message.clone()),
            }
            self.verdicts.push(Verdict { at: self.since_start(open.at), ok, message });
        }
    }

    fn note(&mut self, change: &Change, now: Timestamp) {
        match change.kind {
            Kind::Pod | Kind::NodeClaim | Kind::Node | Kind::Event => self.move_to(now),
            _ => return,
        }
        match change.kind {
            Kind::Pod => self.pods.note(change, now),
            Kind::NodeClaim => {
                if let Some(leaving) = self.machines.note_claim(change, now) {
                    self.decisions.leaves(leaving, self.epoch, now);
                }
                let replaces = change.after.as_ref().map(|claim| self.machines.replaced_by(claim));
                self.decisions.note(change, replaces.unwrap_or_default());
            }
            Kind::Node => self.machines.note_node(change, now),
            _ => self.voices.note(change),
        }
    }
}

/// The ledger as a part of the cluster: it hears everything and does nothing.
pub(super) struct Watcher(pub(super) Arc<Mutex<Ledger>>);

pub(super) fn locked(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StandIn for Watcher {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn heed(&mut self, change: &Change, server: &ApiServer) {
        locked(&self.0).note(change, server.now());
    }

    fn next(&self) -> Option<Timestamp> {
        None
    }

    fn wake(&mut self, _now: Timestamp, _server: &ApiServer) {}
}
