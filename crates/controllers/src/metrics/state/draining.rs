//! Nodes whose drain is held up, by what holds it. Ours: the reference tells of them in events only (decision 0068).

use std::collections::BTreeMap;

use cluster::Store;
use engine::drain::Cause;
use model::time::Instant;

use super::{Gauge, Labels, tag};
use crate::ctx::instant;
use crate::disrupted::pool_of;
use crate::drain::DRAIN_BLOCKED;

const LABELS: &[&str] = &["nodepool", "cause"];

pub(super) fn gauges(store: &Store, now: Instant) -> Vec<Gauge> {
    let help = "For how long the drain that has been held up longest has been, by what holds it now.";
    let mut seconds = Gauge::new("dovetail_draining_blocked_seconds", help, LABELS);
    let help = "Nodes whose drain is held up, by what holds it.";
    let mut nodes = Gauge::new("dovetail_draining_blocked_nodes", help, LABELS);
    let mut found: BTreeMap<(String, Cause), (u32, f64)> = BTreeMap::new();
    for claim in store.claims().values().filter(|claim| claim.metadata.deletion_timestamp.is_some()) {
        let mut conditions = claim.status.iter().flat_map(|status| &status.conditions);
        let Some(blocked) = conditions.find(|it| it.type_ == DRAIN_BLOCKED && it.is_true()) else { continue };
        let Some(cause) = Cause::ALL.into_iter().find(|cause| cause.reason() == blocked.reason) else { continue };
        let held = now.since(instant(blocked.last_transition_time.0)).as_secs_f64();
        let (count, longest) = found.entry((pool_of(&*claim), cause)).or_default();
        (*count, *longest) = (*count + 1, longest.max(held));
    }
    for ((pool, cause), (count, longest)) in found {
        let labels = || -> Labels { vec![tag("nodepool", pool.clone()), tag("cause", cause.label())] };
        nodes.push(labels(), f64::from(count));
        seconds.push(labels(), longest);
    }
    vec![nodes, seconds]
}
