//! A bar on standard error while a story is played, if a person is looking.

use std::io::{IsTerminal, Write};
use std::time::Duration;

const WIDTH: usize = 40;

pub(super) struct Progress {
    total: Duration,
    is_seen: bool,
    is_drawn: bool,
}

impl Progress {
    pub(super) fn new(total: Duration) -> Self {
        Self { total, is_seen: std::io::stderr().is_terminal(), is_drawn: false }
    }

    pub(super) fn show(&mut self, now: Duration) {
        if self.is_seen && now < self.total {
            write(&format!("\r{}\x1b[K", bar(now, self.total)));
            self.is_drawn = true;
        } else {
            self.clear();
        }
    }

    /// Makes room for a line.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            write("\r\x1b[K");
        }
    }
}

fn write(text: &str) {
    // Nobody is left to tell when standard error is closed.
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

fn bar(now: Duration, total: Duration) -> String {
    let share = now.as_secs_f64() / total.as_secs_f64().max(f64::MIN_POSITIVE);
    let filled = ((share * WIDTH as f64) as usize).min(WIDTH);
    format!("[{}{}] {:3.0} %", "#".repeat(filled), " ".repeat(WIDTH - filled), share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_from_left_to_right() {
        let total = Duration::from_secs(40);
        assert_eq!(bar(Duration::ZERO, total), format!("[{}]   0 %", " ".repeat(40)));
        assert_eq!(bar(Duration::from_secs(10), total), format!("[{}{}]  25 %", "#".repeat(10), " ".repeat(30)));
        assert_eq!(bar(total, total), format!("[{}] 100 %", "#".repeat(40)));
    }
}
