//! A lower bound that rests on whole numbers alone.
//!
//! The dual program: give each class of pods a worth, so that no machine can be filled with more worth than it costs. Then all pods
//! together cost at least their worth. The worths come from floating point; here they are made whole numbers and lowered until the
//! first sentence holds exactly. For a small machine every filling is looked at. For a large one the dual of its own little program
//! does: prices for its resources that come to no more than it costs; a pod is worth no more than its amounts at these prices.

use super::columns::Scaled;
use super::knapsack::{Knapsack, best_packing};
use super::problem::Problem;

/// Prices are counted in this fraction of a pico-dollar, as a power of two.
const FRACTION_BITS: u32 = 20;

/// Pico-dollars per hour, rounded down.
pub(super) fn certified_pico(problem: &Problem, worths: &[f64]) -> i128 {
    let scaled = Scaled::of(problem);
    let mut exact: Vec<i128> = worths.iter().map(|worth| (worth.max(0.0) * whole_per_dollar()) as i128).collect();
    for (index, machine) in problem.machines.iter().enumerate().filter(|(_, machine)| machine.fillings.is_none()) {
        let budget = i128::from(machine.price_pico) << FRACTION_BITS;
        let wanted = resource_prices(&scaled, &scaled.has[index], machine.suits.iter().copied(), worths);
        let prices = within_budget(wanted, &machine.has, budget);
        for class in &machine.suits {
            exact[*class] = exact[*class].min(worth(&prices, &problem.classes[*class].asks));
        }
    }
    let mut room = 0;
    if problem.free.iter().any(|free| *free > 0) {
        // Room that is there has prices too; all of it is taken off, used or not. Prices of zero would make all pods free.
        let prices = resource_prices(&scaled, &scaled.free, 0..problem.classes.len(), worths);
        room = worth(&prices, &problem.free);
        for (class, exact) in exact.iter_mut().enumerate() {
            *exact = (*exact).min(worth(&prices, &problem.classes[class].asks));
        }
    }
    let exact = within_fillings(problem, exact);
    // A class that suits no machine is in no plan unless it stands already; its worth above is that of a guess.
    let is_bought = |class: &usize| problem.machines.iter().any(|machine| machine.suits.contains(class));
    let pods = (0..exact.len()).filter(is_bought).map(|class| i128::from(problem.classes[class].pods) * exact[class]);
    ((pods.sum::<i128>() - room) >> FRACTION_BITS).max(0)
}

fn whole_per_dollar() -> f64 {
    1e12 * f64::from(1_u32 << FRACTION_BITS)
}

/// The worths, lowered alike until no filling of a small machine is worth more than the machine costs.
fn within_fillings(problem: &Problem, mut exact: Vec<i128>) -> Vec<i128> {
    for machine in &problem.machines {
        let budget = i128::from(machine.price_pico) << FRACTION_BITS;
        for filling in machine.fillings.iter().flatten() {
            let total: i128 = filling.iter().map(|(class, count)| exact[*class] * i128::from(*count)).sum();
            if total > budget {
                exact.iter_mut().for_each(|worth| *worth = lowered(*worth, budget, total));
            }
        }
    }
    exact
}

/// A number times `budget / total`, or a little less: both are cut so that products stay on the number line.
fn lowered(number: i128, budget: i128, total: i128) -> i128 {
    number * (budget >> FRACTION_BITS) / ((total >> FRACTION_BITS) + 1)
}

fn worth(prices: &[i128], amounts: &[i64]) -> i128 {
    prices.iter().zip(amounts).map(|(price, amount)| price * i128::from(*amount)).sum()
}

/// What a unit of each resource should cost, so that every suiting class is paid for.
fn resource_prices(scaled: &Scaled, has: &[f64], classes: impl Iterator<Item = usize>, worths: &[f64]) -> Vec<i128> {
    let items = classes.filter(|class| worths[*class] > 0.0);
    let items = items.map(|class| (class, &*scaled.asks[class], worths[class])).collect();
    let packing = best_packing(&Knapsack { has, items });
    packing.prices.iter().zip(&scaled.units).map(|(price, unit)| (price / unit * whole_per_dollar()) as i128).collect()
}

/// The prices, lowered alike until what the machine has comes to no more than its budget.
fn within_budget(mut prices: Vec<i128>, has: &[i64], budget: i128) -> Vec<i128> {
    let total = worth(&prices, has);
    if total > budget {
        prices.iter_mut().for_each(|price| *price = lowered(*price, budget, total));
    }
    prices
}
