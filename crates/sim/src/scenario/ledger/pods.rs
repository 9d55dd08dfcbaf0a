//! Who waits, who runs, and for how long somebody has waited.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::apiserver::{At, Change};
use crate::fields::{
    controller, has_condition, is_deleting, is_terminal, labels, name, namespace, node_of, phase, shared,
};
use crate::scenario::trace::LABEL;

/// More groups of pods than this are not named on one line.
const MOST_GROUPS: usize = 4;

#[derive(Default)]
pub(super) struct Pods {
    known: BTreeMap<At, Entry>,
    totals: PodTotals,
    /// How many of each group wait.
    waiting: BTreeMap<Arc<str>, usize>,
    groups: BTreeMap<Arc<str>, Arc<str>>,
    longest_wait_secs: f64,
    evicted_at_instant: usize,
    had_waiting: bool,
    placed_since: usize,
    longest_since: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::scenario) struct PodTotals {
    pub(in crate::scenario) created: usize,
    /// Ever bound to a node.
    pub(in crate::scenario) placed: usize,
    pub(in crate::scenario) pending: usize,
    pub(in crate::scenario) running: usize,
    pub(in crate::scenario) evicted: usize,
    pub(in crate::scenario) max_pending_secs: f64,
}

struct Entry {
    since: Timestamp,
    group: Arc<str>,
    state: PodState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodState {
    Waiting,
    /// Bound, and not running yet.
    Placed,
    Running,
    /// On its way out, or over.
    Leaving,
}

impl PodState {
    fn of(pod: &Value) -> Self {
        match () {
            () if is_deleting(pod) || is_terminal(pod) => Self::Leaving,
            () if node_of(pod).is_none() => Self::Waiting,
            () if phase(pod) == "Running" => Self::Running,
            () => Self::Placed,
        }
    }
}

impl Pods {
    pub(super) fn note(&mut self, change: &Change, now: Timestamp) {
        let state = change.after.as_ref().map(|pod| PodState::of(pod));
        let before = self.known.get(&change.at).map(|entry| entry.state);
        if state == before {
            return;
        }
        if let Some(pod) = change.after.as_ref().filter(|_| before.is_none()) {
            let group = self.group_of(pod);
            self.known.insert(change.at.clone(), Entry { since: now, group, state: PodState::Leaving });
            self.totals.created += 1;
        }
        let Some(entry) = self.known.get_mut(&change.at) else { return };
        let (group, waited) = (entry.group.clone(), now.duration_since(entry.since).as_secs_f64());
        entry.state = state.unwrap_or(PodState::Leaving);
        self.count(&group, before, state);
        let was_waiting = matches!(before, None | Some(PodState::Waiting));
        if was_waiting && matches!(state, Some(PodState::Placed | PodState::Running)) {
            self.totals.placed += 1;
            self.placed_since += 1;
            self.longest_since = self.longest_since.max(waited);
        }
        if before == Some(PodState::Waiting) {
            self.longest_wait_secs = self.longest_wait_secs.max(waited);
        }
        let is_leaving = state == Some(PodState::Leaving);
        if is_leaving && change.after.as_ref().is_some_and(|pod| has_condition(pod, "DisruptionTarget", "True")) {
            self.totals.evicted += 1;
            self.evicted_at_instant += 1;
        }
        if state.is_none() {
            self.known.remove(&change.at);
        }
    }

    fn count(&mut self, group: &Arc<str>, before: Option<PodState>, after: Option<PodState>) {
        for (state, is_after) in [(before, false), (after, true)] {
            let shifted = |number: usize| if is_after { number + 1 } else { number.saturating_sub(1) };
            match state {
                Some(PodState::Waiting) => {
                    self.totals.pending = shifted(self.totals.pending);
                    let waiting = self.waiting.entry(group.clone()).or_default();
                    *waiting = shifted(*waiting);
                    if *waiting == 0 {
                        self.waiting.remove(group);
                    }
                }
                Some(PodState::Running) => self.totals.running = shifted(self.totals.running),
                _ => {}
            }
        }
    }

    /// Pods that come from one place, such as one Deployment.
    fn group_of(&mut self, pod: &Value) -> Arc<str> {
        let trace = labels(pod)[LABEL].as_str().map(|trace| format!("trace {trace}"));
        let text = trace.unwrap_or_else(|| match controller(pod) {
            None => format!("{}/{}", namespace(pod), name(pod)),
            Some(owner) => {
                let owner = owner["name"].as_str().unwrap_or_default();
                let hash = labels(pod)["pod-template-hash"].as_str().unwrap_or_default();
                let bare = owner.strip_suffix(hash).and_then(|rest| rest.strip_suffix('-')).unwrap_or(owner);
                format!("{}/{bare}", namespace(pod))
            }
        });
        self.groups.entry(shared(&text)).or_insert_with_key(Clone::clone).clone()
    }

    /// Who waits, in words.
    pub(super) fn waiting_line(&self) -> String {
        let total = self.totals.pending;
        // Machines without a delay may be there in the moment in which they were decided on.
        if total == 0 {
            return "nobody waits any more".to_owned();
        }
        let mut groups: Vec<(&Arc<str>, usize)> = self.waiting.iter().map(|(group, count)| (group, *count)).collect();
        groups.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        let named: Vec<String> =
            groups.iter().take(MOST_GROUPS).map(|(group, count)| format!("{count} of {group}")).collect();
        let others = groups.len().saturating_sub(MOST_GROUPS);
        let others = if others > 0 { format!(" and {others} other groups") } else { String::new() };
        let wait = if total == 1 { "pod waits" } else { "pods wait" };
        format!("{total} {wait}: {}{others}", named.join(", "))
    }

    pub(super) fn take_lines(&mut self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        if self.evicted_at_instant > 0 {
            lines.push(("evict", format!("{} pods evicted", std::mem::take(&mut self.evicted_at_instant))));
        }
        match (self.had_waiting, self.totals.pending) {
            (false, 0) => self.placed_since = 0,
            (false, _) => {
                self.had_waiting = true;
                lines.push(("wait", self.waiting_line()));
            }
            (true, 0) => {
                self.had_waiting = false;
                let placed = std::mem::take(&mut self.placed_since);
                let longest = std::mem::take(&mut self.longest_since);
                if placed > 0 {
                    lines.push((
                        "placed",
                        format!("nobody waits any more: {placed} pods placed, the last after {longest:.1} s"),
                    ));
                }
            }
            (true, _) => {}
        }
        lines
    }

    /// Those who still wait have waited until now.
    pub(super) fn close(&mut self, now: Timestamp) {
        let waiting = self.known.values().filter(|entry| entry.state == PodState::Waiting);
        let longest = waiting.map(|entry| now.duration_since(entry.since).as_secs_f64()).fold(0.0, f64::max);
        self.longest_wait_secs = self.longest_wait_secs.max(longest);
    }

    pub(super) fn totals(&self) -> PodTotals {
        PodTotals { max_pending_secs: self.longest_wait_secs, ..self.totals }
    }
}
