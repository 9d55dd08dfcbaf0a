//! What can go wrong in the plumbing itself. What goes wrong in somebody's task travels inside, as its source.

use std::error::Error;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Any error of a task that is not ours.
pub type BoxError = Box<dyn Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    #[error("the task {task} ended although nobody had asked it to")]
    TaskEnded { task: String },
    #[error("the task {task} failed")]
    TaskFailed { task: String, source: BoxError },
    #[error("the task {task} panicked: {message}")]
    TaskPanicked { task: String, message: String },
    #[error("these tasks were still running {grace:?} after they had been asked to stop: {tasks}")]
    TasksStuck { tasks: String, grace: Duration },
    #[error("cannot listen for the signals that end the process")]
    Signals { source: std::io::Error },
    #[error("a computation was thrown away because the process ends")]
    ComputeStopped,
    #[error("the lease {lease} is lost: {reason}")]
    LeaseLost { lease: String, reason: String },
    #[error("cannot listen on {address}; is another process using it?")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot write logs to {}", path.display())]
    LogFile { path: PathBuf, source: std::io::Error },
    #[error("logs are written already")]
    LogInstalled,
    #[error("the server on {address} failed")]
    Serve { address: SocketAddr, source: std::io::Error },
}

/// An error and everything that caused it, in one line for a log.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Some libraries paste their cause into their own message as well as linking it.
        let message = error.to_string();
        if !text.contains(&message) {
            write!(text, ": {message}").expect("writing to a string cannot fail");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_their_error_and_are_not_said_twice() {
        let inner = std::io::Error::other("no route");
        let failed = RuntimeError::TaskFailed { task: "watch pods".into(), source: inner.into() };
        assert_eq!(with_causes(&failed), "the task watch pods failed: no route");

        let pasted = RuntimeError::TaskFailed { task: "a".into(), source: Box::new(failed) };
        assert_eq!(with_causes(&pasted), "the task a failed: the task watch pods failed: no route");
    }
}
