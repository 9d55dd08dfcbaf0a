//! What a pod's volumes demand of its node.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::ids::{DriverName, VolumeId};
use crate::requirements::Requirements;

/// The volumes of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Volumes {
    /// Where the volumes can be, together: one of these must hold. Empty means anywhere.
    pub alternatives: Vec<Requirements>,
    /// Which volumes must be attached, by driver. Pods that share a volume share its place.
    pub attached: Attachments,
}

/// Volumes by the driver that counts them.
pub type Attachments = BTreeMap<DriverName, BTreeSet<VolumeId>>;

/// How many volumes of each driver a node can hold; a driver that is not here has no limit.
pub type AttachLimits = BTreeMap<DriverName, u32>;

/// The first driver of which a node would hold too many: its name, how many there would be, and the limit.
pub fn first_overfull(
    held: &Attachments,
    added: &Attachments,
    limits: &AttachLimits,
) -> Option<(DriverName, u32, u32)> {
    overfull(held, added, limits).next()
}

/// Every such driver, in the order of their names.
pub fn overfull<'a>(
    held: &'a Attachments,
    added: &'a Attachments,
    limits: &'a AttachLimits,
) -> impl Iterator<Item = (DriverName, u32, u32)> {
    added.iter().filter_map(|(driver, volumes)| {
        let limit = *limits.get(driver)?;
        let union = held.get(driver).map_or(volumes.len(), |present| present.union(volumes).count());
        let union = u32::try_from(union).unwrap_or(u32::MAX);
        (union > limit).then(|| (driver.clone(), union, limit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volumes(names: &[&str]) -> Attachments {
        [("ebs".into(), names.iter().map(|name| (*name).into()).collect())].into()
    }

    #[test]
    fn a_shared_volume_is_attached_once_and_unlimited_drivers_never_fill() {
        let limits: AttachLimits = [("ebs".into(), 2)].into();
        assert_eq!(first_overfull(&volumes(&["a", "b"]), &volumes(&["b"]), &limits), None);
        assert_eq!(first_overfull(&volumes(&["a", "b"]), &volumes(&["c"]), &limits), Some(("ebs".into(), 3, 2)));
        assert_eq!(first_overfull(&volumes(&["a", "b"]), &volumes(&["c"]), &AttachLimits::new()), None);
        assert_eq!(first_overfull(&Attachments::new(), &volumes(&["a", "b"]), &limits), None, "just as many");
        assert_eq!(
            first_overfull(&Attachments::new(), &volumes(&["a", "b", "c"]), &limits),
            Some(("ebs".into(), 3, 2))
        );
    }
}
