//! The story as people read it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use sim::scenario::{Happening, Report, Story};

use super::chart::{bars, columns};

/// What the columns of the lines are.
pub(super) fn heading() -> String {
    format!("{:>12}  {:>9}      {:>10}    {:<8}  why\n", "time", "price", "spent", "what")
}

/// One line: when, what it costs from then on and has cost so far, what and why.
pub(super) fn line(happening: &Happening) -> String {
    let Happening { at, word, text, price, spent } = happening;
    let (clock, price) = (clock(*at), price.dollars());
    format!("{clock:>12}  {price:>9.4} $/h  {spent:>10.4} $  {word:<8}  {text}\n")
}

/// The time since the beginning, as clocks show it; days stand in front.
fn clock(time: Duration) -> String {
    let secs = time.as_secs();
    let (days, hours, minutes) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
    let tenths = time.subsec_millis() / 100;
    match days {
        0 => format!("{hours}:{minutes:02}:{:02}.{tenths}", secs % 60),
        _ => format!("{days}d {hours:02}:{minutes:02}:{:02}", secs % 60),
    }
}

/// The summary and the drawings.
pub(super) fn ending(story: &Story, report: &Report, replay: &str) -> String {
    let mut text = String::from("\n");
    // Writing to a string cannot fail.
    let _ = summary(&mut text, story, report);
    let total = story.duration;
    let nodes = columns(&report.samples, total, |sample| sample.nodes as f64);
    let price = columns(&report.samples, total, |sample| sample.price.dollars());
    let most = |columns: &[f64]| columns.iter().copied().fold(0.0, f64::max);
    text.push('\n');
    text.push_str(&bars(&nodes, &format!("{} nodes", most(&nodes))));
    text.push_str(&bars(&price, &format!("{:.2} $/h", most(&price))));
    let _ = writeln!(text, "  {:>12}  {:<54}{:>10}", "", "0:00:00", clock(total).trim_end_matches(".0"));
    let _ = writeln!(text, "\nseed {}, scenario {}; to see it again:\n  {replay}", report.seed, story.file);
    text
}

fn summary(text: &mut String, story: &Story, report: &Report) -> std::fmt::Result {
    let Report { pods, cost, nodes, expectations, .. } = report;
    writeln!(
        text,
        "{}: {} in {:.2} s on the wall clock",
        story.name,
        clock(Duration::from_secs_f64(report.virtual_seconds)).trim_end_matches(".0"),
        report.wall_seconds
    )?;
    writeln!(text, "  cost    {:.4} $ in all, {:.4} $/h at the end", cost.total, cost.hourly_end)?;
    let living: Vec<_> = nodes.iter().filter(|node| node.deleted_at.is_none()).collect();
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &living {
        *types.entry(node.instance_type.as_str()).or_default() += 1;
    }
    let mut types: Vec<(&str, usize)> = types.into_iter().collect();
    types.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let named: Vec<String> = types.iter().take(8).map(|(name, count)| format!("{count} × {name}")).collect();
    let more = types.len().saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} other types") } else { String::new() };
    let listed = if named.is_empty() { String::new() } else { format!(": {}{more}", named.join(", ")) };
    writeln!(text, "  nodes   {} bought, {} at the end{listed}", nodes.len(), living.len())?;
    writeln!(
        text,
        "  pods    {} created, {} placed, {} waiting at the end, {} evicted; the longest wait was {:.1} s",
        pods.created, pods.placed, pods.pending, pods.evicted, pods.max_pending_seconds
    )?;
    let kept = expectations.iter().filter(|expectation| expectation.ok).count();
    if !expectations.is_empty() {
        writeln!(text, "  expect  {kept} of {} as expected", expectations.len())?;
    }
    for failed in expectations.iter().filter(|expectation| !expectation.ok) {
        writeln!(text, "          FAILED at {}: {}", clock(Duration::from_secs_f64(failed.at)), failed.message)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::price::Price;

    use super::*;

    #[test]
    fn a_line_says_when_what_and_what_it_costs() {
        let happening = Happening {
            at: Duration::from_millis(3_723_450),
            word: "launch",
            text: "a m5.large".to_owned(),
            price: Price::from_dollars(0.096).unwrap(),
            spent: 1.5,
        };
        assert_eq!(line(&happening), "   1:02:03.4     0.0960 $/h      1.5000 $  launch    a m5.large\n");
        assert_eq!(clock(Duration::from_secs(90_061)), "1d 01:01:01");
    }
}
