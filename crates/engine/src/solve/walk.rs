//! The way of a pod past the claims of the plan.
//!
//! Most claims that refuse a pod do so because of who is on them already, or because of the domain that they have settled in. Both
//! are known for all claims at once, as sets, so only claims that nothing is known against are asked one by one.

use std::sync::atomic::AtomicBool;

use model::price::Price;

use super::bits::Bits;
use super::claims::{Candidate, Narrowing, Refusal};
use super::classes::Class;
use super::greedy::{Bid, Greedy, OutOfEffort};
use super::lift::Lift;
use super::outlook::Step;
use super::topology::{Topology, Weighed};
use super::words::Key;
use super::world::World;

/// How many of the latest claims are asked whether they can grow for less than a new one costs.
const LATELY: usize = 8;

/// Of labels with more states than this no sets are kept.
const MOST_STATES: usize = 16;

/// How far a claim may be filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// No further than the machine that it is paid for already.
    Price,
    /// Up to the machine that it was opened for.
    Goal,
    /// Up to the largest machine that it may become.
    Anything,
}

/// What holds for a pod until it is seated.
pub(super) struct Walk<'r> {
    /// The rules that bind it, as things stand.
    pub(super) rules: Vec<Weighed<'r>>,
    /// Claims that would refuse it.
    barred: Bits,
}

/// Claims by the states that a label of theirs can still come to. Only labels that pods are counted by have sets.
#[derive(Clone, Default)]
pub(super) struct ByState(Vec<(Key, Vec<Bits>)>);

impl ByState {
    pub(super) fn new(world: &World<'_>, topology: &Topology) -> Self {
        let keys: Bits = topology.groups.iter().filter_map(|group| group.key).collect();
        let states = |key: Key| Some(world.words.state_count(key)).filter(|count| *count <= MOST_STATES);
        Self(keys.iter().filter_map(|key| Some((key, vec![Bits::default(); states(key)?]))).collect())
    }

    /// Notes what the labels of a claim can be now.
    pub(super) fn note(&mut self, claim: usize, states: &[Bits]) {
        for (key, sets) in &mut self.0 {
            for (state, set) in sets.iter_mut().enumerate() {
                set.grow(claim + 1);
                if states[*key].contains(state) { set.insert(claim) } else { set.remove(claim) }
            }
        }
    }

    /// There are no claims any more.
    pub(super) fn clear(&mut self) {
        self.0.iter_mut().flat_map(|(_, sets)| sets).for_each(|set| *set = Bits::default());
    }

    /// Bars claims that can come to none of these states.
    fn bar(&self, key: Key, allowed: &Bits, barred: &mut Bits) {
        if let Some((_, sets)) = self.0.iter().find(|(known, _)| *known == key) {
            barred.add_all_but(allowed.iter().filter_map(|state| sets.get(state)));
        }
    }
}

impl<'a> Greedy<'_, 'a> {
    /// Weighs what binds a pod. Nothing is barred yet.
    pub(super) fn walk<'r>(&self, class: &'r Class<'a>, rung: usize) -> Walk<'r> {
        let rules = class.rungs[rung].rules.iter().chain(&class.unwanted);
        Walk { rules: rules.map(|rule| self.topology.weighed(rule)).collect(), barred: Bits::default() }
    }

    /// Bars the claims that would refuse a pod: for good, or by its rules as things stand.
    pub(super) fn bar(&self, bid: Bid, walk: &mut Walk<'_>) {
        walk.barred.clone_from(self.closed_claims(bid));
        walk.barred.grow(self.claims.len());
        for rule in &walk.rules {
            match rule {
                Weighed::Host { rule, least } => self.topology.bar(rule, *least, &mut walk.barred),
                Weighed::Label { key, allowed, .. } => self.by_state.bar(*key, allowed, &mut walk.barred),
            }
        }
    }

    pub(super) fn seat_on_claim(
        &mut self,
        bid: Bid,
        bound: Bound,
        walk: &mut Walk<'_>,
        skips: &mut usize,
        cancel: &AtomicBool,
    ) -> Result<bool, OutOfEffort> {
        let mut from = 0;
        while let Some(number) = self.next_claim(bid, bound, from, &walk.barred) {
            from = number + 1;
            self.step(cancel)?;
            match self.narrowed(bid, number, walk) {
                Ok(narrowing) if !self.keeps(bound, bid, number, &narrowing) => {}
                Ok(_) if *skips > 0 => *skips -= 1,
                Ok(narrowing) => {
                    self.join(bid, number, narrowing);
                    return Ok(true);
                }
                Err(refusal) => {
                    if matches!(refusal, Refusal::Final | Refusal::TooSmall) {
                        self.close_claim(bid, number);
                    }
                    walk.barred.insert(number);
                }
            }
        }
        Ok(false)
    }

    fn narrowed(&self, bid: Bid, claim: usize, walk: &Walk<'_>) -> Result<Narrowing, Refusal> {
        let candidate = self.candidate(bid.class, bid.rung, claim);
        self.view(&Lift::default()).narrow(&self.claims[claim], Candidate { rules: Some(&walk.rules), ..candidate })
    }

    /// The next claim that has room within a bound and is not barred.
    fn next_claim(&self, bid: Bid, bound: Bound, from: usize, barred: &Bits) -> Option<usize> {
        let requests = &self.classes[bid.class].requests;
        match bound {
            Bound::Price => self.snug.next(from, requests, barred),
            Bound::Goal => self.slack.next(from, requests, barred),
            Bound::Anything => self.slack.next(from, &[], barred),
        }
    }

    /// Whether a claim would still be within a bound once it is narrowed.
    fn keeps(&self, bound: Bound, bid: Bid, claim: usize, narrowing: &Narrowing) -> bool {
        let claim = &self.claims[claim];
        let outlooks = self.outlooks.borrow();
        let after = outlooks.get(narrowing.outlook);
        match bound {
            Bound::Price => {
                let is_paid_for = |step: Step| after.ladder[narrowing.step].price <= step.price;
                self.cheapest(claim).is_some_and(is_paid_for) && self.leaves_choice(bid, claim, narrowing)
            }
            Bound::Goal => after.machines.contains(claim.goal),
            Bound::Anything => true,
        }
    }

    /// A claim of late that would take the pod, beyond its goal, for less than a new machine costs.
    pub(super) fn cheaper_growth(
        &mut self,
        bid: Bid,
        price: Price,
        walk: &Walk<'_>,
        cancel: &AtomicBool,
    ) -> Result<Option<(usize, Narrowing)>, OutOfEffort> {
        let mut most = price.plus(self.world.snapshot.policy.node_fee).pico();
        let mut best = None;
        for number in (self.claims.len().saturating_sub(LATELY)..self.claims.len()).rev() {
            if walk.barred.contains(number) {
                continue;
            }
            self.step(cancel)?;
            let Ok(narrowing) = self.narrowed(bid, number, walk) else { continue };
            if !self.leaves_choice(bid, &self.claims[number], &narrowing) {
                continue;
            }
            let after = self.outlooks.borrow().get(narrowing.outlook).ladder[narrowing.step].price;
            let before = self.cheapest(&self.claims[number]).map_or(Price::ZERO, |step| step.price);
            if after.pico().saturating_sub(before.pico()) < most {
                most = after.pico().saturating_sub(before.pico());
                best = Some((number, narrowing));
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use model::instance::{InstanceType, Offering};
    use model::labels::HOSTNAME;
    use model::pod::Pod;
    use model::pool::{Limits, Pool, PoolKind, PoolState, Template};
    use model::price::Price;
    use model::requirements::{Requirement, Requirements};
    use model::resources::Resources;
    use model::snapshot::Snapshot;
    use model::time::Instant;
    use model::topology::{Namespaces, PodTerm, Policy, Selector, Spread, SpreadMode};

    use super::super::Question;
    use super::super::catalogue::Catalogue;
    use super::super::reserve::Reservations;
    use super::super::topology::{Ground, Spot};
    use super::super::world::usable_pools;
    use super::*;

    const CLAIMS: usize = 150;

    #[test]
    fn claims_that_can_come_to_no_allowed_state_are_barred() {
        let mut by_state = ByState(vec![(1, vec![Bits::default(); 4])]);
        let states = |states: &[usize]| vec![Bits::default(), states.iter().copied().collect()];
        (0..70).for_each(|claim| by_state.note(claim, &states(&[2, 3])));
        by_state.note(5, &states(&[2]));
        by_state.note(66, &states(&[3]));
        let barred = |key: Key, allowed: &[usize]| {
            let mut barred = Bits::empty(70);
            by_state.bar(key, &allowed.iter().copied().collect(), &mut barred);
            barred.iter().filter(|claim| *claim < 70).collect::<Vec<_>>()
        };
        assert_eq!((barred(1, &[3]), barred(1, &[2]), barred(1, &[2, 3, 9])), (vec![5], vec![66], vec![]));
        assert_eq!(barred(1, &[0]).len(), 70);
        assert_eq!(barred(7, &[0]).len(), 0, "of other labels nothing is known");
    }

    /// A pool that sells one machine.
    fn pool() -> Pool {
        let offering = Offering {
            requirements: Requirements::default(),
            price: Price::from_pico(1),
            is_available: true,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
            has_price_overlay: false,
        };
        let sold = InstanceType {
            name: "machine".into(),
            requirements: Requirements::default(),
            capacity: Resources::default().with("cpu", 100).with("pods", 100),
            overhead: Resources::default(),
            offerings: vec![offering],
            attach_limits: BTreeMap::new(),
            has_capacity_overlay: false,
        };
        Pool {
            name: "pool".into(),
            weight: 0,
            kind: PoolKind::Dynamic,
            state: PoolState::Ready,
            limits: Limits::default(),
            template: Template::default(),
            instance_types: vec![Arc::new(sold)],
            budgets: Default::default(),
            consolidation: Default::default(),
        }
    }

    fn of_app(app: &str) -> Selector {
        Selector::Matching(Requirements::default().with("app", Requirement::value(app.into())))
    }

    /// Pods that count the pods of an app on each host, in all the ways in which they can.
    fn counting_pods() -> Vec<Pod> {
        let pod = |app: &str, name: &str| {
            let mut pod = Pod::pending("default", name, Resources::default().with("cpu", 1));
            pod.labels.insert("app".into(), app.into());
            pod
        };
        let term = || PodTerm { key: HOSTNAME.into(), selector: of_app("a"), namespaces: Namespaces::All };
        let spread = |max_skew: i32| Spread {
            key: HOSTNAME.into(),
            max_skew,
            min_domains: None,
            mode: SpreadMode::DoNotSchedule,
            selector: of_app("a"),
            node_affinity: Policy::Honor,
            node_taints: Policy::Ignore,
        };
        let mut pods = vec![pod("a", "plain")];
        for (app, skew) in [("a", 1), ("b", 1), ("a", 3), ("b", 3), ("b", 6)] {
            pods.push(pod(app, &format!("spread-{app}-{skew}")));
            pods.last_mut().unwrap().wants.spread.push(spread(skew));
        }
        pods.extend([pod("b", "near"), pod("b", "far")]);
        let count = pods.len();
        pods[count - 2].wants.together.push(term());
        pods[count - 1].wants.apart.push(term());
        pods
    }

    #[test]
    fn claims_are_barred_just_when_a_rule_about_hosts_refuses_them() {
        let mut snapshot = Snapshot::empty(Instant::from_unix_seconds(0));
        snapshot.pools.insert("pool".into(), Arc::new(pool()));
        let pods = counting_pods();
        let mut asked: Vec<&Pod> = pods.iter().collect();
        asked.sort_by_key(|pod| &pod.name);
        let (catalogue, question) = (Catalogue::of(&snapshot), Question::about(asked.clone()));
        let reservations = Reservations::new(&snapshot, &BTreeMap::new(), &question.without);
        let world = World::build(&snapshot, asked, &question, usable_pools(&snapshot), (&catalogue, reservations));
        let mut greedy = Greedy::new(&world, u64::MAX);
        let classes = greedy.classes.clone();
        let class_of = |name: &str| classes.iter().find(|class| *class.pod.name.name == *name).unwrap();
        let mut kinds = 0;
        let mut barred_by_some = Bits::empty(CLAIMS);
        for round in 0..2 {
            for class in classes.iter() {
                for weighed in &greedy.walk(class, 0).rules {
                    let Weighed::Host { rule, least } = weighed else { continue };
                    let mut barred = Bits::empty(CLAIMS);
                    greedy.topology.bar(rule, *least, &mut barred);
                    let refuses = |claim: &usize| !weighed.holds_on_host(&greedy.topology, *claim);
                    let refusing: Vec<usize> = (0..CLAIMS).filter(refuses).collect();
                    let barred: Vec<usize> = barred.iter().filter(|claim| *claim < CLAIMS).collect();
                    // So many on one host are not told apart by sets.
                    let is_counted = !class.pod.name.name.ends_with('6');
                    assert!(barred == refusing || (!is_counted && barred.is_empty()), "{:?}: {rule:?}", class.pod.name);
                    barred.iter().for_each(|claim| barred_by_some.insert(*claim));
                    kinds += usize::from(round == 1);
                }
            }
            // In the second round there is a crowd of every size, some of it with somebody who keeps others away.
            for claim in 0..CLAIMS {
                let states = &world.templates[0].states;
                let spot = Spot { place: claim, ground: Ground::Template(0), states };
                (0..claim % 9).for_each(|_| greedy.topology.add(&class_of("plain").footprint, &spot));
                (0..claim % 2).for_each(|_| greedy.topology.add(&class_of("far").footprint, &spot));
            }
        }
        assert!(kinds >= 8 && barred_by_some.len() == CLAIMS, "{kinds} rules, {} claims", barred_by_some.len());
    }
}
