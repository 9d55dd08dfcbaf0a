use crate::fixture::*;

fn check(pool_requirement: Option<&str>, pod_requirement: &str, is_placed: bool) {
    let pool = match pool_requirement {
        Some(text) => pool("p").requires("custom", text),
        None => pool("p"),
    };
    let answer = world(vec![pool]).solve(vec![pod("a").selects("custom", pod_requirement)]);
    assert_eq!(answer.is_placed("a"), is_placed, "pool {pool_requirement:?}, pod {pod_requirement}");
}

// 01/CON-01
#[test]
fn a_pool_label_admits_pods_that_do_not_contradict_it() {
    let world = world(vec![pool("p").label("team", "a")]);
    let answer = world.solve(vec![
        pod("free"),
        pod("same").selects("team", "In a"),
        pod("one-of").selects("team", "In a b"),
        pod("other").selects("team", "In b"),
    ]);
    assert!(answer.is_placed("free") && answer.is_placed("same") && answer.is_placed("one-of"));
    assert!(!answer.is_placed("other"));
}

// 01/CON-02
#[test]
fn a_key_that_the_pool_does_not_define_is_absent() {
    check(None, "In x", false);
    check(None, "Exists", false);
    check(None, "NotIn x", true);
    check(None, "DoesNotExist", true);
}

// 01/CON-03
#[test]
fn a_key_that_the_pool_defines_is_there() {
    check(Some("In x"), "In x", true);
    check(Some("In x"), "NotIn x", false);
    check(Some("In x"), "Exists", true);
    check(Some("In x"), "DoesNotExist", false);
    check(Some("In x"), "In y", false);
    check(Some("In x"), "NotIn y", true);
}

// 01/CON-04
#[test]
fn zones_of_the_pool_bound_the_zones_of_its_pods() {
    let zone = "topology.kubernetes.io/zone";
    let world = world(vec![pool("p").requires(zone, "In test-zone-1 test-zone-2")]);
    let answer = world.solve(vec![
        pod("one").selects(zone, "In test-zone-2"),
        pod("outside").selects(zone, "In test-zone-3"),
        pod("nowhere").selects(zone, "In test-zone-9"),
    ]);
    assert_eq!(answer.value("one", zone), "test-zone-2");
    assert!(!answer.is_placed("outside") && !answer.is_placed("nowhere"));
}

// 01/CON-05
#[test]
fn numbers_select_types() {
    let world = world(vec![pool("p").types(series(6))]);
    for (text, expected) in [
        ("Gt 4", vec!["fake-it-4", "fake-it-5"]),
        ("Gte 6", vec!["fake-it-5"]),
        ("Lt 2", vec!["fake-it-0"]),
        ("Lte 2", vec!["fake-it-0", "fake-it-1"]),
    ] {
        let answer = world.solve(vec![pod("a").selects("integer", text)]);
        assert_eq!(answer.types("a"), expected, "{text}");
    }
    assert!(!world.solve(vec![pod("a").selects("integer", "Gt 6")]).is_placed("a"));
}

// 01/CON-06
#[test]
fn exists_never_widens_a_list() {
    let world = world(vec![pool("p").requires("custom", "In x y").requires("custom", "Exists")]);
    assert!(!world.solve(vec![pod("a").selects("custom", "In z")]).is_placed("a"));
    assert!(world.solve(vec![pod("a").selects("custom", "In x").selects("custom", "Exists")]).is_placed("a"));
}

// 01/CON-07
#[test]
fn compatible_pods_share_a_node_and_others_do_not() {
    let world = world(vec![pool("p").requires("custom", "In a b")]);
    let together = world.solve(vec![pod("x").selects("custom", "In a"), pod("y").selects("custom", "NotIn b")]);
    assert_eq!(together.claims(), 1);
    assert_eq!(together.claim("x").labels.get("custom").map(|value| &**value), Some("a"));
    let apart = world.solve(vec![pod("x").selects("custom", "In a"), pod("y").selects("custom", "In b")]);
    assert_eq!(apart.claims(), 2);
    assert_eq!(apart.claim("y").labels.get("custom").map(|value| &**value), Some("b"));
}

// 01/CON-10
#[test]
fn every_well_known_label_can_be_asked_for() {
    let world = world(vec![pool("p")]);
    for (key, text) in [
        ("topology.kubernetes.io/zone", "In test-zone-3"),
        ("node.kubernetes.io/instance-type", "In small-instance-type"),
        ("kubernetes.io/arch", "In arm64"),
        ("kubernetes.io/os", "In windows"),
        ("karpenter.sh/capacity-type", "In spot"),
    ] {
        assert!(world.solve(vec![pod("a").selects(key, text)]).is_placed("a"), "{key}");
    }
    let answer = world.solve(vec![pod("a").selects("kubernetes.io/arch", "In arm64")]);
    assert_eq!(answer.types("a"), ["arm-instance-type"]);
}

#[test]
fn a_contradiction_is_not_placed_anywhere() {
    let world = world(vec![pool("p")]).node("n", &[], 8000);
    let answer = world.solve(vec![pod("a").selects("foo", "In a").selects("foo", "In b")]);
    assert!(!answer.is_placed("a"), "not even where the label is absent");
}

// 01/PCK-04
#[test]
fn an_optional_label_tells_types_apart() {
    let mut types = usual_types();
    types.push(shape("big").with("cpu", 8000).with("memory", 16 * GI).build());
    let world = world(vec![pool("p").types(types)]);
    assert!(
        world
            .solve(vec![pod("a").selects("special", "Exists")])
            .types("a")
            .iter()
            .all(|t| t == "big" || t == "arm-instance-type")
    );
    assert!(!world.solve(vec![pod("a").selects("special", "DoesNotExist")]).types("a").contains(&"big".to_owned()));
}
