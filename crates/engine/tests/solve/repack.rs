//! Plans that are packed anew: within their effort, within their pool's weight, and the same every time.

use model::plan::Plan;
use model::pod::Pod;

use crate::fixture::*;
use crate::judged::answer;

/// So many pods of a few sizes that may be moved at will.
fn crowd(count: usize) -> Vec<Pod> {
    let sizes = [(1700, 1), (700, 9), (300, 3), (2500, 6), (1100, 14)];
    let sketch = |number: usize| {
        let (cpu, memory) = sizes[number % sizes.len()];
        pod(&format!("a-{number:03}")).asks("cpu", cpu).asks("memory", memory * GI).0
    };
    (0..count).map(sketch).collect()
}

fn menu() -> World {
    world(vec![pool("p").types(series(12))])
}

fn plan(count: usize, effort: u64) -> Plan {
    answer(&menu().snapshot, &crowd(count), effort)
}

#[test]
fn packing_stays_within_its_effort_and_what_it_took_is_enough() {
    for count in [8, 30, 80] {
        let whole = plan(count, u64::MAX);
        assert!(whole.unplaced.is_empty());
        assert_eq!(plan(count, whole.steps), whole, "{count}");
        for effort in (0..12).map(|part| whole.steps * part / 11) {
            let less = plan(count, effort);
            assert!(less.steps <= effort, "{count}: {} of {effort}", less.steps);
            assert!(
                less.placements.len() < count || less.price() >= whole.price(),
                "{count}: more effort costs no more"
            );
        }
    }
}

#[test]
fn every_look_at_a_packing_is_a_step() {
    // Pods with ports of their own are not packed; the others take their seats again, and looks beside that.
    let steps = |count: usize, is_packed: bool| {
        let mut pods = crowd(count);
        for (number, pod) in pods.iter_mut().enumerate().filter(|_| !is_packed) {
            let port = 1000 + number as u16;
            pod.wants.ports.push(model::pod::HostPort { ip: "".into(), port, protocol: model::pod::Protocol::Tcp });
        }
        answer(&menu().snapshot, &pods, u64::MAX).steps
    };
    for count in [8, 60] {
        assert!(steps(count, true) >= steps(count, false) + count as u64 + 256, "{count}");
    }
}

#[test]
fn filling_a_machine_anew_takes_steps_too() {
    // So many small pods fill each machine that all ways to part them are too many to try.
    let count = 3 * 39;
    let steps = |is_packed: bool| {
        let small = pods("a", count, |sketch| sketch.asks("cpu", 300).asks("memory", 100 * MI));
        let mut small: Vec<Pod> = small.into_iter().map(|sketch| sketch.0).collect();
        for pod in small.iter_mut().filter(|_| !is_packed) {
            pod.wants.volumes.attached.entry("any".into()).or_default().insert("shared".into());
        }
        answer(&menu().snapshot, &small, u64::MAX).steps
    };
    assert!(steps(true) > steps(false) + count as u64, "{} and {}", steps(true), steps(false));
}

#[test]
fn pods_stay_in_the_pools_of_the_weight_that_they_were_seated_in() {
    let dear = series(6).into_iter().map(|cheap| {
        let mut dear = model::instance::InstanceType::clone(&cheap);
        dear.name = format!("dear-{}", cheap.name).as_str().into();
        dear.requirements.remove("node.kubernetes.io/instance-type");
        dear.requirements.add("node.kubernetes.io/instance-type", req(&format!("In {}", dear.name)));
        for offering in &mut dear.offerings {
            offering.price = offering.price.plus(offering.price);
        }
        std::sync::Arc::new(dear)
    });
    let heavy = pool("heavy").weight(10).types(dear.collect());
    let light = pool("light").types(series(6)).label("team", "a");
    let mut all = pods("plain", 7, |sketch| sketch.asks("cpu", 1300));
    all.extend(pods("bound", 4, |sketch| sketch.asks("cpu", 900).selects("team", "In a")));
    let answer = world(vec![heavy, light]).judged(all);
    for claim in &answer.plan.claims {
        let is_plain = claim.pods.iter().any(|pod| pod.name.starts_with("plain"));
        assert_eq!(claim.pool.as_str(), if is_plain { "heavy" } else { "light" }, "{:?}", claim.pods);
    }
    assert_eq!(answer.placed(), 11);
}

#[test]
fn where_nothing_is_wasted_nobody_looks_for_patterns() {
    // To keep away from nobody changes nothing, but for patterns, which leave such pods alone.
    let steps = |cpu: i64, is_plain: bool| {
        let away = near("kubernetes.io/hostname", &[("app", "nobody")]);
        let sketch = |sketch: PodSketch| {
            let sketch = sketch.asks("cpu", cpu);
            if is_plain { sketch } else { sketch.apart(away.clone()) }
        };
        let answer = world(vec![pool("p").types(vec![shape("four").build()])]).judged(pods("a", 30, sketch));
        assert_eq!(answer.placed(), 30);
        answer.plan.steps
    };
    assert_eq!(steps(1300, true), steps(1300, false), "three fill a machine");
    assert!(steps(2000, true) > steps(2000, false), "one leaves half of it empty");
}
