//! What was decided: which claims were made at one look at the world, and which were told to go.

use std::collections::BTreeMap;
use std::time::Duration;

use api::labels::{INSTANCE_TYPE, NODE_POOL};
use jiff::Timestamp;
use model::price::Price;

use super::machines::Leaving;
use crate::apiserver::Change;
use crate::fields::{annotation, each, labels};

const MOST_TYPES: usize = 3;
/// Why pods call for machines, in the scheduler's word.
const UNSCHEDULABLE: &str = "Unschedulable";

#[derive(Clone, Debug, PartialEq)]
pub(in crate::scenario) struct Decision {
    pub(in crate::scenario) at: Duration,
    /// `provision` for claims that were made for pods that wait, `replace` for those that are to take the place of others, `remove`
    /// for claims that were told to go.
    pub(in crate::scenario) kind: &'static str,
    pub(in crate::scenario) reason: String,
    /// The nodes that go.
    pub(in crate::scenario) nodes: Vec<String>,
    /// The claims that come.
    pub(in crate::scenario) replacements: Vec<String>,
    pub(in crate::scenario) savings: Price,
    pub(in crate::scenario) why: String,
}

#[derive(Default)]
pub(super) struct Decisions {
    all: Vec<Decision>,
    /// Claims of this instant, by the look that they came from.
    made: BTreeMap<String, Vec<Wish>>,
    leaving: BTreeMap<String, Decision>,
}

/// What a new claim asks for.
struct Wish {
    name: String,
    pool: String,
    types: Vec<String>,
    /// The nodes whose place it is to take, and why they go.
    replaces: Vec<Marked>,
}

/// A node that somebody has chosen to disrupt.
#[derive(Clone, Debug, Default)]
pub(super) struct Marked {
    pub(super) name: String,
    pub(super) reason: String,
}

/// The claims that a new claim is to replace.
pub(super) fn replaced_by(claim: &serde_json::Value) -> Vec<&str> {
    let names = annotation(claim, controllers::REPLACES).unwrap_or_default();
    names.split(',').filter(|name| !name.is_empty()).collect()
}

impl Decisions {
    pub(super) fn note(&mut self, change: &Change, replaces: Vec<Marked>) {
        let (None, Some(claim)) = (&change.before, &change.after) else { return };
        let is_type = |requirement: &&serde_json::Value| requirement["key"] == INSTANCE_TYPE;
        let types = each(&claim["spec"]["requirements"]).find(is_type).map(|requirement| {
            each(&requirement["values"]).filter_map(|value| value.as_str().map(str::to_owned)).collect()
        });
        let look = annotation(claim, controllers::DECISION).unwrap_or_default().to_owned();
        self.made.entry(look).or_default().push(Wish {
            name: change.at.name.to_string(),
            pool: labels(claim)[NODE_POOL].as_str().unwrap_or("none").to_owned(),
            types: types.unwrap_or_default(),
            replaces,
        });
    }

    pub(super) fn leaves(&mut self, leaving: Leaving, epoch: Timestamp, now: Timestamp) {
        let at = Duration::try_from(now.duration_since(epoch)).unwrap_or_default();
        let decision = self.leaving.entry(leaving.reason.clone()).or_insert_with(|| Decision {
            at,
            kind: "remove",
            reason: leaving.reason,
            nodes: Vec::new(),
            replacements: Vec::new(),
            savings: Price::ZERO,
            why: String::new(),
        });
        decision.nodes.push(leaving.name);
        decision.savings = decision.savings.plus(leaving.price);
    }

    /// Ends the instant: what was decided in it becomes part of the books, and a line each.
    pub(super) fn take_lines(&mut self, at: Duration, waiting: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for (_, mut wishes) in std::mem::take(&mut self.made) {
            let replaced = wishes.first_mut().map(|wish| std::mem::take(&mut wish.replaces)).unwrap_or_default();
            if let Some(first) = replaced.first() {
                let names: Vec<String> = replaced.iter().map(|marked| marked.name.clone()).collect();
                let why = format!("{}: {} instead of {}", first.reason, described(&wishes), names.join(", "));
                lines.push(why.clone());
                self.all.push(Decision {
                    at,
                    kind: "replace",
                    reason: first.reason.clone(),
                    nodes: names,
                    replacements: wishes.into_iter().map(|wish| wish.name).collect(),
                    savings: Price::ZERO,
                    why,
                });
                continue;
            }
            let why = format!("{waiting}; {}", described(&wishes));
            lines.push(why.clone());
            self.all.push(Decision {
                at,
                kind: "provision",
                reason: UNSCHEDULABLE.to_owned(),
                nodes: Vec::new(),
                replacements: wishes.into_iter().map(|wish| wish.name).collect(),
                savings: Price::ZERO,
                why,
            });
        }
        for (_, mut decision) in std::mem::take(&mut self.leaving) {
            decision.why =
                format!("{}: {} nodes that cost {}", decision.reason, decision.nodes.len(), decision.savings);
            self.all.push(decision);
        }
        lines
    }

    pub(super) fn all(&self) -> &[Decision] {
        &self.all
    }
}

/// How many claims of which pools, and what the first of them may become.
fn described(wishes: &[Wish]) -> String {
    let mut pools: BTreeMap<&str, usize> = BTreeMap::new();
    for wish in wishes {
        *pools.entry(wish.pool.as_str()).or_default() += 1;
    }
    let pools: Vec<String> = pools.into_iter().map(|(pool, count)| format!("{count} from pool {pool}")).collect();
    let types = wishes.first().map(|wish| wish.types.as_slice()).unwrap_or_default();
    let named = types.iter().take(MOST_TYPES).cloned().collect::<Vec<_>>().join(", ");
    let more = match types.len().saturating_sub(MOST_TYPES) {
        0 => String::new(),
        more => format!(" or {more} other types"),
    };
    let noun = if wishes.len() == 1 { "claim" } else { "claims" };
    let choice = if named.is_empty() { String::new() } else { format!(", such as {named}{more}") };
    format!("{} {noun}, {}{choice}", wishes.len(), pools.join(", "))
}
