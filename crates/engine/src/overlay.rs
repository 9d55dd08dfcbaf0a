//! NodeOverlays laid over what a cloud reports.
//!
//! Overlays are asked one by one, the heaviest first, equal weights by name from the last to the first. Each says what
//! it wants to set: the price of single offerings, the amount of single resources of a whole type. What nobody heavier
//! has set, it sets; what someone heavier has set stays. Where another one of its weight wants to set the same, it is
//! applied nowhere. Neither equal values nor a heavier overlay above both of them excuse it, so that a verdict never
//! hangs on a third.

#[cfg(test)]
pub(crate) mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use model::ids::{PoolName, TypeName};
use model::instance::InstanceType;
use model::labels::{NODE_POOL, WellKnown};
use model::overlay::{Overlay, PriceChange};
use model::pool::Pool;
use model::price::Price;
use model::requirements::{Requirements, Undefined};
use model::resources::Resource;

/// A pool and what the cloud itself says it can launch. The pool's own list of types is not looked at.
#[derive(Clone, Debug)]
pub struct PoolTypes<'a> {
    pub pool: &'a Pool,
    pub types: Vec<Arc<InstanceType>>,
}

/// What pools can launch once overlays are applied, and what became of each overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlaid {
    /// In the cloud's order. A type that no overlay changes is the cloud's own `Arc`; equal corrections share one.
    pub types: BTreeMap<PoolName, Vec<Arc<InstanceType>>>,
    /// By the overlay's name.
    pub verdicts: BTreeMap<Arc<str>, Verdict>,
}

/// What became of an overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It sets a price or an amount somewhere.
    Applied,
    /// Everything that it would set is set by heavier overlays.
    Outweighed,
    /// There is nothing to set: it matches no offering of any pool, or names neither price nor capacity.
    Idle,
    /// Another one of the same weight wants to set the same, so this one is applied nowhere.
    Conflict(Conflict),
}

/// The first place where an overlay meets another one of its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The overlay that stays.
    pub with: Arc<str>,
    pub pool: PoolName,
    pub instance_type: TypeName,
    pub over: Contested,
}

/// What two overlays both want to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contested {
    Price { offering: Requirements },
    Capacity { resource: Resource },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { with, pool, instance_type, over } = self;
        write!(f, "overlay {with} of the same weight already sets ")?;
        match over {
            Contested::Price { offering } => write!(f, "the price of {instance_type} ({offering})")?,
            Contested::Capacity { resource } => write!(f, "{resource} of {instance_type}")?,
        }
        write!(f, " in pool {pool}")
    }
}

/// Corrects prices and capacities as the overlays say. The order of the overlays does not matter.
///
/// Whoever calls leaves out overlays that are not valid in themselves.
pub fn apply(overlays: &[Arc<Overlay>], pools: &[PoolTypes<'_>], well_known: &WellKnown) -> Overlaid {
    let labels: Vec<Requirements> = pools.iter().map(|of| labels_of(of.pool)).collect();
    let mut listings: Vec<Listing<'_>> = pools
        .iter()
        .zip(&labels)
        .flat_map(|(of, labels)| of.types.iter().map(|source| Listing::new(of.pool, labels, source)))
        .collect();
    let mut in_order: Vec<&Overlay> = overlays.iter().map(|overlay| &**overlay).collect();
    in_order.sort_by_key(|overlay| (Reverse(overlay.weight), Reverse(&overlay.name)));
    let verdicts =
        in_order.into_iter().map(|overlay| (overlay.name.clone(), lay(overlay, &mut listings, well_known))).collect();
    // A pool to which the cloud offers nothing is in the answer too.
    let mut types: BTreeMap<_, Vec<_>> = pools.iter().map(|of| (of.pool.name.clone(), Vec::new())).collect();
    let mut made = Made::default();
    for listing in &listings {
        types.entry(listing.pool.name.clone()).or_default().push(made.result_of(listing));
    }
    Overlaid { types, verdicts }
}

/// One instance type as one pool has it, and who sets what on it.
struct Listing<'a> {
    pool: &'a Pool,
    /// The labels of the pool's nodes, as requirements.
    labels: &'a Requirements,
    source: &'a Arc<InstanceType>,
    claims: BTreeMap<Target, Claim<'a>>,
}

/// One thing that an overlay can set.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// The price of the offering at this position.
    Price(usize),
    Capacity(Resource),
}

/// Who wants to set one thing. Invariant: they are all of different weight, and `latest` is the lightest so far.
struct Claim<'a> {
    winner: &'a Overlay,
    /// Outweighed, unless it is the winner. It still blocks others of its weight.
    latest: &'a Overlay,
}

/// What all nodes of a pool are labelled with. The pool's name is what it is, whatever the labels say.
fn labels_of(pool: &Pool) -> Requirements {
    let mut labels = pool.template.labels.clone();
    labels.insert(NODE_POOL.into(), pool.name.as_str().into());
    Requirements::from_labels(&labels)
}

/// Looks everywhere before it claims anything, so that nothing is left of an overlay in conflict.
fn lay<'a>(overlay: &'a Overlay, listings: &mut [Listing<'a>], well_known: &WellKnown) -> Verdict {
    let wishes: Vec<Vec<Target>> = listings.iter().map(|listing| listing.targets(overlay, well_known)).collect();
    let conflict = listings.iter().zip(&wishes).find_map(|(listing, targets)| listing.conflict(overlay, targets));
    if let Some(conflict) = conflict {
        return Verdict::Conflict(conflict);
    }
    let mut verdict = Verdict::Idle;
    for (listing, targets) in listings.iter_mut().zip(wishes) {
        for target in targets {
            let is_set_already = listing.claims.contains_key(&target);
            let claim = Claim { winner: overlay, latest: overlay };
            listing.claims.entry(target).or_insert(claim).latest = overlay;
            if !is_set_already {
                verdict = Verdict::Applied;
            } else if verdict == Verdict::Idle {
                verdict = Verdict::Outweighed;
            }
        }
    }
    verdict
}

impl<'a> Listing<'a> {
    fn new(pool: &'a Pool, labels: &'a Requirements, source: &'a Arc<InstanceType>) -> Self {
        Self { pool, labels, source, claims: BTreeMap::new() }
    }

    /// What the overlay wants to set here. One matching offering is enough to set the capacity of the whole type.
    fn targets(&self, overlay: &Overlay, well_known: &WellKnown) -> Vec<Target> {
        if !self.is_matched_by(overlay) {
            return Vec::new();
        }
        // The overlay stands where a claim would: a well-known key that it does not name is open, any other is absent.
        let undefined = Undefined::OpenIfWellKnown(well_known);
        let offerings: Vec<usize> = (self.source.offerings.iter().enumerate())
            .filter(|(_, offering)| overlay.requirements.is_compatible(&offering.requirements, undefined))
            .map(|(position, _)| position)
            .collect();
        if offerings.is_empty() {
            return Vec::new();
        }
        let prices = offerings.into_iter().filter(|_| overlay.price.is_some()).map(Target::Price);
        let amounts = overlay.capacity.amounts().map(|(resource, _)| Target::Capacity(resource));
        prices.chain(amounts).collect()
    }

    /// Whether nodes of this type in this pool can be what the overlay asks for. A label that neither has is absent.
    fn is_matched_by(&self, overlay: &Overlay) -> bool {
        // Only keys that the overlay names can clash, so the rest need not be copied.
        let known: Requirements = (overlay.requirements.iter())
            .flat_map(|(key, _)| [self.labels, &self.source.requirements].map(|side| (key, side.get(key))))
            .filter_map(|(key, requirement)| Some((key.clone(), requirement?.clone())))
            .collect();
        known.is_compatible(&overlay.requirements, Undefined::Absent)
    }

    fn conflict(&self, overlay: &Overlay, targets: &[Target]) -> Option<Conflict> {
        targets.iter().find_map(|target| {
            let rival = self.claims.get(target)?.latest;
            if rival.weight != overlay.weight {
                return None;
            }
            let over = match target {
                Target::Price(position) => {
                    Contested::Price { offering: self.source.offerings.get(*position)?.requirements.clone() }
                }
                Target::Capacity(resource) => Contested::Capacity { resource: resource.clone() },
            };
            let (pool, instance_type) = (self.pool.name.clone(), self.source.name.clone());
            Some(Conflict { with: rival.name.clone(), pool, instance_type, over })
        })
    }

    /// A copy with what the winners say. Everything else stays, offering overrides and reservations too, which the
    /// reference loses. The pool's labels do not become the type's.
    fn corrected(&self) -> InstanceType {
        let mut result = InstanceType::clone(self.source);
        for (target, Claim { winner, .. }) in &self.claims {
            match target {
                Target::Price(position) => {
                    if let (Some(offering), Some(change)) = (result.offerings.get_mut(*position), winner.price) {
                        offering.price = changed(offering.price, change);
                        offering.has_price_overlay = true;
                    }
                }
                Target::Capacity(resource) => {
                    result.capacity.set(resource.clone(), winner.capacity.get(resource));
                    result.has_capacity_overlay = true;
                }
            }
        }
        result
    }
}

fn changed(price: Price, change: PriceChange) -> Price {
    match change {
        PriceChange::Replace { pico } => Price::from_pico(pico),
        PriceChange::Add { pico } => price.shifted(pico),
        PriceChange::AddParts { per_million } => price.scaled(per_million.saturating_add(1_000_000)),
    }
}

/// Corrected types so far, by name, so that pools with equal corrections share them.
#[derive(Default)]
struct Made(BTreeMap<TypeName, Vec<Arc<InstanceType>>>);

impl Made {
    fn result_of(&mut self, listing: &Listing<'_>) -> Arc<InstanceType> {
        if listing.claims.is_empty() {
            return listing.source.clone();
        }
        let corrected = listing.corrected();
        let made = self.0.entry(corrected.name.clone()).or_default();
        if let Some(equal) = made.iter().find(|earlier| ***earlier == corrected) {
            return equal.clone();
        }
        let corrected = Arc::new(corrected);
        made.push(corrected.clone());
        corrected
    }
}
