//! Machines filled one after the other, each with what really fits.
//!
//! The largest pod that is left needs a machine. Of all that hold it the one is taken that costs least for the worth of what
//! it would then hold; a guess by its size alone would not see that the pods at hand leave half its memory empty.

use model::resources::Resource;

use super::super::outlook::{OutlookId, Step};
use super::super::rooms::has_room;
use super::{Bin, Cost, Puzzle, add};

/// Machines that are tried for one pod: those that would cost least for their worth if they were full.
const MOST_MACHINES: usize = 12;

/// Pods of one class that are left.
struct Rest {
    class: usize,
    pods: Vec<usize>,
    /// What one of them asks for.
    main: Main,
}

/// Amounts of cpu and memory.
#[derive(Clone, Copy, Debug, Default)]
struct Main {
    cpu: f64,
    memory: f64,
}

impl Main {
    fn of(axes: &[Resource], amounts: &[i64]) -> Self {
        let amount = |wanted: &Resource| axes.iter().zip(amounts).find(|(axis, _)| *axis == wanted);
        let amount = |wanted: &Resource| amount(wanted).map_or(0.0, |(_, amount)| *amount as f64);
        Self { cpu: amount(&Resource::Cpu), memory: amount(&Resource::Memory) }
    }

    /// How much larger a share of a machine's memory this is than of its cpu.
    fn tilt(self, room: Self) -> f64 {
        self.memory / room.memory.max(1.0) - self.cpu / room.cpu.max(1.0)
    }
}

/// A machine with what it would hold.
struct Filled {
    template: usize,
    requests: Vec<i64>,
    /// How many of each class it takes.
    taken: Vec<usize>,
    cost: Cost,
    /// What it costs for what it holds.
    ratio: f64,
}

/// Classes of one kind, largest first, and the one whose turn it is.
#[derive(Default)]
struct Turns {
    classes: Vec<usize>,
    next: usize,
}

impl Turns {
    fn is_over(&self) -> bool {
        self.next >= self.classes.len()
    }
}

/// A machine as it is filled.
struct Fill {
    template: usize,
    outlook: OutlookId,
    machine: usize,
    requests: Vec<i64>,
    taken: Vec<usize>,
    /// Classes on it that care who shares their host.
    held: Vec<usize>,
}

impl Puzzle<'_, '_, '_> {
    /// A packing of these pods; claims that stay get what costs nothing more there.
    pub(super) fn refilled(&mut self, fixed: &[Bin], pods: &[usize], templates: &[usize]) -> Option<Vec<Bin>> {
        let mut rest = self.by_size(pods);
        let mut bins = Vec::new();
        for bin in fixed {
            let (_, cost) = self.cheapest(bin.template, bin.outlook, 0, &bin.base)?;
            let bin = Bin { pods: Vec::new(), cost, ..bin.clone() };
            bins.push(self.topped_up(bin, &mut rest)?);
        }
        while rest.iter().any(|rest| !rest.pods.is_empty()) {
            let filled = self.best_filled(&rest, templates)?;
            let mut pods = Vec::new();
            for (rest, taken) in rest.iter_mut().zip(&filled.taken) {
                pods.extend(rest.pods.drain(rest.pods.len() - taken..));
            }
            let (template, base) = (filled.template, vec![0; filled.requests.len()]);
            bins.push(Bin { template, outlook: self.start(template)?, fixed: None, base, pods, cost: filled.cost });
        }
        Some(bins)
    }

    /// Classes by what a pod of them is worth, dearest first.
    fn by_size(&self, pods: &[usize]) -> Vec<Rest> {
        let mut sorted: Vec<usize> = pods.to_vec();
        sorted.sort_by_key(|pod| (self.greedy.class_of[*pod], *pod));
        let mut rest: Vec<Rest> = sorted
            .chunk_by(|a, b| self.greedy.class_of[*a] == self.greedy.class_of[*b])
            .map(|pods| {
                let class = self.greedy.class_of[pods[0]];
                let main = Main::of(self.greedy.world.machines.axes(), &self.greedy.classes[class].requests);
                Rest { class, pods: pods.to_vec(), main }
            })
            .collect();
        let worth = |rest: &Rest| self.worth(&self.greedy.classes[rest.class].requests);
        rest.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then(a.class.cmp(&b.class)));
        rest
    }

    /// A claim that stays, with everything that fits on the machine that it needs anyway.
    fn topped_up(&mut self, mut bin: Bin, rest: &mut [Rest]) -> Option<Bin> {
        let mut outlook = bin.outlook;
        let (step, _) = self.cheapest(bin.template, outlook, 0, &bin.base)?;
        let start = self.greedy.outlooks.borrow().get(outlook).clone();
        if !start.is_replaceable(self.greedy.world, step) {
            return Some(bin);
        }
        let machine = start.ladder[step].machine;
        let mut requests = bin.base.clone();
        for rest in rest.iter_mut().filter(|rest| !rest.pods.is_empty()) {
            if !self.may_look(1) {
                return None;
            }
            let is_free = self.suits_fixed(&bin, rest.pods[0])
                && !bin.pods.iter().any(|pod| self.clash(rest.class, self.greedy.class_of[*pod]));
            let Some(joined) = self.joined(bin.template, outlook, rest.pods[0]).filter(|_| is_free) else { continue };
            if joined != outlook && !self.greedy.outlooks.borrow().get(joined).machines.contains(machine) {
                continue;
            }
            let taken = self.fitting(bin.template, machine, &requests, rest.class, rest.pods.len());
            if taken > 0 {
                outlook = joined;
                (0..taken).for_each(|_| add(&mut requests, &self.greedy.classes[rest.class].requests));
                bin.pods.extend(rest.pods.drain(rest.pods.len() - taken..));
            }
        }
        // A narrower choice may cost more for the same machine.
        let (_, cost) = self.cheapest(bin.template, outlook, 0, &requests)?;
        bin.cost = cost;
        Some(bin)
    }

    /// How many pods of a class fit beside what a machine holds.
    fn fitting(&self, template: usize, machine: usize, held: &[i64], class: usize, most: usize) -> usize {
        let class_number = class;
        let class = &self.greedy.classes[class];
        let room = self.greedy.world.templates[template].room(machine, held.len());
        let axes = room.iter().zip(held).zip(&class.requests).filter(|(_, wanted)| **wanted > 0);
        let by_axis = axes.map(|((room, held), wanted)| (room.saturating_sub(*held).max(0) / wanted) as usize);
        let fitting = by_axis.min().unwrap_or(most).min(most);
        if self.clash(class_number, class_number) { fitting.min(1) } else { fitting }
    }

    fn best_filled(&mut self, rest: &[Rest], templates: &[usize]) -> Option<Filled> {
        let first = rest.iter().position(|rest| !rest.pods.is_empty())?;
        let mut left = vec![0_i64; self.greedy.world.machines.axes().len()];
        for rest in rest {
            let one = left.iter_mut().zip(&self.greedy.classes[rest.class].requests);
            one.for_each(|(sum, wanted)| *sum = sum.saturating_add(wanted.saturating_mul(rest.pods.len() as i64)));
        }
        let mut best: Option<Filled> = None;
        for template in templates {
            let Some(start) = self.start(*template) else { continue };
            let Some(outlook) = self.joined(*template, start, rest[first].pods[0]) else { continue };
            let requests = &self.greedy.classes[rest[first].class].requests;
            for machine in self.promising(*template, outlook, requests, &left) {
                if !self.may_look(looks_to_fill(rest)) {
                    return None;
                }
                let Some(filled) = self.filled(*template, outlook, machine, rest, first) else { continue };
                if best.as_ref().is_none_or(|best| filled.ratio < best.ratio * (1.0 - 1e-9)) {
                    best = Some(filled);
                }
            }
        }
        best
    }

    /// Machines that hold a pod, by what they would cost for the worth of what the pods that are left can use of them.
    fn promising(&self, template: usize, outlook: OutlookId, requests: &[i64], left: &[i64]) -> Vec<usize> {
        let outlook = self.greedy.outlooks.borrow().get(outlook).clone();
        let template = &self.greedy.world.templates[template];
        let holds = |step: &&Step| has_room(template.room(step.machine, requests.len()), requests);
        let ratio = |step: &Step| {
            let room = template.room(step.machine, left.len()).iter();
            let usable: Vec<i64> = room.zip(left).map(|(room, left)| *room.min(left)).collect();
            let worth = self.worth(&usable).max(f64::MIN_POSITIVE);
            ((step.price.dollars() + self.greedy.world.node_fee) / worth, step.machine)
        };
        let holding = || outlook.ladder.iter().enumerate().filter(|(_, step)| holds(step));
        let replaceable = holding().filter(|(number, _)| outlook.is_replaceable(self.greedy.world, *number));
        let mut machines: Vec<(f64, usize)> = replaceable.map(|(_, step)| ratio(step)).collect();
        if machines.is_empty() {
            machines = holding().map(|(_, step)| ratio(step)).collect();
        }
        machines.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        machines.into_iter().map(|(_, machine)| machine).take(MOST_MACHINES).collect()
    }

    /// A machine, filled from the largest class down. Classes that ask for more of its cpu take turns with those that ask
    /// for more of its memory, so that neither is left over.
    fn filled(
        &self,
        template: usize,
        outlook: OutlookId,
        machine: usize,
        rest: &[Rest],
        first: usize,
    ) -> Option<Filled> {
        let mut fill = Fill {
            template,
            outlook,
            machine,
            requests: vec![0; self.greedy.world.machines.axes().len()],
            taken: vec![0; rest.len()],
            held: Vec::new(),
        };
        // The pod that needs a machine is on it in any case.
        self.take(&mut fill, rest, first);
        let room = self.greedy.world.templates[template].room(machine, fill.requests.len());
        let main = Main::of(self.greedy.world.machines.axes(), room);
        let mut held = rest[first].main;
        let is_rich = |class: &usize| rest[*class].main.tilt(main) > 0.0;
        let (mut rich, mut lean) = (Turns::default(), Turns::default());
        for class in first..rest.len() {
            if is_rich(&class) { rich.classes.push(class) } else { lean.classes.push(class) }
        }
        while !rich.is_over() || !lean.is_over() {
            let is_richs_turn = held.tilt(main) <= 0.0;
            let turns = if lean.is_over() || (is_richs_turn && !rich.is_over()) { &mut rich } else { &mut lean };
            let class = turns.classes[turns.next];
            if self.takes_one(&fill, room, &rest[class], class) {
                self.take(&mut fill, rest, class);
                held.cpu += rest[class].main.cpu;
                held.memory += rest[class].main.memory;
            } else {
                turns.next += 1;
            }
        }
        let (_, cost) = self.cheapest(template, fill.outlook, 0, &fill.requests)?;
        let worth = self.worth(&fill.requests).max(f64::MIN_POSITIVE);
        Some(Filled { template, requests: fill.requests, taken: fill.taken, cost, ratio: cost as f64 / worth })
    }

    /// Takes a pod of a class onto a machine, if its labels let it.
    fn take(&self, fill: &mut Fill, rest: &[Rest], class: usize) {
        let (one, number) = (&rest[class], rest[class].class);
        let Some(joined) = self.joined(fill.template, fill.outlook, one.pods[0]) else { return };
        add(&mut fill.requests, &self.greedy.classes[number].requests);
        fill.outlook = joined;
        if fill.taken[class] == 0
            && (!self.greedy.classes[number].footprint.counted_in.is_empty() || self.owns_any(number))
        {
            fill.held.push(number);
        }
        fill.taken[class] += 1;
    }

    /// Whether a machine holds one more pod of a class.
    fn takes_one(&self, fill: &Fill, room: &[i64], one: &Rest, class: usize) -> bool {
        let wanted = &self.greedy.classes[one.class].requests;
        let mut axes = room.iter().zip(&fill.requests).zip(wanted);
        if fill.taken[class] == one.pods.len()
            || !axes.all(|((room, held), wanted)| *wanted <= 0 || held.saturating_add(*wanted) <= *room)
            || fill.held.iter().any(|held| self.clash(*held, one.class))
        {
            return false;
        }
        let joined = self.joined(fill.template, fill.outlook, one.pods[0]);
        joined.is_some_and(|joined| {
            joined == fill.outlook || self.greedy.outlooks.borrow().get(joined).machines.contains(fill.machine)
        })
    }

    fn owns_any(&self, class: usize) -> bool {
        !self.greedy.classes[class].footprint.owns.is_empty()
    }
}

/// What filling a machine from these classes is worth in looks.
fn looks_to_fill(rest: &[Rest]) -> u64 {
    let pods: usize = rest.iter().map(|rest| rest.pods.len()).sum();
    1 + (rest.len() + pods.min(100)) as u64 / 4
}
