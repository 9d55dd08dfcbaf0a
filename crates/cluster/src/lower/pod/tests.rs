use model::pod::{HostPort, Protocol, Wants};
use model::requirements::{Operator, Requirement, Requirements};
use model::taints::Match;
use model::time::Instant;
use model::topology::{Namespaces, Policy, Selector, SpreadMode};
use serde_json::{Value, json};

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";

/// A pod of namespace `shop`, in a cluster with a few namespaces and nothing else.
pub(super) fn lower(wire: &Value) -> Lowered<Pod> {
    let rules = LabelRules::with_provider(&["karpenter.kwok.sh/instance-size"], &["karpenter.kwok.sh"]);
    let (storage, workloads) = (Storage::default(), BTreeMap::new());
    let team = |name: &str| -> Labels { [("team".into(), name.into())].into() };
    let namespaces: BTreeMap<Namespace, Labels> =
        [("shop".into(), team("a")), ("bank".into(), team("a")), ("lab".into(), team("b"))].into();
    let around = Surroundings {
        rules: &rules,
        namespaces: &namespaces,
        storage: &storage,
        workloads: &workloads,
        default_spread: &[],
    };
    pod(&serde_json::from_value(wire.clone()).unwrap(), &around)
}

fn with_spec(fields: Value) -> Value {
    let mut wire = json!({
        "metadata": {"namespace": "shop", "name": "web", "labels": {"app": "web", "hash": "1"}},
        "spec": {"containers": []},
    });
    for (key, value) in fields.as_object().unwrap() {
        wire["spec"][key] = value.clone();
    }
    wire
}

fn wants(fields: Value) -> Wants {
    Wants::clone(&lower(&with_spec(fields)).value.wants)
}

fn required(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }}})
}

fn preferred(terms: Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}})
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

// 01/ALG-01
#[test]
fn old_label_spellings_become_stable_everywhere() {
    for (old, stable) in [
        ("failure-domain.beta.kubernetes.io/zone", ZONE),
        ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ] {
        let expected = Requirements::default().with(stable, Requirement::new(Operator::In, ["a"]));
        let term = expression(old, "In", &["a"]);
        assert_eq!(wants(json!({"nodeSelector": {old: "a"}})).selector, expected);
        assert_eq!(wants(required(json!([term]))).terms, std::slice::from_ref(&expected));
        assert_eq!(wants(preferred(json!([{"weight": 1, "preference": term}]))).preferred_nodes[0].item, expected);
    }
}

#[test]
fn terms_keep_their_operators_and_combine_their_expressions() {
    let terms = wants(required(json!([
        {"matchExpressions": [
            {"key": "cores", "operator": "Gt", "values": ["3"]},
            {"key": "cores", "operator": "Lt", "values": ["9"]},
            {"key": "rack", "operator": "NotIn", "values": ["a"]},
            {"key": "rack", "operator": "NotIn", "values": ["b"]},
            {"key": "gpu", "operator": "DoesNotExist"},
            {"key": "disk", "operator": "Exists"},
        ]},
        expression("cores", "Gt", &["3", "4"]),
        expression("cores", "Near", &["3"]),
    ])))
    .terms;
    assert_eq!(terms[0].to_string(), "cores Exists >=4 <=8, disk Exists, gpu DoesNotExist, rack NotIn [a b]");
    for broken in &terms[1..] {
        assert!(broken.get("cores").unwrap().is_contradiction(), "{broken}");
    }
}

#[test]
fn an_empty_term_selects_nothing_and_is_dropped_beside_others() {
    let zone = expression(ZONE, "In", &["a"]);
    assert_eq!(wants(required(json!([{}, zone, {"matchExpressions": []}]))).terms.len(), 1);
    for nothing in [json!([]), json!([{}])] {
        let pod = lower(&with_spec(required(nothing))).value;
        assert_eq!(pod.wants.terms.len(), 1, "asking for nothing is not the same as asking for no node");
        assert!(pod.wants.terms[0].iter().any(|(_, requirement)| requirement.is_contradiction()));
        assert_eq!(pod.problems.len(), 1);
    }
    assert_eq!(wants(preferred(json!([{"weight": 1, "preference": {}}]))).preferred_nodes, []);
}

fn check_problems(fields: Value, expected: &[&str]) {
    let found: Vec<String> = lower(&with_spec(fields)).value.problems.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found} should contain {expected}");
    }
}

// 01/POD-04
#[test]
fn hostnames_and_restricted_domains_are_problems_unless_only_preferred() {
    for key in ["kubernetes.io/hostname", "karpenter.sh/custom", "sub.karpenter.sh/x", "karpenter.kwok.sh/other"] {
        check_problems(json!({"nodeSelector": {key: "a"}}), &[&format!("node selector: label {key} is restricted")]);
        let second = json!([expression(ZONE, "Exists", &[]), expression(key, "In", &["a"])]);
        check_problems(required(second), &[&format!("term 1: label {key} is restricted")]);
        check_problems(preferred(json!([{"weight": 1, "preference": expression(key, "In", &["a"])}])), &[]);
    }
    check_problems(json!({"nodeSelector": {"karpenter.kwok.sh/instance-size": "large", "team": "a"}}), &[]);
    check_problems(
        required(json!([expression("cores", "Gt", &["-1"]), expression("a", "In", &[]), expression("a", "Is", &[])])),
        &["term 0: value \"-1\"", "term 0: operator Gt", "term 1: operator In", "term 2: operator \"Is\" on a"],
    );
}

// 01/POD-05
#[test]
fn required_match_fields_are_a_problem() {
    let by_name = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]});
    let found = lower(&with_spec(required(json!([expression(ZONE, "Exists", &[]), by_name])))).value;
    assert_eq!(found.problems, [PodProblem::MatchFields]);
    assert!(found.wants.terms[1].get("kubernetes.io/hostname").unwrap().has("n1"));
    check_problems(preferred(json!([{"weight": 1, "preference": by_name}])), &[]);
}

// 01/POD-02 differs: 0016
#[test]
fn a_pod_that_requires_no_pool_is_left_alone_without_a_word() {
    let other = expression("karpenter.sh/nodepool", "DoesNotExist", &[]);
    let ours = expression(ZONE, "In", &["a"]);
    let problems = |fields: Value| lower(&with_spec(fields)).value.problems;
    assert_eq!(problems(required(json!([other]))), [PodProblem::WantsOtherNodes]);
    let mut with_hostname = required(json!([other]));
    with_hostname["nodeSelector"] = json!({"kubernetes.io/hostname": "n1"});
    assert_eq!(problems(with_hostname), [PodProblem::WantsOtherNodes], "nothing else is reported either");
    assert_eq!(problems(required(json!([other, ours]))), [], "the other term may still be served");
    assert_eq!(problems(preferred(json!([{"weight": 100, "preference": other}]))), []);
    assert_eq!(problems(required(json!([expression("karpenter.sh/nodepool", "NotIn", &["a"])]))), []);
}

// 01/AFF-01
#[test]
fn empty_affinity_stanzas_ask_for_nothing() {
    for affinity in [
        json!({}),
        json!({"nodeAffinity": {}, "podAffinity": {}, "podAntiAffinity": {}}),
        json!({
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [],
                "preferredDuringSchedulingIgnoredDuringExecution": [],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [],
                "preferredDuringSchedulingIgnoredDuringExecution": [],
            },
        }),
    ] {
        let found = lower(&with_spec(json!({"affinity": affinity}))).value;
        assert_eq!((&*found.wants, found.problems), (&Wants::default(), vec![]), "{affinity}");
    }
}

fn namespaces(term: Value) -> Namespaces {
    let mut term = term;
    term["topologyKey"] = "failure-domain.beta.kubernetes.io/zone".into();
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let found = wants(json!({"affinity": affinity})).together.remove(0);
    assert_eq!(&*found.key, ZONE);
    found.namespaces
}

// 01/AFF-17
#[test]
fn namespaces_are_the_pods_own_unless_others_are_named_or_selected() {
    let listed = |names: &[&str]| Namespaces::Listed(names.iter().map(|name| (*name).into()).collect());
    assert_eq!(namespaces(json!({})), listed(&["shop"]));
    assert_eq!(namespaces(json!({"namespaces": []})), listed(&["shop"]));
    assert_eq!(namespaces(json!({"namespaces": ["lab", "later"]})), listed(&["lab", "later"]));
    assert_eq!(namespaces(json!({"namespaceSelector": {}})), Namespaces::All);
    assert_eq!(namespaces(json!({"namespaceSelector": {}, "namespaces": ["lab"]})), Namespaces::All);
    let team_b = json!({"matchLabels": {"team": "b"}});
    assert_eq!(namespaces(json!({"namespaceSelector": team_b})), listed(&["lab"]));
    assert_eq!(namespaces(json!({"namespaceSelector": team_b, "namespaces": ["shop"]})), listed(&["lab", "shop"]));
    let nobody = json!({"matchLabels": {"team": "z"}});
    assert_eq!(namespaces(json!({"namespaceSelector": nobody})), listed(&[]));
}

#[test]
fn pod_terms_keep_weights_and_compare_with_the_pods_own_labels() {
    let term = json!({
        "topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["hash", "unknown"], "mismatchLabelKeys": ["app"],
    });
    let apart = wants(json!({"affinity": {"podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": term}],
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "rack"}],
    }}}));
    let Selector::Matching(requirements) = &apart.preferred_apart[0].item.selector else { panic!("{apart:?}") };
    assert!(requirements.get("app").unwrap().is_contradiction(), "web and not web");
    assert!(requirements.get("hash").unwrap().has("1"));
    assert_eq!(requirements.get("unknown"), None);
    assert_eq!(apart.preferred_apart[0].weight, 7);
    assert_eq!(apart.apart[0].selector, Selector::Nothing, "no selector selects no pod");
}

#[test]
fn a_spread_has_the_defaults_of_kubernetes_and_keeps_revisions_apart() {
    let base = json!({"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"});
    let spread = |change: Value| {
        let mut wire = base.clone();
        for (key, value) in change.as_object().unwrap() {
            wire[key] = value.clone();
        }
        wants(json!({"topologySpreadConstraints": [wire]})).spread.remove(0)
    };
    let plain = spread(json!({}));
    assert_eq!((plain.node_affinity, plain.node_taints), (Policy::Honor, Policy::Ignore));
    assert_eq!((plain.mode, plain.min_domains), (SpreadMode::DoNotSchedule, None));
    assert_eq!(plain.selector, Selector::Nothing);
    let other = spread(json!({
        "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2,
    }));
    assert_eq!((other.node_affinity, other.node_taints), (Policy::Ignore, Policy::Honor));
    assert_eq!((other.mode, other.min_domains), (SpreadMode::ScheduleAnyway, Some(2)));
    let by_hash =
        |selector: Value, keys: &[&str]| spread(json!({"labelSelector": selector, "matchLabelKeys": keys})).selector;
    let app = json!({"matchLabels": {"app": "web"}});
    let injected = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "hash", "operator": "In", "values": ["1"]}, {"key": "hash", "operator": "In", "values": ["1"]},
    ]});
    let expected = Requirements::default()
        .with("app", Requirement::new(Operator::In, ["web"]))
        .with("hash", Requirement::new(Operator::In, ["1"]));
    assert_eq!(by_hash(app.clone(), &["hash"]), Selector::Matching(expected.clone()));
    assert_eq!(by_hash(injected, &["hash"]), Selector::Matching(expected), "the API server may have added it already");
    assert_eq!(by_hash(app.clone(), &["unknown"]), by_hash(app, &[]));
    assert_eq!(by_hash(json!({}), &[]), Selector::Matching(Requirements::default()), "an empty selector selects all");
    let invalid = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]});
    assert_eq!(by_hash(invalid, &[]), Selector::Nothing);
}

#[test]
fn host_ports_are_those_of_containers_that_run_side_by_side() {
    let port = |host: Value| json!([{"containerPort": 80, "hostPort": host}]);
    let found = wants(json!({
        "containers": [
            {"name": "a", "ports": [{"containerPort": 1}, {"containerPort": 2, "hostPort": 0}]},
            {"name": "b", "ports": [{"containerPort": 3, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]},
        ],
        "initContainers": [
            {"name": "i", "ports": port(json!(81))},
            {"name": "s", "restartPolicy": "Always", "ports": port(json!(82))},
        ],
    }));
    let expected = [
        HostPort { ip: "".into(), port: 82, protocol: Protocol::Tcp },
        HostPort { ip: "10.0.0.1".into(), port: 53, protocol: Protocol::Udp },
    ];
    assert_eq!(found.ports, expected);
    let odd = lower(&with_spec(json!({"containers": [{"name": "a", "ports": port(json!(70_000))}]})));
    assert_eq!((odd.value.wants.ports.clone(), odd.oddities.len()), (vec![], 1));
}

#[test]
fn resource_claims_count_wherever_they_stand() {
    let container = json!({"name": "c", "resources": {"claims": [{"name": "gpu"}]}});
    assert!(!wants(json!({})).has_resource_claims);
    assert!(wants(json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]})).has_resource_claims);
    assert!(wants(json!({"containers": [container]})).has_resource_claims);
    assert!(wants(json!({"initContainers": [container]})).has_resource_claims);
}

fn check_protection(annotation: &str, start: Option<&str>, expected: DoNotDisrupt, is_odd: bool) {
    let mut wire = with_spec(json!({}));
    wire["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": annotation});
    wire["status"] = start.map_or_else(|| json!({}), |start| json!({"startTime": start}));
    let lowered = lower(&wire);
    assert_eq!(lowered.value.do_not_disrupt, expected, "{annotation}");
    assert_eq!(!lowered.oddities.is_empty(), is_odd, "{annotation}");
}

#[test]
fn protection_lasts_for_ever_or_for_a_time_from_the_start() {
    let start = Some("1970-01-01T00:01:00Z");
    check_protection("true", start, DoNotDisrupt::Always, false);
    check_protection("1m30s", start, DoNotDisrupt::Until(Instant::from_unix_seconds(150)), false);
    check_protection("2562047h", start, DoNotDisrupt::Until(Instant::from_unix_seconds(60 + 2_562_047 * 3600)), false);
    check_protection("1m30s", None, DoNotDisrupt::Always, false);
    for invalid in ["false", "", "-5m", "0s", "soon", "5"] {
        check_protection(invalid, start, DoNotDisrupt::No, true);
    }
    assert_eq!(lower(&with_spec(json!({}))).value.do_not_disrupt, DoNotDisrupt::No);
}

#[test]
fn a_pods_life_shows_in_its_phase_and_deletion() {
    let life = |phase: &str, is_deleted: bool| {
        let mut wire = with_spec(json!({}));
        wire["status"] = json!({"phase": phase});
        if is_deleted {
            wire["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        lower(&wire).value.life
    };
    assert_eq!(life("Running", false), Life::Active);
    assert_eq!(life("Pending", true), Life::Terminating);
    assert_eq!(life("Failed", false), Life::Terminal);
    assert_eq!(life("Succeeded", true), Life::Terminal);
}

#[test]
fn everything_else_about_a_pod_is_carried_over() {
    let wire = json!({
        "metadata": {
            "namespace": "shop", "name": "web", "uid": "u1", "creationTimestamp": "1970-01-01T00:01:00Z",
            "ownerReferences": [
                {"apiVersion": "apps/v1beta1", "kind": "DaemonSet", "name": "x", "uid": "x"},
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "x", "uid": "x"},
            ],
        },
        "spec": {
            "containers": [], "priority": 7, "nodeName": "",
            "tolerations": [{"operator": "Exists"}],
        },
        "status": {
            "nominatedNodeName": "n1",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
                {"type": "Ready", "status": "False"},
            ],
        },
    });
    let found = lower(&wire).value;
    assert_eq!((found.uid.as_str(), found.priority, found.node), ("u1", 7, None));
    assert_eq!(found.created, Instant::from_unix_seconds(60));
    assert_eq!((found.owner, found.is_ready), (Owner::StatefulSet, Readiness::NotReady));
    assert!(found.is_unschedulable && found.is_nominated && !found.is_virtual);
    assert_eq!(found.wants.tolerations[0].matches, Match::Any);
    let gated = json!({
        "metadata": {"name": "web"}, "spec": {"containers": [], "nodeName": "n1"},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
    });
    let found = lower(&gated).value;
    assert_eq!((found.is_unschedulable, found.node), (false, Some("n1".into())));
    assert_eq!(found.name.to_string(), "default/web");
}
