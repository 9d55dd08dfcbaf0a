use super::*;

/// Checks one file; expects one finding per given piece of sentence, in order.
fn check_one(path: &str, text: &str, expected: &[&str]) {
    let findings = check(&Tree::of(&[(path, text)]));
    assert_eq!(findings.len(), expected.len(), "{path}: {findings:#?}");
    for (finding, piece) in findings.iter().zip(expected) {
        assert!(finding.to_string().contains(piece), "{finding} should contain {piece}");
    }
}

/// A function of exactly this many lines, signature and closing brace included.
fn function(lines: usize) -> String {
    format!("fn long() {{\n{}}}\n", "    work();\n".repeat(lines - 2))
}

#[test]
fn a_file_may_have_600_lines_and_not_601() {
    check_one("a.rs", &"// why\n".repeat(600), &[]);
    check_one("a.rs", &"// why\n".repeat(601), &["a.rs: has 601 lines"]);
}

#[test]
fn tests_do_not_count_towards_the_length_of_a_file() {
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    // why\n".repeat(900));
    check_one("a.rs", &("// why\n".repeat(600) + &tests), &[]);
    check_one("a/tests.rs", &"// why\n".repeat(900), &[]);
    check_one("tests/a.rs", &"// why\n".repeat(900), &[]);
}

#[test]
fn declaring_the_tests_first_does_not_excuse_the_rest_of_the_file() {
    check_one("a.rs", &("#[cfg(test)]\nmod tests;\n".to_owned() + &"// why\n".repeat(600)), &["has 602 lines"]);
}

#[test]
fn a_function_may_have_80_lines_and_not_81() {
    check_one("a.rs", &function(80), &[]);
    check_one("a.rs", &("\n".to_owned() + &function(81)), &["a.rs:2: function `long` has 81 lines"]);
}

#[test]
fn methods_default_methods_and_inner_functions_are_functions() {
    check_one("a.rs", &format!("impl A {{\n{}}}\n", function(81)), &["a.rs:2:"]);
    check_one("a.rs", &format!("trait A {{\n{}}}\n", function(81)), &["a.rs:2:"]);
    check_one("a.rs", &format!("mod a {{ mod b {{\n{}}} }}\n", function(81)), &["a.rs:2:"]);
    check_one("a.rs", &format!("fn outer() {{\n{}}}\n", function(81)), &["function `outer`", "function `long`"]);
}

#[test]
fn test_functions_may_be_long() {
    check_one("a.rs", &format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(99)), &[]);
    check_one("a.rs", &format!("#[test]\n{}", function(99)), &[]);
    check_one("tests/a.rs", &function(99), &[]);
}

#[test]
fn a_long_function_needs_a_reason_not_just_an_attribute() {
    let with = |attribute: &str| format!("{attribute}\n{}", function(99));
    check_one("a.rs", &with("#[expect(clippy::too_many_lines, reason = \"one table\")]"), &[]);
    check_one("a.rs", &with("#[expect(clippy::too_many_lines)]"), &["has 99 lines"]);
    check_one("a.rs", &with("#[expect(clippy::too_many_lines, reason = \" \")]"), &["has 99 lines"]);
    check_one("a.rs", &with("#[expect(clippy::unwrap_used, reason = \"one table\")]"), &["has 99 lines"]);
}

#[test]
fn modules_that_say_nothing_are_refused_wherever_they_are() {
    check_one("src/utils.rs", "", &["the name `utils`"]);
    check_one("src/common/price.rs", "", &["the name `common`"]);
    check_one("src/a.rs", "\nmod helpers {}\n", &["src/a.rs:2: the name `helpers`"]);
    check_one("src/commonly.rs", "", &[]);
}

#[test]
fn mod_rs_is_refused() {
    check_one("src/price/mod.rs", "", &["is a `mod.rs`"]);
}

#[test]
fn a_file_that_does_not_parse_is_named_with_its_line() {
    check_one("a.rs", "fn a() {}\nfn {\n", &["a.rs:2: does not parse"]);
}
