//! Taints and tolerations, and which taints a node sheds by itself while it starts.

use api::taint::TaintEffect;
use k8s_openapi::api::core::v1;
use model::taints::{Effect, Match, Taint, Toleration, canonical_integer};

use super::Oddities;

/// Taints of nodes that are only just coming up, by key and effect.
const EPHEMERAL: [(&str, Effect); 5] = [
    ("node.kubernetes.io/not-ready", Effect::NoSchedule),
    ("node.kubernetes.io/not-ready", Effect::NoExecute),
    ("node.kubernetes.io/unreachable", Effect::NoSchedule),
    ("node.cloudprovider.kubernetes.io/uninitialized", Effect::NoSchedule),
    (api::labels::taints::UNREGISTERED, Effect::NoExecute),
];

/// Readiness gates of nodes: somebody removes each of these when some part of the node works.
const READINESS: &str = "readiness.k8s.io/";

/// Whether a starting node is known to lose this taint by itself.
pub fn is_ephemeral(taint: &Taint) -> bool {
    taint.key.starts_with(READINESS) || EPHEMERAL.contains(&(&*taint.key, taint.effect))
}

pub(super) fn of_list(list: &[api::taint::Taint]) -> Vec<Taint> {
    list.iter()
        .map(|wire| Taint::new(&wire.key, wire.value.as_deref().unwrap_or_default(), of_effect(wire.effect)))
        .collect()
}

fn of_effect(effect: TaintEffect) -> Effect {
    match effect {
        TaintEffect::NoSchedule => Effect::NoSchedule,
        TaintEffect::PreferNoSchedule => Effect::PreferNoSchedule,
        TaintEffect::NoExecute => Effect::NoExecute,
    }
}

/// A node's taints. One of an effect that nobody knows keeps nobody off.
pub(super) fn of_node(node: &v1::Node, oddities: &mut Oddities<'_>) -> Vec<Taint> {
    let spec = node.spec.as_ref();
    let mut taints = Vec::new();
    for wire in spec.and_then(|spec| spec.taints.as_ref()).into_iter().flatten() {
        match effect(&wire.effect) {
            Some(effect) => taints.push(Taint::new(&wire.key, wire.value.as_deref().unwrap_or_default(), effect)),
            None => oddities.note(format_args!("spec.taints[{}]", wire.key), unknown_effect(&wire.effect)),
        }
    }
    // The scheduler acts on the flag at once; the taint that says the same comes a moment later.
    let cordon = Taint::new("node.kubernetes.io/unschedulable", "", Effect::NoSchedule);
    let is_cordoned = spec.is_some_and(|spec| spec.unschedulable == Some(true));
    if is_cordoned && !taints.iter().any(|taint| taint.is_same(&cordon)) {
        taints.push(cordon);
    }
    taints
}

fn effect(text: &str) -> Option<Effect> {
    [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute]
        .into_iter()
        .find(|effect| effect.to_string() == text)
}

fn unknown_effect(text: &str) -> String {
    format!("effect {text:?} is not known; use NoSchedule, PreferNoSchedule or NoExecute")
}

pub(super) fn tolerations(spec: &v1::PodSpec, oddities: &mut Oddities<'_>) -> Vec<Toleration> {
    let mut tolerations = Vec::new();
    for (index, wire) in spec.tolerations.iter().flatten().enumerate() {
        match toleration(wire) {
            Ok(toleration) => tolerations.push(toleration),
            Err(text) => oddities.note(format_args!("spec.tolerations[{index}]"), text),
        }
    }
    tolerations
}

fn toleration(wire: &v1::Toleration) -> Result<Toleration, String> {
    let value = wire.value.as_deref().unwrap_or_default();
    let bound = || canonical_integer(value).ok_or_else(|| format!("value {value:?} is not a whole number"));
    let matches = match wire.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => Match::Equal(value.into()),
        "Exists" => Match::Any,
        "Gt" => Match::Above(bound()?),
        "Lt" => Match::Below(bound()?),
        other => return Err(format!("operator {other:?} is not known; use Equal, Exists, Gt or Lt")),
    };
    let effect = match wire.effect.as_deref().unwrap_or_default() {
        "" => None,
        text => Some(effect(text).ok_or_else(|| unknown_effect(text))?),
    };
    Ok(Toleration { key: wire.key.as_deref().filter(|key| !key.is_empty()).map(Into::into), matches, effect })
}

/// What the DaemonSet controller lets every pod of its own put up with. A live pod carries these already.
pub(super) fn daemon_tolerations(spec: &v1::PodSpec) -> Vec<Toleration> {
    let mut granted = vec![
        ("node.kubernetes.io/not-ready", Effect::NoExecute),
        ("node.kubernetes.io/unreachable", Effect::NoExecute),
        ("node.kubernetes.io/disk-pressure", Effect::NoSchedule),
        ("node.kubernetes.io/memory-pressure", Effect::NoSchedule),
        ("node.kubernetes.io/pid-pressure", Effect::NoSchedule),
        ("node.kubernetes.io/unschedulable", Effect::NoSchedule),
    ];
    if spec.host_network == Some(true) {
        granted.push(("node.kubernetes.io/network-unavailable", Effect::NoSchedule));
    }
    let toleration =
        |(key, effect): (&str, Effect)| Toleration { key: Some(key.into()), matches: Match::Any, effect: Some(effect) };
    granted.into_iter().map(toleration).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::{Value, json};

    use super::*;

    // 01/TNT-05
    #[test]
    fn only_known_taints_and_readiness_keys_are_ephemeral() {
        let is = |key: &str, effect| is_ephemeral(&Taint::new(key, "", effect));
        for effect in [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute] {
            assert!(is("readiness.k8s.io/network", effect), "every effect of a readiness key");
            for key in ["", "readiness.k8s.io", "my-readiness.k8s.io/network", "a/readiness.k8s.io/x", "dedicated"] {
                assert!(!is(key, effect), "{key}");
            }
        }
        assert!(is("node.kubernetes.io/not-ready", Effect::NoSchedule));
        assert!(is("node.kubernetes.io/not-ready", Effect::NoExecute));
        assert!(is("node.kubernetes.io/unreachable", Effect::NoSchedule));
        assert!(is("node.cloudprovider.kubernetes.io/uninitialized", Effect::NoSchedule));
        assert!(is("karpenter.sh/unregistered", Effect::NoExecute));
        assert!(!is("node.kubernetes.io/not-ready", Effect::PreferNoSchedule));
        assert!(!is("node.kubernetes.io/unreachable", Effect::NoExecute));
        assert!(!is("karpenter.sh/unregistered", Effect::NoSchedule));
        assert!(!is("karpenter.sh/disrupted", Effect::NoSchedule));
    }

    #[test]
    fn a_value_does_not_tell_ephemeral_taints_apart() {
        let taint = Taint::new("node.cloudprovider.kubernetes.io/uninitialized", "true", Effect::NoSchedule);
        assert!(is_ephemeral(&taint));
    }

    fn check(toleration: Value, expected: Option<Toleration>) {
        let spec: v1::PodSpec =
            serde_json::from_value(json!({"containers": [], "tolerations": [toleration.clone()]})).unwrap();
        let metadata = ObjectMeta::default();
        let mut oddities = Oddities::of("Pod", &metadata);
        let found = tolerations(&spec, &mut oddities);
        assert_eq!(oddities.found.is_empty(), expected.is_some(), "{toleration}");
        assert_eq!(found.into_iter().next(), expected, "{toleration}");
    }

    fn expected(key: Option<&str>, matches: Match, effect: Option<Effect>) -> Option<Toleration> {
        Some(Toleration { key: key.map(Into::into), matches, effect })
    }

    #[test]
    fn tolerations_keep_every_operator_and_drop_what_makes_no_sense() {
        check(json!({"key": "a"}), expected(Some("a"), Match::Equal("".into()), None));
        check(json!({"key": "a", "operator": "", "value": "1"}), expected(Some("a"), Match::Equal("1".into()), None));
        check(json!({"operator": "Exists", "key": ""}), expected(None, Match::Any, None));
        check(
            json!({"key": "a", "operator": "Gt", "value": "7", "effect": "NoExecute"}),
            expected(Some("a"), Match::Above(7), Some(Effect::NoExecute)),
        );
        check(json!({"key": "a", "operator": "Lt", "value": "-7"}), expected(Some("a"), Match::Below(-7), None));
        check(json!({"key": "a", "operator": "Gt", "value": "07"}), None);
        check(json!({"key": "a", "operator": "Like"}), None);
        check(json!({"key": "a", "effect": "Never"}), None);
    }
}
