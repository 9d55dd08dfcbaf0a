//! The words for decisions. Where the reference has a fixed text it stands here letter by letter.

use std::fmt;

use super::{Disruption, Method, PoolScore, Share, Stay, StayEvent, Unready, Verb};
use crate::ids::{NodeName, PodName, PoolName};
use crate::labels::{NODE_POOL, STOP_DISRUPTION, STOP_NAMESPACE};

/// More pods than this are counted and not named.
const MOST_NAMED: usize = 5;

impl Verb {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Replace => "replace",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A command in words, for one of those who hear of it.
#[derive(Clone, Copy, Debug)]
pub enum Decided<'a> {
    /// What one of its nodes is told: `replace: [a] -> [1 replacement]`, or only its own name and how many go with it.
    For(&'a Disruption, &'a NodeName),
    /// With its number and everything, for the log.
    Logged { command: &'a Disruption, id: &'a str },
}

impl fmt::Display for Decided<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(command, node) if command.leaving.len() > 1 => {
                let count = command.leaving.len();
                write!(f, "{}: [{node}] (part of {count}-node consolidation)", command.verb())
            }
            Self::For(command, _) => write!(f, "{}: {}", command.verb(), arrow(command)),
            Self::Logged { command, id } => {
                let mut pools: Vec<&PoolName> = command.leaving.iter().map(|leaver| &leaver.pool).collect();
                pools.sort();
                pools.dedup();
                let (reason, verb, saved) = (command.reason(), command.verb(), savings(command));
                // The reference joins these, and only these, without a space.
                let pools = pools.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
                write!(f, "{reason}/{id}: {verb}: nodepools=[{pools}]: {} (savings: {saved})", arrow(command))
            }
        }
    }
}

fn arrow(command: &Disruption) -> String {
    let nodes = listed(&command.nodes().collect::<Vec<_>>());
    match command.replacements.len() {
        0 => format!("[{nodes}]"),
        1 => format!("[{nodes}] -> [1 replacement]"),
        count => format!("[{nodes}] -> [{count} replacements]"),
    }
}

fn listed(items: &[&impl fmt::Display]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// `$1.23`, and below nothing `$-1.23`, as the reference prints it.
fn savings(command: &Disruption) -> String {
    format!("${:.2}", command.worth.saved_pico() as f64 / 1e12)
}

impl Disruption {
    /// What each of its nodes is told when it is found.
    pub fn candidate_event(&self, node: &NodeName) -> String {
        format!("Consolidation candidate: {} (savings: {})", Decided::For(self, node), savings(self))
    }

    /// What each of its nodes is told when it is dropped; the class is `churn`, `budget` or `scheduling`.
    pub fn rejected_event(&self, node: &NodeName, class: &str) -> String {
        format!("Consolidation rejected: {}, reason: {class} (savings: {})", Decided::For(self, node), savings(self))
    }

    /// Why it is worth it, for people.
    pub fn why(&self) -> String {
        let count = self.leaving.len();
        let nodes = if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
        let worth = &self.worth;
        let what = match self.method {
            Method::Drift | Method::StaticDrift => format!("{nodes} drifted"),
            Method::Emptiness => format!("{nodes} without pods"),
            Method::MultiConsolidation | Method::SingleConsolidation => {
                format!("{nodes} at {} become {} at {}", worth.before, self.replacements.len(), worth.after)
            }
        };
        let payback = worth.pays_back_after.map(|after| format!(", paid back after {}s", after.as_secs()));
        let saved = worth.saved_pico() as f64 / 1e12;
        format!("{what}: saves ${saved:.4}/h, evicts {} pods{}", worth.evicted, payback.unwrap_or_default())
    }
}

impl PoolScore {
    /// What is said of a command that a Balanced pool approves of.
    pub fn approved_event(&self) -> String {
        let percent = |share: Option<Share>| share.map_or(0.0, Share::fraction) * 100.0;
        let score = self.score().map_or_else(|| "+Inf".to_owned(), |score| format!("{score:.2}"));
        format!(
            "score {score} >= threshold 0.50 (k: 2, savings {:.1}%, disruption {:.1}%)",
            percent(self.savings),
            percent(self.disruption)
        )
    }
}

impl Stay {
    /// The text of its event: the reference's, which begins a sentence.
    pub fn event_text(&self) -> Option<String> {
        let text = self.to_string();
        match self.event()? {
            StayEvent::Unconsolidatable => Some(text),
            StayEvent::DisruptionBlocked => {
                let mut letters = text.chars();
                let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
                Some(first + letters.as_str())
            }
        }
    }
}

impl fmt::Display for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnderWay => f.write_str("candidate is already being disrupted"),
            Self::NotOurs => f.write_str("node isn't managed by karpenter"),
            Self::NoNode => f.write_str("nodeclaim does not have an associated node"),
            Self::NotInitialized => f.write_str("node isn't initialized"),
            Self::Leaving => f.write_str("node is deleting or marked for deletion"),
            Self::Nominated => f.write_str("node is nominated for a pending pod"),
            Self::DoNotDisrupt { .. } => {
                f.write_str("disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation")
            }
            Self::NoPoolLabel => write!(f, "node doesn't have required label (label={NODE_POOL})"),
            Self::NoPool(pool) => write!(f, "NodePool not found (NodePool={pool})"),
            Self::PodDoNotDisrupt { pod, .. } => {
                write!(f, "pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod={pod})")
            }
            Self::PodBudget { budget, .. } => {
                write!(f, "pdb prevents pod evictions (PodDisruptionBudget=[{budget}])")
            }
            Self::SeveralPodBudgets { budgets, .. } => {
                let names = listed(&budgets.iter().collect::<Vec<&PodName>>());
                write!(f, "eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{names}])")
            }
            Self::ConsolidationDisabled(pool) => {
                write!(f, "NodePool \"{pool}\" has consolidation disabled")
            }
            Self::OnlyWhenEmpty(pool) => {
                write!(f, "NodePool \"{pool}\" has consolidation policy WhenEmpty, but node is not empty")
            }
            Self::BufferPods(node) => write!(f, "Node \"{node}\" has buffer pods"),
            Self::UnknownType(name) => write!(f, "Instance Type \"{name}\" not found"),
            Self::NoTypeLabel => f.write_str("Instance Type \"\" not found"),
            Self::MissingLabel(label) => write!(f, "Node does not have label \"{label}\""),
            Self::CannotMove(pods) => {
                let named = pods.iter().take(MOST_NAMED).map(|left| format!("{} => {left}", left.pod));
                write!(f, "Not all pods would schedule, {}", named.collect::<Vec<_>>().join(" "))?;
                match pods.len().saturating_sub(MOST_NAMED) {
                    0 => Ok(()),
                    others => write!(f, " and {others} other(s)"),
                }
            }
            Self::NoRoom { pod, others } => {
                write!(f, "Not all pods would schedule, {pod} => no node and no new machine takes it")?;
                if *others == 0 { Ok(()) } else { write!(f, " and {others} other(s)") }
            }
            Self::Unready(unready) | Self::CannotMoveYet(unready) => {
                write!(f, "Not all pods would schedule, {unready}")
            }
            Self::TooManyReplacements { count, .. } => write!(f, "Can't remove without creating {count} candidates"),
            Self::NotCheaper => f.write_str("Can't replace with a cheaper node"),
            Self::SpotToSpotDisabled => {
                f.write_str("SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node")
            }
            Self::SpotToSpotTooFew { found } => write!(
                f,
                "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to \
                 consolidate, got {found}"
            ),
            Self::MinValues { text } => write!(f, "Filtering by price: {text}"),
            ours => ours.own_text(f),
        }
    }
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claim = self.claim.iter().map(|name| format!("nodeclaim/{name}"));
        let machine: Vec<String> = claim.chain(self.node.iter().map(|name| format!("node/{name}"))).collect();
        write!(f, "{} => would schedule against uninitialized {}", self.pod, machine.join(", "))
    }
}

impl Stay {
    /// What the reference has no words for.
    fn own_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodBudgetInUse { budget } => write!(f, "PDB {budget} has no eviction left for it in this round"),
            Self::Awaited { pod } => write!(f, "pod {pod} waits for it"),
            Self::NotConsolidatable { until: Some(until) } => {
                write!(f, "pods came or went lately; it may be consolidated from {until} on")
            }
            Self::NotConsolidatable { until: None } => f.write_str("it is not marked Consolidatable"),
            Self::MovedLately { pod, until } => write!(f, "pod {pod} was just moved and is left alone until {until}"),
            Self::Stopped { note } => {
                let (key, namespace) = (STOP_DISRUPTION, STOP_NAMESPACE);
                write!(f, "disruption is stopped by the annotation \"{key}: {note}\" of namespace {namespace}")
            }
            Self::Budget { pool, reason, allowed, unready, until } => {
                write!(f, "pool {pool} lets {allowed} nodes go at once for {reason}, and none more now")?;
                match unready {
                    0 => {}
                    1 => write!(f, "; 1 node that is not ready counts as going")?,
                    _ => write!(f, "; {unready} nodes that are not ready count as going")?,
                }
                until.iter().try_for_each(|until| write!(f, "; until {until}"))
            }
            Self::PoolPaused { pool, until } => {
                write!(f, "replacements in pool {pool} failed; it is tried again at {until}")
            }
            Self::TooTight { pod } => {
                write!(f, "pods would only just fit, and {pod} would find no place if the scheduler spreads them")
            }
            Self::PaysBackLate { after } => {
                write!(f, "what it saves would pay for the disturbance only after {}s", after.as_secs())
            }
            Self::Score { pool, score } => {
                // Cut off, so that nothing less than a half looks like one.
                let (whole, hundredths) = (score / 1_000_000, score / 10_000 % 100);
                write!(f, "pool {pool} scores the saving {whole}.{hundredths:02}, less than 0.50")
            }
            Self::OthersSettle { until } => {
                write!(f, "nodes that are settled a moment later are decided on together with it at {until}")
            }
            Self::OthersFirst => f.write_str("other moves are better and come first"),
            Self::StaticPool(pool) => write!(f, "pool {pool} has no place for a replacement now"),
            Self::Wanted => f.write_str("nothing asks for its end"),
            _ => Ok(()),
        }
    }
}
