//! Taking pods and sites out of the counts, and putting everything back.
//!
//! Pods are taken out one by one where they stand on sites. What claims do to counts is not undone step by step, because their
//! labels narrow on the way: counts by label are kept from the start instead, which are short.

use super::super::bits::Bits;
use super::super::sites::Site;
use super::group::Group;
use super::{Footprint, GroupId, Spot, Topology};

/// Counts as they were before a question.
#[derive(Default)]
pub(crate) struct Kept {
    groups: Vec<KeptGroup>,
}

struct KeptGroup {
    /// Selected, surely selected, owners; for groups by label only.
    counts: Option<[Vec<u32>; 3]>,
    total: u32,
    fullest: u32,
    settled: Bits,
    sites: Bits,
    possible_sites: Bits,
    /// How many sites that count are in each state of the label, and in no other.
    sites_in_state: Vec<u32>,
}

impl KeptGroup {
    fn of(group: &Group, sites: &[Site<'_>]) -> Self {
        let counts = || [group.selected.clone(), group.surely_selected.clone(), group.owners.clone()];
        let mut sites_in_state = vec![0; if group.key.is_some() { group.selected.len() } else { 0 }];
        if let Some(key) = group.key.filter(|_| group.is_spread()) {
            for states in group.sites.iter().map(|site| &sites[site].states[key]).filter(|states| states.len() == 1) {
                states.iter().for_each(|state| sites_in_state[state] += 1);
            }
        }
        Self {
            counts: group.key.map(|_| counts()),
            total: group.total,
            fullest: group.fullest,
            settled: group.settled.clone(),
            sites: group.sites.clone(),
            possible_sites: group.possible_sites.clone(),
            sites_in_state,
        }
    }
}

/// Whether a pod comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    In,
    Out,
}

impl Topology {
    /// Everything as it is now, to come back to.
    pub(crate) fn keep(&self, sites: &[Site<'_>]) -> Kept {
        Kept { groups: self.groups.iter().map(|group| KeptGroup::of(group, sites)).collect() }
    }

    /// What a question has changed stays so, and these sites are gone for good.
    pub(crate) fn keep_changes(&mut self, kept: &mut Kept, gone: &[usize], sites: &[Site<'_>]) {
        for id in 0..self.groups.len() {
            self.leave_out(kept, id, gone, sites);
            let (group, kept) = (&self.groups[id], &mut kept.groups[id]);
            if let Some([selected, surely, owners]) = &mut kept.counts {
                selected.clone_from(&group.selected);
                surely.clone_from(&group.surely_selected);
                owners.clone_from(&group.owners);
            }
            (kept.total, kept.fullest) = (group.total, group.fullest);
            kept.settled.clone_from(&group.settled);
            for site in gone.iter().copied() {
                if let Some(key) = group.key.filter(|_| group.is_spread() && kept.sites.contains(site)) {
                    let states = &sites[site].states[key];
                    states.iter().filter(|_| states.len() == 1).for_each(|state| kept.sites_in_state[state] -= 1);
                }
                kept.sites.remove(site);
                kept.possible_sites.remove(site);
            }
        }
    }

    /// Takes a pod out of the counts of where it stands.
    pub(crate) fn take_out(&mut self, footprint: &Footprint, spot: &Spot<'_>) {
        for id in &footprint.counted_in {
            let group = &mut self.groups[*id];
            group.unmeet(spot);
            let [counts, surely] = [group.counts_at(spot), group.surely_counts_at(spot)];
            if counts {
                group.lower(spot, |group| &mut group.selected);
            }
            if surely {
                group.lower(spot, |group| &mut group.surely_selected);
            }
        }
        for id in &footprint.owns {
            self.groups[*id].lower(spot, |group| &mut group.owners);
        }
    }

    /// A site that is no more is no host, and its label's state no domain unless others have it. Only spreads ask.
    pub(crate) fn leave_out(&mut self, kept: &Kept, id: GroupId, gone: &[usize], sites: &[Site<'_>]) {
        let group = &mut self.groups[id];
        if !group.is_spread() {
            return;
        }
        let mut fewer: Vec<(usize, u32)> = Vec::new();
        for site in gone.iter().copied() {
            if let Some(key) = group.key.filter(|_| group.sites.contains(site)) {
                let states = &sites[site].states[key];
                for state in states.iter().filter(|_| states.len() == 1) {
                    match fewer.iter_mut().find(|(other, _)| *other == state) {
                        Some((_, count)) => *count += 1,
                        None => fewer.push((state, 1)),
                    }
                }
            }
            group.sites.remove(site);
            group.possible_sites.remove(site);
        }
        let known = &kept.groups[id].sites_in_state;
        for (state, _) in fewer.iter().filter(|(state, count)| known[*state] <= *count) {
            group.settled.remove(*state);
        }
    }

    /// Puts a group back. Places beyond the sites belong to claims, which are no more.
    pub(crate) fn put_back(&mut self, kept: &Kept, id: GroupId, sites: usize) {
        let (group, kept) = (&mut self.groups[id], &kept.groups[id]);
        match &kept.counts {
            Some([selected, surely, owners]) => {
                group.selected.clone_from(selected);
                group.surely_selected.clone_from(surely);
                group.owners.clone_from(owners);
            }
            None => {
                group.selected.truncate(sites);
                group.surely_selected.truncate(sites);
                group.owners.truncate(sites);
            }
        }
        (group.total, group.fullest, group.relied_on) = (kept.total, kept.fullest, None);
        group.settled.clone_from(&kept.settled);
        if group.is_spread() {
            group.sites.clone_from(&kept.sites);
            group.possible_sites.clone_from(&kept.possible_sites);
        }
        group.claims.fill(0);
        group.hosts.clear();
        group.crowded = Default::default();
    }

    /// Puts a pod back into the counts of its host, or takes it out again, and leaves counts by label as they are.
    pub(crate) fn shift_on_host(&mut self, footprint: &Footprint, spot: &Spot<'_>, shift: Shift) {
        for id in &footprint.counted_in {
            let group = &mut self.groups[*id];
            if group.key.is_some() {
                continue;
            }
            if group.counts_at(spot) {
                group.shift(spot, shift, |group| &mut group.selected);
            }
            if group.surely_counts_at(spot) {
                group.shift(spot, shift, |group| &mut group.surely_selected);
            }
        }
        for id in footprint.owns.iter().copied() {
            if self.groups[id].key.is_none() {
                self.groups[id].shift(spot, shift, |group| &mut group.owners);
            }
        }
    }

    /// Nobody relies on anything any more.
    pub(crate) fn forget_reliance(&mut self) {
        for id in std::mem::take(&mut self.relying) {
            self.groups[id].relied_on = None;
        }
    }

    /// Only these groups are asked about from now on.
    pub(crate) fn hear(&mut self, groups: &[GroupId]) {
        let heard = self.heard.get_or_insert_default();
        heard.clear();
        heard.extend(groups);
    }
}

impl Group {
    fn unmeet(&mut self, spot: &Spot<'_>) {
        if self.is_met_at(spot) {
            self.total = self.total.saturating_sub(1);
        }
    }

    fn shift(&mut self, spot: &Spot<'_>, shift: Shift, counts: impl Fn(&mut Self) -> &mut Vec<u32>) {
        if let Some(count) = counts(self).get_mut(spot.place) {
            *count = if shift == Shift::In { *count + 1 } else { count.saturating_sub(1) };
        }
    }

    fn lower(&mut self, spot: &Spot<'_>, counts: impl Fn(&mut Self) -> &mut Vec<u32>) {
        let key = self.key;
        let counts = counts(self);
        let mut one_less = |domain: usize| {
            if let Some(count) = counts.get_mut(domain) {
                *count = count.saturating_sub(1);
            }
        };
        match key {
            None => one_less(spot.place),
            Some(key) => {
                spot.states[key].iter().filter(|state| *state != super::super::words::ABSENT).for_each(one_less)
            }
        }
    }
}
