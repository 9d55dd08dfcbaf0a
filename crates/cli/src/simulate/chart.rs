//! A small drawing of numbers over time.

use std::time::Duration;

use sim::scenario::Sample;

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const WIDTH: usize = 64;
const HEIGHT: usize = 4;

/// The largest value in each part of the time. A value holds until the next sample.
pub(super) fn columns(samples: &[Sample], total: Duration, value: impl Fn(&Sample) -> f64) -> Vec<f64> {
    let mut columns = Vec::with_capacity(WIDTH);
    let (mut next, mut last) = (0, 0.0);
    for column in 1..=WIDTH {
        let end = total.mul_f64(column as f64 / WIDTH as f64);
        let mut most = last;
        while let Some(sample) = samples.get(next).filter(|sample| sample.at < end || column == WIDTH) {
            last = value(sample);
            most = f64::max(most, last);
            next += 1;
        }
        columns.push(most);
    }
    columns
}

/// Bars, highest line first, the largest value named beside the first line.
pub(super) fn bars(columns: &[f64], top: &str) -> String {
    let most = columns.iter().copied().fold(0.0, f64::max);
    let eighths: Vec<usize> = columns
        .iter()
        .map(|value| if most > 0.0 { ((value / most) * (HEIGHT * 8) as f64).ceil() as usize } else { 0 })
        .collect();
    let mut text = String::new();
    for row in (0..HEIGHT).rev() {
        let line: String = eighths.iter().map(|filled| EIGHTHS[filled.saturating_sub(row * 8).min(8)]).collect();
        let label = if row + 1 == HEIGHT { top } else { "" };
        text.push_str(&format!("  {label:>12} │{}\n", line.trim_end()));
    }
    text.push_str(&format!("  {:>12} └{}\n", "0", "─".repeat(WIDTH)));
    text
}

#[cfg(test)]
mod tests {
    use model::price::Price;

    use super::*;

    fn sample(at: u64, nodes: usize) -> Sample {
        Sample { at: Duration::from_secs(at), nodes, price: Price::ZERO, pending_pods: 0 }
    }

    #[test]
    fn a_value_holds_until_the_next_one_and_peaks_are_kept() {
        let samples = [sample(0, 0), sample(64, 4), sample(65, 1), sample(128, 2)];
        let columns = columns(&samples, Duration::from_secs(128), |sample| sample.nodes as f64);
        assert_eq!(columns.len(), 64);
        assert_eq!((columns[0], columns[31], columns[32], columns[33], columns[63]), (0.0, 0.0, 4.0, 1.0, 2.0));
    }

    #[test]
    fn the_largest_value_fills_the_whole_height() {
        let text = bars(&[1.0, 2.0, 0.0], "2 nodes");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines[0].ends_with("2 nodes │ █"), "{text}");
        assert!(lines[3].ends_with("│██"), "{text}");
    }
}
