//! The store's settings between their own shape and that of recordings.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::record::{self, GroupKind, Policy};
use model::labels::WellKnown;
use model::price::Price;
use model::snapshot::{MinValuesPolicy, PreferencePolicy, SchedulingPolicy};

use super::replay::{Problem, kind};
use crate::lower::node::NodeClasses;
use crate::lower::volume::Refused;
use crate::store::Settings;

pub(super) fn write(settings: &Settings) -> record::Settings {
    let texts = |texts: &BTreeSet<String>| texts.iter().cloned().collect();
    let kinds = settings.classes.kinds();
    record::Settings {
        node_class_kinds: kinds
            .map(|(group, kind)| GroupKind { group: group.to_owned(), kind: kind.to_owned() })
            .collect(),
        label_rules: settings.rules.clone(),
        well_known: settings.well_known.iter().map(ToString::to_string).collect(),
        policy: write_policy(settings.policy),
        default_spread: settings.default_spread.clone(),
        refused_provisioners: texts(&settings.refused.provisioners),
        refused_topology_keys: texts(&settings.refused.topology_keys),
        nomination: api::Duration::from_nanos(i64::try_from(settings.nomination.as_nanos()).unwrap_or(i64::MAX)),
        expected: settings.expected.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn read(settings: record::Settings) -> Result<Settings, Problem> {
    let kinds = settings.node_class_kinds.iter().map(|class| (class.group.as_str(), class.kind.as_str()));
    Ok(Settings {
        classes: NodeClasses::new(kinds),
        rules: settings.label_rules,
        // The keys that every cloud has are among them.
        well_known: Arc::new(WellKnown::with_provider(settings.well_known.iter().map(String::as_str))),
        policy: read_policy(settings.policy),
        default_spread: settings.default_spread,
        refused: Refused {
            provisioners: settings.refused_provisioners.into_iter().collect(),
            topology_keys: settings.refused_topology_keys.into_iter().collect(),
        },
        nomination: settings.nomination.to_std(),
        expected: settings.expected.iter().map(|name| kind(name)).collect::<Result<_, _>>()?,
    })
}

fn write_policy(policy: SchedulingPolicy) -> Policy {
    Policy {
        respects_preferences: policy.preferences == PreferencePolicy::Respect,
        min_values_strict: policy.min_values == MinValuesPolicy::Strict,
        uses_reservations: policy.uses_reservations,
        max_types_per_claim: policy.max_types_per_claim,
        node_fee: policy.node_fee.pico(),
    }
}

fn read_policy(policy: Policy) -> SchedulingPolicy {
    let preferences = if policy.respects_preferences { PreferencePolicy::Respect } else { PreferencePolicy::Ignore };
    let min_values = if policy.min_values_strict { MinValuesPolicy::Strict } else { MinValuesPolicy::BestEffort };
    SchedulingPolicy {
        preferences,
        min_values,
        uses_reservations: policy.uses_reservations,
        max_types_per_claim: policy.max_types_per_claim,
        node_fee: Price::from_pico(policy.node_fee),
    }
}
