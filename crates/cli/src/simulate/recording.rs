//! The file that a recording goes into.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use cluster::record::{Journal, Origin};

use crate::args::Simulate;

/// Keeps lines while time passes in the cluster, and writes them when it stands still.
pub(super) struct Recording {
    path: PathBuf,
    file: BufWriter<File>,
    lines: Arc<Mutex<String>>,
}

/// Where the recording comes from, and how to have it again.
pub(super) fn origin(command: &Simulate) -> Origin {
    let commit = controllers::metrics::COMMIT.map(|commit| format!(" {commit}")).unwrap_or_default();
    Origin {
        build: format!("{}{commit}", env!("CARGO_PKG_VERSION")),
        scenario: Some(command.file.display().to_string()),
        seed: Some(command.seed),
    }
}

impl Recording {
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write a recording to {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), lines: Arc::default() })
    }

    pub(super) fn journal(&self) -> Journal {
        let lines = self.lines.clone();
        Journal::new(move |line| lines.lock().unwrap_or_else(PoisonError::into_inner).push_str(line))
    }

    pub(super) fn save(&mut self) -> anyhow::Result<()> {
        let lines = std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner));
        let written = self.file.write_all(lines.as_bytes());
        written.with_context(|| format!("cannot write the recording {}", self.path.display()))
    }

    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.save()?;
        self.file.flush().with_context(|| format!("cannot write the recording {}", self.path.display()))
    }
}
