use std::collections::BTreeSet;

use model::pod::{DoNotDisrupt, Pod};
use model::resources::Resources;
use model::taints::{Effect, Match, Toleration};

use super::*;

fn at(second: i64) -> Instant {
    Instant::from_unix_seconds(second)
}

const GRACE: Duration = Duration::from_secs(30);

fn guest(name: &str) -> Guest {
    let pod =
        Pod { node: Some("node".into()), is_unschedulable: false, ..Pod::pending("d", name, Resources::default()) };
    Guest { pod: Arc::new(pod), ends_by: None, grace: Some(GRACE), is_critical: false, volumes: BTreeSet::new() }
}

fn with(mut guest: Guest, change: impl FnOnce(&mut Pod)) -> Guest {
    change(Arc::make_mut(&mut guest.pod));
    guest
}

fn daemon(name: &str) -> Guest {
    with(guest(name), |pod| pod.owner = Owner::DaemonSet)
}

fn critical(guest: Guest) -> Guest {
    Guest { is_critical: true, ..guest }
}

fn ending(guest: Guest, by: i64) -> Guest {
    Guest { ends_by: Some(at(by)), ..with(guest, |pod| pod.life = Life::Terminating) }
}

fn protected(guest: Guest, until: Option<i64>) -> Guest {
    let protection = until.map_or(DoNotDisrupt::Always, |until| DoNotDisrupt::Until(at(until)));
    with(guest, |pod| pod.do_not_disrupt = protection)
}

fn tolerating(guest: Guest, key: &str, matches: Match) -> Guest {
    let toleration = Toleration { key: Some(key.into()), matches, effect: Some(Effect::NoSchedule) };
    with(guest, |pod| pod.wants.tolerations.push(toleration))
}

/// Who is ordered to go and who is waited for, at this second with this deadline.
fn check(guests: &[Guest], deadline: Option<i64>, second: i64, orders: &[&str], waiting: usize) {
    let drain = next_evictions(guests, deadline.map(at), at(second));
    let names: Vec<&str> = drain.orders.iter().map(|order| &*order.pod.name).collect();
    assert_eq!((&*names, drain.waiting.len()), (orders, waiting), "{drain:?}");
}

// 02/TE15 02/TE16 02/TE17
#[test]
fn tiers_leave_one_after_the_other_and_wait_until_the_one_before_is_gone() {
    let mut guests =
        vec![critical(daemon("d")), critical(guest("c")), daemon("b"), guest("a"), ending(guest("ending"), 100)];
    check(&guests, None, 50, &["a", "ending"], 5);
    guests.remove(3);
    check(&guests, None, 50, &["ending"], 4);
    guests.pop();
    check(&guests, None, 50, &["b"], 3);
    guests.pop();
    check(&guests, None, 50, &["c"], 2);
    guests.pop();
    check(&guests, None, 50, &["d"], 1);
    check(&[], None, 50, &[], 0);
}

// 02/TE8 02/TE9 02/TE10 02/TE11 02/TE12 02/TE13
#[test]
fn who_puts_up_with_the_disruption_has_ended_or_is_the_nodes_own_is_not_waited_for() {
    let disrupted = "karpenter.sh/disrupted";
    check(&[tolerating(guest("a"), disrupted, Match::Equal("".into()))], None, 0, &[], 0);
    check(&[tolerating(guest("a"), disrupted, Match::Any)], None, 0, &[], 0);
    check(&[tolerating(guest("a"), "node.kubernetes.io/unschedulable", Match::Any)], None, 0, &["a"], 1);
    check(&[with(guest("a"), |pod| pod.life = Life::Terminal)], None, 0, &[], 0);
    check(&[with(guest("a"), |pod| pod.owner = Owner::Node)], None, 0, &[], 0);
    check(&[guest("without an owner")], None, 0, &["without an owner"], 1);
}

// 02/TE20
#[test]
fn a_pod_that_does_not_end_is_given_up_after_a_minute() {
    let stuck = [ending(guest("a"), 100)];
    check(&stuck, None, 159, &["a"], 1);
    check(&stuck, None, 160, &[], 0);
    assert_eq!(next_evictions(&stuck, None, at(110)).until, Some(at(160)));
}

// 02/TE22 02/TE23 02/TE25
#[test]
fn a_pod_is_deleted_in_time_for_its_grace_and_no_earlier_whatever_its_tier() {
    let guests = [critical(guest("late")), protected(guest("early"), None)];
    check(&guests, Some(100), 69, &["early"], 2);
    assert_eq!(next_evictions(&guests, Some(at(100)), at(10)).until, Some(at(70)));
    check(&guests, Some(100), 70, &["late", "early"], 2);
    let slow = Guest { grace: Some(Duration::from_secs(1000)), ..critical(guest("slow")) };
    check(&[slow, guest("a")], Some(100), 1, &["slow", "a"], 2);
    let endless = Guest { grace: None, ..critical(guest("endless")) };
    check(&[endless.clone(), guest("a")], Some(100), 69, &["a"], 2);
    check(&[endless, guest("a")], Some(100), 200, &["a", "endless"], 2);
}

#[test]
fn everybody_who_is_waited_for_has_a_reason() {
    let guests = [
        guest("queued"),
        protected(guest("protected"), Some(90)),
        ending(guest("ending"), 60),
        daemon("later"),
        Guest { grace: Some(Duration::from_secs(100)), ..guest("overdue") },
    ];
    let drain = next_evictions(&guests, Some(at(110)), at(50));
    let found: Vec<(&str, Holdup)> = drain.waiting.iter().map(|(pod, holdup)| (&*pod.name, *holdup)).collect();
    let expected = [
        ("queued", Holdup::Queued),
        ("protected", Holdup::Protected(Some(at(90)))),
        ("ending", Holdup::Ending),
        ("later", Holdup::LaterTier),
        ("overdue", Holdup::Overdue),
    ];
    assert_eq!(found, expected);
    assert_eq!(drain.until, Some(at(80)), "then everybody is overdue");
    let alone = next_evictions(&[protected(guest("protected"), Some(90))], None, at(90));
    assert_eq!(alone.until, None, "what is due now is not to come");
}

fn attempt(guest: &Guest, deadline: Option<i64>, second: i64) -> Attempt {
    next_attempt(guest, deadline.map(at), at(second))
}

// 02/TE24 02/EV13
#[test]
fn grace_is_cut_to_what_is_left_and_never_below_a_second() {
    let delete = |seconds| Attempt::Delete { grace: Duration::from_secs(seconds) };
    assert_eq!(attempt(&ending(guest("a"), 200), Some(100), 60), delete(40));
    assert_eq!(attempt(&ending(guest("a"), 90), Some(100), 60), Attempt::Forget, "it will be gone by then");
    assert_eq!(attempt(&ending(guest("a"), 100), Some(100), 60), Attempt::Forget, "just in time");
    assert_eq!(attempt(&guest("a"), Some(100), 80), delete(20));
    assert_eq!(attempt(&guest("a"), Some(100), 100), delete(1));
    assert_eq!(attempt(&guest("a"), Some(100), 1000), delete(1));
    assert_eq!(attempt(&ending(guest("a"), 1001), Some(100), 1000), Attempt::Forget, "there is nothing left to cut");
}

#[test]
fn before_that_the_pods_own_wish_counts() {
    assert_eq!(attempt(&guest("a"), None, 0), Attempt::Evict);
    assert_eq!(attempt(&guest("a"), Some(100), 69), Attempt::Evict);
    assert_eq!(attempt(&protected(guest("a"), None), None, 0), Attempt::Hold { until: None });
    assert_eq!(attempt(&protected(guest("a"), None), Some(100), 0), Attempt::Hold { until: Some(at(70)) });
    assert_eq!(attempt(&protected(guest("a"), Some(50)), Some(100), 0), Attempt::Hold { until: Some(at(50)) });
    assert_eq!(attempt(&protected(guest("a"), Some(50)), Some(100), 50), Attempt::Evict);
    assert_eq!(attempt(&with(guest("a"), |pod| pod.life = Life::Terminal), Some(1), 60), Attempt::Forget);
    let tolerant = tolerating(guest("a"), "karpenter.sh/disrupted", Match::Any);
    assert_eq!(attempt(&tolerant, Some(1), 60), Attempt::Forget);
    assert_eq!(attempt(&with(guest("a"), |pod| pod.owner = Owner::Node), Some(1), 60), Attempt::Forget);
}

fn leaving(guests: Vec<Guest>) -> Leaving {
    let (unread, attached, refused) = (Vec::new(), Vec::new(), BTreeMap::new());
    Leaving { guests, unread, attached, refused, deadline: None, draining_since: Some(at(10)) }
}

// 02/TE26
#[test]
fn a_drain_takes_five_seconds_at_least_if_a_claim_says_since_when() {
    let mut node = leaving(vec![]);
    assert_eq!(next_step(&node, at(14)), NodeStep::Linger { until: at(15) });
    assert_eq!(next_step(&node, at(15)), NodeStep::Terminate { volumes: Volumes::Detached });
    node.draining_since = None;
    assert_eq!(next_step(&node, at(10)), NodeStep::Terminate { volumes: Volumes::Detached });
    node.guests.push(guest("a"));
    assert!(matches!(next_step(&node, at(100)), NodeStep::Drain(_)));
}

fn attached(name: &str, volume: Option<&str>) -> Attached {
    Attached { name: name.into(), volume: volume.map(Into::into) }
}

// 02/TE27 02/TE28 02/TE29
#[test]
fn volumes_are_awaited_until_the_deadline_unless_their_pod_stays() {
    let mut stays = with(guest("mirror"), |pod| pod.owner = Owner::Node);
    stays.volumes.insert("held".into());
    let mut node = leaving(vec![stays]);
    node.attached = vec![attached("a", Some("held")), attached("b", Some("free")), attached("c", None)];
    node.deadline = Some(at(100));
    let wait = NodeStep::AwaitVolumes { attachments: vec!["b".into()], until: Some(at(100)) };
    assert_eq!(next_step(&node, at(50)), wait);
    assert_eq!(next_step(&node, at(100)), NodeStep::Terminate { volumes: Volumes::GivenUp });
    node.attached.remove(1);
    assert_eq!(next_step(&node, at(50)), NodeStep::Terminate { volumes: Volumes::Detached });
}

#[test]
fn a_pod_that_nobody_can_read_is_waited_for_until_the_deadline() {
    let mut node = leaving(vec![]);
    let odd = PodName::new("d", "odd");
    node.unread.push(odd.clone());
    let waiting = vec![(odd, Holdup::Unread)];
    let drain = NodeStep::Drain(Drain { waiting: waiting.clone(), ..Drain::default() });
    assert_eq!(next_step(&node, at(1000)), drain);
    node.deadline = Some(at(100));
    assert!(matches!(next_step(&node, at(99)), NodeStep::Drain(drain) if drain.waiting == waiting));
    assert_eq!(next_step(&node, at(100)), NodeStep::Terminate { volumes: Volumes::Detached });
}

/// What holds up this node at second 50, by its sort and in words.
fn held(node: &Leaving) -> Option<(Cause, String)> {
    blocker(&next_step(node, at(50))).map(|blocker| (blocker.what.cause(), blocker.to_string()))
}

fn said(cause: Cause, text: &str) -> Option<(Cause, String)> {
    Some((cause, text.to_owned()))
}

// Spec 02, flaw 34
#[test]
fn whoever_holds_up_a_drain_is_named() {
    let one = |guest: Guest| held(&leaving(vec![guest]));
    assert_eq!(one(guest("a")), None, "it will go");
    assert_eq!(one(ending(guest("a"), 50)), None, "it goes");
    assert_eq!(one(ending(guest("a"), 49)), said(Cause::StuckPod, "pod d/a should have ended by now"));
    let annotated = "pod d/a has the annotation karpenter.sh/do-not-disrupt";
    assert_eq!(one(protected(guest("a"), None)), said(Cause::DoNotDisrupt, annotated));
    let until = format!("{annotated} until 1970-01-01T00:01:40Z");
    assert_eq!(one(protected(guest("a"), Some(100))), said(Cause::DoNotDisrupt, &until));
    let refused = |by: Refusal| {
        let mut node = leaving(vec![guest("a"), critical(guest("z"))]);
        node.refused.insert(order(&node.guests[0]), by);
        held(&node)
    };
    assert_eq!(refused(Refusal::Budget), said(Cause::PodBudget, "a PodDisruptionBudget keeps pod d/a"));
    let several = "pod d/a has more than one PodDisruptionBudget, so it cannot be evicted";
    assert_eq!(refused(Refusal::SeveralBudgets), said(Cause::PodBudget, several));
    let unread = Leaving { unread: vec![PodName::new("d", "odd")], ..leaving(vec![]) };
    let text = "pod d/odd cannot be read, so nobody knows whether it may go";
    assert_eq!(held(&unread), said(Cause::UnreadablePod, text));
    let attached = |name: &str| Attached { name: name.into(), volume: Some("pv".into()) };
    let volumes = Leaving { attached: vec![attached("va-2"), attached("va-1")], ..leaving(vec![]) };
    let text = "VolumeAttachment va-1 is still there, and 1 other(s)";
    assert_eq!(held(&volumes), said(Cause::Volume, text));
    assert_eq!(held(&leaving(vec![])), None);
}

// Spec 02, flaw 34
#[test]
fn of_several_obstacles_the_one_that_only_a_person_removes_is_named() {
    let node = leaving(vec![ending(guest("a"), 40), protected(guest("b"), None), guest("c")]);
    let text = "pod d/b has the annotation karpenter.sh/do-not-disrupt, and 1 other(s)";
    assert_eq!(held(&node), said(Cause::DoNotDisrupt, text));
    // At the deadline nobody asks any more.
    let late = Leaving { deadline: Some(at(60)), ..leaving(vec![protected(guest("b"), None)]) };
    assert_eq!(held(&late), None);
    let labels: std::collections::BTreeSet<_> = Cause::ALL.map(|cause| (cause.label(), cause.reason())).into();
    assert_eq!(labels.len(), Cause::ALL.len());
}

// Spec 02, flaw 34
#[test]
fn a_pod_of_the_same_name_has_not_been_refused() {
    let mut node = leaving(vec![guest("a")]);
    node.refused.insert(Order { uid: "of-another".into(), ..order(&node.guests[0]) }, Refusal::Budget);
    assert_eq!(held(&node), None);
}
