//! Making room: whom to ask to leave when a more important pod finds no place.

use std::cmp::Reverse;

use cluster::lower::budget::budget;
use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use model::ids::{NodeName, PodName};
use model::requirements::Requirements;
use model::snapshot::PodBudget;
use model::topology::Selector;
use serde::Deserialize;
use serde_json::Value;

use super::board::{Slot, Standing};
use super::class::ClassId;
use super::reasons::{Histogram, sentence};
use super::{Binder, at, part, text};
use crate::apiserver::ApiServer;
use crate::kinds::Kind;

/// kube-scheduler looks at a tenth of the nodes, but at no fewer than this.
const LEAST_CANDIDATES: usize = 100;

/// What came of it.
pub(super) struct Preempted {
    /// The node that its victims were asked to leave.
    pub(super) node: Option<NodeName>,
    /// Why it did not help; nothing is said when it did.
    pub(super) explanation: Option<String>,
}

/// A node and who must leave it, the most important first.
struct Candidate {
    slot: Slot,
    victims: Vec<Victim>,
    violations: usize,
}

struct Victim {
    standing: Standing,
    started: Timestamp,
}

/// A budget, with what it still allows.
struct Allowance {
    budget: PodBudget,
    disrupted: Vec<String>,
    left: i32,
}

impl Preempted {
    fn not(explanation: String) -> Self {
        Self { node: None, explanation: Some(explanation) }
    }
}

impl Binder {
    /// Chooses victims on one of the nodes where leaving could help, and asks them to leave.
    pub(super) fn preempt(
        &mut self,
        name: &PodName,
        class: ClassId,
        curable: &[Slot],
        now: Timestamp,
        server: &ApiServer,
    ) -> Preempted {
        if let Some(reason) = self.is_not_eligible(name, class, server) {
            return Preempted::not(reason.to_owned());
        }
        let mut reasons = Histogram::new();
        let changes = self.board.changes;
        let candidates = self.candidates(name, class, curable, (now, server), &mut reasons);
        // Whoever was lifted to see what it would help is back.
        self.board.changes = changes;
        let Some(best) = candidates.into_iter().min_by_key(Candidate::cost) else {
            let nodes = self.board.node_count();
            let rest = nodes - curable.len();
            if rest > 0 {
                reasons.insert("Preemption is not helpful for scheduling".to_owned(), rest);
            }
            self.clear_nomination(name, server);
            return Preempted::not(sentence(nodes, &reasons));
        };
        let Some(node) = self.board.seat_at(best.slot).map(|seat| seat.name.clone()) else {
            return Preempted::not("no candidate node for preemption".to_owned());
        };
        for victim in &best.victims {
            self.ask_to_leave(&victim.standing.pod.name, server);
        }
        // Whoever the node was promised to and matters less must look elsewhere.
        let priority = self.board.class(class).sample.priority;
        let is_less = |pod: &PodName| self.pods.get(pod).is_some_and(|known| known.seen.pod.priority < priority);
        let lesser: Vec<PodName> = self
            .nominees
            .iter()
            .filter(|(pod, promised)| **promised == node && is_less(pod))
            .map(|(pod, _)| pod.clone())
            .collect();
        lesser.iter().for_each(|pod| self.clear_nomination(pod, server));
        Preempted { node: Some(node), explanation: None }
    }

    fn is_not_eligible(&self, name: &PodName, class: ClassId, server: &ApiServer) -> Option<&'static str> {
        let known = self.pods.get(name)?;
        if !known.seen.may_preempt {
            return Some("not eligible due to preemptionPolicy=Never.");
        }
        let priority = self.board.class(class).sample.priority;
        let seat = self.nominees.get(name).and_then(|node| self.board.seat_at(self.board.slot_of(node)?))?;
        let lesser = seat.pods.values().filter(|standing| standing.pod.priority < priority);
        let mut objects = lesser.filter_map(|standing| server.get(Kind::Pod, &at(&standing.pod.name)));
        objects
            .any(|pod| is_leaving_for_others(&pod))
            .then_some("not eligible due to a terminating pod on the nominated node.")
    }

    fn candidates(
        &mut self,
        name: &PodName,
        class: ClassId,
        curable: &[Slot],
        (now, server): (Timestamp, &ApiServer),
        reasons: &mut Histogram,
    ) -> Vec<Candidate> {
        let add = |reasons: &mut Histogram, text: &str| *reasons.entry(text.to_owned()).or_default() += 1;
        let priority = self.board.class(class).sample.priority;
        if !self.board.has_below(priority) {
            if !curable.is_empty() {
                reasons.insert(NO_VICTIMS.to_owned(), curable.len());
            }
            return Vec::new();
        }
        let budgets = self.allowances();
        let most = (curable.len() / 10).max(LEAST_CANDIDATES);
        let offset = usize::try_from(self.rng.below(curable.len() as u64)).unwrap_or(0);
        let (mut found, mut harmless) = (Vec::new(), 0);
        for slot in curable.iter().cycle().skip(offset).take(curable.len()) {
            match self.victims_on(name, class, *slot, (now, server, &budgets)) {
                Ok(candidate) => {
                    harmless += usize::from(candidate.violations == 0);
                    found.push(candidate);
                    if harmless > 0 && found.len() >= most {
                        break;
                    }
                }
                Err(None) => add(reasons, NO_VICTIMS),
                Err(Some(why)) => why.into_keys().for_each(|reason| add(reasons, &reason)),
            }
        }
        found
    }

    /// The fewest and least important pods whose leaving lets the pod in. Everybody is back in place afterwards.
    fn victims_on(
        &mut self,
        name: &PodName,
        class: ClassId,
        slot: Slot,
        (now, server, budgets): (Timestamp, &ApiServer, &[Allowance]),
    ) -> Result<Candidate, Option<Histogram>> {
        let priority = self.board.class(class).sample.priority;
        let Some(seat) = self.board.seat_at(slot) else { return Err(None) };
        let node = seat.name.clone();
        let lesser = seat.pods.values().filter(|standing| standing.pod.priority < priority).cloned();
        let mut potential: Vec<Victim> = lesser.map(|standing| Victim::of(standing, now, server)).collect();
        if potential.is_empty() {
            return Err(None);
        }
        potential.sort_by(|a, b| a.importance().cmp(&b.importance()));
        for victim in &potential {
            self.board.lift(&victim.standing.pod.name);
        }
        if !self.fits_on(name, class, slot) {
            let why = self.why_not(class, slot);
            for victim in &potential {
                self.board.seat(&victim.standing.pod, victim.standing.class, &node);
            }
            return Err(Some(why));
        }
        // Those whose budget would be violated are spared first.
        let (violating, harmless) = split(potential, budgets);
        let (mut victims, mut violations) = (Vec::new(), 0);
        for (victim, is_violating) in
            violating.into_iter().map(|one| (one, true)).chain(harmless.into_iter().map(|one| (one, false)))
        {
            self.board.seat(&victim.standing.pod, victim.standing.class, &node);
            if !self.fits_on(name, class, slot) {
                self.board.lift(&victim.standing.pod.name);
                violations += usize::from(is_violating);
                victims.push(victim);
            }
        }
        for victim in &victims {
            self.board.seat(&victim.standing.pod, victim.standing.class, &node);
        }
        victims.sort_by(|a, b| a.importance().cmp(&b.importance()));
        if victims.is_empty() { Err(None) } else { Ok(Candidate { slot, victims, violations }) }
    }

    fn why_not(&mut self, class: ClassId, slot: Slot) -> Histogram {
        let look = self.board.look(class);
        self.board.objections(class, &look, slot)
    }

    fn allowances(&self) -> Vec<Allowance> {
        let allowance = |object: &Value| {
            let budget = budget(&PodDisruptionBudget::deserialize(object).ok()?);
            let disrupted = part(object, "/status/disruptedPods").and_then(Value::as_object);
            let disrupted = disrupted.into_iter().flat_map(|pods| pods.keys().cloned()).collect();
            Some(Allowance { left: budget.disruptions_allowed, budget, disrupted })
        };
        self.budgets.values().filter_map(|object| allowance(object)).collect()
    }
}

const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// Those whose leaving would violate a budget, and the others. Budgets are used up in the order of importance.
fn split(victims: Vec<Victim>, budgets: &[Allowance]) -> (Vec<Victim>, Vec<Victim>) {
    let mut left: Vec<i32> = budgets.iter().map(|allowance| allowance.left).collect();
    victims.into_iter().partition(|victim| {
        let pod = &victim.standing.pod;
        let mut is_violating = false;
        for (allowance, left) in budgets.iter().zip(&mut left) {
            let budget = &allowance.budget;
            let is_open = matches!(&budget.selector, Selector::Matching(demands) if Requirements::is_empty(demands));
            let is_meant = !pod.labels.is_empty()
                && budget.namespace == pod.name.namespace
                && !is_open
                && budget.selector.selects(&pod.labels)
                && !allowance.disrupted.iter().any(|name| **name == *pod.name.name);
            if is_meant {
                *left -= 1;
                is_violating |= *left < 0;
            }
        }
        is_violating
    })
}

impl Victim {
    fn of(standing: Standing, now: Timestamp, server: &ApiServer) -> Self {
        let object = server.get(Kind::Pod, &at(&standing.pod.name));
        let started = object.and_then(|object| text(&object, "/status/startTime").parse().ok());
        Self { standing, started: started.unwrap_or(now) }
    }

    /// Least for the most important: priority, then age.
    fn importance(&self) -> (Reverse<i32>, Timestamp, &PodName) {
        (Reverse(self.standing.pod.priority), self.started, &self.standing.pod.name)
    }
}

impl Candidate {
    /// Fewest violated budgets, least important victims, fewest of them, and of the youngest.
    fn cost(&self) -> (usize, i32, i64, usize, Reverse<Timestamp>) {
        let priority = |victim: &Victim| victim.standing.pod.priority;
        let highest = self.victims.iter().map(priority).max().unwrap_or(i32::MIN);
        // All priorities count as positive, or fewer victims below zero would be worse than more.
        let sum = self.victims.iter().map(|victim| i64::from(priority(victim)) + i64::from(i32::MAX) + 1).sum();
        let of_highest = self.victims.iter().filter(|victim| priority(victim) == highest);
        let earliest = of_highest.map(|victim| victim.started).min().unwrap_or(Timestamp::MIN);
        (self.violations, highest, sum, self.victims.len(), Reverse(earliest))
    }
}

fn is_leaving_for_others(pod: &Value) -> bool {
    let conditions = part(pod, "/status/conditions").and_then(Value::as_array).into_iter().flatten();
    part(pod, "/metadata/deletionTimestamp").is_some()
        && conditions.into_iter().any(|condition| {
            text(condition, "/type") == "DisruptionTarget" && text(condition, "/reason") == "PreemptionByScheduler"
        })
}
