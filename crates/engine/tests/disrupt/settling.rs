//! Nodes that will have settled by the time at which a command begins. Decision 0073.

use std::time::Duration;

use engine::disrupt::{Rejection, Validity, begins_at};
use model::disruption::Stay;
use model::pod::DoNotDisrupt;

use crate::cluster::{Cluster, NOW, at, cluster};
use crate::fixture::*;

/// Nodes of a pool that asks for a minute of quiet, each with one small pod, and what it lacks of that minute. Whatever
/// is lacking, another node that has long settled has room for all pods.
fn settling(lacking: &[i64]) -> Cluster {
    let small = |name: &str| vec![pod(name).label("app", name).asks("cpu", 500)];
    let room = cluster(vec![pool("p").types(series(32))]).consolidate_after("p", Some(60));
    let room = room.machine("room", "fake-it-31", vec![pod("big").asks("cpu", 20_000)]).budget("p", &["100%"]);
    let room = room.tenure("room", |tenure| tenure.do_not_disrupt = DoNotDisrupt::Always);
    let nodes = lacking.iter().enumerate().fold(room, |cluster, (number, left)| {
        let name = format!("n{number}");
        cluster.machine(&name, "fake-it-3", small(&name)).tenure(&name, |tenure| {
            (tenure.last_pod_event, tenure.consolidatable) = (Some(at(NOW + left - 60)), None);
        })
    });
    Cluster { foresight: Duration::from_secs(20), ..nodes }
}

#[test]
fn a_node_that_settles_before_its_command_begins_is_chosen() {
    let soon = settling(&[18]);
    let command = soon.command();
    assert_eq!(command.nodes().next().unwrap().as_str(), "n0");
    assert_eq!(begins_at(&soon.scene(), &command), Some(at(NOW + 18)), "and not disturbed before that");
    let late = settling(&[21]);
    assert_eq!(late.stay("n0"), Stay::NotConsolidatable { until: Some(at(NOW + 21)) });
    assert_eq!(late.decide().look_again, Some(at(NOW + 1)), "when it will be chosen");
}

#[test]
fn an_empty_node_that_settles_before_its_command_begins_is_chosen() {
    let mut soon = settling(&[18]);
    soon.snapshot.pods.retain(|name, _| &*name.name != "n0");
    let command = soon.command();
    assert_eq!((command.leaving.len(), begins_at(&soon.scene(), &command)), (1, Some(at(NOW + 18))));
}

#[test]
fn empty_nodes_that_have_settled_do_not_wait_for_those_that_are_foreseen() {
    let mut both = settling(&[-100, 18]).tenure("n0", |tenure| tenure.consolidatable = Some(at(NOW - 40)));
    both.snapshot.pods.retain(|name, _| !["n0", "n1"].contains(&&*name.name));
    let command = both.command();
    assert_eq!((command.nodes().next().unwrap().as_str(), begins_at(&both.scene(), &command)), ("n0", None));
    both.under_way.push(command);
    assert_eq!(both.command().nodes().next().unwrap().as_str(), "n1", "its turn is next");
}

/// Pods may not be moved to a node where others came or went lately either.
#[test]
fn a_node_that_takes_pods_must_have_settled_as_well() {
    let around =
        |lacking: i64| settling(&[10]).tenure("room", |tenure| tenure.last_pod_event = Some(at(NOW + lacking - 60)));
    let soon = around(19);
    assert_eq!(begins_at(&soon.scene(), &soon.command()), Some(at(NOW + 19)));
    assert!(around(40).decide().commands.iter().all(|command| command.destinations().count() == 0));
}

/// Who is looked at a second time must have settled by then, whatever was foreseen.
#[test]
fn the_second_look_foresees_nothing() {
    let before = settling(&[10]);
    let command = before.command();
    let now = Cluster { foresight: Duration::ZERO, ..before };
    assert!(matches!(now.holds(&command), Validity::Fails { why: Rejection::Churn, .. }));
    let later = now.tenure("n0", |tenure| tenure.consolidatable = Some(at(NOW)));
    assert!(matches!(later.holds(&command), Validity::Holds { .. }), "its claim says so now");
}

#[test]
fn the_first_of_a_wave_wait_for_the_rest_of_it() {
    let wave = settling(&[12, 14, 26]);
    let until = at(NOW + 6);
    assert_eq!(wave.decide().commands, [], "the last of them cannot be chosen yet");
    assert_eq!(wave.stay("n0"), Stay::OthersSettle { until });
    assert_eq!(wave.decide().look_again, Some(until), "when it can");
    let whole = settling(&[6, 8, 20]);
    assert_eq!(whole.all_leaving(), ["n0", "n1", "n2"]);
}

#[test]
fn nobody_waits_long_for_others() {
    assert_eq!(settling(&[5, 14, 26]).all_leaving(), ["n0", "n1"], "the first is due");
    assert_eq!(settling(&[12, 31]).all_leaving(), ["n0"], "the other is no part of the wave");
    assert_eq!(settling(&[-100, 26]).stay("n0"), Stay::NotConsolidatable { until: None }, "its claim does not say so");
    for lacking in [&[-100, 26][..], &[-100, 12, 26]] {
        let settled = settling(lacking).tenure("n0", |tenure| tenure.consolidatable = Some(at(NOW - 40)));
        assert_eq!(settled.all_leaving(), ["n0"], "who has settled waits for no wave: {lacking:?}");
    }
}
