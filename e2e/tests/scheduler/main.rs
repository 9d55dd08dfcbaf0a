//! The judge against the real scheduler: on random worlds they must agree about every pod and every node.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod arena;
mod compare;
mod draw;
mod extender;
mod fence;
mod matters;
mod near;
mod nodes;
mod pods;
mod referee;
mod report;
mod stage;

use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use serde_json::{Value, json};

use crate::arena::Arena;
use crate::compare::{Tally, differences};
use crate::draw::Draw;
use crate::extender::Answer;
use crate::matters::{Fields, Lacking};
use crate::near::NAMESPACES;
use crate::pods::{Fate, Place, REQUIRED, Standing};
use crate::referee::Referee;
use crate::report::Scene;

/// The same worlds on every run; whoever looks for new ones changes the seed.
const SEED: u64 = 1;
const WORLDS: usize = 200;
/// More would only hide the first.
const MOST_REPORTS: usize = 3;

#[test]
fn the_judge_agrees_with_the_real_scheduler_on_every_node_of_random_worlds() {
    run(async {
        let arena = Arena::open(&mut Draw::new(SEED)).await?;
        let mut seen = Seen::default();
        for number in 0..WORLDS {
            // Each world has dice of its own, so that it stays the same whatever becomes of the others.
            let mut draw = Draw::new(SEED << 32 | number as u64);
            compare(&arena, &World::draw(&mut draw, number), &mut draw, &mut seen).await?;
        }
        let Seen { tally, fields, reports } = seen;
        eprintln!("{tally:#?}\nfields that decided something, and for how many pods: {fields:#?}");
        let shown = reports.iter().take(MOST_REPORTS).cloned().collect::<Vec<_>>().join("\n");
        assert!(reports.is_empty(), "{} differences, of which the first are:\n{shown}", reports.len());
        assert_not_trivial(&tally, &fields);
        Ok(())
    });
}

/// v1.36 hands a new pod's term by value where it means to take the namespace selector out of it, after having looked up which
/// namespaces that selects. So the selector stays and is asked later about no labels at all, and one that these match, such
/// as `DoesNotExist`, lets pods of every namespace count. The judge goes by the documentation, and pods that are asked for
/// do not draw such selectors. When this test fails, the scheduler has been repaired: let them, and remove it.
#[test]
fn a_new_pods_term_that_namespaces_without_labels_match_is_taken_for_all_namespaces() {
    run(async {
        let arena = Arena::open(&mut Draw::new(SEED)).await?;
        let amounts = json!({"cpu": "1", "memory": "1Gi", "pods": "9"});
        let node = json!({
            "metadata": {"name": "here", "labels": {nodes::HOSTNAME: "here"}},
            "status": {"capacity": amounts, "allocatable": amounts},
        });
        let pod = |name: &str, namespace: &str| {
            json!({
                "metadata": {"name": name, "namespace": namespace, "labels": {"app": "db"}},
                "spec": {"containers": [{"name": "c0", "image": "none"}]},
            })
        };
        let raised = arena.raise(&[node]).await?;
        // Its namespace has the label.
        let mut other = pod("other", "blue");
        other["spec"]["nodeName"] = "here".into();
        let standing = arena.stand(&Standing { pod: other, fate: Fate::Runs }).await?;
        let mut asked = pod("asked", "red");
        asked["spec"]["affinity"] = json!({"podAntiAffinity": {REQUIRED: [{
            "topologyKey": nodes::HOSTNAME,
            "labelSelector": {"matchLabels": {"app": "db"}},
            "namespaceSelector": {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]},
        }]}});
        let decision = arena.ask(&asked, Answer::Hold).await?;
        let referee = Referee::new(&arena.stage, raised, &[serde_json::to_value(standing)?])?;
        assert!(referee.opinion(&decision.asked)?["here"].is_none(), "the judge");
        assert!(decision.feasible.is_empty(), "the scheduler");
        Ok(())
    });
}

/// Tests take turns: two clusters at once would slow each other down.
fn run(test: impl Future<Output = Result<()>>) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test).unwrap();
}

struct World {
    number: usize,
    nodes: Vec<Value>,
    standing: Vec<Standing>,
    pending: Vec<Value>,
}

impl World {
    fn draw(draw: &mut Draw, number: usize) -> Self {
        let nodes = nodes::nodes(draw, number);
        let namespaces = draw.some(&NAMESPACES, 2).into_iter().map(|(name, _)| name).collect();
        let place = Place { world: number, nodes: nodes.len(), namespaces };
        let standing = (0..draw.between(0, 12)).map(|index| pods::standing(draw, &place, index)).collect();
        let pending = (0..draw.between(3, 6)).map(|index| pods::pending(draw, &place, index)).collect();
        Self { number, nodes, standing, pending }
    }
}

/// What came of all worlds so far.
#[derive(Default)]
struct Seen {
    tally: Tally,
    fields: Fields,
    reports: Vec<String>,
}

/// Lets the scheduler decide on the pods of a world, one after the other, and asks the judge about each.
async fn compare(arena: &Arena, world: &World, draw: &mut Draw, seen: &mut Seen) -> Result<()> {
    let nodes = arena.raise(&world.nodes).await?;
    let mut standing = Vec::new();
    for pod in &world.standing {
        standing.push(serde_json::to_value(arena.stand(pod).await?)?);
    }
    let mut referee = Referee::new(&arena.stage, nodes, &standing)?;
    let mut lacking = Lacking::new(&referee, &standing)?;
    let mut scene = Scene::new(world.number, &world.nodes, &world.standing);
    for pod in &world.pending {
        let answer = if stage::waits_for_volume(pod) { Answer::Hold } else { Answer::Take(draw.below(60)) };
        let decision = arena.ask(pod, answer).await?;
        let opinion = referee.opinion(&decision.asked)?;
        seen.tally.add(&decision, &opinion);
        lacking.count(&referee, &decision.asked, &opinion, &mut seen.fields)?;
        let found = differences(&decision, &opinion);
        if !found.is_empty() {
            seen.reports.push(scene.report(&arena.stage, pod, &decision, &opinion, &found));
        }
        if let Some(node) = decision.node() {
            referee.bind(&decision.decided, node)?;
            lacking.bind(&decision.decided, node)?;
            scene.bind(pod, node);
        }
    }
    arena.clear().await
}

fn assert_not_trivial(tally: &Tally, fields: &Fields) {
    let counts = [tally.bound, tally.unschedulable, tally.held, tally.explained, tally.accepted];
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let missing: Vec<&str> = referee::KINDS.into_iter().filter(|kind| !tally.refused.contains_key(*kind)).collect();
    assert!(missing.is_empty(), "the judge never had to say: {missing:?}");
    let idle: Vec<&str> = matters::names().filter(|name| !fields.contains_key(name)).collect();
    assert!(idle.is_empty(), "fields that never decided anything: {idle:?}");
}
