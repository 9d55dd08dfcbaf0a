//! Pods that nobody would write, but that the API server might let through: none of them may stop us.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::lower;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("karpenter.sh/nodepool".to_owned()),
        Just("kubernetes.io/hostname".to_owned()),
        Just("beta.kubernetes.io/arch".to_owned()),
        "[a-c]",
        "-?[0-9]{1,20}",
        "\\PC{0,12}",
    ]
}

fn quantity() -> impl Strategy<Value = String> {
    prop_oneof!["-?[0-9]{0,40}(\\.[0-9]{0,40})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]{1,6}|E-[0-9]{1,6})?", text(),]
}

fn expression() -> impl Strategy<Value = Value> {
    let operator = prop_oneof![
        proptest::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]).prop_map(str::to_owned),
        text(),
    ];
    (text(), operator, proptest::option::of(proptest::collection::vec(text(), 0..3))).prop_map(
        |(key, operator, values)| match values {
            Some(values) => json!({"key": key, "operator": operator, "values": values}),
            None => json!({"key": key, "operator": operator}),
        },
    )
}

fn expressions() -> impl Strategy<Value = Value> {
    proptest::collection::vec(expression(), 0..4).prop_map(Value::from)
}

fn selector() -> impl Strategy<Value = Value> {
    let labels = proptest::collection::btree_map(text(), text(), 0..3);
    prop_oneof![
        Just(Value::Null),
        (expressions(), labels).prop_map(|(e, labels)| json!({"matchExpressions": e, "matchLabels": labels})),
    ]
}

fn node_terms() -> impl Strategy<Value = Value> {
    let term = (expressions(), expressions()).prop_map(|(e, f)| json!({"matchExpressions": e, "matchFields": f}));
    proptest::collection::vec(prop_oneof![Just(json!({})), term], 0..3).prop_map(Value::from)
}

fn pod_term() -> impl Strategy<Value = Value> {
    let keys = || proptest::collection::vec(text(), 0..2);
    (text(), selector(), selector(), keys(), keys(), keys()).prop_map(
        |(key, pods, namespaces, names, same, different)| {
            json!({
                "topologyKey": key, "labelSelector": pods, "namespaceSelector": namespaces, "namespaces": names,
                "matchLabelKeys": same, "mismatchLabelKeys": different,
            })
        },
    )
}

fn affinity() -> impl Strategy<Value = Value> {
    let terms = || proptest::collection::vec(pod_term(), 0..3);
    (node_terms(), terms(), terms(), any::<i32>()).prop_map(|(nodes, together, apart, weight)| {
        let weighted: Vec<Value> =
            apart.iter().map(|term| json!({"weight": weight, "podAffinityTerm": term})).collect();
        json!({
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": nodes},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": {}}],
            },
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": together},
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": apart,
                "preferredDuringSchedulingIgnoredDuringExecution": weighted,
            },
        })
    })
}

fn container() -> impl Strategy<Value = Value> {
    let list = || {
        proptest::collection::btree_map(
            prop_oneof![Just("cpu".to_owned()), Just("pods".to_owned()), text()],
            quantity(),
            0..4,
        )
    };
    (list(), list(), any::<i32>(), text(), text()).prop_map(|(requests, limits, port, policy, name)| {
        json!({
            "name": name, "restartPolicy": if port % 2 == 0 { "Always" } else { policy.as_str() },
            "resources": {"requests": requests, "limits": limits},
            "ports": [{"containerPort": port, "hostPort": port, "protocol": policy}],
        })
    })
}

fn odd_pod() -> impl Strategy<Value = Value> {
    let containers = || proptest::collection::vec(container(), 0..3);
    let labels = || proptest::collection::btree_map(text(), text(), 0..3);
    let tolerations = proptest::collection::vec((text(), text(), text(), text()), 0..3);
    (containers(), containers(), labels(), affinity(), tolerations, (text(), quantity(), any::<i32>(), selector())).prop_map(
        |(containers, init, labels, affinity, tolerations, (annotation, overhead, skew, pods))| {
            let tolerations: Vec<Value> = tolerations
                .into_iter()
                .map(|(key, operator, value, effect)| {
                    json!({"key": key, "operator": operator, "value": value, "effect": effect})
                })
                .collect();
            // It owns itself, twice.
            let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u", "controller": true});
            json!({
                "metadata": {
                    "namespace": "shop", "name": "web", "uid": "u", "labels": labels, "ownerReferences": [owner, owner],
                    "annotations": {"karpenter.sh/do-not-disrupt": annotation},
                },
                "spec": {
                    "containers": containers, "initContainers": init, "nodeSelector": labels, "affinity": affinity,
                    "tolerations": tolerations, "overhead": {"cpu": overhead},
                    "volumes": [
                        {"name": annotation, "ephemeral": {}}, {"name": "a", "persistentVolumeClaim": {"claimName": annotation}},
                        {"name": "a", "csi": {"driver": annotation}},
                    ],
                    "topologySpreadConstraints": [{
                        "maxSkew": skew, "minDomains": skew, "topologyKey": annotation, "whenUnsatisfiable": annotation,
                        "labelSelector": pods, "matchLabelKeys": [annotation],
                    }],
                },
            })
        },
    )
}

proptest! {
    #[test]
    fn no_pod_is_too_odd(wire in odd_pod()) {
        let lowered = lower(&wire);
        prop_assert_eq!(&lowered, &lower(&wire), "equal pods give equal values");
        prop_assert!(lowered.value.requests.amounts().all(|(_, amount)| amount >= 0));
        prop_assert_eq!(lowered.value.requests.pods, 1);
        prop_assert!(lowered.oddities.len() <= 16 && lowered.value.problems.len() <= 32);
    }
}

const MANY: usize = 10_000;

#[test]
fn ten_thousand_of_everything_is_soon_done() {
    let excluded = |index: usize| json!({"key": "rack", "operator": "NotIn", "values": [index.to_string()]});
    let all = |make: &dyn Fn(usize) -> Value| (0..MANY).map(make).collect::<Vec<Value>>();
    let host = |index: usize| json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [index.to_string()]}]});
    let apart =
        |index: usize| json!({"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": index.to_string()}}});
    let mut terms = all(&host);
    terms.push(json!({"matchExpressions": all(&excluded)}));
    let wire = json!({
        "metadata": {"name": "web"},
        "spec": {
            "containers": all(&|index| json!({"name": index.to_string(), "resources": {"requests": {"cpu": "9e18"}}})),
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": all(&apart)},
            },
            "tolerations": all(&|index| json!({"key": index.to_string(), "operator": "Exists"})),
            "volumes": all(&|index| json!({"name": index.to_string(), "csi": {"driver": "d"}})),
        },
    });
    let found = lower(&wire).value;
    assert_eq!(found.wants.terms.len(), MANY + 1);
    assert_eq!(found.wants.terms[MANY].get("rack").and_then(|rack| rack.excluded().map(|out| out.len())), Some(MANY));
    assert_eq!(found.wants.apart.len(), MANY);
    assert_eq!(found.requests.cpu_milli, i64::MAX);
    assert!(found.problems.len() <= 16, "{} problems", found.problems.len());
}
