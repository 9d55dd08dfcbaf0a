//! What the operating system says about this process, under the names that every scraper knows.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Linux counts a process's time in these, whatever the kernel's own clock.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE_BYTES: f64 = 4096.0;

/// All of it as scrapers read it. What this system does not tell is left out.
pub fn process() -> String {
    let mut text = String::new();
    for (name, kind, help, value) in samples(Path::new("/proc")) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {}", super::number(value));
    }
    text
}

type Sample = (&'static str, &'static str, &'static str, f64);

fn samples(proc: &Path) -> Vec<Sample> {
    let read = |path: &str| fs::read_to_string(proc.join(path)).unwrap_or_default();
    let mut samples = of_stat(&read("self/stat"), &read("stat"));
    samples.extend(of_limits(&read("self/limits")));
    samples.extend(of_network(&read("self/net/dev")));
    if let Ok(files) = fs::read_dir(proc.join("self/fd")) {
        samples.push(("process_open_fds", "gauge", "Open files.", files.count() as f64));
    }
    samples
}

fn of_stat(process: &str, system: &str) -> Vec<Sample> {
    // The name in parentheses may hold anything; fields are counted from its end.
    let after_name = process.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let fields: Vec<f64> = after_name.split_whitespace().map(|field| field.parse().unwrap_or(f64::NAN)).collect();
    let Some([user, kernel]) = fields.get(11..13) else { return Vec::new() };
    let Some([started, virtual_bytes, pages]) = fields.get(19..22) else { return Vec::new() };
    let mut samples = vec![
        ("process_cpu_seconds_total", "counter", "Time on processors.", (user + kernel) / TICKS_PER_SECOND),
        ("process_virtual_memory_bytes", "gauge", "Addresses in use.", *virtual_bytes),
        ("process_resident_memory_bytes", "gauge", "Memory in use.", pages * PAGE_BYTES),
    ];
    let booted = system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
    if let Some(booted) = booted {
        let start = booted + started / TICKS_PER_SECOND;
        samples.push(("process_start_time_seconds", "gauge", "When it started, since 1970.", start));
    }
    samples
}

fn of_limits(limits: &str) -> Vec<Sample> {
    let limit = |name: &str| {
        let value = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
        // As others write it who have no infinity: the greatest number.
        if value == "unlimited" { Some(u64::MAX as f64) } else { value.parse().ok() }
    };
    let files = limit("Max open files").map(|it| ("process_max_fds", "gauge", "Most files that may be open.", it));
    let addresses = limit("Max address space")
        .map(|it| ("process_virtual_memory_max_bytes", "gauge", "Most addresses that may be in use.", it));
    files.into_iter().chain(addresses).collect()
}

fn of_network(devices: &str) -> Vec<Sample> {
    let counts = devices.lines().filter_map(|line| Some(line.split_once(':')?.1.split_whitespace()));
    let (mut received, mut sent, mut is_told) = (0.0, 0.0, false);
    for mut fields in counts {
        let mut number = |index: usize| fields.nth(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        received += number(0);
        sent += number(7);
        is_told = true;
    }
    if !is_told {
        return Vec::new();
    }
    vec![
        ("process_network_receive_bytes_total", "counter", "Bytes that came in.", received),
        ("process_network_transmit_bytes_total", "counter", "Bytes that went out.", sent),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_whatever_the_process_is_called() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 300 81920 20 18446744073709551615 1 1";
        let samples = of_stat(stat, "cpu 1 2\nbtime 1000\n");
        let values: Vec<(&str, f64)> = samples.iter().map(|(name, _, _, value)| (*name, *value)).collect();
        let expected = [
            ("process_cpu_seconds_total", 3.0),
            ("process_virtual_memory_bytes", 81920.0),
            ("process_resident_memory_bytes", 81920.0),
            ("process_start_time_seconds", 1003.0),
        ];
        assert_eq!(values, expected);
        assert_eq!(of_stat("7 (a) S", ""), []);
        let limits = "Limit Soft Hard Units\nMax open files            1024      4096      files\nMax address space  unlimited unlimited bytes\n";
        assert_eq!(of_limits(limits).iter().map(|it| it.3).collect::<Vec<_>>(), [1024.0, u64::MAX as f64]);
        let devices = "Inter-| Receive | Transmit\n face |bytes\n  lo: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\neth0: 5 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n";
        assert_eq!(of_network(devices).iter().map(|it| it.3).collect::<Vec<_>>(), [15.0, 27.0]);
    }

    #[test]
    fn this_process_is_told_of_in_the_text_format() {
        let text = process();
        assert!(text.contains("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total "), "{text}");
        assert!(text.contains("process_open_fds "), "{text}");
    }

    #[test]
    fn what_the_system_does_not_tell_is_left_out() {
        assert_eq!(samples(Path::new("/nowhere")), []);
    }
}
