use std::sync::Arc;

use model::eviction::{Blocking, blocked, is_currently_reschedulable, is_reschedulable};
use model::ids::NodeName;
use model::pod::{DoNotDisrupt, Owner, Readiness};
use model::resources::Resources;
use model::snapshot::PodBudget;
use model::taints::{Match, Toleration};
use model::topology::Selector;

use super::*;

const NOW: i64 = 1000;

fn pod(change: impl Fn(&mut Pod)) -> Pod {
    let mut pod = Pod::pending("default", "web", Resources::default());
    change(&mut pod);
    pod
}

// 01/POD-01
#[test]
fn only_an_unbound_unschedulable_pod_of_no_node_is_provisionable() {
    let check = |expected: bool, change: fn(&mut Pod)| assert_eq!(is_provisionable(&pod(change)), expected);
    check(true, |_| {});
    check(false, |pod| pod.is_unschedulable = false);
    check(false, |pod| pod.node = Some(NodeName::from("a")));
    check(false, |pod| pod.is_nominated = true);
    check(false, |pod| pod.owner = Owner::DaemonSet);
    check(false, |pod| pod.owner = Owner::Node);
    check(true, |pod| pod.owner = Owner::StatefulSet);
    check(false, |pod| pod.life = Life::Terminating);
    check(false, |pod| pod.life = Life::Terminal);
}

#[test]
fn a_new_pod_is_unjudged_until_the_scheduler_speaks() {
    let check = |expected: bool, change: fn(&mut Pod)| {
        let pod = pod(|pod| {
            (pod.is_unschedulable, pod.created) = (false, Instant::from_unix_seconds(NOW - 4));
            change(pod);
        });
        assert_eq!(is_unjudged(&pod, Instant::from_unix_seconds(NOW)), expected);
    };
    check(true, |_| {});
    check(false, |pod| pod.is_unschedulable = true);
    check(false, |pod| pod.node = Some(NodeName::from("a")));
    check(false, |pod| pod.owner = Owner::DaemonSet);
    check(false, |pod| pod.life = Life::Terminating);
    check(false, |pod| pod.created = Instant::from_unix_seconds(NOW - 5));
}

// 01/DEL-02
#[test]
fn of_ending_pods_only_those_of_a_stateful_set_want_another_place() {
    let check = |owner: Owner, life: Life, expected: bool| {
        let pod = pod(|pod| (pod.owner, pod.life) = (owner, life));
        assert_eq!(is_reschedulable(&pod), expected, "{owner:?} {life:?}");
        assert_eq!(is_currently_reschedulable(&pod, &[], Instant::from_unix_seconds(NOW)), expected);
    };
    check(Owner::Other, Life::Active, true);
    check(Owner::Other, Life::Terminating, false);
    check(Owner::Other, Life::Terminal, false);
    check(Owner::StatefulSet, Life::Active, true);
    check(Owner::StatefulSet, Life::Terminating, true);
    check(Owner::StatefulSet, Life::Terminal, false);
    check(Owner::DaemonSet, Life::Active, false);
    check(Owner::DaemonSet, Life::Terminating, false);
    check(Owner::Node, Life::Active, false);
}

fn budget(spec: serde_json::Value) -> Arc<PodBudget> {
    let mut spec = spec;
    spec["selector"] = serde_json::json!({});
    let wire = serde_json::json!({"metadata": {"namespace": "default", "name": "a"}, "spec": spec});
    Arc::new(crate::lower::budget::budget(&serde_json::from_value(wire).unwrap()))
}

fn check_budgets(specs: &[serde_json::Value], change: impl Fn(&mut Pod), expected: bool) {
    let budgets: Vec<Arc<PodBudget>> = specs.iter().cloned().map(budget).collect();
    let found = is_currently_reschedulable(&pod(change), &budgets, Instant::from_unix_seconds(NOW));
    assert_eq!(found, expected, "{specs:?}");
}

// 01/DEL-03
#[test]
fn pods_that_budgets_never_let_go_get_no_other_place() {
    use serde_json::json;
    for spec in [json!({"maxUnavailable": 0}), json!({"maxUnavailable": "0%"}), json!({"minAvailable": "100%"})] {
        check_budgets(&[spec], |_| {}, false);
    }
    let lenient = json!({"maxUnavailable": 5, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
    check_budgets(std::slice::from_ref(&lenient), |_| {}, true);
    check_budgets(&[lenient.clone(), lenient], |pod| pod.is_ready = Readiness::NotReady, false);
    check_budgets(&[json!({"minAvailable": 3})], |_| {}, true);
}

#[test]
fn a_budget_that_lets_unhealthy_pods_go_blocks_only_healthy_ones() {
    let spec = [serde_json::json!({"maxUnavailable": 0, "unhealthyPodEvictionPolicy": "AlwaysAllow"})];
    check_budgets(&spec, |pod| pod.is_ready = Readiness::NotReady, true);
    check_budgets(&spec, |pod| pod.is_ready = Readiness::Ready, false);
    check_budgets(&spec, |pod| pod.is_ready = Readiness::Unknown, false);
}

#[test]
fn budgets_do_not_concern_pods_that_leave_without_eviction() {
    let spec = [serde_json::json!({"maxUnavailable": 0})];
    let any = Toleration { key: None, matches: Match::Any, effect: None };
    check_budgets(&spec, |pod| pod.wants.tolerations = vec![any.clone()], true);
    check_budgets(&spec, |pod| (pod.owner, pod.life) = (Owner::StatefulSet, Life::Terminating), true);
    check_budgets(&spec, |pod| pod.name = model::ids::PodName::new("elsewhere", "web"), true);
    let mut other = PodBudget::clone(&budget(spec[0].clone()));
    other.selector = Selector::Nothing;
    let now = Instant::from_unix_seconds(NOW);
    assert_eq!(blocked(&pod(|_| {}), &[Arc::new(other)], Blocking::Always, now), None);
}

#[test]
fn a_protected_pod_stays_until_its_time_is_up() {
    let check = |protection: DoNotDisrupt, expected: bool| {
        check_budgets(&[], |pod| pod.do_not_disrupt = protection, expected);
    };
    check(DoNotDisrupt::Always, false);
    check(DoNotDisrupt::Until(Instant::from_unix_seconds(NOW + 1)), false);
    check(DoNotDisrupt::Until(Instant::from_unix_seconds(NOW)), true);
    let ending = |pod: &mut Pod| {
        (pod.owner, pod.life, pod.do_not_disrupt) = (Owner::StatefulSet, Life::Terminating, DoNotDisrupt::Always);
    };
    check_budgets(&[], ending, true);
}
