use super::*;
use crate::resources::Resources;

fn pod(change: impl FnOnce(&mut Pod)) -> Pod {
    let mut pod = Pod::pending("default", "web", Resources::default());
    change(&mut pod);
    pod
}

// 02/QU16
#[test]
fn eviction_costs_follow_deletion_cost_and_priority_within_bounds() {
    let cost = |deletion_cost: i64, priority: i32| {
        EvictionCost::of(&pod(|pod| (pod.deletion_cost, pod.priority) = (deletion_cost, priority))).as_f64()
    };
    assert_eq!(cost(0, 0), 1.0);
    assert_eq!([cost(1 << 27, 0), cost(-(1 << 27), 0), cost(-(1 << 28), 0)], [2.0, 0.0, -1.0]);
    assert_eq!([cost(0, 1 << 25), cost(0, -(1 << 25))], [2.0, 0.0]);
    assert_eq!([cost(i64::MAX, i32::MAX), cost(i64::MIN, i32::MIN)], [10.0, -10.0]);
    assert!(cost(1, 0) > cost(0, 0) && cost(0, 1) > cost(1, 0) && cost(-1, 0) < cost(0, 0));
    assert_eq!(EvictionCost::of(&pod(|pod| pod.deletion_cost = i64::MIN)).floored(), EvictionCost::ZERO);
    assert_eq!([EvictionCost::COMMON; 3].into_iter().sum::<EvictionCost>().as_f64(), 3.0);
}

#[test]
fn a_budget_blocks_now_or_always_and_two_budgets_do_in_any_case() {
    let budget = |allowed: i32, blocks_always: bool| {
        Arc::new(PodBudget {
            namespace: "default".into(),
            name: format!("b{allowed}").as_str().into(),
            selector: crate::topology::Selector::Matching(Default::default()),
            blocks_always,
            disruptions_allowed: allowed,
            lets_unhealthy_go: false,
        })
    };
    let now = Instant::from_unix_seconds(5);
    let found = |budgets: &[Arc<PodBudget>], blocking: Blocking| blocked(&pod(|_| {}), budgets, blocking, now);
    let (tight, never, free) = (budget(0, false), budget(0, true), budget(3, false));
    assert_eq!(found(std::slice::from_ref(&tight), Blocking::Now), Some(Blocked::By(tight.clone())));
    assert_eq!(found(std::slice::from_ref(&tight), Blocking::Always), None);
    assert_eq!(found(std::slice::from_ref(&never), Blocking::Always), Some(Blocked::By(never)));
    assert_eq!(found(std::slice::from_ref(&free), Blocking::Now), None);
    let both = [tight.clone(), free.clone()];
    assert_eq!(found(&both, Blocking::Now), Some(Blocked::BySeveral(both.to_vec())));
}
