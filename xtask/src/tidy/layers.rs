//! Who may depend on whom. The table below is the floor plan's arrows; a new arrow is a new decision, not a new line
//! in somebody's manifest.

use super::members::{Dependency, Member, read_members};
use super::{Finding, Tree};

struct Room {
    name: &'static str,
    may_use: &'static [&'static str],
}

/// Direct dependencies between members, rooms that are not built yet included, so that they start out right.
const ROOMS: [Room; 15] = [
    Room { name: "model", may_use: &[] },
    Room { name: "api", may_use: &[] },
    Room { name: "runtime", may_use: &[] },
    Room { name: "engine", may_use: &["model"] },
    // The independent checker of plans: sharing code with engine would let one mistake pass twice.
    Room { name: "judge", may_use: &["model"] },
    Room { name: "cluster", may_use: &["model", "api", "runtime"] },
    Room { name: "provider", may_use: &["model", "api", "runtime"] },
    Room { name: "provider-aws", may_use: &["model", "api", "provider", "runtime"] },
    Room { name: "provider-grpc", may_use: &["model", "api", "provider", "runtime"] },
    Room { name: "controllers", may_use: &["model", "api", "engine", "cluster", "provider", "runtime"] },
    Room {
        name: "sim",
        may_use: &["model", "api", "engine", "judge", "cluster", "provider", "controllers", "runtime"],
    },
    Room { name: "viewer", may_use: &["model", "cluster", "engine"] },
    Room {
        name: "cli",
        may_use: &[
            "model",
            "api",
            "runtime",
            "engine",
            "judge",
            "cluster",
            "provider",
            "provider-aws",
            "provider-grpc",
            "controllers",
            "sim",
            "viewer",
        ],
    },
    // The floor plan's row, api, from which the CRDs are made, and provider, whose EC2 catalogue the benchmark buys from.
    Room { name: "xtask", may_use: &["model", "api", "engine", "judge", "cluster", "provider", "sim"] },
    // e2e also runs cli, but as a process, which is no arrow.
    Room { name: "e2e", may_use: &["api"] },
];

/// Arrows allowed in tests only, from and to. The engine's plans are held before the judge, those for objects from the wire
/// too; the judge knows no engine. The judge itself is held before the real scheduler, on objects that the lowering makes
/// model values of. The simulator's API server and a real one are held to one suite and the same tables, and the former serves the
/// measurement of memory, with the clock of `runtime`.
const TEST_ARROWS: [(&str, &str); 9] = [
    ("engine", "judge"),
    ("cluster", "engine"),
    ("cluster", "judge"),
    ("e2e", "judge"),
    ("e2e", "cluster"),
    ("e2e", "model"),
    ("e2e", "provider"),
    ("e2e", "sim"),
    ("e2e", "runtime"),
];

/// Third-party crates that would bring the outside world into a room that must not know it. A family is banned whole:
/// `tokio` stands for `tokio-util` as well.
const BANNED_FAMILIES: [(&str, &[&str]); 4] = [
    ("model", &["kube", "k8s-openapi", "tokio"]),
    ("engine", &["kube", "k8s-openapi", "tokio"]),
    ("judge", &["kube", "k8s-openapi", "tokio"]),
    ("api", &["tokio"]),
];

/// api describes what is on the wire and must not be able to talk over it.
const KUBE_FEATURES_BANNED_IN_API: [&str; 2] = ["client", "runtime"];

/// It costs minutes and gigabytes to build, so one crate pays for it.
const CLOUD_SDK_PREFIX: &str = "aws-sdk";
const CLOUD_SDK_ROOM: &str = "provider-aws";

pub fn check(tree: &Tree) -> Vec<Finding> {
    let (members, mut findings) = read_members(tree);
    for member in &members {
        findings.extend(check_arrows(member));
        findings.extend(check_bans(member));
        if member.name == "api" {
            findings.extend(check_kube_features(member));
        }
    }
    findings
}

fn check_arrows(member: &Member) -> Vec<Finding> {
    let Some(room) = room_named(&member.name) else {
        let sentence = format!("member `{}` is not in the table of arrows: a new room needs a decision", member.name);
        return vec![Finding::in_file(&member.manifest(), sentence)];
    };
    let ours = member.dependencies.iter().filter(|used| used.has_path || room_named(&used.package).is_some());
    let wrong = ours.filter(|used| !is_allowed(room, used));
    let findings = wrong.map(|used| {
        let may_use = if room.may_use.is_empty() { "nobody".to_owned() } else { room.may_use.join(", ") };
        let sentence = format!(
            "`{}` must not depend on `{}` (it may use: {may_use}): move the code to the room it belongs to, or write \
             a decision for the new arrow",
            member.name, used.package
        );
        Finding::at_line(&member.manifest(), used.line, sentence)
    });
    findings.collect()
}

fn room_named(name: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == name)
}

fn is_allowed(room: &Room, used: &Dependency) -> bool {
    let test_arrow = (room.name, used.package.as_str());
    room.may_use.contains(&used.package.as_str()) || (used.is_for_tests && TEST_ARROWS.contains(&test_arrow))
}

fn check_bans(member: &Member) -> Vec<Finding> {
    let mut findings = Vec::new();
    let families = BANNED_FAMILIES.iter().filter(|(room, _)| *room == member.name).flat_map(|(_, families)| *families);
    let families: Vec<&str> = families.copied().collect();
    for used in &member.dependencies {
        if families.iter().any(|family| is_of_family(&used.package, family)) {
            let sentence = format!(
                "`{}` must not depend on `{}`: keep the outside world out of this room, and lower it to plain values \
                 where it comes in",
                member.name, used.package
            );
            findings.push(Finding::at_line(&member.manifest(), used.line, sentence));
        }
        if used.package.starts_with(CLOUD_SDK_PREFIX) && member.name != CLOUD_SDK_ROOM {
            let sentence =
                format!("only `{CLOUD_SDK_ROOM}` may depend on `{}`: ask the provider trait instead", used.package);
            findings.push(Finding::at_line(&member.manifest(), used.line, sentence));
        }
    }
    findings
}

fn is_of_family(package: &str, family: &str) -> bool {
    package.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn check_kube_features(member: &Member) -> Vec<Finding> {
    let mut findings = Vec::new();
    for used in member.dependencies.iter().filter(|used| used.package == "kube") {
        for feature in used.features.iter().filter(|feature| KUBE_FEATURES_BANNED_IN_API.contains(&feature.as_str())) {
            let sentence = format!("`api` must not switch on kube's `{feature}`: it holds shapes, not behaviour");
            findings.push(Finding::at_line(&member.manifest(), used.line, sentence));
        }
        if used.has_default_features {
            let sentence = "kube's default features bring its client into `api`: set `default-features = false`";
            findings.push(Finding::at_line(&member.manifest(), used.line, sentence));
        }
    }
    for switch in &member.switches {
        let feature = switch.value.strip_prefix("kube").map(|rest| rest.trim_start_matches(['?', '/']));
        if feature.is_some_and(|feature| KUBE_FEATURES_BANNED_IN_API.contains(&feature)) {
            let sentence = format!("`api` must not switch on `{}`: it holds shapes, not behaviour", switch.value);
            findings.push(Finding::at_line(&member.manifest(), switch.line, sentence));
        }
    }
    findings
}

#[cfg(test)]
mod tests;
