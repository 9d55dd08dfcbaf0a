//! Decisions about clusters that are far from rest: each is followed from decision to decision until there is nothing left to do.
//! The reference is not asked, because from its first move on it would be asked about another cluster.

use crate::bench::targets::significant;
use crate::bench::{generate, say};

/// A cluster of machines that are filled to two fifths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) struct LooseRow {
    pub(in crate::bench) name: &'static str,
    pub(in crate::bench) nodes: usize,
    pub(in crate::bench) mix: Mix,
}

/// What its pods ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Mix {
    /// Nothing but room, each its own amounts.
    Sizes,
    /// Apps of fifty alike pods; of ten apps three spread over zones, one keeps its pods on different hosts.
    Apps,
}

pub(super) const ROWS: [LooseRow; 2] = [
    LooseRow { name: "loose-sizes-1000", nodes: 1_000, mix: Mix::Sizes },
    LooseRow { name: "loose-apps-1000", nodes: 1_000, mix: Mix::Apps },
];

/// Says what each decision took and what came of it.
pub(super) fn follow(row: &LooseRow) -> anyhow::Result<()> {
    let mut fleet = generate::loose::generate(row)?;
    let before = fleet.price()?;
    let pods = fleet.whole().bound_pods.len();
    say(format_args!("{}: {} nodes, {pods} pods, {} dollars an hour", row.name, row.nodes, significant(before)))?;
    let mut lines = Vec::new();
    fleet.come_to_rest(|decision, took| {
        let moved: usize = decision.commands.iter().map(|command| command.worth.evicted).sum();
        let (seconds, effort) = (significant(took.as_secs_f64()), decision.effort);
        lines.push(format!(
            "  {seconds} s, {} questions ({} refused at sight), {} plans: {} commands, {moved} pods moved",
            effort.questions,
            effort.refused_at_sight,
            effort.plans,
            decision.commands.len()
        ));
    })?;
    for line in lines {
        say(format_args!("{line}"))?;
    }
    let rest = fleet.whole();
    say(format_args!("  at rest: {} nodes, {} dollars an hour", rest.nodes.len(), significant(fleet.price()?)))
}
