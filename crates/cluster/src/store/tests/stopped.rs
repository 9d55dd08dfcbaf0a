use super::*;
use crate::wake::Duty;

fn namespace(name: &str, annotations: Value) -> Object {
    let wire = json!({"metadata": {"name": name, "annotations": annotations}});
    Object::from(read::<k8s_openapi::api::core::v1::Namespace>(wire))
}

fn switch(value: &str) -> Object {
    namespace("kube-system", json!({"dovetail.sh/stop-disruption": value}))
}

// Spec 02, flaw 33
#[test]
fn an_annotation_stops_disruption_in_the_whole_cluster_and_its_end_is_noticed_at_once() {
    let mut store = store().with([namespace("kube-system", json!({})), switch("false")]);
    let seen = |store: &mut Store| store.snapshot(at(1)).stopped.as_deref().map(str::to_owned);
    assert_eq!(seen(&mut store), None, "false is what people write to take it back");
    store.apply(namespace("shop", json!({"dovetail.sh/stop-disruption": "true"})), at(1));
    assert_eq!(seen(&mut store), None, "one namespace of all is asked");
    for text in ["true", "INC-42", ""] {
        let quiet = store.quiet_mark(at(1));
        assert!(store.apply(switch(text), at(1)).wake.contains(&Duty::Disrupt));
        assert_ne!(store.quiet_mark(at(1)), quiet, "whoever was at rest looks again");
        assert_eq!((seen(&mut store).as_deref(), store.disruption_stopped().map(|it| &**it)), (Some(text), Some(text)));
    }
    assert!(!store.apply(switch(""), at(1)).wake.contains(&Duty::Disrupt), "nothing new");
    assert!(store.apply(namespace("kube-system", json!({})), at(1)).wake.contains(&Duty::Disrupt));
    assert_eq!(seen(&mut store), None);
    store.apply(switch("true"), at(1));
    store.end(switch("true"));
    assert_eq!(seen(&mut store), None);
}
