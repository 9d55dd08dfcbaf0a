use super::ConditionStatus::{False, True, Unknown};
use super::*;

const CREATED: i64 = 1_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn metadata(generation: i64) -> ObjectMeta {
    ObjectMeta { generation: Some(generation), creation_timestamp: Some(Time(at(CREATED))), ..ObjectMeta::default() }
}

/// The list as people see it: type, status, reason, seconds of the last transition, observed generation.
fn shown(list: &[Condition]) -> Vec<String> {
    list.iter()
        .map(|c| {
            let generation = c.observed_generation.unwrap_or(-1);
            format!(
                "{} {} {} t{} g{generation}",
                c.type_,
                c.status.as_str(),
                c.reason,
                c.last_transition_time.0.as_second()
            )
        })
        .collect()
}

fn with<'a>(meta: &ObjectMeta, list: &'a mut Vec<Condition>, now: i64) -> Conditions<'a> {
    Conditions::open(ConditionTypes::NODE_CLAIM, meta, list, at(now))
}

#[test]
fn a_fresh_object_waits_for_its_dependents_since_its_creation() {
    let mut list = Vec::new();
    with(&metadata(1), &mut list, 2_000);
    assert_eq!(
        shown(&list),
        [
            "Launched Unknown AwaitingReconciliation t1000 g1",
            "Registered Unknown AwaitingReconciliation t1000 g1",
            "Initialized Unknown AwaitingReconciliation t1000 g1",
            "Ready Unknown ReconcilingDependents t1000 g1",
        ]
    );
    assert_eq!(list[0].message, "object is awaiting reconciliation");
    assert!(list[3].message.contains("Launched=Unknown"));
}

#[test]
fn ready_follows_when_the_last_dependent_turns_true() {
    let mut list = Vec::new();
    let mut conditions = with(&metadata(1), &mut list, 2_000);
    assert!(conditions.set_true("Launched"));
    assert!(conditions.set_true("Registered"));
    assert!(!conditions.is_true(READY));
    assert!(conditions.set_true("Initialized"));
    assert_eq!(shown(&list)[3], "Ready True Ready t2000 g1");
    assert_eq!(list[3].message, "");
}

#[test]
fn a_failed_dependent_fails_the_root_and_the_newest_is_named_first() {
    let mut list = Vec::new();
    with(&metadata(1), &mut list, 2_000).set("Launched", False, "LaunchFailed", "no capacity");
    assert_eq!(shown(&list)[3], "Ready False UnhealthyDependents t2000 g1");
    assert_eq!(list[3].message, "Launched=False, Registered=Unknown, Initialized=Unknown");
}

#[test]
fn a_dependent_of_an_older_generation_counts_as_not_seen_yet() {
    let mut list = Vec::new();
    let mut conditions = with(&metadata(1), &mut list, 2_000);
    for type_ in ["Launched", "Registered", "Initialized"] {
        conditions.set_true(type_);
    }
    let mut conditions = with(&metadata(2), &mut list, 3_000);
    conditions.set_true("Launched");
    assert_eq!(shown(&list)[3], "Ready Unknown ReconcilingDependents t3000 g2");
    assert_eq!(list[3].message, "Registered=True, Initialized=True");

    let mut list = Vec::new();
    with(&metadata(1), &mut list, 2_000).set("Launched", False, "LaunchFailed", "");
    with(&metadata(2), &mut list, 3_000).set_true("Registered");
    assert_eq!(list[3].status, Unknown, "a failure of an old generation is no failure yet");
}

#[test]
fn the_transition_time_moves_only_with_the_status() {
    let mut list = Vec::new();
    with(&metadata(1), &mut list, 2_000).set("Launched", Unknown, "LaunchFailed", "once");
    with(&metadata(1), &mut list, 3_000).set("Launched", Unknown, "LaunchFailed", "twice");
    assert!(shown(&list).contains(&"Launched Unknown LaunchFailed t1000 g1".to_owned()));
    with(&metadata(1), &mut list, 4_000).set("Launched", True, "Launched", "");
    assert!(shown(&list).contains(&"Launched True Launched t4000 g1".to_owned()));
}

#[test]
fn setting_the_same_again_changes_nothing() {
    let mut list = Vec::new();
    assert!(with(&metadata(1), &mut list, 2_000).set_true("Drifted"));
    let before = list.clone();
    assert!(!with(&metadata(1), &mut list, 9_000).set_true("Drifted"));
    assert_eq!(list, before);
}

#[test]
fn an_independent_condition_starts_now_and_leaves_the_root_alone() {
    let mut list = Vec::new();
    let mut conditions = with(&metadata(1), &mut list, 2_000);
    let root = conditions.get(READY).cloned();
    conditions.set("Drifted", True, "NodePoolDrifted", "");
    assert_eq!(conditions.get(READY).cloned(), root);
    assert_eq!(conditions.clear("Drifted"), Ok(true));
    assert_eq!(conditions.clear("Drifted"), Ok(false));
    assert_eq!(conditions.get(READY).cloned(), root);
    assert!(!shown(&list).iter().any(|line| line.starts_with("Drifted")));
}

#[test]
fn what_ready_depends_on_cannot_be_cleared() {
    let mut list = Vec::new();
    let mut conditions = with(&metadata(1), &mut list, 2_000);
    for type_ in ["Launched", READY] {
        assert_eq!(conditions.clear(type_), Err(ConditionError(type_.to_owned())));
    }
    assert_eq!(list.len(), 4);
}

#[test]
fn while_deleting_every_set_brings_all_conditions_to_the_current_generation() {
    let mut list = Vec::new();
    with(&metadata(1), &mut list, 2_000).set_true("Launched");
    let deleting = ObjectMeta { deletion_timestamp: Some(Time(at(2_500))), ..metadata(2) };
    with(&deleting, &mut list, 3_000).set("Drained", Unknown, "Draining", "");
    assert!(list.iter().all(|c| c.observed_generation == Some(2)), "{:?}", shown(&list));

    let mut list = Vec::new();
    with(&metadata(1), &mut list, 2_000).set_true("Launched");
    with(&metadata(2), &mut list, 3_000).set("Drained", Unknown, "Draining", "");
    assert!(shown(&list).contains(&"Launched True Launched t2000 g1".to_owned()));
}

#[test]
fn conditions_stand_oldest_first_and_the_root_last() {
    let mut list = Vec::new();
    with(&metadata(1), &mut list, 2_000).set_true("Drifted");
    with(&metadata(1), &mut list, 3_000).set_true("Launched");
    with(&metadata(1), &mut list, 3_500).set_true("Consolidatable");
    let order: Vec<&str> = list.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(order, ["Registered", "Initialized", "Drifted", "Launched", "Consolidatable", "Ready"]);
}

#[test]
fn a_claim_condition_without_reason_or_message_still_decodes() {
    let wire = r#"{"type":"Launched","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z"}"#;
    let condition: Condition = serde_json::from_str(wire).unwrap();
    assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("", ""));
}

#[test]
fn a_message_is_cut_to_what_the_schema_allows() {
    let mut list = Vec::new();
    with(&metadata(1), &mut list, 2_000).set("Launched", Unknown, "LaunchFailed", &"\u{e9}".repeat(20_000));
    let launched = list.iter().find(|condition| condition.type_ == "Launched").unwrap();
    assert_eq!(launched.message.len(), 32768);
    assert!(launched.message.chars().all(|c| c == '\u{e9}'));
}
