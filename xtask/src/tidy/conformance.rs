//! Every behaviour we promise to share with the reference is either proved by a test or openly still owed.
//!
//! `docs/conformance.md` has one row per promise, `| 01/ALG-03 | sentence | where | ... |`. A test that proves it
//! carries the same id in a comment line of its own. The promises come from checklists outside this repository, which
//! are compared as well where they are at hand.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;

use super::source::{is_test_file, test_module_lines};
use super::{Finding, Tree};

const TABLE: &str = "docs/conformance.md";
/// The checklist that puts several promises on one line, as in `- LA3 this. LA4 that.`
const CROWDED_CHECKLIST: &str = "02";

/// A document that contains a checklist, and the two digits its file name starts with.
pub struct Checklist {
    pub number: String,
    pub text: String,
}

/// Reads `01-….md` and its neighbours. Not every machine has them: no folder, no checklists.
pub fn read_checklists(folder: &Path) -> anyhow::Result<Vec<Checklist>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("listing {}", folder.display())),
    };
    let mut checklists = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("listing {}", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((number, _)) = name.strip_suffix(".md").and_then(|name| name.split_once('-')) else { continue };
        if ["01", "02", "03"].contains(&number) {
            let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            checklists.push(Checklist { number: number.to_owned(), text });
        }
    }
    checklists.sort_by(|left, right| left.number.cmp(&right.number));
    Ok(checklists)
}

/// Passes while there is no table: it comes with the first promise kept.
pub fn check(tree: &Tree, checklists: &[Checklist]) -> Vec<Finding> {
    let Some(table) = tree.text(TABLE) else { return Vec::new() };
    let sources = tree.texts().filter(|(path, _)| path.ends_with(".rs") || is_table(path));
    let proofs: Vec<Proof<'_>> = sources.flat_map(|(path, text)| proofs_in(path, text)).collect();
    let proved: BTreeSet<&str> = proofs.iter().map(|proof| proof.id).collect();
    let (rows, mut findings) = read_rows(table);
    for (id, row) in rows.iter().filter(|(id, row)| !proved.contains(*id) && !is_owed(row.place)) {
        let sentence = format!(
            "no test carries `// {id}`: write the test, or say `work order N` or `reason: ...` in the third column"
        );
        findings.push(Finding::at_line(TABLE, row.line, sentence));
    }
    for proof in proofs.iter().filter(|proof| !rows.contains_key(proof.id)) {
        let sentence = format!("`{}` has no row in {TABLE}: mend the id, or add the row", proof.id);
        findings.push(Finding::at_line(proof.path, proof.line, sentence));
    }
    for id in checklists.iter().flat_map(promised_ids).filter(|id| !rows.contains_key(id.as_str())) {
        findings.push(Finding::in_file(TABLE, format!("has no row for `{id}` of the checklist: add it")));
    }
    findings
}

struct Row<'a> {
    line: usize,
    /// The third column: the test, or why there is none yet.
    place: &'a str,
}

fn read_rows(table: &str) -> (BTreeMap<&str, Row<'_>>, Vec<Finding>) {
    let mut rows = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, line) in table.lines().enumerate() {
        let cells = cells(line);
        let Some(id) = cells.first().map(|cell| cell.trim_matches('`')) else { continue };
        if !is_id(id) {
            // A slip of the pen must not turn a promise into decoration.
            if ["01/", "02/", "03/"].iter().any(|start| id.starts_with(start)) {
                findings.push(Finding::at_line(
                    TABLE,
                    index + 1,
                    format!("`{id}` is not an id such as `01/ALG-03`: mend it"),
                ));
            }
            continue;
        }
        let place = cells.get(2).copied().unwrap_or_default();
        if rows.insert(id, Row { line: index + 1, place }).is_some() {
            findings.push(Finding::at_line(TABLE, index + 1, format!("`{id}` has a row already: keep one")));
        }
    }
    (rows, findings)
}

/// The cells of a table row; none for any other line. `\|` is a bar inside a cell.
fn cells(line: &str) -> Vec<&str> {
    let Some(inner) = line.trim().strip_prefix('|') else { return Vec::new() };
    let mut cells = Vec::new();
    let mut start = 0;
    for (bar, _) in inner.match_indices('|').filter(|(bar, _)| !inner[..*bar].ends_with('\\')) {
        cells.push(inner[start..bar].trim());
        start = bar + 1;
    }
    cells
}

fn is_owed(place: &str) -> bool {
    let after = |word: &str| place.split_once(word).map(|(_, rest)| rest.trim_start());
    after("work order ").is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
        || after("reason:").is_some_and(|rest| !rest.is_empty())
}

/// A comment in a test that claims a promise.
struct Proof<'a> {
    id: &'a str,
    path: &'a str,
    line: usize,
}

/// The admission tables are data that a test runs, and name what their rows prove.
fn is_table(path: &str) -> bool {
    path.starts_with("e2e/admission/") && path.ends_with(".yaml")
}

fn proofs_in<'a>(path: &'a str, text: &'a str) -> Vec<Proof<'a>> {
    let mark = if is_table(path) { "# " } else { "// " };
    let comments: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .filter_map(|(index, line)| Some((index + 1, line.trim_start().strip_prefix(mark)?)))
        .filter(|(_, comment)| words(comment).next().is_some_and(is_id))
        .collect();
    // Most files claim nothing, and need not be parsed to learn where their tests are.
    if comments.is_empty() {
        return Vec::new();
    }
    let is_all_tests = is_test_file(path) || path.starts_with("e2e/");
    let tests = syn::parse_file(text).map(|file| test_module_lines(&file)).unwrap_or_default();
    let in_tests = comments.iter().filter(|(line, _)| is_all_tests || tests.iter().any(|lines| lines.contains(line)));
    let proofs = in_tests.flat_map(|(line, comment)| {
        words(comment).filter(|word| is_id(word)).map(|id| Proof { id, path, line: *line })
    });
    proofs.collect()
}

fn words(comment: &str) -> impl Iterator<Item = &str> {
    comment.split([' ', ',', ';', ':', '.']).filter(|word| !word.is_empty())
}

/// `01/ALG-03`, `02/LA3`, `03/N01`: the checklist, then letters, then a number.
fn is_id(word: &str) -> bool {
    let Some((number, name)) = word.split_once('/') else { return false };
    let letters = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let group = letters.strip_suffix('-').unwrap_or(letters);
    ["01", "02", "03"].contains(&number)
        && letters.len() < name.len()
        && !group.is_empty()
        && group.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit())
}

/// The ids a checklist promises: the first word of each item, and in the crowded one every later word of that group.
fn promised_ids(checklist: &Checklist) -> Vec<String> {
    let mut ids = Vec::new();
    for item in checklist_items(&checklist.text) {
        let full = |name: &str| format!("{}/{name}", checklist.number);
        let mut names = item.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let Some(first) = names.next().filter(|name| is_id(&full(name))) else { continue };
        ids.push(full(first));
        if checklist.number == CROWDED_CHECKLIST {
            let group = |name: &str| name.trim_end_matches(|digit: char| digit.is_ascii_digit()).to_owned();
            let others = names.filter(|name| is_id(&full(name)) && group(name) == group(first));
            ids.extend(others.map(full));
        }
    }
    ids
}

/// The items of the section whose heading says checklist, without their bullets and boxes; lists in other sections
/// hold other things.
fn checklist_items(text: &str) -> Vec<&str> {
    let mut items = Vec::new();
    let mut section_depth = None;
    for line in text.lines() {
        let depth = line.bytes().take_while(|byte| *byte == b'#').count();
        if depth > 0 && section_depth.is_none_or(|open| depth <= open) {
            section_depth = line.to_lowercase().contains("checklist").then_some(depth);
        } else if section_depth.is_some()
            && let Some(item) = line.strip_prefix("- ")
        {
            items.push(item.strip_prefix("[ ] ").or(item.strip_prefix("[x] ")).unwrap_or(item));
        }
    }
    items
}

#[cfg(test)]
mod tests;
