//! All objects, the indexes over them, and who is told of changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use jiff::Timestamp;
use runtime::{Clock, Rng};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::hooks::Hooks;
use super::selector::Selection;
use super::{At, Change, meta};
use crate::kinds::Kind;

/// Changes of one kind that a watch can still be given after the fact. They keep old states of objects alive, so there is an end.
const HISTORY: usize = 4096;

/// Namespaces that every cluster begins with.
const FIRST_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The objects. Whoever holds it holds the server's lock.
pub struct Store {
    clock: Clock,
    pub(super) rng: Rng,
    pub(super) hooks: Arc<Hooks>,
    /// Of the last change; one counter for all objects.
    version: u64,
    /// By the kind's number.
    tables: Vec<Table>,
    by_uid: BTreeMap<Arc<str>, (Kind, At)>,
    /// Objects that name an owner, by the owner's uid.
    dependents: BTreeMap<Arc<str>, BTreeSet<(Kind, At)>>,
    /// Pods that are bound.
    by_node: BTreeMap<Arc<str>, BTreeSet<At>>,
    followers: Vec<UnboundedSender<Change>>,
    /// Objects to look at because an owner of theirs, or they themselves, may have to go.
    pub(super) doubtful: VecDeque<(Kind, At)>,
    pub(super) is_settling: bool,
    pub(super) pages: Pages,
}

#[derive(Default)]
struct Table {
    objects: BTreeMap<At, Arc<Value>>,
    history: VecDeque<Arc<Event>>,
    /// Changes up to this version are forgotten.
    floor: u64,
    watchers: Vec<Watcher>,
}

/// Lists of which somebody has read the first pages.
#[derive(Default)]
pub(super) struct Pages {
    pub(super) next: u64,
    pub(super) open: BTreeMap<u64, Page>,
}

/// The rest of a list as it was when its first page was read.
pub(super) struct Page {
    pub(super) version: u64,
    pub(super) opened: Timestamp,
    pub(super) objects: Vec<Arc<Value>>,
}

/// A change with its version and, once somebody has watched it, its line.
pub(super) struct Event {
    pub(super) change: Change,
    pub(super) version: u64,
    line: OnceLock<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// What a watch is told.
pub(super) type Told = (EventKind, Arc<Event>);

pub(super) struct Watcher {
    pub(super) selection: Selection,
    pub(super) sender: UnboundedSender<Told>,
}

impl Store {
    pub(super) fn new(clock: Clock, rng: Rng, hooks: Hooks) -> Self {
        let mut store = Self {
            clock,
            rng,
            hooks: Arc::new(hooks),
            version: 1,
            tables: Kind::ALL.iter().map(|_| Table::default()).collect(),
            by_uid: BTreeMap::new(),
            dependents: BTreeMap::new(),
            by_node: BTreeMap::new(),
            followers: Vec::new(),
            doubtful: VecDeque::new(),
            is_settling: false,
            pages: Pages::default(),
        };
        for name in FIRST_NAMESPACES {
            let metadata = json!({"name": name, "labels": {"kubernetes.io/metadata.name": name}});
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
            let made = store.create(Kind::Namespace, "", namespace, super::write::Source::Inside);
            made.expect("nothing stands against the first namespaces");
        }
        // What was before the first request cannot be watched, as in a cluster whose server has just started.
        for table in &mut store.tables {
            table.history.clear();
            table.floor = store.version;
        }
        store
    }

    /// One object.
    pub fn get(&self, kind: Kind, at: &At) -> Option<&Arc<Value>> {
        self.table(kind).objects.get(at)
    }

    /// All objects of a kind, by namespace and name.
    pub fn list(&self, kind: Kind) -> impl Iterator<Item = &Arc<Value>> {
        self.table(kind).objects.values()
    }

    /// All objects of a kind in one namespace, by name.
    pub fn list_in<'a>(&'a self, kind: Kind, namespace: &str) -> impl Iterator<Item = &'a Arc<Value>> + use<'a> {
        let first = At::new(namespace, "");
        let after = (Bound::Included(first.clone()), Bound::Unbounded);
        let objects = self.table(kind).objects.range(after);
        objects.take_while(move |(at, _)| at.namespace == first.namespace).map(|(_, object)| object)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The present time as the API writes it.
    pub(super) fn stamp(&self) -> String {
        meta::stamp(self.now())
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn owned_by(&self, kind: Kind, owner_uid: &str) -> Vec<Arc<Value>> {
        let is_controlled = |object: &&Arc<Value>| {
            meta::owners(object).iter().any(|owner| owner["uid"] == owner_uid && owner["controller"] == true)
        };
        let places = self.dependents.get(owner_uid).into_iter().flatten().filter(|(of, _)| *of == kind);
        places.filter_map(|(_, at)| self.get(kind, at)).filter(is_controlled).cloned().collect()
    }

    pub(super) fn pods_on(&self, node: &str) -> Vec<Arc<Value>> {
        let places = self.by_node.get(node).into_iter().flatten();
        places.filter_map(|at| self.get(Kind::Pod, at)).cloned().collect()
    }

    pub(super) fn by_uid(&self, uid: &str) -> Option<&(Kind, At)> {
        self.by_uid.get(uid)
    }

    /// Everything that names this object as an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<(Kind, At)> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    pub(super) fn follow(&mut self) -> UnboundedReceiver<Change> {
        let (sender, receiver) = unbounded_channel();
        self.followers.push(sender);
        receiver
    }

    /// Stores an object under a new version and tells of it.
    pub(super) fn put(&mut self, kind: Kind, at: &At, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let after = Arc::new(object);
        let before = self.tables[kind as usize].objects.insert(at.clone(), after.clone());
        self.reindex(kind, at, before.as_deref(), Some(&after));
        self.tell(Change { kind, at: at.clone(), before, after: Some(after.clone()) });
        after
    }

    /// Takes an object away and tells of it.
    pub(super) fn remove(&mut self, kind: Kind, at: &At) -> Option<Arc<Value>> {
        let before = self.tables[kind as usize].objects.remove(at)?;
        self.version += 1;
        self.reindex(kind, at, Some(&before), None);
        self.tell(Change { kind, at: at.clone(), before: Some(before.clone()), after: None });
        Some(before)
    }

    fn table(&self, kind: Kind) -> &Table {
        &self.tables[kind as usize]
    }

    fn reindex(&mut self, kind: Kind, at: &At, before: Option<&Value>, after: Option<&Value>) {
        match (before, after) {
            (None, Some(object)) => drop(self.by_uid.insert(meta::uid(object).into(), (kind, at.clone()))),
            (Some(object), None) => drop(self.by_uid.remove(meta::uid(object))),
            _ => {}
        }
        let (old, new) = (before.map_or(&[][..], meta::owners), after.map_or(&[][..], meta::owners));
        if old != new {
            old.iter().filter_map(|owner| owner["uid"].as_str()).for_each(|uid| {
                forget(&mut self.dependents, uid, &(kind, at.clone()));
            });
            new.iter().filter_map(|owner| owner["uid"].as_str()).for_each(|uid| {
                self.dependents.entry(uid.into()).or_default().insert((kind, at.clone()));
            });
        }
        if kind == Kind::Pod {
            let (old, new) = (node_of(before), node_of(after));
            if old != new {
                forget(&mut self.by_node, old, at);
                if !new.is_empty() {
                    self.by_node.entry(new.into()).or_default().insert(at.clone());
                }
            }
        }
        self.note_doubts(kind, at, before, after);
    }

    fn tell(&mut self, change: Change) {
        self.followers.retain(|follower| follower.send(change.clone()).is_ok());
        let event = Arc::new(Event { version: self.version, line: OnceLock::new(), change });
        let table = &mut self.tables[event.change.kind as usize];
        table.watchers.retain(|watcher| match watcher.selection.sees(&event.change) {
            Some(seen) => watcher.sender.send((seen, event.clone())).is_ok(),
            None => !watcher.sender.is_closed(),
        });
        table.history.push_back(event);
        if table.history.len() > HISTORY {
            let oldest = table.history.pop_front();
            table.floor = oldest.map_or(table.floor, |oldest| oldest.version);
        }
    }

    /// The version up to which the changes of a kind are forgotten.
    pub(super) fn floor(&self, kind: Kind) -> u64 {
        self.table(kind).floor
    }

    /// Changes of a kind after a version, oldest first.
    pub(super) fn history(&self, kind: Kind, after: u64) -> impl Iterator<Item = &Arc<Event>> {
        let history = &self.table(kind).history;
        let start = history.partition_point(|event| event.version <= after);
        history.range(start..)
    }

    #[cfg(test)]
    pub(super) fn watchers(&self, kind: Kind) -> usize {
        self.table(kind).watchers.len()
    }

    pub(super) fn watch(&mut self, kind: Kind, watcher: Watcher) {
        let watchers = &mut self.tables[kind as usize].watchers;
        watchers.retain(|watcher| !watcher.sender.is_closed());
        watchers.push(watcher);
    }
}

impl Event {
    /// The line of a watch, with its end. Lines that say what happened to the object are made once for all watches.
    pub(super) fn line(&self, kind: EventKind) -> Bytes {
        if kind == self.natural_kind() {
            return self.line.get_or_init(|| self.write(kind)).clone();
        }
        self.write(kind)
    }

    fn natural_kind(&self) -> EventKind {
        match (&self.change.before, &self.change.after) {
            (None, _) => EventKind::Added,
            (Some(_), Some(_)) => EventKind::Modified,
            (Some(_), None) => EventKind::Deleted,
        }
    }

    fn write(&self, kind: EventKind) -> Bytes {
        let text = match (kind, &self.change.before, &self.change.after) {
            // Whoever leaves is shown as it last was, with the version of the change that took it away.
            (EventKind::Deleted, Some(before), _) => {
                let mut object = Value::clone(before);
                object["metadata"]["resourceVersion"] = self.version.to_string().into();
                meta::text(&object)
            }
            (_, _, Some(after)) => meta::text(after),
            (_, Some(before), None) => meta::text(before),
            (_, None, None) => "null".to_owned(),
        };
        Bytes::from(format!("{{\"type\":\"{}\",\"object\":{text}}}\n", kind.as_str()))
    }
}

impl EventKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// The node that a pod is bound to, or nothing.
fn node_of(pod: Option<&Value>) -> &str {
    pod.and_then(|pod| pod["spec"]["nodeName"].as_str()).unwrap_or_default()
}

/// Takes a member out of a set in a map of sets; the set goes with its last member.
fn forget<T: Ord>(sets: &mut BTreeMap<Arc<str>, BTreeSet<T>>, key: &str, member: &T) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(member);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}
