//! Joins the API server's watches to the store: one task per kind.

use std::convert::Infallible;
use std::sync::Arc;

use api::aws::EC2NodeClass;
use api::kwok::KWOKNodeClass;
use api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use cluster::{Fact, Gone, Key, Kind, Object, Undecodable, feed};
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::{DaemonSet, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, Service,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use model::ids::Uid;
use provider::CloudProvider;
use runtime::watch::{self, Event, ObjectId, Seen, Target};
use runtime::{RuntimeError, Tasks};

use crate::ctx::Ctx;

/// Starts to watch everything that decisions depend on.
pub(crate) fn spawn(ctx: &Arc<Ctx>, tasks: &mut Tasks) {
    for kind in kinds(ctx) {
        let (ctx, stop) = (ctx.clone(), tasks.stop());
        tasks.spawn(format!("watch {kind}"), async move {
            let facts = facts(&ctx, kind).take_until(stop.cancelled());
            feed(facts, ctx.shared_store(), || ctx.now(), |news| ctx.pass_on(news)).await;
            Ok::<(), RuntimeError>(())
        });
    }
}

/// The kinds that are of use with these settings and this cloud.
fn kinds(ctx: &Ctx) -> Vec<Kind> {
    let has_class = |name: &str| ctx.cloud.node_class_kinds().iter().any(|kind| kind.kind == name);
    let has_default_spread = !ctx.settings.default_spread.is_empty();
    let is_wanted = |kind: Kind| match kind {
        Kind::KwokNodeClass | Kind::Ec2NodeClass => has_class(kind.as_str()),
        Kind::Service | Kind::ReplicaSet | Kind::StatefulSet | Kind::ReplicationController => has_default_spread,
        Kind::CapacityBuffer | Kind::PodTemplate => ctx.settings.gates.capacity_buffer,
        Kind::NodeOverlay => ctx.settings.gates.node_overlay,
        _ => true,
    };
    Kind::ALL.iter().copied().filter(|kind| is_wanted(*kind)).collect()
}

fn facts(ctx: &Arc<Ctx>, kind: Kind) -> impl Stream<Item = Fact> + use<> {
    let settings = watch::Settings::default();
    let rng = ctx.rng.fork(&format!("watch {kind}"));
    let known_to = ctx.clone();
    let read = move |seen: Seen<'_>| Ok::<_, Infallible>(news(&known_to, kind, seen));
    let events = watch::watch(ctx.client.clone(), target(kind), settings, rng, read);
    events.map(move |event| fact(kind, event))
}

/// What we have written ourselves is known from the answer, and not worth reading again.
fn news(ctx: &Ctx, kind: Kind, seen: Seen<'_>) -> Fact {
    let key = key(kind, seen.namespace(), seen.name());
    let is_known = ctx.store().knows(&key, seen.version().parse().ok());
    if is_known { Fact::Known(key) } else { read(kind, seen.json().as_bytes()) }
}

/// An object, or as much of it as can be made out.
pub(crate) fn read(kind: Kind, json: &[u8]) -> Fact {
    match Object::decode(kind, json) {
        Ok(object) => Fact::Applied(object),
        Err(problem) => Fact::Undecodable(Undecodable::read(kind, json, problem)),
    }
}

fn fact(kind: Kind, event: Event<Fact>) -> Fact {
    match event {
        Event::Restarted => Fact::Restarted { kind },
        Event::Applied(fact) => fact,
        Event::Deleted(id) => Fact::Deleted(gone(kind, &id)),
        Event::Undecodable { id, error } => {
            let (key, uid) = (key(kind, &id.namespace, &id.name), uid(&id));
            Fact::Undecodable(Undecodable { key, uid, node: None, problem: error.into() })
        }
        Event::Listed => Fact::Listed { kind, version: None },
        Event::Absent => {
            tracing::info!(%kind, "the cluster does not serve this kind; it is looked for again from time to time");
            Fact::Absent { kind }
        }
    }
}

fn key(kind: Kind, namespace: &str, name: &str) -> Key {
    Key { kind, namespace: namespace.into(), name: name.into() }
}

/// The version tells it from one that was made under its name meanwhile, which we may know from an answer to a write of ours.
fn gone(kind: Kind, id: &ObjectId) -> Gone {
    Gone { key: key(kind, &id.namespace, &id.name), uid: uid(id), version: id.version.parse().ok() }
}

fn uid(id: &ObjectId) -> Option<Uid> {
    Some(id.uid.as_str()).filter(|uid| !uid.is_empty()).map(Uid::from)
}

pub(crate) fn target(kind: Kind) -> Target {
    match kind {
        Kind::Pod => Target::of::<Pod>(),
        Kind::Node => Target::of::<Node>(),
        Kind::NodeClaim => Target::of::<NodeClaim>(),
        Kind::NodePool => Target::of::<NodePool>(),
        Kind::KwokNodeClass => Target::of::<KWOKNodeClass>(),
        Kind::Ec2NodeClass => Target::of::<EC2NodeClass>(),
        Kind::DaemonSet => Target::of::<DaemonSet>(),
        Kind::PersistentVolumeClaim => Target::of::<PersistentVolumeClaim>(),
        Kind::PersistentVolume => Target::of::<PersistentVolume>(),
        Kind::StorageClass => Target::of::<StorageClass>(),
        Kind::CsiNode => Target::of::<CSINode>(),
        Kind::VolumeAttachment => Target::of::<VolumeAttachment>(),
        Kind::PodDisruptionBudget => Target::of::<PodDisruptionBudget>(),
        Kind::Namespace => Target::of::<Namespace>(),
        Kind::Service => Target::of::<Service>(),
        Kind::ReplicaSet => Target::of::<ReplicaSet>(),
        Kind::StatefulSet => Target::of::<StatefulSet>(),
        Kind::ReplicationController => Target::of::<ReplicationController>(),
        Kind::CapacityBuffer => Target::of::<CapacityBuffer>(),
        Kind::PodTemplate => Target::of::<PodTemplate>(),
        Kind::NodeOverlay => Target::of::<NodeOverlay>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_deleted_is_told_from_who_has_the_name_now() {
        let id = ObjectId { name: "general".into(), uid: "first".into(), version: "8".into(), ..ObjectId::default() };
        let Fact::Deleted(gone) = fact(Kind::NodePool, Event::Deleted(id)) else { panic!("something is gone") };
        assert_eq!((gone.version, gone.uid), (Some(8), Some("first".into())));
    }
}
