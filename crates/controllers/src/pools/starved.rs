//! Pools that can never launch anything, because their requirements leave no instance type.

use std::collections::BTreeSet;

use model::instance::InstanceType;
use model::pool::Pool;
use model::requirements::Requirements;

use crate::events::Filtered;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Starved {
    pub(super) filtered: Filtered,
    /// What is wrong, where, and what would help.
    pub(super) message: String,
}

/// Why a pool has no instance type left; nothing when it has some, or when nobody knows yet what the cloud sells.
pub(super) fn starved(pool: &Pool) -> Option<Starved> {
    if pool.instance_types.is_empty() {
        return None;
    }
    let wanted = &pool.template.requirements;
    if let Some((key, _)) = wanted.iter().find(|(_, demand)| demand.is_contradiction()) {
        let message = format!(
            "spec.template.spec.requirements: the requirements and labels on {key} exclude each other; keep one of them"
        );
        return Some(Starved { filtered: Filtered::ByRequirements, message });
    }
    let suitable = suitable(pool, wanted);
    if suitable.is_empty() {
        let message = culprit(pool);
        return Some(Starved { filtered: Filtered::ByRequirements, message });
    }
    let (key, least, found) = unmet_minimum(wanted, &suitable)?;
    let message = format!(
        "spec.template.spec.requirements: minValues of {key} is {least}, but the instance types that suit the other requirements \
         have only {found} values for it; lower minValues, or allow more instance types"
    );
    Some(Starved { filtered: Filtered::ByMinValues, message })
}

fn suitable<'a>(pool: &'a Pool, wanted: &Requirements) -> Vec<&'a InstanceType> {
    let has_offering =
        |machine: &InstanceType| machine.offerings.iter().any(|offering| wanted.overlaps(&offering.requirements));
    let all = pool.instance_types.iter().map(|machine| &**machine);
    all.filter(|machine| wanted.overlaps(&machine.requirements) && has_offering(machine)).collect()
}

/// The requirement without which some instance type would do, or all of them if no single one is to blame.
fn culprit(pool: &Pool) -> String {
    let wanted = &pool.template.requirements;
    let best = wanted
        .iter()
        .filter_map(|(key, demand)| {
            let mut rest = wanted.clone();
            rest.remove(key);
            let count = suitable(pool, &rest).len();
            (count > 0).then_some((count, key, demand))
        })
        .max_by_key(|(count, key, _)| (*count, std::cmp::Reverse(*key)));
    match best {
        Some((count, key, demand)) => format!(
            "spec.template.spec.requirements: no instance type of the cloud satisfies {} together with the others; without it \
             {count} would do, so allow more values for {key}",
            Requirements::default().with(key, demand.clone())
        ),
        None => format!(
            "spec.template.spec.requirements: none of the cloud's {} instance types satisfies them, and no single one is to blame; \
             loosen at least two of them",
            pool.instance_types.len()
        ),
    }
}

/// The first key of which fewer values are left than the pool demands.
fn unmet_minimum(wanted: &Requirements, suitable: &[&InstanceType]) -> Option<(String, usize, usize)> {
    wanted.iter().find_map(|(key, demand)| {
        let least = demand.min_values? as usize;
        let values: BTreeSet<&str> = suitable
            .iter()
            .filter_map(|machine| machine.requirements.get(key)?.listed())
            .flatten()
            .map(|value| &**value)
            .filter(|value| demand.has(value))
            .collect();
        (values.len() < least).then(|| (key.to_string(), least, values.len()))
    })
}
