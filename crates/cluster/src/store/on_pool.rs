//! What happens when pools, what they can buy, DaemonSets, budgets, buffers or overlays change.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::record::Event;
use api::{CapacityBuffer, NodeOverlay, NodePool};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use model::ids::{PodName, PoolName, Uid};
use model::instance::InstanceType;
use model::time::Instant;

use super::buffers::Template;
use super::on_machine::Cause;
use super::{NodeClass, Store, surroundings, trim};
use crate::lower;
use crate::lower::eligible::is_provisionable;
use crate::object::Key;
use crate::record;
use crate::wake::{Change, Duty};

impl Store {
    /// What a pool can buy, overlays applied. An empty list means that nothing is on sale, or that nobody could say.
    pub fn set_catalog(&mut self, pool: &PoolName, types: Vec<Arc<InstanceType>>, now: Instant) -> Change {
        if let Some(journal) = &mut self.journal {
            journal.note_offer(pool, &types, now);
        }
        let mut change = Change::default();
        if self.pools.set_catalog(pool, types) {
            self.note_pool(pool, now, &mut change);
        }
        change
    }

    /// What a buffer refers to, or that it refers to nothing that is there.
    pub fn resolve_buffer(&mut self, key: &PodName, template: Option<Template>, now: Instant) -> Change {
        self.note_at(now, || Event::Resolved {
            buffer: record::name(key),
            template: template.as_ref().map(Template::to_record),
        });
        let mut change = Change::default();
        if self.buffers.resolve(key, template) {
            self.refresh_buffer(key, now, &mut change);
        }
        change
    }

    pub(super) fn put_pool(&mut self, name: &str, wire: Option<NodePool>, now: Instant, change: &mut Change) {
        let name = PoolName::from(name);
        let wire = wire.filter(|pool| self.settings.classes.owns_pool(pool));
        let news = self.pools.put(&name, wire.map(trim::pool));
        if news.is_news {
            change.wake(Duty::Pool(name.clone()));
        }
        if news.has_new_spec {
            self.disturb(now, change);
            change.wake(Duty::Overlays);
        }
        if news.has_new_spec || news.has_new_stamp {
            self.wake_claims_of(&name, change);
        }
        if news.has_new_meaning {
            self.note_pool(&name, now, change);
        }
    }

    fn note_pool(&mut self, name: &PoolName, now: Instant, change: &mut Change) {
        self.snapshots.touch(|stale| stale.pools = true);
        self.disturb(now, change);
        change.wake(Duty::Pool(name.clone()));
        let unlaunched = self.unlaunched_of(name);
        self.look_again(&unlaunched, Cause::Fact, now, change);
        if self.pods.unbound().any(|entry| is_provisionable(&entry.pod)) {
            // It may have what they wait for.
            change.wake(Duty::Provision(Uid::from(name.as_str())));
        }
    }

    pub(super) fn put_class(&mut self, key: &Key, class: Option<NodeClass>, change: &mut Change) {
        if self.pools.put_class(key.kind, &key.name, class) {
            for pool in self.pools.of_class(key.kind, &key.name) {
                change.wake(Duty::Pool(pool.clone()));
                self.wake_claims_of(pool, change);
            }
        }
    }

    /// They may not be any more what their pool or its class would make.
    fn wake_claims_of(&self, pool: &PoolName, change: &mut Change) {
        let claims = self.machines.claims().briefs();
        let of_pool = claims.filter(|(_, claim)| claim.pool.as_deref() == Some(pool.as_str()));
        change.wake.extend(of_pool.map(|(name, _)| Duty::Claim(name.clone())));
    }

    pub(super) fn put_daemon_set(
        &mut self,
        key: &PodName,
        wire: Option<&DaemonSet>,
        now: Instant,
        change: &mut Change,
    ) {
        let template = wire.map(|wire| {
            let lowered = lower::daemon::daemon(wire, None);
            change.oddities.extend(lowered.oddities);
            lowered.value
        });
        self.daemons.put(key, template);
        self.see_daemon_set(key, now, change);
    }

    pub(super) fn see_daemon_set(&mut self, key: &PodName, now: Instant, change: &mut Change) {
        if self.daemons.refresh(key, &self.pods) {
            self.snapshots.touch(|stale| stale.daemons = true);
            self.disturb(now, change);
        }
    }

    pub(super) fn put_budget(
        &mut self,
        key: &PodName,
        wire: Option<&PodDisruptionBudget>,
        now: Instant,
        change: &mut Change,
    ) {
        let budget = wire.map(|wire| Arc::new(lower::budget::budget(wire)));
        if self.budgets.get(key) == budget.as_ref() {
            return;
        }
        match budget {
            Some(budget) => drop(self.budgets.insert(key.clone(), budget)),
            None => drop(self.budgets.remove(key)),
        }
        self.snapshots.touch(|stale| stale.budgets = true);
        self.disturb(now, change);
    }

    pub(super) fn put_buffer(
        &mut self,
        key: &PodName,
        wire: Option<CapacityBuffer>,
        now: Instant,
        change: &mut Change,
    ) {
        change.wake(Duty::Buffer(key.clone()));
        match wire {
            Some(wire) => {
                self.buffers.put(key, wire);
                self.refresh_buffer(key, now, change);
            }
            None => {
                let names = self.buffers.remove(key);
                self.note_room(&names, now, change);
            }
        }
    }

    /// The room that a buffer keeps has changed.
    fn note_room(&mut self, names: &BTreeSet<PodName>, now: Instant, change: &mut Change) {
        names.iter().for_each(|name| self.snapshots.touch_pod(name));
        if !names.is_empty() {
            self.disturb(now, change);
        }
    }

    pub(super) fn refresh_buffer(&mut self, key: &PodName, now: Instant, change: &mut Change) {
        let around = surroundings(&self.settings, &self.namespaces, &self.volumes, &self.workloads);
        let (names, oddities): (BTreeSet<PodName>, _) = self.buffers.refresh(key, &around);
        change.oddities.extend(oddities);
        self.note_room(&names, now, change);
        if !names.is_empty() {
            change.wake(Duty::Provision(Uid::from(format!("{key}"))));
        }
    }

    /// A template is not kept: whoever wants it reads it, and buffers that name it should do so again.
    pub(super) fn note_template(&self, key: &PodName, change: &mut Change) {
        let names_it = |buffer: &CapacityBuffer| {
            let named = buffer.spec.pod_template_ref.as_ref().map(|named| named.name.as_str());
            named == Some(&*key.name)
        };
        let near = self.buffers.iter().filter(|(buffer, _)| buffer.namespace == key.namespace);
        let concerned = near.filter(|(_, wire)| names_it(wire));
        change.wake.extend(concerned.map(|(buffer, _)| Duty::Buffer(buffer.clone())));
    }

    pub(super) fn put_overlay(
        &mut self,
        name: &Arc<str>,
        wire: Option<NodeOverlay>,
        now: Instant,
        change: &mut Change,
    ) {
        let overlay = wire.as_ref().map(|wire| {
            let lowered = lower::overlay::overlay(wire);
            change.oddities.extend(lowered.oddities);
            Arc::new(lowered.value)
        });
        match wire {
            Some(wire) => drop(self.overlay_wires.insert(name.clone(), Arc::new(wire))),
            None => drop(self.overlay_wires.remove(name)),
        }
        if self.overlays.get(name) == overlay.as_ref() {
            return;
        }
        match overlay {
            Some(overlay) => drop(self.overlays.insert(name.clone(), overlay)),
            None => drop(self.overlays.remove(name)),
        }
        change.wake(Duty::Overlays);
        self.disturb(now, change);
    }
}
