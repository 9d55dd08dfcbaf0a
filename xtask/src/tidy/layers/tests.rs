use super::*;

const ROOT: &str = "
[workspace.dependencies]
api = { path = \"crates/api\" }
model = { path = \"crates/model\" }
engine = { path = \"crates/engine\" }
kube = { version = \"5\", default-features = false, features = [\"derive\"] }
kube_with_client = { package = \"kube\", version = \"5\", default-features = false, features = [\"client\"] }
";

/// Checks a workspace of one member; expects one finding per given piece of sentence, in order.
fn check_member(name: &str, manifest: &str, expected: &[&str]) {
    let root = format!("[workspace]\nmembers = [\"crates/{name}\"]\n{ROOT}");
    let manifest = format!("[package]\nname = \"{name}\"\n{manifest}");
    let findings = check(&Tree::of(&[("Cargo.toml", &root), (&format!("crates/{name}/Cargo.toml"), &manifest)]));
    assert_eq!(findings.len(), expected.len(), "{name}: {findings:#?}");
    for (finding, piece) in findings.iter().zip(expected) {
        assert!(finding.to_string().contains(piece), "{finding} should contain {piece}");
    }
}

#[test]
fn an_arrow_of_the_table_passes() {
    check_member("engine", "[dependencies]\nmodel.workspace = true\nindexmap = \"2\"\n", &[]);
    check_member("cli", "[dependencies]\nprovider-aws = { path = \"../provider-aws\", optional = true }\n", &[]);
}

#[test]
fn an_arrow_that_is_not_in_the_table_is_named_with_its_line() {
    let expected = ["crates/engine/Cargo.toml:5: `engine` must not depend on `api` (it may use: model)"];
    check_member("engine", "[dependencies]\nmodel.workspace = true\napi.workspace = true\n", &expected);
    check_member("runtime", "[dependencies]\nmodel.workspace = true\n", &["(it may use: nobody)"]);
    check_member("viewer", "[dependencies]\ncli = \"1\"\n", &["`viewer` must not depend on `cli`"]);
}

#[test]
fn tests_build_scripts_and_platforms_are_no_way_around_the_table() {
    let expected = ["`model` must not depend on `engine`"];
    check_member("model", "[dev-dependencies]\nengine.workspace = true\n", &expected);
    check_member("model", "[build-dependencies]\nengine.workspace = true\n", &expected);
    check_member("model", "[target.'cfg(unix)'.dependencies]\nengine.workspace = true\n", &expected);
    check_member("model", "[dependencies.engine]\nworkspace = true\n", &expected);
}

#[test]
fn another_name_does_not_hide_a_member() {
    check_member("judge", "[dependencies]\nsolver = { package = \"engine\", path = \"../engine\" }\n", &["`engine`"]);
    check_member("judge", "[dependencies]\nshed = { path = \"../../shed\" }\n", &["`shed`"]);
}

#[test]
fn a_member_outside_the_table_is_refused() {
    check_member("attic", "", &["member `attic` is not in the table"]);
}

#[test]
fn a_member_without_a_manifest_is_named() {
    let findings = check(&Tree::of(&[("Cargo.toml", "[workspace]\nmembers = [\"e2e\"]\n")]));
    assert_eq!(findings, [Finding::in_file("e2e/Cargo.toml", "does not exist, but the workspace needs it: write it")]);
}

#[test]
fn members_may_be_listed_with_a_star() {
    let tree = Tree::of(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
        ("crates/attic/Cargo.toml", "[package]\nname = \"attic\"\n"),
        ("crates/model/Cargo.toml", "[package]\nname = \"model\"\n"),
    ]);
    assert_eq!(
        check(&tree).iter().map(|finding| finding.path.as_str()).collect::<Vec<_>>(),
        ["crates/attic/Cargo.toml"]
    );
}

#[test]
fn the_pure_rooms_do_not_know_the_outside_world() {
    for room in ["model", "engine", "judge"] {
        for banned in ["kube", "kube-core", "k8s-openapi", "tokio", "tokio-util"] {
            let expected = format!("`{room}` must not depend on `{banned}`");
            check_member(room, &format!("[dependencies]\n{banned} = \"1\"\n"), &[&expected]);
        }
    }
    check_member("model", "[dependencies]\nkubera = \"1\"\n", &[]);
    check_member("api", "[dev-dependencies]\ntokio = \"1\"\n", &["`api` must not depend on `tokio`"]);
    check_member("cluster", "[dependencies]\ntokio = \"1\"\n", &[]);
}

#[test]
fn api_has_kube_without_its_client() {
    check_member("api", "[dependencies]\nkube.workspace = true\n", &[]);
    check_member("api", "[dependencies]\nkube = { workspace = true, features = [\"runtime\"] }\n", &["`runtime`"]);
    check_member("api", "[dependencies]\nkube_with_client.workspace = true\n", &["`client`"]);
    check_member("api", "[dependencies]\nkube = \"5\"\n", &["default features"]);
    check_member(
        "api",
        "[dependencies]\nkube = { workspace = true, default-features = true }\n",
        &["default features"],
    );
    check_member("api", "[dependencies]\nkube.workspace = true\n[features]\nlive = [\"kube/client\"]\n", &[":6: "]);
    check_member("controllers", "[dependencies]\nkube = \"5\"\n", &[]);
}

#[test]
fn only_one_room_pays_for_the_cloud_sdk() {
    check_member("provider-aws", "[dependencies]\naws-sdk-ec2 = \"1\"\n", &[]);
    check_member("cli", "[dependencies]\naws-sdk-ec2 = \"1\"\n", &["only `provider-aws` may depend on `aws-sdk-ec2`"]);
}

#[test]
fn the_table_only_names_rooms_it_has() {
    for room in &ROOMS {
        for used in room.may_use {
            assert!(room_named(used).is_some(), "{} may use {used}, which has no row", room.name);
            assert_ne!(*used, "cli", "nothing depends on cli");
        }
    }
}
