//! The custom resource definitions in `crds/` are generated, and are exactly what the types say.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree};

const FOLDER: &str = "crds/";
const REMEDY: &str = "run make crds";

/// Holds the folder against what the types say, by path from the root.
pub fn check(tree: &Tree, expected: &BTreeMap<String, String>) -> Vec<Finding> {
    let present = tree.paths().filter(|path| path.starts_with(FOLDER)).map(str::to_owned);
    let paths: BTreeSet<String> = present.chain(expected.keys().cloned()).collect();
    paths.iter().filter_map(|path| check_file(tree, path, expected.get(path).map(String::as_str))).collect()
}

fn check_file(tree: &Tree, path: &str, expected: Option<&str>) -> Option<Finding> {
    let Some(expected) = expected else {
        return Some(Finding::in_file(path, format!("is extra, no type asks for it: {REMEDY}")));
    };
    if !tree.has(path) {
        return Some(Finding::in_file(path, format!("is missing: {REMEDY}")));
    }
    let present = tree.text(path).unwrap_or_default();
    if present == expected {
        return None;
    }
    let equal_lines = present.lines().zip(expected.lines()).take_while(|(left, right)| left == right).count();
    Some(Finding::at_line(path, equal_lines + 1, format!("is stale, it differs from its type here: {REMEDY}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks present files against expected ones; expects these findings.
    fn check_files(present: &[(&str, &str)], expected: &[(&str, &str)], findings: &[&str]) {
        let expected = expected.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let found: Vec<String> = check(&Tree::of(present), &expected).iter().map(Finding::to_string).collect();
        assert_eq!(found, findings);
    }

    #[test]
    fn generated_files_equal_what_the_types_say() {
        check_files(&[], &[], &[]);
        check_files(&[("crds/a.yaml", "x\n")], &[("crds/a.yaml", "x\n")], &[]);
        check_files(&[], &[("crds/a.yaml", "x\n")], &["crds/a.yaml: is missing: run make crds"]);
        check_files(
            &[("crds/a.yaml", "x\ny\n")],
            &[("crds/a.yaml", "x\nz\n")],
            &["crds/a.yaml:2: is stale, it differs from its type here: run make crds"],
        );
        check_files(&[("crds/b.yaml", "x\n")], &[], &["crds/b.yaml: is extra, no type asks for it: run make crds"]);
    }

    #[test]
    fn a_missing_last_newline_is_a_difference() {
        check_files(
            &[("crds/a.yaml", "x")],
            &[("crds/a.yaml", "x\n")],
            &["crds/a.yaml:2: is stale, it differs from its type here: run make crds"],
        );
    }
}
