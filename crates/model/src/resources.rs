//! Amounts of what machines have and pods ask for.
//!
//! All arithmetic saturates: a pod that asks for more than the number line holds fits nowhere, and that is the right answer.

use std::collections::BTreeMap;
use std::fmt;

use crate::ids::ResourceName;

/// Cpu, memory, disk and pods, plus whatever else a cluster counts.
///
/// Cpu is in thousandths of a core, memory and disk in bytes, all others in units. An absent extended resource is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    pub cpu_milli: i64,
    pub memory_bytes: i64,
    pub disk_bytes: i64,
    pub pods: i64,
    extended: BTreeMap<ResourceName, i64>,
}

/// One axis of [`Resources`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    Cpu,
    Memory,
    Disk,
    Pods,
    Extended(ResourceName),
}

impl Resource {
    /// The axis that Kubernetes calls by this name.
    pub fn from_name(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::Disk,
            "pods" => Self::Pods,
            other => Self::Extended(other.into()),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "ephemeral-storage",
            Self::Pods => "pods",
            Self::Extended(name) => name.as_str(),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Resources {
    pub fn get(&self, resource: &Resource) -> i64 {
        match resource {
            Resource::Cpu => self.cpu_milli,
            Resource::Memory => self.memory_bytes,
            Resource::Disk => self.disk_bytes,
            Resource::Pods => self.pods,
            Resource::Extended(name) => self.extended.get(name).copied().unwrap_or(0),
        }
    }

    pub fn set(&mut self, resource: Resource, amount: i64) {
        match resource {
            Resource::Cpu => self.cpu_milli = amount,
            Resource::Memory => self.memory_bytes = amount,
            Resource::Disk => self.disk_bytes = amount,
            Resource::Pods => self.pods = amount,
            Resource::Extended(name) if amount == 0 => drop(self.extended.remove(&name)),
            Resource::Extended(name) => drop(self.extended.insert(name, amount)),
        }
    }

    /// The same with one amount set; for building.
    #[must_use]
    pub fn with(mut self, resource: &str, amount: i64) -> Self {
        self.set(Resource::from_name(resource), amount);
        self
    }

    /// Every amount that is not zero, in a fixed order.
    pub fn amounts(&self) -> impl Iterator<Item = (Resource, i64)> + '_ {
        let base = [
            (Resource::Cpu, self.cpu_milli),
            (Resource::Memory, self.memory_bytes),
            (Resource::Disk, self.disk_bytes),
            (Resource::Pods, self.pods),
        ];
        let extended = self.extended.iter().map(|(name, amount)| (Resource::Extended(name.clone()), *amount));
        base.into_iter().chain(extended).filter(|(_, amount)| *amount != 0)
    }

    pub fn is_zero(&self) -> bool {
        self.amounts().next().is_none()
    }

    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.combined(other, i64::saturating_add)
    }

    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.combined(other, i64::saturating_sub)
    }

    /// The greater amount of each resource.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.combined(other, i64::max)
    }

    /// The smaller amount of each resource.
    #[must_use]
    pub fn min(&self, other: &Self) -> Self {
        self.combined(other, i64::min)
    }

    /// Negative amounts as zero.
    #[must_use]
    pub fn floored(&self) -> Self {
        self.max(&Self::default())
    }

    fn combined(&self, other: &Self, combine: impl Fn(i64, i64) -> i64) -> Self {
        let mut result = Self {
            cpu_milli: combine(self.cpu_milli, other.cpu_milli),
            memory_bytes: combine(self.memory_bytes, other.memory_bytes),
            disk_bytes: combine(self.disk_bytes, other.disk_bytes),
            pods: combine(self.pods, other.pods),
            extended: BTreeMap::new(),
        };
        for name in self.extended.keys().chain(other.extended.keys()) {
            let axis = Resource::Extended(name.clone());
            let amount = combine(self.get(&axis), other.get(&axis));
            result.set(axis, amount);
        }
        result
    }

    /// Whether a request fits into what is available.
    ///
    /// A negative amount anywhere in what is available means that the books are overdrawn, and then nothing fits, not even
    /// a request that does not touch it.
    pub fn fits_in(&self, available: &Self) -> bool {
        self.first_excess(available).is_none()
    }

    /// The first resource that keeps a request from fitting.
    pub fn first_excess(&self, available: &Self) -> Option<Resource> {
        if let Some((overdrawn, _)) = available.amounts().find(|(_, amount)| *amount < 0) {
            return Some(overdrawn);
        }
        self.amounts().find(|(axis, wanted)| *wanted > available.get(axis)).map(|(axis, _)| axis)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resources() -> impl Strategy<Value = Resources> {
        let extended = proptest::collection::btree_map("[a-c]", -5..5_i64, 0..3);
        ((-5..5_i64), (-5..5_i64), extended).prop_map(|(cpu, memory, extended)| {
            let base = Resources::default().with("cpu", cpu).with("memory", memory);
            extended.iter().fold(base, |sum, (name, amount)| sum.with(name, *amount))
        })
    }

    #[test]
    fn a_request_fits_when_every_amount_does() {
        let available = Resources::default().with("cpu", 1000).with("memory", 10);
        assert!(Resources::default().with("cpu", 1000).fits_in(&available));
        assert!(!Resources::default().with("cpu", 1001).fits_in(&available));
        assert!(!Resources::default().with("gpu", 1).fits_in(&available));
        assert!(Resources::default().with("gpu", 0).fits_in(&available));
    }

    #[test]
    fn every_axis_has_a_name_and_an_amount_of_its_own() {
        let names = ["cpu", "memory", "ephemeral-storage", "pods", "example.com/gpu"];
        let all = names.iter().zip(1..).fold(Resources::default(), |sum, (name, amount)| sum.with(name, amount));
        for (name, amount) in names.iter().zip(1..) {
            let axis = Resource::from_name(name);
            assert_eq!((axis.name(), axis.to_string().as_str(), all.get(&axis)), (*name, *name, amount));
            let only = Resources::default().with(name, amount);
            assert_eq!(only.amounts().collect::<Vec<_>>(), [(axis.clone(), amount)]);
            assert!(!only.is_zero() && only.clone().with(name, 0).is_zero());
            assert_eq!(only.clone().with(name, 0), Resources::default());
            let less = all.minus(&only);
            assert_eq!((less.get(&axis), less.amounts().count()), (0, 4));
        }
        let doubled: Vec<i64> = all.plus(&all).amounts().map(|(_, amount)| amount).collect();
        assert_eq!(doubled, [2, 4, 6, 8, 10]);
        assert!(Resources::default().is_zero());
    }

    #[test]
    fn nothing_fits_into_overdrawn_books() {
        let available = Resources::default().with("cpu", 1000).with("gpu", -1);
        assert_eq!(Resources::default().first_excess(&available), Some(Resource::from_name("gpu")));
    }

    #[test]
    fn what_is_used_up_keeps_only_those_off_who_want_it() {
        let available = Resources::default().with("cpu", 0).with("memory", 10).with("gpu", 0);
        assert_eq!(Resources::default().with("memory", 10).first_excess(&available), None);
        let wants_gpu = Resources::default().with("gpu", 1);
        assert_eq!(wants_gpu.first_excess(&available), Some(Resource::from_name("gpu")));
    }

    #[test]
    fn absurd_amounts_saturate() {
        let most = Resources::default().with("cpu", i64::MAX);
        assert_eq!(most.plus(&most).cpu_milli, i64::MAX);
        assert_eq!(Resources::default().minus(&most).minus(&most).cpu_milli, i64::MIN);
    }

    proptest! {
        #[test]
        fn sums_commute_and_undo(a in resources(), b in resources()) {
            prop_assert_eq!(a.plus(&b), b.plus(&a));
            prop_assert_eq!(a.plus(&b).minus(&b), a.clone());
            prop_assert_eq!(a.max(&b).min(&a), a.clone());
            for axis in ["cpu", "memory", "a", "b", "c"].map(Resource::from_name) {
                let (x, y) = (a.get(&axis), b.get(&axis));
                prop_assert_eq!((a.max(&b).get(&axis), a.min(&b).get(&axis), a.floored().get(&axis)), (x.max(y), x.min(y), x.max(0)));
            }
        }

        #[test]
        fn what_fits_leaves_nothing_overdrawn(request in resources(), available in resources()) {
            let request = request.floored();
            if request.fits_in(&available) {
                prop_assert!(available.minus(&request).amounts().all(|(_, amount)| amount >= 0));
            }
        }
    }
}
