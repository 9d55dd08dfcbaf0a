//! What a Deployment says of itself.

use serde_json::json;

use super::super::template::write_status;
use super::Rollout;
use crate::fields::{condition, conditions_with, has_condition, integer};
use crate::kinds::Kind;

impl Rollout<'_> {
    /// Counts and conditions. That a roll-out has taken longer than its deadline is never said: nothing here depends on it.
    pub(super) fn say_status(&self) {
        let sum = |status: &str| self.all().map(|set| set.counted(status)).sum::<i64>();
        let available = sum("availableReplicas");
        let updated = self.new.as_ref().map_or(0, |new| new.counted("replicas"));
        let mut status = json!({
            "replicas": sum("replicas"),
            "updatedReplicas": updated,
            "readyReplicas": sum("readyReplicas"),
            "availableReplicas": available,
            "unavailableReplicas": (self.all_replicas() - available).max(0),
            "terminatingReplicas": sum("terminatingReplicas"),
        });
        let is_available = available >= self.replicas - self.unavailable;
        let mut said = vec![if is_available {
            ["Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."]
        } else {
            ["Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."]
        }];
        let (reason, message) = self.progress(sum("replicas"), updated, available);
        if !message.is_empty() {
            said.push(["Progressing", "True", reason, &message]);
        }
        status["conditions"] = conditions_with(&self.deployment, self.server.now(), &said);
        write_status(self.server, Kind::Deployment, &self.deployment, status);
    }

    /// A Deployment whose roll-out is over stays so until its template changes, whatever its pods do.
    fn progress(&self, total: i64, updated: i64, available: i64) -> (&'static str, String) {
        let Some(new) = &self.new else { return ("", String::new()) };
        let was_over = condition(&self.deployment, "Progressing")
            .is_some_and(|condition| condition["reason"] == "NewReplicaSetAvailable");
        let is_complete = updated == self.replicas && total == self.replicas && available == self.replicas;
        if is_complete || was_over && total == updated && has_condition(&self.deployment, "Progressing", "True") {
            return ("NewReplicaSetAvailable", format!("ReplicaSet \"{}\" has successfully progressed.", new.at.name));
        }
        ("ReplicaSetUpdated", format!("ReplicaSet \"{}\" is progressing.", new.at.name))
    }

    /// Whether the newest set has taken over, by what has been said so far.
    pub(super) fn is_complete(&self) -> bool {
        let status = &self.deployment["status"];
        let is_all = |count: &str| integer(&status[count], 0) == self.replicas;
        is_all("updatedReplicas") && is_all("replicas") && is_all("availableReplicas")
    }
}
