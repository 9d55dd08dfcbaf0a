//! Limit ranges: what a namespace fills into pods and claims and what it refuses.

use std::collections::BTreeSet;

use api::Quantity;
use serde_json::{Value, json};

use crate::apiserver::Store;
use crate::fields::{each, namespace, quantity, sum_of_pod};
use crate::kinds::Kind;

pub(super) fn apply_to_pod(pod: &mut Value, store: &Store) -> Result<(), String> {
    for item in items_for(pod, store).filter(|item| item["type"] == "Container") {
        fill_in_containers(&mut pod["spec"], item);
    }
    refuse(items_for(pod, store).flat_map(|item| problems_of_pod(&pod["spec"], item)))
}

pub(super) fn check_claim(claim: &Value, store: &Store) -> Result<(), String> {
    let given = Given { requests: &claim["spec"]["resources"]["requests"], limits: &Value::Null };
    let items = items_for(claim, store).filter(|item| item["type"] == "PersistentVolumeClaim");
    refuse(items.flat_map(|item| {
        let problems = [given.below_minimum(item, "storage"), given.request_above_maximum(item, "storage")];
        problems.into_iter().flatten()
    }))
}

/// What the limit ranges of an object's namespace say.
fn items_for<'a>(object: &Value, store: &'a Store) -> impl Iterator<Item = &'a Value> + use<'a> {
    let ranges = store.list_in(Kind::LimitRange, namespace(object));
    ranges.flat_map(|range| each(&range["spec"]["limits"]))
}

fn refuse(problems: impl Iterator<Item = String>) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let problems: Vec<String> = problems.filter(|problem| seen.insert(problem.clone())).collect();
    match problems.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

fn fill_in_containers(spec: &mut Value, item: &Value) {
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            for (to, from) in [("limits", "default"), ("requests", "defaultRequest")] {
                for (resource, amount) in item[from].as_object().into_iter().flatten() {
                    let field = &mut container["resources"][to][resource.as_str()];
                    if field.is_null() {
                        *field = amount.clone();
                    }
                }
            }
        }
    }
}

fn problems_of_pod(spec: &Value, item: &Value) -> Vec<String> {
    match item["type"].as_str() {
        Some("Container") => {
            let containers = each(&spec["containers"]).chain(each(&spec["initContainers"]));
            let resources = containers.map(|container| &container["resources"]);
            let given = resources.map(|given| Given { requests: &given["requests"], limits: &given["limits"] });
            given.flat_map(|given| given.problems(item)).collect()
        }
        Some("Pod") => {
            let (requests, limits) = (sums(spec, item, "requests"), sums(spec, item, "limits"));
            Given { requests: &requests, limits: &limits }.problems(item)
        }
        _ => Vec::new(),
    }
}

/// What the pod as a whole asks for, of everything that the item bounds.
fn sums(spec: &Value, item: &Value, of: &str) -> Value {
    let mut sums = json!({});
    for bound in ["min", "max", "maxLimitRequestRatio"] {
        for resource in item[bound].as_object().into_iter().flatten().map(|(resource, _)| resource) {
            if let Some(sum) = sum_of_pod(spec, of, resource) {
                sums[resource.as_str()] = json!(sum.to_string());
            }
        }
    }
    sums
}

/// What somebody asks for and limits.
struct Given<'a> {
    requests: &'a Value,
    limits: &'a Value,
}

impl Given<'_> {
    fn problems(&self, item: &Value) -> Vec<String> {
        let keys =
            |bound: &str| item[bound].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        let minimum = keys("min").into_iter().filter_map(|resource| self.below_minimum(item, &resource));
        let maximum = keys("max").into_iter().filter_map(|resource| self.above_maximum(item, &resource));
        let ratio = keys("maxLimitRequestRatio").into_iter().filter_map(|resource| self.above_ratio(item, &resource));
        minimum.chain(maximum).chain(ratio).collect()
    }

    fn request(&self, resource: &str) -> Option<Quantity> {
        quantity(&self.requests[resource])
    }

    fn limit(&self, resource: &str) -> Option<Quantity> {
        quantity(&self.limits[resource])
    }

    fn below_minimum(&self, item: &Value, resource: &str) -> Option<String> {
        let bound = quantity(&item["min"][resource])?;
        let start = format!("minimum {resource} usage per {} is {bound}", kind_of(item));
        match (self.request(resource), self.limit(resource)) {
            (None, _) => Some(format!("{start}.  No request is specified")),
            (Some(request), _) if request < bound => Some(format!("{start}, but request is {request}")),
            (_, Some(limit)) if limit < bound => Some(format!("{start}, but limit is {limit}")),
            _ => None,
        }
    }

    fn above_maximum(&self, item: &Value, resource: &str) -> Option<String> {
        let bound = quantity(&item["max"][resource])?;
        let start = format!("maximum {resource} usage per {} is {bound}", kind_of(item));
        match (self.request(resource), self.limit(resource)) {
            (_, None) => Some(format!("{start}.  No limit is specified")),
            (_, Some(limit)) if limit > bound => Some(format!("{start}, but limit is {limit}")),
            (Some(request), _) if request > bound => Some(format!("{start}, but request is {request}")),
            _ => None,
        }
    }

    fn request_above_maximum(&self, item: &Value, resource: &str) -> Option<String> {
        let bound = quantity(&item["max"][resource])?;
        let start = format!("maximum {resource} usage per {} is {bound}", kind_of(item));
        match self.request(resource) {
            None => Some(format!("{start}.  No request is specified")),
            Some(request) if request > bound => Some(format!("{start}, but request is {request}")),
            Some(_) => None,
        }
    }

    fn above_ratio(&self, item: &Value, resource: &str) -> Option<String> {
        let bound = quantity(&item["maxLimitRequestRatio"][resource])?;
        let start = format!("{resource} max limit to request ratio per {} is {bound}", kind_of(item));
        let positive =
            |quantity: Option<Quantity>| quantity.map(|quantity| quantity.milli()).filter(|milli| *milli != 0);
        let Some(request) = positive(self.request(resource)) else {
            return Some(format!("{start}, but no request is specified or request is 0"));
        };
        let Some(limit) = positive(self.limit(resource)) else {
            return Some(format!("{start}, but no limit is specified or limit is 0"));
        };
        let ratio = limit as f64 / request as f64;
        (ratio * 1000.0 > bound.milli() as f64).then(|| format!("{start}, but provided ratio is {ratio:.6}"))
    }
}

fn kind_of(item: &Value) -> &str {
    item["type"].as_str().unwrap_or_default()
}
