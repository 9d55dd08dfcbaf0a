use std::sync::Arc;

use model::labels::INSTANCE_TYPE;
use model::node::Progress;
use model::plan::PlannedClaim;
use model::pool::{PoolKind, PoolState};
use model::requirements::{Operator, Requirement, Requirements};
use model::resources::{Resource, Resources};
use model::snapshot::MinValuesPolicy;
use model::taints::{Effect, Taint};

use super::*;
use crate::short::{add_daemon, add_pool, claim, instance_type, node, one, plan, pod_name, snapshot};

/// Judges a plan; each expected violation is part of what is said, in order.
fn check(snapshot: &Snapshot, plan: &Plan, expected: &[&str]) {
    let verdict = replay(snapshot, plan);
    let said: Vec<String> = verdict.violations.iter().map(ToString::to_string).collect();
    let is_as_expected =
        said.len() == expected.len() && said.iter().zip(expected).all(|(said, part)| said.contains(part));
    assert!(is_as_expected, "expected {expected:#?}, found {said:#?}");
    assert_eq!(verdict.is_accepted(), expected.is_empty());
}

/// A cluster with pool `p` of these types, and waiting pods.
fn pooled(types: &[&str], pods: &[&str]) -> Snapshot {
    let mut snapshot = snapshot(&[], pods);
    add_pool(&mut snapshot, types, |_| {});
    snapshot
}

fn changed(types: &[&str], pods: &[&str], change: impl FnOnce(&mut model::pool::Pool)) -> Snapshot {
    let mut snapshot = snapshot(&[], pods);
    add_pool(&mut snapshot, types, change);
    snapshot
}

fn within(mut claim: PlannedClaim, requirements: &Requirements) -> PlannedClaim {
    claim.requirements.add_all(requirements);
    claim
}

#[test]
fn a_pod_may_count_on_those_before_it_and_not_on_those_after() {
    let town = snapshot(&["n zone=a"], &["x app=w", "p near=zone:w"]);
    check(&town, &plan("x>n p>n", vec![]), &[]);
    check(&town, &plan("p>n x>n", vec![]), &["pod default/p may not run on node n: nobody that it must be near"]);
}

#[test]
fn an_overfull_node_is_refused_with_the_numbers() {
    let town = snapshot(&["n cpu=2"], &["x cpu=1", "p cpu=2"]);
    check(&town, &plan("x>n", vec![]), &[]);
    check(&town, &plan("x>n p>n", vec![]), &["it wants 2000 of cpu, and 1000 of 2000 is free (NodeResourcesFit)"]);
}

#[test]
fn a_pod_is_spoken_of_once_and_is_there() {
    let town = snapshot(&["n", "m"], &["x"]);
    check(&town, &plan("x>n", vec![]), &[]);
    check(&town, &plan("x>n x>m", vec![]), &["x is placed more than once"]);
    check(&town, &plan("x>n x>", vec![]), &["x is placed and reported as unplaced too"]);
    check(&town, &plan("y>n", vec![]), &["y is in the plan but not in the cluster"]);
    check(&town, &plan("y>", vec![]), &["y is in the plan but not in the cluster"]);
    check(&town, &plan("x>o", vec![]), &["x is placed on node o, which is not there"]);
    check(&town, &plan("x>0", vec![]), &["x is placed on claim 0, which the plan does not have"]);
}

#[test]
fn only_pods_that_wait_are_placed() {
    check(&snapshot(&["n", "m"], &["x on=m"]), &plan("x>n", vec![]), &["it runs on node m, which stays"]);
    check(&snapshot(&["n", "m leaving"], &["x on=m"]), &plan("x>n", vec![]), &[]);
    check(&snapshot(&["n", "m leaving"], &["x on=m terminating"]), &plan("x>n", vec![]), &["it is ending"]);
    let mut town = snapshot(&["n"], &["x"]);
    let mut unfit = Pod::clone(&town.pods[&pod_name("x")]);
    unfit.problems.push(model::why::PodProblem::MatchFields);
    town.pods.insert(unfit.name.clone(), Arc::new(unfit));
    check(&town, &plan("x>n", vec![]), &["it cannot be placed"]);
}

#[test]
fn pods_that_the_plan_moves_have_left_their_old_node() {
    let town = snapshot(&["n zone=a", "m zone=a leaving"], &["x app=w apart=zone:w on=m"]);
    check(&town, &plan("x>n", vec![]), &[]);
    // A pod that stays where it is still counts there.
    let town = snapshot(&["n zone=a", "m zone=a leaving"], &["x app=w on=m", "p apart=zone:w"]);
    check(&town, &plan("p>n", vec![]), &["it must be away from pod default/x"]);
}

#[test]
fn a_claim_becomes_its_cheapest_machine() {
    let town = pooled(&["big cpu=8 price=4 zones=b", "small cpu=2 price=2 zones=b,a"], &["x cpu=1 @zone=a"]);
    let verdict = replay(&town, &plan("x>0", vec![within(claim("big small"), &one("zone", "a"))]));
    assert!(verdict.is_accepted(), "{verdict}");
    let node = verdict.world.node(verdict.world.claim_node(0).unwrap()).unwrap();
    let label = |key: &str| node.labels.get(key).map(|value| value.to_string());
    assert_eq!(label(INSTANCE_TYPE).as_deref(), Some("small"));
    assert_eq!(label(model::labels::ZONE).as_deref(), Some("a"));
    assert_eq!(label(model::labels::CAPACITY_TYPE).as_deref(), Some("on-demand"));
    assert_eq!(label(model::labels::NODE_POOL).as_deref(), Some("p"));
    assert_eq!(label(model::labels::HOSTNAME).as_deref(), Some("claim-0"));
}

#[test]
fn the_cheapest_machine_is_chosen_by_price_then_zone_then_type() {
    let chosen = |types: &[&str]| {
        let verdict = replay(&pooled(types, &["x"]), &plan("x>0", vec![claim("t u")]));
        let node = verdict.world.node(&"claim-0".into()).unwrap();
        format!("{} in {}", node.labels[INSTANCE_TYPE], node.labels[model::labels::ZONE])
    };
    assert_eq!(chosen(&["t price=2 zones=a", "u price=1 zones=b"]), "u in b");
    assert_eq!(chosen(&["t price=1 zones=b", "u price=1 zones=c,a"]), "u in a");
    assert_eq!(chosen(&["u price=1 zones=a", "t price=1 zones=a"]), "t in a");
}

#[test]
fn every_listed_type_must_hold_the_pods() {
    let town = pooled(&["big cpu=8", "small cpu=2"], &["x cpu=2", "y cpu=2"]);
    check(&town, &plan("x>0 y>0", vec![claim("big")]), &[]);
    let small = "were it small, on-demand, in a, pod default/y could not run on it: it wants 2000 of cpu";
    let on_cheapest = "pod default/y may not run on node claim-0";
    check(&town, &plan("x>0 y>0", vec![claim("small")]), &[on_cheapest, small]);
    // Types of one price go by name, so the claim stands as the big one, which suits; the small one is found all the same.
    check(&town, &plan("x>0 y>0", vec![claim("big small")]), &[small]);
}

#[test]
fn every_listed_type_must_hold_its_daemons_even_where_no_pod_competes() {
    let mut town = pooled(&["big cpu=8 memory=8", "small cpu=8 memory=2"], &["x cpu=1"]);
    add_daemon(&mut town, "agent memory=4");
    check(&town, &plan("x>0", vec![claim("big")]), &[]);
    let small = "were it small, on-demand, in a, its daemons would want 4 of memory and it has 2";
    check(&town, &plan("x>0", vec![claim("big small")]), &[small]);
}

#[test]
fn a_limit_counts_what_an_offering_brings_more_or_less_than_its_type() {
    let with = |cpu: i64| {
        changed(&["t cpu=4"], &["x cpu=1"], |pool| {
            Arc::make_mut(&mut pool.instance_types[0]).offerings[0].capacity_override =
                Some(Resources::default().with("cpu", cpu * 1000));
            pool.limits.resources.push((Resource::Cpu, 6000));
        })
    };
    check(&with(2), &plan("x>0", vec![claim("t")]), &[]);
    check(&with(8), &plan("x>0", vec![claim("t")]), &["pool p would have 8000 of cpu, its limit is 6000"]);
}

#[test]
fn every_way_to_buy_a_type_must_suit() {
    let town = pooled(&["t cpu=8 zones=a,b"], &["x @zone=a"]);
    check(&town, &plan("x>0", vec![within(claim("t"), &one("zone", "a"))]), &[]);
    check(&town, &plan("x>0", vec![claim("t")]), &["were it t, on-demand, in b"]);
}

#[test]
fn a_label_that_is_still_open_must_suit_with_every_value() {
    let town = pooled(&["t cpu=8 kubernetes.io/os=linux,windows"], &["x @kubernetes.io/os=linux"]);
    check(&town, &plan("x>0", vec![within(claim("t"), &one("kubernetes.io/os", "linux"))]), &[]);
    check(&town, &plan("x>0", vec![claim("t")]), &["its node selector wants another kubernetes.io/os than windows"]);
}

#[test]
fn attach_limits_hold_on_new_nodes() {
    let town = pooled(&["t cpu=8 ebs=1"], &["x vol=a", "y vol=b", "z vol=a"]);
    check(&town, &plan("x>0 z>0", vec![claim("t")]), &[]);
    let twice = ["NodeVolumeLimits", "were it t"];
    check(&town, &plan("x>0 y>0", vec![claim("t")]), &twice);
}

#[test]
fn daemons_must_find_room_beside_the_pods() {
    let mut town = pooled(&["t cpu=2"], &["x cpu=2"]);
    add_daemon(&mut town, "d cpu=1 @host=elsewhere");
    check(&town, &plan("x>0", vec![claim("t")]), &[]);
    add_daemon(&mut town, "d cpu=1");
    check(&town, &plan("x>0", vec![claim("t")]), &["1000 of 2000 is free", "were it t"]);
    add_daemon(&mut town, "d port=80");
    let mut ported = town.clone();
    ported.pods = snapshot(&[], &["x port=80"]).pods;
    check(&ported, &plan("x>0", vec![claim("t")]), &["will be taken by a daemon", "were it t"]);
}

#[test]
fn pool_taints_must_be_tolerated_and_startup_taints_need_not() {
    let tainted = |pod: &str| {
        changed(&["t cpu=2"], &[pod], |pool| {
            pool.template.taints.push(Taint::new("x", "", Effect::NoSchedule));
            pool.template.startup_taints.push(Taint::new("y", "", Effect::NoSchedule));
        })
    };
    check(&tainted("x !x"), &plan("x>0", vec![claim("t")]), &[]);
    check(&tainted("x"), &plan("x>0", vec![claim("t")]), &["it does not tolerate x:NoSchedule", "were it t"]);
}

#[test]
fn a_claim_lists_what_its_pool_sells() {
    let town = pooled(&["t cpu=2"], &["x"]);
    check(&town, &plan("x>0", vec![claim("t")]), &[]);
    check(&town, &plan("x>0", vec![claim("t u")]), &["the pool has no instance type u"]);
    check(&town, &plan("x>0", vec![within(claim("t"), &one("zone", "b"))]), &["no machine on sale satisfies it"]);
    let mut lost = claim("t");
    lost.pool = "q".into();
    check(&town, &plan("x>0", vec![lost]), &["claim 0 of pool q: there is no such pool"]);
}

#[test]
fn an_offering_that_is_not_available_is_no_machine() {
    let mut sold_out = instance_type("t cpu=2");
    sold_out.offerings[0].is_available = false;
    let town = changed(&[], &["x"], |pool| pool.instance_types.push(Arc::new(sold_out)));
    check(&town, &plan("x>0", vec![claim("t")]), &["no machine on sale satisfies it"]);
}

#[test]
fn a_machine_must_be_what_the_pool_asks_for() {
    let town = changed(&["t cpu=2 zones=a,b"], &["x"], |pool| pool.template.requirements.add_all(&one("zone", "a")));
    check(&town, &plan("x>0", vec![within(claim("t"), &one("zone", "a"))]), &[]);
    check(&town, &plan("x>0", vec![claim("t")]), &["it would not suit the pool, which wants another"]);
}

#[test]
fn a_claim_lists_the_pods_that_are_placed_on_it() {
    let town = pooled(&["t cpu=2"], &["x", "y"]);
    let mut wrong = plan("x>0", vec![claim("t")]);
    wrong.claims[0].pods = [pod_name("y")].into();
    check(&town, &wrong, &["it lists the pods [default/y], but [default/x] are placed on it"]);
}

#[test]
fn static_and_unready_pools_get_no_claims() {
    let town = |kind, state| {
        changed(&["t cpu=2"], &["x"], |pool| {
            pool.kind = kind;
            pool.state = state;
        })
    };
    let one_claim = plan("x>0", vec![claim("t")]);
    check(&town(PoolKind::Dynamic, PoolState::Ready), &one_claim, &[]);
    check(&town(PoolKind::Dynamic, PoolState::NotReady), &one_claim, &["the pool is not ready"]);
    check(&town(PoolKind::Dynamic, PoolState::Deleting), &one_claim, &["the pool is being deleted"]);
    check(&town(PoolKind::Static { replicas: 1 }, PoolState::Ready), &one_claim, &["a static pool gets no claims"]);
}

#[test]
fn the_largest_type_of_each_claim_counts_against_the_limit() {
    let town = |cores: i64| {
        let mut town = changed(&["big cpu=4", "small cpu=2"], &["x"], |pool| {
            pool.limits.resources = vec![(Resource::Cpu, cores * 1000)];
        });
        for text in ["n cpu=3 pool=p", "m cpu=9 pool=p leaving", "o cpu=9"] {
            town.nodes.insert(node(text).name, Arc::new(node(text)));
        }
        town
    };
    check(&town(7), &plan("x>0", vec![claim("small big")]), &[]);
    check(&town(6), &plan("x>0", vec![claim("small big")]), &["pool p would have 7000 of cpu, its limit is 6000"]);
    check(&town(5), &plan("x>0", vec![claim("small")]), &[]);
    // Without a claim the plan is not to blame.
    check(&town(1), &plan("x>n", vec![]), &[]);
}

#[test]
fn a_claim_that_has_not_launched_counts_for_the_largest_that_it_may_become() {
    let town = |cores: i64| {
        let mut town =
            changed(&["t cpu=2"], &["x"], |pool| pool.limits.resources = vec![(Resource::Cpu, cores * 1000)]);
        let mut coming = node("n pool=p");
        coming.capacity = Resources::default();
        let types = ["small cpu=2", "big cpu=4"].map(|text| Arc::new(instance_type(text))).to_vec();
        coming.progress = Progress::Unlaunched { types, requirements: Requirements::default() };
        town.nodes.insert("n".into(), Arc::new(coming));
        town
    };
    check(&town(6), &plan("x>0", vec![claim("t")]), &[]);
    check(&town(5), &plan("x>0", vec![claim("t")]), &["pool p would have 6000 of cpu, its limit is 5000"]);
}

#[test]
fn what_an_offering_overrides_counts_against_the_limit() {
    let mut bigger = instance_type("t cpu=2");
    bigger.offerings[0].capacity_override = Some(Resources::default().with("cpu", 3000));
    let town = changed(&[], &["x"], |pool| {
        pool.limits.resources = vec![(Resource::Cpu, 2000)];
        pool.instance_types.push(Arc::new(bigger));
    });
    check(&town, &plan("x>0", vec![claim("t")]), &["pool p would have 3000 of cpu"]);
}

#[test]
fn the_number_of_nodes_is_limited_exactly() {
    let town = |nodes: i64| {
        let mut town = changed(&["t cpu=4"], &["x", "y"], |pool| pool.limits.nodes = Some(nodes));
        town.nodes.insert("n".into(), Arc::new(node("n pool=p")));
        town
    };
    let two = plan("x>0 y>1", vec![claim("t"), claim("t")]);
    check(&town(3), &two, &[]);
    check(&town(2), &two, &["pool p would have 3 of nodes, its limit is 2"]);
}

#[test]
fn min_values_are_counted_over_the_listed_types() {
    let town = |policy| {
        let mut town = changed(&["t family=x", "u family=y"], &["x"], |pool| {
            let exists = Requirement::new(Operator::Exists, []).with_min_values(Some(2));
            pool.template.requirements.add("family", exists);
        });
        town.policy.min_values = policy;
        town
    };
    let labelled = |types: &str| {
        let mut claim = claim(types);
        claim.labels.insert("family".into(), "x".into());
        claim
    };
    let strict = town(MinValuesPolicy::Strict);
    check(&strict, &plan("x>0", vec![labelled("t u")]), &[]);
    let unmet = ["its types have 1 values of family, the pool asks for 2"];
    check(&strict, &plan("x>0", vec![labelled("t")]), &unmet);
    let mut relaxed = labelled("t");
    relaxed.is_min_values_relaxed = true;
    check(&strict, &plan("x>0", vec![relaxed.clone()]), &unmet);
    check(&town(MinValuesPolicy::BestEffort), &plan("x>0", vec![relaxed]), &[]);
    check(&town(MinValuesPolicy::BestEffort), &plan("x>0", vec![labelled("t")]), &unmet);
}

#[test]
fn a_reservation_is_used_by_no_more_claims_than_it_has_left() {
    let reserved = |id: &str| {
        let mut claim = claim("t");
        claim.reservations.push(id.into());
        claim
    };
    let town = |left: u32| pooled(&[&format!("t cpu=4 reserved=r:{left}")], &["x", "y"]);
    let two = plan("x>0 y>1", vec![reserved("r"), reserved("r")]);
    check(&town(2), &two, &[]);
    check(&town(1), &two, &["2 claims may use reservation r, which has 1 left"]);
    let unknown = ["none of its types is sold under reservation s", "no machine on sale satisfies it"];
    check(&town(1), &plan("x>0", vec![reserved("s")]), &unknown);
}

#[test]
fn a_claim_without_a_reservation_uses_none() {
    let mut only_reserved = instance_type("t cpu=4 reserved=r:1");
    only_reserved.offerings.remove(0);
    let town = changed(&[], &["x"], |pool| pool.instance_types.push(Arc::new(only_reserved)));
    check(&town, &plan("x>0", vec![claim("t")]), &["no machine on sale satisfies it"]);
}

#[test]
fn a_claim_that_has_not_launched_must_do_whatever_it_becomes() {
    let town = |types: &[&str]| {
        let mut town = snapshot(&[], &["x cpu=4"]);
        let mut coming = node("n");
        let types = types.iter().map(|text| Arc::new(instance_type(text))).collect();
        coming.progress = Progress::Unlaunched { types, requirements: Requirements::default() };
        town.nodes.insert("n".into(), Arc::new(coming));
        town
    };
    check(&town(&["big cpu=8", "less cpu=4"]), &plan("x>n", vec![]), &[]);
    let small = ["claim n, not launched yet: were it small, on-demand, in a, pod default/x could not run on it"];
    check(&town(&["big cpu=8", "small cpu=2"]), &plan("x>n", vec![]), &small);
    check(&town(&[]), &plan("x>n", vec![]), &["claim n, not launched yet: no machine on sale satisfies it"]);
}

#[test]
fn claims_stand_for_domains_before_their_pods_come() {
    let town = pooled(&["t cpu=8 zones=a,b"], &["x app=w spread=zone:1:w", "y app=w spread=zone:1:w", "z"]);
    let in_zone = |zone: &str| within(claim("t"), &one("zone", zone));
    check(&town, &plan("x>0 y>1", vec![in_zone("a"), in_zone("b")]), &[]);
    let uneven = ["zone=a would have 2 pods and the emptiest of 2 domains counts 0"];
    check(&town, &plan("x>0 y>0 z>1", vec![in_zone("a"), in_zone("b")]), &uneven);
}

#[test]
fn claims_get_names_that_no_node_has() {
    let mut town = pooled(&["t cpu=8"], &["x"]);
    town.nodes.insert("claim-0".into(), Arc::new(node("claim-0")));
    let verdict = replay(&town, &plan("x>0", vec![claim("t")]));
    assert!(verdict.is_accepted(), "{verdict}");
    assert_eq!(verdict.world.claim_node(0), Some(&"claim-0-1".into()));
}
