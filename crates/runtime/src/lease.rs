//! One of several processes acts; the others wait. The Lease object in the API server says which.
//!
//! The rules are client-go's, because the two may compete for one Lease: a holder renews every two seconds; who sees a
//! Lease unchanged for its whole duration, by its own clock, may take it. Clocks of different machines are never
//! compared. A holder that cannot renew gives up well before anybody else may take over.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::json;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::error::{RuntimeError, with_causes};
use crate::rng::Rng;
use crate::tasks::Stop;

/// The share of the retry period that chance adds while waiting for the Lease, as client-go has it.
const ACQUIRE_JITTER: f64 = 1.2;

#[derive(Clone, Debug)]
pub struct LeaseSettings {
    pub namespace: String,
    pub name: String,
    /// Differs between any two processes, also between a process and its successor.
    pub identity: String,
    /// How long others wait before they take over from a holder that is silent.
    pub duration: Duration,
    /// How long a holder goes on trying to renew. Less than `duration`, or two would act at once.
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl LeaseSettings {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// A name for this process that no other has: where it runs, and a random part.
pub fn identity(host: &str, rng: &Rng) -> String {
    format!("{host}_{}", rng.uuid())
}

/// A candidate for one Lease.
pub struct Election {
    api: Api<Lease>,
    clock: Clock,
    rng: Rng,
    settings: LeaseSettings,
    seen: Option<Seen>,
    /// What was last said about waiting, so that it is said once.
    said: String,
}

/// The Lease as it was last read or written, and since when, at the latest, others may have seen this content.
struct Seen {
    lease: Lease,
    since: Instant,
}

enum Outcome {
    Held,
    HeldBy(String),
}

impl Election {
    pub fn new(client: Client, clock: Clock, rng: Rng, settings: LeaseSettings) -> Self {
        let api = Api::namespaced(client, &settings.namespace);
        Self { api, clock, rng, settings, seen: None, said: String::new() }
    }

    /// Waits for the Lease, works while holding it, and gives it back. When the Lease is lost the work is dropped where it
    /// stands and the error says why; the process should end then, because it may have acted on what it no longer owns.
    pub async fn lead<W>(mut self, stop: &Stop, work: impl FnOnce() -> W) -> Result<(), RuntimeError>
    where
        W: Future<Output = Result<(), RuntimeError>>,
    {
        let is_leader = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = self.acquire() => true,
        };
        let result = if is_leader {
            tracing::info!(lease = self.name(), identity = self.settings.identity, "leading");
            tokio::select! {
                biased;
                lost = self.hold() => Err(lost),
                result = work() => result,
            }
        } else {
            Ok(())
        };
        // Not before the work has ended, or the next leader would begin beside us. Also after a wait that was broken off:
        // its last request may have been granted.
        self.release().await;
        result
    }

    async fn acquire(&mut self) {
        loop {
            let attempt = self.limited_attempt().await;
            let said = match &attempt {
                Ok(Outcome::Held) => return,
                Ok(Outcome::HeldBy(other)) => other,
                Err(reason) => reason,
            };
            if *said != self.said {
                match &attempt {
                    Err(error) => tracing::warn!(lease = self.name(), error, "cannot get the lease, trying again"),
                    Ok(_) => tracing::info!(lease = self.name(), holder = said, "waiting for the lease"),
                }
                self.said.clone_from(said);
            }
            tokio::time::sleep(self.settings.retry_period.mul_f64(1.0 + ACQUIRE_JITTER * self.rng.unit())).await;
        }
    }

    /// Renews until that does not work any more.
    async fn hold(&mut self) -> RuntimeError {
        loop {
            tokio::time::sleep(self.settings.retry_period).await;
            let deadline = self.renew_until();
            let mut reason = String::from("no answer from the server");
            loop {
                match tokio::time::timeout_at(deadline, self.limited_attempt()).await {
                    Ok(Ok(Outcome::Held)) => break,
                    Ok(Ok(Outcome::HeldBy(other))) => return self.lost(format!("{other} has it")),
                    Ok(Err(failure)) => reason = failure,
                    Err(_) => {}
                }
                let next = Instant::now() + self.settings.retry_period;
                if next >= deadline {
                    tokio::time::sleep_until(deadline).await;
                    let tried = self.settings.renew_deadline;
                    return self.lost(format!("it could not be renewed for {tried:?}: {reason}"));
                }
                tokio::time::sleep_until(next).await;
            }
        }
    }

    /// Until when a renewal may be tried. Others count from our last write, which the server may have got long before we
    /// got its answer.
    fn renew_until(&self) -> Instant {
        let deadline = Instant::now() + self.settings.renew_deadline;
        let safe = self.settings.duration.saturating_sub(self.settings.retry_period);
        self.seen.as_ref().map_or(deadline, |seen| deadline.min(seen.since + safe))
    }

    fn lost(&self, reason: String) -> RuntimeError {
        RuntimeError::LeaseLost { lease: self.name(), reason }
    }

    /// Lets somebody else take over at once. Best effort: if it fails they take over when the duration is over.
    async fn release(&mut self) {
        let release = async {
            let Some(lease) = self.api.get_opt(&self.settings.name).await? else { return Ok(()) };
            if holder(&lease) != self.settings.identity {
                return Ok(());
            }
            let mut spec = self.claim(&lease);
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.acquire_time.clone_from(&spec.renew_time);
            self.patch(&lease, &spec).await.map(drop)
        };
        let released: Result<Result<(), Error>, _> = tokio::time::timeout(self.request_timeout(), release).await;
        match released {
            Ok(Ok(())) => tracing::debug!(lease = self.name(), "released"),
            Ok(Err(error)) => tracing::warn!(lease = self.name(), error = with_causes(&error), "cannot release"),
            Err(_) => tracing::warn!(lease = self.name(), "cannot release: no answer from the server"),
        }
    }

    /// An attempt in limited time, with the reason in words. Less than the renew deadline, so that one lost request does
    /// not cost the Lease.
    async fn limited_attempt(&mut self) -> Result<Outcome, String> {
        match tokio::time::timeout(self.request_timeout(), self.attempt()).await {
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(error)) => Err(with_causes(&error)),
            Err(_) => Err("no answer from the server".to_owned()),
        }
    }

    fn request_timeout(&self) -> Duration {
        (self.settings.renew_deadline / 2).max(Duration::from_secs(1))
    }

    /// Takes or renews the Lease if that is allowed.
    async fn attempt(&mut self) -> Result<Outcome, Error> {
        let started = Instant::now();
        // A holder need not read what it wrote itself.
        if let Some(seen) = &self.seen
            && holder(&seen.lease) == self.settings.identity
            && !seen.has_expired()
        {
            match self.patch(&seen.lease, &self.claim(&seen.lease)).await {
                Ok(lease) => return Ok(self.hold_since(started, lease)),
                Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else {
            let lease = self.api.create(&PostParams::default(), &self.first()).await?;
            return Ok(self.hold_since(started, lease));
        };
        self.observe(lease);
        let Some(seen) = &self.seen else { return Ok(Outcome::HeldBy(String::new())) };
        let holder = holder(&seen.lease);
        if !holder.is_empty() && holder != self.settings.identity && !seen.has_expired() {
            return Ok(Outcome::HeldBy(holder.to_owned()));
        }
        let lease = self.patch(&seen.lease, &self.claim(&seen.lease)).await?;
        Ok(self.hold_since(started, lease))
    }

    /// Remembers what was read. Only a new content counts as a sign of life; somebody else may touch the labels.
    fn observe(&mut self, lease: Lease) {
        let since = match &self.seen {
            Some(seen) if seen.lease.spec == lease.spec => seen.since,
            _ => Instant::now(),
        };
        self.seen = Some(Seen { lease, since });
    }

    fn hold_since(&mut self, since: Instant, lease: Lease) -> Outcome {
        self.seen = Some(Seen { lease, since });
        Outcome::Held
    }

    fn first(&self) -> Lease {
        let metadata = ObjectMeta {
            name: Some(self.settings.name.clone()),
            namespace: Some(self.settings.namespace.clone()),
            ..ObjectMeta::default()
        };
        let mut lease = Lease { metadata, spec: None };
        let mut spec = self.claim(&lease);
        spec.lease_transitions = Some(0);
        lease.spec = Some(spec);
        lease
    }

    /// What the Lease should say when it is ours, given what it says now.
    fn claim(&self, old: &Lease) -> LeaseSpec {
        let now = Some(MicroTime(self.clock.now()));
        let old_spec = old.spec.clone().unwrap_or_default();
        let transitions = old_spec.lease_transitions.unwrap_or_default();
        let is_ours = holder(old) == self.settings.identity;
        LeaseSpec {
            holder_identity: Some(self.settings.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.settings.duration.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: if is_ours { old_spec.acquire_time } else { now.clone() },
            renew_time: now,
            lease_transitions: Some(if is_ours { transitions } else { transitions.saturating_add(1) }),
            ..LeaseSpec::default()
        }
    }

    /// Writes only if nobody else has written since `old` was read.
    async fn patch(&self, old: &Lease, spec: &LeaseSpec) -> Result<Lease, Error> {
        let version = old.metadata.resource_version.as_deref().unwrap_or_default();
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": spec});
        self.api.patch(&self.settings.name, &PatchParams::default(), &Patch::Merge(patch)).await
    }

    fn name(&self) -> String {
        format!("{}/{}", self.settings.namespace, self.settings.name)
    }
}

impl Seen {
    fn has_expired(&self) -> bool {
        let seconds = self.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
        self.since.elapsed() >= Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    }
}

/// Empty when nobody holds it.
fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
