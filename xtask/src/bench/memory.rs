//! How much memory this process holds, as Linux counts it.

use anyhow::{Context, ensure};

const BYTES_PER_MB: f64 = 1_048_576.0;

/// Watches the peak from now on.
pub(super) struct PeakWatch {
    before_kb: u64,
}

impl PeakWatch {
    /// Forgets the peak until now. The number five stands for that in proc(5).
    pub(super) fn start() -> anyhow::Result<Self> {
        std::fs::write("/proc/self/clear_refs", "5").context("resetting the peak of resident memory")?;
        Ok(Self { before_kb: status_kb("VmRSS")? })
    }

    /// What the peak has added to what was resident at the start, in units of 1,048,576 bytes.
    pub(super) fn added_mb(&self) -> anyhow::Result<f64> {
        let peak_kb = status_kb("VmHWM")?;
        Ok(peak_kb.saturating_sub(self.before_kb) as f64 * 1024.0 / BYTES_PER_MB)
    }
}

fn status_kb(field: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let words: Vec<&str> =
        line.with_context(|| format!("/proc/self/status has no {field}"))?.split_whitespace().collect();
    ensure!(words.len() == 2 && words[1] == "kB", "/proc/self/status has an odd {field}");
    words[0].parse().with_context(|| format!("reading {field}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_block_shows_in_the_peak_even_after_it_is_gone() {
        let watch = PeakWatch::start().unwrap();
        let block = vec![7_u8; 64 << 20];
        assert_eq!(block[block.len() / 2], 7);
        drop(block);
        // Other tests of this process allocate too, so only the lower side is certain.
        assert!(watch.added_mb().unwrap() > 40.0);
    }
}
