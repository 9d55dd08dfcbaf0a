//! What the scheduler hears of.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use model::ids::{Namespace, NodeName, PodName};
use model::pod::{Life, Pod};
use serde::Deserialize;
use serde_json::Value;

use super::claims::{is_bound, selected_node};
use super::lower::{Seen, facts, is_same_spec, life};
use super::{Binder, Known, later, part, text};
use crate::apiserver::{ApiServer, At, Change};
use crate::kinds::Kind;

/// Whether a pod that waits is tried again when something around it has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TriedAgain {
    Always,
    IfItMeansAnother,
}

impl Binder {
    pub(super) fn heed_change(&mut self, change: &Change, server: &ApiServer) {
        let (at, after) = (&change.at, change.after.as_deref());
        match change.kind {
            Kind::Pod => self.heed_pod(change, server),
            Kind::Node => self.heed_node(at, after, server.get(Kind::CsiNode, at).as_deref()),
            Kind::CsiNode => self.heed_node(at, server.get(Kind::Node, at).as_deref(), after),
            Kind::Namespace => self.heed_namespace(at, after, server),
            Kind::Service | Kind::ReplicaSet | Kind::StatefulSet => self.heed_workload(change, server),
            Kind::DaemonSet | Kind::Job => {
                if let (Some(gone), None) = (&change.before, after) {
                    self.around.forget_siblings(gone);
                }
            }
            Kind::PodDisruptionBudget => match &change.after {
                Some(budget) => drop(self.budgets.insert(at.clone(), budget.clone())),
                None => drop(self.budgets.remove(at)),
            },
            Kind::PersistentVolumeClaim => self.heed_claim(at, after, server),
            Kind::PersistentVolume => self.heed_volume(at, after, server),
            Kind::StorageClass => self.heed_storage_class(at, after, server),
            _ => {}
        }
    }

    fn heed_node(&mut self, at: &At, node: Option<&Value>, csi: Option<&Value>) {
        let name = NodeName::from(&*at.name);
        match node {
            Some(node) => self.relieved.extend(self.board.put_node(&name, facts(node, csi))),
            None => self.board.remove_node(&name),
        }
    }

    /// Labels of namespaces decide whom pods mean that want to be with others, or apart from them.
    fn heed_namespace(&mut self, at: &At, namespace: Option<&Value>, server: &ApiServer) {
        if !self.around.put_namespace(at, namespace) {
            return;
        }
        let minds_others = |known: &Known| {
            let wants = &known.seen.pod.wants;
            !(wants.together.is_empty()
                && wants.apart.is_empty()
                && wants.preferred_together.is_empty()
                && wants.preferred_apart.is_empty())
        };
        let minding = self.pods.iter().filter(|(_, known)| minds_others(known));
        let minding: Vec<PodName> = minding.map(|(name, _)| name.clone()).collect();
        minding.iter().for_each(|name| self.see_pod_again(name, TriedAgain::IfItMeansAnother, server));
    }

    /// A service, or a controller of pods. Controllers are there before their pods; a service may come when they already wait, and
    /// from then on they are spread as its pods.
    fn heed_workload(&mut self, change: &Change, server: &ApiServer) {
        let selector =
            |object: &Option<Arc<Value>>| object.as_ref().and_then(|object| part(object, "/spec/selector").cloned());
        if let (Some(gone), None) = (&change.before, &change.after) {
            self.around.forget_siblings(gone);
        }
        if change.before.is_none() || change.after.is_none() || selector(&change.before) != selector(&change.after) {
            self.around.put_workload(change.kind, &change.at, change.after.as_deref());
            if change.kind == Kind::Service {
                let waiting = self.queue.waiting_in(&Namespace::from(&*change.at.namespace));
                waiting.iter().for_each(|name| self.see_pod_again(name, TriedAgain::IfItMeansAnother, server));
            }
        }
    }

    fn heed_claim(&mut self, at: &At, claim: Option<&Value>, server: &ApiServer) {
        let namespace = Namespace::from(&*at.namespace);
        let claims = self.around.storage.claims.entry(namespace.clone()).or_default();
        match claim.and_then(|claim| PersistentVolumeClaim::deserialize(claim).ok()) {
            Some(claim) => drop(claims.insert(at.name.to_string(), claim)),
            None => drop(claims.remove(&*at.name)),
        }
        self.see_again(&namespace, &at.name, server);
    }

    fn heed_volume(&mut self, at: &At, volume: Option<&Value>, server: &ApiServer) {
        let claim_of = |volume: &PersistentVolume| {
            let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
            Some((Namespace::from(claim.namespace.as_deref()?), Arc::<str>::from(claim.name.as_deref()?)))
        };
        let volumes = &mut self.around.storage.volumes;
        let name = at.name.to_string();
        let (before, now) = match volume.and_then(|volume| PersistentVolume::deserialize(volume).ok()) {
            Some(volume) => {
                let now = claim_of(&volume);
                (volumes.insert(name, volume).and_then(|before| claim_of(&before)), now)
            }
            None => (volumes.remove(&name).and_then(|before| claim_of(&before)), None),
        };
        for (namespace, claim) in before.into_iter().chain(now) {
            self.see_again(&namespace, &claim, server);
        }
    }

    fn heed_storage_class(&mut self, at: &At, class: Option<&Value>, server: &ApiServer) {
        match class.and_then(|class| StorageClass::deserialize(class).ok()) {
            Some(class) => drop(self.around.storage.classes.insert(at.name.to_string(), class)),
            None => drop(self.around.storage.classes.remove(&*at.name)),
        }
        let claims: Vec<_> = self.by_claim.keys().cloned().collect();
        for (namespace, claim) in claims {
            self.see_again(&namespace, &claim, server);
        }
    }

    /// A claim, or what it refers to, has changed: its pods may mean something else now.
    fn see_again(&mut self, namespace: &Namespace, claim: &Arc<str>, server: &ApiServer) {
        let pods = self.by_claim.get(&(namespace.clone(), claim.clone())).cloned().unwrap_or_default();
        // Whether a claim lets its pods start is more than what it means for them.
        pods.iter().for_each(|name| self.see_pod_again(name, TriedAgain::Always, server));
    }

    /// What a pod means depends on more than the pod.
    fn see_pod_again(&mut self, name: &PodName, again: TriedAgain, server: &ApiServer) {
        let Some(object) = server.get(Kind::Pod, &super::at(name)) else { return };
        let seen = self.around.see(&object);
        if self.volume_waits.contains_key(name) {
            self.heed_volume_wait(name, seen, server);
            return;
        }
        if again == TriedAgain::IfItMeansAnother && self.pods.get(name).is_some_and(|known| known.seen == seen) {
            return;
        }
        let slot = self.board.slot_of_pod(name);
        let node = slot.and_then(|slot| self.board.seat_at(slot)).map(|seat| seat.name.clone());
        self.forget(name);
        self.know(name, text(&object, "/metadata/uid"), seen, node.as_ref());
        if node.is_none() {
            self.line_up(name, &object);
        }
    }

    /// Volumes on a chosen node have come, or somebody gave the choice up.
    fn heed_volume_wait(&mut self, name: &PodName, seen: Seen, server: &ApiServer) {
        let Some((node, _)) = self.volume_waits.get(name).cloned() else { return };
        let claims = self.around.storage.claims.get(&name.namespace);
        let claims: Vec<_> =
            seen.claims.iter().map(|claim| claims.and_then(|claims| claims.get(&*claim.name))).collect();
        if claims.iter().all(|claim| claim.is_some_and(is_bound)) {
            self.volume_waits.remove(name);
            self.see_standing(name, seen, &node);
            self.bind(name, &node, server.now(), server);
        } else if claims
            .iter()
            .any(|claim| claim.is_none_or(|claim| !is_bound(claim) && selected_node(claim) != Some(node.as_str())))
        {
            self.give_up(name, server.now());
        }
    }

    /// Gives up choices of nodes whose volumes have not come in time.
    pub(super) fn give_up_volumes(&mut self, now: Timestamp, _server: &ApiServer) {
        let patience = self.settings.volume_patience;
        let late = self.volume_waits.iter().filter(|(_, (_, since))| later(*since, patience) <= now);
        let late: Vec<PodName> = late.map(|(pod, _)| pod.clone()).collect();
        late.iter().for_each(|pod| self.give_up(pod, now));
    }

    fn heed_pod(&mut self, change: &Change, server: &ApiServer) {
        let name = PodName { namespace: Namespace::from(&*change.at.namespace), name: change.at.name.clone() };
        let Some(object) = change.after.as_ref().filter(|object| life(object) != Life::Terminal) else {
            self.forget(&name);
            return;
        };
        let uid = text(object, "/metadata/uid");
        let node = Some(text(object, "/spec/nodeName")).filter(|node| !node.is_empty()).map(NodeName::from);
        let is_same = change.before.as_ref().is_some_and(|before| is_same_spec(before, object));
        let life = life(object);
        let known = self.pods.get(&name).filter(|known| known.uid == uid && is_same);
        if let Some(known) = known {
            let place = self.board.slot_of_pod(&name).and_then(|slot| self.board.seat_at(slot)).map(|seat| &seat.name);
            // A pod that waits for its volumes stands already without being bound.
            let is_in_place = place == node.as_ref() || (node.is_none() && place.is_some());
            if is_in_place && known.seen.pod.life == life {
                return;
            }
            let seen = Seen { pod: Arc::new(Pod { life, ..Pod::clone(&known.seen.pod) }), ..known.seen.clone() };
            self.forget(&name);
            if node.is_some() || life == Life::Active {
                self.know(&name, uid, seen, node.as_ref());
                if node.is_none() {
                    self.line_up(&name, object);
                }
            }
            return;
        }
        self.forget(&name);
        let is_ours = text(object, "/spec/schedulerName") == self.settings.scheduler_name;
        if node.is_some() {
            let seen = self.around.see(object);
            self.know(&name, uid, seen, node.as_ref());
        } else if is_ours && life == Life::Active {
            if is_gated(object) {
                self.tell_gated(&name, object, server);
                return;
            }
            let seen = self.around.see(object);
            self.know(&name, uid, seen, None);
            self.line_up(&name, object);
        }
    }

    /// Remembers a pod, and seats it if it has a node.
    fn know(&mut self, name: &PodName, uid: &str, seen: Seen, node: Option<&NodeName>) {
        let class = self.board.join_class(&seen.pod, seen.names_spread);
        for claim in &seen.claims {
            let key = (name.namespace.clone(), claim.name.clone());
            self.by_claim.entry(key).or_default().insert(name.clone());
        }
        if let Some(node) = node {
            self.board.seat(&seen.pod, class, node);
        }
        self.pods.insert(name.clone(), Known { uid: uid.to_owned(), seen, class, told: None });
    }

    fn line_up(&mut self, name: &PodName, object: &Value) {
        let nominated = text(object, "/status/nominatedNodeName");
        if !nominated.is_empty() {
            self.nominees.insert(name.clone(), NodeName::from(nominated));
        }
        if let Some(known) = self.pods.get(name) {
            self.queue.enter(name, known.seen.pod.priority);
        }
    }

    pub(super) fn forget(&mut self, name: &PodName) {
        let Some(known) = self.pods.remove(name) else { return };
        self.queue.remove(name);
        self.nominees.remove(name);
        self.volume_waits.remove(name);
        if let Some(node) = &known.seen.pinned
            && let Some(pods) = self.pinned_waits.get_mut(node)
        {
            pods.remove(name);
            if pods.is_empty() {
                self.pinned_waits.remove(node);
            }
        }
        if let Some((slot, _)) = self.board.lift(name) {
            self.relieved.insert(slot);
        }
        self.board.leave_class(known.class);
        for claim in &known.seen.claims {
            let key = (name.namespace.clone(), claim.name.clone());
            if let Some(pods) = self.by_claim.get_mut(&key) {
                pods.remove(name);
                if pods.is_empty() {
                    self.by_claim.remove(&key);
                }
            }
        }
    }

    /// The pod means something else now, on the node that was chosen for it.
    fn see_standing(&mut self, name: &PodName, seen: Seen, node: &NodeName) {
        let Some(known) = self.pods.get_mut(name) else { return };
        let before = known.class;
        self.board.lift(name);
        known.class = self.board.join_class(&seen.pod, seen.names_spread);
        self.board.leave_class(before);
        self.board.seat(&seen.pod, known.class, node);
        known.seen = seen;
    }
}

fn is_gated(pod: &Value) -> bool {
    part(pod, "/spec/schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty())
}
