use model::pod::{DoNotDisrupt, Owner};
use model::resources::Resources;

use super::*;

fn at(second: i64) -> Instant {
    Instant::from_unix_seconds(second)
}

fn census(replicas: i64, active: i64, replacing: i64) -> Census {
    Census { replicas, active, replacing }
}

#[test]
fn a_pool_is_filled_up_and_cut_back_to_its_replicas() {
    assert_eq!(missing(census(5, 2, 0)), 3);
    assert_eq!(missing(census(5, 5, 0)), 0);
    assert_eq!(missing(census(5, 9, 0)), 0);
    assert_eq!(missing(census(0, 0, 0)), 0);
    assert_eq!(surplus(census(5, 9, 0)), 4);
    assert_eq!(surplus(census(0, 9, 0)), 9);
    assert_eq!(surplus(census(5, 2, 0)), 0);
}

#[test]
fn a_node_that_is_being_replaced_is_made_once() {
    assert_eq!(missing(census(3, 2, 1)), 0, "its replacement is on its way");
    assert_eq!(missing(census(5, 2, 1)), 2);
    assert_eq!(surplus(census(3, 3, 1)), 0, "it goes by itself");
}

fn candidate(name: &str, pods: &[Pod]) -> Candidate {
    let pods = pods.iter().cloned().map(Arc::new).collect();
    Candidate { claim: name.into(), is_launched: true, pods, created: at(0), expire_after: None }
}

fn pod(priority: i32) -> Pod {
    Pod { priority, ..Pod::pending("shop", "web", Resources::default()) }
}

fn daemon() -> Pod {
    Pod { owner: Owner::DaemonSet, ..pod(0) }
}

fn protected(pod: Pod) -> Pod {
    Pod { do_not_disrupt: DoNotDisrupt::Until(at(60)), ..pod }
}

fn order(candidates: &[Candidate], now: i64) -> Vec<String> {
    leavers(candidates, i64::MAX, at(now)).iter().map(ToString::to_string).collect()
}

// 01/STC-05
#[test]
fn those_go_first_that_hurt_least() {
    let all = [
        candidate("a-protected", &[protected(pod(0))]),
        candidate("b-many", &[pod(0), pod(0)]),
        candidate("c-one", &[pod(0), daemon()]),
        candidate("d-daemons", &[daemon()]),
        candidate("e-empty", &[]),
        candidate("f-protected-daemon", &[protected(daemon())]),
        Candidate { is_launched: false, ..candidate("g-unlaunched", &[]) },
    ];
    let mut expected = ["g-unlaunched", "d-daemons", "e-empty", "c-one", "b-many", "f-protected-daemon", "a-protected"];
    assert_eq!(order(&all, 50), expected);
    let two: Vec<String> = leavers(&all, 2, at(50)).iter().map(ToString::to_string).collect();
    assert_eq!(two, expected[..2]);
    assert!(leavers(&all, -1, at(50)).is_empty());
    expected = ["g-unlaunched", "d-daemons", "e-empty", "f-protected-daemon", "a-protected", "c-one", "b-many"];
    assert_eq!(order(&all, 60), expected, "protection has run out");
}

// 02/NP7
#[test]
fn priority_deletion_cost_and_the_rest_of_a_life_decide_among_nodes_with_pods() {
    let costly = Pod { deletion_cost: 1_000_000, ..pod(0) };
    let cheap = Pod { deletion_cost: -1_000_000, ..pod(0) };
    let all = [
        candidate("a", &[pod(1_000_000)]),
        candidate("b", &[costly]),
        candidate("c", &[pod(0)]),
        candidate("d", &[cheap]),
    ];
    assert_eq!(order(&all, 50), ["d", "c", "b", "a"]);
    let ending = |name: &str, seconds: u64| Candidate {
        expire_after: Some(Duration::from_secs(seconds)),
        ..candidate(name, &[pod(0), pod(0)])
    };
    let all = [candidate("new", &[pod(0), pod(0)]), ending("old", 100), ending("older", 60), ending("overdue", 10)];
    assert_eq!(order(&all, 50), ["overdue", "older", "old", "new"]);
}
