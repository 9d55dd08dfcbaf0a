//! Workload files, from the names of their rows. The same row gives the same bytes on every machine and on every day.

mod diverse;
mod draft;
mod fleet;
pub(super) mod loose;
mod machine;
mod market;
mod openb;
pub(super) mod resting;
mod series;
mod standing;
#[cfg(test)]
mod tests;

use std::path::Path;

use super::file::{Preferences, Workload};
use super::random::Random;
use super::rows::{Kind, Row};
use diverse::Size;
use draft::{Draft, PodShape};

/// The reference's own benchmark draws with this seed too, though not with this generator.
const SEED: u64 = 42;

/// Where the trace lies, under the folder of data.
pub(super) use openb::{TRACE, TracedPod, read as read_trace};

/// The world of a row. `data` is the folder that recorded traces lie in.
pub(super) fn generate(row: &Row, data: &Path) -> anyhow::Result<Workload> {
    let mut random = Random::new(SEED);
    let mut draft = match row.kind {
        Kind::Diverse | Kind::Preference(_) | Kind::Existing | Kind::Apart | Kind::Generic => series::draft(row.name),
        Kind::Ec2Diverse | Kind::Openb => market::draft(row.name, market::Sold::Everything)?,
        Kind::Ec2Plain => market::draft(row.name, market::Sold::OnDemand)?,
    };
    match row.kind {
        Kind::Diverse | Kind::Ec2Diverse => diverse::add_pods(&mut draft, row.pods, &mut random),
        Kind::Preference(policy) => add_picky_pods(&mut draft, row.pods, policy),
        Kind::Ec2Plain => add_plain_pods(&mut draft, row.pods),
        Kind::Openb => openb::add_pods(&mut draft, &openb::read(data)?),
        Kind::Existing => standing::add_cluster(&mut draft, standing::NODES, row.pods, &mut random),
        Kind::Apart => add_apps_apart(&mut draft, row.pods, &mut random),
        Kind::Generic => diverse::add_generic(&mut draft, row.pods, &mut random),
    }
    let workload = draft.finish();
    workload.check()?;
    Ok(workload)
}

/// These pods of the trace, on what the pool of `scenarios/openb.yaml` may buy.
pub(super) fn openb_scenario(pods: &[TracedPod]) -> anyhow::Result<Workload> {
    let mut draft = market::draft("openb", market::Sold::ToOpenb)?;
    openb::add_pods(&mut draft, pods);
    Ok(draft.finish())
}

/// Identical pods with a zone that they prefer and can have, a distance in zones that only the first few can have, and a distance in
/// hosts that costs a node each.
fn add_picky_pods(draft: &mut Draft, count: usize, policy: Preferences) {
    draft.set_preferences(policy);
    let far = |weight: i32, key: &str| {
        serde_json::json!({"weight": weight, "podAffinityTerm": {
            "labelSelector": {"matchLabels": {"app": "nginx"}}, "topologyKey": key,
        }})
    };
    let affinity = serde_json::json!({
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 1,
            "preference": {"matchExpressions": [{"key": draft::ZONE, "operator": "In", "values": [series::ZONES[0]]}]},
        }]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [far(10, draft::ZONE), far(1, draft::HOSTNAME)],
        },
    });
    let shape =
        PodShape::new(Size { cpu_milli: 500, memory_mib: 512 }).labelled("app", "nginx").with("affinity", affinity);
    let template = draft.template(&shape);
    (0..count).for_each(|number| draft.wait(template, &format!("nginx-{number}"), None));
}

fn add_plain_pods(draft: &mut Draft, count: usize) {
    let shape = PodShape::new(Size { cpu_milli: 1000, memory_mib: 256 }).labelled("app", "plain");
    let template = draft.template(&shape);
    (0..count).for_each(|number| draft.wait(template, &format!("plain-{number}"), None));
}

/// Apps of two hundred alike pods; no two of an app on one host.
fn add_apps_apart(draft: &mut Draft, count: usize, random: &mut Random) {
    const REPLICAS: usize = 200;
    for app in 0..count.div_ceil(REPLICAS) {
        let name = format!("app-{app}");
        let term = serde_json::json!({
            "labelSelector": {"matchLabels": {"app": name}}, "topologyKey": draft::HOSTNAME,
        });
        let affinity =
            serde_json::json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let shape = PodShape::new(Size::draw(random)).labelled("app", &name).with("affinity", affinity);
        let template = draft.template(&shape);
        let replicas = REPLICAS.min(count - app * REPLICAS);
        (0..replicas).for_each(|number| draft.wait(template, &format!("{name}-{number}"), None));
    }
}
