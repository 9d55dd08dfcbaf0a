//! The same laws for clusters of more nodes, of many types that are sold at different prices.

use std::sync::Arc;

use engine::disrupt::decide;
use model::instance::InstanceType;
use model::labels::{CAPACITY_TYPE, ZONE};
use model::node::Drifted;
use model::price::Price;
use proptest::prelude::*;
use proptest::sample::select;

use crate::cluster::{Cluster, NOW, at, cluster};
use crate::fixture::*;
use crate::laws::{any_policies, check_promises, come_to_rest_lawfully, counted, governed, settled};
use crate::random::{any_twist, draws, pods_with, seeded};

/// How and where a machine is sold, and for which part of its price.
const WAYS: [(&str, &str, f64); 5] = [
    ("spot", "test-zone-1", 0.4),
    ("spot", "test-zone-2", 0.5),
    ("on-demand", "test-zone-1", 1.0),
    ("on-demand", "test-zone-2", 1.05),
    ("on-demand", "test-zone-3", 1.1),
];

/// Types of a series, by their places in it, at a price for each way.
fn menu(places: &[usize]) -> Vec<Arc<InstanceType>> {
    let all = series(16);
    let sold = |place: &usize| {
        let mut changed = InstanceType::clone(&all[*place]);
        for one in &mut changed.offerings {
            let is_sold = |(kind, zone, _): &&(&str, &str, f64)| {
                one.label(CAPACITY_TYPE).is_some_and(|own| **own == **kind)
                    && one.label(ZONE).is_some_and(|own| **own == **zone)
            };
            let (.., part) = WAYS.iter().find(is_sold).unwrap();
            one.price = Price::from_dollars(one.price.dollars() * part).unwrap();
        }
        Arc::new(changed)
    };
    places.iter().map(sold).collect()
}

const OF_P: [usize; 5] = [0, 1, 3, 7, 15];
const OF_Q: [usize; 3] = [2, 5, 11];

pub(crate) fn any_many() -> impl Strategy<Value = Cluster> {
    let places: Vec<usize> = OF_P.into_iter().cycle().take(15).chain(OF_Q).collect();
    let few = proptest::collection::vec(any_twist(), 1..3);
    let pods = pods_with("pod", 4, prop_oneof![8 => Just(Vec::new()), 1 => few]);
    let oddities = (0..20_u8, 0..10_u8, 0..4_u8);
    let node = (select(places), select(WAYS.to_vec()), pods, oddities);
    let budgets = ["0", "2", "5", "50%", "100%", "100%"];
    (proptest::collection::vec(node, 8..30), any_policies(&budgets)).prop_map(|(nodes, policies)| {
        let empty = cluster(vec![pool("p").types(menu(&OF_P)), pool("q").types(menu(&OF_Q))]);
        let built = nodes.into_iter().enumerate().fold(empty, |cluster, (number, node)| {
            let (place, (kind, zone, _), pods, (kept, drifted, grace)) = node;
            let name = format!("n{number:02}");
            let own = |sketch: PodSketch| {
                sketch.change(|pod| {
                    pod.name = model::ids::PodName::new("default", &format!("{}-{number:02}", pod.name.name))
                })
            };
            let pods = pods.into_iter().map(own).collect();
            let cluster = cluster.machine(&name, &format!("fake-it-{place}"), pods);
            cluster.label(&name, CAPACITY_TYPE, kind).label(&name, ZONE, zone).tenure(&name, |tenure| {
                if kept == 0 {
                    tenure.do_not_disrupt = model::pod::DoNotDisrupt::Always;
                }
                tenure.grace = (grace == 0).then_some(std::time::Duration::from_secs(60));
                tenure.drifted = (drifted == 0).then(|| Drifted { since: at(NOW - 9), reason: "x".into() });
            })
        });
        governed(built, &policies)
    })
}

proptest! {
    #![proptest_config(seeded(100))]

    #[test]
    fn no_decision_about_many_breaks_a_budget_a_protection_or_a_rule_of_the_scheduler(cluster in any_many()) {
        let cluster = settled(cluster);
        check_promises(&cluster, &cluster.decide());
    }

    #[test]
    fn many_come_to_rest_and_never_get_dearer(cluster in any_many()) {
        come_to_rest_lawfully(cluster);
    }
}

#[test]
fn the_clusters_of_many_give_commands_of_every_kind() {
    let clusters = draws(any_many(), 150);
    let counted = counted(&clusters);
    println!("{counted:?}");
    for (method, least) in [("empty", 30), ("static", 5), ("drift", 30), ("multi", 5), ("single", 50)] {
        assert!(counted.get(method).is_some_and(|count| *count >= least), "{method}: {counted:?}");
    }
    let decisions = clusters.iter().map(|cluster| decide(&cluster.scene(), &cluster.rules));
    let several = decisions.flat_map(|decision| decision.commands).filter(|command| command.replacements.len() > 1);
    assert!(several.count() > 0, "nobody was replaced by several");
}
