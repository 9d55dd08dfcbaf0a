//! The house rules as code. Each rule lives in its own file and is a plain function from a `Tree` to findings; this
//! file only reads the world for them and lists them.

pub mod conformance;
pub mod crds;
pub mod decisions;
pub mod layers;
pub mod rooms;
pub mod sizes;
pub mod words;

mod members;
mod source;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

pub use tree::Tree;

/// One broken rule: where, and a sentence that says what is wrong and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    // The order of the fields is the order of the report.
    pub path: String,
    pub line: Option<usize>,
    pub sentence: String,
}

impl Finding {
    pub fn in_file(path: &str, sentence: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line: None, sentence: sentence.into() }
    }

    pub fn at_line(path: &str, line: usize, sentence: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line: Some(line), sentence: sentence.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}:{line}: {}", self.path, self.sentence),
            None => write!(formatter, "{}: {}", self.path, self.sentence),
        }
    }
}

/// Runs every rule on the workspace at `root`, as it is on disk, committed or not.
pub fn check_workspace(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let checklists = conformance::read_checklists(&checklist_folder(root))?;
    Ok(check(&tree, &checklists, &api::crd::files()))
}

/// Every rule there is. A new rule is a new file and a new line here.
pub fn check(
    tree: &Tree,
    checklists: &[conformance::Checklist],
    expected_crds: &BTreeMap<String, String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(layers::check(tree));
    findings.extend(rooms::check(tree));
    findings.extend(sizes::check(tree));
    findings.extend(words::check(tree));
    findings.extend(decisions::check(tree));
    findings.extend(conformance::check(tree, checklists));
    findings.extend(crds::check(tree, expected_crds));
    findings.sort();
    findings
}

/// One finding per line, then the sum.
pub fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        writeln!(text, "{finding}").expect("writing to a string cannot fail");
    }
    let sum = match findings.len() {
        0 => "tidy: nothing to report".to_owned(),
        1 => "tidy: 1 finding".to_owned(),
        many => format!("tidy: {many} findings"),
    };
    text + &sum + "\n"
}

/// The nearest folder at or above `start` whose manifest opens a workspace, so that tidy may be run from anywhere.
pub fn workspace_root(start: &Path) -> anyhow::Result<PathBuf> {
    for folder in start.ancestors() {
        let manifest = folder.join("Cargo.toml");
        if !manifest.is_file() {
            continue;
        }
        let text = std::fs::read_to_string(&manifest).with_context(|| format!("reading {}", manifest.display()))?;
        if text.lines().any(|line| line.trim() == "[workspace]") {
            return Ok(folder.to_path_buf());
        }
    }
    bail!("no workspace at or above {}", start.display())
}

/// The checklists are not part of this repository, so not every machine has them.
fn checklist_folder(root: &Path) -> PathBuf {
    match std::env::var_os("DOVETAIL_SPEC") {
        Some(folder) => PathBuf::from(folder),
        None => root.join("../shared/spec"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_one_finding_per_line_and_a_sum() {
        let findings = [Finding::at_line("a.rs", 3, "is wrong: mend it"), Finding::in_file("b.md", "is missing")];
        assert_eq!(report(&findings), "a.rs:3: is wrong: mend it\nb.md: is missing\ntidy: 2 findings\n");
        assert_eq!(report(&[]), "tidy: nothing to report\n");
    }

    #[test]
    fn findings_come_sorted_by_path_then_line() {
        let tree = Tree::of(&[("z.rs", "mod common {}\nmod utils {}\n"), ("a/mod.rs", "")]);
        let findings = check(&tree, &[], &BTreeMap::new());
        assert!(findings.is_sorted());
        assert!(findings.len() > 3, "{findings:?}");
    }
}
