//! `cargo run --release -p xtask -- disrupt-bench`: how long the engine takes to decide which nodes leave.
//!
//! Clusters are drawn in memory and buy from the EC2 catalogue. Those at rest were improved until nothing was left to do, so that
//! every question is asked and none leads anywhere; loose ones are followed from decision to decision until they rest.

pub mod clusters;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Args;
use engine::disrupt::{Rules, decide};
use model::instance::{CapacityType, InstanceType};
use model::snapshot::Snapshot;

use clusters::{Mix, at_rest, come_to_rest, empty_world, loose, price, scene};

const REGION: &str = "us-east-1";
/// Machines of so much cpu, so that about fifteen of the drawn pods share one. Of smaller ones there would be one for every few pods.
const CPU_MILLI: i64 = 8000;
const LOOSE_TYPES: [&str; 3] = ["m5.2xlarge", "c5.2xlarge", "r5.2xlarge"];

#[derive(Args, Debug)]
pub struct Options {
    /// Pods of the clusters at rest; about fifteen share a node
    #[arg(long, num_args = 1.., default_values_t = [15_000])]
    pods: Vec<usize>,
    /// Nodes of the loose clusters
    #[arg(long, num_args = 1.., default_values_t = [1_000])]
    loose: Vec<usize>,
    /// How often each decision at rest is taken
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

/// Prints a line for every decision.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let is_optimised = !cfg!(debug_assertions);
    ensure!(is_optimised, "times mean nothing here: cargo run --locked --release --package xtask -- disrupt-bench");
    let types = types()?;
    for mix in [Mix::Sizes, Mix::Apps] {
        for pods in &options.pods {
            let world = at_rest(empty_world(&types, provider::ec2::WELL_KNOWN), *pods, mix);
            rest(&world, mix, options.runs)?;
        }
        for nodes in &options.loose {
            follow(loose(empty_world(&types, provider::ec2::WELL_KNOWN), *nodes, &LOOSE_TYPES, mix), mix)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn types() -> anyhow::Result<Vec<Arc<InstanceType>>> {
    let is_sold = |offered: &InstanceType| {
        let mut offerings = offered.offerings.iter().filter(|one| one.is_available);
        offerings.any(|one| one.capacity_type() == Some(CapacityType::OnDemand))
    };
    let mut types = provider::ec2::catalog().types(REGION).context("reading the EC2 catalogue")?;
    types.retain(|offered| offered.capacity.cpu_milli == CPU_MILLI && is_sold(offered));
    Ok(types)
}

/// Times decisions on a cluster at rest.
fn rest(world: &Snapshot, mix: Mix, runs: usize) -> anyhow::Result<()> {
    say(format_args!("at rest, {mix:?}: {} nodes, {} pods, {}", world.nodes.len(), world.pods.len(), price(world)))?;
    for _ in 0..runs {
        let started = Instant::now();
        let decision = decide(&scene(world), &Rules::default());
        let (seconds, effort) = (started.elapsed().as_secs_f64(), decision.effort);
        ensure!(decision.commands.is_empty(), "a cluster at rest moves again");
        say(format_args!(
            "  {seconds:.3} s, {} questions, {} refused at sight, {} plans",
            effort.questions, effort.refused_at_sight, effort.plans
        ))?;
    }
    Ok(())
}

/// Times the decisions that lead a loose cluster to rest.
fn follow(mut world: Snapshot, mix: Mix) -> anyhow::Result<()> {
    say(format_args!("loose, {mix:?}: {} nodes, {} pods, {}", world.nodes.len(), world.pods.len(), price(&world)))?;
    let mut lines = Vec::new();
    let mut started = Instant::now();
    let is_at_rest = come_to_rest(&mut world, |decision| {
        let moved: usize = decision.commands.iter().map(|command| command.worth.evicted).sum();
        lines.push((started.elapsed().as_secs_f64(), decision.effort, decision.commands.len(), moved));
        started = Instant::now();
    });
    for (seconds, effort, commands, moved) in lines {
        say(format_args!(
            "  {seconds:.3} s, {} questions, {} refused at sight, {} plans: {commands} commands, {moved} pods moved",
            effort.questions, effort.refused_at_sight, effort.plans
        ))?;
    }
    ensure!(is_at_rest, "a loose cluster does not come to rest");
    say(format_args!("  then {} nodes, {}", world.nodes.len(), price(&world)))
}

fn say(line: std::fmt::Arguments<'_>) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{line}").context("writing to the terminal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_at_rest_or_come_to_rest_and_keep_all_their_pods() {
        let types = types().unwrap();
        for mix in [Mix::Sizes, Mix::Apps] {
            let world = at_rest(empty_world(&types, provider::ec2::WELL_KNOWN), 300, mix);
            assert_eq!(world.pods.len(), 300, "{mix:?}");
            rest(&world, mix, 1).unwrap();
            let mut loose = loose(empty_world(&types, provider::ec2::WELL_KNOWN), 20, &LOOSE_TYPES, mix);
            let (pods, before) = (loose.pods.len(), price(&loose));
            assert!(come_to_rest(&mut loose, |_| {}));
            assert!(loose.pods.len() == pods && price(&loose) < before, "{mix:?}");
            assert!(
                loose.pods.values().all(|pod| pod.node.as_ref().is_some_and(|node| loose.nodes.contains_key(node)))
            );
        }
    }
}
