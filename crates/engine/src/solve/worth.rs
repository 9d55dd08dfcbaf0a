//! What a unit of each resource is worth: the prices at which the best machines on sale are neither a bargain nor a waste.
//!
//! Buying fractions of machines for everything that pods ask for is a small linear program; its dual gives one price per
//! resource. A machine is worth what it holds at these prices, so a claim is filled for the machine that costs least for its
//! worth, and cpu, memory and devices weigh as much as this menu makes them weigh. The numbers only guide: whether a pod fits
//! and what a claim costs is never asked of them.

use super::rooms::has_room;
use super::simplex::Simplex;

/// Pivots after which the program is as good as solved.
const MOST_PIVOTS: usize = 200;

/// Prices per unit of each resource, in dollars.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worth(Vec<f64>);

/// A machine on sale: what it costs, and what it has of each resource.
pub(crate) struct Bundle<'b> {
    pub(crate) price: f64,
    pub(crate) room: &'b [i64],
}

impl Worth {
    /// The prices for a demand, by pods that ask for the least at least. Resources that nobody asks for are worth nothing, and
    /// what holds no pod at all makes nothing cheaper.
    pub(crate) fn new(demand: &[i64], least: &[i64], bundles: &[Bundle<'_>]) -> Self {
        let axes: Vec<usize> = (0..demand.len()).filter(|axis| demand[*axis] > 0).collect();
        // Amounts are counted in shares of the demand, so that bytes and cores are of one size.
        let share = |room: &[i64], axis: usize| (room[axis].max(0) as f64) / demand[axis] as f64;
        let mut columns = Columns { rows: axes.len(), prices: Vec::new(), amounts: Vec::new() };
        for bundle in bundles.iter().filter(|bundle| has_room(bundle.room, least)) {
            columns.prices.push(bundle.price);
            columns.amounts.extend(axes.iter().map(|axis| share(bundle.room, *axis)));
        }
        let duals = columns.duals();
        let mut prices = vec![0.0; demand.len()];
        for (axis, dual) in axes.iter().zip(duals) {
            prices[*axis] = dual / demand[*axis] as f64;
        }
        Self(prices)
    }

    /// The same prices, lowered until no machine that holds a pod costs less than what it holds.
    pub(crate) fn below(mut self, least: &[i64], bundles: &[Bundle<'_>]) -> Self {
        let holds = bundles.iter().filter(|bundle| has_room(bundle.room, least));
        let part = holds.map(|bundle| bundle.price / self.of(bundle.room.iter().copied()).max(f64::MIN_POSITIVE));
        let part = part.fold(1.0_f64, f64::min);
        self.0.iter_mut().for_each(|price| *price *= part);
        self
    }

    /// What so much is worth.
    pub(crate) fn of(&self, amounts: impl Iterator<Item = i64>) -> f64 {
        self.0.iter().zip(amounts).map(|(price, amount)| price * amount.max(0) as f64).sum()
    }
}

/// What can be bought, as columns of a linear program.
struct Columns {
    rows: usize,
    prices: Vec<f64>,
    /// Column by column.
    amounts: Vec<f64>,
}

impl Columns {
    fn amounts(&self, number: usize) -> &[f64] {
        &self.amounts[number * self.rows..(number + 1) * self.rows]
    }

    /// The prices of the rows in `least price·x, columns·x ≥ 1, x ≥ 0`.
    fn duals(&self) -> Vec<f64> {
        let mut program = Simplex::new(&vec![1.0; self.rows]);
        for _ in 0..MOST_PIVOTS {
            let prices = program.prices();
            let is_better = match self.bargain(&prices) {
                Some(number) => program.enter(number, self.prices[number], self.amounts(number)),
                None => program.give_away(&prices),
            };
            if !is_better {
                break;
            }
        }
        program.prices().iter().map(|price| price.max(0.0)).collect()
    }

    /// The column that gains most for its cost at these prices, if one does.
    fn bargain(&self, prices: &[f64]) -> Option<usize> {
        let mut best = (-1e-9, None);
        for (number, cost) in self.prices.iter().enumerate() {
            let gain: f64 = self.amounts(number).iter().zip(prices).map(|(amount, price)| amount * price).sum();
            let part = (cost - gain) / cost.max(1e-9);
            if part < best.0 {
                best = (part, Some(number));
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn worth(demand: &[i64], menu: &[(f64, [i64; 2])]) -> Vec<f64> {
        let bundles: Vec<Bundle<'_>> = menu.iter().map(|(price, room)| Bundle { price: *price, room }).collect();
        Worth::new(demand, &vec![0; demand.len()], &bundles).0
    }

    #[test]
    fn the_best_machines_are_worth_their_price_and_no_machine_is_worth_more() {
        let menu = [(1.0, [4, 8]), (1.5, [4, 32]), (9.0, [16, 32]), (2.2, [8, 8])];
        for demand in [[100, 100], [100, 400], [100, 900], [7, 0]] {
            let prices = worth(&demand, &menu);
            let value = |room: &[i64; 2]| prices[0] * room[0] as f64 + prices[1] * room[1] as f64;
            assert!(menu.iter().all(|(price, room)| value(room) <= price * (1.0 + 1e-6)), "{demand:?}: {prices:?}");
            let is_met = menu.iter().any(|(price, room)| (value(room) - price).abs() < 1e-6);
            assert!(is_met, "{demand:?}: {prices:?}");
        }
    }

    #[test]
    fn what_holds_no_pod_makes_nothing_cheaper() {
        let bundles = [Bundle { price: 1.0, room: &[8, 1] }, Bundle { price: 4.0, room: &[4, 4] }];
        assert_eq!(Worth::new(&[8, 0], &[1, 2], &bundles).0, [1.0, 0.0]);
        assert_eq!(Worth::new(&[8, 0], &[1, 1], &bundles).0, [0.125, 0.0]);
    }

    #[test]
    fn what_nobody_asks_for_is_worth_nothing() {
        assert_eq!(worth(&[10, 0], &[(1.0, [4, 8])]), [0.25, 0.0]);
    }

    /// The least that fractions of machines cost which together have what is asked for: some two of them are enough.
    fn least_cost(demand: [f64; 2], menu: &[(f64, [i64; 2])]) -> f64 {
        let mut least = f64::INFINITY;
        for (first_price, first) in menu {
            let [a, c] = first.map(|amount| amount as f64);
            least = least.min(first_price * (demand[0] / a).max(demand[1] / c));
            for (second_price, second) in menu {
                let [b, d] = second.map(|amount| amount as f64);
                let whole = a * d - b * c;
                let (x, y) = ((demand[0] * d - demand[1] * b) / whole, (demand[1] * a - demand[0] * c) / whole);
                if whole.abs() > 1e-9 && x >= 0.0 && y >= 0.0 {
                    least = least.min(first_price * x + second_price * y);
                }
            }
        }
        least
    }

    proptest! {
        #[test]
        fn what_is_asked_for_is_worth_what_it_must_cost(
            demand in (1..1000_i64, 1..1000_i64),
            menu in proptest::collection::vec((1..100_i64, (1..50_i64, 1..50_i64)), 1..8),
        ) {
            let demand = [demand.0, demand.1];
            let menu: Vec<(f64, [i64; 2])> = menu.iter().map(|(price, (a, b))| (*price as f64, [*a, *b])).collect();
            let prices = worth(&demand, &menu);
            let value = prices[0] * demand[0] as f64 + prices[1] * demand[1] as f64;
            let least = least_cost(demand.map(|amount| amount as f64), &menu);
            prop_assert!((value - least).abs() <= 1e-6 * least, "{value} is not {least}: {prices:?}");
        }
    }
}
