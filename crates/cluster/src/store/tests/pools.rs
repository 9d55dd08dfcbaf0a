use model::ids::PoolName;
use model::pool::PoolState;

use super::*;
use crate::store::ask::PoolUsage;
use crate::wake::Duty;

fn usage(store: &Store, pool: &str) -> (i64, i64, i64) {
    let PoolUsage { capacity, nodes, unlaunched } =
        store.pool_usage().remove(&PoolName::from(pool)).unwrap_or_default();
    (nodes, capacity.cpu_milli, unlaunched)
}

fn in_pool(pool: &str) -> Value {
    json!({"metadata": {"labels": {"karpenter.sh/nodepool": pool}}})
}

// 01/STA-09, 02/ST10, 01/EXN-12
#[test]
fn a_pools_totals_follow_its_machines_through_every_change() {
    let mut store = store().with([claim("c", json!({})).into()]);
    assert_eq!(usage(&store, "a"), (0, 0, 1), "nobody knows yet what it will be");
    store.apply(claim("c", launched("id-1")), at(0));
    assert_eq!(usage(&store, "a"), (1, 4000, 0), "a claim alone is one node");
    store.apply(node("n", "id-1", merged(not_registered(), json!({"status": {"capacity": {"cpu": "0"}}}))), at(0));
    assert_eq!(usage(&store, "a"), (1, 4000, 0), "with its Node it is still one");
    store.apply(node("n", "id-1", json!({"status": {"capacity": {"cpu": "5"}}})), at(0));
    assert_eq!(usage(&store, "a"), (1, 5000, 0), "and the Node knows better in the end");
    store.apply(claim("d", merged(in_pool("b"), launched("id-2"))), at(0));
    assert_eq!((usage(&store, "a"), usage(&store, "b")), ((1, 5000, 0), (1, 4000, 0)));
    store.apply(claim("d", merged(in_pool("a"), launched("id-2"))), at(0));
    assert_eq!((usage(&store, "a"), usage(&store, "b")), ((2, 9000, 0), (0, 0, 0)), "a machine changed its pool");
    store.apply(claim("d", launched("id-3")), at(0));
    assert_eq!(usage(&store, "a"), (2, 9000, 0), "another id, the same machine");
    store.end(node("n", "id-1", json!({})));
    assert_eq!(usage(&store, "a"), (2, 8000, 0), "half of it went, the claim still counts");
    store.mark_for_deletion([&"d".into()], at(60), at(0));
    assert_eq!(usage(&store, "a"), (1, 4000, 0));
    store.apply(claim("d", merged(launched("id-3"), deleting())), at(0));
    assert_eq!(usage(&store, "a"), (1, 4000, 0), "marked and deleted is gone once");
    store.end(claim("d", json!({})).into());
    store.unmark([&"d".into()], at(0));
    assert_eq!(usage(&store, "a"), (1, 4000, 0));
    store.mark_for_deletion([&"c".into()], at(60), at(0));
    assert_eq!(usage(&store, "a"), (0, 0, 0));
    store.unmark([&"c".into()], at(0));
    assert_eq!(usage(&store, "a"), (1, 4000, 0));
    store.apply(node("f", "", foreign()), at(0));
    assert_eq!(store.pool_usage().len(), 1, "nodes of others are in no pool");
}

// 01/STA-10, 02/ST11
#[test]
fn a_pools_claims_are_active_deleting_or_being_replaced() {
    let without = {
        let mut wire = serde_json::to_value(claim("free", json!({}))).unwrap();
        wire["metadata"]["labels"].as_object_mut().unwrap().remove("karpenter.sh/nodepool");
        read::<api::NodeClaim>(wire)
    };
    let mut store = store().with([
        claim("one", json!({})).into(),
        claim("two", launched("id-2")).into(),
        claim("three", launched("id-3")).into(),
        without.into(),
    ]);
    let sets = |store: &Store| {
        let claims = store.pool_claims(&"a".into());
        let count = |names: &BTreeSet<NodeName>| names.iter().map(NodeName::as_str).collect::<Vec<_>>().join(" ");
        (count(&claims.active), count(&claims.deleting), count(&claims.replacing))
    };
    let of =
        |active: &str, deleting: &str, replacing: &str| (active.to_owned(), deleting.to_owned(), replacing.to_owned());
    assert_eq!(sets(&store), of("one three two", "", ""));
    store.begin_replacing(&"two".into(), at(60));
    assert_eq!(sets(&store), of("one three", "", "two"));
    store.mark_for_deletion([&"two".into(), &"three".into()], at(60), at(0));
    assert_eq!(sets(&store), of("one", "three", "two"), "a mark does not end a replacing");
    store.unmark([&"two".into(), &"three".into()], at(0));
    assert_eq!(sets(&store), of("one three", "", "two"));
    store.end_replacing(&"two".into());
    store.apply(claim("one", deleting()), at(0));
    store.apply(claim("two", launched("id-9")), at(0));
    assert_eq!(sets(&store), of("three two", "one", ""));
    store.end(claim("one", json!({})).into());
    store.end(claim("three", json!({})).into());
    assert_eq!(sets(&store), of("two", "", ""));
}

// 01/STA-11, 02/ST11
#[test]
fn places_count_what_is_there_and_what_is_promised() {
    let mut store = store().with([
        claim("one", json!({})).into(),
        claim("two", merged(launched("id-2"), deleting())).into(),
        claim("three", launched("id-3")).into(),
    ]);
    store.begin_replacing(&"three".into(), at(60));
    let pool = PoolName::from("a");
    assert_eq!(store.reserve_nodes(&pool, Some(5), 10), 2, "three of five are taken");
    assert_eq!(store.reserve_nodes(&pool, Some(5), 1), 0);
    store.release_nodes(&pool, 1);
    assert_eq!(store.reserve_nodes(&pool, Some(5), 10), 1);
    store.release_nodes(&pool, 100);
    assert_eq!(store.reserve_nodes(&pool, Some(5), 10), 2);
    assert_eq!(store.reserve_nodes(&"b".into(), None, 3), 3);
}

#[test]
fn a_pool_has_the_types_that_it_is_given_whichever_comes_first() {
    let mut store = store();
    store.set_catalog(&"a".into(), vec![machine_type("m")], at(0));
    assert!(store.snapshot(at(0)).pools.is_empty());
    let ready = condition("Ready", "True");
    let change = store.apply(node_pool("a", ready.clone()), at(0));
    assert!(change.wake.contains(&Duty::Pool("a".into())) && change.wake.contains(&Duty::Overlays));
    let snapshot = store.snapshot(at(0));
    let pool = &snapshot.pools[&"a".into()];
    assert_eq!((pool.state, pool.instance_types.len()), (PoolState::Ready, 1));
    assert!(store.apply(node_pool("a", ready.clone()), at(0)).is_empty());
    assert!(store.set_catalog(&"a".into(), vec![machine_type("m")], at(0)).is_empty());
    store.apply(pod("p", waiting()), at(0));
    let change = store.set_catalog(&"a".into(), Vec::new(), at(0));
    assert!(change.wake.iter().any(|duty| matches!(duty, Duty::Provision(_))), "pods wait for what pools can buy");
    store.end(node_pool("a", ready));
    assert!(store.snapshot(at(1)).pools.is_empty());
    assert_eq!(snapshot.pools.len(), 1, "a snapshot stays what it was");
}

#[test]
fn a_class_wakes_its_pools_when_its_readiness_changes() {
    let class = |ready: &str, generation: i64| {
        let wire = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
            "metadata": {"name": "default", "generation": generation},
        });
        read::<api::kwok::KWOKNodeClass>(merged(wire, condition("Ready", ready)))
    };
    let mut store = store().with([node_pool("a", json!({}))]);
    let pool = Duty::Pool("a".into());
    assert!(store.apply(class("False", 1), at(0)).wake.contains(&pool));
    assert!(store.apply(class("False", 1), at(0)).is_empty());
    assert!(store.apply(class("True", 1), at(0)).wake.contains(&pool));
    let known = store.node_class(Kind::KwokNodeClass, "default").unwrap();
    assert!(known.ready.as_ref().unwrap().is_true() && !known.is_deleting);
    assert!(store.end(class("True", 1).into()).wake.contains(&pool));
    assert_eq!(store.node_class(Kind::KwokNodeClass, "default"), None);
    let ec2 = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": "default", "annotations": {"karpenter.k8s.aws/ec2nodeclass-hash": "7"}},
        "spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [], "securityGroupSelectorTerms": []},
    });
    store.apply(read::<api::aws::EC2NodeClass>(ec2), at(0));
    assert_eq!(store.node_class(Kind::Ec2NodeClass, "default").unwrap().hash.as_deref(), Some("7"));
}

#[test]
fn claims_are_woken_when_what_they_are_compared_with_changes_and_not_by_counts() {
    let stamp = |hash: &str| json!({"metadata": {"annotations": {"karpenter.sh/nodepool-hash": hash}}});
    let mut store = store().with([node_pool("a", stamp("1")), claim("c", json!({})).into()]);
    let woken = |change: &Change| change.wake.contains(&Duty::Claim("c".into()));
    assert!(!woken(&store.apply(node_pool("a", merged(stamp("1"), json!({"status": {"nodes": 7}}))), at(0))));
    assert!(woken(&store.apply(node_pool("a", stamp("2")), at(0))), "another stamp");
    let asks = json!({"spec": {"disruption": {"consolidateAfter": "7m"}}});
    assert!(woken(&store.apply(node_pool("a", merged(stamp("2"), asks)), at(0))), "another spec");
    let class = |number: u64| {
        let wire = json!({
            "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"},
        });
        read::<api::kwok::KWOKNodeClass>(merged(wire, version(number)))
    };
    assert!(woken(&store.apply(class(1), at(0))) && woken(&store.apply(class(2), at(0))), "its class was written to");
    assert!(!woken(&store.apply(class(2), at(0))));
    store.apply(node_pool("b", stamp("1")), at(0));
    assert!(!woken(&store.apply(node_pool("b", stamp("2")), at(0))), "somebody else's pool");
}

#[test]
fn a_template_wakes_the_buffers_that_name_it_and_no_others() {
    let buffer = |namespace: &str, name: &str, template: &str| {
        let spec = json!({"podTemplateRef": {"name": template}, "replicas": 1});
        let wire = json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"namespace": namespace, "name": name}, "spec": spec,
        });
        Object::from(read::<api::CapacityBuffer>(wire))
    };
    let mut store = store().with([buffer("x", "one", "web"), buffer("x", "two", "db"), buffer("y", "one", "web")]);
    let template = json!({"metadata": {"namespace": "x", "name": "web"}});
    let change = store.apply(read::<k8s_openapi::api::core::v1::PodTemplate>(template.clone()), at(0));
    let expected = Duty::Buffer(model::ids::PodName::new("x", "one"));
    assert_eq!(change.wake.iter().collect::<Vec<_>>(), [&expected]);
    let change = store.end(read::<k8s_openapi::api::core::v1::PodTemplate>(template).into());
    assert_eq!(change.wake.iter().collect::<Vec<_>>(), [&expected]);
}

#[test]
fn a_node_has_the_claim_of_its_machine_if_there_is_just_one() {
    let mut store = store().with([node("n", "id", json!({})), claim("c", launched("id")).into()]);
    let found = |store: &Store| store.claim_of_node(&"n".into()).and_then(|claim| claim.metadata.name.clone());
    assert_eq!(found(&store).as_deref(), Some("c"));
    store.apply(claim("d", launched("id")), at(0));
    assert_eq!(found(&store), None, "nobody knows which of them is right");
    assert_eq!(store.claim_of_node(&"other".into()), None);
}
