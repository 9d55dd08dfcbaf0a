//! How many pods each set of a Deployment gets.

use super::{DESIRED, MAXIMUM, Rollout, Set};

impl Rollout<'_> {
    /// As many for the new set as the surge allows, then as few for the old ones as availability allows.
    pub(super) fn roll(&mut self) {
        self.ensure_new();
        let Some(new) = self.new.clone() else { return };
        let wanted = self.room_for_new(new.replicas);
        if wanted != new.replicas {
            self.scale_new(wanted);
            return;
        }
        self.shrink_old(&new);
    }

    /// All old pods leave before the first new one comes.
    pub(super) fn recreate(&mut self) {
        if self.old.iter().any(|set| set.replicas > 0) {
            self.empty_old();
            return;
        }
        if self.old.iter().any(|set| set.counted("replicas") + set.counted("terminatingReplicas") > 0) {
            return;
        }
        self.ensure_new();
        if self.new.as_ref().is_some_and(|new| new.replicas != self.replicas) {
            self.scale_new(self.replicas);
        }
    }

    /// How many replicas the new set may have, being this many now.
    pub(super) fn room_for_new(&self, present: i64) -> i64 {
        if self.deployment["spec"]["strategy"]["type"] == "Recreate" || present > self.replicas {
            return self.replicas;
        }
        let room = self.maximum() - self.all_replicas();
        if room <= 0 { present } else { present + room.min(self.replicas - present) }
    }

    fn shrink_old(&mut self, new: &Set) {
        if self.old.iter().all(|set| set.replicas == 0) {
            return;
        }
        let least = self.replicas - self.unavailable;
        let most_to_go = self.all_replicas() - least - (new.replicas - new.available);
        if most_to_go <= 0 {
            return;
        }
        self.drop_unhealthy(most_to_go);
        let mut surplus = self.all().map(|set| set.available).sum::<i64>() - least;
        for place in 0..self.old.len() {
            let count = self.old[place].replicas.min(surplus);
            if count > 0 {
                self.scale_old(place, self.old[place].replicas - count);
                surplus -= count;
            }
        }
    }

    /// Old pods that are not available go first: nobody misses them.
    fn drop_unhealthy(&mut self, mut most: i64) {
        for place in 0..self.old.len() {
            let set = &self.old[place];
            let count = (set.replicas - set.available).min(most);
            if count > 0 && set.replicas > 0 {
                self.scale_old(place, set.replicas - count);
                most -= count;
            }
        }
    }

    /// The number of replicas has changed: one set takes all of it; several share it in proportion, while a roll-out is under way or
    /// paused.
    pub(super) fn scale_all(&mut self) {
        if let Some(only) = self.only_active() {
            if only.replicas != self.replicas || self.is_scaled() {
                self.resize(&only, self.replicas);
            }
            return;
        }
        let is_full = |count: i64| count == self.replicas;
        let is_saturated = self.new.as_ref().is_some_and(|new| {
            is_full(new.replicas) && is_full(new.available) && new.annotated(DESIRED).is_some_and(is_full)
        });
        if is_saturated {
            self.empty_old();
        } else if self.deployment["spec"]["strategy"]["type"] != "Recreate" {
            self.scale_in_proportion();
        }
    }

    fn empty_old(&mut self) {
        for place in 0..self.old.len() {
            if self.old[place].replicas > 0 {
                self.scale_old(place, 0);
            }
        }
    }

    /// The one set that has replicas; the newest when none has any.
    fn only_active(&self) -> Option<Set> {
        let active: Vec<&Set> = self.all().filter(|set| set.replicas > 0).collect();
        match active.as_slice() {
            [] => self.new.clone().or_else(|| self.old.last().cloned()),
            [only] => Some((*only).clone()),
            _ => None,
        }
    }

    fn resize(&mut self, set: &Set, replicas: i64) {
        match self.old.iter().position(|old| old.at == set.at) {
            Some(place) => self.scale_old(place, replicas),
            None => self.scale_new(replicas),
        }
    }

    fn scale_in_proportion(&mut self) {
        let allowed = if self.replicas > 0 { self.maximum() } else { 0 };
        let to_add = allowed - self.all_replicas();
        // The largest first; among equals the newest when pods are added, the oldest when they are taken.
        let mut sets: Vec<Set> = self.all().filter(|set| set.replicas > 0).cloned().collect();
        if to_add > 0 {
            sets.reverse();
        }
        sets.sort_by_key(|set| -set.replicas);
        let mut sizes: Vec<i64> = Vec::new();
        let mut added = 0;
        for set in &sets {
            let share = self.share(set, to_add, added);
            added += share;
            sizes.push(set.replicas + share);
        }
        if let Some(largest) = sizes.first_mut() {
            *largest = (*largest + to_add - added).max(0);
        }
        for (set, size) in sets.iter().zip(sizes) {
            self.resize(set, size);
        }
    }

    /// What a set gets of what is to be added, or taken: as much as it had of the whole.
    fn share(&self, set: &Set, to_add: i64, added: i64) -> i64 {
        if to_add == 0 || set.replicas == 0 {
            return 0;
        }
        let left = to_add - added;
        let fraction = if self.replicas == 0 {
            -set.replicas
        } else {
            let before = set.annotated(MAXIMUM).filter(|maximum| *maximum > 0).unwrap_or(self.all_replicas());
            let size = (set.replicas * self.maximum()) as f64 / before as f64;
            size.round() as i64 - set.replicas
        };
        if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
    }
}
