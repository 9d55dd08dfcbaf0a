//! The cheapest that the engine can name for the pods that are left: what it buys for them in an empty cluster. A story of the
//! simulator asks for it, so nothing here depends on how busy the machine is.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Story;
use super::fragments::{Fragments, KINDS};
use super::measure::Run;
use super::objects::{self, WEB};
use crate::Dovetail;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cheapest {
    pub story: Story,
    pub round: usize,
    pub dollars_per_hour: f64,
}

/// For every story and round that was played.
pub(super) fn of_stories(runs: &[Run], out: &Path) -> Result<Vec<Cheapest>> {
    let mut all: Vec<Cheapest> = Vec::new();
    for run in runs {
        if all.iter().any(|known| (known.story, known.round) == (run.story, run.round)) {
            continue;
        }
        // Scale-downs leave the same pods in every round.
        let same = all.iter().find(|known| known.story == run.story && run.story != Story::Fragmented);
        let dollars_per_hour = match same {
            Some(known) => known.dollars_per_hour,
            None => bought_for(&workloads(run.story, run.round), &out.with_extension("cheapest.yaml"))?,
        };
        all.push(Cheapest { story: run.story, round: run.round, dollars_per_hour });
    }
    Ok(all)
}

fn workloads(story: Story, round: usize) -> Vec<Value> {
    match story {
        Story::ScaleDown { to, .. } => vec![WEB.deployment(to)],
        Story::Fragmented => {
            let drawn = Fragments::draw(round as u64);
            KINDS.iter().map(|kind| kind.deployment(drawn.count(*kind))).collect()
        }
    }
}

fn bought_for(workloads: &[Value], file: &Path) -> Result<f64> {
    let scenario = json!({
        "apiVersion": "dovetail.dev/v1alpha1", "kind": "Scenario", "metadata": {"name": "cheapest"},
        "spec": {"cloud": {"catalog": "kwok"}, "duration": "3m", "steps": [{"at": "3m", "expect": {"pendingPods": 0}}]},
    });
    let fixed = [scenario, objects::class(), objects::pool("Never")];
    let documents: Vec<String> = fixed.iter().chain(workloads).map(Value::to_string).collect();
    std::fs::write(file, documents.join("\n---\n") + "\n").with_context(|| format!("writing {}", file.display()))?;
    let name = file.to_str().context("a path that is no text")?;
    let told = Dovetail::run(&["simulate", name, "--output", "json"])?;
    let report: Value = serde_json::from_str(&told).context("reading what the simulator says")?;
    report["cost"]["hourlyEnd"].as_f64().context("the simulator does not say what it costs")
}
