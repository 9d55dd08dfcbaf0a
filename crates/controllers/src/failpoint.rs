//! Places at which a test can end the process, as a power cut would. They exist only with the feature `failpoints`, which no
//! release has. `e2e/tests/live/crash.rs` has the list of steps, from a pending pod to a ready node.

/// The test's choice: the name of a step.
#[cfg(feature = "failpoints")]
const VARIABLE: &str = "DOVETAIL_FAILPOINT";

/// Ends the process at once, with nothing put in order, if this is the step that the test chose.
#[cfg(feature = "failpoints")]
pub(crate) fn reach(step: &'static str) {
    if std::env::var(VARIABLE).is_ok_and(|chosen| chosen == step) {
        std::process::abort();
    }
}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn reach(_step: &'static str) {}
