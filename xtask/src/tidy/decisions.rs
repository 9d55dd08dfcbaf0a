//! Decision records can be found by number, read in a minute, and trusted when code points at them.

use std::collections::BTreeSet;

use super::{Finding, Tree};

const FOLDER: &str = "docs/decisions/";
const LINES_MAX: usize = 60;
const HEADINGS: [&str; 4] = ["## Situation", "## Decision", "## What it costs", "## What was refused"];
/// What stands before the number when something points at a record, in lower case.
const REFERENCE_WORDS: [&str; 2] = ["decision ", "differs: "];
const NUMBER_DIGITS: usize = 4;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut records = Vec::new();
    for path in tree.paths().filter(|path| path.starts_with(FOLDER)) {
        match record_number(&path[FOLDER.len()..]) {
            Some(number) => records.push((number, path)),
            None => findings.push(Finding::in_file(path, "is not named like a record: call it `NNNN-title.md`")),
        }
    }
    findings.extend(check_numbers(&records));
    for (_, path) in &records {
        findings.extend(check_record(path, tree.text(path).unwrap_or_default()));
    }
    let known = records.iter().map(|(number, _)| *number).collect();
    findings.extend(check_references(tree, &known));
    findings
}

fn record_number(name: &str) -> Option<u32> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let is_plain_title = !title.is_empty() && !title.contains('/');
    let is_plain_number = number.len() == NUMBER_DIGITS && number.bytes().all(|digit| digit.is_ascii_digit());
    if is_plain_title && is_plain_number { number.parse().ok() } else { None }
}

/// Expects the records in the order of their paths, which is the order of their numbers. Gaps are fine: branches that are
/// worked on at the same time take numbers apart from each other.
fn check_numbers(records: &[(u32, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut last = 0;
    for (number, path) in records {
        if *number == last {
            findings
                .push(Finding::in_file(path, format!("{number:04} is taken: give this record the next free number")));
        }
        last = *number;
    }
    findings
}

fn check_record(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > LINES_MAX {
        findings.push(Finding::in_file(path, format!("has {lines} lines, the limit is {LINES_MAX}: shorten it")));
    }
    for heading in HEADINGS.iter().filter(|heading| !text.lines().any(|line| line.trim_end() == **heading)) {
        findings.push(Finding::in_file(path, format!("has no heading `{heading}`: add it and say so even if little")));
    }
    findings
}

fn check_references(tree: &Tree, known: &BTreeSet<u32>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_read = |path: &str| [".rs", ".md", ".yaml", ".yml"].iter().any(|ending| path.ends_with(ending));
    for (path, text) in tree.texts().filter(|(path, _)| is_read(path)) {
        for (index, line) in text.lines().enumerate() {
            for number in references(line).into_iter().filter(|number| !known.contains(number)) {
                let sentence =
                    format!("points at record {number:04}, which does not exist: write it or mend the number");
                findings.push(Finding::at_line(path, index + 1, sentence));
            }
        }
    }
    findings
}

fn references(line: &str) -> Vec<u32> {
    let lower = line.to_lowercase();
    let mut found = Vec::new();
    for word in REFERENCE_WORDS {
        for (start, _) in lower.match_indices(word) {
            let after = &lower[start + word.len()..];
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            let is_whole_word = !lower[..start].ends_with(char::is_alphanumeric);
            if digits == NUMBER_DIGITS && is_whole_word {
                found.extend(after[..digits].parse::<u32>());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "# T\n## Situation\n## Decision\n## What it costs\n## What was refused\n";

    /// Checks a tree; expects one finding per given piece of sentence, in order.
    fn check_files(files: &[(&str, &str)], expected: &[&str]) {
        let findings = check(&Tree::of(files));
        assert_eq!(findings.len(), expected.len(), "{findings:#?}");
        for (finding, piece) in findings.iter().zip(expected) {
            assert!(finding.to_string().contains(piece), "{finding} should contain {piece}");
        }
    }

    #[test]
    fn no_two_records_have_one_number() {
        check_files(&[("docs/decisions/0001-a.md", RECORD), ("docs/decisions/0004-b.md", RECORD)], &[]);
        check_files(
            &[("docs/decisions/0001-a.md", RECORD), ("docs/decisions/0001-b.md", RECORD)],
            &["docs/decisions/0001-b.md: 0001 is taken"],
        );
    }

    #[test]
    fn every_file_among_the_records_is_a_record() {
        for name in ["readme.md", "01-a.md", "0001-.md", "0001-a.txt", "+001-a.md"] {
            check_files(&[(&format!("docs/decisions/{name}"), RECORD)], &["is not named like a record"]);
        }
    }

    #[test]
    fn a_record_is_short_and_has_its_four_headings() {
        check_files(&[("docs/decisions/0001-a.md", &(RECORD.to_owned() + &"x\n".repeat(55)))], &[]);
        check_files(&[("docs/decisions/0001-a.md", &(RECORD.to_owned() + &"x\n".repeat(56)))], &["has 61 lines"]);
        let without_cost = RECORD.replace("## What it costs", "## Costs");
        check_files(&[("docs/decisions/0001-a.md", &without_cost)], &["has no heading `## What it costs`"]);
    }

    #[test]
    fn whatever_points_at_a_record_finds_it() {
        let [decision, differs] = REFERENCE_WORDS;
        let record = ("docs/decisions/0001-a.md", RECORD);
        check_files(&[record, ("a.rs", &format!("// {decision}0001.\n// {differs}0001\n"))], &[]);
        check_files(&[("a.rs", &format!("\n// {decision}0007.\n"))], &["a.rs:2: points at record 0007"]);
        check_files(&[("a.md", &format!("{}0007", decision.to_uppercase()))], &["a.md:1: points at record 0007"]);
        check_files(&[("a.yaml", &format!("# {differs}0012"))], &["points at record 0012"]);
        check_files(&[("a.go", &format!("// {decision}0007"))], &[]);
        check_files(&[("a.rs", &format!("// in{decision}0007, {decision}12345, {decision}7"))], &[]);
    }
}
