//! What a cloud sells, as recordings hold it: no object of the API says it.
//!
//! Everything is exact: a catalogue that is written and read again is the same catalogue.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Amounts by resource: cpu in thousandths of a core, memory and disk in bytes, all others in units. Zeros are left out.
pub type Amounts = BTreeMap<String, i64>;

/// A machine shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstanceType {
    pub name: String,
    pub requirements: BTreeMap<String, Allowed>,
    pub capacity: Amounts,
    pub overhead: Amounts,
    pub offerings: Vec<Offering>,
    /// Most volumes by driver.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attach_limits: BTreeMap<String, u32>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_capacity_overlay: bool,
}

/// One way to buy it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Offering {
    pub requirements: BTreeMap<String, Allowed>,
    /// In pico-dollars per hour.
    pub price: i64,
    pub available: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_override: Option<Amounts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead_override: Option<Amounts>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_price_overlay: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reservation {
    pub id: String,
    pub left: u32,
}

/// The states that a label may be in. The API's operators cannot say all of them: nothing there excludes values and the
/// label's absence at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Allowed {
    pub values: Vec<String>,
    /// Whether every value but these is allowed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub all_but: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<i64>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub or_absent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_values: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_is_read_as_it_was_written() {
        let label = |value: &str| Allowed {
            values: vec![value.to_owned()],
            all_but: false,
            at_least: None,
            at_most: None,
            or_absent: false,
            min_values: None,
        };
        let odd = Allowed {
            values: vec!["3".to_owned()],
            all_but: true,
            at_least: Some(1),
            at_most: Some(9),
            or_absent: true,
            min_values: Some(2),
        };
        let offering = Offering {
            requirements: [("zone".to_owned(), label("a"))].into(),
            price: i64::MAX,
            available: false,
            reservation: Some(Reservation { id: "r-1".to_owned(), left: 3 }),
            capacity_override: Some([("cpu".to_owned(), 1)].into()),
            overhead_override: None,
            has_price_overlay: true,
        };
        let machine = InstanceType {
            name: "m".to_owned(),
            requirements: [("arch".to_owned(), label("amd64")), ("generation".to_owned(), odd)].into(),
            capacity: [("cpu".to_owned(), 4000), ("vendor.example/gpu".to_owned(), 1)].into(),
            overhead: Amounts::new(),
            offerings: vec![offering],
            attach_limits: [("ebs".to_owned(), 27)].into(),
            has_capacity_overlay: false,
        };
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<InstanceType>(&text).unwrap(), machine, "{text}");
        assert!(text.contains(
            r#""generation":{"values":["3"],"allBut":true,"atLeast":1,"atMost":9,"orAbsent":true,"minValues":2}"#
        ));
        let typo = text.replace("capacityOverride", "capacityOverrule");
        assert!(serde_json::from_str::<InstanceType>(&typo).unwrap_err().to_string().contains("capacityOverrule"));
    }
}
