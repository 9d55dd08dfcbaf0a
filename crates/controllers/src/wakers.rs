//! Who is woken by what.

use std::sync::{Arc, PoisonError, RwLock};

use cluster::Duty;

type Waker = Arc<dyn Fn(&Duty) + Send + Sync>;

/// Everybody who wants to hear of wake-up calls. Whoever signs up late looks at all that the store knows by then.
#[derive(Default)]
pub(crate) struct Wakers(RwLock<Vec<Waker>>);

impl Wakers {
    /// The closure decides whether a call concerns it, and must not wait.
    pub(crate) fn add(&self, waker: impl Fn(&Duty) + Send + Sync + 'static) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(waker));
    }

    pub(crate) fn wake(&self, duty: &Duty) {
        for waker in self.0.read().unwrap_or_else(PoisonError::into_inner).iter() {
            waker(duty);
        }
    }
}
