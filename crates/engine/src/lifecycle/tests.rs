use model::claim::{Status, Verdict};
use model::resources::Resources;
use model::taints::Effect;

use super::*;

fn at(second: i64) -> Instant {
    Instant::from_unix_seconds(second)
}

const MINUTE: i64 = 60;

fn verdict(status: Status) -> Verdict {
    Verdict { status, since: at(0) }
}

fn node(name: &str) -> NodeLife {
    NodeLife {
        name: name.into(),
        is_ready: true,
        is_leaving: false,
        taints: Vec::new(),
        passing_taint: None,
        capacity: Resources::default().with("cpu", 4000),
        allocatable: Resources::default().with("cpu", 4000),
    }
}

/// A claim that we hold and that has come so far.
fn claim(stages: [Status; 3]) -> ClaimLife {
    let [launched, registered, initialized] = stages.map(verdict);
    ClaimLife {
        created: at(0),
        deleted: None,
        is_held: true,
        machine: if launched.is_true() { Machine::Named } else { Machine::Unnamed },
        launched,
        registered,
        initialized,
        grace: None,
        deadline: None,
        expire_after: None,
        startup_taints: Vec::new(),
        requests: Resources::default().with("cpu", 100),
        promised: Resources::default().with("cpu", 4000),
        nodes: Vec::new(),
        checked: Some(at(0)),
    }
}

const NEW: [Status; 3] = [Status::Unknown; 3];
const LAUNCHED: [Status; 3] = [Status::True, Status::Unknown, Status::Unknown];
const REGISTERED: [Status; 3] = [Status::True, Status::True, Status::Unknown];
const READY: [Status; 3] = [Status::True; 3];

fn step(life: &ClaimLife, second: i64) -> Step {
    next_step(life, Patience::default(), at(second))
}

fn waits(life: &ClaimLife, second: i64) -> Waiting {
    match step(life, second) {
        Step::Wait { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_claim_goes_from_wish_to_initialized_node_one_step_after_the_other() {
    let mut life = ClaimLife { is_held: false, ..claim(NEW) };
    assert_eq!(step(&life, 1), Step::Adopt);
    life.is_held = true;
    assert_eq!(step(&life, 1), Step::Launch);
    let mut life = claim(LAUNCHED);
    assert_eq!(waits(&life, 1), Waiting::Registration(Lacking::Node));
    life.nodes.push(node("a"));
    assert_eq!(step(&life, 1), Step::Register { node: "a".into() });
    life.registered = verdict(Status::True);
    assert_eq!(step(&life, 1), Step::Initialize { node: "a".into() });
    life.initialized = verdict(Status::True);
    assert_eq!(step(&life, 1), Step::Settled { until: Some(at(10 * MINUTE)) });
}

fn due(life: &ClaimLife) -> Option<(Instant, Overdue)> {
    limit(life, Patience::default()).map(|limit| (limit.due, limit.overdue))
}

// 02/LI3 02/LI4 02/LI6
#[test]
fn a_launch_has_five_minutes_from_the_change_of_its_condition() {
    let mut life = claim(NEW);
    assert_eq!(due(&life), Some((at(5 * MINUTE), Overdue::Launch)));
    life.launched.since = at(MINUTE);
    assert_eq!(due(&life), Some((at(6 * MINUTE), Overdue::Launch)));
    life.launched.status = Status::False;
    assert_eq!(step(&life, 5 * MINUTE), Step::Wait { why: Waiting::Launch, until: Some(at(6 * MINUTE)) });
    assert_eq!(step(&life, 6 * MINUTE), Step::GiveUp(Overdue::Launch));
}

#[test]
fn a_claim_that_nobody_looked_at_in_time_is_tried_before_it_is_given_up() {
    assert_eq!(step(&claim(NEW), 6 * MINUTE), Step::Launch);
    let life = claim(NEW);
    assert_eq!(step(&life, 15 * MINUTE), Step::GiveUp(Overdue::Launch), "its machine would be given up at once");
    let patient = Patience { launch: Duration::from_secs(3600), ..Patience::default() };
    assert_eq!(next_step(&life, patient, at(59 * MINUTE)), Step::Launch);
}

// 02/LI5
#[test]
fn the_time_for_a_launch_can_be_chosen() {
    let patience = Patience { launch: Duration::from_secs(10), ..Patience::default() };
    assert_eq!(limit(&claim(NEW), patience), Some(Limit { due: at(10), overdue: Overdue::Launch }));
}

// 02/LI1 02/LI2 02/LI7
#[test]
fn a_registration_has_fifteen_minutes_from_the_change_of_its_condition() {
    let mut life = claim(LAUNCHED);
    let until = Some(at(15 * MINUTE));
    assert_eq!(step(&life, 1), Step::Wait { why: Waiting::Registration(Lacking::Node), until });
    assert_eq!(step(&life, 15 * MINUTE), Step::GiveUp(Overdue::Registration));
    life.registered.since = at(MINUTE);
    assert_eq!(waits(&life, 15 * MINUTE), Waiting::Registration(Lacking::Node));
    let registered = claim(REGISTERED);
    assert_eq!(due(&registered), None);
    assert_eq!(waits(&registered, 1000 * MINUTE), Waiting::Initialization(Lacking::Node));
}

#[test]
fn a_node_that_comes_at_the_last_moment_still_registers_but_has_no_more_time_than_others() {
    let life = ClaimLife { nodes: vec![node("a")], ..claim(LAUNCHED) };
    assert_eq!(step(&life, 20 * MINUTE), Step::Register { node: "a".into() });
    assert_eq!(due(&life), Some((at(15 * MINUTE), Overdue::Registration)));
    assert_eq!(due(&ClaimLife { deleted: Some(at(1)), ..life.clone() }), None, "it is ending already");
    assert_eq!(due(&ClaimLife { is_held: false, ..life }), None, "nothing could be tried yet");
}

#[test]
fn two_nodes_of_one_machine_are_a_fault_until_the_timeout() {
    let mut life = ClaimLife { nodes: vec![node("a"), node("b")], ..claim(LAUNCHED) };
    let said = waits(&life, 1).said().unwrap();
    assert_eq!((said.condition, said.status, said.reason), ("Registered", Status::False, "MultipleNodesFound"));
    assert_eq!(said.message, "Invariant violated, matched multiple nodes");
    life.registered = Verdict { status: Status::False, since: at(MINUTE) };
    life.nodes.pop();
    assert!(matches!(step(&life, 2 * MINUTE), Step::Wait { until: Some(until), .. } if until == at(16 * MINUTE)));
    assert_eq!(step(&life, 16 * MINUTE), Step::GiveUp(Overdue::Registration));
}

#[test]
fn a_twin_of_a_registered_node_is_waited_out_and_timeouts_have_names() {
    let life = ClaimLife { nodes: vec![node("a"), node("b")], ..claim(REGISTERED) };
    let said = waits(&life, 1).said().unwrap();
    assert_eq!((said.condition, said.status, said.reason), ("Initialized", Status::Unknown, "NodeNotFound"));
    assert_eq!(
        [Overdue::Launch, Overdue::Registration].map(Overdue::reason),
        ["launch_timeout", "registration_timeout"]
    );
    assert_eq!((Waiting::Launch.said(), Waiting::NodesGone(Vec::new()).said()), (None, None));
}

fn said(change: impl FnOnce(&mut ClaimLife)) -> (&'static str, String) {
    let mut life = ClaimLife { nodes: vec![node("a")], ..claim(REGISTERED) };
    change(&mut life);
    let said = waits(&life, 1).said().unwrap();
    assert_eq!((said.condition, said.status), ("Initialized", Status::Unknown));
    (said.reason, said.message)
}

// 02/IN2
#[test]
fn nothing_is_initialized_before_it_is_registered() {
    let life = ClaimLife { nodes: vec![node("a"), node("b")], ..claim(LAUNCHED) };
    assert!(matches!(waits(&life, 1), Waiting::Registration(_)));
}

// 02/IN3 02/IN4 02/IN6 02/IN8 02/IN10
#[test]
fn what_a_node_still_lacks_is_named_in_the_references_words() {
    assert_eq!(said(|life| life.nodes.clear()), ("NodeNotFound", "Node not registered with cluster".into()));
    assert_eq!(said(|life| life.nodes[0].is_ready = false), ("NodeNotReady", "Node status is NotReady".into()));
    let startup = Taint::new("example.com/agent", "v", Effect::NoSchedule);
    let with_startup = |life: &mut ClaimLife| {
        life.startup_taints.push(startup.clone());
        life.nodes[0].taints.push(Taint::new("example.com/agent", "other", Effect::NoSchedule));
    };
    let text = "StartupTaint \"example.com/agent=v:NoSchedule\" still exists".to_owned();
    assert_eq!(said(with_startup), ("StartupTaintsExist", text));
    let passing = Taint::new("readiness.k8s.io/network", "", Effect::NoSchedule);
    let text = "KnownEphemeralTaint \"readiness.k8s.io/network:NoSchedule\" still exists".to_owned();
    assert_eq!(said(|life| life.nodes[0].passing_taint = Some(passing)), ("KnownEphemeralTaintsExist", text));
    let gpu = |life: &mut ClaimLife| life.requests = life.requests.clone().with("nvidia.com/gpu", 1);
    let text = "Resource \"nvidia.com/gpu\" was requested but not registered".to_owned();
    assert_eq!(said(gpu), ("ResourceNotRegistered", text));
}

// 02/IN5 02/IN7 02/IN9
#[test]
fn a_node_is_initialized_once_nothing_is_lacking() {
    let mut life = ClaimLife { nodes: vec![node("a")], ..claim(REGISTERED) };
    life.requests = life.requests.with("nvidia.com/gpu", 4);
    life.nodes[0].allocatable.set(Resource::from_name("nvidia.com/gpu"), 1);
    life.startup_taints = vec![Taint::new("example.com/agent", "", Effect::NoSchedule)];
    life.nodes[0].taints = vec![Taint::new("example.com/agent", "", Effect::NoExecute)];
    assert_eq!(step(&life, 1), Step::Initialize { node: "a".into() });
}

// 02/NC1
#[test]
fn a_claim_expires_by_its_own_age_and_is_looked_at_when_that_is_due() {
    let mut life = ClaimLife { expire_after: Some(Duration::from_secs(100)), ..claim(READY) };
    assert_eq!(step(&life, 99), Step::Settled { until: Some(at(100)) });
    assert_eq!(step(&life, 100), Step::Expire);
    life.deleted = Some(at(100));
    assert_ne!(step(&life, 101), Step::Expire, "once is enough");
    let never = claim(READY);
    assert_eq!(step(&never, 1 << 40), Step::Settled { until: None });
    let endless = ClaimLife { expire_after: Some(Duration::MAX), ..claim(READY) };
    assert_eq!(step(&endless, 1 << 40), Step::Settled { until: None });
    let waiting = ClaimLife { expire_after: Some(Duration::from_secs(100)), ..claim(LAUNCHED) };
    assert!(matches!(step(&waiting, 1), Step::Wait { until: Some(until), .. } if until == at(100)));
}

// 02/FI1 02/FI6 02/FI7
#[test]
fn an_ending_claim_lets_its_nodes_go_first_then_its_machine_then_itself() {
    let mut life = ClaimLife { deleted: Some(at(5)), nodes: vec![node("a"), node("b")], ..claim(READY) };
    assert_eq!(step(&life, 6), Step::DeleteNodes(vec!["a".into(), "b".into()]));
    life.nodes[0].is_leaving = true;
    assert_eq!(step(&life, 6), Step::DeleteNodes(vec!["b".into()]));
    life.nodes[1].is_leaving = true;
    assert_eq!(waits(&life, 6), Waiting::NodesGone(vec!["a".into(), "b".into()]));
    life.nodes.clear();
    assert_eq!(step(&life, 6), Step::Terminate);
    life.machine = Machine::Gone;
    assert_eq!(step(&life, 6), Step::Release);
    life.is_held = false;
    assert_eq!(step(&life, 6), Step::Gone);
}

// 02/FI10
#[test]
fn nodes_of_a_claim_that_never_registered_are_left_alone() {
    let life = ClaimLife { deleted: Some(at(5)), nodes: vec![node("a")], ..claim(LAUNCHED) };
    assert_eq!(step(&life, 6), Step::Terminate);
}

// 02/FI11 02/FI12 02/FI13
#[test]
fn the_deadline_is_the_deletion_plus_the_grace_unless_there_is_one() {
    let mut life = ClaimLife { deleted: Some(at(5)), ..claim(READY) };
    assert_eq!(step(&life, 6), Step::Terminate);
    life.grace = Some(Duration::from_secs(30));
    assert_eq!(step(&life, 6), Step::SetDeadline(at(35)));
    life.deadline = Some(at(7));
    assert_eq!(step(&life, 6), Step::Terminate);
}

// 02/NC7
#[test]
fn a_node_much_smaller_than_promised_is_found_out_every_ten_minutes() {
    let mut life = ClaimLife { nodes: vec![node("a")], checked: None, ..claim(READY) };
    assert_eq!(step(&life, 1), Step::Check { node: "a".into() });
    life.checked = Some(at(1));
    assert_eq!(step(&life, 10 * MINUTE), Step::Settled { until: Some(at(10 * MINUTE + 1)) });
    assert_eq!(step(&life, 10 * MINUTE + 1), Step::Check { node: "a".into() });
    assert_eq!(shortfalls(&life), []);
    life.nodes[0].capacity.set(Resource::Cpu, 3600);
    assert_eq!(shortfalls(&life), [], "nine tenths are enough");
    life.nodes[0].capacity.set(Resource::Cpu, 2000);
    let found = shortfalls(&life);
    assert_eq!(found, [Shortfall { resource: Resource::Cpu, promised: 4000, found: 2000 }]);
    assert_eq!(found[0].per_mille(), 500);
    let per_mille = |promised, found| Shortfall { resource: Resource::Cpu, promised, found }.per_mille();
    assert_eq!([per_mille(3, 1), per_mille(3, 2), per_mille(2000, 1), per_mille(0, 7)], [333, 667, 1, 7000]);
    life.requests = Resources::default().with("memory", 1);
    assert_eq!(shortfalls(&life), [], "nobody asked for it, or nothing was promised");
}

// 02/NC3 02/NC4 02/NC5 02/NC6
#[test]
fn a_claim_is_lost_when_cloud_and_kubelet_both_are_silent() {
    let lost = ClaimLife { nodes: vec![NodeLife { is_ready: false, ..node("a") }], ..claim(READY) };
    assert!(is_lost(&lost, false));
    assert!(is_lost(&claim(REGISTERED), false), "its Node may be gone as well");
    assert!(!is_lost(&lost, true), "the machine runs");
    assert!(!is_lost(&ClaimLife { nodes: vec![node("a")], ..claim(READY) }, false), "the kubelet reports");
    assert!(!is_lost(&claim(LAUNCHED), false), "the timeouts look after it");
    assert!(!is_lost(&ClaimLife { machine: Machine::Gone, ..lost.clone() }, false), "that is known already");
    assert!(!is_lost(&ClaimLife { deleted: Some(at(1)), ..lost }, false), "it is ending already");
}

#[test]
fn a_machine_without_a_claim_is_an_orphan_once_it_is_not_young() {
    let machine = |id, claim: &str, second| Owned { id, claim: claim.into(), launched: Some(at(second)) };
    let undated = Owned { id: 5, claim: "gone".into(), launched: None };
    let machines =
        [machine(1, "known", 0), machine(2, "gone", 0), machine(3, "gone", 80), machine(4, "gone", 70), undated];
    let claims = ["known".into()].into();
    let found: Vec<i32> = orphans(&machines, &claims, at(100)).map(|machine| machine.id).collect();
    assert_eq!(found, [2, 4, 5]);
}

/// Spec 02, flaw 21: there a node that never becomes ready for pods lives until it expires.
#[test]
fn a_registered_node_has_its_time_to_become_ready_for_pods() {
    let hour = Duration::from_secs(3600);
    let patient = Patience { initialization: Some(hour), ..Patience::default() };
    let mut life = ClaimLife { nodes: vec![NodeLife { is_ready: false, ..node("a") }], ..claim(REGISTERED) };
    life.registered.since = at(10 * MINUTE);
    let waiting = |until: i64| Step::Wait { why: Waiting::Initialization(Lacking::Readiness), until: Some(at(until)) };
    assert_eq!(next_step(&life, patient, at(69 * MINUTE)), waiting(70 * MINUTE));
    assert_eq!(next_step(&life, patient, at(70 * MINUTE)), Step::GiveUp(Overdue::Initialization));
    assert_eq!(Overdue::Initialization.reason(), "initialization_timeout");
    let sooner = ClaimLife { expire_after: Some(hour), ..life.clone() };
    assert_eq!(next_step(&sooner, patient, at(59 * MINUTE)), waiting(60 * MINUTE));
    let never = Patience { initialization: None, ..patient };
    assert!(matches!(next_step(&life, never, at(1000 * MINUTE)), Step::Wait { until: None, .. }));
    // Whoever looks late finds it ready, and does not ask how long it took.
    life.nodes = vec![node("a")];
    assert_eq!(next_step(&life, patient, at(1000 * MINUTE)), Step::Initialize { node: "a".into() });
    life.initialized.status = Status::True;
    life.nodes[0].is_ready = false;
    assert!(matches!(next_step(&life, patient, at(1000 * MINUTE)), Step::Check { .. }), "once is enough");
}

/// Spec 02, flaw 21.
#[test]
fn each_generation_of_nodes_that_never_start_has_twice_the_time_of_the_last() {
    let hour = Duration::from_secs(3600);
    let hours = |setbacks: &Setbacks, registered: i64| setbacks.time_for(at(registered), hour).as_secs() / 3600;
    let mut setbacks = Setbacks::default();
    assert_eq!(hours(&setbacks, 0), 1);
    // Three that registered about the same time are one generation.
    for registered in [0, 5, 9] {
        setbacks.note(at(registered), at(3600 + registered));
    }
    assert_eq!([0, 9, 3600, 3601].map(|registered| hours(&setbacks, registered)), [1, 1, 1, 2]);
    setbacks.note(at(4000), at(12_000));
    assert_eq!([9, 4000, 12_000, 12_001].map(|registered| hours(&setbacks, registered)), [1, 2, 2, 4]);
    for day in 1..100 {
        setbacks.note(at(day * 86_400), at(day * 86_400 + 1));
    }
    assert_eq!(hours(&setbacks, 200 * 86_400), 64);
}
