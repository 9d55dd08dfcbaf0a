//! From wire objects to values of the model: one file per kind, one function per object.
//!
//! Everything that the engine weighs is decided here once: old label spellings, defaults that the API server fills in,
//! selectors that select nothing. No input is refused. What a pod's author got wrong becomes a problem of the pod, what
//! cannot be read at all becomes an [`Oddity`], and the rest of the object still counts.

mod affinity;
pub mod budget;
pub mod buffer;
pub mod claim;
pub mod daemon;
pub mod eligible;
pub mod facts;
pub mod node;
pub mod overlay;
pub mod pod;
pub mod pool;
mod problems;
mod requirements;
pub mod resources;
mod selector;
pub mod spread;
pub mod taints;
pub mod ties;
pub mod volume;
mod wants;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use model::labels::{Labels, STOP_DISRUPTION};
use model::time::Instant;

/// A value of the model, and what of its object could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lowered<T> {
    pub value: T,
    pub oddities: Vec<Oddity>,
}

/// A part of an object that makes no sense. It was left out, and somebody should be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oddity {
    /// Kind and name, such as `Pod default/web`.
    pub object: Arc<str>,
    /// Where in the object.
    pub field: Arc<str>,
    /// What is wrong and what was done about it.
    pub text: Arc<str>,
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.object, self.field, self.text)
    }
}

/// Collects the oddities of one object. An object can be absurd ten thousand times over; the first few tell the story.
struct Oddities<'a> {
    kind: &'static str,
    metadata: &'a ObjectMeta,
    found: Vec<Oddity>,
}

impl<'a> Oddities<'a> {
    const MOST: usize = 16;

    fn of(kind: &'static str, metadata: &'a ObjectMeta) -> Self {
        Self { kind, metadata, found: Vec::new() }
    }

    fn note(&mut self, field: impl fmt::Display, text: impl fmt::Display) {
        if self.found.len() >= Self::MOST {
            return;
        }
        let name = self.metadata.name.as_deref().unwrap_or("without a name");
        let object = match &self.metadata.namespace {
            Some(namespace) => format!("{} {namespace}/{name}", self.kind),
            None => format!("{} {name}", self.kind),
        };
        self.found.push(Oddity {
            object: object.into(),
            field: field.to_string().into(),
            text: text.to_string().into(),
        });
    }

    fn with<T>(self, value: T) -> Lowered<T> {
        Lowered { value, oddities: self.found }
    }
}

fn instant(time: &Time) -> Instant {
    Instant::from_unix_nanos(time.0.as_nanosecond())
}

/// When the API server made the object. One that does not say is taken to have been there always.
fn created(metadata: &ObjectMeta) -> Instant {
    metadata.creation_timestamp.as_ref().map_or_else(|| Instant::from_unix_seconds(0), instant)
}

/// What a namespace says that stops disruption in the whole cluster. It is a brake, so whatever is written there counts, but
/// for the one word that plainly means the opposite.
pub(crate) fn stop_of(namespace: &Namespace) -> Option<Arc<str>> {
    let text = namespace.metadata.annotations.as_ref()?.get(STOP_DISRUPTION)?;
    (text != "false").then(|| text.as_str().into())
}

pub(crate) fn labels(wire: Option<&BTreeMap<String, String>>) -> Labels {
    wire.into_iter().flatten().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}
