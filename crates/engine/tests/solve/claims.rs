//! What claims ask for.

use model::instance::{InstanceType, Offering};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL};
use model::price::Price;
use model::snapshot::MinValuesPolicy;
use model::why::Obstacle;

use crate::fixture::*;

fn types_of(count: i64) -> Vec<std::sync::Arc<InstanceType>> {
    series(count)
}

// 01/CLM-01
#[test]
fn a_claim_names_its_types_its_pool_and_the_pools_own_demands() {
    let world = world(vec![pool("p").requires("team", "In a b").types(types_of(3))]);
    let answer = world.solve(vec![pod("x").asks("cpu", 1500)]);
    let requirements = &answer.claim("x").requirements;
    assert_eq!(requirements.get(INSTANCE_TYPE), Some(&req("In fake-it-1 fake-it-2")));
    assert_eq!(requirements.get(NODE_POOL), Some(&req("In p")));
    assert_eq!(requirements.get("team"), Some(&req("In a b")));
    assert_eq!(requirements.get("kubernetes.io/hostname"), None);
}

// 01/CLM-03
#[test]
fn a_claim_asks_for_what_its_pods_ask_and_counts_them() {
    let answer = world(vec![pool("p")]).solve(pods("a", 3, |sketch| sketch.asks("cpu", 500).asks("memory", 100 * MI)));
    let requests = &answer.plan.claims[0].requests;
    assert_eq!((requests.cpu_milli, requests.memory_bytes, requests.pods), (1500, 300 * MI, 3));
}

// 01/CLM-05
#[test]
fn labels_that_only_requirements_speak_of_get_a_value_that_satisfies() {
    for (text, satisfied) in
        [("In x y", "In x y"), ("NotIn x", "NotIn x"), ("Lt 5", "Lt 5"), ("Gt 7", "Gt 7"), ("Exists", "Exists")]
    {
        let answer = world(vec![pool("p").requires("custom", "Exists").requires("custom", text)]).solve(vec![pod("a")]);
        let labels = &answer.claim("a").labels;
        let value = labels.get("custom").unwrap_or_else(|| panic!("{text} gives no label"));
        assert!(req(satisfied).has(value), "{text} gives {value}");
    }
    let absent =
        world(vec![pool("p").requires("custom", "DoesNotExist")]).solve(vec![pod("a").selects("other", "NotIn x")]);
    assert!(absent.claim("a").labels.is_empty(), "neither what must be absent nor what may be");
    let known = world(vec![pool("p")]).solve(vec![pod("a").selects("topology.kubernetes.io/zone", "In test-zone-1")]);
    assert!(known.claim("a").labels.is_empty(), "well-known labels come with the machine");
}

// 01/CLM-08
#[test]
fn a_claim_says_whether_minimums_were_lowered() {
    assert!(!world(vec![pool("p")]).solve(vec![pod("a")]).claim("a").is_min_values_relaxed);
}

// 01/CLM-09
#[test]
fn pods_share_claims_as_far_as_they_fit() {
    let world = world(vec![pool("p").types(vec![shape("five").build()])]);
    assert_eq!(world.solve(pods("a", 5, |sketch| sketch)).claims(), 1);
    assert_eq!(world.solve(pods("a", 6, |sketch| sketch)).claims(), 2);
}

// 01/CLM-10
#[test]
fn the_capacity_types_are_those_on_sale_for_the_types_that_are_left() {
    let world = world(vec![pool("p")]);
    assert_eq!(world.solve(vec![pod("a")]).claim("a").requirements.get(CAPACITY_TYPE), Some(&req("In on-demand spot")));
    let third = world.solve(vec![pod("a").selects("topology.kubernetes.io/zone", "In test-zone-3")]);
    assert_eq!(third.claim("a").requirements.get(CAPACITY_TYPE), Some(&req("In on-demand")));
}

// 01/PCK-06
#[test]
fn prices_are_those_of_offerings_that_the_claim_can_use() {
    let priced = |name: &str, spot: f64, on_demand: f64| {
        let mut changed = InstanceType::clone(&shape(name).build());
        for offering in &mut changed.offerings {
            let offering: &mut Offering = offering;
            let is_spot = offering.label(CAPACITY_TYPE).is_some_and(|kind| &**kind == "spot");
            offering.price = Price::from_dollars(if is_spot { spot } else { on_demand }).unwrap();
        }
        std::sync::Arc::new(changed)
    };
    let types = || vec![priced("cheap-spot", 0.1, 0.9), priced("cheap-on-demand", 0.5, 0.6)];
    let any = world(vec![pool("p").types(types())]).solve(vec![pod("a")]);
    assert_eq!(any.types("a"), ["cheap-spot", "cheap-on-demand"]);
    let on_demand = world(vec![pool("p").requires(CAPACITY_TYPE, "In on-demand").types(types())]).solve(vec![pod("a")]);
    assert_eq!(on_demand.types("a"), ["cheap-on-demand", "cheap-spot"]);
    assert_eq!(on_demand.claim("a").price, Price::from_dollars(0.6).unwrap());
}

// 01/MIN-02
#[test]
fn a_pod_that_leaves_too_few_values_is_refused_with_the_label() {
    for text in ["Exists", "In fake-it-0 fake-it-1 fake-it-2", "NotIn nothing"] {
        let world = world(vec![pool("p").types(types_of(3)).min_values(INSTANCE_TYPE, text, 2)]);
        assert!(world.solve(vec![pod("a").asks("cpu", 1500)]).is_placed("a"), "{text}");
        let answer = world.solve(vec![pod("a").asks("cpu", 2500)]);
        let (_, obstacles) = &answer.plan.unplaced[0].pools[0];
        assert_eq!(obstacles[..], [Obstacle::MinValues { key: INSTANCE_TYPE.into(), wanted: 2, found: 1 }], "{text}");
    }
    let numbers =
        world(vec![pool("p").types(types_of(4)).min_values("integer", "Gt 1", 2).min_values("integer", "Lt 5", 2)]);
    assert!(numbers.solve(vec![pod("a").asks("cpu", 2500)]).is_placed("a"));
    assert!(!numbers.solve(vec![pod("a").asks("cpu", 3500)]).is_placed("a"));
}

// 01/MIN-03
#[test]
fn the_greatest_minimum_of_a_key_counts_and_keys_add_up() {
    let strict =
        pool("p").types(types_of(3)).min_values(INSTANCE_TYPE, "Exists", 1).min_values(INSTANCE_TYPE, "Exists", 3);
    let strict = world(vec![strict]);
    assert!(strict.solve(vec![pod("a")]).is_placed("a"));
    assert!(!strict.solve(vec![pod("a").asks("cpu", 1500)]).is_placed("a"));
    let both = world(vec![
        pool("p").types(types_of(3)).min_values(INSTANCE_TYPE, "Exists", 2).min_values("size", "Exists", 2),
    ]);
    assert!(!both.solve(vec![pod("a")]).is_placed("a"), "all types are of one size");
}

// 01/MIN-04
#[test]
fn a_minimum_that_only_the_length_of_the_list_breaks_is_broken_too() {
    let mut world = world(vec![pool("p").types(types_of(6)).min_values(INSTANCE_TYPE, "Exists", 4)]);
    assert!(!world.solve(vec![pod("a").asks("cpu", 3500)]).is_placed("a"), "three types are large enough");
    world.snapshot.policy.max_types_per_claim = 3;
    let answer = world.solve(vec![pod("a"), pod("b")]);
    assert_eq!((answer.placed(), answer.claims()), (0, 0));
    let short = Obstacle::MinValues { key: INSTANCE_TYPE.into(), wanted: 4, found: 3 };
    assert!(answer.plan.unplaced.iter().all(|unplaced| unplaced.pools[0].1 == [short.clone()]));
    world.snapshot.policy.min_values = MinValuesPolicy::BestEffort;
    let lowered = world.judged(vec![pod("a"), pod("b")]);
    assert_eq!(lowered.placed(), 2);
    assert_eq!(lowered.claim("a").requirements.get(INSTANCE_TYPE).unwrap().min_values, Some(3));
}

// 01/MIN-04
#[test]
fn nobody_relies_on_a_claim_whose_list_would_be_too_short() {
    let heavy = pool("heavy").weight(50).types(types_of(6)).min_values(INSTANCE_TYPE, "Exists", 4);
    let mut world = world(vec![heavy, pool("light").types(types_of(6))]);
    world.snapshot.policy.max_types_per_claim = 3;
    let friend = pod("friend").label("app", "x").priority(1);
    let answer = world.judged(vec![friend, pod("fond").together(near("kubernetes.io/hostname", &[("app", "x")]))]);
    assert_eq!(answer.placed(), 2);
    assert_eq!(answer.claim("fond").pool.as_str(), "light");
}

#[test]
fn a_limit_never_takes_the_types_that_a_minimum_needs() {
    // Beside a claim that must be able to list two and three cpus, five leave two: one type, and two are demanded.
    let of_limit = |cpu: i64| {
        let pool = pool("p").types(types_of(3)).min_values(INSTANCE_TYPE, "Exists", 2).limit("cpu", cpu);
        world(vec![pool]).judged(pods("a", 2, |sketch| sketch.asks("cpu", 1500)))
    };
    assert_eq!((of_limit(5000).placed(), of_limit(5000).claims()), (1, 1));
    assert_eq!((of_limit(6000).placed(), of_limit(6000).claims()), (2, 2));
    assert!(of_limit(5000).plan.claims.iter().all(|claim| claim.types.len() == 2));
}

// 01/MIN-05
#[test]
fn best_effort_lists_what_a_limit_leaves() {
    let pool = pool("p").types(types_of(3)).min_values(INSTANCE_TYPE, "Exists", 2).limit("cpu", 4000);
    let mut world = world(vec![pool]);
    world.snapshot.policy.min_values = MinValuesPolicy::BestEffort;
    let answer = world.judged(pods("a", 2, |sketch| sketch.asks("cpu", 1500)));
    assert_eq!((answer.placed(), answer.claims()), (2, 2));
    for claim in &answer.plan.claims {
        assert_eq!(claim.types.len(), 1);
        assert!(claim.is_min_values_relaxed);
        assert_eq!(claim.requirements.get(INSTANCE_TYPE).unwrap().min_values, Some(1));
    }
}

// 01/MIN-05
#[test]
fn best_effort_lowers_the_minimum_to_what_there_is() {
    let mut world = world(vec![pool("p").types(types_of(3)).min_values(INSTANCE_TYPE, "Exists", 3)]);
    world.snapshot.policy.min_values = MinValuesPolicy::BestEffort;
    let answer = world.solve(vec![pod("a").asks("cpu", 1500)]);
    assert!(answer.claim("a").is_min_values_relaxed);
    assert_eq!(answer.claim("a").requirements.get(INSTANCE_TYPE).unwrap().min_values, Some(2));
    assert_eq!(answer.types("a").len(), 2);
    assert!(!world.solve(vec![pod("a")]).claim("a").is_min_values_relaxed, "what is met is not lowered");
}

// 01/MIN-06
#[test]
fn the_minimum_is_lowered_in_the_heavier_pool_before_a_lighter_one_is_used() {
    let heavy = pool("heavy").weight(50).types(types_of(3)).min_values(INSTANCE_TYPE, "Exists", 3);
    let mut world = world(vec![heavy, pool("light").types(types_of(3))]);
    world.snapshot.policy.min_values = MinValuesPolicy::BestEffort;
    assert_eq!(world.solve(vec![pod("a").asks("cpu", 1500)]).claim("a").pool.as_str(), "heavy");
}

// 01/NPL-07
#[test]
fn a_pool_that_can_buy_nothing_tells_every_pod_so() {
    for (key, text) in [
        (INSTANCE_TYPE, "In unknown"),
        ("kubernetes.io/arch", "In risc"),
        ("topology.kubernetes.io/zone", "In nowhere"),
    ] {
        let answer = world(vec![pool("p").requires(key, text)]).solve(vec![pod("a"), pod("b")]);
        for unplaced in &answer.plan.unplaced {
            let told = unplaced.failed_scheduling().unwrap();
            assert!(told.contains("nodepool requirements filtered out all available instance types"), "{key}: {told}");
        }
        assert_eq!(answer.plan.unplaced.len(), 2, "{key}");
    }
}

// 01/POD-07
#[test]
fn without_a_pool_pods_are_told_so_and_nodes_still_take_them() {
    let answer = world(Vec::new()).solve(vec![pod("a")]);
    assert_eq!(answer.plan.unplaced[0].general, [Obstacle::NoPool]);
    assert!(world(Vec::new()).node("n", &[], 1000).solve(vec![pod("a").asks("cpu", 100)]).is_placed("a"));
}

#[test]
fn a_claim_is_full_when_nobody_who_was_asked_about_could_join_it() {
    let two_cpus = || world(vec![pool("p").types(vec![shape("two").with("cpu", 2000).build()])]);
    let answer = two_cpus().solve_early(pods("a", 3, |sketch| sketch.asks("cpu", 900)));
    let full: Vec<bool> = answer.plan.claims.iter().map(|claim| claim.is_full).collect();
    assert_eq!((full, answer.claims()), (vec![true, false], 2));
    let mut all = pods("a", 2, |sketch| sketch.asks("cpu", 900));
    all.push(pod("small").asks("cpu", 100));
    let answer = two_cpus().solve_early(all);
    assert!(answer.claim("small").is_full && answer.claims() == 1, "1,900 of what 2,000 leave for pods");
}

#[test]
fn a_claim_is_not_full_where_a_larger_machine_would_be_cheaper_for_each_of_its_pods() {
    // The small one holds one pod for about $0.30 and the large one three, for $0.71 with three Gi and $1.03 with six.
    let menu = |memory: i64| {
        let small = shape("small").with("cpu", 1900).with("memory", GI).build();
        let large = shape("large").with("cpu", 3900).with("memory", memory * GI).build();
        world(vec![pool("p").types(vec![small, large])])
    };
    let asked = |count: usize| pods("a", count, |sketch| sketch.asks("cpu", 1000));
    let claims = |answer: Answer| -> Vec<(usize, bool)> {
        answer.plan.claims.iter().map(|claim| (claim.pods.len(), claim.is_full)).collect()
    };
    assert_eq!(claims(menu(3).solve_early(asked(1))), [(1, false)], "three of its like would be better off together");
    assert_eq!(claims(menu(6).solve_early(asked(1))), [(1, true)]);
    assert_eq!(claims(menu(3).solve_early(asked(3))), [(3, true)]);
    assert_eq!(claims(menu(3).solve(asked(3))), [(3, false)], "nobody has asked");
}

#[test]
fn pods_share_a_dearer_machine_as_soon_as_the_fees_of_several_cost_more() {
    let priced = |name: &str, cpu: i64, milli: i64| {
        let price = Price::from_pico(milli * 1_000_000_000);
        let sold = |built: &mut InstanceType| built.offerings.iter_mut().for_each(|offering| offering.price = price);
        changed(shape(name).with("cpu", cpu), sold)
    };
    // Four small machines cost 4 cents less than the large one, and have three fees more.
    let menu = || vec![pool("p").types(vec![priced("small", 1100, 100), priced("large", 4100, 440)])];
    for (milli, claims) in [(0, 4), (2, 4), (13, 4), (14, 1), (100, 1)] {
        let mut world = world(menu());
        world.snapshot.policy.node_fee = Price::from_pico(milli * 1_000_000_000);
        let answer = world.judged(pods("a", 4, |sketch| sketch.asks("cpu", 1000)));
        assert_eq!((answer.plan.unplaced.len(), answer.claims()), (0, claims), "a fee of {milli} thousandths");
    }
}

#[test]
fn claims_from_a_long_menu_are_not_filled_until_only_the_largest_machines_will_do() {
    let open = |types: i64| -> usize {
        let answer =
            world(vec![pool("p").types(types_of(types))]).solve(pods("a", 300, |sketch| sketch.asks("cpu", 1000)));
        assert!(answer.plan.unplaced.is_empty());
        answer.plan.claims.iter().map(|claim| claim.types.len()).min().unwrap()
    };
    assert!(open(100) >= 15, "{} types are left", open(100));
    assert_eq!(
        open(50),
        1,
        "the largest machine is the cheapest for its pods, and of few types one is as good as a few"
    );
}

#[test]
fn a_pod_that_only_the_largest_machines_hold_gets_one_and_company_rather_than_nothing() {
    let one = || vec![pool("p").types(types_of(100)).limit("nodes", 1)];
    let answer = world(one()).solve(vec![pod("large").asks("cpu", 98_000), pod("small").asks("cpu", 1000)]);
    assert_eq!((answer.plan.unplaced.len(), answer.claims()), (0, 1));
}
