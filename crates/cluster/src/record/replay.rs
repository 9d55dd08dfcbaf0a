//! A store made from a recording, line by line.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::record::{BufferTemplate, Decision, DecisionKind, Event, Header, Line, Name, VERSION};
use model::ids::{NodeName, PodName};
use model::instance::InstanceType;
use model::time::Instant;

use super::{catalog, settings};
use crate::feed::Undecodable;
use crate::lower::buffer::Source;
use crate::object::{Gone, Key, Kind, Object};
use crate::store::{Batch, Store, Template};

/// Reads a recording.
#[derive(Debug)]
pub struct Replay {
    header: Header,
    store: Store,
    catalogs: BTreeMap<String, Vec<Arc<InstanceType>>>,
    /// The last look for each kind of decision.
    looks: BTreeMap<DecisionKind, Batch>,
    line: u64,
}

/// A decision, and what it was made on.
#[derive(Clone, Debug)]
pub struct Decided {
    pub at: Instant,
    pub decision: Decision,
    pub batch: Batch,
}

/// What is wrong with a recording, and where.
#[derive(Debug, thiserror::Error)]
#[error("line {line} of the recording cannot be followed")]
pub struct RecordError {
    pub line: u64,
    #[source]
    pub problem: Problem,
}

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("it is no JSON document of this format")]
    Shape(#[from] serde_json::Error),
    #[error("the recording has the format {0:?}, and this program reads {VERSION:?}; use the program that made it")]
    Version(String),
    #[error(transparent)]
    Time(#[from] model::time::InstantError),
    #[error("there is no kind {0:?}")]
    Kind(String),
    #[error("the catalogue {0:?} does not stand before it; the recording is not whole")]
    Catalog(String),
    #[error("no look for a decision stands before it; the recording is not whole")]
    NoLook,
}

impl Replay {
    /// Begins with the first line.
    pub fn begin(line: &str) -> Result<Self, RecordError> {
        Self::read_header(line).map_err(|problem| RecordError { line: 1, problem })
    }

    fn read_header(line: &str) -> Result<Self, Problem> {
        let Version { recording } = serde_json::from_str(line)?;
        if recording != VERSION {
            return Err(Problem::Version(recording));
        }
        let header: Header = serde_json::from_str(line)?;
        let store = Store::new(settings::read(header.settings.clone())?, header.since.parse()?);
        Ok(Self { header, store, catalogs: BTreeMap::new(), looks: BTreeMap::new(), line: 1 })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The store as it was after the last line.
    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn into_store(self) -> Store {
        self.store
    }

    /// Takes in the next line. Gives the decision, if it is one.
    pub fn take(&mut self, line: &str) -> Result<Option<Decided>, RecordError> {
        self.line += 1;
        self.follow(line).map_err(|problem| RecordError { line: self.line, problem })
    }

    fn follow(&mut self, line: &str) -> Result<Option<Decided>, Problem> {
        let Line { at, event } = serde_json::from_str(line)?;
        let (at, store): (Instant, _) = (at.parse()?, &mut self.store);
        match event {
            Event::Restarted { kind: name } => store.restart(kind(&name)?),
            Event::Applied { kind: name, object } => {
                store.apply(Object::decode(kind(&name)?, object.get().as_bytes())?, at);
            }
            Event::Deleted(object) => drop(store.delete(&gone(&object)?, at)),
            Event::Listed { kind: name, version } => drop(store.finish_list(kind(&name)?, version, at)),
            Event::Absent { kind: name } => drop(store.set_absent(kind(&name)?, at)),
            Event::Excused { kind: name } => store.excuse(kind(&name)?),
            Event::Undecodable { object, node, problem } => {
                let (Gone { key, uid, .. }, node) = (gone(&object)?, node.map(NodeName::from));
                store.see_undecodable(&Undecodable { key, uid, node, problem: problem.into() });
            }
            Event::Catalog { id, types } => drop(self.catalogs.insert(id, catalog::read(types))),
            Event::Offered { pool, catalog } => {
                let types = self.catalogs.get(&catalog).cloned().ok_or(Problem::Catalog(catalog))?;
                store.set_catalog(&pool.into(), types, at);
            }
            Event::Resolved { buffer, template } => {
                store.resolve_buffer(&pod(&buffer), template.map(read_template), at);
            }
            Event::Created { claim } => drop(store.assume_claim(serde_json::from_str(claim.get())?, at)),
            Event::Forgotten { claim } => drop(store.forget_claim(&claim.into(), at)),
            Event::Marked { claims, until } => drop(store.mark_for_deletion(&names(claims), until.parse()?, at)),
            Event::Unmarked { claims } => drop(store.unmark(&names(claims), at)),
            Event::Replacing { claim, until } => store.begin_replacing(&claim.into(), until.parse()?),
            Event::Replaced { claim } => store.end_replacing(&claim.into()),
            Event::Nominated { pod: name, place } => drop(store.nominate(&pod(&name), &place.into(), at)),
            Event::Promised { pod: name, place } => store.promise(&pod(&name), &place.into()),
            Event::Reserved { pool, limit, wanted } => drop(store.reserve_nodes(&pool.into(), limit, wanted)),
            Event::Released { pool, count } => store.release_nodes(&pool.into(), count),
            Event::Buffered { counts } => {
                store.set_buffered(counts.into_iter().map(|(node, count)| (node.into(), count)).collect());
            }
            Event::Disturbed => store.end_quiet(at),
            Event::Looked { to: None } => drop(store.expire(at)),
            Event::Looked { to: Some(decision) } => drop(self.looks.insert(decision, store.batch_for(decision, at))),
            Event::Decided(decision) => {
                let batch = self.looks.remove(&decision.choice.kind()).ok_or(Problem::NoLook)?;
                return Ok(Some(Decided { at, decision, batch }));
            }
        }
        Ok(None)
    }
}

/// What every version of the format has.
#[derive(serde::Deserialize)]
struct Version {
    recording: String,
}

fn names(claims: Vec<String>) -> Vec<NodeName> {
    claims.into_iter().map(NodeName::from).collect()
}

pub(super) fn kind(name: &str) -> Result<Kind, Problem> {
    let found = Kind::ALL.iter().copied().find(|kind| kind.as_str() == name);
    found.ok_or_else(|| Problem::Kind(name.to_owned()))
}

fn gone(gone: &api::record::Gone) -> Result<Gone, Problem> {
    let key =
        Key { kind: kind(&gone.kind)?, namespace: gone.namespace.as_str().into(), name: gone.name.as_str().into() };
    Ok(Gone { key, uid: gone.uid.as_deref().map(Into::into), version: gone.version })
}

fn pod(name: &Name) -> PodName {
    PodName::new(&name.namespace, &name.name)
}

fn read_template(template: BufferTemplate) -> Template {
    let BufferTemplate { template: spec, of_workload, replicas } = template;
    let source = if of_workload { Source::Workload { replicas } } else { Source::PodTemplate };
    Template { spec, source }
}
