//! Where and when a measurement was made.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::results::{Machine, Measured};
use super::sha256;

pub(super) fn machine() -> anyhow::Result<Machine> {
    let processors = read("/proc/cpuinfo")?;
    let memory = read("/proc/meminfo")?;
    let kilobytes = field(&memory, "MemTotal").and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    Ok(Machine {
        processor: field(&processors, "model name").unwrap_or("unknown").to_owned(),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        memory_mb: kilobytes.unwrap_or(0) / 1024,
    })
}

/// What the rows of this run have in common.
pub(super) fn measured(root: &Path) -> anyhow::Result<Measured> {
    let binary = std::env::current_exe().context("finding our own binary")?;
    let commit = command(root, "git", &["rev-parse", "--short=12", "HEAD"])?;
    let is_changed = !command(root, "git", &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Ok(Measured {
        date: command(root, "date", &["-u", "+%Y-%m-%d"])?,
        commit: if is_changed { format!("{commit}+") } else { commit },
        binary: hash(&binary)?,
        ..Measured::default()
    })
}

pub(super) fn hash(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(sha256::hex(&bytes)[..16].to_owned())
}

/// The average over the last minute.
pub(super) fn load() -> f64 {
    let text = read("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

pub(super) fn command(root: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let run = Command::new(program).args(arguments).current_dir(root).stderr(std::process::Stdio::inherit()).output();
    let output = run.with_context(|| format!("running {program}"))?;
    ensure!(output.status.success(), "{program} {} failed: {}", arguments.join(" "), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn read(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {path}"))
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}
