use crate::fixture::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

// 01/AFF-02
#[test]
fn company_on_a_host_is_found_among_many_hosts() {
    let mut all = pods("other", 10, |sketch| sketch.label("app", "y").spread(spread_over(HOST, 1, &[("app", "y")])));
    all.push(pod("target").label("app", "x").asks("cpu", 100));
    all.push(pod("friend").together(near(HOST, &[("app", "x")])));
    let answer = world(vec![pool("p")]).solve(all);
    assert_eq!(answer.placed(), 12);
    assert_eq!(answer.target("friend"), answer.target("target"));
}

// 01/AFF-04
#[test]
fn pods_that_want_each_other_share_one_host_and_no_more_than_fit() {
    let stick = |sketch: PodSketch| sketch.label("app", "x").together(near(HOST, &[("app", "x")]));
    let answer = world(vec![pool("p").types(vec![shape("five").build()])]).solve(pods("a", 10, stick));
    assert_eq!((answer.placed(), answer.claims()), (5, 1));
}

// 01/AFF-08
#[test]
fn distance_on_hosts_works_in_both_directions() {
    for (shy, plain) in [(2000, 1000), (1000, 2000)] {
        let answer = world(vec![pool("p")]).solve(vec![
            pod("shy").asks("cpu", shy).apart(near(HOST, &[("app", "x")])),
            pod("plain").asks("cpu", plain).label("app", "x"),
        ]);
        assert_eq!(answer.placed(), 2);
        assert_ne!(answer.target("shy"), answer.target("plain"));
    }
}

// 01/AFF-09
#[test]
fn a_pod_that_must_avoid_every_zone_stays_pending() {
    let mut all: Vec<PodSketch> = (1..=3)
        .map(|zone| {
            pod(&format!("t{zone}")).label("app", "x").asks("cpu", 2000).selects(ZONE, &format!("In test-zone-{zone}"))
        })
        .collect();
    all.push(pod("shy").apart(near(ZONE, &[("app", "x")])));
    let answer = world(vec![pool("p")]).solve(all);
    assert_eq!(answer.placed(), 3);
    assert!(!answer.is_placed("shy"));
}

// 01/AFF-10
#[test]
fn owners_of_distance_in_every_zone_keep_the_plain_pod_out() {
    let mut world = world(vec![pool("p")]);
    for zone in 1..=3 {
        let node = format!("n{zone}");
        let owner = pod(&format!("owner-{zone}")).apart(near(ZONE, &[("app", "x")]));
        world = world.node(&node, &[(ZONE, &format!("test-zone-{zone}"))], 4000).running(&node, vec![owner]);
    }
    assert!(!world.solve(vec![pod("plain").label("app", "x")]).is_placed("plain"));
    assert!(world.solve(vec![pod("other").label("app", "y")]).is_placed("other"));
}

// 01/AFF-12 differs: 0013
#[test]
fn replicas_that_avoid_each_others_zone_take_one_pass() {
    let shy = |sketch: PodSketch| sketch.label("app", "x").apart(near(ZONE, &[("app", "x")]));
    let answer = world(vec![pool("p")]).solve(pods("a", 4, shy));
    assert_eq!(answer.skew("a", ZONE), [1, 1, 1], "and the fourth has nowhere to go");
}

// 01/AFF-13
#[test]
fn distance_by_architecture_gives_the_other_architecture() {
    let answer = world(vec![pool("p")]).solve(vec![
        pod("first").label("app", "x").asks("cpu", 2000).selects("kubernetes.io/arch", "In arm64"),
        pod("shy").apart(near("kubernetes.io/arch", &[("app", "x")])),
    ]);
    assert_eq!(answer.value("shy", "kubernetes.io/arch"), "amd64");
}

// 01/AFF-14
#[test]
fn company_that_does_not_exist_is_waited_for() {
    let answer = world(vec![pool("p")]).solve(vec![pod("a").together(near(HOST, &[("app", "nobody")]))]);
    assert!(!answer.is_placed("a"));
}

// 01/AFF-16
#[test]
fn a_chain_of_company_is_solved_in_any_order() {
    let chain = |order: &[usize]| -> Vec<PodSketch> {
        let links = [("db", None), ("web", Some("db")), ("cache", Some("web")), ("ui", Some("cache"))];
        order
            .iter()
            .map(|i| {
                let (name, needs) = links[*i];
                let sketch = pod(name).label("app", name).asks("cpu", 100 + 10 * *i as i64);
                needs.map_or_else(
                    || pod(name).label("app", name),
                    |needs| sketch.together(near(HOST, &[("app", needs)])),
                )
            })
            .collect()
    };
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let answer = world(vec![pool("p")]).solve(chain(&order));
        assert_eq!((answer.placed(), answer.claims()), (4, 1));
    }
}
