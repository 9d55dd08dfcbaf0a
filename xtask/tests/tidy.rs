//! Tidy is itself a test: a tree that breaks a house rule fails like any other bug.

use std::path::Path;

use xtask::tidy;

#[test]
fn the_tree_is_tidy() {
    let root = tidy::workspace_root(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let findings = tidy::check_workspace(&root).unwrap();
    assert!(findings.is_empty(), "\n{}", tidy::report(&findings));
}
