//! What is on sale, looked up once: plans of thousands of claims ask for the same machines again and again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::ids::{PoolName, TypeName};
use model::instance::InstanceType;
use model::labels::HOSTNAME;
use model::plan::PlannedClaim;
use model::snapshot::Snapshot;

use crate::machine::{Machine, Order, machines_of_type, sorted};

/// The types of a snapshot's pools, and the machines that claims may become.
pub(crate) struct Shelf<'a> {
    pub(crate) snapshot: &'a Snapshot,
    types: BTreeMap<(&'a PoolName, &'a TypeName), &'a InstanceType>,
    /// By what claims demand, written out, and then by type.
    made: RefCell<BTreeMap<String, ByType>>,
}

type ByType = BTreeMap<TypeName, Vec<Arc<Machine>>>;

impl<'a> Shelf<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let mut types = BTreeMap::new();
        for pool in snapshot.pools.values() {
            for instance in &pool.instance_types {
                // Of two types of one name the first counts.
                types.entry((&pool.name, &instance.name)).or_insert(&**instance);
            }
        }
        Self { snapshot, types, made: RefCell::default() }
    }

    pub(crate) fn has(&self, pool: &PoolName, name: &TypeName) -> bool {
        self.types.contains_key(&(pool, name))
    }

    /// The types that a claim lists and its pool has; those that it has not are a fault of their own.
    pub(crate) fn types(&self, claim: &PlannedClaim) -> Vec<&'a InstanceType> {
        claim.types.iter().filter_map(|name| self.types.get(&(&claim.pool, name)).copied()).collect()
    }

    /// Every machine that a claim may become, cheapest first.
    pub(crate) fn machines(&self, claim: &PlannedClaim) -> Vec<Arc<Machine>> {
        let types = self.types(claim);
        let mut demands = claim.requirements.clone();
        // It has no part in what a machine is, and would make every claim a case of its own.
        demands.remove(HOSTNAME);
        let key = format!("{:?} {demands:?} {:?}", claim.pool, claim.reservations);
        let mut made = self.made.borrow_mut();
        let known = made.entry(key).or_default();
        let order = Order::of_claim(self.snapshot, claim, types);
        let mut found = Vec::new();
        for instance in &order.types {
            if !known.contains_key(&instance.name) {
                known.insert(instance.name.clone(), machines_of_type(&order, instance));
            }
            found.extend(known.get(&instance.name).into_iter().flatten().cloned());
        }
        sorted(found)
    }
}
