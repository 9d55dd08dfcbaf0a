//! One machine: the most that fractions of pods on it can be worth.

/// `asks` and `has` in units in which no number is far from one.
pub(super) struct Knapsack<'a> {
    pub(super) has: &'a [f64],
    /// What may be packed: the number of the class, what it asks for, what it is worth.
    pub(super) items: Vec<(usize, &'a [f64], f64)>,
}

pub(super) struct Packing {
    pub(super) worth: f64,
    /// How many pods of which classes; never more classes than resources.
    pub(super) pods: Vec<(usize, f64)>,
    /// What a unit of each resource is worth: the dual.
    pub(super) prices: Vec<f64>,
}

/// Below this a gain is taken for rounding.
const TOLERANCE: f64 = 1e-11;
const STEPS_MAX: usize = 500;

/// A primal simplex with as many rows as there are resources. It begins with nothing packed.
pub(super) fn best_packing(problem: &Knapsack<'_>) -> Packing {
    let rows = problem.has.len();
    // The inverse of the basis, row by row, and what each row holds: an item, or room that is left.
    let mut inverse: Vec<Vec<f64>> =
        (0..rows).map(|row| (0..rows).map(|column| f64::from(row == column)).collect()).collect();
    let mut basis: Vec<Option<usize>> = vec![None; rows];
    let mut amounts: Vec<f64> = problem.has.to_vec();
    let mut prices = vec![0.0; rows];
    for _ in 0..STEPS_MAX {
        let worth_of = |item: &Option<usize>| item.map_or(0.0, |item| problem.items[item].2);
        for (column, price) in prices.iter_mut().enumerate() {
            *price = (0..rows).map(|row| worth_of(&basis[row]) * inverse[row][column]).sum();
        }
        let Some(entering) = entering(problem, &prices) else { break };
        let (column, slot) = match entering {
            Entering::Item(item) => (problem.items[item].1.to_vec(), Some(item)),
            Entering::Room(row) => ((0..rows).map(|other| f64::from(other == row)).collect(), None),
        };
        let direction: Vec<f64> =
            inverse.iter().map(|row| row.iter().zip(&column).map(|(left, right)| left * right).sum()).collect();
        let Some(leaving) = leaving(&amounts, &direction) else { break };
        pivot(&mut inverse, &mut amounts, &direction, leaving);
        basis[leaving] = slot;
    }
    let packed =
        basis.iter().zip(&amounts).filter_map(|(item, amount)| Some((problem.items[(*item)?].0, amount.max(0.0))));
    let pods: Vec<(usize, f64)> = packed.filter(|(_, amount)| *amount > 0.0).collect();
    let prices: Vec<f64> = prices.iter().map(|price| price.max(0.0)).collect();
    let worth = prices.iter().zip(problem.has).map(|(price, has)| price * has).sum();
    Packing { worth, pods, prices }
}

enum Entering {
    Item(usize),
    /// Room of a resource is left over again.
    Room(usize),
}

/// Whatever is worth most more than the resources that it takes.
fn entering(problem: &Knapsack<'_>, prices: &[f64]) -> Option<Entering> {
    let mut best = (TOLERANCE, None);
    for (index, (_, asks, worth)) in problem.items.iter().enumerate() {
        let cost: f64 = asks.iter().zip(prices).map(|(ask, price)| ask * price).sum();
        let gain = (worth - cost) / (1.0 + worth.abs());
        if gain > best.0 {
            best = (gain, Some(Entering::Item(index)));
        }
    }
    for (row, price) in prices.iter().enumerate() {
        if -price > best.0 {
            best = (-price, Some(Entering::Room(row)));
        }
    }
    best.1
}

/// The row that runs out first.
fn leaving(amounts: &[f64], direction: &[f64]) -> Option<usize> {
    let rows = (0..amounts.len()).filter(|row| direction[*row] > 1e-9);
    rows.min_by(|a, b| (amounts[*a] / direction[*a]).total_cmp(&(amounts[*b] / direction[*b])))
}

pub(super) fn pivot(inverse: &mut [Vec<f64>], amounts: &mut [f64], direction: &[f64], leaving: usize) {
    let scale = 1.0 / direction[leaving];
    inverse[leaving].iter_mut().for_each(|entry| *entry *= scale);
    amounts[leaving] *= scale;
    let (pivot_row, pivot_amount) = (inverse[leaving].clone(), amounts[leaving]);
    for row in (0..direction.len()).filter(|row| *row != leaving && direction[*row] != 0.0) {
        let factor = direction[row];
        inverse[row].iter_mut().zip(&pivot_row).for_each(|(entry, pivot)| *entry -= factor * pivot);
        amounts[row] -= factor * pivot_amount;
    }
}
