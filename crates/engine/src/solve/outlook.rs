//! What a machine to come can still be, as far as its labels go.
//!
//! Claims narrow in the same few ways again and again, so every outlook is made once, numbered, and remembers what it
//! becomes under a set of demands. Joining a claim is then mostly a look-up.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use model::price::Price;

use super::bits::Bits;
use super::rooms::has_room;
use super::words::{Key, Mask, OTHER};
use super::world::World;

pub(crate) type OutlookId = usize;

/// Where more types than this are on sale, claims are not filled so far that fewer than so many of them would do: a shortage of
/// one must not matter.
const LONG_MENU: usize = 60;
const OPEN_TYPES: usize = 15;

/// The labels that a machine of a template can still have, and what is on sale for it.
pub(crate) struct Outlook {
    pub(crate) template: usize,
    pub(crate) states: Vec<Bits>,
    pub(crate) machines: Bits,
    pub(crate) shapes: Bits,
    /// The machines by their cheapest price, cheapest first.
    pub(crate) ladder: Vec<Step>,
    /// Of each step that somebody has asked about, whether enough types would do in its place.
    has_like: Box<[OnceCell<bool>]>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) price: Price,
    pub(crate) machine: usize,
}

/// A state that a label can come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Domain {
    pub(crate) state: usize,
    /// How many shapes of offerings lead to it.
    pub(crate) ways: i64,
}

/// Whether a machine has to be on sale to count. Only reasons look at those that are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stock {
    OnSale,
    Any,
}

/// All outlooks so far.
#[derive(Default)]
pub(crate) struct Outlooks {
    all: Vec<Rc<Outlook>>,
    /// Where every template starts; asked for with every claim.
    starts: BTreeMap<(usize, Stock), Option<OutlookId>>,
    index: BTreeMap<(usize, Stock, Vec<Bits>), Option<OutlookId>>,
    /// By outlook and number of a set of masks: not known yet, or what is left.
    masked: Vec<Vec<Option<Option<OutlookId>>>>,
    restricted: BTreeMap<(OutlookId, Key, Bits), Option<OutlookId>>,
    domains: BTreeMap<(OutlookId, Key), Rc<[Domain]>>,
}

impl Outlooks {
    pub(crate) fn get(&self, id: OutlookId) -> &Rc<Outlook> {
        &self.all[id]
    }

    /// Everything that a template can be.
    pub(crate) fn start(&mut self, world: &World<'_>, template: usize, stock: Stock) -> Option<OutlookId> {
        if let Some(known) = self.starts.get(&(template, stock)) {
            return *known;
        }
        let start = self.numbered(world, template, stock, world.templates[template].states.clone());
        self.starts.insert((template, stock), start);
        start
    }

    fn numbered(&mut self, world: &World<'_>, template: usize, stock: Stock, states: Vec<Bits>) -> Option<OutlookId> {
        let key = (template, stock, states);
        if let Some(known) = self.index.get(&key) {
            return *known;
        }
        let outlook = Outlook::new(world, template, stock, &key.2);
        let id = (!outlook.machines.is_empty()).then(|| {
            self.all.push(Rc::new(outlook));
            self.masked.push(Vec::new());
            self.all.len() - 1
        });
        self.index.insert(key, id);
        id
    }

    /// What is left when a label must be in one of these states.
    pub(crate) fn restricted(
        &mut self,
        world: &World<'_>,
        stock: Stock,
        id: OutlookId,
        key: Key,
        allowed: &Bits,
    ) -> Option<OutlookId> {
        let outlook = self.all[id].clone();
        if outlook.states[key].is_subset(allowed) {
            return Some(id);
        }
        let mut left = outlook.states[key].clone();
        left.keep(allowed);
        if left.is_empty() {
            return None;
        }
        if stock == Stock::Any {
            return self.numbered(world, outlook.template, stock, with_state(&outlook.states, key, left));
        }
        if let Some(known) = self.restricted.get(&(id, key, left.clone())) {
            return *known;
        }
        let found = self.numbered(world, outlook.template, stock, with_state(&outlook.states, key, left.clone()));
        self.restricted.insert((id, key, left), found);
        found
    }

    /// The states that a label can come to on some machine of an outlook.
    pub(crate) fn domains(&mut self, world: &World<'_>, id: OutlookId, key: Key) -> Rc<[Domain]> {
        let outlook = &self.all[id];
        let find = || {
            let mut left = outlook.states[key].clone();
            left.keep(&world.machines.states_of(key, &outlook.machines));
            left.keep(&world.machines.states_on_sale(key, &outlook.shapes, &world.words));
            // A value that nobody named cannot be asked for.
            let named = left.iter().filter(|state| *state != OTHER);
            let ways = |state: usize| i64::try_from(world.machines.ways_to_buy(key, state)).unwrap_or(i64::MAX);
            named.map(|state| Domain { state, ways: ways(state) }).collect()
        };
        self.domains.entry((id, key)).or_insert_with(find).clone()
    }

    /// What is left under a numbered set of masks.
    pub(crate) fn masked(&mut self, world: &World<'_>, id: OutlookId, set: usize, masks: &[Mask]) -> Option<OutlookId> {
        if let Some(Some(known)) = self.masked[id].get(set) {
            return *known;
        }
        let narrow = |id: OutlookId, mask: &Mask| self.restricted(world, Stock::OnSale, id, mask.key, &mask.states);
        let found = masks.iter().try_fold(id, narrow);
        let known = &mut self.masked[id];
        if known.len() <= set {
            known.resize(set + 1, None);
        }
        known[set] = Some(found);
        found
    }
}

fn with_state(states: &[Bits], key: Key, left: Bits) -> Vec<Bits> {
    let mut states = states.to_vec();
    states[key] = left;
    states
}

impl Outlook {
    fn new(world: &World<'_>, template: usize, stock: Stock, states: &[Bits]) -> Self {
        let start = &world.templates[template];
        let mut machines = start.machines.clone();
        for (key, left) in states.iter().enumerate().filter(|(key, left)| **left != start.states[*key]) {
            machines.keep(&world.machines.with_states(key, left));
        }
        let shapes = world.machines.shapes_for(|key| &states[key]);
        if stock == Stock::OnSale {
            machines.keep(&world.machines.on_sale_in(&shapes));
        }
        let step = |machine: usize| {
            let price = world.machines.cheapest_sale(machine, &shapes)?.price;
            Some(Step { price, machine })
        };
        let mut ladder: Vec<Step> = machines.iter().filter_map(step).collect();
        ladder.sort_by_key(|step| (step.price, step.machine));
        let has_like = vec![OnceCell::new(); if ladder.len() > LONG_MENU { ladder.len() } else { 0 }].into();
        Self { template, states: states.to_vec(), machines, shapes, ladder, has_like }
    }

    /// Whether a claim that fills a step's machine leaves enough types open: those that hold all that it holds. Where the menu is
    /// short there is nothing to be choosy about.
    pub(crate) fn is_replaceable(&self, world: &World<'_>, step: usize) -> bool {
        let Some(known) = self.has_like.get(step) else { return true };
        *known.get_or_init(|| {
            let room = world.templates[self.template].room(self.ladder[step].machine, world.machines.axes().len());
            // What holds as much mostly costs as much.
            self.has_choice(world, self.ladder[step..].iter().chain(&self.ladder[..step]), room)
        })
    }

    /// Whether a claim that asks for so much leaves enough types open. The step is the cheapest that holds it.
    pub(crate) fn leaves_choice(&self, world: &World<'_>, step: usize, requests: &[i64]) -> bool {
        self.is_replaceable(world, step) || self.has_choice(world, self.ladder[step..].iter(), requests)
    }

    fn has_choice<'s>(&self, world: &World<'_>, mut steps: impl Iterator<Item = &'s Step>, wanted: &[i64]) -> bool {
        let template = &world.templates[self.template];
        let mut names: Vec<usize> = Vec::with_capacity(OPEN_TYPES);
        steps.any(|step| {
            let name = world.machines.all[step.machine].name;
            if has_room(template.room(step.machine, wanted.len()), wanted) && !names.contains(&name) {
                names.push(name);
            }
            names.len() >= OPEN_TYPES
        })
    }
}
