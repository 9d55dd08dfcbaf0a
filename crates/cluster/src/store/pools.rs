//! Pools with what clouds offer them, and the classes that they name.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::conditions::READY;
use api::labels::annotations::{NODE_POOL_HASH, NODE_POOL_HASH_VERSION};
use api::{Condition, NodePool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::ids::PoolName;
use model::instance::InstanceType;
use model::pool::Pool;

use super::versions::differ_in_version_alone;
use crate::lower::pool::pool as lower;
use crate::object::Kind;

const EC2_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";

#[derive(Debug, Default)]
pub(super) struct Pools {
    /// Only ours.
    wires: BTreeMap<PoolName, Arc<NodePool>>,
    /// What is on sale for each pool, overlays applied. It may be known before the pool is.
    catalogs: BTreeMap<PoolName, Vec<Arc<InstanceType>>>,
    shown: BTreeMap<PoolName, Arc<Pool>>,
    classes: BTreeMap<(Kind, Arc<str>), Arc<NodeClass>>,
}

/// What a duty must know of a cloud's own settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClass {
    pub kind: Kind,
    pub name: Arc<str>,
    pub generation: i64,
    pub is_deleting: bool,
    /// Its `Ready` condition, if it has one.
    pub ready: Option<Condition>,
    /// What nodes made from it carry, so that a difference shows that they are outdated.
    pub hash: Option<Arc<str>>,
    /// Changes with whatever is written to it: its status says which images and networks it means now.
    pub revision: Option<Arc<str>>,
}

impl NodeClass {
    pub(super) fn new(kind: Kind, metadata: &ObjectMeta, conditions: &[Condition]) -> Self {
        let annotations = metadata.annotations.as_ref();
        Self {
            kind,
            name: metadata.name.as_deref().unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or(0),
            is_deleting: metadata.deletion_timestamp.is_some(),
            ready: conditions.iter().find(|condition| condition.type_ == READY).cloned(),
            hash: annotations.and_then(|all| all.get(EC2_HASH)).map(|hash| hash.as_str().into()),
            revision: metadata.resource_version.as_deref().map(Into::into),
        }
    }
}

/// What became of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PoolChange {
    /// Anything but its version.
    pub(super) is_news: bool,
    /// What its owner wants of it.
    pub(super) has_new_spec: bool,
    /// What its claims are compared with.
    pub(super) has_new_stamp: bool,
    /// What the engine decides by.
    pub(super) has_new_meaning: bool,
}

impl Pools {
    pub(super) fn wires(&self) -> &BTreeMap<PoolName, Arc<NodePool>> {
        &self.wires
    }

    pub(super) fn shown(&self) -> &BTreeMap<PoolName, Arc<Pool>> {
        &self.shown
    }

    pub(super) fn class(&self, kind: Kind, name: &str) -> Option<&Arc<NodeClass>> {
        self.classes.get(&(kind, name.into()))
    }

    pub(super) fn put(&mut self, name: &PoolName, wire: Option<NodePool>) -> PoolChange {
        let before = self.wires.remove(name);
        let has_new_spec = before.as_ref().map(|before| &before.spec) != wire.as_ref().map(|after| &after.spec);
        let has_new_rest = match (&before, &wire) {
            (Some(before), Some(after)) => {
                before.status != after.status || !differ_in_version_alone(&before.metadata, &after.metadata)
            }
            (before, after) => before.is_some() != after.is_some(),
        };
        let has_new_stamp = before.as_deref().map(stamp) != wire.as_ref().map(stamp);
        match wire {
            Some(wire) => drop(self.wires.insert(name.clone(), Arc::new(wire))),
            None => drop(self.catalogs.remove(name)),
        }
        let (is_news, has_new_meaning) = (has_new_spec || has_new_rest, self.refresh(name));
        PoolChange { is_news, has_new_spec, has_new_stamp, has_new_meaning }
    }

    /// Says whether that is news.
    pub(super) fn set_catalog(&mut self, name: &PoolName, types: Vec<Arc<InstanceType>>) -> bool {
        self.catalogs.insert(name.clone(), types);
        self.refresh(name)
    }

    fn refresh(&mut self, name: &PoolName) -> bool {
        let types = self.catalogs.get(name).cloned().unwrap_or_default();
        let seen = self.wires.get(name).map(|wire| Arc::new(lower(wire, types)));
        if self.shown.get(name) == seen.as_ref() {
            return false;
        }
        match seen {
            Some(pool) => drop(self.shown.insert(name.clone(), pool)),
            None => drop(self.shown.remove(name)),
        }
        true
    }

    /// Says whether that is news.
    pub(super) fn put_class(&mut self, kind: Kind, name: &Arc<str>, class: Option<NodeClass>) -> bool {
        let class = class.map(Arc::new);
        let key = (kind, name.clone());
        if self.classes.get(&key) == class.as_ref() {
            return false;
        }
        match class {
            Some(class) => drop(self.classes.insert(key, class)),
            None => drop(self.classes.remove(&key)),
        }
        true
    }

    /// Pools made from a class.
    pub(super) fn of_class<'a>(&'a self, kind: Kind, class: &'a str) -> impl Iterator<Item = &'a PoolName> {
        let names_it = move |wire: &NodePool| {
            let named = &wire.spec.template.spec.node_class_ref;
            named.kind == kind.as_str() && named.name == class
        };
        self.wires.iter().filter(move |(_, wire)| names_it(wire)).map(|(name, _)| name)
    }
}

fn stamp(pool: &NodePool) -> [Option<String>; 2] {
    let annotations = pool.metadata.annotations.as_ref();
    [NODE_POOL_HASH, NODE_POOL_HASH_VERSION].map(|key| annotations.and_then(|all| all.get(key)).cloned())
}
