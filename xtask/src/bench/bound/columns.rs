//! The relaxation, solved by columns: each is one machine filled with fractions of pods, and new ones are made while they help.

use super::knapsack::{Knapsack, best_packing, pivot};
use super::problem::{Filling, Problem};

/// Stop when the bound is this close to the optimum.
const GAP: f64 = 1e-7;
const STEPS_MAX: usize = 20_000;

/// The problem in units in which no number is far from one.
pub(super) struct Scaled {
    pub(super) asks: Vec<Vec<f64>>,
    pub(super) has: Vec<Vec<f64>>,
    pub(super) free: Vec<f64>,
    /// What each resource was divided by.
    pub(super) units: Vec<f64>,
    prices: Vec<f64>,
}

impl Scaled {
    pub(super) fn of(problem: &Problem) -> Self {
        let axes = problem.free.len();
        let most = |axis: usize| problem.classes.iter().map(|class| class.asks[axis]).max().unwrap_or(1).max(1) as f64;
        let units: Vec<f64> = (0..axes).map(most).collect();
        let scale = |amounts: &[i64]| amounts.iter().zip(&units).map(|(amount, unit)| *amount as f64 / unit).collect();
        Self {
            asks: problem.classes.iter().map(|class| scale(&class.asks)).collect(),
            has: problem.machines.iter().map(|machine| scale(&machine.has)).collect(),
            free: scale(&problem.free),
            prices: problem.machines.iter().map(|machine| machine.price_pico as f64 / 1e12).collect(),
            units,
        }
    }
}

/// A fraction of a machine, or of all free room, or more of a class than was asked for.
struct Column {
    cost: f64,
    /// Row and entry. The row after the classes says how much of the free room is used.
    entries: Vec<(usize, f64)>,
}

/// What a pod of each class is worth in dollars, at the optimum or near it.
pub(super) fn class_worths(problem: &Problem) -> Vec<f64> {
    let scaled = Scaled::of(problem);
    let classes = problem.classes.len();
    let rows = classes + 1;
    let Some(start) = first_columns(problem, &scaled) else { return vec![0.0; classes] };
    let mut inverse: Vec<Vec<f64>> = vec![vec![0.0; rows]; rows];
    let mut amounts: Vec<f64> = vec![1.0; rows];
    for (row, column) in start.iter().enumerate() {
        inverse[row][row] = 1.0 / column.entries[0].1;
        if let Some(class) = problem.classes.get(row) {
            amounts[row] = class.pods as f64 / column.entries[0].1;
        }
    }
    let mut costs: Vec<f64> = start.iter().map(|column| column.cost).collect();
    let mut best: (f64, Vec<f64>) = (-1.0, vec![0.0; classes]);
    for _ in 0..STEPS_MAX {
        let worths: Vec<f64> =
            (0..rows).map(|column| (0..rows).map(|row| costs[row] * inverse[row][column]).sum()).collect();
        let offer = best_column(problem, &scaled, &worths);
        // Worths that are too high for some machine become a bound when all are lowered alike.
        let scale = offer.scale;
        let spent: f64 =
            problem.classes.iter().zip(&worths).map(|(class, worth)| class.pods as f64 * worth.max(0.0)).sum();
        let bound = scale * spent + offer.room_cost * scale;
        if bound > best.0 {
            best = (bound, worths[..classes].iter().map(|worth| worth.max(0.0) * scale).collect());
        }
        let value: f64 = costs.iter().zip(&amounts).map(|(cost, amount)| cost * amount).sum();
        let Some(column) = offer.column else { break };
        if value - best.0 <= GAP * value.abs() {
            break;
        }
        let mut direction = vec![0.0; rows];
        for (row, entry) in &column.entries {
            direction.iter_mut().zip(&inverse).for_each(|(sum, line)| *sum += line[*row] * entry);
        }
        let candidates = (0..rows).filter(|row| direction[*row] > 1e-9);
        let ratio = |row: &usize| amounts[*row] / direction[*row];
        let Some(leaving) = candidates.min_by(|a, b| ratio(a).total_cmp(&ratio(b))) else { break };
        pivot(&mut inverse, &mut amounts, &direction, leaving);
        costs[leaving] = column.cost;
    }
    best.1
}

/// For each class the machine on which it alone costs least, and the free room unused. `None` when a class fits nowhere.
fn first_columns(problem: &Problem, scaled: &Scaled) -> Option<Vec<Column>> {
    let mut columns = Vec::new();
    for class in 0..problem.classes.len() {
        let per_machine = |machine: usize| {
            if let Some(fillings) = &problem.machines[machine].fillings {
                let counts = fillings.iter().flatten().filter(|(known, _)| *known == class);
                return counts.map(|(_, count)| *count).max().unwrap_or(1) as f64;
            }
            let ratios = scaled.has[machine].iter().zip(&scaled.asks[class]).filter(|(_, ask)| **ask > 0.0);
            ratios.map(|(has, ask)| has / ask).fold(f64::INFINITY, f64::min).min(1e9)
        };
        let suiting = (0..problem.machines.len()).filter(|machine| problem.machines[*machine].suits.contains(&class));
        let cheapest = suiting
            .min_by(|a, b| (scaled.prices[*a] / per_machine(*a)).total_cmp(&(scaled.prices[*b] / per_machine(*b))));
        // A class that only standing nodes can hold is as good as free: it is taken to fit there.
        columns.push(match cheapest {
            Some(machine) => Column { cost: scaled.prices[machine], entries: vec![(class, per_machine(machine))] },
            None if problem.free.iter().any(|free| *free > 0) => Column { cost: 0.0, entries: vec![(class, 1.0)] },
            None => return None,
        });
    }
    columns.push(Column { cost: 0.0, entries: vec![(problem.classes.len(), 1.0)] });
    Some(columns)
}

struct Offer {
    column: Option<Column>,
    /// By how much all worths must be multiplied, so that no machine can be filled with more worth than it costs.
    scale: f64,
    /// What the free room takes off the bound, never more than zero.
    room_cost: f64,
}

/// The machine that can be filled with most worth for its price.
fn best_column(problem: &Problem, scaled: &Scaled, worths: &[f64]) -> Offer {
    let classes = problem.classes.len();
    let mut offer = Offer { column: None, scale: 1.0, room_cost: 0.0 };
    // Giving a class more than it asked for costs nothing; worth below zero asks for that.
    let mut best = 1e-9;
    for class in (0..classes).filter(|class| worths[*class] < -1e-12) {
        if -worths[class] > best {
            best = -worths[class];
            offer.column = Some(Column { cost: 0.0, entries: vec![(class, -1.0)] });
        }
    }
    for (index, machine) in problem.machines.iter().enumerate() {
        let (worth, entries) = match &machine.fillings {
            Some(fillings) => best_filling(fillings, worths),
            None => {
                let items = machine.suits.iter().filter(|class| worths[**class] > 0.0);
                let items = items.map(|class| (*class, &*scaled.asks[*class], worths[*class])).collect();
                let packing = best_packing(&Knapsack { has: &scaled.has[index], items });
                (packing.worth, packing.pods)
            }
        };
        let price = scaled.prices[index];
        if worth > price {
            offer.scale = offer.scale.min(price / worth);
        }
        let gain = (worth - price) / price.max(1e-9);
        if gain > best {
            best = gain;
            offer.column = Some(Column { cost: price, entries });
        }
    }
    if scaled.free.iter().any(|free| *free > 0.0) {
        let items = (0..classes).filter(|class| worths[*class] > 0.0);
        let items = items.map(|class| (class, &*scaled.asks[class], worths[class])).collect();
        let packing = best_packing(&Knapsack { has: &scaled.free, items });
        offer.room_cost = -packing.worth;
        let gain = packing.worth + worths[classes];
        if gain > best {
            let room = (classes, 1.0);
            offer.column = Some(Column { cost: 0.0, entries: packing.pods.into_iter().chain([room]).collect() });
        }
    }
    offer
}

/// The listed filling that is worth most, without pods that would take worth away: a column must gain what it promises.
fn best_filling(fillings: &[Filling], worths: &[f64]) -> (f64, Vec<(usize, f64)>) {
    let worth =
        |filling: &Filling| filling.iter().map(|(class, count)| worths[*class].max(0.0) * *count as f64).sum::<f64>();
    let best = fillings.iter().map(|filling| (worth(filling), filling)).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or_else(
        || (0.0, Vec::new()),
        |(worth, filling)| {
            let useful = filling.iter().filter(|(class, _)| worths[*class] > 0.0);
            (worth, useful.map(|(class, count)| (*class, *count as f64)).collect())
        },
    )
}
