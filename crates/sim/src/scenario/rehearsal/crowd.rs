//! Pods of traces in the rehearsal. There may be thousands, and most differ in their names alone, so the server judges one of each
//! sort and hears of the others when somebody may ask for them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::blame;
use super::super::fault::{Fault, Flaw};
use super::super::read::Story;
use super::super::trace::{Amounts, Trace, TracedPod};
use super::{known_fields, refused};
use crate::apiserver::{ApiServer, At, Deletion, Refusal, merge};
use crate::kinds::Kind;

/// The pods of one step.
#[derive(Clone, Copy)]
pub(super) struct Band<'a> {
    number: usize,
    pub(super) trace: &'a Trace,
}

/// The pods that are there.
pub(super) struct Crowd<'a> {
    server: &'a ApiServer,
    bands: usize,
    /// Sorts of pods that the server takes, as its objects are now.
    accepted: BTreeSet<(usize, Amounts)>,
    /// Who has come without the server hearing of it.
    unseen: BTreeMap<At, (Band<'a>, &'a TracedPod)>,
}

impl<'a> Crowd<'a> {
    pub(super) fn new(server: &'a ApiServer) -> Self {
        Self { server, bands: 0, accepted: BTreeSet::new(), unseen: BTreeMap::new() }
    }

    pub(super) fn band(&mut self, trace: &'a Trace) -> Band<'a> {
        self.bands += 1;
        Band { number: self.bands, trace }
    }

    pub(super) fn come(&mut self, band: Band<'a>, pod: &'a TracedPod) -> Result<At, TraceFlaw> {
        let at = At::new(&band.trace.namespace, &pod.name);
        let sort = (band.number, pod.amounts);
        let is_taken = self.unseen.contains_key(&at) || self.server.get(Kind::Pod, &at).is_some();
        if self.accepted.contains(&sort) && !is_taken {
            self.unseen.insert(at.clone(), (band, pod));
            return Ok(at);
        }
        if let Some((band, other)) = self.unseen.remove(&at) {
            self.tell_of(band, other);
        }
        let made = self.server.create_written(band.trace.object(pod));
        let made = made.map_err(|refusal| blamed(self.server, band.trace, pod, &refusal))?;
        if let Some(template) = &band.trace.template {
            known_fields(template, &made, "the template").map_err(TraceFlaw::OfStory)?;
        }
        self.accepted.insert(sort);
        Ok(at)
    }

    /// A step or the end of its namespace may have taken it before. Nobody waits here until it stops.
    pub(super) fn leave(&mut self, at: &At) {
        if self.unseen.remove(at).is_none() {
            let at_once = Deletion { grace_seconds: Some(0), ..Deletion::default() };
            drop(self.server.delete(Kind::Pod, at, &at_once));
        }
    }

    /// Something is about to change: the server hears of everybody, and whoever comes later is judged anew.
    pub(super) fn show(&mut self) {
        for (band, pod) in std::mem::take(&mut self.unseen).into_values() {
            self.tell_of(band, pod);
        }
        self.accepted.clear();
    }

    fn tell_of(&self, band: Band<'_>, pod: &TracedPod) {
        // One like it was taken, and nothing has changed since.
        drop(self.server.create(band.trace.object(pod)));
    }
}

/// Something wrong with a trace: in the scenario that names it, or in the file itself.
pub(super) enum TraceFlaw {
    OfStory(Flaw),
    OfFile(Flaw),
}

impl TraceFlaw {
    pub(super) fn within(self, story: &Story, trace: &Trace) -> Fault {
        match self {
            Self::OfStory(flaw) => flaw.within(&story.file),
            Self::OfFile(flaw) => flaw.within(&trace.file),
        }
    }
}

/// Whose fault it is that a pod is refused: the scenario's, which wants it in a namespace that is not there or with something that
/// the API does not take, or that of the line.
fn blamed(server: &ApiServer, trace: &Trace, pod: &TracedPod, refusal: &Refusal) -> TraceFlaw {
    if blame::missing_namespace(refusal).is_some() {
        return TraceFlaw::OfStory(refused(trace.namespace_line, refusal));
    }
    let with = |template: &Value| {
        let mut object = trace.plain(pod);
        merge(&mut object, template);
        server.try_create(object)
    };
    match &trace.template {
        Some(template) if server.try_create(trace.plain(pod)).is_ok() => {
            TraceFlaw::OfStory(refused(blame::line(template, refusal, with), refusal))
        }
        _ => {
            let remedy = match refusal.reason {
                "AlreadyExists" => "give it another name or remove the line",
                _ => "correct the line or remove it",
            };
            let problem = format!("the API server would refuse this pod: {}", refusal.message);
            TraceFlaw::OfFile(Flaw::new(pod.line, problem, remedy))
        }
    }
}
