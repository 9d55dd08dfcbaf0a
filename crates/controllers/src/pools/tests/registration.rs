//! Whether machines of a pool are known to join.

use super::*;

fn failed() -> Outcome {
    Outcome::Failed { reason: "RegistrationFailed".to_owned(), message: "Failed to register node".to_owned() }
}

// 02/LI11
#[test]
fn health_is_judged_by_the_last_four_outcomes() {
    let ok = || Outcome::Registered;
    for (outcomes, expected) in [
        (vec![], Health::Unknown),
        (vec![ok()], Health::Healthy),
        (vec![failed()], Health::Healthy),
        (vec![failed(), failed()], Health::Unhealthy),
        (vec![failed(), failed(), ok()], Health::Unhealthy),
        (vec![failed(), failed(), ok(), ok()], Health::Unhealthy),
        (vec![failed(), failed(), ok(), ok(), ok()], Health::Healthy),
    ] {
        let health = RegistrationHealth::default();
        let uid = Uid::from("p");
        for outcome in &outcomes {
            health.note(&uid, outcome.clone());
        }
        assert_eq!(health.of(&uid), expected, "{outcomes:?}");
        assert_eq!(health.of(&Uid::from("other")), Health::Unknown);
    }
}

// 02/LI11
#[test]
fn trying_out_an_outcome_changes_nothing_and_a_set_verdict_starts_afresh() {
    let (health, uid) = (RegistrationHealth::default(), Uid::from("p"));
    health.note(&uid, failed());
    assert_eq!(health.would_be(&uid, &failed()), Health::Unhealthy);
    assert_eq!(health.of(&uid), Health::Healthy);
    health.set(&uid, Health::Healthy);
    assert_eq!(health.would_be(&uid, &failed()), Health::Healthy, "the failure before was forgotten");
    health.set(&uid, Health::Unhealthy);
    assert_eq!(health.of(&uid), Health::Unhealthy);
    health.set(&uid, Health::Unknown);
    assert_eq!(health.of(&uid), Health::Unknown);
    let shared = &health;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| shared.note(&Uid::from("p"), Outcome::Registered)));
        }
    });
    assert_eq!(health.of(&uid), Health::Healthy);
}

/// A pool whose registration health was judged before, for these generations of pool and class.
fn judged(status: &str, pool_generation: i64, class_generation: i64) -> NodePool {
    pool(|wire| {
        wire["status"] = json!({
            "nodeClassObservedGeneration": class_generation,
            "conditions": [condition(CONDITION, status, pool_generation)],
        });
    })
}

// 01/API-27, 02/NP4
#[test]
fn registration_health_begins_as_unknown_and_returns_to_it_with_every_change() {
    let class = class(Some("True"));
    for pool in [pool(|_| ()), judged("True", 2, 7), judged("False", 3, 6)] {
        let health = RegistrationHealth::default();
        health.set(&Uid::from("a-uid"), Health::Unhealthy);
        let setting = health::verdict(&health, &pool, Some(&class)).unwrap();
        assert_eq!((setting.status, setting.reason.as_str()), (ConditionStatus::Unknown, "AwaitingReconciliation"));
        assert_eq!(health.of(&Uid::from("a-uid")), Health::Unknown);
    }
    let health = RegistrationHealth::default();
    assert_eq!(health::verdict(&health, &pool(|_| ()), None), None, "without a class nothing is said");
}

// 01/API-27, 02/NP4
#[test]
fn a_verdict_stands_and_is_learned_again_after_a_restart() {
    let (class, uid) = (class(Some("True")), Uid::from("a-uid"));
    for (status, expected) in [("True", Health::Healthy), ("False", Health::Unhealthy), ("Unknown", Health::Unknown)] {
        let health = RegistrationHealth::default();
        assert_eq!(health::verdict(&health, &judged(status, 3, 7), Some(&class)), None);
        assert_eq!(health.of(&uid), expected, "{status}");
        if status != "True" {
            assert_eq!(health::verdict(&health, &judged(status, 3, 7), Some(&class)), None, "{status}");
        }
    }
}

// 02/LI8, 02/LI9
#[test]
fn two_failures_turn_health_bad_from_good_and_from_unknown() {
    let (class, uid) = (class(Some("True")), Uid::from("a-uid"));
    for before in ["True", "Unknown"] {
        let health = RegistrationHealth::default();
        let pool = judged(before, 3, 7);
        assert_eq!(health::verdict(&health, &pool, Some(&class)), None);
        health.note(&uid, failed());
        assert_eq!(health::verdict(&health, &pool, Some(&class)), None, "one failure is no verdict");
        health.note(&uid, failed());
        let setting = health::verdict(&health, &pool, Some(&class)).unwrap();
        assert_eq!((setting.status, setting.reason.as_str()), (ConditionStatus::False, "RegistrationFailed"));
        assert_eq!(setting.message, "Failed to register node");
    }
}

// 02/RE12, 02/RE13
#[test]
fn a_success_turns_health_good_once_failures_are_few() {
    let (class, uid) = (class(Some("True")), Uid::from("a-uid"));
    let health = RegistrationHealth::default();
    let pool = judged("False", 3, 7);
    assert_eq!(health::verdict(&health, &pool, Some(&class)), None);
    health.note(&uid, Outcome::Registered);
    assert_eq!(health::verdict(&health, &pool, Some(&class)), None, "two failures of three outcomes");
    health.note(&uid, Outcome::Registered);
    health.note(&uid, Outcome::Registered);
    let setting = health::verdict(&health, &pool, Some(&class)).unwrap();
    assert_eq!((setting.status, setting.reason.as_str()), (ConditionStatus::True, CONDITION));
}
