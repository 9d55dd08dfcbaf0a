//! Where long computations run: beside the reactor in production, in place in the simulator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use crate::error::RuntimeError;

/// Runs pure closures. In the simulator there is one thread and time is paused, so there the closure runs in place and
/// takes no time; in production it must not hold up the reactor, which renews the lease.
#[derive(Clone, Debug)]
pub struct Compute(Option<Arc<Semaphore>>);

/// Tells a closure that nobody waits for its result any more. Looking at it is cheap enough for inner loops.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The bare flag, for closures that know nothing of this room.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

impl Compute {
    /// On the caller's thread, at once.
    pub fn in_place() -> Self {
        Self(None)
    }

    /// On other threads, at most `at_once` of them; the others wait for their turn in order.
    pub fn on_threads(at_once: usize) -> Self {
        Self(Some(Arc::new(Semaphore::new(at_once.max(1)))))
    }

    /// The result of `work`. When the caller stops waiting, `cancel` is set, and the thread is free again as soon as the
    /// closure has noticed. A panic inside goes on in the caller.
    pub async fn run<T: Send + 'static>(
        &self,
        cancel: &Cancel,
        work: impl FnOnce(&Cancel) -> T + Send + 'static,
    ) -> Result<T, RuntimeError> {
        let Some(turns) = &self.0 else { return Ok(work(cancel)) };
        let turn = turns.clone().acquire_owned().await.map_err(|_| RuntimeError::ComputeStopped)?;
        let mut abandoned = CancelOnDrop(Some(cancel.clone()));
        let cancel = cancel.clone();
        #[expect(clippy::disallowed_methods, reason = "this is the place that everybody else is told to use")]
        let handle = tokio::task::spawn_blocking(move || {
            // The turn belongs to the thread and not to the caller, who may be gone long before the thread is free.
            let _turn = turn;
            work(&cancel)
        });
        let result = handle.await;
        abandoned.0 = None;
        match result {
            Ok(result) => Ok(result),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(RuntimeError::ComputeStopped),
            },
        }
    }
}

/// Lives as long as somebody waits for the result, and is emptied when the result is there.
struct CancelOnDrop(Option<Cancel>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(cancel) = &self.0 {
            cancel.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn in_place_means_on_this_thread() {
        let here = std::thread::current().id();
        let there = Compute::in_place().run(&Cancel::default(), |_| std::thread::current().id()).await.unwrap();
        assert_eq!(here, there);
    }

    #[tokio::test]
    async fn on_threads_means_on_another_thread_with_the_result_brought_back() {
        let compute = Compute::on_threads(2);
        let here = std::thread::current().id();
        let there = compute.run(&Cancel::default(), |_| std::thread::current().id()).await.unwrap();
        assert_ne!(here, there);
        let cancel = Cancel::default();
        assert!(!compute.run(&cancel, Cancel::is_cancelled).await.unwrap());
        assert!(!cancel.is_cancelled(), "a finished computation was not abandoned");
    }

    #[tokio::test]
    async fn an_abandoned_computation_is_told_so_and_frees_its_turn() {
        let compute = Compute::on_threads(1);
        let cancel = Cancel::default();
        let (started, has_started) = mpsc::channel();
        let mut work = Box::pin(compute.run(&cancel, move |cancel| {
            started.send(()).unwrap();
            while !cancel.is_cancelled() {
                std::thread::yield_now();
            }
        }));
        assert!(futures::poll!(&mut work).is_pending());
        has_started.recv().unwrap();
        drop(work);
        assert!(cancel.is_cancelled());
        assert_eq!(compute.run(&Cancel::default(), |_| 7).await.unwrap(), 7);
    }

    #[tokio::test]
    #[should_panic(expected = "strange pod")]
    async fn a_panic_goes_on_in_the_caller() {
        let _ = Compute::on_threads(1).run(&Cancel::default(), |_| panic!("strange pod")).await;
    }
}
