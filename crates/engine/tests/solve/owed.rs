//! What a plan leaves as it found it, and what it counts: nodes, neighbours and reservations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::instance::{InstanceType, Offering, Reservation};
use model::labels::CAPACITY_TYPE;
use model::node::Progress;
use model::pod::{Life, Weighted};
use model::pool::Pool;
use model::price::Price;
use model::resources::Resources;
use model::snapshot::Snapshot;
use model::taints::{Effect, Match, Taint, Toleration};
use model::topology::Policy;
use model::why::Obstacle;
use proptest::prelude::*;

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const APP: [(&str, &str); 1] = [("app", "x")];

/// A type with reservations, each in a zone, with so many machines left.
fn reserved(shape: Shape, reservations: &[(&str, &str, u32)]) -> Arc<InstanceType> {
    changed(shape, |built| {
        built.requirements.remove(CAPACITY_TYPE);
        built.requirements.add(CAPACITY_TYPE, req("In spot on-demand reserved"));
        built.offerings.extend(reservations.iter().map(|(id, zone, left)| Offering {
            requirements: reqs(&[(CAPACITY_TYPE, "In reserved"), (ZONE, &format!("In {zone}"))]),
            price: Price::from_pico(1),
            is_available: true,
            reservation: Some(Reservation { id: (*id).into(), left: *left }),
            capacity_override: None,
            overhead_override: None,
            has_price_overlay: false,
        }));
    })
}

/// A copy that shares nothing with the original.
fn deep_copy(snapshot: &Snapshot) -> Snapshot {
    let pool = |pool: &Pool| {
        let instance_types = pool.instance_types.iter().map(|offered| Arc::new(InstanceType::clone(offered)));
        Arc::new(Pool { instance_types: instance_types.collect(), ..pool.clone() })
    };
    let mut copy = snapshot.clone();
    copy.pools = snapshot.pools.iter().map(|(name, known)| (name.clone(), pool(known))).collect();
    copy
}

// 01/PCK-07
#[test]
fn planning_leaves_the_catalogue_as_it_was_and_keeps_none_of_it() {
    let odd = changed(shape("odd").with("hugepages-2Mi", GI), |built| {
        built.offerings[0].capacity_override = Some(Resources::default().with("cpu", 6000));
        built.offerings[1].overhead_override = Some(Resources::default().with("cpu", 1000));
        built.offerings[2].is_available = false;
    });
    let types = vec![odd, reserved(shape("paid-for"), &[("r-1", "test-zone-1", 1)]), shape("plain").build()];
    let world = world(vec![pool("p").types(types.clone()).limit("cpu", 30_000), pool("q").types(types.clone())])
        .daemon("d", |daemon| daemon.requests = daemon.requests.clone().with("cpu", 500))
        .node("there", &[], 2000);
    let mixed = || {
        let mut all = pods("a", 20, |sketch| sketch.asks("cpu", 1300).asks("memory", 300 * MI));
        all.extend(pods("s", 5, |sketch| sketch.label("app", "x").spread(spread_over(ZONE, 1, &APP))));
        all.push(pod("too-large").asks("cpu", 100_000));
        all
    };
    let before = deep_copy(&world.snapshot);
    let holders: Vec<usize> = types.iter().map(Arc::strong_count).collect();
    let first = world.solve(mixed());
    assert!(first.placed() > 0 && !first.plan.unplaced.is_empty());
    assert_eq!(world.snapshot, before);
    assert_eq!(types.iter().map(Arc::strong_count).collect::<Vec<_>>(), holders);
    assert_eq!(world.solve(mixed()).plan, first.plan, "what the first plan used up is there again for the second");
}

// 01/EXN-12
#[test]
fn a_node_counts_as_one_node_of_its_pool_at_every_stage_until_it_leaves() {
    for (stage, progress) in [
        ("unlaunched", Progress::Unlaunched { types: series(1), requirements: reqs(&[]) }),
        ("launched", Progress::Starting { has_node: false }),
        ("joined", Progress::Starting { has_node: true }),
        ("initialized", Progress::Initialized),
    ] {
        let claims_with = |nodes: i64, is_leaving: bool| {
            let limited = pool("p").types(vec![shape("only").build()]).limit("nodes", nodes);
            let world = world(vec![limited]).node("n", &[], 0).change_node("n", |node| {
                node.pool = Some("p".into());
                node.capacity = Resources::default();
                node.progress = progress.clone();
                node.is_leaving = is_leaving;
            });
            world.judged(pods("a", 2, |sketch| sketch.asks("cpu", 2500))).claims()
        };
        assert_eq!([1, 2, 3].map(|nodes| claims_with(nodes, false)), [0, 1, 2], "{stage}");
        assert_eq!(claims_with(1, true), 1, "{stage}");
    }
    let foreign = world(vec![pool("p").limit("nodes", 1)]).node("theirs", &[], 0);
    assert_eq!(foreign.judged(vec![pod("a").asks("cpu", 2500)]).claims(), 1, "nodes of others count for no pool");
}

// 01/TSC-21
#[test]
fn pools_behind_different_taints_share_a_domain_and_each_counts_its_own_pods() {
    let tainted = |name: &str, parts: &str| pool(name).requires("part", parts).taint(name, Effect::NoSchedule);
    let world = world(vec![tainted("one", "In shared left"), tainted("two", "In shared right")]);
    let of = |name: &'static str, count: usize| {
        pods(name, count, move |sketch| {
            let mut spread = spread_over("part", 1, &APP);
            spread.node_taints = Policy::Honor;
            sketch.asks("cpu", 10).label("app", "x").tolerates(name).spread(spread)
        })
    };
    let answer = world.judged(of("one", 2).into_iter().chain(of("two", 4)).collect());
    assert_eq!(answer.placed(), 6);
    assert_eq!((answer.skew("one", "part"), answer.skew("two", "part")), (vec![1, 1], vec![2, 2]));
    assert_eq!(answer.skew("", "part"), [1, 2, 3]);
    let crowded = world
        .node("theirs", &[("part", "shared")], 0)
        .change_node("theirs", |node| node.taints = vec![Taint::new("two", "", Effect::NoSchedule)])
        .running("theirs", pods("old", 5, |sketch| sketch.label("app", "x")));
    let answer = crowded.judged(of("one", 2));
    assert_eq!(answer.skew("one", "part"), [1, 1], "pods behind the other taint do not count");
    let answer = crowded.judged(of("two", 2));
    assert_eq!(answer.skew("two", "part"), [2], "but for those who tolerate it they do");
}

// 01/AFF-18
#[test]
fn only_required_distance_of_running_pods_keeps_others_away() {
    let here = || world(vec![pool("p")]).node("n", &[(ZONE, "test-zone-1")], 4000);
    let plain = || vec![pod("plain").label("app", "x").asks("cpu", 100).selects(ZONE, "In test-zone-1")];
    let shy = || pod("shy").apart(near(ZONE, &APP));
    assert!(!here().running("n", vec![shy()]).judged(plain()).is_placed("plain"));
    let preferring = pod("preferring")
        .change(|pod| pod.wants.preferred_apart.push(Weighted { weight: 100, item: near(ZONE, &APP) }));
    assert_eq!(here().running("n", vec![preferring]).judged(plain()).node("plain"), "n");
    let elsewhere = pod("elsewhere").apart(near(ZONE, &APP)).change(|pod| pod.name.namespace = "other".into());
    assert!(!here().running("n", vec![elsewhere]).judged(plain()).is_placed("plain"), "its term names our namespace");
    let of_others = pod("of-others").apart(near(ZONE, &[("app", "y")]));
    assert_eq!(here().running("n", vec![of_others]).judged(plain()).node("plain"), "n");
}

// 01/AFF-18
#[test]
fn distance_ends_with_the_pod_that_wanted_it_whatever_else_is_known_of_it() {
    let here = || world(vec![pool("p")]).node("n", &[(ZONE, "test-zone-1")], 4000);
    let plain = || pod("plain").label("app", "x").asks("cpu", 100).selects(ZONE, "In test-zone-1");
    let shy = || pod("shy").apart(near(ZONE, &APP));
    let mut deleted = here().running("n", vec![shy()]);
    assert!(!deleted.judged(vec![plain()]).is_placed("plain"));
    deleted.snapshot.pods.clear();
    assert_eq!(deleted.judged(vec![plain()]).node("plain"), "n");
    let mut ended = here().running("n", vec![shy()]);
    ended.snapshot.pods.values_mut().for_each(|pod| Arc::make_mut(pod).life = Life::Terminal);
    assert_eq!(ended.judged(vec![plain()]).node("plain"), "n");
    let unknown_node = here().running("not-seen-yet", vec![shy()]);
    assert_eq!(unknown_node.judged(vec![plain()]).node("plain"), "n");
    let waiting = here().running("n", vec![shy()]).change_node("n", |node| node.is_leaving = true);
    let both = waiting.judged(vec![plain(), shy().selects(ZONE, "In test-zone-2")]);
    assert_eq!(both.placed(), 2, "a pod that moves does not count where it was");
}

// 01/RSV-07
#[test]
fn a_claim_holds_a_reserved_machine_once_however_many_pods_join_it() {
    let only = || vec![reserved(shape("only"), &[("r-1", "test-zone-1", 2)])];
    let three_to_a_machine = |count: usize| pods("a", count, |sketch| sketch.asks("cpu", 1200));
    let answer = world(vec![pool("p").types(only())]).judged(three_to_a_machine(6));
    assert_eq!((answer.placed(), answer.claims()), (6, 2));
    let answer = world(vec![pool("p").types(only())]).judged(three_to_a_machine(7));
    assert_eq!((answer.placed(), answer.claims()), (6, 2));
    assert!(answer.plan.unplaced[0].general.contains(&Obstacle::Reserved));
    let told_twice = vec![
        reserved(shape("one").with("cpu", 1300), &[("r-1", "test-zone-1", 3)]),
        reserved(shape("other").with("cpu", 1400), &[("r-1", "test-zone-2", 1)]),
    ];
    let answer = world(vec![pool("p").types(told_twice)]).judged(three_to_a_machine(3));
    assert_eq!((answer.placed(), answer.claims()), (1, 1), "the least that anybody says is left counts");
}

// 01/RSV-07
#[test]
fn a_reserved_machine_that_a_claim_gives_back_serves_the_next_claim() {
    let types = vec![
        reserved(shape("small").with("cpu", 2000), &[("r-small", "test-zone-1", 1)]),
        reserved(shape("large"), &[("r-large", "test-zone-1", 1)]),
    ];
    let world = world(vec![pool("p").types(types)]);
    let held = |count: usize| {
        let answer = world.judged(pods("a", count, |sketch| sketch.asks("cpu", 1500)));
        let held = answer.plan.claims.iter().map(|claim| claim.reservations.iter().map(ToString::to_string).collect());
        (answer.placed(), held.collect::<Vec<Vec<String>>>())
    };
    let text = |held: &[&[&str]]| held.iter().map(|ids| ids.iter().map(ToString::to_string).collect()).collect();
    assert_eq!(held(1), (1, text(&[&["r-large", "r-small"]])));
    assert_eq!(held(2), (2, text(&[&["r-large"]])), "two pods are too many for the small one");
    assert_eq!(held(3), (3, text(&[&["r-large"], &["r-small"]])), "which is free for the third");
    assert_eq!(held(4).0, 3, "and nothing is left for the fourth");
}

/// A type's cpus and its reservations: which, in which zone, and how many machines are left in it.
type Offer = (i64, Vec<(usize, usize, u32)>);

fn any_offer() -> impl Strategy<Value = Offer> {
    (1..=4_i64, prop::collection::vec((0..4_usize, 1..=2_usize, 0..4_u32), 0..3))
}

fn offered((number, (cpus, reservations)): (usize, &Offer)) -> Arc<InstanceType> {
    let texts: Vec<(String, String)> =
        reservations.iter().map(|(id, zone, _)| (format!("r-{id}"), format!("test-zone-{zone}"))).collect();
    let named: Vec<(&str, &str, u32)> =
        texts.iter().zip(reservations).map(|((id, zone), (_, _, left))| (id.as_str(), zone.as_str(), *left)).collect();
    reserved(shape(&format!("type-{number}")).with("cpu", 1000 * cpus), &named)
}

/// A pod's cpu, the only zone that it can be in, and whether it wants a machine for itself.
type Customer = (i64, Option<usize>, bool);

fn any_customer() -> impl Strategy<Value = Customer> {
    (1..40_i64, proptest::option::of(1..=3_usize), any::<bool>())
}

fn waiting((number, (cpu, zone, is_alone)): (usize, &Customer)) -> PodSketch {
    let mut sketch = pod(&format!("a-{number:02}")).asks("cpu", cpu * 100);
    if let Some(zone) = zone {
        sketch = sketch.selects(ZONE, &format!("In test-zone-{zone}"));
    }
    if *is_alone { sketch.label("app", "x").apart(near(HOST, &APP)) } else { sketch }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    // 01/RSV-07
    #[test]
    fn reservations_are_never_handed_out_beyond_what_is_left(
        offers in prop::collection::vec(any_offer(), 1..4),
        customers in prop::collection::vec(any_customer(), 1..12),
        pools in 1..=2_usize,
    ) {
        let types: Vec<Arc<InstanceType>> = offers.iter().enumerate().map(offered).collect();
        let mut left: BTreeMap<String, u32> = BTreeMap::new();
        for (id, _, count) in offers.iter().flat_map(|(_, reservations)| reservations) {
            let least = left.entry(format!("r-{id}")).or_insert(*count);
            *least = (*least).min(*count);
        }
        let pools = ["p", "q"][..pools].iter().map(|name| pool(name).types(types.clone()));
        let answer = world(pools.collect()).judged(customers.iter().enumerate().map(waiting).collect());
        for claim in &answer.plan.claims {
            let ids: BTreeSet<&str> = claim.reservations.iter().map(|id| id.as_str()).collect();
            prop_assert_eq!(ids.len(), claim.reservations.len(), "one entry for each");
            prop_assert!(ids.is_empty() || claim.requirements.get(CAPACITY_TYPE) == Some(&req("In reserved")));
            for id in ids {
                prop_assert!(left[id] > 0, "{} is handed out once too often", id);
                *left.get_mut(id).unwrap() -= 1;
            }
        }
    }
}

// 01/TNT-03
#[test]
fn what_pods_tolerate_leaves_no_mark_on_their_nodes() {
    let toleration = |key: Option<&str>, matches: Match, effect: Option<Effect>| Toleration {
        key: key.map(Into::into),
        matches,
        effect,
    };
    let tolerances = [
        vec![toleration(Some("dedicated"), Match::Any, Some(Effect::NoSchedule))],
        vec![toleration(Some("dedicated"), Match::Equal("a".into()), Some(Effect::NoExecute))],
        vec![toleration(Some("quiet"), Match::Any, Some(Effect::PreferNoSchedule))],
        vec![toleration(None, Match::Any, None)],
    ];
    let plain = || pods("a", 6, |sketch| sketch.asks("cpu", 1200));
    let untainted = || world(vec![pool("p")]);
    let expected = untainted().judged(plain()).plan;
    for tolerations in tolerances {
        let tolerant = || -> Vec<PodSketch> {
            plain().into_iter().map(|sketch| sketch.change(|pod| pod.wants.tolerations = tolerations.clone())).collect()
        };
        assert_eq!(untainted().judged(tolerant()).plan, expected, "{tolerations:?}");
        let settled = untainted().after(tolerant(), &Progress::Initialized);
        assert!(settled.snapshot.nodes.values().all(|node| node.taints.is_empty()), "{tolerations:?}");
        let joined = settled.judged(vec![pod("intolerant").asks("cpu", 10)]);
        assert_eq!((joined.placed(), joined.claims()), (1, 0), "{tolerations:?}");
    }
    let everything = |sketch: PodSketch| {
        sketch.asks("cpu", 1200).change(|pod| pod.wants.tolerations = vec![toleration(None, Match::Any, None)])
    };
    let tainted = world(vec![pool("p").taint("own", Effect::NoSchedule)]);
    let settled = tainted.after(pods("a", 3, everything), &Progress::Initialized);
    assert!(settled.snapshot.nodes.values().all(|node| node.taints == [Taint::new("own", "", Effect::NoSchedule)]));
}

// 01/RSV-07
#[test]
fn a_reservation_that_one_offering_calls_empty_is_empty() {
    let both = reserved(shape("only"), &[("r-1", "test-zone-1", 1), ("r-1", "test-zone-1", 0)]);
    let answer = world(vec![pool("p").types(vec![both])]).judged(vec![pod("a")]);
    assert!(answer.plan.claims[0].reservations.is_empty());
}

// 01/RSV-07
#[test]
fn a_machine_that_an_unlaunched_claim_holds_is_not_handed_out_again() {
    let fresh = || world(vec![pool("p").types(vec![reserved(shape("only"), &[("r-1", "test-zone-1", 1)])])]);
    let alone = |name: &str| pod(name).label("app", "x").apart(near(HOST, &APP));
    let first = fresh().judged(vec![alone("first")]);
    assert_eq!(first.claim("first").reservations, ["r-1".into()]);
    let second = fresh().asked_for(&first).judged(vec![alone("first"), alone("second")]);
    assert_eq!(second.node("first"), "asked-0");
    assert!(second.plan.claims.iter().all(|claim| claim.reservations.is_empty()), "{:#?}", second.plan.claims);
}

// 01/RSV-07
#[test]
fn who_can_only_have_a_reserved_machine_gets_none_that_is_awaited() {
    let only = || reserved(shape("only"), &[("r-1", "test-zone-1", 1)]);
    let fresh = || world(vec![pool("p").types(vec![only()]).requires(CAPACITY_TYPE, "In reserved")]);
    let alone = |name: &str| pod(name).label("app", "x").apart(near(HOST, &APP));
    let first = fresh().judged(vec![alone("first")]);
    let second = fresh().asked_for(&first).judged(vec![alone("first"), alone("second")]);
    assert!(!second.is_placed("second") && second.plan.claims.is_empty());
}

// 01/AFF-18
#[test]
fn a_pod_that_is_ending_still_keeps_others_away() {
    let shy = pod("shy").apart(near(ZONE, &APP));
    let mut world = world(vec![pool("p")]).node("n", &[(ZONE, "test-zone-1")], 4000).running("n", vec![shy]);
    world.snapshot.pods.values_mut().for_each(|pod| Arc::make_mut(pod).life = Life::Terminating);
    let answer = world.judged(vec![pod("plain").label("app", "x").selects(ZONE, "In test-zone-1")]);
    assert!(!answer.is_placed("plain"));
}

// 01/AFF-18
#[test]
fn a_pod_keeps_away_from_one_that_is_ending() {
    let mut world = world(vec![pool("p")])
        .node("n", &[(ZONE, "test-zone-1")], 4000)
        .running("n", vec![pod("target").label("app", "x")]);
    world.snapshot.pods.values_mut().for_each(|pod| Arc::make_mut(pod).life = Life::Terminating);
    let answer = world.judged(vec![pod("shy").apart(near(HOST, &APP))]);
    assert_eq!(answer.claims(), 1);
}
