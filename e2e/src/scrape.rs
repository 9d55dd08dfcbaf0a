//! What a scrape tells: names, kinds and labels, without the numbers.

use std::collections::{BTreeMap, BTreeSet};

/// One metric of a scrape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Family {
    pub kind: String,
    /// The sets of label names that its series have; mostly one.
    pub labels: BTreeSet<BTreeSet<String>>,
}

/// Every metric by name.
pub fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#') && !line.is_empty() {
            let (name, labels) = sample(line);
            let family = family_of(&families, name);
            families.entry(family).or_default().labels.insert(labels);
        }
    }
    families
}

/// Adds what another scrape of the same process tells.
pub fn merge(all: &mut BTreeMap<String, Family>, more: BTreeMap<String, Family>) {
    for (name, family) in more {
        let entry = all.entry(name).or_default();
        entry.kind = family.kind;
        entry.labels.extend(family.labels);
    }
}

/// The sums and counts of a histogram or summary belong to it.
fn family_of(families: &BTreeMap<String, Family>, name: &str) -> String {
    let parent = ["_bucket", "_sum", "_count"].iter().filter_map(|ending| name.strip_suffix(ending)).find(|parent| {
        families.get(*parent).is_some_and(|family| ["histogram", "summary"].contains(&family.kind.as_str()))
    });
    parent.unwrap_or(name).to_owned()
}

/// The name and the label names of a line. The labels that hold buckets and quantiles are part of the kind.
fn sample(line: &str) -> (&str, BTreeSet<String>) {
    let Some((name, mut rest)) = line.split_once('{').filter(|(name, _)| !name.contains(' ')) else {
        return (line.split(' ').next().unwrap_or(line), BTreeSet::new());
    };
    let mut labels = BTreeSet::new();
    while let Some((label, after)) = rest.split_once("=\"") {
        if !["le", "quantile"].contains(&label) {
            labels.insert(label.to_owned());
        }
        rest = after_value(after);
    }
    (name, labels)
}

/// What follows the value of a label, whatever stands in it.
fn after_value(text: &str) -> &str {
    let mut is_escaped = false;
    for (index, letter) in text.char_indices() {
        match letter {
            '"' if !is_escaped => return text[index + 1..].trim_start_matches(','),
            '\\' if !is_escaped => is_escaped = true,
            _ => is_escaped = false,
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_kinds_and_labels_are_read_whatever_stands_in_values() {
        let text = r#"# HELP a_seconds A.
# TYPE a_seconds histogram
a_seconds_bucket{pool="x\"},{y=\"z",le="0.5"} 1
a_seconds_sum{pool="x"} 1
a_seconds_count{pool="x"} 1
# TYPE up gauge
up 1
# TYPE made_total counter
made_total{} 2
# TYPE stay summary
stay{zone="a",quantile="0.5"} NaN
"#;
        let families = families(text);
        let check = |name: &str, kind: &str, labels: &[&str]| {
            let labels = BTreeSet::from([labels.iter().map(|label| (*label).to_owned()).collect()]);
            assert_eq!(families.get(name), Some(&Family { kind: kind.to_owned(), labels }), "{name}");
        };
        check("a_seconds", "histogram", &["pool"]);
        check("up", "gauge", &[]);
        check("made_total", "counter", &[]);
        check("stay", "summary", &["zone"]);
        assert_eq!(families.len(), 4);
    }
}
