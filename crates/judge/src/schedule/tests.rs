use model::ids::NodeName;
use model::node::Progress;
use model::plan::{Plan, Target};
use model::requirements::Requirements;
use model::snapshot::Snapshot;
use model::taints::Effect;
use proptest::prelude::*;

use super::*;
use crate::replay::replay;
use crate::rules::filter;
use crate::short::{add_daemon, add_pool, claim, instance_type, node, plan, pod, pod_name, snapshot};

fn waiting(snapshot: &Snapshot) -> Vec<Arc<Pod>> {
    snapshot.pods.values().filter(|pod| pod.node.is_none()).cloned().collect()
}

/// Schedules every pod without a node; expects `pod>node` words in the order of the pods' names, left ones without a node.
fn check(nodes: &[&str], pods: &[&str], expected: &str) {
    let snapshot = snapshot(nodes, pods);
    let mut world = World::new(&snapshot);
    let pods = waiting(&snapshot);
    let left = schedule(&mut world, &pods);
    let place =
        |pod: &Arc<Pod>| format!("{}>{}", pod.name.name, world.place_of(&pod.name).map_or("", NodeName::as_str));
    let words: Vec<String> = pods.iter().map(place).collect();
    assert_eq!(words.join(" "), expected);
    assert_eq!(left.len(), pods.iter().filter(|pod| world.place_of(&pod.name).is_none()).count());
}

#[test]
fn priority_then_age_then_name_decides_who_comes_first() {
    check(&["n cpu=1"], &["a cpu=1", "b cpu=1 prio=1"], "a> b>n");
    check(&["n cpu=1"], &["a cpu=1 created=2", "b cpu=1 created=1"], "a> b>n");
    check(&["n cpu=1"], &["a cpu=1", "b cpu=1"], "a>n b>");
}

#[test]
fn refused_pods_are_tried_again_when_others_have_come() {
    check(&["n zone=a"], &["a near=zone:w", "b app=w"], "a>n b>n");
    check(&["n zone=a"], &["a near=zone:w"], "a>");
}

#[test]
fn the_emptier_node_is_preferred_and_equal_ones_go_by_name() {
    check(&["m cpu=4", "n cpu=4"], &["x on=m cpu=2 memory=50000000000", "p cpu=1 memory=25000000000"], "p>n");
    check(&["m cpu=4", "n cpu=4"], &["p cpu=1"], "p>m");
}

#[test]
fn pods_that_ask_for_nothing_spread_too() {
    check(&["m cpu=4", "n cpu=4"], &["x on=m", "p"], "p>n");
}

#[test]
fn the_node_that_becomes_more_balanced_is_preferred() {
    // Afterwards both are 40 % free on average, but on m the shares drift apart and on n they meet.
    let nodes = ["m cpu=10 memory=1000", "n cpu=10 memory=1000"];
    check(&nodes, &["x on=m cpu=6 memory=200", "y on=n cpu=2 memory=600", "p cpu=3 memory=100"], "p>n");
}

#[test]
fn soft_taints_are_avoided() {
    check(&["m taint=x:PreferNoSchedule", "n"], &["p"], "p>n");
    check(&["m taint=x:PreferNoSchedule", "n"], &["p !x"], "p>m");
}

#[test]
fn preferred_terms_attract() {
    check(&["m zone=a", "n zone=b"], &["p ~zone=b"], "p>n");
}

#[test]
fn soft_spread_prefers_the_emptier_domain() {
    let standing = ["x app=w on=m", "p app=w soft=zone:1:w"];
    check(&["m zone=a", "m2 zone=a", "n zone=b"], &standing, "p>n");
    check(&["m zone=a", "n"], &standing, "p>m");
    // Within a host the pods are counted on the host itself.
    check(&["m", "n"], &["x app=w on=m", "p app=w soft=host:1:w"], "p>n");
}

#[test]
fn wishes_about_other_pods_count_both_ways() {
    check(&["m zone=a", "n zone=b"], &["x app=w on=n", "p like=zone:w"], "p>n");
    check(&["m zone=a", "n zone=b"], &["x app=w on=m", "p dislike=zone:w"], "p>n");
    check(&["m zone=a", "n zone=b"], &["x like=zone:v on=n", "p app=v"], "p>n");
    check(&["m zone=a", "n zone=b"], &["x near=zone:v on=n", "p app=v"], "p>n");
    check(&["m zone=a", "n zone=b"], &["x dislike=zone:v on=m", "p app=v"], "p>n");
}

#[test]
fn points_are_those_of_kube_scheduler() {
    let snapshot = snapshot(&["n cpu=4", "t cpu=4 taint=x:PreferNoSchedule"], &["x cpu=1 memory=10000000000 on=n"]);
    let world = World::new(&snapshot);
    let nodes: Vec<&Node> = world.nodes().collect();
    let incoming = pod("p cpu=1 memory=10000000000");
    // n: taints 3*100, free (50 + 80)/2 = 65, balance 50 + (50 + 85 - 92)/2 = 71. t: taints 0, free (75 + 90)/2 = 82,
    // balance 50 + (50 + 92 - 100)/2 = 71.
    assert_eq!(score::totals(&world, &incoming, &nodes), [300 + 65 + 71, 82 + 71]);
}

#[test]
fn a_leaving_node_loses_its_pods_to_others() {
    let town = snapshot(&["m leaving", "n"], &["x on=m"]);
    let mut world = World::new(&town);
    assert!(schedule(&mut world, &[town.pods[&pod_name("x")].clone()]).is_empty());
    assert_eq!(world.place_of(&pod_name("x")), Some(&"n".into()));
    let after = world.settled(&town);
    assert_eq!(after.pods[&pod_name("x")].node, Some("n".into()));
}

#[test]
fn a_pod_that_lost_its_place_and_found_none_waits() {
    let town = snapshot(&["m leaving", "n cpu=1"], &["x on=m cpu=2"]);
    let mut world = World::new(&town);
    assert_eq!(schedule(&mut world, &[town.pods[&pod_name("x")].clone()]), [pod_name("x")]);
    let after = &world.settled(&town).pods[&pod_name("x")];
    assert!(after.node.is_none() && after.is_unschedulable);
}

#[test]
fn room_for_daemons_counts_as_used() {
    let mut town = snapshot(&["m cpu=4 zone=a", "n cpu=4 zone=b"], &["p cpu=1"]);
    add_daemon(&mut town, "d cpu=2 memory=50000000000 @zone=a");
    let mut world = World::new(&town);
    schedule(&mut world, &waiting(&town));
    assert_eq!(world.place_of(&pod_name("p")), Some(&"n".into()));
}

#[test]
fn a_settled_world_can_be_planned_from_again() {
    let mut town = snapshot(&["old cpu=1"], &["x cpu=2", "y cpu=4", "z cpu=1 on=old", "e on=old ended"]);
    add_pool(&mut town, &["t cpu=2"], |_| {});
    let mut coming = node("n");
    let types = vec![Arc::new(instance_type("u cpu=1"))];
    coming.progress = Progress::Unlaunched { types, requirements: Requirements::default() };
    town.nodes.insert("n".into(), Arc::new(coming));
    let mut world = World::with_plan(&town, &plan("x>0", vec![claim("t")]));
    assert_eq!(schedule(&mut world, &waiting(&town)), [pod_name("y")]);
    let after = world.settled(&town);
    let names: Vec<&str> = after.nodes.keys().map(NodeName::as_str).collect();
    assert_eq!(names, ["claim-0", "n", "old"]);
    assert!(after.nodes.values().all(|node| node.is_initialized()));
    assert_eq!(after.nodes[&"claim-0".into()].allocatable.cpu_milli, 2000);
    assert_eq!(after.pods[&pod_name("x")].node, Some("claim-0".into()));
    assert!(after.pods[&pod_name("y")].node.is_none() && after.pods[&pod_name("y")].is_unschedulable);
    assert_eq!(after.pods[&pod_name("z")], town.pods[&pod_name("z")]);
    assert_eq!(after.pods[&pod_name("e")], town.pods[&pod_name("e")]);
}

fn node_text() -> impl Strategy<Value = String> {
    let zone = prop::sample::select(vec!["zone=a", "zone=b", "zone=c", ""]);
    let taint = prop::sample::select(vec!["", "", "", "taint=x:NoSchedule", "taint=y:PreferNoSchedule"]);
    let ends = prop::sample::select(vec!["", "", "", "leaving", "ebs=1"]);
    (1..6_i64, zone, taint, ends).prop_map(|(cpu, zone, taint, ends)| format!("cpu={cpu} {zone} {taint} {ends}"))
}

fn pod_text() -> impl Strategy<Value = String> {
    let wish = prop::sample::select(vec![
        "!x",
        "@zone=a",
        "?zone=a ?zone=b",
        "near=zone:v",
        "near=host:w",
        "apart=host:w",
        "apart=zone:v",
        "spread=zone:1:w",
        "spread=host:2:v",
        "soft=zone:1:v",
        "port=80",
        "vol=a",
        "vol=b",
        "vzone=b",
        "~zone=c",
        "like=zone:w",
        "dislike=host:v",
        "prio=1",
        "created=1",
    ]);
    let wishes = prop::collection::vec(wish, 0..4).prop_map(|wishes| wishes.join(" "));
    let app = prop::sample::select(vec!["app=v", "app=w"]);
    let stands = prop::option::weighted(0.2, 0..4_usize);
    (0..4_i64, app, wishes, stands).prop_map(|(cpu, app, wishes, stands)| {
        let on = stands.map_or(String::new(), |node| format!("on=n{node}"));
        format!("cpu={cpu} {app} {wishes} {on}")
    })
}

/// Up to four nodes and eight pods, some of which stand already.
fn small_world() -> impl Strategy<Value = Snapshot> {
    (prop::collection::vec(node_text(), 1..5), prop::collection::vec(pod_text(), 1..9)).prop_map(|(nodes, pods)| {
        let named = |prefix: &str, texts: &[String]| -> Vec<String> {
            texts.iter().enumerate().map(|(index, text)| format!("{prefix}{index} {text}")).collect()
        };
        let (nodes, pods) = (named("n", &nodes), named("p", &pods));
        let borrowed = |texts: &'_ [String]| texts.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        snapshot(&borrowed(&nodes).lines().collect::<Vec<_>>(), &borrowed(&pods).lines().collect::<Vec<_>>())
    })
}

/// What holds at the end whatever the order was, said without the rules' code: nothing that `pods` brought overfills a
/// node, stands on a taint, or shares a domain with somebody it shuns.
fn assert_sound(world: &World, pods: &[Arc<Pod>]) {
    for pod in pods {
        let Some(node) = world.place_of(&pod.name).and_then(|name| world.node(name)) else { continue };
        let cpu: i64 = node.pods().map(|other| other.requests.cpu_milli).sum();
        assert!(pod.requests.cpu_milli == 0 || cpu <= node.allocatable.cpu_milli, "{} is overfull", node.name);
        assert!(!node.is_leaving, "{} takes nobody", node.name);
        let is_hard = node.taints.iter().any(|taint| taint.effect == Effect::NoSchedule);
        assert!(!is_hard || !pod.wants.tolerations.is_empty(), "{} is tainted", node.name);
        for other in node.pods().filter(|other| other.name != pod.name) {
            assert!(pod.wants.ports.is_empty() || other.wants.ports.is_empty(), "a port is held twice");
        }
        for term in &pod.wants.apart {
            let Some(domain) = node.labels.get(&term.key) else { continue };
            let near = world.nodes().filter(|other| other.labels.get(&term.key) == Some(domain));
            let mut others = near.flat_map(Node::pods).filter(|other| other.name != pod.name);
            assert!(!others.any(|other| term.selector.selects(&other.labels)), "{} is not alone", pod.name);
        }
    }
}

proptest! {
    #[test]
    fn scheduling_binds_only_what_the_filter_lets_through(town in small_world()) {
        let mut world = World::new(&town);
        let pods = waiting(&town);
        let mut placements = Vec::new();
        let left = schedule_watched(&mut world, &pods, &mut |world, pod, node| {
            assert_eq!(filter(world, pod, node), Ok(()));
            placements.push((pod.name.clone(), Target::Node(node.clone())));
        });
        assert_sound(&world, &pods);
        for pod in pods.iter().filter(|pod| left.contains(&pod.name)) {
            prop_assert!(world.nodes().all(|node| filter(&world, pod, &node.name).is_err()), "{} was left out", pod.name);
        }
        let verdict = replay(&town, &Plan { placements, ..Plan::default() });
        prop_assert!(verdict.is_accepted(), "{verdict}");
    }

    #[test]
    fn the_order_of_the_input_changes_nothing(
        (town, shuffled) in small_world().prop_flat_map(|town| {
            let pods = waiting(&town);
            (Just(town), Just(pods).prop_shuffle())
        })
    ) {
        let places = |pods: &[Arc<Pod>]| {
            let mut world = World::new(&town);
            let left = schedule(&mut world, pods);
            let placed: Vec<_> = town.pods.keys().map(|name| world.place_of(name).cloned()).collect();
            (left, placed)
        };
        prop_assert_eq!(places(&waiting(&town)), places(&shuffled));
    }
}
