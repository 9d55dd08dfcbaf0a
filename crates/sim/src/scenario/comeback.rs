//! Pods of a trace that somebody evicts come back: in the cluster that was recorded each belonged to a workload, and its owner would
//! have made another one. They have no owner here because thousands of workloads of one pod would cost as much as the pods.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::trace::Trace;
use crate::apiserver::{ApiServer, At, Change};
use crate::kinds::Kind;
use crate::standin::StandIn;

/// A pod's trace, and its place therein.
type Origin = (Arc<Trace>, usize);

/// The pods that should be there now.
#[derive(Clone, Default)]
pub(super) struct Present(Arc<Mutex<BTreeMap<At, Origin>>>);

impl Present {
    pub(super) fn comes(&self, at: At, trace: Arc<Trace>, pod: usize) {
        self.pods().insert(at, (trace, pod));
    }

    pub(super) fn leaves(&self, at: &At) {
        self.pods().remove(at);
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<At, Origin>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes them again, under the same name, as soon as they are gone.
pub(super) struct Comeback {
    present: Present,
    gone: Vec<At>,
}

impl Comeback {
    pub(super) fn new(present: Present) -> Self {
        Self { present, gone: Vec::new() }
    }
}

impl StandIn for Comeback {
    fn name(&self) -> &'static str {
        "comeback"
    }

    fn heed(&mut self, change: &Change, _server: &ApiServer) {
        if change.kind == Kind::Pod && change.after.is_none() {
            self.gone.push(change.at.clone());
        }
    }

    fn settle(&mut self, server: &ApiServer) {
        for at in std::mem::take(&mut self.gone) {
            let missed = self.present.pods().get(&at).cloned();
            if let Some((trace, pod)) = missed {
                // A pod of the same name that somebody else has made takes its place.
                let _ = server.create(trace.object(&trace.pods[pod]));
            }
        }
    }

    fn next(&self) -> Option<Timestamp> {
        None
    }

    fn wake(&mut self, _now: Timestamp, _server: &ApiServer) {}
}
