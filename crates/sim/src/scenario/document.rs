//! The shape of a `Scenario` on paper: `dovetail.dev/v1alpha1`. Nothing but shapes; what they mean is decided in `read`.

use std::fmt;

use api::Duration;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_saphyr::Spanned;

use super::lines::Located;

pub(super) const API_VERSION: &str = "dovetail.dev/v1alpha1";
pub(super) const KIND: &str = "Scenario";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Document {
    #[serde(rename = "apiVersion")]
    pub(super) _api_version: String,
    #[serde(rename = "kind")]
    pub(super) _kind: String,
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metadata {
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) cloud: Cloud,
    pub(super) controller: Option<Operator>,
    pub(super) duration: Spanned<Duration>,
    /// The time of day and the date on the cluster's clocks at the beginning.
    pub(super) starts_at: Option<Timestamp>,
    #[serde(default)]
    pub(super) steps: Vec<Spanned<Step>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Cloud {
    pub(super) catalog: Spanned<Catalog>,
    pub(super) region: Option<Spanned<String>>,
    pub(super) launch_delay: Option<Spanned<Duration>>,
    pub(super) registration_delay: Option<Spanned<Duration>>,
    #[serde(default)]
    pub(super) shortages: Vec<Choice>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Catalog {
    Kwok,
    Ec2,
}

/// What whoever runs the autoscaler has chosen, as flags of the same names say it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Operator {
    pub(super) feature_gates: Option<Spanned<String>>,
    pub(super) consolidation_payback: Option<Spanned<Duration>>,
    pub(super) pod_move_cooldown: Option<Spanned<Duration>>,
    pub(super) node_fee: Option<Spanned<f64>>,
}

/// Names of things on sale.
pub(super) type Names = Spanned<Vec<Spanned<String>>>;

/// Offerings: all that are of one of the types, in one of the zones and of one of the capacity types. What is left out is all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goods<'a> {
    pub(super) types: Option<&'a Names>,
    pub(super) zones: Option<&'a Names>,
    pub(super) capacity_types: Option<&'a Names>,
}

/// An object by its names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) kind: &'a Spanned<String>,
    pub(super) namespace: Option<&'a Spanned<String>>,
    pub(super) name: &'a Spanned<String>,
}

/// Shapes that choose offerings or name an object, beside what they have of their own. serde could flatten the one shape into the other,
/// but would then neither know lines nor refuse unknown fields, so the common fields are written into each.
macro_rules! shapes {
    ($($(#[$about:meta])* $name:ident $common:ident { $($own:tt)* })*) => {
        $(shapes!(@$common $(#[$about])* $name { $($own)* });)*
    };
    (@chooses $(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        pub(super) struct $name {
            types: Option<Names>,
            zones: Option<Names>,
            capacity_types: Option<Names>,
            $($own)*
        }

        impl $name {
            pub(super) fn goods(&self) -> Goods<'_> {
                let Self { types, zones, capacity_types, .. } = self;
                Goods { types: types.as_ref(), zones: zones.as_ref(), capacity_types: capacity_types.as_ref() }
            }
        }
    };
    (@names $(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        pub(super) struct $name {
            kind: Spanned<String>,
            namespace: Option<Spanned<String>>,
            name: Spanned<String>,
            $($own)*
        }

        impl $name {
            pub(super) fn target(&self) -> Target<'_> {
                Target { kind: &self.kind, namespace: self.namespace.as_ref(), name: &self.name }
            }
        }
    };
}

shapes! {
    Choice chooses {}

    Deletion names {}

    Scale names {
        pub(super) replicas: u32,
        /// Not at once, but evenly within this time.
        pub(super) over: Option<Spanned<Duration>>,
        /// Whoever has to go is drawn by lot, and not chosen as the workload's controller would.
        #[serde(default)]
        pub(super) at_random: bool,
    }

    Patch names {
        /// A merge patch.
        pub(super) patch: Located,
    }

    /// Pods of a workload that end again and again, the oldest first, whereupon others come.
    Churn names {
        /// So many each time.
        pub(super) count: Option<Spanned<u32>>,
        pub(super) every: Spanned<Duration>,
        #[serde(rename = "for")]
        pub(super) lasts: Spanned<Duration>,
    }

    /// Nodes that say something bad about themselves, the oldest first.
    Sick chooses {
        pub(super) count: Option<Spanned<u32>>,
        /// `Ready` unless told otherwise. A node whose readiness is `Unknown` has fallen silent.
        pub(super) condition: Option<Spanned<String>>,
        pub(super) status: Spanned<String>,
        /// After this time they are well again; without it, never.
        #[serde(rename = "for")]
        pub(super) lasts: Option<Spanned<Duration>>,
    }

    PriceChange chooses {
        /// The new price in dollars per hour.
        pub(super) per_hour: Option<Spanned<f64>>,
        /// The new price as a multiple of the present one.
        pub(super) times: Option<Spanned<f64>>,
    }

    /// Machines that the cloud takes back, the oldest first.
    Interruption chooses {
        pub(super) count: Option<Spanned<u32>>,
        /// Two minutes, as EC2 gives them, unless told otherwise.
        pub(super) notice: Option<Spanned<Duration>>,
    }
}

/// A time, and one of the things that can happen.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Step {
    pub(super) at: Spanned<Duration>,
    pub(super) apply: Option<Located>,
    pub(super) delete: Option<Deletion>,
    pub(super) scale: Option<Scale>,
    pub(super) patch: Option<Patch>,
    pub(super) cloud: Option<Spanned<CloudEvent>>,
    pub(super) expect: Option<Spanned<Expect>>,
    pub(super) trace: Option<Trace>,
    pub(super) churn: Option<Churn>,
    pub(super) sick: Option<Sick>,
}

impl Step {
    /// What can happen, and whether it does.
    pub(super) fn deeds(&self) -> [(&'static str, bool); 9] {
        [
            ("apply", self.apply.is_some()),
            ("delete", self.delete.is_some()),
            ("scale", self.scale.is_some()),
            ("patch", self.patch.is_some()),
            ("cloud", self.cloud.is_some()),
            ("expect", self.expect.is_some()),
            ("trace", self.trace.is_some()),
            ("churn", self.churn.is_some()),
            ("sick", self.sick.is_some()),
        ]
    }

    /// The object that it is about.
    pub(super) fn target(&self) -> Option<Target<'_>> {
        let of_scale = || self.scale.as_ref().map(Scale::target);
        let of_patch = || self.patch.as_ref().map(Patch::target);
        let of_churn = || self.churn.as_ref().map(Churn::target);
        self.delete.as_ref().map(Deletion::target).or_else(of_scale).or_else(of_patch).or_else(of_churn)
    }

    /// How long it takes, and the field that says so.
    pub(super) fn lasting(&self) -> Option<(&'static str, &Spanned<Duration>)> {
        let expect = self.expect.as_ref().map(|expect| &expect.value);
        let fields = [
            ("over", self.scale.as_ref().and_then(|scale| scale.over.as_ref())),
            ("for", self.churn.as_ref().map(|churn| &churn.lasts)),
            ("within", expect.and_then(|expect| expect.within.as_ref())),
            ("throughout", expect.and_then(|expect| expect.throughout.as_ref())),
        ];
        fields.into_iter().find_map(|(name, time)| Some(name).zip(time))
    }
}

/// One of the things that can happen to a cloud.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CloudEvent {
    pub(super) price: Option<Spanned<PriceChange>>,
    pub(super) shortage: Option<Choice>,
    pub(super) restock: Option<Choice>,
    pub(super) interruption: Option<Interruption>,
    pub(super) image: Option<Image>,
}

impl CloudEvent {
    /// What can happen, and whether it does.
    pub(super) fn deeds(&self) -> [(&'static str, bool); 5] {
        [
            ("price", self.price.is_some()),
            ("shortage", self.shortage.is_some()),
            ("restock", self.restock.is_some()),
            ("interruption", self.interruption.is_some()),
            ("image", self.image.is_some()),
        ]
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Image {
    pub(super) family: Spanned<String>,
    pub(super) release: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Expect {
    pub(super) nodes: Option<Count>,
    /// Every node is of one of these types.
    pub(super) types: Option<Names>,
    pub(super) price_per_hour_at_most: Option<Spanned<f64>>,
    pub(super) pending_pods: Option<Count>,
    pub(super) running_pods: Option<Count>,
    /// Since the beginning.
    pub(super) evicted_pods: Option<Count>,
    /// Every node was launched after this time.
    pub(super) launched_after: Option<Spanned<Duration>>,
    /// It must be so at every moment of this time.
    pub(super) throughout: Option<Spanned<Duration>>,
    /// How long it may take until it is so; without it, it must be so at once.
    pub(super) within: Option<Spanned<Duration>>,
}

/// Pods that come and go as a file says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trace {
    pub(super) file: Spanned<String>,
    /// The second of the trace that is the time of the step; pods that are there by then come at once.
    #[serde(default)]
    pub(super) from: u64,
    /// The second of the trace at which it ends. Pods that are left stay.
    pub(super) to: Option<Spanned<u64>>,
    pub(super) namespace: Option<Spanned<String>>,
    /// What every pod is like beside its name and its requests, as a merge patch over a plain pod.
    pub(super) template: Option<Located>,
}

/// A number, or from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Count {
    pub(super) fn has(self, number: u64) -> bool {
        (self.min..=self.max).contains(&number)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (min, max) if min == max => write!(f, "{min}"),
            (0, max) => write!(f, "at most {max}"),
            (min, u64::MAX) => write!(f, "at least {min}"),
            (min, max) => write!(f, "{min} to {max}"),
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number such as 5, or {min: 1, max: 5}")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Count, E> {
        Ok(Count { min: number, max: number })
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Count, E> {
        let number = u64::try_from(number).map_err(|_| E::custom(format!("{number} is less than none")))?;
        self.visit_u64(number)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Count, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Range {
            min: Option<u64>,
            max: Option<u64>,
        }
        let range = Range::deserialize(de::value::MapAccessDeserializer::new(map))?;
        if range.min.is_none() && range.max.is_none() {
            return Err(de::Error::custom("any number is between no `min` and no `max`"));
        }
        let count = Count { min: range.min.unwrap_or(0), max: range.max.unwrap_or(u64::MAX) };
        match count.min <= count.max {
            true => Ok(count),
            false => Err(de::Error::custom(format!("min {} is more than max {}", count.min, count.max))),
        }
    }
}
