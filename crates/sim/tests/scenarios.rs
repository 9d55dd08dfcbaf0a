//! Every scenario of the project, played to its end.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fmt::Write;
use std::path::Path;

use runtime::Rng;
use sim::scenario::{Play, Report, Story, paused_runtime};

const TRACE: &str = "$DOVETAIL_DATA/openb/openb_pod_list_default.csv";

fn text(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    std::fs::read_to_string(file).unwrap()
}

fn play(name: &str, text: &str) -> Report {
    let open = |path: &str| if path == TRACE { Ok(trace()) } else { Err("not there".to_owned()) };
    let story = Story::read(name, text, &open).unwrap_or_else(|fault| panic!("{fault}"));
    let runtime = paused_runtime().unwrap();
    runtime.block_on(async { Play::new(&story, 1).unwrap().end().await.unwrap() })
}

/// Plays a file, and checks that everything is as it says.
fn check(name: &str, text: &str) -> Report {
    let report = play(name, text);
    assert!(!report.expectations.is_empty());
    assert!(report.is_as_expected(), "{:#?}", report.expectations);
    report
}

/// Pods in the shape of the recorded ones: a few that are there from the start, most in a burst of short ones, some with GPUs, some
/// that nothing can hold, and some that nobody ever scheduled.
fn trace() -> String {
    let rng = Rng::new(11);
    let mut text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n".to_owned();
    for number in 0..300 {
        let created = if number < 12 { rng.below(10_300_000) } else { 10_300_000 + rng.below(150_000) };
        let stays = 600 + rng.below(if number % 7 == 0 { 900_000 } else { 40_000 });
        let deleted = if number < 12 { 10_300_001 + rng.below(100_000) } else { created + stays };
        let cpu = [1000, 4000, 6000, 12_000, 32_000][rng.below(5) as usize];
        let gpus = [0, 0, 1, 1, 1, 8][rng.below(6) as usize];
        let cpu = if number == 50 { 9_000_000 } else { cpu };
        let (phase, scheduled) =
            if number % 9 == 0 { ("Pending", String::new()) } else { ("Running", created.to_string()) };
        writeln!(text, "pod-{number:04},{cpu},{},{gpus},1000,,LS,{phase},{created},{deleted},{scheduled}", cpu * 2)
            .unwrap();
    }
    text
}

#[test]
fn eks_workshop() {
    let report = check("eks-workshop.yaml", &text("eks-workshop.yaml"));
    let price = |name: &str| {
        let types = provider::ec2::catalog().types("us-west-2").unwrap();
        let machine = types.iter().find(|machine| machine.name.as_str() == name).unwrap();
        machine.offerings.iter().map(|offering| offering.price).max().unwrap().dollars()
    };
    assert_eq!(price("m5.large"), 0.096, "the number in the file is the price of one m5.large");
    assert_eq!(report.pods.placed, 12);
}

#[test]
fn many_pools() {
    let report = check("many-pools.yaml", &text("many-pools.yaml"));
    for (pool, families) in [("cpu", &['c'][..]), ("memory", &['r']), ("gpu", &['g', 'p'])] {
        let nodes: Vec<_> = report.nodes.iter().filter(|node| node.pool.as_deref() == Some(pool)).collect();
        assert!(!nodes.is_empty() && nodes.iter().all(|node| node.instance_type.starts_with(families)), "{pool}");
    }
}

#[test]
fn well_chosen() {
    let report = check("well-chosen.yaml", &text("well-chosen.yaml"));
    assert!(report.nodes.iter().all(|node| {
        let name = &node.instance_type;
        name.starts_with(['c', 'm', 'r'])
            && name != "c7a.medium"
            && name != "m7a.medium"
            && node.capacity_type == "on-demand"
    }));
    for zone in ["us-east-1a", "us-east-1b", "us-east-1c"] {
        assert!(report.nodes.iter().any(|node| node.zone == zone), "{zone}");
    }
}

#[test]
fn shortage() {
    let report = check("shortage.yaml", &text("shortage.yaml"));
    let types: Vec<&str> = report.nodes.iter().map(|node| node.instance_type.as_str()).collect();
    assert_eq!(types.iter().filter(|name| **name == "m5.large").count(), 4, "{types:?}");
}

/// A fiftieth of the crowd; `make bench` plays all of it.
#[test]
fn black_friday() {
    let mut text = text("black-friday.yaml");
    for (all, some) in [("replicas: 8000", "replicas: 160"), ("replicas: 4000", "replicas: 80"), ("20000", "400")] {
        assert!(text.contains(all));
        text = text.replace(all, some);
    }
    let report = check("black-friday.yaml", &text);
    assert_eq!((report.pods.created, report.pods.placed), (400, 400));
}

/// Two days with a generated trace of the same shape; `make bench` plays the recorded thirty.
#[test]
fn openb() {
    let mut text = text("openb.yaml");
    for (all, some) in [("722h", "49h"), ("to: 12900000", "to: 10476400")] {
        assert!(text.contains(all));
        text = text.replace(all, some);
    }
    let report = check("openb.yaml", &text);
    assert!(report.pods.created > 280 && report.pods.placed == report.pods.created, "{:?}", report.pods);
}

#[test]
fn every_scenario_of_the_project_is_played_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    found.sort();
    let all = ["black-friday", "eks-workshop", "many-pools", "openb", "shortage", "well-chosen"];
    assert_eq!(found, all.map(|name| format!("{name}.yaml")));
}
