//! The table of docs/benchmarks.md. What stands around it is written by hand and stays.

use std::fmt::Write as _;

use anyhow::{Context, ensure};

use super::assess::Assessment;
use super::results::{Quotient, Results, RowResult, Side};
use super::targets::{self, Finding, Outcome, significant};

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
    if results.rows.iter().any(|row| quotients(row).contains(&Quotient::BothNothing)) {
        writeln!(text, "Where it says 0 ÷ 0, no node was bought and none was needed; this counts as 1.")?;
    }
    writeln!(text, "\n{}", verdict(results, findings))?;
    Ok(text)
}

/// What is missed and what is open; that all is well only when nothing is either.
fn verdict(results: &Results, findings: &[Finding]) -> String {
    let listed = |title: &str, outcome: Outcome| {
        let chosen: Vec<String> = findings
            .iter()
            .filter(|finding| finding.outcome == outcome)
            .map(|finding| format!("- {}: {} {}, wanted {}", finding.row, finding.what, finding.got, finding.wanted))
            .collect();
        (!chosen.is_empty()).then(|| format!("{title}\n\n{}", chosen.join("\n")))
    };
    let absent = targets::absent(results);
    let parts = [
        listed("Targets that are missed:", Outcome::Missed),
        listed("Targets that these numbers leave open:", Outcome::Unknown),
        (!absent.is_empty())
            .then(|| format!("Rows that were not measured, so that their targets are open: {}.", absent.join(", "))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "All targets are met.".to_owned() } else { parts.join("\n\n") }
}

/// Our price by the reference's and by the bound.
fn quotients(row: &RowResult) -> [Quotient; 2] {
    [Quotient::over_peer(&row.ours, row.peer.as_ref()), Quotient::over_bound(&row.ours, row.lp_bound)]
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
    let [over_peer, over_bound] = quotients(row);
    let cells = [
        row.workload.clone(),
        row.pods.to_string(),
        significant(row.ours.seconds),
        bounded(number(row.peer.as_ref().map(|peer| peer.seconds)), ">"),
        bounded(number(row.ratio), ">"),
        bounded(number(row.ratio_with_lowering), ">"),
        price(Some(&row.ours)),
        if is_capped { "unfinished".to_owned() } else { price(row.peer.as_ref()) },
        over_peer.to_string(),
        over_bound.to_string(),
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
    use crate::bench::rows::ROWS;
    use crate::bench::sample::row;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let new = renewed(&page, &Results::default(), &[]).unwrap();
        assert!(new.starts_with("above\n") && new.ends_with("\nbelow\n"), "{new}");
        assert!(!new.contains("\nold\n") && new.contains("| workload | pods |"), "{new}");
        assert_eq!(renewed(&new, &Results::default(), &[]).unwrap(), new);
        assert!(renewed("nothing here", &Results::default(), &[]).is_err());
    }
    fn all_rows() -> Results {
        Results { rows: ROWS.iter().map(|known| row(known.name)).collect(), ..Results::default() }
    }

    fn ending(results: &Results) -> String {
        verdict(results, &targets::findings(results))
    }

    #[test]
    fn all_targets_are_met_only_when_every_row_is_there_and_none_is_open() {
        let mut results = all_rows();
        assert_eq!(ending(&results), "All targets are met.");
        results.rows.retain(|row| row.workload != "openb-8152");
        assert_eq!(ending(&results), "Rows that were not measured, so that their targets are open: openb-8152.");
        results.rows.retain(|row| row.workload != "generic-10000");
        results.rows[0].peer.as_mut().unwrap().capped = true;
        results.rows[1].ratio = Some(3.0);
        assert_eq!(
            ending(&results),
            "Targets that are missed:\n\n\
             - diverse-50: times the reference's pods per second 3.000, wanted ≥ 20\n\n\
             Targets that these numbers leave open:\n\n\
             - diverse-1: price ÷ the reference's nothing to compare with, wanted ≤ 1\n\
             - generic-100000: seconds per pod ÷ those at 10,000 nothing to compare with, wanted ≤ 2\n\n\
             Rows that were not measured, so that their targets are open: openb-8152, generic-10000."
        );
        assert!(ending(&Results::default()).contains("diverse-1,"), "no rows are no success");
    }

    #[test]
    fn nothing_bought_where_nothing_was_needed_is_no_ratio() {
        let note = "Where it says 0 ÷ 0, no node was bought and none was needed; this counts as 1.";
        let mut results = Results { rows: vec![row("existing-10000")], ..Results::default() };
        let text = |results: &Results| table(results, &targets::findings(results)).unwrap();
        assert!(text(&results).contains("| 0.1000 | 1.000 |") && !text(&results).contains(note));
        let existing = &mut results.rows[0];
        existing.lp_bound = 0.0;
        existing.ours.assessment.as_mut().unwrap().price_per_hour = 0.0;
        existing.peer.as_mut().unwrap().assessment.as_mut().unwrap().price_per_hour = 0.0;
        let text = text(&results);
        assert!(text.contains("| 0 ÷ 0 | 0 ÷ 0 |") && text.contains(note), "{text}");
    }
}
