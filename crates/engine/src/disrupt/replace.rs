//! Which machines may come instead of nodes that leave: only those that are cheaper, whichever of them the cloud picks.

use std::sync::Arc;

use model::disruption::Stay;
use model::ids::{ReservationId, TypeName};
use model::instance::{CapacityType, InstanceType, Offering};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE};
use model::plan::PlannedClaim;
use model::pool::Pool;
use model::price::Price;
use model::requirements::{Requirement, Requirements};
use model::snapshot::Snapshot;

/// A spot node is replaced by a spot node only where so many cheaper types are open: the cloud picks by availability as well,
/// and with fewer it would climb down a ladder of replacements.
const SPOT_CHOICES: usize = 15;

/// What is known of the nodes that leave.
#[derive(Clone, Debug)]
pub(super) struct Leaving<'l> {
    /// Instance type, capacity type and price of each.
    pub(super) nodes: Vec<(Option<&'l TypeName>, Option<CapacityType>, Price)>,
    /// What all replacements together may cost at most, in pico-dollars.
    pub(super) most_pico: i64,
    pub(super) spot_to_spot: bool,
}

/// What all replacements cost at worst, whatever types of their lists are launched.
pub(super) fn at_most(snapshot: &Snapshot, claims: &[PlannedClaim]) -> Price {
    let worst = |claim: &PlannedClaim| {
        let types = types_of(snapshot, claim);
        types.filter_map(|offered| worst_price(offered, &claim.requirements)).max().unwrap_or(Price::ZERO)
    };
    claims.iter().fold(Price::ZERO, |sum, claim| sum.plus(worst(claim)))
}

/// Keeps what is cheaper of each claim's types. All replacements together stay strictly below what may be spent.
pub(super) fn cheaper(
    snapshot: &Snapshot,
    claims: &[PlannedClaim],
    leaving: &Leaving<'_>,
) -> Result<Vec<PlannedClaim>, Stay> {
    let mut drafts = Vec::with_capacity(claims.len());
    for claim in claims {
        drafts.push(Draft::new(snapshot, claim, leaving)?);
    }
    let least: Vec<i64> = drafts.iter().map(Draft::least_pico).collect();
    let sum = least.iter().fold(0_i64, |sum, own| sum.saturating_add(*own));
    let slack = leaving.most_pico.saturating_sub(sum);
    if slack <= 0 {
        return Err(match claims.len() {
            1 => Stay::NotCheaper,
            count => Stay::TooManyReplacements { count, price: Price::from_pico(sum) },
        });
    }
    let share = slack / i64::try_from(claims.len().max(1)).unwrap_or(i64::MAX);
    let drafts = drafts.into_iter().zip(least);
    drafts.map(|(draft, least)| draft.below(least.saturating_add(share.max(1)), leaving)).collect()
}

/// A claim with its types and what each costs at worst and at best.
struct Draft<'s> {
    claim: &'s PlannedClaim,
    requirements: Requirements,
    types: Vec<(Price, Price, &'s InstanceType)>,
    is_spot_to_spot: bool,
}

impl<'s> Draft<'s> {
    fn new(snapshot: &'s Snapshot, claim: &'s PlannedClaim, leaving: &Leaving<'_>) -> Result<Self, Stay> {
        let (spot, on_demand) = (CapacityType::Spot.as_str(), CapacityType::OnDemand.as_str());
        let may_be = |kind: &str| claim.requirements.get(CAPACITY_TYPE).is_none_or(|asked| asked.has(kind));
        let are_all_spot = leaving.nodes.iter().all(|(_, kind, _)| *kind == Some(CapacityType::Spot));
        let is_spot_to_spot = are_all_spot && may_be(spot);
        if is_spot_to_spot && !leaving.spot_to_spot {
            return Err(Stay::SpotToSpotDisabled);
        }
        // Should spot be short, the launch is to fail rather than to buy what is dearer. What has no spot offering cannot be
        // launched then, so it is not listed.
        let mut requirements = claim.requirements.clone();
        let types: Vec<&InstanceType> = types_of(snapshot, claim).collect();
        let sells_spot = |offered: &&InstanceType| {
            offered.offerings.iter().any(|one| {
                one.is_available
                    && one.capacity_type() == Some(CapacityType::Spot)
                    && claim.requirements.overlaps(&one.requirements)
            })
        };
        let pins = is_spot_to_spot || (may_be(spot) && may_be(on_demand) && types.iter().any(sells_spot));
        if pins {
            pin(&mut requirements, CAPACITY_TYPE, [spot.into()]);
        }
        let priced = |offered: &'s InstanceType| {
            let best = best_price(offered, &requirements)?;
            Some((worst_price(offered, &requirements)?, best, offered))
        };
        let mut types: Vec<_> = types.into_iter().filter_map(priced).collect();
        types.sort_by(|a, b| (a.1, &a.2.name).cmp(&(b.1, &b.2.name)));
        Ok(Self { claim, requirements, types, is_spot_to_spot })
    }

    /// What the cheapest of its types costs at worst.
    fn least_pico(&self) -> i64 {
        self.types.iter().map(|(worst, ..)| worst.pico()).min().unwrap_or(i64::MAX / 4)
    }

    /// Keeps types that cost less than this at worst.
    fn below(mut self, most_pico: i64, leaving: &Leaving<'_>) -> Result<PlannedClaim, Stay> {
        let most = leaving.same_type_limit(&self.types).map_or(most_pico, |limit| limit.pico().min(most_pico));
        self.types.retain(|(worst, ..)| worst.pico() < most);
        if self.types.is_empty() {
            return Err(Stay::NotCheaper);
        }
        if let Some(text) = self.unmet_minimum(&self.types) {
            return Err(Stay::MinValues { text });
        }
        if self.is_spot_to_spot && leaving.nodes.len() == 1 {
            if self.types.len() < SPOT_CHOICES {
                return Err(Stay::SpotToSpotTooFew { found: self.types.len() });
            }
            let enough =
                (SPOT_CHOICES..=self.types.len()).find(|count| self.unmet_minimum(&self.types[..*count]).is_none());
            self.types.truncate(enough.unwrap_or(self.types.len()));
        }
        Ok(self.claim_of_types())
    }

    fn claim_of_types(self) -> PlannedClaim {
        let mut claim = self.claim.clone();
        let names = self.types.iter().map(|(_, _, offered)| offered.name.clone());
        claim.types = names.clone().collect();
        claim.requirements = self.requirements;
        let sells = |id: &ReservationId| {
            let mut offerings = self.types.iter().flat_map(|(_, _, offered)| on_sale(offered, &claim.requirements));
            offerings.any(|one| one.reservation.as_ref().is_some_and(|reservation| reservation.id == *id))
        };
        claim.reservations.retain(sells);
        pin(&mut claim.requirements, INSTANCE_TYPE, names.map(|name| name.shared()));
        claim.price = self.types[0].1;
        claim.reason.price = claim.price;
        claim.reason.cheapest = claim.types.first().cloned();
        claim.reason.runner_up = self.types.get(1).map(|(_, best, offered)| (offered.name.clone(), *best));
        claim
    }

    /// A minimum number of values that these types do not have. It is never lowered to save money.
    fn unmet_minimum(&self, types: &[(Price, Price, &InstanceType)]) -> Option<Arc<str>> {
        let minimums = self.claim.requirements.iter().filter_map(|(key, asked)| Some((key, asked, asked.min_values?)));
        minimums.into_iter().find_map(|(key, asked, wanted)| {
            let values = types.iter().filter_map(|(_, _, offered)| offered.requirements.get(key)?.listed());
            let mut found: Vec<&Arc<str>> = values.flatten().filter(|value| asked.has(value)).collect();
            found.sort_unstable();
            found.dedup();
            let is_short = found.len() < usize::try_from(wanted).unwrap_or(usize::MAX);
            is_short.then(|| format!("minValues requirement is not met for label(s) (label(s)=[{key}])").into())
        })
    }
}

impl Leaving<'_> {
    /// Where several nodes leave and one of their own types may come instead, whatever costs as much as the cheapest of those
    /// is no gain: deleting the others would do.
    fn same_type_limit(&self, types: &[(Price, Price, &InstanceType)]) -> Option<Price> {
        let is_offered = |name: &TypeName| types.iter().any(|(_, _, offered)| offered.name == *name);
        let same = self.nodes.iter().filter(|(name, ..)| name.is_some_and(is_offered)).map(|(.., price)| *price);
        (self.nodes.len() > 1).then(|| same.min()).flatten()
    }
}

fn types_of<'s>(snapshot: &'s Snapshot, claim: &'s PlannedClaim) -> impl Iterator<Item = &'s InstanceType> {
    let pool: Option<&'s Pool> = snapshot.pools.get(&claim.pool).map(|pool| &**pool);
    let types = pool.into_iter().flat_map(|pool| &pool.instance_types).map(|offered| &**offered);
    types.filter(|offered| claim.types.contains(&offered.name))
}

fn on_sale<'s>(offered: &'s InstanceType, requirements: &'s Requirements) -> impl Iterator<Item = &'s Offering> {
    offered.offerings.iter().filter(|one| one.is_available && requirements.overlaps(&one.requirements))
}

fn best_price(offered: &InstanceType, requirements: &Requirements) -> Option<Price> {
    on_sale(offered, requirements).map(|one| one.price).min()
}

/// The most that a launch can cost: of the first capacity type that is on sale, in the order in which clouds take them, the
/// dearest zone.
pub(super) fn worst_price(offered: &InstanceType, requirements: &Requirements) -> Option<Price> {
    CapacityType::ALL.into_iter().find_map(|kind| {
        on_sale(offered, requirements).filter(|one| one.capacity_type() == Some(kind)).map(|one| one.price).max()
    })
}

/// Leaves these values for a key, and its minimum number of values as it was.
fn pin(requirements: &mut Requirements, key: &str, values: impl IntoIterator<Item = Arc<str>>) {
    let before = requirements.remove(key).and_then(|asked| asked.min_values);
    requirements.add(key, Requirement::one_of(values).with_min_values(before));
}
