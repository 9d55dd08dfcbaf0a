//! Holds the judge's opinion against the scheduler's decision.

use std::collections::BTreeMap;

use crate::arena::Decision;
use crate::referee::Opinion;

/// How often what was seen.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) bound: usize,
    pub(crate) unschedulable: usize,
    /// Pods that had a choice of nodes and were not to take any.
    pub(crate) held: usize,
    /// Pods that nobody took and whose reasons could be compared.
    pub(crate) explained: usize,
    /// Nodes that the judge accepted.
    pub(crate) accepted: usize,
    /// Nodes that the judge refused, by what it said.
    pub(crate) refused: BTreeMap<String, usize>,
}

impl Tally {
    pub(crate) fn add(&mut self, decision: &Decision, opinion: &Opinion) {
        match decision.node() {
            Some(_) => self.bound += 1,
            None if decision.feasible.is_empty() => self.unschedulable += 1,
            None => self.held += 1,
        }
        if decision.feasible.is_empty() && reasons(&decision.message).is_some() {
            self.explained += 1;
        }
        for objection in opinion.values() {
            match objection {
                None => self.accepted += 1,
                Some(objection) => *self.refused.entry(objection.kind.clone()).or_default() += 1,
            }
        }
    }
}

/// Every node on which the two differ, in words. To a pod that nobody takes they must also give the same reasons.
pub(crate) fn differences(decision: &Decision, opinion: &Opinion) -> Vec<String> {
    let mut found = Vec::new();
    for (node, objection) in opinion {
        match (objection, decision.feasible.contains(node)) {
            (Some(objection), true) => {
                found.push(format!("{node}: the scheduler accepts it; the judge does not: {}", objection.text));
            }
            (None, false) => found.push(format!("{node}: the judge accepts it; the scheduler does not")),
            _ => {}
        }
    }
    let unknown = decision.feasible.iter().filter(|node| !opinion.contains_key(*node));
    found.extend(unknown.map(|node| format!("{node}: the judge does not know it")));
    if found.is_empty() && decision.feasible.is_empty() {
        found.extend(other_reasons(&decision.message, opinion));
    }
    found
}

type Reasons<'a> = BTreeMap<&'a str, usize>;

/// How the scheduler names a node that is too small, before it says for what.
pub(crate) const TOO_SMALL: &str = "Insufficient";
/// Its words for a node that keeps the pod off. It says differently of a cordon, which is a taint to the judge.
pub(crate) const TAINTED: &str = "node(s) had untolerated taint(s)";
/// Its words for a node from which a volume cannot be reached.
pub(crate) const OUT_OF_REACH: &str = "node(s) didn't match PersistentVolume's node affinity";

/// How the scheduler's reasons differ from the judge's. It counts nodes by what the first rule said to each, and the judge
/// goes through the rules in the same order.
fn other_reasons(message: &str, opinion: &Opinion) -> Option<String> {
    let theirs = reasons(message)?;
    let mut ours = Reasons::new();
    for objection in opinion.values().flatten() {
        *ours.entry(objection.words).or_default() += 1;
    }
    let is_same = comparable(&theirs) == comparable(&ours);
    (!is_same).then(|| format!("the scheduler's reasons are {theirs:?}, the judge's are {ours:?}"))
}

/// Of a node that is too small in several ways, or out of several volumes' reach, the judge names the first and the scheduler
/// all.
fn comparable<'a>(reasons: &Reasons<'a>) -> Reasons<'a> {
    let count = |words: &str, count: usize| if words == TOO_SMALL || words == OUT_OF_REACH { 1 } else { count };
    reasons.iter().map(|(words, found)| (*words, count(words, *found))).collect()
}

/// The reasons in a message such as `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`; nothing where
/// the scheduler refused the pod as such, or narrowed down the nodes by their names before it went through the rules.
fn reasons(message: &str) -> Option<Reasons<'_>> {
    let (_, list) = message.split_once(" nodes are available: ")?;
    let list = list.split(". ").next()?.trim_end_matches('.');
    let mut found = Reasons::new();
    for reason in list.split(", ") {
        let (count, words) = reason.split_once(' ')?;
        let words = match words {
            "Too many pods" => TOO_SMALL,
            "node(s) were unschedulable" => TAINTED,
            "node(s) didn't find available persistent volumes to bind" => OUT_OF_REACH,
            words if words.starts_with(TOO_SMALL) => TOO_SMALL,
            words if words.starts_with("node(s) didn't satisfy plugin(s)") => return None,
            words => words,
        };
        *found.entry(words).or_default() += count.parse::<usize>().ok()?;
    }
    Some(found)
}
