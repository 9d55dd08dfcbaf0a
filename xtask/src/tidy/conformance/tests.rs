use super::*;

/// Checks a table and a test file against checklists; expects one finding per given piece of sentence, in order.
fn check_table(table: &str, tests: &str, checklists: &[(&str, &str)], expected: &[&str]) {
    let tree = Tree::of(&[("docs/conformance.md", table), ("crates/model/tests/algebra.rs", tests)]);
    let owned = |(number, text): &(&str, &str)| Checklist { number: (*number).into(), text: (*text).into() };
    let findings = check(&tree, &checklists.iter().map(owned).collect::<Vec<_>>());
    assert_eq!(findings.len(), expected.len(), "{findings:#?}");
    for (finding, piece) in findings.iter().zip(expected) {
        assert!(finding.to_string().contains(piece), "{finding} should contain {piece}");
    }
}

const HEAD: &str = "| id | promise | where |\n|---|---|---|\n";

fn row(id: &str, place: &str) -> String {
    format!("{HEAD}| {id} | a \\| b | {place} | |\n")
}

#[test]
fn a_row_is_proved_by_a_comment_in_a_test() {
    check_table(&row("01/ALG-03", "model"), "    // 01/ALG-03\n", &[], &[]);
    check_table(&row("`02/LA3`", "model"), "// 02/LA3: why it matters\n", &[], &[]);
    check_table(&row("01/ALG-03", "model"), "", &[], &["docs/conformance.md:3: no test carries `// 01/ALG-03`"]);
    check_table(&row("01/ALG-03", "model"), "// see 01/ALG-03\n", &[], &["no test carries"]);
}

#[test]
fn one_comment_may_prove_several_rows() {
    let table = row("01/ALG-03", "model") + "| 03/N01 | c | model |\n";
    check_table(&table, "// 01/ALG-03, 03/N01: both at once\n", &[], &[]);
}

#[test]
fn a_comment_outside_tests_proves_nothing() {
    let table = row("01/ALG-03", "model");
    let check_source = |path: &str, source: &str, expected: usize| {
        let tree = Tree::of(&[(TABLE, &table), (path, source)]);
        assert_eq!(check(&tree, &[]).len(), expected, "{path}: {source}");
    };
    check_source("a.rs", "// 01/ALG-03\nfn a() {}\n", 1);
    check_source("a.rs", "#[cfg(test)]\nmod tests {\n    // 01/ALG-03\n}\n", 0);
    check_source("a/tests.rs", "// 01/ALG-03\n", 0);
    check_source("e2e/src/suite.rs", "// 01/ALG-03\n", 0);
    check_source("e2e/admission/kind.yaml", "# 01/ALG-03\n", 0);
    check_source("crds/kind.yaml", "# 01/ALG-03\n", 1);
}

#[test]
fn a_row_may_be_owed_openly() {
    check_table(&row("01/ALG-03", "work order 4"), "", &[], &[]);
    check_table(&row("01/ALG-03", "reason: no such cloud"), "", &[], &[]);
    check_table(&row("01/ALG-03", "work order soon"), "", &[], &["no test carries"]);
    check_table(&row("01/ALG-03", "reason:"), "", &[], &["no test carries"]);
}

#[test]
fn an_id_in_a_test_has_a_row() {
    let expected = ["crates/model/tests/algebra.rs:2: `01/ALG-04` has no row"];
    check_table(HEAD, "\n// 01/ALG-04\n", &[], &expected);
}

#[test]
fn a_row_with_a_slip_or_a_twin_is_named() {
    check_table(&row("01/alg-3", "work order 1"), "", &[], &["`01/alg-3` is not an id"]);
    let twice = row("01/ALG-03", "work order 1") + "| 01/ALG-03 | again | work order 1 |\n";
    check_table(&twice, "", &[], &["docs/conformance.md:4: `01/ALG-03` has a row already"]);
}

#[test]
fn without_a_table_the_rule_waits() {
    let checklist = Checklist { number: "01".into(), text: "# Checklist\n- [ ] ALG-01 a\n".into() };
    assert_eq!(check(&Tree::of(&[("tests/a.rs", "// 01/ALG-03\n")]), &[checklist]), []);
}

#[test]
fn every_promise_of_a_checklist_has_a_row() {
    let check_promises = |number: &str, text: &str, expected: &[&str]| {
        let expected: Vec<String> = expected.iter().map(|id| format!("has no row for `{number}/{id}`")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check_table(HEAD, "", &[(number, text)], &expected);
    };
    check_promises(
        "01",
        "- XX1 no\n## 7. The checklist\n### A\n- [ ] ALG-01 a\n- [x] ALG-02 b\n",
        &["ALG-01", "ALG-02"],
    );
    check_promises("02", "## Checklist\n- LA3 a. LA4 b; P95 c, LA5/LA6\n- note\n", &["LA3", "LA4", "LA5", "LA6"]);
    check_promises("03", "# Checklist\n- C01 not a C5\n# Next\n- AL2023 family\n", &["C01"]);
}

#[test]
fn ids_are_recognised_by_shape() {
    for id in ["01/ALG-03", "02/LA3", "02/E11", "03/N01", "03/E2E-1"] {
        assert!(is_id(id), "{id}");
    }
    for word in ["04/ALG-03", "01/ALG", "01/alg-3", "01/-3", "01/12", "ALG-03", "01/ALG-03x", "01/A-B-3"] {
        assert!(!is_id(word), "{word}");
    }
}
