use proptest::prelude::*;

use super::*;
use crate::labels::{HOSTNAME, Labels, WellKnown, ZONE};

fn req(text: &str) -> Requirement {
    let mut words = text.split_whitespace();
    let operator = Operator::parse(words.next().unwrap()).unwrap();
    Requirement::new(operator, words)
}

fn one(key: &str, text: &str) -> Requirements {
    if text == "undef" { Requirements::default() } else { Requirements::default().with(key, req(text)) }
}

fn shown(requirement: &Requirement) -> String {
    set::Keyed("k", requirement).to_string()
}

fn check(left: &str, right: &str, expected: &str) {
    for (a, b) in [(left, right), (right, left)] {
        assert_eq!(shown(&req(a).intersection(&req(b))), format!("k {expected}"), "{a} and {b}");
    }
}

// 01/ALG-02
#[test]
fn exists_is_neutral_and_does_not_exist_wins() {
    for (text, printed) in [
        ("In a b", "In [a b]"),
        ("NotIn a", "NotIn [a]"),
        ("Exists", "Exists"),
        ("DoesNotExist", "DoesNotExist"),
        ("Gte 5", "Exists >=5"),
        ("Lte 5", "Exists <=5"),
    ] {
        check("Exists", text, printed);
        check("DoesNotExist", text, "DoesNotExist");
    }
}

// 01/ALG-03
#[test]
fn lists_combine_as_sets() {
    check("In a b c", "In b c d", "In [b c]");
    check("In a b c", "NotIn b", "In [a c]");
    check("NotIn a b", "NotIn b c", "NotIn [a b c]");
}

// 01/ALG-04
#[test]
fn bounds_tighten_and_crossing_ones_leave_nothing() {
    check("Gte 1", "Gte 5", "Exists >=5");
    check("Lte 9", "Lte 5", "Exists <=5");
    check("Gte 1", "Lte 5", "Exists >=1 <=5");
    check("Gte 6", "Lte 5", "DoesNotExist");
    check("In 1 5 9 x", "Gte 5", "In [5 9]");
    check("In 1 5 9 x", "Lt 9", "In [1 5]");
    check("In x", "Gte 5", "DoesNotExist");
    assert!(req("Gte 6").intersection(&req("Lte 5")).is_contradiction());
}

// 01/ALG-05
#[test]
fn strict_bounds_are_inclusive_ones_moved_by_one() {
    assert_eq!(req("Gt 4"), req("Gte 5"));
    assert_eq!(req("Lt 6"), req("Lte 5"));
    assert_eq!(shown(&req(&format!("Gt {}", i64::MAX))), "k DoesNotExist");
    assert!(req("Gte 0").has("0"));
    assert!(!req("Gte 0").has("-1"));
}

// 01/ALG-06
#[test]
fn redundant_bounds_collapse() {
    check("Gt 4", "Gte 5", "Exists >=5");
    check("Gt 5", "Gte 5", "Exists >=6");
    check("Lt 9", "Lte 5", "Exists <=5");
}

// 01/ALG-07
#[test]
fn the_greater_minimum_survives() {
    let two = req("In a b c").with_min_values(Some(2));
    let three = req("Exists").with_min_values(Some(3));
    assert_eq!(two.intersection(&three).min_values, Some(3));
    assert_eq!(two.intersection(&req("NotIn a")).min_values, Some(2));
    assert_eq!(shown(&two.intersection(&three)), "k In [a b c] minValues 3");
    assert_eq!(shown(&req("Gte 2").intersection(&three).intersection(&req("Lte 1"))), "k DoesNotExist minValues 3");
}

// 01/ALG-08
#[test]
fn membership_follows_the_operator_and_bounds_admit_only_integers() {
    for (text, yes, no) in [
        ("In a b", ["a", "b"], ["c", ""]),
        ("NotIn a b", ["c", "1"], ["a", "b"]),
        ("Gte 5", ["5", "6"], ["4", "x"]),
        ("Lte 5", ["5", "-1"], ["6", "5x"]),
        ("Lt 5", ["4", "0"], ["5", "five"]),
    ] {
        for value in yes {
            assert!(req(text).has(value), "{text} {value}");
        }
        for value in no {
            assert!(!req(text).has(value), "{text} {value}");
        }
    }
    assert!(req("Exists").has("anything") && !req("DoesNotExist").has("anything"));
}

// 01/ALG-09
#[test]
fn two_bounds_are_written_as_two_entries_and_values_sorted() {
    let entries = |requirement: &Requirement| -> Vec<String> {
        requirement.entries().iter().map(|(op, values)| format!("{op} {}", values.join(" "))).collect()
    };
    assert_eq!(entries(&req("Gte 1").intersection(&req("Lte 5"))), ["Gte 1", "Lte 5"]);
    assert_eq!(entries(&req("Gt 1")), ["Gte 2"]);
    assert_eq!(entries(&req("In c a b")), ["In a b c"]);
    assert_eq!(entries(&req("NotIn b a")), ["NotIn a b"]);
    assert_eq!(entries(&req("Exists")), ["Exists "]);
    assert_eq!(entries(&req("DoesNotExist")), ["DoesNotExist "]);
    assert_eq!(entries(&req("Gte 1").intersection(&req("NotIn 3"))), ["Gte 1", "NotIn 3"]);
}

// 01/ALG-11
#[test]
fn the_lenient_table_holds() {
    let well_known = WellKnown::default();
    let lenient = Undefined::OpenIfWellKnown(&well_known);
    for text in ["undef", "Exists", "DoesNotExist", "In x", "NotIn x", "Gt 1"] {
        assert!(Requirements::default().is_compatible(&one(ZONE, text), lenient), "{text}");
    }
    // Rows are what is there, columns what is asked: undef, Exists, DoesNotExist, In 1, In 9, NotIn 1, Gt 4.
    let asked = ["undef", "Exists", "DoesNotExist", "In 1", "In 9", "NotIn 1", "Gt 4"];
    for (there, expected) in [
        ("undef", "yny nny n"),
        ("Exists", "yyn yyy y"),
        ("DoesNotExist", "yny nny n"),
        ("In 1", "yyn ynn n"),
        ("In 1 9", "yyn yyy y"),
        ("NotIn 1", "yyy nyy y"),
        ("Gt 4", "yyn nyy y"),
    ] {
        let expected: Vec<bool> = expected.chars().filter(|c| *c != ' ').map(|c| c == 'y').collect();
        for (text, expected) in asked.iter().zip(expected) {
            let outcome = one("custom", there).is_compatible(&one("custom", text), lenient);
            assert_eq!(outcome, expected, "{there} asked for {text}");
        }
    }
}

// 01/ALG-12
#[test]
fn on_a_real_node_an_undefined_key_is_an_absent_label() {
    for (text, expected) in [
        ("undef", true),
        ("DoesNotExist", true),
        ("NotIn x", true),
        ("Exists", false),
        ("In x", false),
        ("Gt 1", false),
    ] {
        assert_eq!(Requirements::default().is_compatible(&one(ZONE, text), Undefined::Absent), expected, "{text}");
    }
}

// 01/ALG-13
#[test]
fn an_unknown_key_that_looks_like_a_known_one_gets_a_hint() {
    let well_known = WellKnown::default();
    for (key, hint) in [
        ("zone", " (typo of \"topology.kubernetes.io/zone\"?)"),
        ("arch", " (typo of \"kubernetes.io/arch\"?)"),
        ("nodepool", " (typo of \"karpenter.sh/nodepool\"?)"),
        ("node.io/zone", " (typo of \"topology.kubernetes.io/zone\"?)"),
        ("karpenter/nodepool", " (typo of \"karpenter.sh/nodepool\"?)"),
        ("example.com/colour", ""),
    ] {
        let clash = Requirements::default().clash(&one(key, "In x"), Undefined::OpenIfWellKnown(&well_known)).unwrap();
        assert_eq!(clash.to_string(), format!("label {key:?} does not have known values{hint}"));
    }
}

// 01/ALG-14
#[test]
fn a_set_prints_sorted_and_without_the_hostname() {
    let set = one("b", "In x y").with("a", req("Exists")).with(HOSTNAME, req("In h"));
    assert_eq!(set.to_string(), "a Exists, b In [x y]");
    assert_eq!(shown(&req("In a b c d e f g")), "k In [a b c d e and 2 others]");
    let clash = one("b", "In x").clash(&one("b", "In z"), Undefined::Absent).unwrap();
    assert_eq!(clash.to_string(), "key b, b In [z] not in b In [x]");
}

// 01/ALG-15
#[test]
fn any_value_satisfies_and_is_always_the_same() {
    for text in ["Gte 5", "Lte 10", "In b a", "NotIn 0 1", "Exists", "Gt -3"] {
        let requirement = req(text);
        let value = requirement.any().unwrap();
        assert!(requirement.has(&value), "{text} {value}");
        assert_eq!(requirement.any(), Some(value));
    }
    assert_eq!(req("DoesNotExist").any(), None);
    assert_eq!(req("NotIn 0 1").any().as_deref(), Some("2"));
    assert_eq!(req("Gt -3").any().as_deref(), Some("0"));
}

#[test]
fn no_label_is_a_negative_number() {
    for (left, right) in [("Lt 0", "Exists"), ("Lt 1", "NotIn 0"), ("Gt -9", "Lt 0"), ("Lte 1", "NotIn 0 1")] {
        let both = req(left).intersection(&req(right)).intersection(&req("Exists"));
        assert!(both.is_contradiction() && both.any().is_none(), "{left} and {right}");
    }
    assert_eq!(req("Lt 1").any().as_deref(), Some("0"));
    assert_eq!(req("Lte 1").intersection(&req("NotIn 0 01")).any().as_deref(), Some("1"));
}

#[test]
fn a_contradiction_is_not_the_same_as_absence() {
    let contradiction = one("foo", "In a").with("foo", req("In b"));
    assert!(Requirements::default().is_compatible(&one("foo", "DoesNotExist"), Undefined::Absent));
    assert!(matches!(
        Requirements::default().clash(&contradiction, Undefined::Absent),
        Some(Clash::Contradiction { .. })
    ));
    let both = one("foo", "Exists").with("foo", req("NotIn a"));
    assert!(!Requirements::default().is_compatible(&both, Undefined::Absent), "Exists is not forgotten beside NotIn");
}

const VALUES: [&str; 7] = ["a", "b", "0", "1", "2", "5", "9"];

fn any_requirement() -> impl Strategy<Value = Requirement> {
    let values = || proptest::collection::vec(proptest::sample::select(&VALUES[..]), 0..4);
    let number = || proptest::sample::select(&["0", "1", "2", "5", "9"][..]);
    prop_oneof![
        values().prop_map(|v| Requirement::new(Operator::In, v)),
        values().prop_map(|v| Requirement::new(Operator::NotIn, v)),
        Just(Requirement::exists()),
        Just(Requirement::does_not_exist()),
        number().prop_map(|n| Requirement::new(Operator::Gt, [n])),
        number().prop_map(|n| Requirement::new(Operator::Lt, [n])),
        number().prop_map(|n| Requirement::new(Operator::Gte, [n])),
        number().prop_map(|n| Requirement::new(Operator::Lte, [n])),
    ]
}

/// Every state that a label can be in, as far as the requirements above can tell: absent, or one of these.
fn states() -> Vec<Option<String>> {
    let others = (0..12).map(|n: i64| n.to_string()).chain(["z".to_owned()]);
    VALUES.iter().map(ToString::to_string).chain(others).map(Some).chain([None]).collect()
}

fn allows(requirement: &Requirement, state: Option<&str>) -> bool {
    state.map_or(requirement.allows_absent(), |value| requirement.has(value))
}

proptest! {
    #[test]
    fn an_intersection_allows_just_what_both_allow(a in any_requirement(), b in any_requirement()) {
        let both = a.intersection(&b);
        for state in states() {
            let state = state.as_deref();
            prop_assert_eq!(allows(&both, state), allows(&a, state) && allows(&b, state), "{:?}", state);
        }
    }

    // 01/ALG-10
    #[test]
    fn requirements_intersect_when_some_value_suits_both(a in any_requirement(), b in any_requirement()) {
        let some = states().iter().flatten().any(|value| a.has(value) && b.has(value));
        prop_assert_eq!(a.intersects(&b), some);
        prop_assert_eq!(a.intersects(&b), a.intersection(&b).allows_a_value());
    }

    #[test]
    fn intersection_is_a_lattice(a in any_requirement(), b in any_requirement(), c in any_requirement()) {
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.intersection(&a), a.clone());
        let left = a.intersection(&b).intersection(&c);
        let right = a.intersection(&b.intersection(&c));
        for state in states() {
            prop_assert_eq!(allows(&left, state.as_deref()), allows(&right, state.as_deref()));
        }
    }

    #[test]
    fn labels_are_compatible_just_when_a_scheduler_would_say_so(label in proptest::option::of(proptest::sample::select(&VALUES[..])), wanted in any_requirement()) {
        let labels: Labels = label.iter().map(|value| ("k".into(), (*value).into())).collect();
        let node = Requirements::from_labels(&labels);
        let pod = Requirements::default().with("k", wanted.clone());
        prop_assert_eq!(node.is_compatible(&pod, Undefined::Absent), allows(&wanted, label));
    }

    #[test]
    fn what_any_names_is_allowed(requirement in any_requirement()) {
        match requirement.any() {
            Some(value) => prop_assert!(requirement.has(&value)),
            None => prop_assert!(!requirement.allows_a_value()),
        }
    }
}

#[test]
fn sets_overlap_unless_a_key_of_both_has_no_common_value() {
    let there = one("a", "In x y").with("b", req("In z"));
    assert!(there.overlaps(&one("a", "In y")) && there.overlaps(&one("c", "In y")));
    assert!(!there.overlaps(&one("a", "In z")) && !there.overlaps(&one("b", "NotIn z")));
    assert_eq!(there.overlap_clash(&one("a", "In z")).map(|clash| clash.key().to_string()), Some("a".to_owned()));
    assert!(Requirements::default().is_empty() && !there.is_empty());
    assert_eq!(there.with_any_of(&[]), std::slice::from_ref(&there));
    let terms = [one("a", "In x"), one("c", "Exists")];
    assert_eq!(there.with_any_of(&terms), [there.intersection(&terms[0]), there.intersection(&terms[1])]);
}

#[test]
fn bounds_that_leave_only_excluded_numbers_leave_nothing() {
    let between = |text: &str| req("Gte 3").intersection(&req("Lte 4")).intersection(&req(text));
    assert!(between("NotIn 3").allows_a_value() && between("NotIn 3 5").allows_a_value());
    assert!(!between("NotIn 3 4").allows_a_value());
    assert!(between("NotIn 3").intersects(&req("In 4")) && !between("NotIn 3").intersects(&req("In 3 5")));
    assert_eq!(between("NotIn 3").any().as_deref(), Some("4"));
    assert_eq!(req("Lte -5").any(), None, "no label begins with a sign");
    assert_eq!(req("Lte 7").any().as_deref(), Some("0"));
    assert_eq!(req("Gte 7").any().as_deref(), Some("7"));
}
