//! Words that must not be in the tree: unfinished code, silenced lints, and paths of one machine.

use super::{Finding, Tree};

/// Lock files are written by tools and quote whatever they were given.
const LOCK_FILES: [&str; 2] = ["Cargo.lock", "go.sum"];

struct Refused {
    /// Glued together from pieces, or this file would refuse itself.
    needle: &'static str,
    advice: &'static str,
}

const IN_RUST: [Refused; 6] = [
    Refused { needle: concat!("#[", "ignore"), advice: "a test that does not run proves nothing: mend or delete it" },
    Refused { needle: concat!("to", "do!("), advice: "unfinished code does not enter the tree: finish it" },
    Refused { needle: concat!("unimpl", "emented!("), advice: "unfinished code does not enter the tree: finish it" },
    Refused { needle: concat!("db", "g!("), advice: "it is left over from a search for a bug: remove it" },
    Refused { needle: concat!("#[", "allow("), advice: "it stays after its cause is gone: use `expect` with a reason" },
    Refused {
        needle: concat!("#![", "allow("),
        advice: "it stays after its cause is gone: use `expect` with a reason",
    },
];

const MACHINE_PATHS: [&str; 2] = [concat!("/ro", "ot/"), concat!("/ho", "me/")];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.texts().filter(|(path, _)| !LOCK_FILES.iter().any(|lock| path.rsplit('/').next() == Some(lock)));
    files.flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if path.ends_with(".rs") {
            let refused = IN_RUST.iter().filter(|refused| line.contains(refused.needle));
            findings.extend(refused.map(|refused| {
                Finding::at_line(path, index + 1, format!("contains `{}`: {}", refused.needle, refused.advice))
            }));
        }
        findings.extend(MACHINE_PATHS.iter().filter(|folder| names_path(line, folder)).map(|folder| {
            let sentence = format!("contains `{folder}`, a path of one machine: make it relative or a setting");
            Finding::at_line(path, index + 1, sentence)
        }));
    }
    findings
}

/// Only a path from the root of the disk counts: the same letters inside a longer path or an address are harmless.
fn names_path(line: &str, folder: &str) -> bool {
    let is_inside_path = |letter: char| letter.is_alphanumeric() || "._-~*})".contains(letter);
    line.match_indices(folder).any(|(start, _)| !line[..start].ends_with(is_inside_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks one line in one file; expects it to be refused or not, and if so on line two.
    fn check_line(path: &str, line: &str, is_refused: bool) {
        let text = format!("first\n{line}\n");
        let findings = check(&Tree::of(&[(path, &text)]));
        assert_eq!(findings.len(), usize::from(is_refused), "{path} with {line}: {findings:#?}");
        assert!(findings.iter().all(|finding| finding.line == Some(2)), "{findings:#?}");
    }

    #[test]
    fn unfinished_code_and_silenced_lints_are_refused_in_rust_only() {
        for refused in &IN_RUST {
            check_line("a.rs", &format!("    {} more", refused.needle), true);
            check_line("a.md", &format!("    {} more", refused.needle), false);
        }
        check_line("a.rs", "#[expect(clippy::unwrap_used, reason = \"a literal\")]", false);
    }

    #[test]
    fn paths_of_one_machine_are_refused_everywhere() {
        for folder in MACHINE_PATHS {
            check_line("a.md", &format!("see {folder}x"), true);
            check_line("Makefile", &format!("X=\"{folder}x\""), true);
            check_line("a.yaml", &format!("at file://{folder}x"), true);
            check_line("a.md", &format!("https://example.com{folder}x and docs{folder}y"), false);
        }
    }

    #[test]
    fn lock_files_are_left_alone() {
        for path in ["Cargo.lock", "e2e/control-plane/go.sum"] {
            check_line(path, MACHINE_PATHS[0], false);
        }
        check_line("go.summary", MACHINE_PATHS[0], true);
    }
}
