//! Capacity buffers: what each refers to, how many pods that stands for, and what its author is told.
//!
//! Templates are read anew at every look, and PodTemplates also wake their buffers; workloads are looked at by the clock.
//! What a plan finds out about a buffer's room is left in `ctx.rooms`, and written here, so that one hand writes the status.

mod resolve;
mod rooms;
mod status;
#[cfg(test)]
mod tests;

use std::time::Duration;

use api::CapacityBuffer;
use cluster::lower::buffer::{Resolved, replicas};
use cluster::store::Template;
use cluster::{Duty, Store};
use kube::Api;
use model::ids::PodName;
use runtime::Next;

use crate::controller::{About, Controller, TickId};
use crate::ctx::Ctx;
use crate::error::ControllerError;
use crate::settings::Settings;
use crate::write::{self, Statuses};
use resolve::{Found, Unresolved, resolve};
pub(crate) use rooms::{Rooms, judged};

/// The kind of buffer that is ours. Others belong to other controllers.
const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";
const AGAIN: Duration = Duration::from_secs(30);
const WORKERS: usize = 10;

pub(crate) struct Buffers;

impl Controller for Buffers {
    type Key = PodName;
    const NAME: &'static str = "capacitybuffer";
    const ABOUT: Option<About> = Some(About { group: "autoscaling.x-k8s.io", kind: "CapacityBuffer" });
    const NEEDS_ALL_LISTED: bool = true;

    fn wakes_for(call: &Duty) -> Option<PodName> {
        match call {
            Duty::Buffer(name) => Some(name.clone()),
            _ => None,
        }
    }

    fn first_keys(&self, store: &Store) -> Vec<PodName> {
        store.buffers().map(|(name, _)| name.clone()).collect()
    }

    fn workers(_settings: &Settings) -> usize {
        WORKERS
    }

    async fn tick(&self, ctx: &Ctx, name: &PodName, _id: &TickId) -> Result<Next, ControllerError> {
        let Some(buffer) = ctx.store().buffer(name).cloned() else {
            ctx.rooms.forget(name);
            return Ok(Next::OnChange);
        };
        if buffer.spec.provisioning_strategy != ACTIVE_CAPACITY || buffer.metadata.deletion_timestamp.is_some() {
            ctx.rooms.forget(name);
            ctx.tell(|store, now| store.resolve_buffer(name, None, now));
            return Ok(Next::OnChange);
        }
        let found = resolve(ctx, name, &buffer).await?;
        let template = found.as_ref().ok().map(|found| Template { spec: found.template.clone(), source: found.source });
        ctx.tell(|store, now| store.resolve_buffer(name, template, now));
        let size = found.as_ref().map(|found| size(&buffer, found)).unwrap_or_default();
        let after = status::wanted(&buffer, found.as_ref(), size, ctx.rooms.of(name), ctx.timestamp());
        let api: Api<CapacityBuffer> = Api::namespaced(ctx.client.clone(), name.namespace.as_str());
        write::status(ctx, &api, &*buffer, Statuses { before: buffer.status.as_ref(), after: &after }).await?;
        match found {
            Err(Unresolved::Unusable(problem)) => {
                Err(ControllerError::Unusable { doing: format!("resolving capacitybuffer {name}"), problem })
            }
            _ => Ok(Next::After(AGAIN)),
        }
    }
}

fn size(buffer: &CapacityBuffer, found: &Found) -> u32 {
    replicas(buffer, &Resolved { template: &found.template, source: found.source }).value
}
