//! Decisions on nodes that leave, as recordings hold them, and the same decisions made again.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::record::{
    Choice, Disruption as Recorded, DisruptionQuestion, MovedPod, Outcome, SecondLook, StaticCount as Count, Staying,
    read_command, read_pod, write_command,
};
use cluster::store::Batch;
use engine::disrupt::{Decision, Rules, StaticCount, Validity, decide, still_holds};
use model::disruption::{Disruption, Moved};
use model::ids::NodeName;

use super::commands::Command;
use super::look::{Look, rules};
use crate::controller::TickId;
use crate::ctx::Ctx;

/// What is asked; nothing unless somebody records it.
pub(super) fn question(ctx: &Ctx, look: &Look) -> Option<DisruptionQuestion> {
    ctx.store().is_recording().then(|| write_question(look, &rules(ctx)))
}

pub(super) fn note_decision(ctx: &Ctx, id: &TickId, question: Option<DisruptionQuestion>, decision: &Decision) {
    if let Some(question) = question {
        ctx.record(id, || write_decision(question, decision));
    }
}

pub(super) fn note_second_look(
    ctx: &Ctx,
    command: &Command,
    question: Option<DisruptionQuestion>,
    validity: &Validity,
) {
    if let Some(question) = question {
        ctx.record(&command.id, || write_validity(question, &command.what, validity));
    }
}

/// What is decided today on what was seen then.
pub fn decide_again(batch: &Batch, recorded: &Recorded) -> Choice {
    let (look, rules) = (read_look(batch, &recorded.question), read_rules(&recorded.question));
    write_decision(recorded.question.clone(), &decide(&look.scene(), &rules))
}

/// What becomes today of a command that was looked at again then.
pub fn look_again(batch: &Batch, recorded: &SecondLook) -> Choice {
    let (look, rules) = (read_look(batch, &recorded.question), read_rules(&recorded.question));
    let validity = still_holds(&look.scene(), &rules, &read_command(&recorded.command));
    Choice::SecondLook(Box::new(SecondLook { outcome: outcome(&validity), ..recorded.clone() }))
}

fn write_question(look: &Look, rules: &Rules) -> DisruptionQuestion {
    let nanos =
        |time: std::time::Duration| api::Duration::from_nanos(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
    let count = |count: &StaticCount| Count { active: count.active, replacing: count.replacing, room: count.room };
    DisruptionQuestion {
        spot_to_spot: rules.spot_to_spot,
        payback: nanos(rules.payback),
        pod_move_cooldown: nanos(rules.pod_move_cooldown),
        foresight: nanos(look.foresight),
        under_way: look.under_way.iter().map(|command| write_command(command)).collect(),
        nominated: look.nominated.iter().map(ToString::to_string).collect(),
        moved: look.moved.iter().map(|(pod, moved)| (pod.to_string(), write_moved(moved))).collect(),
        paused: look.paused.iter().map(|(pool, until)| (pool.to_string(), until.to_string())).collect(),
        static_pools: look.static_pools.iter().map(|(pool, found)| (pool.to_string(), count(found))).collect(),
    }
}

/// A time that cannot be read is left out; the answer will then differ from the recorded one, which is what should be noticed.
fn read_look(batch: &Batch, question: &DisruptionQuestion) -> Look {
    let count = |count: &Count| StaticCount { active: count.active, replacing: count.replacing, room: count.room };
    let moved = question.moved.iter().filter_map(|(pod, moved)| Some((read_pod(pod), read_moved(moved)?)));
    let paused = question.paused.iter().filter_map(|(pool, until)| Some((pool.as_str().into(), until.parse().ok()?)));
    let pools = question.static_pools.iter().map(|(pool, found)| (pool.as_str().into(), count(found)));
    Look {
        batch: batch.clone(),
        foresight: question.foresight.to_std(),
        nominated: question.nominated.iter().map(|node| NodeName::from(node.as_str())).collect(),
        moved: moved.collect(),
        under_way: question.under_way.iter().map(|command| Arc::new(read_command(command))).collect(),
        paused: paused.collect(),
        static_pools: pools.collect::<BTreeMap<_, _>>(),
    }
}

fn write_moved(moved: &Moved) -> MovedPod {
    MovedPod { when: moved.when.to_string(), times: moved.times }
}

fn read_moved(moved: &MovedPod) -> Option<Moved> {
    Some(Moved { when: moved.when.parse().ok()?, times: moved.times })
}

fn read_rules(question: &DisruptionQuestion) -> Rules {
    Rules {
        spot_to_spot: question.spot_to_spot,
        payback: question.payback.to_std(),
        pod_move_cooldown: question.pod_move_cooldown.to_std(),
        ..Rules::default()
    }
}

fn write_decision(question: DisruptionQuestion, decision: &Decision) -> Choice {
    let all = decision.staying.iter().map(|found| staying(&found.node, &found.first));
    Choice::Disruption(Recorded {
        question,
        commands: decision.commands.iter().map(write_command).collect(),
        staying: all.collect(),
        look_again: decision.look_again.map(|time| time.to_string()),
    })
}

fn write_validity(question: DisruptionQuestion, command: &Disruption, validity: &Validity) -> Choice {
    let command = write_command(command);
    Choice::SecondLook(Box::new(SecondLook { question, command, outcome: outcome(validity) }))
}

fn outcome(validity: &Validity) -> Outcome {
    match validity {
        Validity::Holds { command, dropped } => Outcome {
            leaving: command.nodes().map(ToString::to_string).collect(),
            rejection: None,
            staying: dropped.iter().map(|(node, why)| staying(node, &format!("{why:?}"))).collect(),
        },
        Validity::Fails { why, stays } => Outcome {
            leaving: Vec::new(),
            rejection: Some(why.as_str().to_owned()),
            staying: stays.iter().map(|(node, why)| staying(node, why)).collect(),
        },
    }
}

fn staying(node: &NodeName, why: &impl ToString) -> Staying {
    Staying { node: node.to_string(), why: why.to_string() }
}
