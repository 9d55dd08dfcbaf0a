//! Which machines have so much of a resource: looked up, instead of comparing all of them.

use super::bits::Bits;

/// With more different amounts than this, sets for all of them would take more memory than they are worth.
const MOST_AMOUNTS: usize = 512;

/// Machines by what they have of one resource.
#[derive(Debug)]
pub(crate) struct Sizes {
    /// Different amounts, ascending.
    amounts: Vec<i64>,
    /// The machines that have each of them, or more.
    holding: Vec<Bits>,
    nobody: Bits,
}

impl Sizes {
    /// From what each machine has; `None` where that differs too much.
    pub(crate) fn new(column: &[i64]) -> Option<Self> {
        let mut machines: Vec<usize> = (0..column.len()).collect();
        machines.sort_unstable_by_key(|machine| column[*machine]);
        let equals: Vec<&[usize]> = machines.chunk_by(|a, b| column[*a] == column[*b]).collect();
        if equals.len() > MOST_AMOUNTS {
            return None;
        }
        let nobody = Bits::empty(column.len());
        let mut so_far = nobody.clone();
        let mut holding = Vec::with_capacity(equals.len());
        for equals in equals.iter().rev() {
            equals.iter().for_each(|machine| so_far.insert(*machine));
            holding.push(so_far.clone());
        }
        holding.reverse();
        Some(Self { amounts: equals.iter().map(|equals| column[equals[0]]).collect(), holding, nobody })
    }

    /// The machines that have so much or more.
    pub(crate) fn holding(&self, wanted: i64) -> &Bits {
        let number = self.amounts.partition_point(|amount| *amount < wanted);
        self.holding.get(number).unwrap_or(&self.nobody)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_have_enough_are_those_that_a_comparison_finds() {
        let column = [4, 1, 4, 9, 0, 2];
        let sizes = Sizes::new(&column).unwrap();
        for wanted in -1..11 {
            let enough: Vec<usize> = (0..column.len()).filter(|machine| column[*machine] >= wanted).collect();
            assert_eq!(sizes.holding(wanted).iter().collect::<Vec<_>>(), enough, "{wanted}");
        }
    }

    #[test]
    fn very_many_amounts_have_no_sets() {
        let column: Vec<i64> = (0..=512).collect();
        assert!(Sizes::new(&column[..512]).is_some() && Sizes::new(&column).is_none());
    }
}
