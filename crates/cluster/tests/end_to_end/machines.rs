//! Machines on their way, from the claim to the node.

use model::plan::Target;
use model::why::Obstacle;
use serde_json::{Value, json};

use crate::fixture::*;

fn of_half_a_cpu(name: &str) -> Value {
    pod(name, json!({"spec": asking("500m")}))
}

// 01/POD-09
#[test]
fn the_next_pending_pod_is_counted_onto_the_machine_that_is_on_its_way() {
    let first = cluster([pool("default", json!({}))]).pods([of_half_a_cpu("first")]).pass();
    assert_eq!(first.claims(), 1);
    for stage in STAGES {
        let on_its_way = || {
            let planned = machine("asked-for", &first.plan.claims[0], stage);
            cluster([pool("default", json!({}))]).machine(planned)
        };
        // Nobody has bound the first pod yet, for that is not our business; it is planned for again.
        let pass = on_its_way().pods([of_half_a_cpu("first"), of_half_a_cpu("second")]).pass();
        assert_eq!((pass.placed(), pass.claims()), (2, 0), "{stage:?}");
        let name = pass.snapshot.nodes.keys().next().unwrap();
        assert_eq!(pass.target("second"), Some(&Target::Node(name.clone())), "{stage:?}");
        let large = pod("large", json!({"spec": asking("1500m")}));
        let pass = on_its_way().pods([of_half_a_cpu("first"), of_half_a_cpu("second"), large]).pass();
        assert_eq!((pass.placed(), pass.claims()), (3, 1), "{stage:?}: 2500m are too much for two cpus");
    }
}

// 01/POD-09
#[test]
fn a_pod_that_the_scheduler_has_bound_counts_on_its_node() {
    let first = cluster([pool("default", json!({}))]).pods([of_half_a_cpu("first")]).pass();
    for (cpu, claims) in [("1500m", 0), ("1600m", 1)] {
        let pass = cluster([pool("default", json!({}))])
            .machine(machine("c", &first.plan.claims[0], Stage::Initialized))
            .pods([bound(of_half_a_cpu("first"), "node-of-c"), pod("second", json!({"spec": asking(cpu)}))])
            .pass();
        assert_eq!((pass.target("first"), pass.placed(), pass.claims()), (None, 1, claims), "{cpu}");
    }
}

// 01/EXN-12
#[test]
fn a_machine_counts_against_a_limit_of_nodes_from_the_moment_it_is_asked_for() {
    let planned = cluster([pool("default", json!({}))]).pods([of_half_a_cpu("first")]).pass().plan;
    for stage in STAGES {
        let limited = |nodes: &str| {
            cluster([pool("default", json!({"spec": {"limits": {"nodes": nodes}}}))])
                .machine(machine("c", &planned.claims[0], stage))
                .pods([pod("large", json!({"spec": asking("7")}))])
                .pass()
        };
        let full = limited("1");
        assert_eq!(full.claims(), 0, "{stage:?}");
        let obstacles = &full.plan.unplaced[0].pools[0].1;
        let is_limit = |obstacle: &Obstacle| matches!(obstacle, Obstacle::Limit(limit) if limit.would_be == 2);
        assert!(obstacles.iter().all(is_limit), "{stage:?}: {obstacles:?}");
        assert_eq!(limited("2").claims(), 1, "{stage:?}");
    }
}
