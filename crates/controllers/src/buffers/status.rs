//! What a buffer's author is told.

use api::CapacityBuffer;
use api::capacitybuffer::CapacityBufferStatus;
use api::conditions::{Condition, ConditionStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::resolve::{Found, Unresolved};
use super::rooms::Room;

const READY: &str = "ReadyForProvisioning";
const PROVISIONING: &str = "Provisioning";

struct Said<'a> {
    status: ConditionStatus,
    reason: &'static str,
    message: std::borrow::Cow<'a, str>,
}

pub(super) fn wanted(
    buffer: &CapacityBuffer,
    found: Result<&Found, &Unresolved>,
    size: u32,
    room: Option<Room>,
    now: Timestamp,
) -> CapacityBufferStatus {
    let mut status = buffer.status.clone().unwrap_or_default();
    status.provisioning_strategy = Some(buffer.spec.provisioning_strategy.clone());
    status.pod_template_ref = found.ok().and(buffer.spec.pod_template_ref.clone());
    status.pod_template_generation = found.ok().and_then(|found| found.generation);
    status.replicas = Some(i32::try_from(size).unwrap_or(i32::MAX));
    let generation = buffer.metadata.generation;
    set(&mut status.conditions, READY, &readiness(found), generation, now);
    if let Some(said) = provisioning(found.is_ok(), size, room) {
        set(&mut status.conditions, PROVISIONING, &said, generation, now);
    }
    status
}

fn readiness(found: Result<&Found, &Unresolved>) -> Said<'static> {
    let (reason, message) = match found {
        Ok(_) => {
            let message = "the pods of the buffer are known".into();
            return Said { status: ConditionStatus::True, reason: "Resolved", message };
        }
        Err(Unresolved::NoPodTemplate(name)) => ("PodTemplateNotFound", format!("there is no PodTemplate {name}")),
        Err(Unresolved::NoScalable { kind, name }) => ("ScalableRefNotFound", format!("there is no {kind} {name}")),
        Err(Unresolved::Unusable(problem)) => ("ResolutionFailed", problem.clone()),
    };
    Said { status: ConditionStatus::False, reason, message: message.into() }
}

/// Nothing when no plan has looked at the buffer yet.
fn provisioning(is_ready: bool, size: u32, room: Option<Room>) -> Option<Said<'static>> {
    use ConditionStatus::{False, True};
    let (status, reason, message) = match (is_ready, size, room) {
        (false, ..) => (False, "NotReadyForProvisioning", "nobody knows what pods the buffer is for"),
        (true, 0, _) => (False, "BufferEmpty", "the buffer stands for no pods"),
        (true, _, Some(Room::Exists)) => (True, "FitsExistingCapacity", "all pods of the buffer have their room"),
        (true, _, Some(Room::Lacks)) => (False, "RequiresNewCapacity", "some pods of the buffer need new nodes"),
        (true, _, None) => return None,
    };
    Some(Said { status, reason, message: message.into() })
}

/// Conditions of buffers are plain ones: no root is computed from them.
fn set(list: &mut Vec<Condition>, type_: &str, said: &Said<'_>, generation: Option<i64>, now: Timestamp) {
    let known = list.iter_mut().find(|condition| condition.type_ == type_);
    let since =
        known.as_ref().filter(|known| known.status == said.status).map(|known| known.last_transition_time.clone());
    let condition = Condition {
        type_: type_.to_owned(),
        status: said.status,
        observed_generation: generation,
        last_transition_time: since.unwrap_or(Time(now)),
        reason: said.reason.to_owned(),
        message: said.message.to_string(),
    };
    match known {
        Some(known) => *known = condition,
        None => list.push(condition),
    }
}
