//! DaemonSets, each with the newest of its pods, which knows best what such a pod is like.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::PodName;
use model::snapshot::Daemon;
use model::time::Instant;

use super::pods::{Entry, Pods};
use crate::lower::daemon::with_live_pod;

#[derive(Debug, Default)]
pub(super) struct Daemons {
    /// As their templates have them.
    templates: BTreeMap<PodName, Arc<Daemon>>,
    /// Pods by their set, oldest first. Pods may come before their set.
    pods: BTreeMap<PodName, BTreeSet<(Instant, PodName)>>,
    shown: BTreeMap<PodName, Arc<Daemon>>,
}

impl Daemons {
    pub(super) fn shown(&self) -> &BTreeMap<PodName, Arc<Daemon>> {
        &self.shown
    }

    /// The newest pod of a set that is there.
    pub(super) fn newest(&self, set: &PodName) -> Option<&PodName> {
        self.templates.get(set)?;
        self.pods.get(set)?.last().map(|(_, pod)| pod)
    }

    pub(super) fn put(&mut self, set: &PodName, template: Option<Daemon>) {
        match template {
            Some(template) => drop(self.templates.insert(set.clone(), Arc::new(template))),
            None => drop(self.templates.remove(set)),
        }
    }

    /// Notes a pod, and says whose it is. One whose owner may change is taken out first.
    pub(super) fn add_pod(&mut self, entry: &Entry) -> Option<PodName> {
        let set = entry.daemon_set()?;
        self.pods.entry(set.clone()).or_default().insert((entry.pod.created, entry.pod.name.clone()));
        Some(set)
    }

    pub(super) fn remove_pod(&mut self, entry: &Entry) -> Option<PodName> {
        let set = entry.daemon_set()?;
        let pods = self.pods.get_mut(&set)?;
        pods.remove(&(entry.pod.created, entry.pod.name.clone()));
        if pods.is_empty() {
            self.pods.remove(&set);
        }
        Some(set)
    }

    /// Sees a set anew and says whether it looks different.
    pub(super) fn refresh(&mut self, set: &PodName, pods: &Pods) -> bool {
        let newest = self.newest(set).and_then(|name| pods.get(name));
        let seen = self.templates.get(set).map(|template| match newest {
            Some(entry) => Arc::new(with_live_pod(template, &entry.pod)),
            None => template.clone(),
        });
        if self.shown.get(set) == seen.as_ref() {
            return false;
        }
        match seen {
            Some(daemon) => drop(self.shown.insert(set.clone(), daemon)),
            None => drop(self.shown.remove(set)),
        }
        true
    }
}
