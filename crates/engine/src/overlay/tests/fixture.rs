//! Two machine types, each sold as spot and on-demand in two zones at a dollar an hour, in the pools `web` and `batch`.

use std::sync::Arc;

use model::instance::{InstanceType, Offering};
use model::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, WellKnown, ZONE};
use model::overlay::{Overlay, PriceChange};
use model::pool::{Limits, Pool, PoolKind, PoolState, Template};
use model::price::Price;
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::Resources;
use model::volume::AttachLimits;

use crate::overlay::{Overlaid, PoolTypes, Verdict, apply};

pub(super) const DOLLAR: i64 = 1_000_000_000_000;
pub(super) const TEAM: &str = "example.com/team";
pub(super) const RESERVATION: &str = "example.com/reservation";

/// `key=a|b key!=c key !key`, as label selectors are written.
pub(super) fn reqs(text: &str) -> Requirements {
    text.split_whitespace().fold(Requirements::default(), |set, word| {
        let (key, requirement) = match (word.split_once("!="), word.split_once('='), word.strip_prefix('!')) {
            (Some((key, values)), _, _) => (key, Requirement::new(Operator::NotIn, values.split('|'))),
            (_, Some((key, values)), _) => (key, Requirement::new(Operator::In, values.split('|'))),
            (_, _, Some(key)) => (key, Requirement::does_not_exist()),
            _ => (word, Requirement::exists()),
        };
        let key = match key {
            "type" => INSTANCE_TYPE,
            "zone" => ZONE,
            "capacity" => CAPACITY_TYPE,
            "pool" => NODE_POOL,
            "arch" => ARCH,
            "team" => TEAM,
            other => other,
        };
        set.with(key, requirement)
    })
}

pub(crate) fn machine(name: &str, arch: &str) -> InstanceType {
    let offering = |(capacity, zone): (&str, &str)| Offering {
        requirements: reqs(&format!("capacity={capacity} zone={zone}")),
        price: Price::from_pico(DOLLAR),
        is_available: zone == "a",
        reservation: None,
        capacity_override: None,
        overhead_override: None,
        has_price_overlay: false,
    };
    InstanceType {
        name: name.into(),
        requirements: reqs(&format!("type={name} zone=a|b capacity=spot|on-demand arch={arch}")),
        capacity: Resources::default().with("cpu", 4000),
        overhead: Resources::default().with("cpu", 100),
        offerings: [("spot", "a"), ("spot", "b"), ("on-demand", "a"), ("on-demand", "b")].map(offering).to_vec(),
        attach_limits: AttachLimits::new(),
        has_capacity_overlay: false,
    }
}

pub(crate) fn pool(name: &str) -> Pool {
    Pool {
        name: name.into(),
        weight: 0,
        kind: PoolKind::Dynamic,
        state: PoolState::Ready,
        limits: Limits::default(),
        template: Template { labels: [(TEAM.into(), name.into())].into(), ..Template::default() },
        instance_types: Vec::new(),
        budgets: Default::default(),
        consolidation: Default::default(),
    }
}

pub(super) fn overlay(name: &str, weight: i32, wanted: &str) -> Overlay {
    let (requirements, capacity) = (reqs(wanted), Resources::default());
    Overlay { name: name.into(), weight, requirements, price: None, capacity }
}

/// Costs this many dollars.
pub(super) fn priced(name: &str, weight: i32, wanted: &str, dollars: i64) -> Overlay {
    Overlay { price: Some(PriceChange::Replace { pico: dollars * DOLLAR }), ..overlay(name, weight, wanted) }
}

/// Has so much of a resource.
pub(super) fn given(name: &str, weight: i32, wanted: &str, (resource, amount): (&str, i64)) -> Overlay {
    Overlay { capacity: Resources::default().with(resource, amount), ..overlay(name, weight, wanted) }
}

pub(super) fn apply_to(types: &[Arc<InstanceType>], overlays: &[Overlay]) -> Overlaid {
    let well_known = WellKnown::with_provider([RESERVATION]);
    let pools = [pool("batch"), pool("web")];
    let pools: Vec<PoolTypes<'_>> = pools.iter().map(|pool| PoolTypes { pool, types: types.to_vec() }).collect();
    let overlays: Vec<Arc<Overlay>> = overlays.iter().cloned().map(Arc::new).collect();
    apply(&overlays, &pools, &well_known)
}

pub(super) fn usual_types() -> Vec<Arc<InstanceType>> {
    vec![machine("arm", "arm64").into(), machine("big", "amd64").into()]
}

/// Every corrected price as `pool type capacity zone dollars`, every added amount as `pool type resource amount`.
pub(super) fn corrections(overlaid: &Overlaid) -> Vec<String> {
    let mut lines = Vec::new();
    for (pool, kind) in overlaid.types.iter().flat_map(|(pool, types)| types.iter().map(move |kind| (pool, kind))) {
        for offering in kind.offerings.iter().filter(|offering| offering.has_price_overlay) {
            let [capacity, zone] = [CAPACITY_TYPE, ZONE].map(|key| offering.label(key).unwrap());
            lines.push(format!("{pool} {} {capacity} {zone} {}", kind.name, offering.price.dollars()));
        }
        for (resource, amount) in
            kind.capacity.amounts().filter(|(axis, _)| kind.has_capacity_overlay && axis.name() != "cpu")
        {
            lines.push(format!("{pool} {} {resource} {amount}", kind.name));
        }
    }
    lines
}

/// `name: Verdict`, for a conflict `name: the whole sentence`.
pub(super) fn verdicts(overlaid: &Overlaid) -> Vec<String> {
    let text = |verdict: &Verdict| match verdict {
        Verdict::Conflict(conflict) => conflict.to_string(),
        other => format!("{other:?}"),
    };
    overlaid.verdicts.iter().map(|(name, verdict)| format!("{name}: {}", text(verdict))).collect()
}
