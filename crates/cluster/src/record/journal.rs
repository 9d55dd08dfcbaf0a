//! Writes down what the store is told and asked.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::record::{Event, Gone, Header, Line, Name, Origin, VERSION, catalog_id};
use model::ids::{PodName, PoolName};
use model::instance::InstanceType;
use model::snapshot::Snapshot;
use model::time::Instant;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{catalog, settings};
use crate::object;
use crate::store::Settings;

/// Who is shown every snapshot that is recorded.
type Witness = Box<dyn FnMut(&Arc<Snapshot>) + Send>;

/// Where the lines of a recording go.
pub struct Journal {
    write: Box<dyn FnMut(&str) + Send>,
    witness: Option<Witness>,
    /// Catalogues that stand in the recording already.
    catalogs: BTreeSet<String>,
    /// The time of the last line, for what is told without one.
    now: Instant,
    /// Whether the last line was a look without a purpose; another one at the same time would say nothing.
    has_just_looked: bool,
}

impl Journal {
    /// Gives every line, its end included, to a writer. It is called while the store is locked.
    pub fn new(write: impl FnMut(&str) + Send + 'static) -> Self {
        Self {
            write: Box::new(write),
            witness: None,
            catalogs: BTreeSet::new(),
            now: Instant::MIN,
            has_just_looked: false,
        }
    }

    /// Shows the snapshot of every look that is for a decision to somebody who wants to compare.
    #[must_use]
    pub fn shown_to(mut self, witness: impl FnMut(&Arc<Snapshot>) + Send + 'static) -> Self {
        self.witness = Some(Box::new(witness));
        self
    }

    pub(crate) fn begin(&mut self, origin: Origin, of_store: &Settings, since: Instant) {
        self.now = since;
        let (recording, since) = (VERSION.to_owned(), since.to_string());
        self.write(&Header { recording, origin, since, settings: settings::write(of_store) });
    }

    /// Notes an event, at the time of the last one if it brings none.
    pub(crate) fn note(&mut self, event: Event, now: Option<Instant>) {
        let now = now.unwrap_or(self.now);
        let is_idle_look = matches!(event, Event::Looked { to: None });
        if is_idle_look && self.has_just_looked && self.now == now {
            return;
        }
        (self.now, self.has_just_looked) = (now, is_idle_look);
        self.write(&Line { at: now.to_string(), event });
    }

    pub(crate) fn note_offer(&mut self, pool: &PoolName, types: &[Arc<InstanceType>], now: Instant) {
        let types = catalog::write(types);
        let id = catalog_id(&types);
        if self.catalogs.insert(id.clone()) {
            self.note(Event::Catalog { id: id.clone(), types }, Some(now));
        }
        self.note(Event::Offered { pool: pool.to_string(), catalog: id }, Some(now));
    }

    pub(crate) fn show(&mut self, snapshot: &Arc<Snapshot>) {
        if let Some(witness) = &mut self.witness {
            witness(snapshot);
        }
    }

    fn write(&mut self, document: &impl Serialize) {
        let mut line = serde_json::to_string(document).expect("documents of recordings are plain data");
        line.push('\n');
        (self.write)(&line);
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Journal")
    }
}

/// A wire object as it goes into a recording.
pub(crate) fn raw(object: &impl Serialize) -> Box<RawValue> {
    to_raw_value(object).expect("objects of the API are plain data")
}

pub(crate) fn name(name: &PodName) -> Name {
    Name { namespace: name.namespace.to_string(), name: name.name.to_string() }
}

pub(crate) fn gone(gone: &object::Gone) -> Gone {
    Gone {
        kind: gone.key.kind.to_string(),
        namespace: gone.key.namespace.to_string(),
        name: gone.key.name.to_string(),
        uid: gone.uid.as_ref().map(ToString::to_string),
        version: gone.version,
    }
}
