//! Standard output.

use std::io::Write;

use anyhow::Context;

/// Writes to standard output; a reader that closed early, such as `head`, is not a failure.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
