use std::sync::Arc;

use model::instance::InstanceType;
use model::labels::{INITIALIZED, REGISTERED};
use model::node::Progress;
use model::pod::{HostPort, Owner, Protocol};
use model::resources::Resources;
use model::snapshot::Daemon;
use model::taints::{Effect, Match, Toleration};

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY: &str = "karpenter.sh/capacity-type";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// A small and a large type.
fn two_sizes() -> PoolSketch {
    pool("p").types(vec![
        shape("small").with("cpu", 4000).with("memory", 8 * GI).build(),
        shape("large").with("cpu", 8000).with("memory", 16 * GI).build(),
    ])
}

fn wants_cpu(daemon: &mut Daemon, cpu_milli: i64) {
    daemon.requests = daemon.requests.clone().with("cpu", cpu_milli);
}

/// The cpu that a claim for one pod without any request asks for: that of its daemons.
fn daemon_cpu(world: &World) -> i64 {
    let tolerant = pod("a").tolerates("reserved");
    world.judged(vec![tolerant]).claim("a").requests.cpu_milli
}

fn port_80() -> HostPort {
    HostPort { ip: "".into(), port: 80, protocol: Protocol::Tcp }
}

#[test]
fn a_machine_that_cannot_hold_its_daemons_is_not_bought() {
    let small = || shape("small").with("memory", 512 * MI).build();
    let large = || shape("large").build();
    let world = |types: Vec<Arc<InstanceType>>| {
        let hungry =
            |daemon: &mut model::snapshot::Daemon| daemon.requests = daemon.requests.clone().with("memory", GI);
        world(vec![pool("p").types(types)]).daemon("hungry", hungry)
    };
    let only_cpu = || vec![pod("a").asks("cpu", 100)];
    assert_eq!(world(vec![small(), large()]).judged(only_cpu()).types("a"), ["large"]);
    assert!(!world(vec![small()]).judged(only_cpu()).is_placed("a"));
}

// 01/DMN-02
#[test]
fn a_daemon_that_the_pools_taints_keep_away_takes_no_room() {
    let tainted = |effect: Effect| world(vec![two_sizes().taint("reserved", effect)]);
    let plain = |daemon: &mut Daemon| wants_cpu(daemon, 1000);
    assert_eq!(daemon_cpu(&tainted(Effect::NoSchedule).daemon("d", plain)), 0);
    assert_eq!(daemon_cpu(&tainted(Effect::NoExecute).daemon("d", plain)), 0);
    assert_eq!(daemon_cpu(&tainted(Effect::PreferNoSchedule).daemon("d", plain)), 1000);
    assert_eq!(daemon_cpu(&world(vec![two_sizes().startup_taint("booting")]).daemon("d", plain)), 1000);
    let tolerant = |daemon: &mut Daemon| {
        wants_cpu(daemon, 1000);
        daemon.tolerations.push(Toleration { key: Some("reserved".into()), matches: Match::Any, effect: None });
    };
    assert_eq!(daemon_cpu(&tainted(Effect::NoSchedule).daemon("d", tolerant)), 1000);
}

// 01/DMN-03
#[test]
fn a_daemon_counts_only_where_its_selector_can_hold() {
    for (key, text, cpu) in [
        ("unknown", "In x", 0),
        ("unknown", "Exists", 0),
        (ZONE, "In nowhere", 0),
        (INSTANCE_TYPE, "In none-of-ours", 0),
        ("team", "In b", 0),
        ("team", "In a", 1000),
        ("unknown", "NotIn x", 1000),
        ("unknown", "DoesNotExist", 1000),
        (ZONE, "In test-zone-1", 1000),
    ] {
        let selecting = |daemon: &mut Daemon| {
            wants_cpu(daemon, 1000);
            daemon.selector.add(key, req(text));
        };
        let world = world(vec![two_sizes().label("team", "a")]).daemon("d", selecting);
        assert_eq!(daemon_cpu(&world), cpu, "{key} {text}");
    }
}

// 01/DMN-04
#[test]
fn a_daemon_weighs_on_the_types_that_it_runs_on_and_on_no_other() {
    for (size, cpu, types) in [
        ("In small", 3000, vec!["large"]),
        ("In large", 7000, vec!["small"]),
        ("In small", 2000, vec!["small", "large"]),
        ("Exists", 3000, vec!["large"]),
    ] {
        let selecting = |daemon: &mut Daemon| {
            wants_cpu(daemon, cpu);
            daemon.selector.add("size", req(size));
        };
        let world = world(vec![two_sizes()]).daemon("d", selecting);
        let answer = world.judged(vec![pod("a").asks("cpu", 1500)]);
        assert_eq!(answer.types("a"), types, "{size} {cpu}");
    }
}

// 01/DMN-04
#[test]
fn a_claim_asks_for_the_least_that_daemons_add_whichever_type_comes() {
    let of_size = |size: &'static str, cpu: i64| {
        move |daemon: &mut Daemon| {
            wants_cpu(daemon, cpu);
            daemon.selector.add("size", req(size));
        }
    };
    let one = world(vec![two_sizes()]).daemon("large", of_size("In large", 1000));
    assert_eq!(daemon_cpu(&one), 0);
    let both =
        world(vec![two_sizes()]).daemon("large", of_size("In large", 1000)).daemon("small", of_size("In small", 300));
    assert_eq!(daemon_cpu(&both), 300);
}

// 01/DMN-06
#[test]
fn a_daemon_counts_by_any_of_its_terms() {
    let either = |daemon: &mut Daemon| {
        wants_cpu(daemon, 1000);
        daemon.terms = vec![reqs(&[("team", "In nobody")]), reqs(&[("team", "In a")])];
    };
    assert_eq!(daemon_cpu(&world(vec![two_sizes().label("team", "a")]).daemon("d", either)), 1000);
    assert_eq!(daemon_cpu(&world(vec![two_sizes().label("team", "b")]).daemon("d", either)), 0);
    let by_size = |daemon: &mut Daemon| {
        wants_cpu(daemon, 1000);
        daemon.terms = vec![reqs(&[("size", "In small")]), reqs(&[("size", "In large")])];
    };
    assert_eq!(daemon_cpu(&world(vec![two_sizes()]).daemon("d", by_size)), 1000);
}

// 01/DMN-07
#[test]
fn a_daemons_port_is_taken_on_the_types_that_it_runs_on_and_on_no_other() {
    let on_port = |size: &'static str| {
        move |daemon: &mut Daemon| {
            daemon.ports.push(port_80());
            daemon.selector.add("size", req(size));
        }
    };
    let wanting = || vec![pod("a").change(|pod| pod.wants.ports.push(port_80()))];
    let small = world(vec![two_sizes()]).daemon("d", on_port("In small"));
    assert_eq!(small.judged(wanting()).types("a"), ["large"]);
    assert_eq!(small.judged(vec![pod("a")]).types("a"), ["small", "large"]);
    let everywhere = world(vec![two_sizes()]).daemon("d", on_port("Exists"));
    assert!(!everywhere.judged(wanting()).is_placed("a"));
}

// 01/DMN-08
#[test]
fn a_daemon_that_waits_for_a_ready_node_counts_and_leaves_no_trace() {
    for key in [REGISTERED, INITIALIZED] {
        let waiting = |daemon: &mut Daemon| {
            wants_cpu(daemon, 1000);
            daemon.selector.add(key, req("In true"));
        };
        let answer = world(vec![two_sizes()]).daemon("d", waiting).judged(vec![pod("a").asks("cpu", 3500)]);
        let claim = answer.claim("a");
        assert_eq!(claim.requests.cpu_milli, 4500);
        assert_eq!(answer.types("a"), ["large"]);
        assert!(claim.requirements.get(key).is_none() && !claim.labels.contains_key(key), "{claim:?}");
    }
}

// 01/DMN-08
#[test]
fn a_daemon_that_waits_for_a_ready_node_counts_while_the_node_is_on_its_way() {
    let fits = |world: &World, cpu: i64| world.judged(vec![pod("a").asks("cpu", cpu)]).is_placed("a");
    let types = || vec![shape("four").build()];
    for key in [REGISTERED, INITIALIZED] {
        for (text, cpu) in [("In true", 1000), ("Exists", 1000), ("DoesNotExist", 1000), ("In false", 0)] {
            let waiting = |daemon: &mut Daemon| {
                wants_cpu(daemon, 1000);
                daemon.selector.add(key, req(text));
            };
            // A machine that was asked for: nothing else may grow, so a pod fits there or nowhere.
            let pool = || pool("p").types(types()).limit("nodes", 1);
            let first = world(vec![pool()]).daemon("d", waiting).solve(vec![pod("first")]);
            let asked = world(vec![pool()]).daemon("d", waiting).asked_for(&first);
            assert!(fits(&asked, 3900 - cpu) && !fits(&asked, 3901 - cpu), "{key} {text}, asked for");
            let started = |progress: Progress| {
                world(Vec::new()).daemon("d", waiting).node("n", &[], 4000).change_node("n", |node| {
                    node.pool = Some("p".into());
                    node.progress = progress;
                })
            };
            let starting = started(Progress::Starting { has_node: true });
            assert!(fits(&starting, 4000 - cpu) && !fits(&starting, 4001 - cpu), "{key} {text}, starting");
        }
        let waiting = |daemon: &mut Daemon| {
            wants_cpu(daemon, 1000);
            daemon.selector.add(key, req("In true"));
        };
        let theirs = world(Vec::new()).daemon("d", waiting).node("n", &[], 4000);
        assert!(fits(&theirs, 4000), "nobody gives {key} to a node that is not ours");
    }
}

#[test]
fn a_port_is_kept_for_a_daemon_that_is_still_to_come() {
    let on_port = |daemon: &mut Daemon| {
        daemon.ports.push(port_80());
        daemon.selector.add("team", req("In a"));
    };
    let wanting = || vec![pod("a").change(|pod| pod.wants.ports.push(port_80()))];
    for progress in [Progress::Starting { has_node: true }, Progress::Initialized] {
        let world = world(Vec::new())
            .node("n", &[("team", "a")], 4000)
            .change_node("n", |node| node.progress = progress)
            .daemon("d", on_port);
        assert!(!world.judged(wanting()).is_placed("a"));
        assert!(world.judged(vec![pod("a")]).is_placed("a"));
        assert_eq!(world.node("other", &[], 4000).judged(wanting()).node("a"), "other");
    }
}

// 01/DMN-09
#[test]
fn a_node_keeps_room_for_the_daemons_that_are_still_to_come() {
    let plain = |daemon: &mut Daemon| wants_cpu(daemon, 1000);
    let running = |cpu: i64| vec![pod("d-1").asks("cpu", cpu).change(|pod| pod.owner = Owner::DaemonSet)];
    let node = || world(Vec::new()).node("n", &[], 4000);
    let fits = |world: &World, cpu: i64| world.judged(vec![pod("a").asks("cpu", cpu)]).is_placed("a");
    let missing = node().daemon("d", plain);
    assert!(fits(&missing, 3000) && !fits(&missing, 3001));
    let there = node().daemon("d", plain).running("n", running(1000));
    assert!(fits(&there, 3000) && !fits(&there, 3001));
    let one_of_two = node().daemon("d", plain).daemon("e", plain).running("n", running(1000));
    assert!(fits(&one_of_two, 2000) && !fits(&one_of_two, 2001));
    let unexpected = node().running("n", running(1500));
    assert!(fits(&unexpected, 2500) && !fits(&unexpected, 2501));
    let larger = node().daemon("d", plain).running("n", running(1500));
    assert!(fits(&larger, 2500) && !fits(&larger, 2501));
}

// 01/DMN-10
#[test]
fn a_daemon_that_a_nodes_labels_do_not_suit_takes_no_room_there_but_on_new_nodes() {
    let of_zone = |daemon: &mut Daemon| {
        wants_cpu(daemon, 2000);
        daemon.selector.add(ZONE, req("In test-zone-1 test-zone-2 test-zone-3"));
    };
    let both = || vec![pod("here").asks("cpu", 3000).priority(1), pod("new").asks("cpu", 3000)];
    let bare = world(vec![two_sizes()]).node("n", &[], 4000).daemon("d", of_zone).judged(both());
    assert_eq!(bare.node("here"), "n");
    assert_eq!(bare.types("new"), ["large"]);
    assert_eq!(bare.claim("new").requests.cpu_milli, 5000);
    let in_zone = world(vec![two_sizes()]).node("n", &[(ZONE, "test-zone-1")], 4000).daemon("d", of_zone);
    assert_eq!(in_zone.judged(both()).claim("here").pods.len(), 1);
}

// 01/DMN-11
#[test]
fn a_claim_asks_for_its_daemons_once() {
    let world = world(vec![two_sizes()]).daemon("d", |daemon| wants_cpu(daemon, 1000));
    let answer = world.judged(pods("a", 2, |sketch| sketch.asks("cpu", 1000)));
    assert_eq!(answer.claims(), 1);
    assert_eq!(answer.claim("a-000").requests, Resources::default().with("cpu", 3000).with("pods", 3));
}

// 01/TNT-02
#[test]
fn startup_taints_need_no_toleration() {
    let answer = world(vec![pool("p").startup_taint("booting")]).judged(vec![pod("a")]);
    assert!(answer.is_placed("a"));
}

/// Gives the offerings of one capacity type in one zone more of a resource than the type has.
fn with_more(built: &mut InstanceType, resource: &str, amount: i64, is_available: bool) {
    let special = |offering: &&mut model::instance::Offering| {
        offering.label(ZONE).is_some_and(|zone| **zone == *"test-zone-2")
            && offering.label(CAPACITY).is_some_and(|kind| **kind == *"on-demand")
    };
    for offering in built.offerings.iter_mut().filter(special) {
        offering.capacity_override = Some(Resources::default().with(resource, amount));
        offering.is_available = is_available;
    }
}

// 01/PCK-15
#[test]
fn a_resource_that_only_some_offerings_have_is_bought_through_them() {
    let of = |is_available: bool| {
        world(vec![pool("p").types(vec![
            shape("plain").build(),
            changed(shape("special"), |built| with_more(built, "fake.com/nic", 2, is_available)),
        ])])
    };
    let wanting = || vec![pod("a").asks("fake.com/nic", 1).selects(ZONE, "In test-zone-2")];
    let answer = of(true).judged(wanting());
    assert_eq!(answer.types("a"), ["special"]);
    assert_eq!(answer.value("a", CAPACITY), "on-demand");
    let unavailable = of(false).judged(wanting());
    assert_eq!((unavailable.placed(), unavailable.claims()), (0, 0));
}

// 01/PCK-16
#[test]
fn a_type_has_its_own_amounts_except_where_an_offering_says_otherwise() {
    let more_cpu = || changed(shape("m"), |built| with_more(built, "cpu", 8000, true));
    let world = world(vec![pool("p").types(vec![more_cpu()])]);
    let usual = world.judged(vec![pod("a").asks("cpu", 3000)]);
    assert_eq!(usual.value("a", CAPACITY), "on-demand spot");
    assert!(world.judged(vec![pod("a").asks("cpu", 3000).selects(ZONE, "In test-zone-1")]).is_placed("a"));
    let large = |zone: &str| vec![pod("a").asks("cpu", 6000).selects(ZONE, zone)];
    assert!(!world.judged(large("In test-zone-1")).is_placed("a"));
    assert_eq!(world.judged(large("In test-zone-2")).value("a", CAPACITY), "on-demand");
    assert!(!world.judged(vec![pod("a").asks("cpu", 8000)]).is_placed("a"), "the overhead stays");
}

// 01/PCK-15
#[test]
fn what_is_large_enough_in_two_ways_is_never_bought_in_a_third_that_is_too_small() {
    let crossed = |built: &mut InstanceType| {
        for offering in &mut built.offerings {
            let is_spot = offering.label(CAPACITY).is_some_and(|kind| **kind == *"spot");
            let is_first = offering.label(ZONE).is_some_and(|zone| **zone == *"test-zone-1");
            if is_spot {
                offering.price = offering.price.plus(offering.price);
            }
            if is_spot == is_first {
                offering.capacity_override = Some(Resources::default().with("cpu", 8000));
            }
        }
    };
    let world = world(vec![pool("p").types(vec![changed(shape("crossed"), crossed)])]);
    let answer = world.judged(vec![pod("a").asks("cpu", 6000)]);
    let kinds = (answer.value("a", CAPACITY), answer.value("a", ZONE));
    assert_eq!(kinds, ("on-demand".to_owned(), "test-zone-2 test-zone-3".to_owned()));
    assert_eq!(world.judged(vec![pod("a").asks("cpu", 3000)]).value("a", CAPACITY), "on-demand spot");
}
