//! A rehearsal without a cluster: every manifest and every step goes before an API server of its own, in order, so that what a
//! cluster would refuse is found before the story begins.

use std::sync::Arc;

use runtime::{Clock, Rng};
use serde_json::Value;

use super::act::{self, Action, Manifest};
use super::cast::{Object, unserved};
use super::fault::Flaw;
use super::lines::unknown_fields;
use super::read::{Story, TimedAction};
use crate::apiserver::{ApiServer, Refusal};
use crate::kinds::Kind;

pub(super) fn rehearse(story: &Story) -> Result<(), Flaw> {
    let server = ApiServer::of_cluster(Clock::virtual_from(story.epoch), Rng::new(0))
        .map_err(|error| Flaw::new(1, format!("our own definitions: {error}"), "report it"))?;
    story.objects.iter().try_for_each(|manifest| apply(&server, manifest))?;
    story.steps.iter().try_for_each(|step| perform(&server, step))
}

fn perform(server: &ApiServer, step: &TimedAction) -> Result<(), Flaw> {
    match &step.action {
        Action::Apply(manifests) => manifests.iter().try_for_each(|manifest| apply(server, manifest)),
        Action::Delete(object) => on(server, object, step.line, || act::delete(server, object)),
        Action::Scale { object, replicas, .. } => {
            on(server, object, step.line, || act::set_replicas(server, object, *replicas))
        }
        Action::Patch { object, patch } if is_there(server, object) => {
            let stored = server.patch_written(object.kind, &object.at, &patch.value);
            judge(patch, stored)
        }
        Action::Patch { object, .. } => on(server, object, step.line, || Ok(())),
        Action::Trace(trace) => match trace.pods.first() {
            None => Ok(()),
            // One stands for all: they differ in names and amounts only.
            Some(pod) => {
                server.create_written(trace.object(pod)).map(drop).map_err(|refusal| refused(step.line, &refusal))
            }
        },
        Action::Churn { object, .. } => on(server, object, step.line, || Ok(())),
        Action::Cloud(_) | Action::Expect(_) | Action::Sick { .. } => Ok(()),
    }
}

fn apply(server: &ApiServer, manifest: &Manifest) -> Result<(), Flaw> {
    let text = |key: &str| manifest.value[key].as_str().unwrap_or_default();
    for key in ["apiVersion", "kind"] {
        if text(key).is_empty() {
            return Err(Flaw::new(
                manifest.source.line,
                format!("the object has no `{key}`"),
                format!("write `{key}`"),
            ));
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
    judge(manifest, act::apply(server, &manifest.value))
}

/// What the server says, with the line that it speaks of.
fn judge(manifest: &Manifest, answer: Result<Arc<Value>, Refusal>) -> Result<(), Flaw> {
    let stored = answer.map_err(|refusal| {
        let line = manifest.source.line_of(field(&refusal.message).unwrap_or_default());
        refused(line, &refusal)
    })?;
    match unknown_fields(&manifest.value, &stored).first() {
        None => Ok(()),
        Some(path) => {
            let problem = format!("{}: unknown field `{path}`", manifest.spoken());
            Err(Flaw::new(manifest.source.line_of(path), problem, "correct the name or leave the field out"))
        }
    }
}

fn refused(line: u64, refusal: &Refusal) -> Flaw {
    let remedy = match refusal.message.strip_prefix("namespaces \"").and_then(|rest| rest.split_once('"')) {
        Some((namespace, _)) => format!("add the Namespace {namespace} before it"),
        None => "change it to what the API accepts".to_owned(),
    };
    Flaw::new(line, format!("the API server would refuse this: {}", refusal.message), remedy)
}

/// The first field that a refusal names, as in `NodePool.karpenter.sh "a" is invalid: [spec.weight: Invalid value: …`.
fn field(message: &str) -> Option<&str> {
    let (_, causes) = message.split_once(" is invalid: ")?;
    let (field, _) = causes.trim_start_matches('[').split_once(": ")?;
    Some(field)
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
