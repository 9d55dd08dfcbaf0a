//! Whoever opens a crate is told first what the room is for, and the floor plan names every room.

use super::members::{Member, read_members};
use super::{Finding, Tree};

const CARD_LABELS: [&str; 4] = ["Purpose:", "May touch:", "Must not touch:", "Invariants:"];
const FLOOR_PLAN: &str = "ARCHITECTURE.md";
/// Longer than this, nobody reads it on the first day.
const FLOOR_PLAN_LINES_BELOW: usize = 200;

pub fn check(tree: &Tree) -> Vec<Finding> {
    // Manifests that cannot be read are reported by the layers rule.
    let (members, _) = read_members(tree);
    let mut findings: Vec<Finding> = members.iter().flat_map(|member| check_card(tree, member)).collect();
    findings.extend(check_floor_plan(tree, &members));
    findings
}

fn check_card(tree: &Tree, member: &Member) -> Vec<Finding> {
    let candidates = ["lib.rs", "main.rs"].map(|file| format!("{}/src/{file}", member.folder));
    let Some((path, text)) = candidates.iter().find_map(|path| Some((path, tree.text(path)?))) else {
        let sentence = "has neither `src/lib.rs` nor `src/main.rs`: write one that opens with the room card";
        return vec![Finding::in_file(&member.folder, sentence)];
    };
    let card: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let missing = CARD_LABELS.iter().filter(|label| !card.iter().any(|line| line.starts_with(*label)));
    let findings = missing.map(|label| {
        let sentence = format!("the room card at the top of the file has no line `//! {label} ...`: write it");
        Finding::at_line(path, 1, sentence)
    });
    findings.collect()
}

fn check_floor_plan(tree: &Tree, members: &[Member]) -> Vec<Finding> {
    let Some(text) = tree.text(FLOOR_PLAN) else {
        return vec![Finding::in_file(FLOOR_PLAN, "does not exist: write it, and name every member in it")];
    };
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines >= FLOOR_PLAN_LINES_BELOW {
        let sentence = format!("has {lines} lines and must stay under {FLOOR_PLAN_LINES_BELOW}: shorten it");
        findings.push(Finding::in_file(FLOOR_PLAN, sentence));
    }
    // `provider` inside `provider-aws` is not a mention of provider, so a hyphen is part of a word.
    let is_part_of_name = |letter: char| letter.is_alphanumeric() || letter == '-' || letter == '_';
    let words: Vec<&str> = text.split(|letter| !is_part_of_name(letter)).collect();
    for member in members.iter().filter(|member| !words.contains(&member.name.as_str())) {
        let sentence = format!("does not name the member `{}`: say what the room is for", member.name);
        findings.push(Finding::in_file(FLOOR_PLAN, sentence));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = "//! Purpose: a.\n//! May touch: b.\n//! Must not touch: c.\n//! Invariants: d.\n";
    const ROOT: &str = "[workspace]\nmembers = [\"crates/provider\", \"crates/provider-aws\"]\n";

    /// Checks a workspace of two members; expects one finding per given piece of sentence, in order.
    fn check_two(plan: &str, file: &str, card: &str, expected: &[&str]) {
        let tree = Tree::of(&[
            ("Cargo.toml", ROOT),
            ("ARCHITECTURE.md", plan),
            ("crates/provider/Cargo.toml", "[package]\nname = \"provider\"\n"),
            (&format!("crates/provider/{file}"), card),
            ("crates/provider-aws/Cargo.toml", "[package]\nname = \"provider-aws\"\n"),
            ("crates/provider-aws/src/lib.rs", CARD),
        ]);
        let findings = check(&tree);
        assert_eq!(findings.len(), expected.len(), "{findings:#?}");
        for (finding, piece) in findings.iter().zip(expected) {
            assert!(finding.to_string().contains(piece), "{finding} should contain {piece}");
        }
    }

    const PLAN: &str = "**provider** is the doorway; provider-aws is one cloud.\n";

    #[test]
    fn a_crate_opens_with_its_card() {
        check_two(PLAN, "src/lib.rs", CARD, &[]);
        check_two(PLAN, "src/main.rs", CARD, &[]);
        check_two(
            PLAN,
            "src/lib.rs",
            &CARD.replace("//! Invariants: d.\n", ""),
            &["provider/src/lib.rs:1: the room card"],
        );
        check_two(
            PLAN,
            "src/lib.rs",
            &CARD.replace("//! ", "// "),
            &["Purpose", "May touch", "Must not", "Invariants"],
        );
        check_two(PLAN, "src/other.rs", CARD, &["crates/provider: has neither"]);
    }

    #[test]
    fn a_card_below_other_code_does_not_open_the_file() {
        let late = format!("use std::fmt;\n{CARD}");
        check_two(PLAN, "src/lib.rs", &late, &["Purpose", "May touch", "Must not", "Invariants"]);
    }

    #[test]
    fn the_floor_plan_names_every_member_by_its_whole_name() {
        check_two("only provider-aws and aprovider\n", "src/lib.rs", CARD, &["does not name the member `provider`"]);
        check_two("only `provider`\n", "src/lib.rs", CARD, &["does not name the member `provider-aws`"]);
    }

    #[test]
    fn the_floor_plan_stays_under_200_lines() {
        check_two(&(PLAN.to_owned() + &"line\n".repeat(198)), "src/lib.rs", CARD, &[]);
        check_two(&(PLAN.to_owned() + &"line\n".repeat(199)), "src/lib.rs", CARD, &["has 200 lines"]);
    }

    #[test]
    fn a_missing_floor_plan_is_named() {
        let findings = check(&Tree::of(&[("Cargo.toml", "[workspace]\nmembers = []\n")]));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "ARCHITECTURE.md");
    }
}
