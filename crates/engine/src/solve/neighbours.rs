//! Who the others are that a pod must keep away from, or that keep it away. Only reasons ask.

use model::ids::PodName;

use super::greedy::{Greedy, Seat};
use super::topology::{Footprint, GroupId, Rule, Spot};

/// The pods that each group speaks of, found once.
pub(crate) struct Neighbours {
    selected: Vec<Parties>,
    owners: Vec<Parties>,
}

/// Pods of one group, in the order of their names.
#[derive(Clone, Default)]
struct Parties {
    /// Numbers of pods that stand already.
    standing: Vec<usize>,
    /// Numbers of pods of the question that have a seat.
    seated: Vec<usize>,
}

impl Neighbours {
    pub(crate) fn new(greedy: &Greedy<'_, '_>) -> Self {
        let none = vec![Parties::default(); greedy.topology.groups.len()];
        let mut neighbours = Self { selected: none.clone(), owners: none };
        for (number, footprint) in greedy.topology.standing.iter().enumerate() {
            neighbours.note(greedy, footprint, |parties| parties.standing.push(number));
        }
        for pod in (0..greedy.seats.len()).filter(|pod| greedy.seats[*pod].is_some()) {
            let footprint = &greedy.classes[greedy.class_of[pod]].footprint;
            neighbours.note(greedy, footprint, |parties| parties.seated.push(pod));
        }
        neighbours
    }

    fn note(&mut self, greedy: &Greedy<'_, '_>, footprint: &Footprint, push: impl Fn(&mut Parties)) {
        let is_far = |group: &&GroupId| greedy.topology.groups[**group].is_far();
        footprint.counted_in.iter().filter(is_far).for_each(|group| push(&mut self.selected[*group]));
        footprint.owns.iter().for_each(|group| push(&mut self.owners[*group]));
    }

    /// The first pod by name that makes a rule of distance fail, in the domain of a spot or anywhere. Looks at each pod as
    /// long as it may.
    pub(crate) fn other(
        &self,
        greedy: &Greedy<'_, '_>,
        rule: &Rule,
        spot: Option<&Spot<'_>>,
        may_look: impl Fn() -> bool,
    ) -> Option<PodName> {
        let group = rule.group();
        let parties = match rule {
            Rule::Unwanted { .. } => &self.owners[group],
            _ => &self.selected[group],
        };
        let is_near = |seat: Seat| may_look() && spot.is_none_or(|spot| shares(greedy, group, spot, seat));
        let all = &greedy.world.standing;
        let standing = parties.standing.iter().find(|number| is_near(Seat::Site(all[**number].site)));
        let seated = parties.seated.iter().find(|pod| greedy.seats[**pod].is_some_and(is_near));
        let names = standing.map(|number| &all[*number].pod.name).into_iter();
        names.chain(seated.map(|pod| &greedy.world.pods[*pod].name)).min().cloned()
    }
}

/// Whether a seat is in the same domain as a spot.
fn shares(greedy: &Greedy<'_, '_>, group: GroupId, spot: &Spot<'_>, seat: Seat) -> bool {
    let key = greedy.topology.groups[group].key;
    match (seat, key) {
        (Seat::Site(site), None) => site == spot.place,
        (Seat::Claim(claim), None) => greedy.world.sites.len() + claim == spot.place,
        (Seat::Site(site), Some(key)) => greedy.world.sites[site].states[key].intersects(&spot.states[key]),
        (Seat::Claim(claim), Some(key)) => {
            let outlook = greedy.outlooks.borrow().get(greedy.claims[claim].outlook).clone();
            outlook.states[key].intersects(&spot.states[key])
        }
    }
}
