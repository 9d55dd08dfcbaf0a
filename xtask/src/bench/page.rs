//! The table of docs/benchmarks.md. What stands around it is written by hand and stays.

use std::fmt::Write as _;

use anyhow::{Context, ensure};

use super::assess::Assessment;
use super::results::{Results, RowResult, Side};
use super::targets::{Finding, Outcome, significant};

pub(super) const PAGE: &str = "docs/benchmarks.md";
const BEGIN: &str = "<!-- the table begins: written by `make bench` -->";
const END: &str = "<!-- the table ends -->";

/// The page with a new table.
pub(super) fn renewed(page: &str, results: &Results, findings: &[Finding]) -> anyhow::Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("{PAGE} has no line {BEGIN}"))?;
    let (old, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no line {END}"))?;
    ensure!(!old.contains(BEGIN), "{PAGE} has two lines {BEGIN}");
    Ok(format!("{before}{BEGIN}\n\n{}\n{END}{after}", table(results, findings)?))
}

fn table(results: &Results, findings: &[Finding]) -> anyhow::Result<String> {
    let mut text = String::new();
    let machine = &results.machine;
    let memory = machine.memory_mb as f64 / 1024.0;
    writeln!(
        text,
        "Machine: {}, {} cores, {memory:.0} GB of memory. {}",
        machine.processor,
        machine.cores,
        when(&results.rows)
    )?;
    writeln!(text)?;
    writeln!(
        text,
        "| workload | pods | ours, s | reference, s | times faster | with lowering | ours, $/h | reference, $/h | price ratio | price ÷ LP bound |"
    )?;
    writeln!(text, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")?;
    for row in &results.rows {
        writeln!(text, "{}", speed_line(row))?;
    }
    writeln!(text)?;
    writeln!(
        text,
        "| workload | placed | violations | new nodes | worst launch, $/h | types per claim | preferences kept | peak MB | lowering, s | counts |"
    )?;
    writeln!(text, "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|")?;
    for row in &results.rows {
        writeln!(text, "{}", quality_line(row))?;
    }
    writeln!(text)?;
    writeln!(text, "In the second table each cell has our number first and the reference's after the stroke.")?;
    let missed: Vec<&Finding> = findings.iter().filter(|finding| finding.outcome == Outcome::Missed).collect();
    writeln!(text)?;
    match missed.as_slice() {
        [] => writeln!(text, "All targets that these rows speak of are met.")?,
        missed => {
            writeln!(text, "Targets that are missed:\n")?;
            for finding in missed {
                writeln!(text, "- {}: {} {}, wanted {}", finding.row, finding.what, finding.got, finding.wanted)?;
            }
        }
    }
    Ok(text)
}

/// Days and commits; usually there is one of each.
fn when(rows: &[RowResult]) -> String {
    let mut days: Vec<&str> = rows.iter().map(|row| row.measured.date.as_str()).collect();
    let mut commits: Vec<&str> = rows.iter().map(|row| row.measured.commit.as_str()).collect();
    for list in [&mut days, &mut commits] {
        list.sort_unstable();
        list.dedup();
    }
    let busiest = rows.iter().map(|row| row.measured.load).fold(0.0, f64::max);
    let reused = if rows.iter().any(|row| row.measured.is_peer_reused) {
        " Some of the reference's answers are from an earlier run on this machine."
    } else {
        ""
    };
    format!(
        "Measured {} at {}; load average when a row began: at most {busiest:.1}.{reused}",
        days.join(", "),
        commits.join(", ")
    )
}

fn speed_line(row: &RowResult) -> String {
    let number = |number: Option<f64>| number.map_or_else(|| "–".to_owned(), significant);
    let is_capped = row.peer.as_ref().is_some_and(|peer| peer.capped);
    let bounded = |text: String, sign: &str| if is_capped { format!("{sign} {text}") } else { text };
    let price = |side: Option<&Side>| number(side.and_then(|side| Some(side.assessment.as_ref()?.price_per_hour)));
    let cells = [
        row.workload.clone(),
        row.pods.to_string(),
        significant(row.ours.seconds),
        bounded(number(row.peer.as_ref().map(|peer| peer.seconds)), ">"),
        bounded(number(row.ratio), ">"),
        bounded(number(row.ratio_with_lowering), ">"),
        price(Some(&row.ours)),
        if is_capped { "unfinished".to_owned() } else { price(row.peer.as_ref()) },
        number(row.price_ratio),
        number(row.price_over_lp_bound),
    ];
    format!("| {} |", cells.join(" | "))
}

fn quality_line(row: &RowResult) -> String {
    let of_plan = |side: &Side, look: &dyn Fn(&Assessment) -> String| {
        side.assessment.as_ref().map_or_else(|| "–".to_owned(), look)
    };
    let both = |look: &dyn Fn(&Side) -> String| match &row.peer {
        Some(peer) => format!("{} / {}", look(&row.ours), look(peer)),
        None => look(&row.ours),
    };
    let cells = [
        row.workload.clone(),
        both(&|side| of_plan(side, &|known| known.placed.to_string())),
        both(&|side| of_plan(side, &|known| known.violations.to_string())),
        both(&|side| of_plan(side, &|known| known.nodes.to_string())),
        both(&|side| of_plan(side, &|known| significant(known.worst_launch_price_per_hour))),
        both(&|side| of_plan(side, &|known| known.types_per_claim_min.to_string())),
        both(&|side| of_plan(side, &|known| format!("{} of {}", known.preferences_kept, known.preferences))),
        both(&|side| format!("{:.0}", side.peak_mb)),
        both(&|side| significant(side.lower_seconds)),
        if row.counts { "yes".to_owned() } else { format!("no: {}", row.reasons.join("; ")) },
    ];
    format!("| {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let new = renewed(&page, &Results::default(), &[]).unwrap();
        assert!(new.starts_with("above\n") && new.ends_with("\nbelow\n"), "{new}");
        assert!(!new.contains("\nold\n") && new.contains("| workload | pods |"), "{new}");
        assert_eq!(renewed(&new, &Results::default(), &[]).unwrap(), new);
        assert!(renewed("nothing here", &Results::default(), &[]).is_err());
    }
}
