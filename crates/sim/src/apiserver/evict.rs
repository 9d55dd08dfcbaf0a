//! Evictions: deletions that ask the disruption budgets first.

use serde_json::{Value, json};

use super::delete::DeleteOptions;
use super::denial::Denial;
use super::store::Store;
use super::{At, meta};
use crate::fields::{Selector, conditions_with, is_ready, labels};
use crate::kinds::Kind;

/// Evictions that the budget controller has not confirmed; with more of them a budget refuses.
const UNCONFIRMED_MAX: usize = 2000;
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const SEVERAL: &str =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

impl Store {
    pub(super) fn evict(&mut self, at: &At, options: &DeleteOptions) -> Result<(), Denial> {
        let Some(pod) = self.get(Kind::Pod, at).cloned() else { return Err(Denial::not_found(Kind::Pod, &at.name)) };
        if !is_beyond_budgets(&pod) {
            let budgets = self.budgets_of(&pod);
            match budgets.as_slice() {
                [] => {}
                [budget] => self.charge(budget, &pod, options.is_dry_run)?,
                _ => return Err(Denial::bare(500, SEVERAL)),
            }
        }
        self.mark_and_delete(at, &pod, options)
    }

    fn budgets_of(&self, pod: &Value) -> Vec<At> {
        let is_meant = |budget: &Value| Selector::of(&budget["spec"]["selector"]).matches(labels(pod));
        let budgets = self.list_in(Kind::PodDisruptionBudget, meta::namespace(pod));
        budgets.filter(|budget| is_meant(budget)).map(|budget| At::of(budget)).collect()
    }

    /// Takes one disruption off a budget, or says that there is none to take. Pods that are unhealthy may be free of charge.
    fn charge(&mut self, at: &At, pod: &Value, is_dry_run: bool) -> Result<(), Denial> {
        let Some(budget) = self.get(Kind::PodDisruptionBudget, at).cloned() else { return Ok(()) };
        let status = &budget["status"];
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        if !is_ready(pod) {
            let has_healthy = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
            if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || has_healthy {
                return Ok(());
            }
        }
        if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
            let message = format!("The disruption budget {} is still being processed by the server.", at.name);
            return Err(refused(&message, 10));
        }
        let forbid = |why: &str| Err(Denial::forbidden(Kind::PodDisruptionBudget, &at.name, why));
        match number("disruptionsAllowed") {
            allowed if allowed < 0 => return forbid("pdb disruptions allowed is negative"),
            _ if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > UNCONFIRMED_MAX) => {
                return forbid("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
            }
            0 => return Err(refused(&why_nothing_is_allowed(&at.name, status), 0)),
            _ => {}
        }
        if is_dry_run {
            return Ok(());
        }
        let now = self.stamp();
        let mut changed = Value::clone(&budget);
        let left = number("disruptionsAllowed") - 1;
        changed["status"]["disruptionsAllowed"] = left.into();
        changed["status"]["disruptedPods"][meta::name(pod)] = now.as_str().into();
        if left == 0 {
            tell_that_nothing_is_allowed(&mut changed, &now);
        }
        self.put(Kind::PodDisruptionBudget, at, changed);
        Ok(())
    }

    fn mark_and_delete(&mut self, at: &At, pod: &Value, options: &DeleteOptions) -> Result<(), Denial> {
        let mut options = options.clone();
        if !options.is_dry_run {
            super::delete::check_preconditions(Kind::Pod, at, pod, &options)?;
            let mut changed = pod.clone();
            let target = ["DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting"];
            changed["status"]["conditions"] = conditions_with(pod, self.now(), &[target]);
            if changed != *pod {
                self.put(Kind::Pod, at, changed);
            }
            // The version was checked above; the condition has moved it.
            options.version = None;
        }
        self.delete(Kind::Pod, at, &options)?;
        Ok(())
    }
}

/// Pods that do no work, or are going, are nobody's loss.
fn is_beyond_budgets(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending")) || meta::is_deleting(pod)
}

fn refused(message: &str, retry_after_secs: u32) -> Denial {
    let cause = json!({"reason": "DisruptionBudget", "message": message});
    Denial::too_many_requests(REFUSED, &cause, retry_after_secs)
}

fn why_nothing_is_allowed(name: &str, status: &Value) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let refusal =
        conditions.into_iter().find(|found| found["type"] == "DisruptionAllowed" && found["status"] == "False");
    let text = |field: &str| refusal.and_then(|refusal| refusal[field].as_str()).unwrap_or_default();
    let (desired, current) =
        (status["desiredHealthy"].as_i64().unwrap_or(0), status["currentHealthy"].as_i64().unwrap_or(0));
    match (text("reason"), text("message")) {
        ("SyncFailed", message) if !message.is_empty() => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
            )
        }
        _ if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        (reason, message) if !message.is_empty() => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
        }
        _ => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn tell_that_nothing_is_allowed(budget: &mut Value, now: &str) {
    let generation = budget["status"]["observedGeneration"].clone();
    let entry = json!({
        "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
        "observedGeneration": generation, "lastTransitionTime": now,
    });
    let status = &mut budget["status"];
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|found| found["type"] == "DisruptionAllowed") {
        Some(found) => *found = entry,
        None => conditions.push(entry),
    }
}
