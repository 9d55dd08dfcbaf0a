//! What is served, told to clients that ask.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::denial::{Denial, not_served};
use super::route::Place;
use crate::kinds::{Kind, Subresource};

/// The release that the server has the manners of.
const MINOR: &str = "36";

pub(super) fn describe(place: &Place, absent: &BTreeSet<Kind>) -> Result<(u16, Vec<u8>), Denial> {
    let value = match place {
        Place::Health => return Ok((200, b"ok".to_vec())),
        Place::Version => json!({
            "major": "1", "minor": MINOR, "gitVersion": format!("v1.{MINOR}.0"), "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "",
        }),
        Place::Core => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        Place::Groups => {
            let groups: Vec<Value> = groups(absent).iter().map(|(name, versions)| group(name, versions)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        Place::Group(name) => {
            let groups = groups(absent);
            let versions = groups.get(name.as_str()).ok_or_else(|| not_served(name, "anything"))?;
            let mut described = group(name, versions);
            described["kind"] = "APIGroup".into();
            described["apiVersion"] = "v1".into();
            described
        }
        Place::GroupVersion(version) => resources(version, absent)?,
    };
    Ok((200, value.to_string().into_bytes()))
}

fn groups(absent: &BTreeSet<Kind>) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for kind in Kind::ALL.iter().filter(|kind| !kind.group().is_empty() && !absent.contains(kind)) {
        groups.entry(kind.group()).or_default().insert(kind.api_version());
    }
    groups
}

/// Stable versions come before those that are not.
fn group(name: &str, versions: &BTreeSet<&str>) -> Value {
    let mut versions: Vec<&str> = versions.iter().copied().collect();
    versions.sort_by_key(|version| (version.contains("alpha"), version.contains("beta")));
    let described: Vec<Value> =
        versions.iter().map(|version| json!({"groupVersion": version, "version": short(version)})).collect();
    json!({"name": name, "versions": described, "preferredVersion": described.first()})
}

fn short(version: &str) -> &str {
    version.rsplit('/').next().unwrap_or(version)
}

fn resources(version: &str, absent: &BTreeSet<Kind>) -> Result<Value, Denial> {
    let mut resources = Vec::new();
    for kind in Kind::ALL.iter().filter(|kind| kind.api_version() == version && !absent.contains(kind)) {
        let plural = kind.plural();
        let verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
        resources.push(resource(*kind, plural, kind.as_str(), &verbs));
        let parts: [(Subresource, &str, &str, &[&str]); 4] = [
            (Subresource::Status, "status", kind.as_str(), &["get", "patch", "update"]),
            (Subresource::Scale, "scale", "Scale", &["get", "patch", "update"]),
            (Subresource::Binding, "binding", "Binding", &["create"]),
            (Subresource::Eviction, "eviction", "Eviction", &["create"]),
        ];
        for (part, name, of, verbs) in parts.into_iter().filter(|(part, ..)| kind.has(*part)) {
            let mut described = resource(*kind, &format!("{plural}/{name}"), of, verbs);
            match part {
                Subresource::Scale => (described["group"], described["version"]) = ("autoscaling".into(), "v1".into()),
                Subresource::Eviction => (described["group"], described["version"]) = ("policy".into(), "v1".into()),
                Subresource::Status | Subresource::Binding => {}
            }
            resources.push(described);
        }
    }
    if resources.is_empty() {
        return Err(not_served(version, "anything"));
    }
    Ok(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}))
}

fn resource(kind: Kind, name: &str, of: &str, verbs: &[&str]) -> Value {
    let is_namespaced = kind.is_namespaced();
    json!({"name": name, "singularName": "", "namespaced": is_namespaced, "kind": of, "verbs": verbs})
}
