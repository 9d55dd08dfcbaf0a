//! The only spawner. A process whose parts can die one by one looks healthy and does nothing; here one for all.

use std::any::Any;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{BoxError, RuntimeError, with_causes};

/// Asks tasks to come to an end. Copies are one and the same; a child token ends with its parent.
pub type Stop = CancellationToken;

/// Named tasks that live and die together: when one of them ends, fails or panics, the others are asked to stop and the
/// whole ends with an error that names the first.
#[derive(Debug, Default)]
pub struct Tasks {
    running: JoinSet<Result<(), BoxError>>,
    names: Vec<(Id, String)>,
    stop: Stop,
}

type Ended = Result<(Id, Result<(), BoxError>), JoinError>;

impl Tasks {
    /// Tasks that end when `stop` is given, for a set inside another task.
    pub fn new(stop: Stop) -> Self {
        Self { stop, ..Self::default() }
    }

    /// What every task should watch, to end in an orderly way.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    pub fn spawn<E: Into<BoxError>>(
        &mut self,
        name: impl Into<String>,
        work: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let handle = self.running.spawn(async move { work.await.map_err(Into::into) });
        self.names.push((handle.id(), name.into()));
    }

    /// Runs until `shutdown` completes, the stop is given, or a task ends. Then the tasks that are left have `grace` to
    /// finish what they are doing; whoever needs longer is cut off and named.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>, grace: Duration) -> Result<(), RuntimeError> {
        let mut fault = tokio::select! {
            biased;
            Some(ended) = self.running.join_next_with_id() => self.fault_of(ended),
            () = self.stop.cancelled() => None,
            () = shutdown => None,
        };
        self.stop.cancel();
        let deadline = Instant::now() + grace;
        loop {
            match tokio::time::timeout_at(deadline, self.running.join_next_with_id()).await {
                Ok(None) => return fault.map_or(Ok(()), Err),
                Ok(Some(ended)) => {
                    let other = self.fault_of(ended);
                    fault = first_of(fault, other);
                }
                Err(_) => {
                    self.running.abort_all();
                    return Err(first_of(fault, Some(self.stuck(grace))).expect("one was just given"));
                }
            }
        }
    }

    /// What is wrong about this end. Ending is fine once the stop was given.
    fn fault_of(&mut self, ended: Ended) -> Option<RuntimeError> {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let place = self.names.iter().position(|(known, _)| *known == id);
        let task = place.map_or_else(String::new, |place| self.names.remove(place).1);
        match ended {
            Ok((_, Ok(()))) if self.stop.is_cancelled() => None,
            Ok((_, Ok(()))) => Some(RuntimeError::TaskEnded { task }),
            Ok((_, Err(source))) => Some(RuntimeError::TaskFailed { task, source }),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => Some(RuntimeError::TaskPanicked { task, message: panic_message(panic.as_ref()) }),
                // Nobody but us aborts tasks, and only at the very end.
                Err(_) => None,
            },
        }
    }

    fn stuck(&self, grace: Duration) -> RuntimeError {
        let names: Vec<&str> = self.names.iter().map(|(_, name)| name.as_str()).collect();
        RuntimeError::TasksStuck { tasks: names.join(", "), grace }
    }
}

/// The first error is the cause, later ones are mostly its echo. They are logged, for there is nobody to hand them to.
fn first_of(first: Option<RuntimeError>, other: Option<RuntimeError>) -> Option<RuntimeError> {
    if let (Some(_), Some(other)) = (&first, &other) {
        tracing::warn!(error = with_causes(other), "another task failed while the process was ending");
    }
    first.or(other)
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").to_owned()
}

/// Completes when the process is asked to end, by SIGTERM as Kubernetes does or by SIGINT from a terminal. The signals
/// are caught from this call on, not only once somebody waits.
pub fn shutdown_signal() -> Result<impl Future<Output = ()> + Send, RuntimeError> {
    let listen = |kind| signal(kind).map_err(|source| RuntimeError::Signals { source });
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => tracing::info!("stopping, as SIGTERM asks"),
            _ = interrupt.recv() => tracing::info!("stopping, as SIGINT asks"),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    /// A task that ends when it is asked to.
    async fn patient(stop: Stop) -> Result<(), Infallible> {
        stop.cancelled().await;
        Ok(())
    }

    /// Runs the given task beside a patient one, and expects this error.
    async fn check(task: impl Future<Output = Result<(), BoxError>> + Send + 'static, expected: &str) {
        let mut tasks = Tasks::default();
        tasks.spawn("patient", patient(tasks.stop()));
        tasks.spawn("odd", task);
        let error = tasks.run(pending(), GRACE).await.unwrap_err();
        assert_eq!(with_causes(&error), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn one_task_that_ends_in_whatever_way_ends_them_all_and_is_named() {
        check(async { Ok(()) }, "the task odd ended although nobody had asked it to").await;
        check(async { Err("no more pages".into()) }, "the task odd failed: no more pages").await;
        check(async { panic!("number {}", 7) }, "the task odd panicked: number 7").await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_lets_tasks_finish_what_they_do() {
        let has_finished = Arc::new(AtomicBool::new(false));
        let mut tasks = Tasks::default();
        let (stop, flag) = (tasks.stop(), has_finished.clone());
        tasks.spawn("slow", async move {
            stop.cancelled().await;
            tokio::time::sleep(GRACE / 2).await;
            flag.store(true, Ordering::Relaxed);
            Ok::<_, Infallible>(())
        });
        tasks.run(tokio::time::sleep(Duration::from_secs(3600)), GRACE).await.unwrap();
        assert!(has_finished.load(Ordering::Relaxed));
    }

    #[tokio::test(start_paused = true)]
    async fn grace_has_an_end_and_names_who_overstayed() {
        let start = Instant::now();
        let mut tasks = Tasks::default();
        tasks.spawn("patient", patient(tasks.stop()));
        tasks.spawn("deaf", pending::<Result<(), Infallible>>());
        let error = tasks.run(async {}, GRACE).await.unwrap_err();
        assert_eq!(error.to_string(), "these tasks were still running 10s after they had been asked to stop: deaf");
        assert_eq!(start.elapsed(), GRACE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_error_is_the_one_that_is_told() {
        let mut tasks = Tasks::default();
        let stop = tasks.stop();
        tasks.spawn("echo", async move {
            stop.cancelled().await;
            Err("the other side is gone")
        });
        tasks.spawn("cause", async { Err("disk full") });
        let error = tasks.run(pending(), GRACE).await.unwrap_err();
        assert_eq!(with_causes(&error), "the task cause failed: disk full");
    }

    #[tokio::test(start_paused = true)]
    async fn a_set_inside_another_ends_with_it() {
        let outer = Stop::new();
        let mut tasks = Tasks::new(outer.child_token());
        tasks.spawn("patient", patient(tasks.stop()));
        outer.cancel();
        tasks.run(pending(), GRACE).await.unwrap();
    }
}
