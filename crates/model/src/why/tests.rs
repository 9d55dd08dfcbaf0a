use super::*;
use crate::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE};
use crate::pod::Protocol;
use crate::requirements::{Operator, Requirement};
use crate::taints::Effect;

const GI: i64 = 1 << 30;

fn req(text: &str) -> Requirement {
    let mut words = text.split_whitespace();
    let operator = Operator::parse(words.next().unwrap()).unwrap();
    Requirement::new(operator, words)
}

fn clash(key: &str, incoming: &str, existing: &str) -> Clash {
    Clash::NoCommonValue { key: key.into(), incoming: req(incoming), existing: req(existing) }
}

fn unknown(key: &str, typo_of: Option<&str>) -> Clash {
    Clash::UnknownKey { key: key.into(), typo_of: typo_of.map(Into::into) }
}

fn torn(key: &str) -> Clash {
    Clash::Contradiction { key: key.into(), requirement: req("In a").intersection(&req("In b")) }
}

fn taint(key: &str, value: &str) -> Obstacle {
    Obstacle::Taint(Taint::new(key, value, Effect::NoSchedule))
}

fn short(resource: &str, wanted: i64, available: i64) -> Obstacle {
    Obstacle::Resource { resource: Resource::from_name(resource), wanted, available }
}

fn port(ip: &str, port: u16, protocol: Protocol) -> HostPort {
    HostPort { ip: ip.into(), port, protocol }
}

fn limit(resource: &str, limit: i64, would_be: i64) -> Obstacle {
    Obstacle::Limit(BrokenLimit { resource: resource.into(), limit, would_be })
}

fn few_values(key: &str, wanted: u32, found: u32) -> Obstacle {
    Obstacle::MinValues { key: key.into(), wanted, found }
}

fn spread(least: u32, domains: &[(&str, u32)]) -> Obstacle {
    let domains = domains.iter().map(|(domain, count)| ((*domain).into(), *count)).collect();
    Obstacle::Spread { key: ZONE.into(), max_skew: 1, least, domains }
}

fn apart(other: Option<PodName>) -> Obstacle {
    Obstacle::Apart { key: ZONE.into(), other }
}

/// Checks an obstacle's own words, and what helps against it in a pool.
fn check(obstacle: &Obstacle, text: &str, hint: &str) {
    assert_eq!(obstacle.to_string(), text);
    assert_eq!(obstacle.hint(Place::Pool(&"p".into())), hint, "for {text}");
}

fn check_pool(obstacles: &[Obstacle], sentence: &str) {
    assert_eq!(Place::Pool(&"p".into()).sentence(obstacles), format!("NodePool \"p\": {sentence}"));
}

fn unplaced(general: &[Obstacle], pools: &[(&str, &[Obstacle])], closest: Option<&str>) -> Unplaced {
    Unplaced {
        pod: PodName::new("default", "a"),
        nearest_node: None,
        pools: pools.iter().map(|(name, obstacles)| ((*name).into(), obstacles.to_vec())).collect(),
        closest_pool: closest.map(Into::into),
        general: general.to_vec(),
    }
}

#[test]
fn taints_and_labels_are_named_with_their_remedy() {
    check(
        &taint("team", "a"),
        "taint team=a:NoSchedule is not tolerated",
        "add a toleration for team=a:NoSchedule to the pod, or remove the taint from NodePool \"p\"",
    );
    check(
        &Obstacle::Label(unknown("zone", Some(ZONE))),
        "label \"zone\" does not have known values (typo of \"topology.kubernetes.io/zone\"?)",
        "write topology.kubernetes.io/zone for zone in the pod",
    );
    check(
        &Obstacle::Label(unknown("colour", None)),
        "label \"colour\" does not have known values",
        "give NodePool \"p\" the label colour, or let the pod ask nothing of it",
    );
    check(
        &Obstacle::Label(clash("size", "In large", "In small tiny")),
        "key size, size In [large] not in size In [small tiny]",
        "let the pod take size In [small tiny], or let NodePool \"p\" have size In [large]",
    );
    check(
        &Obstacle::Label(clash("size", "In large", "In")),
        "key size, size In [large] not in size DoesNotExist",
        "let NodePool \"p\" have size In [large]",
    );
    check(
        &Obstacle::Label(torn("size")),
        "key size, size DoesNotExist allows no value",
        "change what the pod asks of size, no value meets all of it",
    );
}

#[test]
fn volumes_say_where_they_are() {
    check(
        &Obstacle::VolumePlace(clash(ZONE, "In a", "In b")),
        "the pod's volumes are elsewhere, key topology.kubernetes.io/zone, topology.kubernetes.io/zone In [a] not in \
         topology.kubernetes.io/zone In [b]",
        "let NodePool \"p\" have topology.kubernetes.io/zone In [a], where the pod's volumes are, or move them",
    );
    check(
        &Obstacle::VolumePlace(unknown("rack", None)),
        "the pod's volumes are elsewhere, label \"rack\" does not have known values",
        "give NodePool \"p\" the label rack, by which the pod's volumes are found",
    );
    check(
        &Obstacle::VolumePlace(torn("rack")),
        "the pod's volumes are elsewhere, key rack, rack DoesNotExist allows no value",
        "move the pod's volumes together, no rack reaches all of them",
    );
    check(
        &Obstacle::Attachments { driver: "ebs.csi.aws.com".into(), would_be: 41, limit: 39 },
        "41 volumes of ebs.csi.aws.com would be attached, the limit is 39",
        "use fewer volumes of ebs.csi.aws.com in the pod, NodePool \"p\" attaches no more than 39",
    );
}

#[test]
fn amounts_are_written_as_kubernetes_writes_them() {
    for (obstacle, text, hint) in [
        (
            short("cpu", 9000, 2900),
            "not enough cpu, 9 wanted and 2900m available",
            "has more than 2900m of cpu for the pod; ask for no more, or allow larger types",
        ),
        (
            short("memory", 3 * GI, GI + (1 << 20)),
            "not enough memory, 3Gi wanted and 1025Mi available",
            "has more than 1025Mi of memory for the pod; ask for no more, or allow larger types",
        ),
        (
            short("ephemeral-storage", 1 << 60, 1025),
            "not enough ephemeral-storage, 1Ei wanted and 1025 available",
            "has more than 1025 of ephemeral-storage for the pod; ask for no more, or allow larger types",
        ),
        (
            short("nvidia.com/gpu", 2000, 0),
            "not enough nvidia.com/gpu, 2000 wanted and 0 available",
            "has any nvidia.com/gpu for the pod; ask for none, or allow types that have it",
        ),
        (
            short("memory", 1, -1024),
            "not enough memory, 1 wanted and -1Ki available",
            "has any memory for the pod; ask for none, or allow types that have it",
        ),
        (
            short("pods", 1, 0),
            "not enough pods, 1 wanted and 0 available",
            "has any pods for the pod; ask for none, or allow types that have it",
        ),
    ] {
        check(&obstacle, text, &format!("no instance type of NodePool \"p\" {hint}"));
    }
    let node = NodeName::from("n");
    for (obstacle, hint) in [
        (short("cpu", 1000, 500), "node \"n\" has 500m of cpu left; ask for no more, or free some"),
        (short("cpu", 1000, 0), "node \"n\" has no cpu left; free some"),
    ] {
        assert_eq!(obstacle.hint(Place::Node(&node)), hint);
    }
}

#[test]
fn ports_name_their_address_where_they_have_one() {
    let hint =
        |wanted: &str, held: &str| format!("use another hostPort than {wanted}, or free {held} on NodePool \"p\"");
    for (wanted, held, texts) in [
        (port("", 80, Protocol::Tcp), port("10.0.0.1", 80, Protocol::Tcp), ["80/TCP", "10.0.0.1:80/TCP"]),
        (port("::", 53, Protocol::Udp), port("", 53, Protocol::Udp), ["[::]:53/UDP", "53/UDP"]),
        (port("", 9, Protocol::Sctp), port("", 9, Protocol::Sctp), ["9/SCTP", "9/SCTP"]),
    ] {
        let text = format!("host port {} clashes with {}", texts[0], texts[1]);
        check(&Obstacle::Port { wanted, held }, &text, &hint(texts[0], texts[1]));
    }
}

#[test]
fn other_pods_are_told_by_the_rule_and_its_counts() {
    let key = "topology.kubernetes.io/zone";
    check(
        &spread(1, &[("a", 2), ("b", 1), ("c", 1)]),
        &format!("topology spread over {key} would exceed maxSkew 1, counted a=2, b=1, c=1, least 1"),
        &format!("raise maxSkew of the spread over {key} above 1, or make room in b, c"),
    );
    check(
        &spread(0, &[("a", 1), ("b", 1)]),
        &format!("topology spread over {key} would exceed maxSkew 1, counted a=1, b=1, least 0"),
        &format!("raise maxSkew of the spread over {key} above 1, or make room in more domains"),
    );
    check(
        &spread(9, &[("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 6), ("g", 7)]),
        &format!(
            "topology spread over {key} would exceed maxSkew 1, counted a=1, b=2, c=3, d=4, e=5 and 2 others, least 9"
        ),
        &format!("raise maxSkew of the spread over {key} above 1, or make room in a, b, c, d, e and 2 others"),
    );
    check(
        &spread(0, &[]),
        &format!("topology spread over {key} has no domain, no node and no NodePool has that label"),
        &format!("give NodePool \"p\" the label {key}, or let the spread be ScheduleAnyway"),
    );
    check(
        &Obstacle::Together { key: HOSTNAME.into() },
        "required pod affinity over kubernetes.io/hostname finds nobody in any domain that is open to the pod",
        "start a pod that the required pod affinity over kubernetes.io/hostname selects, or make it preferred",
    );
    check(
        &Obstacle::NewDomain { key: key.into() },
        &format!("a new domain of {key} would break the topology spread of pods that are placed already"),
        &format!("raise maxSkew of the pods that spread over {key}, or open the same domains of {key} to all of them"),
    );
    let hint = format!("open more domains of {key} to the pod, or make the required pod anti-affinity preferred");
    for (other, who) in [(None, "somebody"), (Some(PodName::new("web", "b")), "pod web/b")] {
        let text = format!("required pod anti-affinity over {key} finds {who} in every domain that is open to the pod");
        check(&apart(other), &text, &hint);
    }
}

#[test]
fn limits_say_how_far_they_would_have_to_rise() {
    check(
        &limit("cpu", 3000, 4500),
        "all available instance types exceed limits for nodepool (limits.cpu=3, wouldBe=4500m)",
        "raise limits.cpu of NodePool \"p\" above 3, to 4500m or more",
    );
    check(
        &limit("memory", 0, 8 * GI),
        "all available instance types exceed limits for nodepool (limits.memory=0, wouldBe=8Gi)",
        "raise limits.memory of NodePool \"p\" above 0, to 8Gi or more",
    );
    check(
        &limit("nodes", 2, 3),
        "node limits have been exhausted for nodepool (limits.nodes=2, wouldBe=3)",
        "raise limits.nodes of NodePool \"p\" above 2, to 3 or more",
    );
}

// 01/MIN-02
#[test]
fn an_unmet_minimum_names_the_label() {
    check(
        &few_values(INSTANCE_TYPE, 3, 2),
        "minValues requirement is not met for label(s) (found=2, label(s)=[node.kubernetes.io/instance-type], \
         minValues=3)",
        "lower minValues of node.kubernetes.io/instance-type in NodePool \"p\" to 2, or set min-values-policy to \
         BestEffort",
    );
    check(
        &few_values("size", 1, 0),
        "minValues requirement is not met for label(s) (found=0, label(s)=[size], minValues=1)",
        "remove minValues of size from NodePool \"p\"",
    );
}

#[test]
fn what_has_no_values_has_words_too() {
    check(
        &Obstacle::NoOffering,
        "no instance type has the required offering",
        "allow more zones, capacity types or instance types in NodePool \"p\" or the pod, or wait until the cloud has \
         capacity again",
    );
    check(
        &Obstacle::NoInstanceType,
        "nodepool requirements filtered out all available instance types",
        "loosen spec.template.spec.requirements of NodePool \"p\", which no instance type meets",
    );
    check(
        &Obstacle::Reserved,
        "reserved capacity suits the pod, but is spoken for in this pass",
        "nothing is to be done, the next pass tries again",
    );
    check(
        &Obstacle::ResourceClaims,
        "the pod asks for devices by spec.resourceClaims, which are not served",
        "remove spec.resourceClaims from the pod, or give it a node without a NodePool",
    );
    check(
        &Obstacle::NoPool,
        "no dynamic nodepools found",
        "create a NodePool without replicas, or see why those that are there are not Ready",
    );
    check(
        &Obstacle::NotReached,
        "the pass ended before the pod's turn",
        "nothing is to be done, the next pass tries again",
    );
}

#[test]
fn a_pool_without_instance_types_is_told_what_filtered_them_out() {
    let all = "NodePool requirements filtered out all compatible available instance types";
    let by_minimum = format!("{all} due to minValues incompatibility");
    assert_eq!(Obstacle::NoInstanceType.no_compatible_instance_types(), Some(all));
    assert_eq!(few_values("size", 2, 1).no_compatible_instance_types(), Some(by_minimum.as_str()));
    assert_eq!(Obstacle::NoOffering.no_compatible_instance_types(), None);
}

#[test]
fn the_sentence_follows_from_what_the_types_had() {
    // One letter for each thing that a type had: requirements, resources, offering.
    for (types, expected) in [
        (
            vec![""],
            "no instance type met the scheduling requirements or had enough resources or had a required offering",
        ),
        (vec!["o"], "no instance type met the scheduling requirements or had enough resources"),
        (vec!["f"], "no instance type met the scheduling requirements or had a required offering"),
        (vec!["r"], "no instance type had enough resources or had a required offering"),
        (vec!["fo"], "no instance type met all requirements"),
        (vec!["f", "o"], "no instance type met all requirements"),
        (vec!["ro"], "no instance type has enough resources"),
        (vec!["r", "o"], "no instance type has enough resources"),
        (vec!["rf"], "no instance type has the required offering"),
        (vec!["rf", "o"], "no instance type that met all requirements with enough resources has the required offering"),
        (vec!["ro", "f"], "no instance type that met all requirements with the required offering has enough resources"),
        (vec!["fo", "r"], "no instance type that has enough resources with the required offering met all requirements"),
        (vec!["r", "f", "o"], "no instance type met the requirements/resources/offering tuple"),
        (vec![], "no instance type met the scheduling requirements or had enough resources or had a required offering"),
    ] {
        let had = |letters: &&str| TypeHad {
            requirements: letters.contains('r'),
            resources: letters.contains('f'),
            offering: letters.contains('o'),
        };
        let met: Vec<TypeHad> = types.iter().map(had).collect();
        assert_eq!(TypeHad::sentence(&met), expected, "{types:?}");
    }
}

#[test]
fn what_the_types_of_a_pool_lack_is_told_in_one_sentence() {
    let label = || Obstacle::Label(clash("size", "In large", "In small"));
    let cpu = || short("cpu", 9000, 2900);
    let (labels, resources) = (
        ", requirements=size In [large] (offered size In [small])",
        ", resources={\"cpu\":\"9\"} (at most {\"cpu\":\"2900m\"})",
    );
    let sold_out = " (no offering is available)";
    for (obstacles, expected) in [
        (vec![cpu()], format!("no instance type has enough resources{resources}")),
        // The reference counts resources only where there is an offering.
        (
            vec![Obstacle::NoOffering],
            format!("no instance type had enough resources or had a required offering{sold_out}"),
        ),
        (
            vec![cpu(), Obstacle::NoOffering],
            format!("no instance type had enough resources or had a required offering{resources}{sold_out}"),
        ),
        (
            vec![label(), cpu()],
            format!("no instance type met the scheduling requirements or had enough resources{labels}{resources}"),
        ),
        (
            vec![Obstacle::NoOffering, cpu(), label()],
            format!(
                "no instance type met the scheduling requirements or had enough resources or had a required offering\
                 {labels}{resources}{sold_out}"
            ),
        ),
    ] {
        check_pool(&obstacles, &expected);
    }
    check_pool(
        &[short("cpu", 1000, 500), short("memory", 4 * GI, GI)],
        "no instance type has enough resources, resources={\"cpu\":\"1\",\"memory\":\"4Gi\"} (at most \
         {\"cpu\":\"500m\",\"memory\":\"1Gi\"})",
    );
    check_pool(
        &[short("memory", 4 * GI, GI), Obstacle::VolumePlace(clash(HOSTNAME, "In a", "In b"))],
        "no instance type met the scheduling requirements or had enough resources, \
         requirements=kubernetes.io/hostname (offered kubernetes.io/hostname), resources={\"memory\":\"4Gi\"} (at most \
         {\"memory\":\"1Gi\"})",
    );
}

#[test]
fn values_that_exclude_each_other_are_a_clash_and_others_a_matter_of_types() {
    check_pool(
        &[Obstacle::Label(clash("size", "In large", "In small"))],
        "key size, size In [large] not in size In [small]",
    );
    // Spot is there and large is there, but no type is both.
    check_pool(
        &[Obstacle::Label(clash(CAPACITY_TYPE, "In spot", "In on-demand spot"))],
        "no instance type met all requirements, requirements=karpenter.sh/capacity-type In [spot] (offered \
         karpenter.sh/capacity-type In [on-demand spot])",
    );
}

#[test]
fn a_million_cores_are_a_slip_of_the_pen() {
    let million = 1_000_000_000;
    for (wanted, is_absurd) in [(million - 1, false), (million, true), (i64::MAX, true)] {
        let obstacle = short("cpu", wanted, 2000);
        let sentence = Place::Pool(&"p".into()).sentence(std::slice::from_ref(&obstacle));
        assert_eq!(sentence.contains("has enough resources (cpu of 1M or more, m vs M typo?), resources="), is_absurd);
        let hint = obstacle.hint(Place::Pool(&"p".into()));
        let expected = "write m and not M behind the pod's cpu request if thousandths of a core are meant";
        assert_eq!(hint == expected, is_absurd);
    }
    check_pool(&[short("memory", million, 2000)], {
        "no instance type has enough resources, resources={\"memory\":\"1000000000\"} (at most {\"memory\":\"2000\"})"
    });
}

#[test]
fn a_place_is_named_before_its_obstacles() {
    let obstacles = [short("cpu", 1000, 500), taint("team", "")];
    let (node, pool) = (NodeName::from("n"), PoolName::from("p"));
    for (place, expected) in [
        (Place::Anywhere, "not enough cpu, 1 wanted and 500m available, and taint team:NoSchedule is not tolerated"),
        (
            Place::Node(&node),
            "node \"n\": not enough cpu, 1 wanted and 500m available, and taint team:NoSchedule is not tolerated",
        ),
        (
            Place::Pool(&pool),
            "NodePool \"p\": taint team:NoSchedule is not tolerated, and no instance type has enough resources, \
             resources={\"cpu\":\"1\"} (at most {\"cpu\":\"500m\"})",
        ),
    ] {
        assert_eq!(place.sentence(&obstacles), expected);
    }
    assert_eq!(Place::Pool(&pool).sentence(&[]), "NodePool \"p\": nothing stands in the way");
}

#[test]
fn a_pod_is_told_of_every_pool_the_nearest_node_and_the_remedy() {
    let gpu: &[Obstacle] = &[taint("gpu", "yes")];
    let full: &[Obstacle] = &[limit("cpu", 3000, 4000), taint("team", "a")];
    let mut reason = unplaced(&[], &[("full", full), ("free", &[]), ("gpu", gpu)], Some("gpu"));
    reason.nearest_node = Some(("n".into(), vec![short("cpu", 1000, 500)]));
    assert_eq!(
        reason.failed_scheduling().unwrap(),
        "Failed to schedule pod, NodePool \"full\": all available instance types exceed limits for nodepool \
         (limits.cpu=3, wouldBe=4), and taint team=a:NoSchedule is not tolerated; NodePool \"gpu\": taint \
         gpu=yes:NoSchedule is not tolerated; node \"n\": not enough cpu, 1 wanted and 500m available; closest is \
         NodePool \"gpu\": add a toleration for gpu=yes:NoSchedule to the pod, or remove the taint from NodePool \"gpu\""
    );
}

#[test]
fn what_holds_everywhere_comes_first() {
    for (reason, expected) in [
        (
            unplaced(&[Obstacle::NoPool], &[], None),
            "no dynamic nodepools found; create a NodePool without replicas, or see why those that are there are not \
             Ready",
        ),
        (
            unplaced(&[Obstacle::ResourceClaims], &[("p", &[Obstacle::NoInstanceType])], Some("p")),
            "the pod asks for devices by spec.resourceClaims, which are not served; NodePool \"p\": nodepool \
             requirements filtered out all available instance types; closest is NodePool \"p\": remove \
             spec.resourceClaims from the pod, or give it a node without a NodePool; loosen \
             spec.template.spec.requirements of NodePool \"p\", which no instance type meets",
        ),
        (
            unplaced(&[few_values("size", 3, 2)], &[("p", &[])], None),
            "pod didn't schedule because NodePool couldn't meet minValues requirements, minValues requirement is not \
             met for label(s) (found=2, label(s)=[size], minValues=3); lower minValues of size in the NodePool to 2, \
             or set min-values-policy to BestEffort",
        ),
        (unplaced(&[], &[("p", &[])], None), "nothing stands in the way any more, the next pass tries again"),
    ] {
        assert_eq!(reason.to_string(), expected);
        assert_eq!(reason.failed_scheduling(), Some(format!("Failed to schedule pod, {expected}")));
    }
}

#[test]
fn a_pod_without_a_verdict_gets_no_event() {
    for open in [Obstacle::Reserved, Obstacle::NotReached] {
        assert_eq!(unplaced(&[open], &[("p", &[taint("team", "")])], Some("p")).failed_scheduling(), None);
    }
}

// 01/POD-02
#[test]
fn problems_of_a_pod_are_told_except_to_those_that_want_nothing_from_us() {
    let fields = PodProblem::MatchFields;
    let selector = PodProblem::Requirement { text: "node selector: label x is restricted".into() };
    let volume = PodProblem::Volume { volume: "data".into(), text: "claim default/data does not exist".into() };
    assert_eq!(PodProblem::failed_scheduling(&[]), None);
    assert_eq!(PodProblem::failed_scheduling(&[PodProblem::WantsOtherNodes]), None);
    assert_eq!(
        PodProblem::failed_scheduling(&[selector, fields, volume]).unwrap(),
        "Failed to schedule pod, node selector: label x is restricted; node selector term with matchFields is not \
         supported; volume data: claim default/data does not exist"
    );
    assert_eq!(PodProblem::WantsOtherNodes.to_string(), "the pod wants no node of a NodePool");
}

#[test]
fn a_claim_says_whom_it_is_for_and_what_it_costs() {
    let price = |pico| Price::from_pico(pico);
    let mut reason = ClaimReason {
        pods: (0..7).map(|i| PodName::new("web", &format!("a{i}"))).collect(),
        binding: Some(short("cpu", 1000, 500)),
        price: price(96_000_000_000),
        cheapest: Some("m5.large".into()),
        runner_up: Some(("m6i.large".into(), price(100_000_000_000))),
    };
    assert_eq!(
        reason.to_string(),
        "for web/a0, web/a1, web/a2, web/a3, web/a4 and 2 others, on the nearest node not enough cpu, 1 wanted and 500m \
         available; m5.large is cheapest at $0.0960/h, then m6i.large at $0.1000/h"
    );
    reason.pods = reason.pods[..1].into();
    (reason.binding, reason.runner_up) = (None, None);
    assert_eq!(reason.to_string(), "for web/a0; m5.large is cheapest at $0.0960/h");
}
