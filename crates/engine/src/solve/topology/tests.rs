use std::collections::BTreeMap;
use std::sync::Arc;

use model::node::{Node, Progress};
use model::pod::Pod;
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::Resources;
use model::snapshot::Snapshot;
use model::time::Instant;
use model::topology::{Namespaces, PodTerm, Selector};
use model::volume::AttachLimits;

use super::super::Question;
use super::super::catalogue::Catalogue;
use super::super::greedy::Greedy;
use super::super::reserve::Reservations;
use super::super::world::World;

fn pod(name: &str, app: &str) -> Pod {
    let mut pod = Pod::pending("default", name, Resources::default());
    pod.labels.insert("app".into(), app.into());
    pod
}

fn away_from(app: &str) -> PodTerm {
    let of_app = Requirements::default().with("app", Requirement::new(Operator::In, [app]));
    PodTerm { key: "zone".into(), selector: Selector::Matching(of_app), namespaces: Namespaces::All }
}

#[test]
fn distance_that_keeps_nobody_of_the_question_away_is_no_group() {
    let mut snapshot = Snapshot::empty(Instant::from_unix_seconds(0));
    let node = Node {
        name: "n".into(),
        pool: None,
        labels: [("zone".into(), "a".into())].into(),
        taints: Vec::new(),
        capacity: Resources::default(),
        allocatable: Resources::default(),
        attach_limits: AttachLimits::new(),
        progress: Progress::Initialized,
        is_leaving: false,
        created: Instant::from_unix_seconds(0),
        tenure: None,
    };
    snapshot.nodes.insert(node.name.clone(), Arc::new(node));
    for number in 0..60 {
        let app = format!("app-{}", number % 20);
        let mut standing = pod(&format!("standing-{number}"), &app);
        standing.node = Some("n".into());
        standing.wants.apart.push(away_from(&app));
        snapshot.pods.insert(standing.name.clone(), Arc::new(standing));
    }
    let asked = pod("asked", "app-7");
    let (catalogue, question) = (Catalogue::of(&snapshot), Question::about(vec![&asked]));
    let reservations = Reservations::new(&snapshot, &BTreeMap::new(), &question.without);
    let world = World::build(&snapshot, vec![&asked], &question, Vec::new(), (&catalogue, reservations));
    let greedy = Greedy::new(&world, u64::MAX);
    assert_eq!(greedy.topology.groups.len(), 1);
    assert_eq!(greedy.topology.standing.iter().filter(|footprint| !footprint.owns.is_empty()).count(), 3);
    assert_eq!(greedy.classes[0].unwanted.len(), 1);
}
