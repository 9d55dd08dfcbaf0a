use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::bench::lower;
use crate::bench::rows::ROWS;
use crate::bench::sha256;

fn row(name: &str) -> Row {
    *ROWS.iter().find(|row| row.name == name).unwrap()
}

fn made(name: &str) -> Workload {
    generate(&row(name), Path::new("nowhere")).unwrap()
}

#[test]
fn a_row_is_the_same_bytes_every_time() {
    let text = made("diverse-100").text().unwrap();
    assert_eq!(made("diverse-100").text().unwrap(), text);
    // A change here is a change of the benchmark: numbers from before and after it do not compare.
    assert_eq!(sha256::hex(text.as_bytes())[..16], *"f8133828df9ba330");
}

#[test]
fn diverse_pods_come_in_five_equal_parts_and_the_rest_is_generic() {
    let workload = generate(&Row { pods: 104, ..row("diverse-100") }, Path::new("nowhere")).unwrap();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in &workload.pods {
        *counts.entry(entry.name.split('-').next().unwrap()).or_default() += 1;
    }
    assert_eq!(counts, [("apart", 20), ("generic", 24), ("hostly", 20), ("together", 20), ("zonal", 20)].into());
}

#[test]
fn the_series_has_four_hundred_types_with_exact_prices() {
    let workload = made("diverse-1");
    assert_eq!(workload.types.len(), 400);
    let snapshot = lower::lower(&workload).unwrap().snapshot;
    let types = &snapshot.pools.values().next().unwrap().instance_types;
    let fourth = &types[3];
    assert_eq!((fourth.name.as_str(), fourth.capacity.cpu_milli, fourth.capacity.pods), ("fake-it-3", 4000, 40));
    assert_eq!(fourth.allocatable().memory_bytes, (8 << 30) - (10 << 20));
    // Four tenths for the cores and a tenth for each of 8.589934592 billion bytes.
    assert!(fourth.offerings.iter().all(|sold| sold.price.pico() == 1_258_993_459_200));
    assert_eq!(fourth.offerings.len(), 5);
}

#[test]
fn the_market_is_all_of_ec2_and_what_it_asks_for_is_there() {
    let workload = made("ec2-plain-500");
    assert!(workload.types.len() > 700, "{} types", workload.types.len());
    let snapshot = lower::lower(&workload).unwrap().snapshot;
    for kind in &snapshot.pools.values().next().unwrap().instance_types {
        assert!(
            snapshot
                .well_known
                .iter()
                .all(|key| { kind.requirements.get(key).is_some() || **key == *"karpenter.sh/nodepool" })
        );
        let sold =
            kind.offerings.iter().any(|sold| sold.is_available && kind.requirements.overlaps(&sold.requirements));
        assert!(sold, "{} cannot be had", kind.name);
    }
}

#[test]
fn pods_of_the_trace_are_read_and_those_that_fit_nowhere_left_out() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("openb")).unwrap();
    let text = "name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time\na,12000,16384,1,0,9\nb,1000,1024,0,0,9\nc,9000000,1,0,0,9\n";
    std::fs::write(folder.path().join(TRACE), text).unwrap();
    let workload = generate(&row("openb-8152"), folder.path()).unwrap();
    let names: Vec<&str> = workload.pods.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let snapshot = lower::lower(&workload).unwrap().snapshot;
    let first = snapshot.pods.values().next().unwrap();
    assert_eq!(first.requests.get(&model::resources::Resource::from_name("nvidia.com/gpu")), 1);
    let error = generate(&row("openb-8152"), Path::new("nowhere")).unwrap_err().to_string();
    assert!(error.contains("nowhere/openb"), "{error}");
}

#[test]
fn standing_nodes_hold_their_pods_and_have_room_left() {
    let mut draft = series::draft("standing");
    standing::add_cluster(&mut draft, 20, 5, &mut Random::new(SEED));
    let workload = draft.finish();
    workload.check().unwrap();
    let snapshot = lower::lower(&workload).unwrap().snapshot;
    assert_eq!((snapshot.nodes.len(), snapshot.pods.len()), (20, 405));
    for node in snapshot.nodes.values() {
        assert!(node.is_initialized() && node.pool.is_some());
        let pods = snapshot.pods.values().filter(|pod| pod.node.as_ref() == Some(&node.name));
        let used = pods.fold(model::resources::Resources::default(), |used, pod| used.plus(&pod.requests));
        assert_eq!(used.pods, 20);
        assert!(used.cpu_milli * 100 <= node.allocatable.cpu_milli * 85, "{}", node.name);
        assert!(used.memory_bytes * 100 <= node.allocatable.memory_bytes * 85, "{}", node.name);
    }
}

#[test]
fn apps_apart_are_of_two_hundred_each() {
    let workload = generate(&Row { pods: 450, ..row("apart-20000") }, Path::new("nowhere")).unwrap();
    let mut by_template: BTreeMap<usize, usize> = BTreeMap::new();
    for entry in &workload.pods {
        *by_template.entry(entry.template).or_default() += 1;
    }
    assert_eq!(by_template.into_values().collect::<Vec<_>>(), [200, 200, 50]);
}

#[test]
fn every_kind_of_row_says_nothing_that_decoding_would_drop() {
    for name in ["diverse-100", "preference-respect-4000", "ec2-plain-500", "apart-20000"] {
        lower::check_lossless(&made(name)).unwrap();
    }
    let mut draft = series::draft("standing");
    standing::add_cluster(&mut draft, 2, 1, &mut Random::new(SEED));
    lower::check_lossless(&draft.finish()).unwrap();
}
