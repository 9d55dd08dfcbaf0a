//! The rows of the benchmark.

use super::file::Preferences;

/// One workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Pods that wait.
    pub(super) pods: usize,
    /// Whether `make bench-quick` has it.
    pub(super) is_quick: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The reference's five kinds of pods on its four hundred types.
    Diverse,
    /// Identical pods with preferences, not all of which can be kept.
    Preference(Preferences),
    /// The five kinds on all EC2 types.
    Ec2Diverse,
    /// Pods of one core on everything that EC2 sells on demand.
    Ec2Plain,
    /// A recorded production cluster, on EC2 types.
    Openb,
    /// Onto five thousand nodes that hold a hundred thousand pods.
    Existing,
    /// Apps of two hundred pods, no two of which share a host.
    Apart,
    /// Nothing but sizes.
    Generic,
}

impl Kind {
    /// Whether no pod has a word about other pods, so that a plan can come close to the fractional bound.
    pub(super) fn is_free_of_affinity(self) -> bool {
        matches!(self, Self::Ec2Plain | Self::Openb | Self::Existing | Self::Generic)
    }
}

const fn row(name: &'static str, kind: Kind, pods: usize) -> Row {
    Row { name, kind, pods, is_quick: false }
}

const fn quick(name: &'static str, kind: Kind, pods: usize) -> Row {
    Row { name, kind, pods, is_quick: true }
}

pub(super) const ROWS: [Row; 20] = [
    quick("diverse-1", Kind::Diverse, 1),
    quick("diverse-50", Kind::Diverse, 50),
    quick("diverse-100", Kind::Diverse, 100),
    quick("diverse-500", Kind::Diverse, 500),
    quick("diverse-1000", Kind::Diverse, 1_000),
    row("diverse-2000", Kind::Diverse, 2_000),
    row("diverse-5000", Kind::Diverse, 5_000),
    row("diverse-10000", Kind::Diverse, 10_000),
    row("diverse-20000", Kind::Diverse, 20_000),
    row("preference-respect-4000", Kind::Preference(Preferences::Respect), 4_000),
    quick("preference-ignore-4000", Kind::Preference(Preferences::Ignore), 4_000),
    row("ec2-diverse-1000", Kind::Ec2Diverse, 1_000),
    row("ec2-diverse-5000", Kind::Ec2Diverse, 5_000),
    quick("ec2-plain-500", Kind::Ec2Plain, 500),
    quick("ec2-plain-2000", Kind::Ec2Plain, 2_000),
    row("openb-8152", Kind::Openb, 8_152),
    row("existing-10000", Kind::Existing, 10_000),
    row("apart-20000", Kind::Apart, 20_000),
    row("generic-10000", Kind::Generic, 10_000),
    row("generic-100000", Kind::Generic, 100_000),
];

/// The rows whose names match one of the patterns, in which `*` stands for anything. No pattern means all rows.
pub(super) fn chosen(patterns: &[String], is_quick: bool) -> Vec<Row> {
    let is_wanted = |row: &&Row| {
        let is_named = patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, row.name));
        is_named && (!is_quick || row.is_quick)
    };
    ROWS.iter().filter(is_wanted).copied().collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => {
            let Some(left) = name.strip_prefix(start) else { return false };
            (0..=left.len()).any(|skipped| matches(rest, &left[skipped..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(patterns: &[&str], is_quick: bool) -> Vec<&'static str> {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        chosen(&patterns, is_quick).iter().map(|row| row.name).collect()
    }

    #[test]
    fn rows_are_chosen_by_patterns() {
        assert_eq!(names(&[], false).len(), ROWS.len());
        assert_eq!(names(&["diverse-1"], false), ["diverse-1"]);
        assert_eq!(names(&["diverse-1*0"], false), ["diverse-100", "diverse-1000", "diverse-10000"]);
        assert_eq!(names(&["*2000", "openb*"], false), ["diverse-2000", "ec2-plain-2000", "openb-8152"]);
        assert_eq!(names(&["ec2-*"], true), ["ec2-plain-500", "ec2-plain-2000"]);
        assert_eq!(names(&["nothing"], false), Vec::<&str>::new());
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
    }
}
