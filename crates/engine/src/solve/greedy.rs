//! The first complete plan: most important pods first, each on the first place that takes it.

pub(crate) mod scatter;
pub(crate) mod whatif;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::price::Price;
use model::snapshot::MinValuesPolicy;

use super::bits::Bits;
use super::claims::{Candidate, Claim, Narrowing, Refusal, View};
use super::classes::{Class, classify};
use super::goals::{Values, least, total};
use super::lift::{Constraint, Lift};
use super::limits::Limits;
use super::listing::values_of;
use super::outlook::{Outlooks, Step, Stock};
use super::reserve::Reservations;
use super::rooms::{Marks, Rooms};
use super::sites::Taken;
use super::topology::{Ground, Moment, Spot, Topology, Weighed};
use super::walk::{Bound, ByState, Walk};
use super::world::World;

/// A plan in the making.
pub(crate) struct Greedy<'w, 'a> {
    pub(crate) world: &'w World<'a>,
    pub(crate) classes: Rc<Vec<Class<'a>>>,
    pub(crate) class_of: Rc<Vec<usize>>,
    /// Counts and limits as they were before anybody was seated.
    pub(crate) start: Rc<(Topology, Limits)>,
    pub(crate) topology: Topology,
    pub(crate) limits: Limits,
    reservations: Reservations,
    pub(crate) outlooks: Rc<RefCell<Outlooks>>,
    /// Classes that wait for reserved machines.
    pub(crate) deferred: Vec<bool>,
    pub(crate) claims: Vec<Claim>,
    /// What is left on the cheapest machine that holds each claim's pods.
    pub(super) snug: Rooms,
    /// The same for the claim's goal.
    pub(super) slack: Rooms,
    /// What labels of claims can still be.
    pub(super) by_state: ByState,
    /// What pods without a seat ask for together, by what they ask of labels.
    pub(super) demand: Vec<Vec<i64>>,
    /// The least that any pod asks for, by what it asks of labels.
    pub(super) least: Rc<Vec<Vec<i64>>>,
    /// What resources are worth, by what is on sale and what is asked of labels.
    pub(super) values: Values,
    /// What is left on each site, to find the next with room.
    free: Rooms,
    /// The same, and what its pods brought.
    sites: Vec<Taken>,
    /// Where each pod went.
    pub(crate) seats: Vec<Option<Seat>>,
    /// The rung that each seated pod stands on.
    pub(super) rungs: Vec<usize>,
    /// Pods in the order in which they were seated.
    pub(crate) order: Vec<usize>,
    pub(crate) steps: u64,
    /// Pods that were looked at, whatever came of it.
    pub(crate) reached: Vec<bool>,
    effort: u64,
    pub(crate) habits: Habits,
    memory: Vec<Vec<Memory>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    Site(usize),
    Claim(usize),
}

/// What a rung has learned: places that will never take it. There may be as many rungs as pods, and most of them learn nothing.
#[derive(Clone, Default)]
struct Memory {
    closed_sites: Bits,
    closed_claims: Bits,
}

/// What an attempt does otherwise than the first plan, by pod.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// How far it has moved up among its equals.
    pub(crate) boosts: Vec<u32>,
    /// How many places that would take it are passed over, if there are others.
    pub(crate) skips: Vec<usize>,
}

/// A pod, its class, and the rung on which it looks for a place.
#[derive(Clone, Copy)]
pub(super) struct Bid {
    pub(super) pod: usize,
    pub(super) class: usize,
    pub(super) rung: usize,
    /// Whether it passes over places that would take it.
    pub(super) is_choosy: bool,
}

/// What became of a look at the pools.
enum Outcome {
    Seated,
    Refused,
    Deferred,
}

/// Why the work ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfEffort;

impl<'w, 'a> Greedy<'w, 'a> {
    pub(crate) fn new(world: &'w World<'a>, effort: u64) -> Self {
        let mut topology = Topology::new();
        let limits = Limits::new(world);
        let classes = classify(world, &limits, &mut topology);
        topology.count_standing(world);
        Self::begin(world, Rc::new(classes), world.kinds.of_pod.clone(), Rc::new((topology, limits)), effort)
    }

    pub(super) fn begin(
        world: &'w World<'a>,
        classes: Rc<Vec<Class<'a>>>,
        class_of: Rc<Vec<usize>>,
        start: Rc<(Topology, Limits)>,
        effort: u64,
    ) -> Self {
        let demand = total(&classes, &class_of, world.machines.axes().len());
        let axes = world.machines.axes().len();
        let least = Rc::new(least(&classes, axes));
        let marks = Marks::of(axes, classes.iter().map(|class| &*class.requests));
        let mut free = Rooms::new(&marks);
        world.sites.iter().for_each(|site| free.push(&site.start.free));
        Self {
            world,
            by_state: ByState::new(world, &start.0),
            topology: start.0.clone(),
            limits: start.1.clone(),
            start,
            reservations: world.reservations.clone(),
            outlooks: Rc::default(),
            snug: Rooms::new(&marks),
            slack: Rooms::new(&marks),
            free,
            values: Values::default(),
            demand,
            least,
            deferred: vec![false; classes.len()],
            memory: classes.iter().map(|class| vec![Memory::default(); class.rungs.len()]).collect(),
            classes,
            class_of,
            claims: Vec::new(),
            sites: world.sites.iter().map(|site| site.start.clone()).collect(),
            seats: vec![None; world.pods.len()],
            rungs: vec![0; world.pods.len()],
            order: Vec::new(),
            steps: 0,
            reached: vec![false; world.pods.len()],
            effort,
            habits: Habits { boosts: vec![0; world.pods.len()], skips: vec![0; world.pods.len()] },
        }
    }

    /// Seats pods, one level of priority after the other. Whoever is left is asked again with the next level, because the
    /// company that it waits for may be less important; but nobody less important is seated before it had its chance.
    ///
    /// Fails when it ends early; what was seated until then stays.
    pub(crate) fn run(&mut self, cancel: &AtomicBool) -> Result<(), OutOfEffort> {
        self.keep_promises(cancel)?;
        let mut waiting: Vec<usize> = Vec::new();
        let queue: Vec<usize> = self.queue().into_iter().filter(|pod| self.seats[*pod].is_none()).collect();
        for level in queue.chunk_by(|a, b| self.world.pods[*a].priority == self.world.pods[*b].priority) {
            waiting.extend(level);
            waiting = self.seat_all(waiting, cancel)?;
        }
        Ok(())
    }

    /// Seats pods where they were promised a place, as far as it still takes them; company may come with the last of them. The others
    /// wait with everybody else.
    fn keep_promises(&mut self, cancel: &AtomicBool) -> Result<(), OutOfEffort> {
        let mut waiting = self.world.promised.clone();
        loop {
            let before = waiting.len();
            let mut left = Vec::new();
            for (pod, site) in waiting {
                self.step(cancel)?;
                if !self.seat_at(pod, site, self.classes[self.class_of[pod]].rungs.len()) {
                    left.push((pod, site));
                }
            }
            if left.is_empty() || left.len() == before {
                return Ok(());
            }
            waiting = left;
        }
    }

    /// Seats a pod on a certain site, on the first of so many rungs that suits it.
    pub(super) fn seat_at(&mut self, pod: usize, site: usize, rungs: usize) -> bool {
        let (class, classes) = (self.class_of[pod], self.classes.clone());
        let found = (0..rungs).find(|rung| {
            let walk = self.walk(&classes[class], *rung);
            self.site_verdict(class, *rung, site, &walk.rules).is_ok()
        });
        let Some(rung) = found.filter(|_| !classes[class].pod.wants.has_resource_claims) else { return false };
        self.settle_on(Bid { pod, class, rung, is_choosy: false }, site);
        true
    }

    /// Seats pods until a whole round seats nobody more, and returns who is left.
    fn seat_all(&mut self, mut waiting: Vec<usize>, cancel: &AtomicBool) -> Result<Vec<usize>, OutOfEffort> {
        loop {
            let before = self.order.len();
            let left = self.seat_round(&waiting, cancel)?;
            if left.is_empty() || self.order.len() == before {
                return Ok(left);
            }
            waiting = left;
        }
    }

    fn seat_round(&mut self, waiting: &[usize], cancel: &AtomicBool) -> Result<Vec<usize>, OutOfEffort> {
        // How many had a seat when the last pod of each class found none.
        let mut failed: Vec<Option<usize>> = vec![None; self.classes.len()];
        let mut left = Vec::new();
        for pod in waiting {
            // Nobody who is exactly like one that found no place will find one, as long as nobody was seated since.
            let class = self.class_of[*pod];
            if failed[class] != Some(self.order.len()) && self.seat(*pod, cancel)? {
                continue;
            }
            self.reached[*pod] = true;
            failed[class] = Some(self.order.len());
            left.push(*pod);
        }
        Ok(left)
    }

    fn seat(&mut self, pod: usize, cancel: &AtomicBool) -> Result<bool, OutOfEffort> {
        if self.classes[self.class_of[pod]].pod.wants.has_resource_claims {
            return Ok(false);
        }
        let mut skips = self.habits.skips[pod];
        let is_choosy = skips > 0;
        Ok(self.seat_choosing(pod, &mut skips, cancel)? || (is_choosy && self.seat_choosing(pod, &mut 0, cancel)?))
    }

    /// Goes down the rungs, and on each through the places that are there, then to the pools.
    fn seat_choosing(&mut self, pod: usize, skips: &mut usize, cancel: &AtomicBool) -> Result<bool, OutOfEffort> {
        let class = self.class_of[pod];
        // Who passes over places is asked about each of them once.
        let is_choosy = *skips > 0;
        let bounds: &[Bound] = if is_choosy { &[Bound::Anything] } else { &[Bound::Price, Bound::Goal] };
        let classes = self.classes.clone();
        for rung in 0..classes[class].rungs.len() {
            let bid = Bid { pod, class, rung, is_choosy };
            let mut walk = self.walk(&classes[class], rung);
            if self.seat_on_site(bid, &walk, skips, cancel)? {
                return Ok(true);
            }
            self.bar(bid, &mut walk);
            for bound in bounds {
                if self.seat_on_claim(bid, *bound, &mut walk, skips, cancel)? {
                    return Ok(true);
                }
            }
            match self.seat_on_new_claim(bid, &walk, *skips, cancel)? {
                Outcome::Seated => return Ok(true),
                Outcome::Refused | Outcome::Deferred
                    if self.seat_on_claim(bid, Bound::Anything, &mut walk, skips, cancel)? =>
                {
                    return Ok(true);
                }
                Outcome::Refused => {}
                // Giving up a wish, or going to another pool, would waste what is reserved.
                Outcome::Deferred => {
                    self.deferred[class] = true;
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }

    pub(super) fn step(&mut self, cancel: &AtomicBool) -> Result<(), OutOfEffort> {
        if self.steps >= self.effort || cancel.load(Ordering::Relaxed) {
            return Err(OutOfEffort);
        }
        self.steps += 1;
        Ok(())
    }

    fn seat_on_site(
        &mut self,
        bid: Bid,
        walk: &Walk<'_>,
        skips: &mut usize,
        cancel: &AtomicBool,
    ) -> Result<bool, OutOfEffort> {
        let Bid { class, rung, .. } = bid;
        let mut from = 0;
        let next = |greedy: &Self, from: usize| {
            greedy.free.next(from, &greedy.classes[class].requests, &greedy.memory[class][rung].closed_sites)
        };
        while let Some(site) = next(self, from) {
            from = site + 1;
            self.step(cancel)?;
            match self.site_verdict(class, rung, site, &walk.rules) {
                Ok(()) if *skips > 0 => *skips -= 1,
                Ok(()) => {
                    self.settle_on(bid, site);
                    return Ok(true);
                }
                Err(Refusal::Final) => self.close_site(bid, site),
                Err(_) => {}
            }
        }
        Ok(false)
    }

    pub(super) fn site_verdict(
        &self,
        class: usize,
        rung: usize,
        number: usize,
        rules: &[Weighed<'_>],
    ) -> Result<(), Refusal> {
        let (class, site) = (&self.classes[class], &self.world.sites[number]);
        if !site.suits(class, &class.rungs[rung], &self.sites[number]) {
            return Err(Refusal::Final);
        }
        let spot = Spot { place: number, ground: Ground::Site(number), states: &site.states };
        let Some(broken) = rules.iter().find(|rule| !rule.holds(&self.topology, &spot)) else { return Ok(()) };
        let is_about_hosts = self.topology.groups[broken.rule().group()].key.is_none();
        let lasts = is_about_hosts && self.topology.is_lasting(broken.rule());
        Err(if lasts { Refusal::Final } else { Refusal::ForNow })
    }

    /// Seats a pod on a site that its rules were looked at for.
    fn settle_on(&mut self, bid: Bid, site: usize) {
        self.topology.rely(&self.classes[bid.class].rungs[bid.rung].rules);
        let (class, taken) = (&self.classes[bid.class], &mut self.sites[site]);
        self.free.take(site, &class.requests);
        taken.free.copy_from_slice(self.free.row(site));
        taken.ports.extend(class.pod.wants.ports.iter().cloned());
        for (driver, volumes) in &class.pod.wants.volumes.attached {
            taken.attached.entry(driver.clone()).or_default().extend(volumes.iter().cloned());
        }
        let spot = Spot { place: site, ground: Ground::Site(site), states: &self.world.sites[site].states };
        self.topology.add(&class.footprint, &spot);
        self.seated_at(bid, Seat::Site(site));
    }

    /// Puts a pod on a claim that takes it.
    pub(super) fn join(&mut self, bid: Bid, number: usize, narrowing: Narrowing) {
        let claim = &mut self.claims[number];
        if narrowing.outlook != claim.outlook {
            let [before, after] = [claim.outlook, narrowing.outlook].map(|id| self.outlooks.borrow().get(id).clone());
            let place = self.world.sites.len() + number;
            let spot = Spot { place, ground: Ground::Template(claim.template), states: &after.states };
            let (was, is) = (claim.outlook, narrowing.outlook);
            self.by_state.note(number, &after.states);
            self.topology.reshape(&spot, Some(&before.states), |moment, key| {
                let outlook = if moment == Moment::Before { was } else { is };
                self.outlooks.borrow_mut().domains(self.world, outlook, key)
            });
        }
        let held = claim.held.clone();
        claim.admit(bid.pod, &self.classes[bid.class], narrowing);
        self.reservations.exchange(&held, &claim.held);
        self.topology.rely(&self.classes[bid.class].rungs[bid.rung].rules);
        self.take_claim(bid, number);
    }

    /// Opens a claim in the first pool that can. Pools of equal weight are compared by price.
    fn seat_on_new_claim(
        &mut self,
        bid: Bid,
        walk: &Walk<'_>,
        turn: usize,
        cancel: &AtomicBool,
    ) -> Result<Outcome, OutOfEffort> {
        let mut best: Option<(Price, Claim)> = None;
        let mut weight = None;
        // One turn in two goes to another pool, the rest to other domains.
        let (mut passes, turn) = (turn % 2, turn / 2);
        for template in 0..self.world.templates.len() {
            let own_weight = self.world.templates[template].pool.weight;
            if best.is_some() && weight != Some(own_weight) {
                break;
            }
            self.step(cancel)?;
            let claim = match self.open_claim(bid, template, turn) {
                Ok(_) if passes > 0 => {
                    passes -= 1;
                    continue;
                }
                Ok(claim) => claim,
                Err(Refusal::Reserved) if best.is_none() => return Ok(Outcome::Deferred),
                Err(_) => continue,
            };
            weight = Some(own_weight);
            let price = self.cheapest(&claim).map_or(Price::MAX, |step| step.price);
            if best.as_ref().is_none_or(|(least, _)| price < *least) {
                best = Some((price, claim));
            }
        }
        let Some((price, mut claim)) = best else { return Ok(Outcome::Refused) };
        if !bid.is_choosy
            && let Some((number, narrowing)) = self.cheaper_growth(bid, price, walk, cancel)?
        {
            self.join(bid, number, narrowing);
            return Ok(Outcome::Seated);
        }
        claim.goal = self.goal(&claim, self.classes[bid.class].set());
        self.open(bid, claim);
        Ok(Outcome::Seated)
    }

    /// Adds a claim that has taken its first pod.
    pub(super) fn open(&mut self, bid: Bid, claim: Claim) {
        let place = self.world.sites.len() + self.claims.len();
        let outlook = self.outlooks.borrow().get(claim.outlook).clone();
        let spot = Spot { place, ground: Ground::Template(claim.template), states: &outlook.states };
        let domains = |_, key| self.outlooks.borrow_mut().domains(self.world, claim.outlook, key);
        self.topology.reshape(&spot, None, domains);
        self.by_state.note(self.claims.len(), &outlook.states);
        self.reservations.exchange(&BTreeSet::new(), &claim.held);
        let axes = self.world.machines.axes().len();
        let room = self.world.templates[claim.template].room(claim.goal, axes);
        self.slack.push(room);
        self.snug.push(room);
        self.claims.push(claim);
        self.topology.rely(&self.classes[bid.class].rungs[bid.rung].rules);
        self.take_claim(bid, self.claims.len() - 1);
    }

    pub(super) fn open_claim(&self, bid: Bid, template: usize, turn: usize) -> Result<Claim, Refusal> {
        let claim = Claim::new(self.world, &self.outlooks, template, Stock::OnSale);
        let mut claim = claim.ok_or(Refusal::Final)?;
        let candidate = Candidate { turn, ..self.candidate(bid.class, bid.rung, self.claims.len()) };
        let refusal = match self.view(&Lift::default()).narrow(&claim, candidate) {
            Ok(narrowing) => {
                claim.admit(bid.pod, candidate.class, narrowing);
                return Ok(claim);
            }
            Err(refusal) => refusal,
        };
        if self.world.snapshot.policy.min_values != MinValuesPolicy::BestEffort || claim.min_values.is_empty() {
            return Err(refusal);
        }
        let relaxed = Lift::of(&[Constraint::MinValues]);
        let view = self.view(&relaxed);
        let narrowing = view.narrow(&claim, candidate)?;
        let machines = view.machines_for(&claim, Some(candidate), narrowing.outlook);
        let listed = view.listed(Some(&narrowing.held), narrowing.outlook, &machines);
        for (key, least) in &mut claim.min_values {
            *least = (*least).min(values_of(self.world, *key, &listed));
        }
        claim.admit(bid.pod, candidate.class, narrowing);
        Ok(claim)
    }

    fn take_claim(&mut self, bid: Bid, number: usize) {
        let template = self.claims[number].template;
        let essential = self.essential(&self.claims[number]);
        let most = self.limits.most(template, essential.iter().copied());
        self.limits.charge(template, &mut self.claims[number].charged, most.as_deref());
        let requests = &self.classes[bid.class].requests;
        self.slack.take(number, requests);
        let claim = &self.claims[number];
        let machine = self.cheapest(claim).map_or(claim.goal, |step| step.machine);
        let room = self.world.templates[claim.template].room(machine, requests.len()).iter().zip(&claim.requests);
        self.snug.set(number, room.map(|(room, taken)| room.saturating_sub(*taken)));
        let outlook = self.outlooks.borrow().get(self.claims[number].outlook).clone();
        let ground = Ground::Template(self.claims[number].template);
        let spot = Spot { place: self.world.sites.len() + number, ground, states: &outlook.states };
        self.topology.add(&self.classes[bid.class].footprint, &spot);
        self.seated_at(bid, Seat::Claim(number));
    }

    fn seated_at(&mut self, bid: Bid, seat: Seat) {
        self.seats[bid.pod] = Some(seat);
        // Others of the class who still wait will be asked again and say so.
        self.deferred[bid.class] = false;
        self.rungs[bid.pod] = bid.rung;
        self.order.push(bid.pod);
        let class = &self.classes[bid.class];
        let demand = self.demand[class.set()].iter_mut();
        demand.zip(&class.requests).for_each(|(demand, wanted)| *demand = demand.saturating_sub(*wanted));
    }

    /// The cheapest machine that a claim may become.
    pub(crate) fn cheapest(&self, claim: &Claim) -> Option<Step> {
        self.outlooks.borrow().get(claim.outlook).ladder.get(claim.step).copied()
    }

    pub(crate) fn candidate(&self, number: usize, rung: usize, claim: usize) -> Candidate<'_, 'a> {
        let class = &self.classes[number];
        Candidate {
            class,
            rung: &class.rungs[rung],
            number: (number, rung),
            place: self.world.sites.len() + claim,
            turn: 0,
            rules: None,
        }
    }

    /// Claims that will never take such a pod.
    pub(super) fn closed_claims(&self, bid: Bid) -> &Bits {
        &self.memory[bid.class][bid.rung].closed_claims
    }

    fn close_site(&mut self, bid: Bid, number: usize) {
        let closed = &mut self.memory[bid.class][bid.rung].closed_sites;
        closed.grow(number + 1);
        closed.insert(number);
    }

    pub(super) fn close_claim(&mut self, bid: Bid, number: usize) {
        let closed = &mut self.memory[bid.class][bid.rung].closed_claims;
        closed.grow(number + 1);
        closed.insert(number);
    }

    pub(crate) fn taken(&self, site: usize) -> &Taken {
        &self.sites[site]
    }

    pub(crate) fn view<'v>(&'v self, lift: &'v Lift) -> View<'v, 'a> {
        View {
            world: self.world,
            topology: &self.topology,
            limits: &self.limits,
            reservations: &self.reservations,
            outlooks: &self.outlooks,
            lift,
        }
    }
}
