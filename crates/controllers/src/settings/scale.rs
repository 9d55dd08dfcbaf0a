//! How much is done at once, by the cores that there are.

use runtime::Rate;

/// Cores from which on there are as many workers as there will ever be.
const CORES_MOST: f64 = 60.0;

/// The least and the greatest number of workers of one duty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    pub least: usize,
    pub most: usize,
}

impl Workers {
    pub const LIFECYCLE: Self = Self { least: 1000, most: 5000 };
    pub const TERMINATION: Self = Self { least: 100, most: 5000 };
    pub const EVICTION: Self = Self { least: 100, most: 5000 };
    pub const POOLS: Self = Self { least: 10, most: 1000 };

    /// How many of them work when so many thousandths of a core may be used.
    pub fn at(self, cpu_requests: u32) -> usize {
        let cores = (f64::from(cpu_requests) / 1000.0).ceil();
        let step = (self.most - self.least) as f64 / (CORES_MOST - 1.0);
        let grown = self.least + (step * (cores - 1.0).max(0.0)).floor() as usize;
        grown.clamp(self.least, self.most)
    }
}

/// The rate that goes with more workers, when the least number of them has `per_second`; ten times as many may come at once.
pub fn scaled_rate(per_second: f64, workers: Workers, at_work: usize) -> Rate {
    let scaled = (per_second * at_work as f64 / workers.least as f64).ceil();
    Rate { per_second: scaled, burst: (scaled * 10.0) as u32 }
}
