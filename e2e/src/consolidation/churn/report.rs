//! Results for people.

use std::fmt;

use serde::Serialize;

use super::measure::Run;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub minutes: u64,
    pub runs: Vec<Run>,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<9}  {:>3} pods replaced; {:>3} nodes ${:6.3}/h -> {:>3} nodes ${:6.3}/h, on average ${:6.3}/h; \
             {:>3} evictions, {:>3} claims disrupted, {:>3} nodes made, {:>3} gone; never fewer than {:>2} ready; \
             cpu {:6.2} s, peak {:5.1} MB",
            format!("{:?}", self.which).to_lowercase(),
            self.pods_replaced,
            self.before.nodes,
            self.before.dollars_per_hour,
            self.after.nodes,
            self.after.dollars_per_hour,
            self.average_dollars_per_hour,
            self.evictions,
            self.claims_disrupted,
            self.nodes_made,
            self.nodes_gone,
            self.fewest_ready,
            self.cpu_seconds,
            self.peak_megabytes,
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pods replaced for {} minutes:", self.minutes)?;
        self.runs.iter().try_for_each(|run| writeln!(f, "  {run}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::measure::Bill;
    use super::*;
    use crate::Which;

    #[test]
    fn a_line_tells_what_a_run_showed() {
        let run = Run {
            which: Which::Reference,
            binary: String::new(),
            pods_replaced: 287,
            evictions: 12,
            claims_disrupted: 3,
            nodes_made: 2,
            nodes_gone: 4,
            fewest_ready: 51,
            before: Bill { nodes: 5, dollars_per_hour: 1.75 },
            after: Bill { nodes: 3, dollars_per_hour: 1.5 },
            average_dollars_per_hour: 1.625,
            cpu_seconds: 20.25,
            peak_megabytes: 120.0,
        };
        let told = Report { minutes: 30, runs: vec![run] }.to_string();
        let words: Vec<&str> = told.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "pods replaced for 30 minutes: \
             reference 287 pods replaced; 5 nodes $ 1.750/h -> 3 nodes $ 1.500/h, on average $ 1.625/h; \
             12 evictions, 3 claims disrupted, 2 nodes made, 4 gone; never fewer than 51 ready; \
             cpu 20.25 s, peak 120.0 MB"
        );
    }
}
