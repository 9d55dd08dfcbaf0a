//! How free waiting pods are in their zone, for a metric: whoever sees `none` grow looks for a zone that ran out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::labels::ZONE;
use model::pod::Pod;
use model::requirements::Requirements;
use model::snapshot::Snapshot;
use model::topology::{PodTerm, SpreadMode};

const FLEXIBLE: &str = "flexible";
const NONE: &str = "none";

type Zones = BTreeSet<Arc<str>>;

/// How many of the pods can only run in each zone; those with a choice, and those with none, are counted apart. Wishes do
/// not count.
pub(crate) fn effective<'a>(snapshot: &Snapshot, pods: impl Iterator<Item = &'a Pod>) -> BTreeMap<String, usize> {
    let mut view: Option<View<'_>> = None;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods {
        let zone = if is_bound(pod) {
            view.get_or_insert_with(|| View::of(snapshot)).zone_of(pod)
        } else {
            FLEXIBLE.to_owned()
        };
        *counts.entry(zone).or_default() += 1;
    }
    counts
}

/// Whether anything that the pod demands has to do with zones. Most pods demand nothing.
fn is_bound(pod: &Pod) -> bool {
    let wants = &pod.wants;
    let names_zone = |set: &Requirements| set.get(ZONE).is_some();
    names_zone(&wants.selector)
        || wants.terms.iter().any(names_zone)
        || wants.volumes.alternatives.iter().any(names_zone)
        || wants.spread.iter().any(|spread| spread.mode == SpreadMode::DoNotSchedule && *spread.key == *ZONE)
        || wants.together.iter().chain(&wants.apart).any(|term| *term.key == *ZONE)
}

struct View<'a> {
    /// Where nodes are, or could be bought.
    zones: Zones,
    /// Pods that run somewhere, with their zone.
    placed: Vec<(&'a Pod, &'a Arc<str>)>,
}

impl<'a> View<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let offerings = snapshot.pools.values().flat_map(|pool| &pool.instance_types).flat_map(|sold| &sold.offerings);
        let on_sale = offerings.filter(|offering| offering.is_available).filter_map(|offering| offering.label(ZONE));
        let there = snapshot.nodes.values().filter_map(|node| node.labels.get(ZONE));
        let zone_of = |pod: &Pod| snapshot.nodes.get(pod.node.as_ref()?)?.labels.get(ZONE);
        let placed = snapshot.pods.values().filter_map(|pod| Some((&**pod, zone_of(pod)?)));
        Self { zones: on_sale.chain(there).cloned().collect(), placed: placed.collect() }
    }

    fn zone_of(&self, pod: &Pod) -> String {
        let mut left = self.zones.clone();
        let wants = &pod.wants;
        let allows = |set: &Requirements, zone: &str| set.get(ZONE).is_none_or(|wanted| wanted.has(zone));
        let any_allows =
            |sets: &[Requirements], zone: &str| sets.is_empty() || sets.iter().any(|set| allows(set, zone));
        left.retain(|zone| {
            allows(&wants.selector, zone)
                && any_allows(&wants.terms, zone)
                && any_allows(&wants.volumes.alternatives, zone)
        });
        self.spread(pod, &mut left);
        for term in wants.together.iter().filter(|term| *term.key == *ZONE) {
            let company = self.zones_with(term);
            // The first of several that want to be together may begin anywhere.
            let begins = company.is_empty() && term.selects(&pod.name.namespace, &pod.labels);
            left.retain(|zone| begins || company.contains(zone));
        }
        for term in wants.apart.iter().filter(|term| *term.key == *ZONE) {
            let others = self.zones_with(term);
            left.retain(|zone| !others.contains(zone));
        }
        match (left.len(), left.pop_first()) {
            (_, None) => NONE.to_owned(),
            (1, Some(zone)) => zone.to_string(),
            (_, Some(_)) => FLEXIBLE.to_owned(),
        }
    }

    /// Drops the zones in which one more pod would make a spread too uneven.
    fn spread(&self, pod: &Pod, left: &mut Zones) {
        let spreads = pod.wants.spread.iter();
        for spread in spreads.filter(|spread| spread.mode == SpreadMode::DoNotSchedule && *spread.key == *ZONE) {
            let mut counts: BTreeMap<Arc<str>, i64> = left.iter().map(|zone| (zone.clone(), 0)).collect();
            for (other, zone) in &self.placed {
                let counted = other.name.namespace == pod.name.namespace && spread.selector.selects(&other.labels);
                if let (true, Some(count)) = (counted, counts.get_mut(*zone)) {
                    *count += 1;
                }
            }
            let least = counts.values().copied().min().unwrap_or(0);
            let own = i64::from(spread.selector.selects(&pod.labels));
            left.retain(|zone| counts[zone] + own - least <= i64::from(spread.max_skew));
        }
    }

    fn zones_with(&self, term: &PodTerm) -> Zones {
        let placed = self.placed.iter().filter(|(other, _)| term.selects(&other.name.namespace, &other.labels));
        placed.map(|(_, zone)| (*zone).clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{World, merged, node_class, node_pool, pending_pod, pod_on};

    fn check(pod: Value, expected: &str) {
        let world = World::new();
        world.put(node_class("default"));
        world.put(node_pool("general"));
        for (name, zone) in [("n-a", "test-zone-a"), ("n-b", "test-zone-b")] {
            world.put(json!({"apiVersion": "v1", "kind": "Node", "spec": {}, "metadata": {"name": name, "labels": {ZONE: zone}}}));
        }
        world.put(merged(pod_on("n-a", "there", "1"), json!({"metadata": {"labels": {"app": "db"}}})));
        world.put(merged(pending_pod("new", "1"), pod));
        world.sync();
        let snapshot = world.ctx.store().snapshot(world.ctx.now());
        let counts = effective(&snapshot, snapshot.pods.values().filter(|pod| pod.node.is_none()).map(|pod| &**pod));
        assert_eq!(counts, BTreeMap::from([(expected.to_owned(), 1)]));
    }

    fn affinity(kind: &str) -> Value {
        let term = json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}});
        json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}})
    }

    // 01/MET-02
    #[tokio::test(start_paused = true)]
    async fn a_pod_counts_for_its_only_zone_for_a_choice_or_for_none() {
        check(json!({}), "flexible");
        check(json!({"spec": {"nodeSelector": {ZONE: "test-zone-a"}}}), "test-zone-a");
        check(json!({"spec": {"nodeSelector": {ZONE: "nowhere"}}}), "none");
        check(affinity("podAffinity"), "test-zone-a");
        check(affinity("podAntiAffinity"), "test-zone-b");
        let wish = json!({"weight": 1, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["x"]}]}});
        let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [wish]});
        check(json!({"spec": {"affinity": {"nodeAffinity": preferred}}}), "flexible");
        let spread = json!({
            "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "db"}},
        });
        let spread = json!({"metadata": {"labels": {"app": "db"}}, "spec": {"topologySpreadConstraints": [spread]}});
        check(spread, "test-zone-b");
    }

    #[tokio::test(start_paused = true)]
    async fn a_volume_binds_its_pod_to_its_zone() {
        let world = World::new();
        world.put(node_class("default"));
        let terms = json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["test-zone-b"]}]}]);
        world.put(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}, "csi": {"driver": "d", "volumeHandle": "h"},
        }}));
        world.put(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "data"},
            "spec": {"volumeName": "disk"}, "status": {"phase": "Bound"}}));
        let node = json!({"name": "n", "labels": {ZONE: "test-zone-b"}});
        world.put(json!({"apiVersion": "v1", "kind": "Node", "spec": {}, "metadata": node}));
        let volumes = json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
        world.put(merged(pending_pod("new", "1"), volumes));
        world.sync();
        let snapshot = world.ctx.store().snapshot(world.ctx.now());
        let counts = effective(&snapshot, snapshot.pods.values().map(|pod| &**pod));
        assert_eq!(counts, BTreeMap::from([("test-zone-b".to_owned(), 1)]));
    }
}
