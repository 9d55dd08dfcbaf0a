//! A small day of what `make bench-memory` tells of a large one: the same story, the same server, the same checks.

#[path = "memory/objects.rs"]
mod objects;
#[path = "memory/server.rs"]
mod server;
#[path = "memory/story.rs"]
mod story;

use std::time::Duration;

use story::{Size, play};

const MEGABYTE: u64 = 1 << 20;

#[test]
fn a_process_comes_to_rest_after_each_hour_of_a_day_and_holds_no_more_in_the_end_than_at_first() {
    let mut hours = Vec::new();
    // That it is idle after each hour, and that the cluster is as it was, is part of the story.
    let report = play(Size { nodes: 100, pods: 2_000, hours: 3 }, |hour, _| hours.push(hour)).unwrap();
    assert_eq!(hours, [1, 2, 3]);
    assert!(report.ready_after < Duration::from_secs(30), "{report:?}");
    assert!(report.growth() < 8 * MEGABYTE as i64, "{report:?}");
    assert!(report.peak_of_start <= report.peak && report.peak < 150 * MEGABYTE, "{report:?}");
    assert!(report.cpu > Duration::ZERO, "{report:?}");
}
