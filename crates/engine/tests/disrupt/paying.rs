//! What a move must save, and which is worth most.

use std::time::Duration;

use model::disruption::{Moved, Stay};
use model::ids::PodName;

use crate::cluster::{NOW, at, cluster};
use crate::consolidation::{cpu, priced, sized};
use crate::fixture::*;

#[test]
fn a_pod_that_was_just_moved_is_left_alone_for_a_while() {
    let name = PodName::new("default", "x");
    let with = |moved: i64, times: u32| {
        let mut cluster = sized().machine("n", "fake-it-30", vec![cpu("x", 500)]);
        cluster.moved.insert(name.clone(), Moved { when: at(moved), times });
        cluster
    };
    // Twice as long after every further move, up to half an hour. Decisions 0066 and 0074.
    for (times, rest) in [(1, 30), (2, 60), (3, 120), (7, 1920), (8, 1920), (100, 1920)] {
        let until = at(NOW + 1);
        assert_eq!(with(NOW - rest + 1, times).stay("n"), Stay::MovedLately { pod: name.clone(), until }, "{times}");
        assert_eq!(with(NOW - rest, times).all_leaving(), ["n"], "{times}");
    }
}

/// What a move must save doubles with half the time for which the last one has held. Decisions 0077 and 0081.
#[test]
fn a_pod_that_was_moved_lately_is_moved_again_only_for_more_money() {
    let types = series(3);
    let menu = vec![priced(&types[1], |_, _| Some(0.99)), priced(&types[2], |_, _| Some(1.0))];
    let with = |moved: Option<i64>| {
        let mut own = cluster(vec![pool("p").types(menu.clone())]).machine("n", "fake-it-2", vec![cpu("x", 500)]);
        own.moved.extend(moved.map(|ago| (PodName::new("default", "x"), Moved { when: at(NOW - ago), times: 1 })));
        own
    };
    assert_eq!(with(None).all_leaving(), ["n"]);
    assert!(matches!(with(Some(40)).stay("n"), Stay::PaysBackLate { .. }), "{}", with(Some(40)).stay("n"));
    assert_eq!(
        with(Some(40)).decide().look_again,
        Some(at(NOW + 3)),
        "after a 2048th of a day it costs half as much, though nothing happens"
    );
    assert!(matches!(with(Some(84)).stay("n"), Stay::PaysBackLate { .. }), "{}", with(Some(84)).stay("n"));
    assert_eq!(with(Some(84)).decide().look_again, Some(at(NOW + 1)));
    assert_eq!(with(Some(85)).all_leaving(), ["n"]);
    assert_eq!(with(Some(85)).command().worth.cost.as_f64(), 1024.0, "a minute and a half are a 1024th of a day");
    assert_eq!(with(Some(168)).command().worth.cost.as_f64(), 1024.0);
    assert_eq!(with(Some(169)).command().worth.cost.as_f64(), 512.0);
    let alike = |name: &str| vec![pod(name).label("app", "alike").asks("cpu", 1600)];
    let mut twins = cluster(vec![pool("p").types(menu.clone())]).machine("n", "fake-it-2", alike("x")).machine(
        "twin",
        "fake-it-2",
        alike("y"),
    );
    let moved = |ago: i64| Moved { when: at(NOW - ago), times: 1 };
    twins.moved.insert(PodName::new("default", "x"), moved(40));
    assert_eq!(
        twins.all_leaving(),
        ["twin"],
        "what holds for one holds for others like it only if it costs them as much"
    );
    twins.rules.pod_move_cooldown = Duration::from_secs(10);
    twins.moved.insert(PodName::new("default", "y"), moved(20));
    let late = |name: &str| match twins.stay(name) {
        Stay::PaysBackLate { after } => after,
        other => panic!("{name}: {other}"),
    };
    assert!(late("n") < late("twin"), "each is told its own time");
}

/// A scheduler that mixes pods fills the cores of one and the memory of another. Decision 0078.
#[test]
fn of_two_nodes_the_one_goes_whose_price_buys_less_room() {
    let sized = |name: &str, gib: i64, price: f64| {
        let made = shape(name).with("cpu", 4000).with("memory", gib << 30).with("pods", 20).build();
        priced(&made, |_, _| Some(price))
    };
    let menu = [("apt", 16, 1.0), ("other", 16, 1.0), ("roomy", 64, 1.3), ("cramped", 8, 1.0)];
    let menu = menu.map(|(name, gib, price)| sized(name, gib, price)).to_vec();
    let pods = |names: &[&str]| names.iter().map(|name| pod(name).asks("cpu", 900).asks("memory", 2 << 30)).collect();
    let two = |one: &str, other: &str| {
        let [few, more] = [pods(&["a"]), pods(&["b", "c"])];
        cluster(vec![pool("p").types(menu.clone())]).machine(one, one, few).machine(other, other, more).all_leaving()
    };
    assert_eq!(two("apt", "roomy"), ["roomy"], "nobody needs its memory, although more pods must move");
    assert_eq!(two("roomy", "apt"), ["roomy"]);
    assert_eq!(two("apt", "cramped"), ["cramped"], "its cores are of little use, although more pods must move");
    for (few, more) in [("apt", "other"), ("other", "apt")] {
        assert_eq!(two(few, more), [few], "between equals, fewer pods have to move");
    }
}

/// The cost of a move may be behind another reason, and nothing need happen before it is looked at again.
#[test]
fn a_machine_that_is_only_just_cheaper_is_looked_at_again() {
    let types = series(3);
    // Whichever zone it comes in, it must have paid in time; in one of them it costs a little more.
    let nearly = priced(&types[1], |_, zone| Some(if zone == "test-zone-1" { 0.98 } else { 0.99 }));
    let menu = vec![nearly, priced(&types[2], |_, _| Some(1.0))];
    let with = |ago: i64| {
        let mut own = cluster(vec![pool("p").types(menu.clone())]).machine("n", "fake-it-2", vec![cpu("x", 500)]);
        own.moved.insert(PodName::new("default", "x"), Moved { when: at(NOW - ago), times: 1 });
        own
    };
    assert_eq!(with(43).stay("n"), Stay::NotCheaper);
    assert_eq!(with(43).decide().look_again, Some(at(NOW + 300)));
    assert_eq!(with(3600).all_leaving(), ["n"]);
}

#[test]
fn a_replacement_that_hardly_saves_anything_is_not_worth_the_trouble() {
    let types = series(3);
    let with = |price: f64| {
        let menu = vec![priced(&types[1], |_, _| Some(price)), priced(&types[2], |_, _| Some(1.0))];
        cluster(vec![pool("p").types(menu)]).machine("n", "fake-it-2", vec![cpu("x", 500)])
    };
    assert!(matches!(with(0.999).stay("n"), Stay::PaysBackLate { .. }), "{:?}", with(0.999).stay("n"));
    assert_eq!(with(0.99).all_leaving(), ["n"]);
    assert_eq!(with(1.0).stay("n"), Stay::NotCheaper);
    let mut patient = with(0.999);
    patient.rules.payback = std::time::Duration::from_secs(365 * 24 * 3600);
    assert_eq!(patient.all_leaving(), ["n"]);
}
