//! Amounts of resources.

use api::Quantity;
use serde_json::Value;

use super::each;

pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    if value.is_null() {
        return None;
    }
    serde_json::from_value(value.clone()).ok()
}

/// What a pod needs of a resource by its `requests` or `limits`: all containers and sidecars together, or one of the init containers
/// with the sidecars before it, whichever is more; `None` when nobody names the resource.
pub(crate) fn sum_of_pod(spec: &Value, of: &str, resource: &str) -> Option<Quantity> {
    let amount = |container: &Value| quantity(&container["resources"][of][resource]);
    let milli = |container: &Value| amount(container).map_or(0, |quantity| quantity.milli());
    let mut all = each(&spec["containers"]).chain(each(&spec["initContainers"]));
    all.find_map(amount)?;
    let (mut sidecars, mut most_at_start) = (0_i64, 0_i64);
    for container in each(&spec["initContainers"]) {
        if container["restartPolicy"] == "Always" {
            sidecars = sidecars.saturating_add(milli(container));
            most_at_start = most_at_start.max(sidecars);
        } else {
            most_at_start = most_at_start.max(sidecars.saturating_add(milli(container)));
        }
    }
    let running = each(&spec["containers"]).map(milli).fold(sidecars, i64::saturating_add);
    let most = running.max(most_at_start);
    Some(if resource == "cpu" || most % 1000 != 0 {
        Quantity::from_milli(most)
    } else {
        Quantity::from_bytes(most / 1000)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_needs_what_runs_at_the_same_time() {
        let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = asks("1");
        sidecar["restartPolicy"] = json!("Always");
        for (at_start, expected) in [(json!([]), "3"), (json!([asks("4")]), "4"), (json!([sidecar, asks("4")]), "5")] {
            let spec = json!({"containers": [asks("1"), asks("2"), {}], "initContainers": at_start});
            let sum = sum_of_pod(&spec, "requests", "cpu").map(|sum| sum.to_string());
            assert_eq!(sum.as_deref(), Some(expected), "{spec}");
            assert_eq!(sum_of_pod(&spec, "limits", "cpu"), None);
        }
    }
}
