use super::*;

const START: i64 = 1000;

fn flight(replacements: &[(&str, Replacement)], nodes_in_flight: usize) -> Flight {
    let replacements = replacements.iter().map(|(name, state)| ((*name).into(), *state)).collect();
    Flight { started: Instant::from_unix_seconds(START), replacements, nodes_in_flight, is_stopped: false }
}

fn after(flight: &Flight, seconds: i64) -> Advance {
    advance(flight, Instant::from_unix_seconds(START + seconds))
}

// 02/QU9
#[test]
fn the_time_limit_grows_with_the_nodes_in_flight_within_bounds() {
    let seconds = |nodes: usize| time_limit(nodes).as_secs();
    assert_eq!([0, 100, 4000, 10_000, 40_000, 80_000].map(seconds), [600, 600, 600, 800, 3200, 3600]);
}

// 02/QU2 02/QU4 02/QU6
#[test]
fn a_command_waits_for_all_its_replacements_until_its_time_is_over() {
    use Replacement::{Coming, Initialized};
    let two = flight(&[("a", Initialized), ("b", Coming)], 1);
    let wait = Advance::Wait { until: Instant::from_unix_seconds(START + 600) };
    assert_eq!([0, 599, 600].map(|seconds| after(&two, seconds)), [wait.clone(), wait.clone(), wait]);
    let unused = vec!["b".into()];
    assert_eq!(after(&two, 601), Advance::RollBack { failure: Failure::TimedOut, unused });
}

// 02/QU7
#[test]
fn a_command_that_needs_nobody_goes_at_once() {
    assert_eq!(after(&flight(&[], 1), 0), Advance::Go);
}

// 02/QU3
#[test]
fn a_replacement_that_only_the_server_misses_is_waited_for() {
    let unseen = flight(&[("a", Replacement::Unseen)], 1);
    assert!(matches!(after(&unseen, 10), Advance::Wait { .. }));
}

/// The reference deletes the nodes of such a command and then rolls it back as well (spec 02, flaw 23).
#[test]
fn a_command_that_is_complete_goes_even_when_its_time_is_over() {
    assert_eq!(after(&flight(&[("a", Replacement::Initialized)], 1), 10_000), Advance::Go);
}

/// The reference leaves what was launched running (spec 02, flaw 24).
#[test]
fn what_still_comes_for_a_failed_command_is_named_so_that_it_can_be_reclaimed() {
    use Replacement::{Coming, Gone, Initialized};
    let failed = flight(&[("a", Coming), ("b", Gone), ("c", Initialized)], 1);
    assert_eq!(
        after(&failed, 1),
        Advance::RollBack { failure: Failure::ReplacementGone, unused: vec!["a".into()] },
        "what is initialized already has pods by then"
    );
}

/// Spec 02, flaw 15: the reference tries a failing pool again on every pass.
#[test]
fn a_pool_rests_longer_after_each_failure() {
    assert_eq!([0, 1, 2, 3, 4, 5, 60].map(|failures| back_off(failures).as_secs()), [0, 60, 120, 240, 480, 600, 600]);
}

// Spec 02, flaw 33
#[test]
fn what_was_begun_is_taken_back_when_all_disruption_is_stopped() {
    use Replacement::{Coming, Initialized};
    let stopped = |replacements| Flight { is_stopped: true, ..flight(replacements, 1) };
    let back = |unused: &[&str]| {
        let unused = unused.iter().map(|name| (*name).into()).collect();
        Advance::RollBack { failure: Failure::Stopped, unused }
    };
    assert_eq!(after(&stopped(&[("a", Initialized), ("b", Coming)]), 0), back(&["b"]));
    assert_eq!(after(&stopped(&[("a", Initialized)]), 0), back(&[]), "also when all replacements are there");
    assert_eq!(after(&stopped(&[]), 0), back(&[]));
}
