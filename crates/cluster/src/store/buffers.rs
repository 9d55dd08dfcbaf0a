//! Buffers, and the pods that they stand for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::CapacityBuffer;
use api::record::BufferTemplate;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use model::ids::PodName;
use model::pod::Pod;

use crate::lower::Oddity;
use crate::lower::buffer::{Resolved, Source, pods as lower};
use crate::lower::pod::Surroundings;

#[derive(Debug, Default)]
pub(super) struct Buffers {
    entries: BTreeMap<PodName, Entry>,
    /// Of all buffers. The names end in a number of each buffer's own, so no two buffers share one.
    pods: BTreeMap<PodName, Arc<Pod>>,
}

#[derive(Debug)]
struct Entry {
    wire: Arc<CapacityBuffer>,
    template: Option<Template>,
    pods: BTreeSet<PodName>,
}

/// What a buffer refers to, once it has been looked up.
#[derive(Clone, Debug)]
pub struct Template {
    pub spec: PodTemplateSpec,
    pub source: Source,
}

impl Template {
    pub(super) fn to_record(&self) -> BufferTemplate {
        let (of_workload, replicas) = match self.source {
            Source::PodTemplate => (false, None),
            Source::Workload { replicas } => (true, replicas),
        };
        BufferTemplate { template: self.spec.clone(), of_workload, replicas }
    }
}

impl Buffers {
    pub(super) fn get(&self, key: &PodName) -> Option<&Arc<CapacityBuffer>> {
        self.entries.get(key).map(|entry| &entry.wire)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&PodName, &Arc<CapacityBuffer>)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.wire))
    }

    pub(super) fn pods(&self) -> &BTreeMap<PodName, Arc<Pod>> {
        &self.pods
    }

    pub(super) fn put(&mut self, key: &PodName, wire: CapacityBuffer) {
        let wire = Arc::new(wire);
        match self.entries.get_mut(key) {
            Some(entry) => entry.wire = wire,
            None => drop(self.entries.insert(key.clone(), Entry { wire, template: None, pods: BTreeSet::new() })),
        }
    }

    /// Says whether the buffer is there at all.
    pub(super) fn resolve(&mut self, key: &PodName, template: Option<Template>) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        entry.template = template;
        true
    }

    /// Says which pods went with it.
    pub(super) fn remove(&mut self, key: &PodName) -> BTreeSet<PodName> {
        let names = self.entries.remove(key).map(|entry| entry.pods).unwrap_or_default();
        names.iter().for_each(|name| drop(self.pods.remove(name)));
        names
    }

    /// Makes a buffer's pods anew and says which of them are not what they were.
    pub(super) fn refresh(&mut self, key: &PodName, around: &Surroundings<'_>) -> (BTreeSet<PodName>, Vec<Oddity>) {
        let Some(entry) = self.entries.get_mut(key) else { return (BTreeSet::new(), Vec::new()) };
        let (found, oddities) = match &entry.template {
            Some(template) => {
                let resolved = Resolved { template: &template.spec, source: template.source };
                let lowered = lower(&entry.wire, &resolved, around);
                (lowered.value, lowered.oddities)
            }
            None => (Vec::new(), Vec::new()),
        };
        let mut changed = std::mem::take(&mut entry.pods);
        let mut before: BTreeMap<PodName, Arc<Pod>> =
            changed.iter().filter_map(|name| self.pods.remove_entry(name)).collect();
        for pod in found {
            let name = pod.name.clone();
            let pod = match before.remove(&name).filter(|before| **before == pod) {
                Some(same) => {
                    changed.remove(&name);
                    same
                }
                None => {
                    changed.insert(name.clone());
                    Arc::new(pod)
                }
            };
            entry.pods.insert(name.clone());
            self.pods.insert(name, pod);
        }
        (changed, oddities)
    }
}
