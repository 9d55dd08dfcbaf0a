//! Results on disk, from which a stopped contest goes on.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::measure::Run;

#[derive(Deserialize)]
struct Kept {
    runs: Vec<Run>,
}

/// The runs of before, or none.
pub(super) fn read(path: &Path) -> Result<Vec<Run>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let kept: Kept = serde_json::from_str(&text)
        .with_context(|| format!("{} is not what we write; --fresh passes over it", path.display()))?;
    Ok(kept.runs)
}

pub(super) fn make_folder(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))
}

pub(super) fn write(path: &Path, report: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(report).context("writing the results")?;
    fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
}

/// A number that tells one build from another (FNV-1a over the file).
pub(super) fn fingerprint(binary: &Path) -> Result<String> {
    let bytes = fs::read(binary).with_context(|| format!("reading {}", binary.display()))?;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    Ok(format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)))
}
