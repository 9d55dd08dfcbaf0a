//! What the controller holds in memory with 5,000 nodes and 100,000 pods: `make bench-memory`.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it saw")]

#[path = "../tests/memory/objects.rs"]
mod objects;
#[path = "../tests/memory/server.rs"]
mod server;
#[path = "../tests/memory/story.rs"]
mod story;

use anyhow::{Result, ensure};
use story::{Size, play};

const MEGABYTE: f64 = 1_048_576.0;
/// The most that the process may ever hold, the first list included.
const MOST: f64 = 300.0;
/// The most that it may hold more after the last hour than after the first: what an allocator keeps for itself is never quite the same.
const MOST_GROWTH: f64 = 8.0;

fn main() -> Result<()> {
    let size = Size { nodes: 5_000, pods: 100_000, hours: 24 };
    let megabytes = |bytes: u64| bytes as f64 / MEGABYTE;
    println!("{} nodes, {} pods", size.nodes, size.pods);
    let report = play(size, |hour, usage| {
        let (resident, peak) = (megabytes(usage.resident_bytes), megabytes(usage.peak_bytes));
        println!("hour {hour:2}: {resident:.1} MB resident, peak {peak:.1} MB");
    })?;
    println!(
        "ready after {:.1} s, peak until idle {:.1} MB",
        report.ready_after.as_secs_f64(),
        megabytes(report.peak_of_start)
    );
    let growth = report.growth() as f64 / MEGABYTE;
    println!("peak {:.1} MB, growth {growth:.1} MB, {:.1} s of CPU", megabytes(report.peak), report.cpu.as_secs_f64());
    ensure!(megabytes(report.peak) < MOST, "the peak is above {MOST} MB");
    ensure!(growth < MOST_GROWTH, "it has grown by more than {MOST_GROWTH} MB");
    Ok(())
}
