//! A rehearsal without a cluster: every manifest, every step and every pod of a trace goes before an API server of its own, in the order
//! of time, so that what a cluster would refuse is found before the story begins.

mod crowd;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use runtime::{Clock, Rng};
use serde_json::Value;

use super::act::{self, Action, Manifest};
use super::blame;
use super::cast::{Object, unserved};
use super::fault::{Fault, Flaw};
use super::lines::unknown_fields;
use super::read::{Story, TimedAction};
use super::trace::TracedPod;
use crate::apiserver::{ApiServer, At, Refusal};
use crate::kinds::Kind;
use crowd::{Band, Crowd};

pub(super) fn rehearse(story: &Story) -> Result<(), Fault> {
    let within = |flaw: Flaw| flaw.within(&story.file);
    let server = ApiServer::of_cluster(Clock::virtual_from(story.epoch), Rng::new(0))
        .map_err(|error| within(Flaw::new(1, format!("our own definitions: {error}"), "report it")))?;
    story.objects.iter().try_for_each(|manifest| apply(&server, manifest)).map_err(within)?;
    let (mut agenda, mut crowd) = (Agenda::default(), Crowd::new(&server));
    for step in &story.steps {
        agenda.plan(step.at, Cue::Step(step));
    }
    while let Some((now, cue)) = agenda.next() {
        match cue {
            Cue::Step(TimedAction { action: Action::Trace(trace), .. }) => {
                let band = crowd.band(trace);
                trace.pods.iter().for_each(|pod| agenda.plan(now + pod.comes, Cue::Comes(band, pod)));
            }
            Cue::Step(TimedAction { action: Action::Cloud(_) | Action::Expect(_) | Action::Sick { .. }, .. }) => {}
            Cue::Step(step) => {
                crowd.show();
                perform(&server, step).map_err(within)?;
            }
            Cue::Comes(band, pod) => {
                let at = crowd.come(band, pod).map_err(|flaw| flaw.within(story, band.trace))?;
                if let Some(leaves) = pod.leaves {
                    agenda.plan(now + leaves.saturating_sub(pod.comes), Cue::Leaves(at));
                }
            }
            Cue::Leaves(at) => crowd.leave(&at),
        }
    }
    Ok(())
}

/// What is to come, by time and in the order in which it was planned, as in the play.
#[derive(Default)]
struct Agenda<'a> {
    cues: BTreeMap<(Duration, u64), Cue<'a>>,
    planned: u64,
}

enum Cue<'a> {
    Step(&'a TimedAction),
    Comes(Band<'a>, &'a TracedPod),
    Leaves(At),
}

impl<'a> Agenda<'a> {
    fn plan(&mut self, at: Duration, cue: Cue<'a>) {
        self.cues.insert((at, self.planned), cue);
        self.planned += 1;
    }

    fn next(&mut self) -> Option<(Duration, Cue<'a>)> {
        self.cues.pop_first().map(|((at, _), cue)| (at, cue))
    }
}

fn perform(server: &ApiServer, step: &TimedAction) -> Result<(), Flaw> {
    let line = step.target_line;
    match &step.action {
        Action::Apply(manifests) => manifests.iter().try_for_each(|manifest| apply(server, manifest)),
        Action::Delete(object) => on(server, object, line, || act::delete(server, object)),
        Action::Scale { object, replicas, .. } => {
            on(server, object, line, || act::set_replicas(server, object, *replicas))
        }
        Action::Patch { object, patch } if is_there(server, object) => {
            let again = |patch: &Value| server.try_patch(object.kind, &object.at, patch);
            judge(patch, server.patch_written(object.kind, &object.at, &patch.value), again)
        }
        Action::Patch { object, .. } | Action::Churn { object, .. } => on(server, object, line, || Ok(())),
        Action::Trace(_) | Action::Cloud(_) | Action::Expect(_) | Action::Sick { .. } => Ok(()),
    }
}

fn apply(server: &ApiServer, manifest: &Manifest) -> Result<(), Flaw> {
    let text = |key: &str| manifest.value[key].as_str().unwrap_or_default();
    for key in ["apiVersion", "kind"] {
        if text(key).is_empty() {
            let problem = format!("the object has no `{key}`");
            return Err(Flaw::new(manifest.source.line_of(key), problem, format!("write `{key}`")));
        }
    }
    if Kind::of(text("apiVersion"), text("kind")).is_none() {
        let known = Kind::ALL.iter().find(|kind| kind.as_str() == text("kind"));
        return Err(match known {
            None => unserved(manifest.source.line_of("kind"), text("kind")),
            Some(kind) => {
                let problem = format!("the simulator does not serve {} of {}", kind, text("apiVersion"));
                let line = manifest.source.line_of("apiVersion");
                Flaw::new(line, problem, format!("write `apiVersion: {}`", kind.api_version()))
            }
        });
    }
    judge(manifest, act::apply(server, manifest), |value| act::try_apply(server, value))
}

/// What the server says, with the line that it speaks of. `again` asks what it would say to something else.
fn judge(
    manifest: &Manifest,
    answer: Result<Arc<Value>, Refusal>,
    again: impl Fn(&Value) -> Result<Arc<Value>, Refusal>,
) -> Result<(), Flaw> {
    let stored = answer.map_err(|refusal| refused(blame::line(manifest, &refusal, again), &refusal))?;
    known_fields(manifest, &stored, &manifest.spoken())
}

fn known_fields(manifest: &Manifest, stored: &Value, spoken: &str) -> Result<(), Flaw> {
    match unknown_fields(&manifest.value, stored).first() {
        None => Ok(()),
        Some(path) => {
            let problem = format!("{spoken}: unknown field `{path}`");
            Err(Flaw::new(manifest.source.line_of(path), problem, "correct the name or leave the field out"))
        }
    }
}

fn refused(line: u64, refusal: &Refusal) -> Flaw {
    let remedy = match blame::missing_namespace(refusal) {
        Some(namespace) => format!("add the Namespace {namespace} before it"),
        None => "change it to what the API accepts".to_owned(),
    };
    Flaw::new(line, format!("the API server would refuse this: {}", refusal.message), remedy)
}

fn is_there(server: &ApiServer, object: &Object) -> bool {
    server.get(object.kind, &object.at).is_some()
}

/// Tries something on an object, if it is there by now. What a cluster makes by itself is not there in a rehearsal.
fn on(server: &ApiServer, object: &Object, line: u64, attempt: impl Fn() -> Result<(), Refusal>) -> Result<(), Flaw> {
    if is_there(server, object) {
        return attempt().map_err(|refusal| refused(line, &refusal));
    }
    let is_made_by_the_cluster = matches!(
        object.kind,
        Kind::Pod
            | Kind::Node
            | Kind::NodeClaim
            | Kind::ReplicaSet
            | Kind::PersistentVolume
            | Kind::PersistentVolumeClaim
            | Kind::VolumeAttachment
            | Kind::CsiNode
    );
    match is_made_by_the_cluster {
        true => Ok(()),
        false => {
            let remedy = "correct kind, namespace or name, or add the object before this step";
            Err(Flaw::new(line, format!("there is no {object} at that time"), remedy))
        }
    }
}
