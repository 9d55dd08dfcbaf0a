//! What if these nodes left? Thousands of such questions on one world.
//!
//! The world is lowered once, with every pod that may move as a pod of the question, seated where it stands. A question then
//! takes the pods of some sites out of all counts, looks for other places for them with the same rules as a plan does, and
//! puts everything back: it costs what it moves, not what there is. What it says about new machines is an estimate that
//! `solve` has to confirm; what it says about sites is final.

use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use model::ids::{NodeName, PodName};
use model::pod::Pod;
use model::resources::Resource;
use model::snapshot::Snapshot;
use model::taints::first_untolerated;
use model::volume::first_overfull;

use super::super::bits::Bits;
use super::super::catalogue::Catalogue;
use super::super::claims::conflict;
use super::super::classes::Class;
use super::super::hash::Finder;
use super::super::limits::Limits;
use super::super::pack::{least_worth, worth};
use super::super::rooms::Rooms;
use super::super::sites::{Site, Taken};
use super::super::topology::{Footprint, Ground, GroupId, Kept, Shift, Spot};
use super::super::walk::{Bound, Walk};
use super::super::words::hold_surely;
use super::super::world::World;
use super::super::{Question, on_world};
use super::{Bid, Greedy, Outcome, Seat};

/// How places are preferred: a number for each node, by what its pods are worth at the prices of new machines; the smallest is
/// tried first.
pub(crate) type Rank<'p> = &'p dyn Fn(&NodeName, f64) -> i64;

/// A world to ask about.
pub(crate) struct WhatIf<'w, 'a> {
    greedy: Greedy<'w, 'a>,
    site_at: Vec<usize>,
    rank_of: Vec<usize>,
    /// What is left on sites, by rank.
    rooms: Rooms,
    /// Ranks that take nobody: gone, or closed from the start.
    closed: Bits,
    /// Those, and the ones that the pod at hand passes by; kept for its memory.
    barred: Bits,
    /// Sites that nobody may be moved to, although pods might go there: they are not ready yet.
    unready: Bits,
    /// Where each pod stands in the queue.
    turn_of: Vec<usize>,
    pods_on: Vec<Vec<usize>>,
    /// What the pods of each site that may move are worth at the prices of new machines, in dollars per hour.
    pub(crate) worth_by_site: Vec<f64>,
    /// What the pods of each site that may move asked for before anybody left, and all of them together.
    asked_by_site: Vec<Vec<i64>>,
    asked: Vec<i64>,
    /// Pods that do not move, but count somewhere; by site.
    standing_on: Vec<Vec<usize>>,
    /// By manner and rung, ranks that can never suit, as far as anybody has looked.
    unsuited: Vec<Vec<Bits>>,
    kept: Kept,
    limits: Limits,
    bound: LeastPrices,
    log: Log,
    never: AtomicBool,
}

/// What a question has changed so far.
#[derive(Default)]
struct Log {
    gone: Vec<usize>,
    moved: Vec<usize>,
    /// Pods that were seated on sites, in their order.
    seated: Vec<(usize, usize)>,
    /// What sites held before pods with ports or volumes came.
    taken: Vec<(usize, Taken)>,
    touched: Vec<GroupId>,
}

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// How many pods found no place; nobody looks further than to the first.
    pub(crate) left_over: usize,
    /// The first of them.
    pub(crate) stuck: Option<usize>,
    /// Whether it ended because machines would cost too much.
    pub(crate) is_too_dear: bool,
    /// The first pod that would go to a site which is not ready, and that site.
    pub(crate) unready: Option<(usize, usize)>,
    /// How many machines would come, and what they cost at least, together.
    pub(crate) machines: usize,
    pub(crate) price_pico: i64,
}

impl Answer {
    /// What needs no look: machines would cost at least so much.
    pub(crate) fn too_dear(price_pico: i64) -> Self {
        Self { left_over: 1, stuck: None, is_too_dear: true, unready: None, machines: 1, price_pico }
    }
}

/// Lowers a world and lets somebody ask. The pods of the question are those that may move; where they stand is in the snapshot.
pub(crate) fn ask<R>(
    snapshot: &Snapshot,
    catalogue: &Catalogue,
    question: &Question<'_>,
    rank: Rank<'_>,
    asks: impl FnOnce(&mut WhatIf<'_, '_>) -> R,
) -> R {
    on_world(catalogue, snapshot, question, |world| asks(&mut WhatIf::new(world, rank)))
}

impl<'w, 'a> WhatIf<'w, 'a> {
    fn new(world: &'w World<'a>, rank: Rank<'_>) -> Self {
        let mut greedy = Greedy::new(world, u64::MAX);
        let mut turn_of = vec![0; world.pods.len()];
        greedy.queue().into_iter().enumerate().for_each(|(turn, pod)| turn_of[pod] = turn);
        greedy.values.typical = Some(Rc::new(greedy.demand.clone()));
        let pods_on = seat_where_they_stand(&mut greedy);
        greedy.demand.iter_mut().for_each(|row| row.fill(0));
        greedy.order.clear();
        let asked_by_site = sums_by_site(&greedy, &pods_on);
        let asked = total_of(&asked_by_site, world.machines.axes().len());
        let worth = worth_by_site(&greedy, &asked_by_site, &asked);
        let mut site_at: Vec<usize> = (0..world.sites.len()).collect();
        let key = |site: usize| {
            let node = world.sites[site].node;
            (!node.is_initialized(), rank(&node.name, worth[site]), site)
        };
        site_at.sort_by_cached_key(|site| key(*site));
        let mut rank_of = vec![0; site_at.len()];
        site_at.iter().enumerate().for_each(|(rank, site)| rank_of[*site] = rank);
        let mut rooms = greedy.free.without_places();
        let (mut closed, mut unready) = (Bits::empty(site_at.len()), Bits::empty(site_at.len()));
        for (rank, site) in site_at.iter().copied().enumerate() {
            let free = &greedy.sites[site].free;
            rooms.push(free);
            let is_overdrawn = world.sites[site].is_overdrawn || free.iter().any(|amount| *amount < 0);
            if !world.sites[site].takes_pods || is_overdrawn {
                closed.insert(rank);
            }
            if !world.sites[site].node.is_initialized() {
                unready.insert(site);
            }
        }
        let mut standing_on = vec![Vec::new(); site_at.len()];
        for (number, standing) in world.standing.iter().enumerate() {
            let footprint = &greedy.topology.standing[number];
            if !footprint.counted_in.is_empty() || !footprint.owns.is_empty() {
                standing_on[standing.site].push(number);
            }
        }
        // Whoever speaks for its manner remembers for all of it.
        let unsuited = greedy.classes.iter().enumerate().map(|(number, class)| match class.spokesman == number {
            true => vec![Bits::empty(site_at.len()); class.rungs.len()],
            false => Vec::new(),
        });
        let unsuited = unsuited.collect();
        let kept = greedy.topology.keep(&world.sites);
        let limits = greedy.limits.clone();
        let bound = LeastPrices::new(&greedy, &asked_by_site, &asked, (&rooms, &closed));
        let (log, never) = (Log::default(), AtomicBool::new(false));
        Self {
            greedy,
            site_at,
            rank_of,
            rooms,
            closed,
            barred: Bits::default(),
            unready,
            turn_of,
            pods_on,
            worth_by_site: worth,
            asked_by_site,
            asked,
            standing_on,
            unsuited,
            kept,
            limits,
            bound,
            log,
            never,
        }
    }

    /// The number of a node's site.
    pub(crate) fn sites(&self) -> impl Iterator<Item = (usize, &NodeName)> {
        self.greedy.world.sites.iter().map(|site| &site.node.name).enumerate()
    }

    /// The least that machines for all pods of these sites cost that do not fit into what is left on sites, in pico-dollars. It
    /// is a bound: what pods ask for, at prices per resource at which no machine is a bargain, less all room that some pod
    /// could have.
    pub(crate) fn least_price(&self, gone: &[usize]) -> i64 {
        let asked: f64 = gone.iter().map(|site| self.bound.by_site[*site]).sum();
        (((asked - self.bound.room) * 1e12) as i64).max(0)
    }

    /// Which part of all pods that may move would fill a site as it was at first, if every part of them were like the whole: what the
    /// cpu and memory of a machine are good for in this cluster.
    pub(crate) fn share_of_all(&self, site: usize) -> f64 {
        let axes = self.greedy.world.machines.axes().iter().enumerate();
        let weighed = axes.filter(|(_, resource)| matches!(resource, Resource::Cpu | Resource::Memory));
        let free = self.rooms.row(self.rank_of[site]);
        let share = |(axis, _): (usize, &Resource)| {
            let all = self.asked[axis];
            (all > 0).then(|| (free[axis].saturating_add(self.asked_by_site[site][axis])) as f64 / all as f64)
        };
        weighed.filter_map(share).fold(f64::MAX, f64::min).max(0.0)
    }

    /// What kind of node a site is: those of one kind hold pods of the same classes.
    pub(crate) fn classes_on(&self, site: usize) -> Vec<usize> {
        let mut classes: Vec<usize> = self.pods_on[site].iter().map(|pod| self.greedy.class_of[*pod]).collect();
        classes.sort_unstable();
        classes
    }

    /// The pod on a site that is just like one on another.
    pub(crate) fn twin_of(&self, pod: &PodName, from: usize, on: usize) -> Option<&'a PodName> {
        let class = |number: &&usize| self.greedy.class_of[**number];
        let one = self.pods_on[from].iter().find(|number| self.pod(**number).name == *pod)?;
        let twin = self.pods_on[on].iter().find(|number| class(number) == class(&one))?;
        Some(&self.pod(*twin).name)
    }

    /// Asks what would become of the pods of these sites if they left, and forgets it. Machines that together cost more than
    /// `most` are not thought through.
    pub(crate) fn ask(&mut self, gone: &[usize], most_pico: i64) -> Answer {
        let answer = self.leave(gone, most_pico);
        self.undo();
        answer
    }

    /// The same, and what was found becomes the world that is asked about from now on. Only for answers without machines.
    pub(crate) fn carry_out(&mut self, gone: &[usize]) -> Option<Vec<(usize, usize)>> {
        let answer = self.leave(gone, 0);
        if answer.left_over > 0 || answer.machines > 0 || answer.unready.is_some() {
            self.undo();
            return None;
        }
        let seated = std::mem::take(&mut self.log.seated);
        seated.iter().for_each(|(pod, site)| self.pods_on[*site].push(*pod));
        gone.iter().for_each(|site| self.pods_on[*site].clear());
        self.greedy.demand.iter_mut().for_each(|row| row.fill(0));
        self.greedy.topology.forget_reliance();
        self.greedy.topology.keep_changes(&mut self.kept, gone, &self.greedy.world.sites);
        self.limits = self.greedy.limits.clone();
        self.greedy.order.clear();
        self.log = Log::default();
        Some(seated)
    }

    pub(crate) fn pod(&self, number: usize) -> &'a Pod {
        self.greedy.world.pods[number]
    }

    fn leave(&mut self, gone: &[usize], most_pico: i64) -> Answer {
        self.take_out(gone);
        let mut pods = std::mem::take(&mut self.log.moved);
        pods.sort_unstable_by_key(|pod| self.turn_of[*pod]);
        let mut answer =
            Answer { left_over: 0, stuck: None, is_too_dear: false, unready: None, machines: 0, price_pico: 0 };
        let mut machines = 0;
        for (number, pod) in pods.iter().copied().enumerate() {
            let seated = self.place(pod);
            // Prices are added up when there is one machine more, and in the end.
            if self.greedy.claims.len() > machines || number + 1 == pods.len() {
                machines = self.greedy.claims.len();
                answer.is_too_dear = self.price_pico() > most_pico;
            }
            if !seated || answer.is_too_dear {
                (answer.left_over, answer.stuck) = (pods.len() - number, Some(pod));
                break;
            }
        }
        answer.unready = self.log.seated.iter().find(|(_, site)| self.unready.contains(*site)).copied();
        (answer.machines, answer.price_pico) = (self.greedy.claims.len(), self.price_pico());
        self.log.moved = pods;
        answer
    }

    fn price_pico(&self) -> i64 {
        let prices = self.greedy.claims.iter().filter_map(|claim| self.greedy.cheapest(claim));
        prices.fold(0, |sum: i64, step| sum.saturating_add(step.price.pico()))
    }

    /// Takes sites away, and everybody on them out of all counts.
    fn take_out(&mut self, gone: &[usize]) {
        let greedy = &mut self.greedy;
        let world = greedy.world;
        for site in gone.iter().copied() {
            self.closed.insert(self.rank_of[site]);
            greedy.limits.leave(world, world.sites[site].node);
            for pod in &self.pods_on[site] {
                let class = &greedy.classes[greedy.class_of[*pod]];
                greedy.topology.take_out(&class.footprint, &spot(&world.sites, site));
                self.log.touch(&class.footprint);
                self.log.touched.extend(class.rungs.iter().flat_map(|rung| &rung.rules).map(|rule| rule.group()));
                let demand = greedy.demand[class.set()].iter_mut();
                demand.zip(&class.requests).for_each(|(demand, wanted)| *demand = demand.saturating_add(*wanted));
            }
            for number in &self.standing_on[site] {
                let footprint = greedy.topology.standing[*number].clone();
                greedy.topology.take_out(&footprint, &spot(&world.sites, site));
                self.log.touch(&footprint);
            }
            self.log.moved.extend(&self.pods_on[site]);
        }
        self.log.gone.extend(gone);
        self.log.touched.sort_unstable();
        self.log.touched.dedup();
        // Machines that come with the question matter only to who is in it.
        greedy.topology.hear(&self.log.touched);
        for id in &self.log.touched {
            greedy.topology.leave_out(&self.kept, *id, gone, &world.sites);
        }
    }

    /// Finds a place for a pod: rung by rung, on a site, on a machine of this question, on one more.
    fn place(&mut self, pod: usize) -> bool {
        let class = self.greedy.class_of[pod];
        if self.greedy.classes[class].pod.wants.has_resource_claims {
            return false;
        }
        let classes = self.greedy.classes.clone();
        for rung in 0..classes[class].rungs.len() {
            let mut walk = self.greedy.walk(&classes[class], rung);
            if let Some(site) = self.next_site(&classes[class], rung, &walk) {
                self.greedy.topology.rely(&classes[class].rungs[rung].rules);
                self.seat(pod, site);
                return true;
            }
            if self.place_on_machine(Bid { pod, class, rung, is_choosy: false }, &mut walk) {
                return true;
            }
        }
        false
    }

    fn place_on_machine(&mut self, bid: Bid, walk: &mut Walk<'_>) -> bool {
        let (greedy, never) = (&mut self.greedy, &self.never);
        greedy.bar(bid, walk);
        for bound in [Bound::Price, Bound::Goal] {
            if greedy.seat_on_claim(bid, bound, walk, &mut 0, never).unwrap_or(false) {
                return true;
            }
        }
        match greedy.seat_on_new_claim(bid, walk, 0, never) {
            Ok(Outcome::Seated) => true,
            _ => greedy.seat_on_claim(bid, Bound::Anything, walk, &mut 0, never).unwrap_or(false),
        }
    }

    /// The first site by preference that takes a pod.
    fn next_site(&mut self, class: &Class<'_>, rung: usize, walk: &Walk<'_>) -> Option<usize> {
        let wanted = &class.rungs[rung];
        self.barred.clone_from(&self.closed);
        self.barred.add_all(&self.unsuited[class.spokesman][rung]);
        let mut from = 0;
        loop {
            let rank = self.rooms.next(from, &class.requests, &self.barred)?;
            from = rank + 1;
            let number = self.site_at[rank];
            let site = &self.greedy.world.sites[number];
            let suits_ever = first_untolerated(&site.node.taints, &wanted.tolerations).is_none()
                && hold_surely(&wanted.masks, &site.states)
                && wanted.places.iter().any(|place| hold_surely(&place.masks, &site.states));
            if !suits_ever {
                self.unsuited[class.spokesman][rung].insert(rank);
                continue;
            }
            let (wants, taken) = (&class.pod.wants, &self.greedy.sites[number]);
            let is_free = !conflict(&wants.ports, &taken.ports)
                && first_overfull(&taken.attached, &wants.volumes.attached, &site.attach_limits).is_none();
            let spot = spot(&self.greedy.world.sites, number);
            if is_free && walk.rules.iter().all(|rule| rule.holds(&self.greedy.topology, &spot)) {
                return Some(number);
            }
        }
    }

    fn seat(&mut self, pod: usize, site: usize) {
        let greedy = &mut self.greedy;
        let class = &greedy.classes[greedy.class_of[pod]];
        self.rooms.take(self.rank_of[site], &class.requests);
        let wants = &class.pod.wants;
        if !wants.ports.is_empty() || !wants.volumes.attached.is_empty() {
            self.log.taken.push((site, greedy.sites[site].clone()));
            let taken = &mut greedy.sites[site];
            taken.ports.extend(wants.ports.iter().cloned());
            for (driver, volumes) in &wants.volumes.attached {
                taken.attached.entry(driver.clone()).or_default().extend(volumes.iter().cloned());
            }
        }
        greedy.topology.add(&class.footprint, &spot(&greedy.world.sites, site));
        let demand = greedy.demand[class.set()].iter_mut();
        demand.zip(&class.requests).for_each(|(demand, wanted)| *demand = demand.saturating_sub(*wanted));
        self.log.seated.push((pod, site));
    }

    fn undo(&mut self) {
        let mut log = std::mem::take(&mut self.log);
        let greedy = &mut self.greedy;
        let world = greedy.world;
        for (pod, site) in &log.seated {
            let requests = &greedy.classes[greedy.class_of[*pod]].requests;
            let back: Vec<i64> = requests.iter().map(|wanted| -wanted).collect();
            self.rooms.take(self.rank_of[*site], &back);
        }
        for (site, taken) in log.taken.drain(..).rev() {
            greedy.sites[site] = taken;
        }
        greedy.topology.forget_reliance();
        log.touched.iter().for_each(|id| greedy.topology.put_back(&self.kept, *id, world.sites.len()));
        for (pod, site) in &log.seated {
            shift(greedy, *pod, *site, Shift::Out);
        }
        for site in log.gone.iter().copied() {
            self.closed.remove(self.rank_of[site]);
            self.pods_on[site].iter().for_each(|pod| shift(greedy, *pod, site, Shift::In));
            for number in &self.standing_on[site] {
                let footprint = greedy.topology.standing[*number].clone();
                greedy.topology.shift_on_host(&footprint, &spot(&world.sites, site), Shift::In);
            }
        }
        forget_claims(greedy, &log.moved);
        greedy.limits = self.limits.clone();
    }
}

impl Log {
    fn touch(&mut self, footprint: &Footprint) {
        self.touched.extend(footprint.counted_in.iter().chain(&footprint.owns));
    }
}

fn spot<'s>(sites: &'s [Site<'_>], site: usize) -> Spot<'s> {
    Spot { place: site, ground: Ground::Site(site), states: &sites[site].states }
}

fn shift(greedy: &mut Greedy<'_, '_>, pod: usize, site: usize, shift: Shift) {
    let class = &greedy.classes[greedy.class_of[pod]];
    greedy.topology.shift_on_host(&class.footprint, &spot(&greedy.world.sites, site), shift);
}

/// Machines of a question are gone with it, and with them all that pods have learned about them.
fn forget_claims(greedy: &mut Greedy<'_, '_>, moved: &[usize]) {
    greedy.demand.iter_mut().for_each(|row| row.fill(0));
    greedy.order.clear();
    if greedy.claims.is_empty() {
        return;
    }
    greedy.claims.clear();
    greedy.snug.clear();
    greedy.slack.clear();
    greedy.by_state.clear();
    greedy.reservations = greedy.world.reservations.clone();
    for pod in moved {
        let class = greedy.class_of[*pod];
        greedy.deferred[class] = false;
        greedy.memory[class].iter_mut().for_each(|memory| memory.closed_claims = Bits::default());
    }
}

/// Numbers for a bound on prices, in dollars per hour.
#[derive(Default)]
struct LeastPrices {
    by_site: Vec<f64>,
    /// What is left on all sites together that some pod could use.
    room: f64,
}

impl LeastPrices {
    fn new(greedy: &Greedy<'_, '_>, sums: &[Vec<i64>], total: &[i64], (rooms, closed): (&Rooms, &Bits)) -> Self {
        let axes = greedy.world.machines.axes().len();
        let prices = least_worth(greedy, total);
        let least: Vec<i64> =
            (0..axes).map(|axis| greedy.least.iter().map(|least| least[axis]).min().unwrap_or(0)).collect();
        let mut room = 0.0;
        let mut from = 0;
        while let Some(rank) = rooms.next(from, &least, closed) {
            room += prices.of(rooms.row(rank).iter().copied());
            from = rank + 1;
        }
        Self { by_site: sums.iter().map(|sum| prices.of(sum.iter().copied())).collect(), room }
    }
}

fn sums_by_site(greedy: &Greedy<'_, '_>, pods_on: &[Vec<usize>]) -> Vec<Vec<i64>> {
    let axes = greedy.world.machines.axes().len();
    let sum = |pods: &[usize]| {
        let mut sum = vec![0_i64; axes];
        for requests in pods.iter().map(|pod| &greedy.classes[greedy.class_of[*pod]].requests) {
            sum.iter_mut().zip(requests).for_each(|(sum, wanted)| *sum = sum.saturating_add(*wanted));
        }
        sum
    };
    pods_on.iter().map(|pods| sum(pods)).collect()
}

fn total_of(sums: &[Vec<i64>], axes: usize) -> Vec<i64> {
    let mut total = vec![0_i64; axes];
    sums.iter().for_each(|row| total.iter_mut().zip(row).for_each(|(sum, own)| *sum = sum.saturating_add(*own)));
    total
}

fn worth_by_site(greedy: &Greedy<'_, '_>, sums: &[Vec<i64>], total: &[i64]) -> Vec<f64> {
    let worth = worth(greedy, total);
    sums.iter().map(|sum| worth.of(sum.iter().copied())).collect()
}

/// Puts every pod that may move where it stands, whether it fits or not, and says who stands on each site.
fn seat_where_they_stand(greedy: &mut Greedy<'_, '_>) -> Vec<Vec<usize>> {
    let world = greedy.world;
    let by_name = Finder::new(world.sites.iter().map(|site| &site.node.name));
    let mut pods_on = vec![Vec::new(); world.sites.len()];
    for (pod, standing) in world.pods.iter().enumerate() {
        let place = |name: &NodeName| by_name.find(name, |place| world.sites[place].node.name == *name);
        let Some(site) = standing.node.as_ref().and_then(place) else { continue };
        let class = &greedy.classes[greedy.class_of[pod]];
        let taken = &mut greedy.sites[site];
        taken.free.iter_mut().zip(&class.requests).for_each(|(free, wanted)| *free = free.saturating_sub(*wanted));
        taken.ports.extend(class.pod.wants.ports.iter().cloned());
        for (driver, volumes) in &class.pod.wants.volumes.attached {
            taken.attached.entry(driver.clone()).or_default().extend(volumes.iter().cloned());
        }
        greedy.topology.add(&class.footprint, &spot(&world.sites, site));
        greedy.seats[pod] = Some(Seat::Site(site));
        pods_on[site].push(pod);
    }
    pods_on
}
