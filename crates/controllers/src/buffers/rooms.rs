//! Whether buffers have their room, as the last plan found it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::ids::PodName;
use model::plan::{Plan, Target};
use model::pod::Pod;

/// By buffer. Lost with the process, and found out again by its first plan.
#[derive(Debug, Default)]
pub(crate) struct Rooms(Mutex<BTreeMap<PodName, Room>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// All of it is there.
    Exists,
    /// Some of it is still to be made, or cannot be.
    Lacks,
}

impl Rooms {
    pub(crate) fn of(&self, buffer: &PodName) -> Option<Room> {
        self.lock().get(buffer).copied()
    }

    pub(crate) fn forget(&self, buffer: &PodName) {
        self.lock().remove(buffer);
    }

    /// Says for which buffers that is news.
    pub(crate) fn note(&self, rooms: BTreeMap<PodName, Room>) -> Vec<PodName> {
        let mut known = self.lock();
        let changed = rooms.iter().filter(|(buffer, room)| known.get(*buffer) != Some(*room));
        let changed: Vec<PodName> = changed.map(|(buffer, _)| buffer.clone()).collect();
        known.extend(rooms);
        changed
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodName, Room>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a plan says of buffers, by their pods. A buffer of whose pods some are left for later is not judged.
pub(crate) fn judged<'a>(pods: impl Iterator<Item = &'a Pod>, plan: &Plan) -> BTreeMap<PodName, Room> {
    let placed: BTreeMap<&PodName, &Target> = plan.placements.iter().map(|(pod, target)| (pod, target)).collect();
    let unplaced: BTreeSet<&PodName> = plan.unplaced.iter().map(|unplaced| &unplaced.pod).collect();
    let mut rooms: BTreeMap<PodName, Option<Room>> = BTreeMap::new();
    for pod in pods {
        let Some(buffer) = buffer_of(&pod.name) else { continue };
        let room = match placed.get(&pod.name) {
            Some(Target::Node(_)) => Some(Room::Exists),
            Some(Target::Claim(_)) => Some(Room::Lacks),
            None => unplaced.contains(&pod.name).then_some(Room::Lacks),
        };
        let so_far = rooms.entry(buffer).or_insert(Some(Room::Exists));
        *so_far = match (*so_far, room) {
            (None, _) | (_, None) => None,
            (Some(Room::Exists), Some(Room::Exists)) => Some(Room::Exists),
            _ => Some(Room::Lacks),
        };
    }
    rooms.into_iter().filter_map(|(buffer, room)| Some((buffer, room?))).collect()
}

/// The buffer that a pod stands for: its name is the buffer's between a word and a number.
fn buffer_of(pod: &PodName) -> Option<PodName> {
    let (buffer, _) = pod.name.strip_prefix("capacity-buffer-")?.rsplit_once('-')?;
    Some(PodName::new(pod.namespace.as_str(), buffer))
}

#[cfg(test)]
mod tests {
    use model::resources::Resources;

    use super::*;

    // 01/BUF-05
    #[test]
    fn buffers_of_one_name_in_two_namespaces_are_told_apart_and_half_a_plan_judges_nobody() {
        let pod = |namespace: &str, name: &str| Pod::pending(namespace, name, Resources::default());
        let pods = [
            pod("a", "capacity-buffer-web-1-1"),
            pod("b", "capacity-buffer-web-1-1"),
            pod("b", "capacity-buffer-web-1-2"),
            pod("c", "capacity-buffer-web-1-1"),
        ];
        let mut plan = Plan::default();
        let targets = [Target::Node("n".into()), Target::Node("n".into()), Target::Claim(0)];
        plan.placements = pods.iter().map(|pod| pod.name.clone()).zip(targets).collect();
        let rooms = judged(pods.iter(), &plan);
        let expected = [(PodName::new("a", "web-1"), Room::Exists), (PodName::new("b", "web-1"), Room::Lacks)];
        assert_eq!(rooms, BTreeMap::from(expected));
        let known = Rooms::default();
        assert_eq!(known.note(rooms.clone()).len(), 2);
        assert!(known.note(rooms).is_empty(), "the same again is no news");
    }
}
