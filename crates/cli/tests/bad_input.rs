//! A command that cannot be carried out says so on one line and ends with the right code.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::process::Command;

/// Runs dovetail and checks its exit code and the words of its only line on standard error.
fn check(arguments: &[&str], code: i32, words: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_dovetail"))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("HTTPS_PROXY")
        .env_remove("https_proxy")
        .env("HOME", "/nonexistent")
        .env("RUST_BACKTRACE", "1")
        .output()
        .unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{line}");
    assert!(line.starts_with("dovetail: ") && line.ends_with('\n') && line.lines().count() == 1, "{line:?}");
    for word in words {
        assert!(line.contains(word), "{line} should contain {word}");
    }
    assert!(output.stdout.is_empty());
}

/// A kubeconfig for an address where nobody listens.
fn kubeconfig(server: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: a, cluster: {{server: {server:?}}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nusers: [{{name: a, user: {{token: t}}}}]\n"
    );
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn an_unknown_command_ends_with_2_and_names_the_nearest() {
    check(&["crdss"], 2, &["crdss", "similar", "crds", "dovetail --help"]);
    check(&[], 2, &["no command", "dovetail --help"]);
}

#[test]
fn an_unknown_flag_or_value_ends_with_2_and_names_what_there_is() {
    check(&["crds", "--provider", "gcp"], 2, &["gcp", "aws, kwok, core"]);
    check(&["crds", "--colour"], 2, &["--colour", "dovetail --help"]);
}

#[test]
fn a_controller_that_cannot_work_as_told_does_not_start() {
    let controller = ["controller", "--provider", "kwok"];
    let with = |more: &[&'static str]| [&controller[..], more].concat();
    check(
        &with(&["--ignore-dra-requests=false"]),
        1,
        &["--ignore-dra-requests", "IGNORE_DRA_REQUESTS", "not served yet"],
    );
    check(&with(&["--log-level", "loud"]), 1, &["--log-level", "loud", "debug, info, error"]);
    check(&with(&["--catalog", "gcp:x"]), 1, &["gcp:x", "ec2:us-east-1"]);
    check(&with(&["--instance-types-file-path", "/no/such/file"]), 1, &["/no/such/file"]);
    check(&["controller"], 2, &["--provider"]);
    check(&["controller", "--provider", "aws"], 2, &["aws", "kwok"]);
}

#[test]
fn an_unreadable_kubeconfig_ends_with_1_and_names_the_file() {
    check(&["crds", "--apply", "--kubeconfig", "/no/such/file"], 1, &["/no/such/file", "readable"]);
    let garbage = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(garbage.path(), "{not yaml").unwrap();
    let path = garbage.path().to_str().unwrap();
    check(&["crds", "--apply", "--kubeconfig", path], 1, &[path]);
}

#[test]
fn an_unreachable_cluster_ends_with_1_and_names_the_address() {
    let file = kubeconfig("https://127.0.0.1:1");
    let path = file.path().to_str().unwrap();
    check(&["crds", "--apply", "--kubeconfig", path], 1, &["https://127.0.0.1:1", "check that it is up"]);
}

#[test]
fn an_unknown_context_ends_with_1_and_names_it() {
    let file = kubeconfig("https://127.0.0.1:1");
    let path = file.path().to_str().unwrap();
    check(&["crds", "--apply", "--kubeconfig", path, "--context", "prod"], 1, &["\"prod\"", "--context"]);
}

#[test]
fn a_broken_kubeconfig_of_the_environment_is_not_passed_over() {
    let garbage = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(garbage.path(), "{not yaml").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_dovetail"))
        .args(["crds", "--apply"])
        .env("KUBECONFIG", garbage.path())
        .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        .env("KUBERNETES_SERVICE_PORT", "1")
        .output()
        .unwrap();
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.contains("KUBECONFIG") && line.lines().count() == 1, "{line}");
}

#[test]
fn no_cluster_at_all_ends_with_1_and_says_how_to_name_one() {
    check(&["crds", "--apply"], 1, &["--kubeconfig", "KUBECONFIG"]);
}

#[test]
fn printing_to_a_reader_that_leaves_early_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_dovetail"))
        .arg("crds")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert!(output.status.success());
}
