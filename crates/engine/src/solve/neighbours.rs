//! Who the others are that a pod must keep away from, or that keep it away. Only reasons ask.

use model::ids::PodName;
use model::pod::Pod;

use super::greedy::{Greedy, Seat};
use super::topology::{GroupId, Rule, Spot};

/// The first pod by name that makes a rule of distance fail, in the domain of a spot or anywhere.
pub(crate) fn other(greedy: &Greedy<'_, '_>, rule: &Rule, spot: Option<&Spot<'_>>) -> Option<PodName> {
    let group = rule.group();
    let standing = greedy.world.standing.iter().filter(|standing| {
        let site = Seat::Site(standing.site);
        is_party(greedy, rule, standing.pod) && spot.is_none_or(|spot| shares(greedy, group, spot, site))
    });
    let seated = greedy.order.iter().filter_map(|number| Some((greedy.world.pods[*number], greedy.seats[*number]?)));
    let seated = seated.filter(|(pod, seat)| {
        is_party(greedy, rule, pod) && spot.is_none_or(|spot| shares(greedy, group, spot, *seat))
    });
    standing.map(|standing| &standing.pod.name).chain(seated.map(|(pod, _)| &pod.name)).min().cloned()
}

/// Whether a pod is one that the rule speaks of.
fn is_party(greedy: &Greedy<'_, '_>, rule: &Rule, pod: &Pod) -> bool {
    let group = &greedy.topology.groups[rule.group()];
    match rule {
        Rule::Unwanted { .. } => pod.wants.apart.iter().any(|term| group.is_of(term)),
        _ => group.selects(pod.namespace(), &pod.labels),
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
