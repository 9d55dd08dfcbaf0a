use model::node::Progress;
use model::pod::{HostPort, Protocol};

use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const ARCH: &str = "kubernetes.io/arch";
const APP: [(&str, &str); 1] = [("app", "x")];

const STARTING: [Progress; 2] = [Progress::Starting { has_node: false }, Progress::Starting { has_node: true }];

fn spread_pods(prefix: &str, count: usize, key: &str) -> Vec<PodSketch> {
    pods(prefix, count, |sketch| sketch.asks("cpu", 10).label("app", "x").spread(spread_over(key, 1, &APP)))
}

// 01/EXN-01
#[test]
fn a_starting_node_takes_the_next_pods_that_suit_it_and_no_others() {
    for progress in STARTING {
        let first = pod("first").asks("cpu", 500).selects(ARCH, "In amd64");
        let world = world(vec![pool("p")]).after(vec![first.selects(ZONE, "In test-zone-1 test-zone-2")], &progress);
        for (sketch, claims) in [
            (pod("plain").asks("cpu", 500), 0),
            (pod("overlapping").selects(ZONE, "In test-zone-1 test-zone-3"), 0),
            (pod("too-large").asks("cpu", 3000), 1),
            (pod("other-arch").selects(ARCH, "In arm64"), 1),
            (pod("other-zone").selects(ZONE, "In test-zone-2"), 1),
        ] {
            let name = sketch.0.name.clone();
            let answer = world.judged(vec![sketch]);
            assert_eq!((answer.placed(), answer.claims()), (1, claims), "{name} while {progress:?}");
        }
    }
}

// 01/EXN-01
#[test]
fn a_claim_that_is_not_launched_is_used_again_by_pods_that_suit_whatever_comes() {
    let world = || world(vec![pool("p").types(series(4))]);
    let first = || pod("first").asks("cpu", 500).selects(ZONE, "In test-zone-1 test-zone-2");
    let world = world().asked_for(&world().judged(vec![first()]));
    for (sketch, claims) in [
        (pod("plain").asks("cpu", 300), 0),
        (pod("wider").selects(ZONE, "In test-zone-1 test-zone-2 test-zone-3"), 0),
        (pod("more-than-the-least-type-has").asks("cpu", 1500), 1),
        (pod("one-of-the-zones").selects(ZONE, "In test-zone-1"), 1),
    ] {
        let name = sketch.0.name.clone();
        let answer = world.judged(vec![first(), sketch]);
        assert_eq!((answer.placed(), answer.claims()), (2, claims), "{name}");
        assert_eq!(answer.node("first"), "asked-0", "{name}");
    }
}

// 01/EXN-01
#[test]
fn a_plan_that_is_asked_for_twice_is_asked_for_once() {
    let all = || {
        let mut all = pods("plain", 12, |sketch| sketch.asks("cpu", 900).asks("memory", 700 * MI));
        all.extend(spread_pods("spread", 5, ZONE));
        all.extend(pods("alone", 3, |sketch| sketch.label("app", "y").apart(near(HOST, &[("app", "y")]))));
        all
    };
    let world = || world(vec![pool("p").types(series(4))]);
    let first = world().judged(all());
    let second = world().asked_for(&first).judged(all());
    assert_eq!((second.placed(), second.claims()), (20, 0));
}

// 01/EXN-02
#[test]
fn a_machine_that_goes_before_it_came_is_not_used() {
    let fresh = || world(vec![pool("p").types(series(4))]);
    let asked =
        fresh().asked_for(&fresh().judged(vec![pod("first")])).change_node("asked-0", |node| node.is_leaving = true);
    assert_eq!(asked.judged(vec![pod("a")]).claims(), 1);
    for progress in STARTING {
        let started = fresh().after(vec![pod("first")], &progress);
        let name = started.snapshot.nodes.keys().next().unwrap().to_string();
        assert_eq!(started.judged(vec![pod("a")]).node("a"), name);
        let going = started.change_node(&name, |node| node.is_leaving = true);
        assert_eq!(going.judged(vec![pod("a")]).claims(), 1);
    }
}

// 01/EXN-03
#[test]
fn a_spread_goes_on_over_nodes_that_are_starting() {
    for progress in STARTING {
        let world = world(vec![pool("p").types(vec![shape("five").build()])]);
        let world = world.after(spread_pods("a", 4, ZONE), &progress);
        assert_eq!(world.crowds(), [1, 1, 2]);
        let world = world.after(spread_pods("b", 5, ZONE), &progress);
        assert_eq!(world.crowds(), [3, 3, 3]);
    }
}

// 01/EXN-03
#[test]
fn a_spread_over_hosts_goes_on_with_new_nodes() {
    for progress in STARTING {
        let world = world(vec![pool("p")]).after(spread_pods("a", 4, HOST), &progress);
        assert_eq!(world.crowds(), [1; 4]);
        assert_eq!(world.after(spread_pods("b", 5, HOST), &progress).crowds(), [1; 9]);
    }
}

// 01/EXN-04
#[test]
fn batch_after_batch_leaves_at_most_one_node_with_room() {
    let four = || shape("four").with("cpu", 4100).with("memory", 16 * GI).with("pods", 100).build();
    let mut world = world(vec![pool("p").types(vec![four()])]);
    for (batch, count) in [3, 1, 4, 1, 5, 9, 2, 6, 5, 3].into_iter().enumerate() {
        let batch = pods(&format!("batch-{batch}"), count, |sketch| sketch.asks("cpu", 1000));
        world = world.after(batch, &Progress::Initialized);
        let crowds = world.crowds();
        assert!(crowds.iter().filter(|pods| **pods < 4).count() <= 1, "{crowds:?}");
    }
    assert_eq!(world.crowds().iter().sum::<usize>(), 39);
}

// 01/EXN-05
#[test]
fn nodes_of_others_take_pods() {
    let world = world(vec![pool("p")]).node("theirs", &[], 4000);
    assert_eq!(world.judged(vec![pod("a").asks("cpu", 1000)]).node("a"), "theirs");
    let answer = world.judged(pods("a", 4, |sketch| sketch.asks("cpu", 1000)));
    assert_eq!((answer.placed(), answer.claims()), (4, 0));
    assert_eq!(world.judged(pods("a", 5, |sketch| sketch.asks("cpu", 1000))).claims(), 1);
}

// 01/EXN-06
#[test]
fn an_initialized_node_is_preferred_to_all_that_are_on_their_way() {
    let types = series(1);
    let mut world = world(vec![pool("p")]);
    for number in 0..100 {
        let name = format!("node-{number:02}");
        let progress = match number {
            57 => Progress::Initialized,
            _ if number % 3 == 0 => Progress::Starting { has_node: true },
            _ if number % 3 == 1 => Progress::Starting { has_node: false },
            _ => Progress::Unlaunched { types: types.clone(), requirements: reqs(&[]) },
        };
        world = world.node(&name, &[], 4000).change_node(&name, |node| {
            node.pool = Some("p".into());
            node.progress = progress;
        });
    }
    assert_eq!(world.judged(vec![pod("a").asks("cpu", 100)]).node("a"), "node-57");
}

// 01/EXN-07
#[test]
fn a_node_without_a_label_that_a_pod_requires_is_no_place_for_it() {
    let selecting = || vec![pod("a").selects(ARCH, "In amd64")];
    assert_eq!(world(vec![pool("p")]).node("bare", &[], 4000).judged(selecting()).claims(), 1);
    assert!(!world(Vec::new()).node("bare", &[], 4000).judged(selecting()).is_placed("a"));
    assert_eq!(world(Vec::new()).node("named", &[(ARCH, "amd64")], 4000).judged(selecting()).node("a"), "named");
    let starting = world(vec![pool("p")])
        .node("bare", &[], 4000)
        .change_node("bare", |node| node.progress = Progress::Starting { has_node: true });
    assert_eq!(starting.judged(selecting()).claims(), 1);
}

// 01/EXN-09
#[test]
fn a_pod_that_wants_its_own_kind_joins_it_on_a_starting_node() {
    let own_kind = |name: &str| pod(name).asks("cpu", 100).label("app", "x").together(near(ZONE, &APP));
    for progress in STARTING {
        let world = world(vec![pool("p").types(series(4))]).after(vec![own_kind("first")], &progress);
        let answer = world.judged(vec![own_kind("second")]);
        assert_eq!((answer.placed(), answer.claims()), (1, 0));
    }
    let fresh = || world(vec![pool("p").types(series(4))]);
    let asked = fresh().asked_for(&fresh().judged(vec![own_kind("first")]));
    let answer = asked.judged(vec![own_kind("first"), own_kind("second")]);
    assert_eq!((answer.node("first"), answer.node("second")), ("asked-0", "asked-0"));
}

// 01/EXN-10
#[test]
fn pods_of_a_leaving_node_and_waiting_pods_share_a_new_node() {
    let moving = || pod("moving").asks("cpu", 1000);
    let world = world(vec![pool("p").types(series(4))])
        .node("old", &[], 8000)
        .running("old", vec![moving()])
        .change_node("old", |node| node.is_leaving = true);
    let answer = world.judged(vec![moving(), pod("waiting").asks("cpu", 1000)]);
    assert_eq!((answer.placed(), answer.claims()), (2, 1));
    assert_eq!(answer.target("moving"), answer.target("waiting"));
}

// 01/EXN-11
#[test]
fn pods_share_a_node_unless_they_want_the_same_port_of_it() {
    use Protocol::{Tcp, Udp};
    let on_port = |name: &str, ip: &str, protocol: Protocol| {
        let port = HostPort { ip: ip.into(), port: 80, protocol };
        pod(name).asks("cpu", 10).change(|pod| pod.wants.ports.push(port))
    };
    for ((first_ip, first), (second_ip, second), nodes) in [
        (("", Tcp), ("", Tcp), 2),
        (("", Tcp), ("", Udp), 1),
        (("10.0.0.1", Tcp), ("10.0.0.2", Tcp), 1),
        (("10.0.0.1", Tcp), ("10.0.0.1", Tcp), 2),
        (("0.0.0.0", Tcp), ("10.0.0.1", Tcp), 2),
        (("10.0.0.1", Tcp), ("::", Tcp), 2),
        (("0.0.0.0", Tcp), ("::", Tcp), 2),
    ] {
        let case = format!("{first_ip} {first:?}, {second_ip} {second:?}");
        let fresh = || world(vec![pool("p").types(series(4))]);
        let both = || vec![on_port("a", first_ip, first), on_port("b", second_ip, second)];
        let together = fresh().judged(both());
        assert_eq!((together.placed(), together.claims()), (2, nodes), "{case}");
        let held = fresh().node("n", &[], 4000).running("n", vec![on_port("a", first_ip, first)]);
        assert_eq!(held.judged(vec![on_port("b", second_ip, second)]).claims(), nodes - 1, "{case}");
        let next_to = fresh().node("n", &[], 4000).judged(both());
        assert_eq!(next_to.claims(), nodes - 1, "{case}");
    }
}

#[test]
fn pods_that_the_first_plan_leaves_out_get_a_place_by_moving_others() {
    // Seated one by one where they first fit, the largest takes the node that the other two would share.
    let world = world(vec![]).node("a", &[], 4000).node("b", &[], 3000);
    for priority in [0, 7] {
        let sized = |name: &str, cpu: i64| pod(name).asks("cpu", cpu).priority(priority);
        let answer = world.judged(vec![sized("large", 3000), sized("one", 2000), sized("two", 2000)]);
        assert_eq!(answer.placed(), 3);
        assert_eq!((answer.node("large"), answer.node("one"), answer.node("two")), ("b", "a", "a"));
    }
}
