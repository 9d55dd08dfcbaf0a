//! A linear program whose columns are found while it is solved.
//!
//! `least cost·x, so that columns·x ≥ demand, x ≥ 0`, by the revised simplex method. It begins with columns that stand for what
//! cannot be had; whoever solves it asks for the prices of the rows, looks for a column that is a bargain at them, and lets it
//! enter, until there is none. The numbers are floating point and only guide: nothing that must be right is asked of them.

/// The price of what nothing has; high enough to be avoided, low enough to keep its digits.
const UNOBTAINABLE: f64 = 1e6;

/// Smaller steps than this are rounding.
const TINY: f64 = 1e-12;

pub(crate) struct Simplex {
    /// Row i belongs to the i-th basic column.
    inverse: Vec<Vec<f64>>,
    costs: Vec<f64>,
    amounts: Vec<f64>,
    /// What the caller calls each basic column; nothing for what cannot be had and for giving away.
    names: Vec<Option<usize>>,
}

impl Simplex {
    pub(crate) fn new(demand: &[f64]) -> Self {
        let rows = demand.len();
        let unit = |i: usize| (0..rows).map(|j| f64::from(u8::from(i == j))).collect();
        Self {
            inverse: (0..rows).map(unit).collect(),
            costs: vec![UNOBTAINABLE; rows],
            amounts: demand.to_vec(),
            names: vec![None; rows],
        }
    }

    /// What one more of each row's demand would cost.
    pub(crate) fn prices(&self) -> Vec<f64> {
        let price = |row: usize| self.costs.iter().zip(&self.inverse).map(|(cost, line)| cost * line[row]).sum();
        (0..self.costs.len()).map(price).collect()
    }

    /// Lets a column in. `false` when it cannot be told how much of it is wanted, which only rounding can bring about.
    pub(crate) fn enter(&mut self, name: usize, cost: f64, column: &[f64]) -> bool {
        self.pivot(Some(name), cost, column)
    }

    /// Where a row has a price below nothing, having more of it than is asked for: gives the surplus away. Says whether there
    /// was such a row.
    pub(crate) fn give_away(&mut self, prices: &[f64]) -> bool {
        let cheapest = prices.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let Some((row, _)) = cheapest.filter(|(_, price)| **price < -1e-9) else { return false };
        let surplus: Vec<f64> = (0..prices.len()).map(|other| if other == row { -1.0 } else { 0.0 }).collect();
        self.pivot(None, 0.0, &surplus)
    }

    /// The columns that are bought, by the caller's names, and how much of each.
    pub(crate) fn bought(&self) -> impl Iterator<Item = (usize, f64)> {
        self.names.iter().zip(&self.amounts).filter_map(|(name, amount)| Some(((*name)?, *amount)))
    }

    fn pivot(&mut self, name: Option<usize>, cost: f64, column: &[f64]) -> bool {
        let rows = self.costs.len();
        let step = |line: &Vec<f64>| line.iter().zip(column).map(|(a, b)| a * b).sum();
        let steps: Vec<f64> = self.inverse.iter().map(step).collect();
        let ratio = |row: &usize| self.amounts[*row] / steps[*row];
        let rows_left = (0..rows).filter(|row| steps[*row] > TINY);
        let Some(leaving) = rows_left.min_by(|a, b| ratio(a).total_cmp(&ratio(b))) else { return false };
        let pivot = steps[leaving];
        let line: Vec<f64> = self.inverse[leaving].iter().map(|value| value / pivot).collect();
        let amount = self.amounts[leaving] / pivot;
        for row in (0..rows).filter(|row| *row != leaving && steps[*row] != 0.0) {
            self.inverse[row].iter_mut().zip(&line).for_each(|(value, base)| *value -= steps[row] * base);
            self.amounts[row] -= steps[row] * amount;
        }
        self.inverse[leaving] = line;
        self.amounts[leaving] = amount;
        self.costs[leaving] = cost;
        self.names[leaving] = name;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_dear_until_something_has_it() {
        let mut program = Simplex::new(&[4.0, 6.0]);
        assert_eq!(program.prices(), [UNOBTAINABLE; 2]);
        assert!(program.enter(7, 3.0, &[2.0, 0.0]));
        assert_eq!(program.prices(), [1.5, UNOBTAINABLE]);
        assert!(program.enter(8, 4.5, &[1.0, 3.0]));
        let bought: Vec<(usize, f64)> = program.bought().collect();
        assert_eq!(bought, [(7, 1.0), (8, 2.0)], "two of the second have two of the first row as well");
        assert_eq!(program.prices(), [1.5, 1.0]);
    }

    #[test]
    fn what_is_too_much_is_given_away_and_worth_nothing() {
        // Whoever buys the first row twice has more of the second than is asked for.
        let mut program = Simplex::new(&[2.0, 1.0]);
        assert!(program.enter(0, 1.0, &[0.0, 1.0]) && program.enter(1, 1.0, &[1.0, 5.0]));
        assert!(program.give_away(&program.prices()), "five times the second row for each of the first");
        assert_eq!(program.prices(), [1.0, 0.0]);
        assert!(!program.give_away(&program.prices()));
        let cost: f64 = program.bought().map(|(_, amount)| amount).sum();
        assert!((cost - 2.0).abs() < 1e-9, "two of the second alone: {cost}");
    }

    #[test]
    fn a_column_that_has_nothing_is_not_let_in() {
        assert!(!Simplex::new(&[1.0]).enter(0, 1.0, &[0.0]));
    }
}
