//! Jobs run pods until enough have succeeded.
//!
//! Left out: pod failure policies, success policies and back-off per index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::pods::{Group, Pod, Pods};
use super::template::{self, Naming, delete_pod, write_status};
use super::{Outcome, Owner};
use crate::apiserver::{ApiServer, At, Change, Deletion, Refusal};
use crate::fields::{
    after_seconds, conditions_with, controller_uid, has_condition, integer, is_deleting, moment, name,
};
use crate::fields::{phase, stamp, uid};
use crate::kinds::Kind;

/// After a failure the next pod waits so long, twice as long after each further one.
const BACK_OFF_SECONDS: i64 = 10;
const BACK_OFF_SECONDS_MAX: i64 = 600;

/// How the pods of each Job ended. A pod counts once, also after it is gone.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    ended: BTreeMap<At, Ended>,
}

#[derive(Debug, Default)]
struct Ended {
    of_uid: String,
    succeeded: BTreeSet<Arc<str>>,
    failed: BTreeSet<Arc<str>>,
    /// Of an indexed Job: which places are done.
    indexes: BTreeSet<i64>,
    /// Pods that the Job itself has sent away; they count as nothing.
    dismissed: BTreeSet<Arc<str>>,
    failures_in_a_row: u32,
    last_failure: Option<Timestamp>,
}

/// A Job and its pods, as far as one look goes.
struct Look<'a> {
    server: &'a ApiServer,
    job: &'a Value,
    ended: &'a mut Ended,
    group: Option<&'a Group>,
    now: Timestamp,
}

impl Jobs {
    pub(super) fn heed(&mut self, change: &Change) {
        if change.kind == Kind::Job && change.after.is_none() {
            self.ended.remove(&change.at);
        }
    }

    /// A pod that is deleted before it succeeded counts as failed, as in a real cluster.
    pub(super) fn heed_pod(&mut self, owner: &Owner, change: &Change) {
        let (Kind::Job, at) = owner else { return };
        let Some(pod) = change.after.as_ref().or(change.before.as_ref()) else { return };
        let Some(owner_uid) = controller_uid(pod) else { return };
        let ended = self.ended.entry(at.clone()).or_default();
        if ended.of_uid != owner_uid {
            *ended = Ended { of_uid: owner_uid.to_owned(), ..Ended::default() };
        }
        let pod_uid: Arc<str> = uid(pod).into();
        if [&ended.succeeded, &ended.failed, &ended.dismissed].iter().any(|counted| counted.contains(&pod_uid)) {
            return;
        }
        if phase(pod) == "Succeeded" {
            let index = pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"].as_str();
            ended.indexes.extend(index.and_then(|index| index.parse::<i64>().ok()));
            ended.succeeded.insert(pod_uid);
            ended.failures_in_a_row = 0;
        } else if phase(pod) == "Failed" || is_deleting(pod) || change.after.is_none() {
            ended.failed.insert(pod_uid);
            ended.failures_in_a_row += 1;
            ended.last_failure = None;
        }
    }

    pub(super) fn reconcile(&mut self, at: &At, pods: &Pods, server: &ApiServer) -> Outcome {
        let Some(job) = server.get(Kind::Job, at) else { return Outcome::default() };
        let ended = self.ended.entry(at.clone()).or_default();
        if ended.of_uid != uid(&job) {
            *ended = Ended { of_uid: uid(&job).to_owned(), ..Ended::default() };
        }
        let now = server.now();
        if ended.failures_in_a_row > 0 && ended.last_failure.is_none() {
            ended.last_failure = Some(now);
        }
        let mut look = Look { server, job: &job, ended, group: pods.group(uid(&job)), now };
        look.act()
    }
}

impl Look<'_> {
    fn act(&mut self) -> Outcome {
        if is_deleting(self.job) {
            return Outcome::default();
        }
        if let Some(again) = self.bury() {
            return Outcome { again, refused: None };
        }
        if self.job["spec"]["suspend"] == true {
            self.delete_active(self.active());
            self.say(None, &["Suspended", "True", "JobSuspended", "Job suspended"]);
            return Outcome::default();
        }
        if let Some(verdict) = self.verdict() {
            self.delete_active(self.active());
            self.say(Some(verdict[0]), &verdict);
            return Outcome::default();
        }
        let (started, refused) = self.keep_running();
        self.say(None, &[""; 4]);
        let deadline = self.deadline().filter(|at| *at > self.now);
        Outcome { again: started.into_iter().chain(deadline).min(), refused }
    }

    /// Of a Job that is over: when it is to be deleted, which happens here if the time has come.
    fn bury(&self) -> Option<Option<Timestamp>> {
        let over = ["Complete", "Failed"].iter().find(|of_type| has_condition(self.job, of_type, "True"))?;
        let Some(seconds) = self.job["spec"]["ttlSecondsAfterFinished"].as_i64() else { return Some(None) };
        let since = crate::fields::condition(self.job, over).and_then(|over| moment(&over["lastTransitionTime"]));
        let until = after_seconds(since.unwrap_or(self.now), seconds);
        if until > self.now {
            return Some(Some(until));
        }
        let deletion = Deletion { uid: Some(uid(self.job).to_owned()), ..Deletion::default() };
        // Somebody else may have deleted it first.
        let _ = self.server.delete(Kind::Job, &crate::fields::at(self.job), &deletion);
        Some(None)
    }

    fn is_indexed(&self) -> bool {
        self.job["spec"]["completionMode"] == "Indexed"
    }

    fn completions(&self) -> Option<i64> {
        self.job["spec"]["completions"].as_i64()
    }

    fn succeeded(&self) -> i64 {
        if self.is_indexed() { self.ended.indexes.len() as i64 } else { self.ended.succeeded.len() as i64 }
    }

    fn active(&self) -> i64 {
        self.group.map_or(0, |group| group.counts.active)
    }

    fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.job["spec"]["activeDeadlineSeconds"].as_i64()?;
        Some(after_seconds(moment(&self.job["status"]["startTime"]).unwrap_or(self.now), seconds))
    }

    /// The condition that ends the Job, if it has come to that.
    fn verdict(&self) -> Option<[&'static str; 4]> {
        let is_done = match self.completions() {
            Some(completions) => self.succeeded() >= completions,
            None => self.succeeded() > 0 && self.active() == 0,
        };
        if self.ended.failed.len() as i64 > integer(&self.job["spec"]["backoffLimit"], 6) {
            return Some(["Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"]);
        }
        if is_done {
            return Some(["Complete", "True", "CompletionsReached", "Reached expected number of succeeded pods"]);
        }
        let is_late = self.deadline().is_some_and(|deadline| deadline <= self.now);
        is_late.then_some(["Failed", "True", "DeadlineExceeded", "Job was active longer than specified deadline"])
    }

    /// Makes the pods that are missing, unless failures hold them up; says until when.
    fn keep_running(&mut self) -> (Option<Timestamp>, Option<Refusal>) {
        let parallelism = integer(&self.job["spec"]["parallelism"], 1);
        let wanted = match self.completions() {
            Some(completions) => parallelism.min(completions - self.succeeded()),
            None if self.succeeded() > 0 => self.active().min(parallelism),
            None => parallelism,
        };
        let active = self.active();
        if active > wanted {
            self.delete_active(active - wanted);
        }
        // A pod on its way out is not replaced twice: it has been counted as failed already.
        let missing = wanted - active;
        if missing <= 0 {
            return (None, None);
        }
        if let Some(until) = self.back_off().filter(|until| *until > self.now) {
            return (Some(until), None);
        }
        (None, self.create(missing).err())
    }

    fn back_off(&self) -> Option<Timestamp> {
        let doublings = self.ended.failures_in_a_row.checked_sub(1)?.min(16);
        let seconds = (BACK_OFF_SECONDS << doublings).min(BACK_OFF_SECONDS_MAX);
        Some(after_seconds(self.ended.last_failure?, seconds))
    }

    fn create(&self, count: i64) -> Result<(), Refusal> {
        let template = &self.job["spec"]["template"];
        if !self.is_indexed() {
            for _ in 0..count {
                let naming = Naming::Generated(format!("{}-", name(self.job)));
                self.server.create(template::pod(self.job, template, naming))?;
            }
            return Ok(());
        }
        let taken: BTreeSet<i64> =
            self.group.into_iter().flat_map(Group::active).filter_map(|(_, pod)| pod.index).collect();
        let open = (0..self.completions().unwrap_or(0))
            .filter(|index| !taken.contains(index) && !self.ended.indexes.contains(index));
        for index in open.take(count as usize) {
            let naming = Naming::Generated(format!("{}-{index}-", name(self.job)));
            let mut pod = template::pod(self.job, template, naming);
            pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = json!(index.to_string());
            pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = json!(index.to_string());
            self.server.create(pod)?;
        }
        Ok(())
    }

    /// Pods that do not run yet go first, then the youngest.
    fn delete_active(&mut self, count: i64) {
        let mut active: Vec<(&At, &Pod)> = self.group.into_iter().flat_map(Group::active).collect();
        active.sort_by(|(_, a), (_, b)| {
            (a.phase.cmp(&b.phase))
                .then(a.is_ready().cmp(&b.is_ready()))
                .then(b.created.cmp(&a.created))
                .then(a.uid.cmp(&b.uid))
        });
        for (at, pod) in active.into_iter().take(count.max(0) as usize) {
            self.ended.dismissed.insert(pod.uid.clone());
            delete_pod(self.server, at, &pod.uid);
        }
    }

    /// The status, with one condition more if it names one.
    fn say(&self, over: Option<&str>, condition: &[&str; 4]) {
        let is_suspended = self.job["spec"]["suspend"] == true;
        let counts = self.group.map(|group| group.counts).unwrap_or_default();
        let mut status = json!({
            "active": if over.is_some() || is_suspended { 0 } else { counts.active },
            "ready": if over.is_some() { 0 } else { counts.ready },
            "terminating": counts.terminating,
            "succeeded": self.succeeded(),
            "failed": self.ended.failed.len(),
        });
        if !is_suspended && self.job["status"]["startTime"].is_null() {
            status["startTime"] = json!(stamp(self.now));
        }
        if over == Some("Complete") {
            status["completionTime"] = json!(stamp(self.now));
        }
        let was_suspended = has_condition(self.job, "Suspended", "True");
        if !condition[0].is_empty() {
            status["conditions"] = conditions_with(self.job, self.now, &[*condition]);
        } else if was_suspended {
            let resumed = ["Suspended", "False", "JobResumed", "Job resumed"];
            status["conditions"] = conditions_with(self.job, self.now, &[resumed]);
        }
        write_status(self.server, Kind::Job, self.job, status);
    }
}
