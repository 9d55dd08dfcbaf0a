//! NodeOverlays: corrections to what a cloud reports.

use api::NodeOverlay;
use model::overlay::{Overlay, PriceChange};
use model::resources::{Resource, Resources};

use super::{Lowered, Oddities, requirements, resources};

/// An overlay. A price that cannot be read changes no price.
pub fn overlay(wire: &NodeOverlay) -> Lowered<Overlay> {
    let mut oddities = Oddities::of("NodeOverlay", &wire.metadata);
    let spec = &wire.spec;
    let value = Overlay {
        name: wire.metadata.name.as_deref().unwrap_or_default().into(),
        weight: spec.weight.unwrap_or(0),
        requirements: requirements::of_list(&spec.requirements),
        price: price(wire, &mut oddities),
        capacity: capacity(wire, &mut oddities),
    };
    oddities.with(value)
}

fn price(wire: &NodeOverlay, oddities: &mut Oddities<'_>) -> Option<PriceChange> {
    let (field, text, change) = match (&wire.spec.price, &wire.spec.price_adjustment) {
        (Some(text), _) => ("spec.price", text, replacement(text)),
        (None, Some(text)) => ("spec.priceAdjustment", text, adjustment(text)),
        (None, None) => return None,
    };
    if change.is_none() {
        oddities.note(field, format_args!("{text:?} is not a price; write dollars per hour such as 0.05, or -10%"));
    }
    change
}

/// Admission refuses what the cloud itself reports; an older object may still hold it.
fn capacity(wire: &NodeOverlay, oddities: &mut Oddities<'_>) -> Resources {
    let mut kept = Resources::default();
    for (axis, amount) in resources::of_list(&wire.spec.capacity).amounts() {
        match axis {
            Resource::Extended(_) => kept.set(axis, amount),
            other => oddities.note(format_args!("spec.capacity[{other}]"), "comes from the cloud and stays as it is"),
        }
    }
    kept
}

const PICO_DIGITS: usize = 12;

fn replacement(text: &str) -> Option<PriceChange> {
    decimal(text, PICO_DIGITS).map(|pico| PriceChange::Replace { pico })
}

fn adjustment(text: &str) -> Option<PriceChange> {
    let (sign, unsigned) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (None, Some(rest)) => (-1, rest),
        (None, None) => return None,
    };
    match unsigned.strip_suffix('%') {
        // A hundredth is ten thousand millionths.
        Some(percent) => decimal(percent, 4).map(|parts| PriceChange::AddParts { per_million: sign * parts }),
        None => decimal(unsigned, PICO_DIGITS).map(|pico| PriceChange::Add { pico: sign * pico }),
    }
}

/// A decimal number as a whole number of units of its `digits`-th place: exact to that place, rounded half up beyond it,
/// and saturated where it would not fit.
fn decimal(text: &str, digits: usize) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let kept = fraction.bytes().chain(std::iter::repeat(b'0')).take(digits);
    let value = whole
        .bytes()
        .chain(kept)
        .try_fold(0_i64, |sum, digit| sum.checked_mul(10)?.checked_add(i64::from(digit - b'0')));
    let rounds_up = fraction.as_bytes().get(digits).is_some_and(|digit| *digit >= b'5');
    Some(value.unwrap_or(i64::MAX).saturating_add(i64::from(rounds_up)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn lower(spec: Value) -> Lowered<Overlay> {
        let mut spec = spec;
        spec["requirements"] = json!([{"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
        let wire = json!({
            "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
            "metadata": {"name": "a"}, "spec": spec,
        });
        overlay(&serde_json::from_value(wire).unwrap())
    }

    fn check(field: &str, text: &str, expected: Option<PriceChange>) {
        let lowered = lower(json!({field: text}));
        assert_eq!(lowered.value.price, expected, "{text}");
        assert_eq!(lowered.oddities.is_empty(), expected.is_some(), "{text}");
    }

    #[test]
    fn prices_are_read_to_the_last_digit() {
        use PriceChange::{Add, AddParts, Replace};
        check("price", "0.05", Some(Replace { pico: 50_000_000_000 }));
        check("price", "0.027147483648", Some(Replace { pico: 27_147_483_648 }));
        check("price", "0.0000000000005", Some(Replace { pico: 1 }));
        check("price", "0.00000000000049", Some(Replace { pico: 0 }));
        check("price", "12", Some(Replace { pico: 12_000_000_000_000 }));
        check("price", "99999999999", Some(Replace { pico: i64::MAX }));
        check("priceAdjustment", "+0.5", Some(Add { pico: 500_000_000_000 }));
        check("priceAdjustment", "-.1", Some(Add { pico: -100_000_000_000 }));
        check("priceAdjustment", "-10%", Some(AddParts { per_million: -100_000 }));
        check("priceAdjustment", "+10.5%", Some(AddParts { per_million: 105_000 }));
        check("priceAdjustment", "-100%", Some(AddParts { per_million: -1_000_000 }));
        check("priceAdjustment", "-200%", Some(AddParts { per_million: -2_000_000 }));
        check("priceAdjustment", "+99999999999999999999%", Some(AddParts { per_million: i64::MAX }));
        check("priceAdjustment", "10%", None);
        check("priceAdjustment", "+%", None);
        check("price", "free", None);
        check("price", "1.2.3", None);
        check("price", "-1", None);
    }

    #[test]
    fn an_overlay_adds_extended_resources_only() {
        let lowered = lower(json!({"capacity": {"smarter-devices/fuse": "1", "cpu": "4"}, "weight": 10}));
        assert_eq!(lowered.value.capacity, Resources::default().with("smarter-devices/fuse", 1));
        assert_eq!(lowered.value.weight, 10);
        assert_eq!(lowered.value.requirements.to_string(), "kubernetes.io/arch In [arm64]");
        assert_eq!(lowered.oddities.len(), 1);
        assert_eq!(lower(json!({})).value.price, None);
    }
}
