use model::ids::TypeName;
use model::instance::{Offering, Reservation};
use model::price::Price;
use model::requirements::Requirement as Demand;
use model::resources::Resources;
use serde_json::{Value, json};

use super::*;
use crate::testing::{World, merged, node_pool};

fn pool(change: Value) -> NodePool {
    let mut wire = merged(node_pool("general"), json!({"metadata": {"uid": "uid-general"}}));
    wire = merged(wire, change);
    serde_json::from_value(wire).unwrap()
}

fn planned(requirements: Requirements) -> PlannedClaim {
    PlannedClaim {
        requirements,
        types: ["small", "large"].map(TypeName::from).into(),
        requests: Resources::default().with("cpu", 1500).with("memory", 1 << 30).with("pods", 3),
        labels: [("example.com/rack".into(), "7".into())].into(),
        ..PlannedClaim::bare("general".into())
    }
}

fn sold(name: &str, offerings: Vec<Offering>) -> Arc<InstanceType> {
    Arc::new(InstanceType {
        name: name.into(),
        requirements: Requirements::default(),
        capacity: Resources::default(),
        overhead: Resources::default(),
        offerings,
        attach_limits: BTreeMap::new(),
        has_capacity_overlay: name == "large",
    })
}

fn id() -> TickId {
    TickId::draw(&runtime::Rng::new(1))
}

fn made(pool: &NodePool, claim: &PlannedClaim, types: &[Arc<InstanceType>]) -> NodeClaim {
    of_plan(pool, Planned { claim, types }, "general-x2b4c".to_owned(), &id())
}

// 01/CLM-02
#[test]
fn a_claim_is_owned_by_its_pool_and_derives_its_name_from_it() {
    let pool = pool(json!({}));
    let claim = made(&pool, &planned(Requirements::default()), &[]);
    let owner = &claim.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("NodePool", "uid-general", None));
    assert_eq!((owner.api_version.as_str(), owner.block_owner_deletion), ("karpenter.sh/v1", Some(true)));
    assert_eq!(claim.metadata.generate_name.as_deref(), Some("general-"));
    assert_eq!(claim.spec.node_class_ref, pool.spec.template.spec.node_class_ref);
    assert_eq!(claim.metadata.finalizers.as_deref(), Some(&[TERMINATION_FINALIZER.to_owned()][..]));
}

// 01/CLM-04
#[test]
fn labels_and_annotations_of_the_template_are_there_beside_ours() {
    let template = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}, "spec": {
        "taints": [{"key": "dedicated", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "cni", "effect": "NoExecute"}],
        "expireAfter": "24h",
    }});
    let claim = made(&pool(json!({"spec": {"template": template}})), &planned(Requirements::default()), &[]);
    let labels = claim.metadata.labels.unwrap();
    for (key, value) in [
        ("team", "a"),
        ("karpenter.sh/nodepool", "general"),
        ("karpenter.kwok.sh/kwoknodeclass", "default"),
        ("example.com/rack", "7"),
    ] {
        assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
    }
    let notes = claim.metadata.annotations.unwrap();
    assert_eq!(notes.get("note").map(String::as_str), Some("x"));
    assert_eq!(notes.get(annotations::MIN_VALUES_RELAXED).map(String::as_str), Some("false"));
    assert_eq!(notes.get(DECISION).map(String::as_str), Some(id().as_str()));
    assert_eq!((claim.spec.taints[0].key.as_str(), claim.spec.startup_taints[0].key.as_str()), ("dedicated", "cni"));
    assert_eq!(serde_json::to_value(&claim.spec.expire_after).unwrap(), json!("24h"));
    let requests = serde_json::to_value(&claim.spec.resources.requests).unwrap();
    assert_eq!(requests, json!({"cpu": "1500m", "memory": "1Gi", "pods": "3"}));
}

// 01/CLM-06
#[test]
fn the_grace_period_is_the_pools_or_none() {
    let with = |spec: Value| {
        let change = json!({"spec": {"template": {"spec": spec}}});
        made(&pool(change), &planned(Requirements::default()), &[]).spec.termination_grace_period
    };
    assert_eq!(with(json!({})), None);
    assert_eq!(with(json!({"terminationGracePeriod": "30s"})).map(api::Duration::to_std).unwrap().as_secs(), 30);
}

// 01/CLM-07
#[test]
fn a_claim_carries_the_hash_of_the_pool_that_it_was_planned_with() {
    let hash = |pool: &NodePool| {
        made(pool, &planned(Requirements::default()), &[]).metadata.annotations.unwrap()[annotations::NODE_POOL_HASH]
            .clone()
    };
    let before = pool(json!({}));
    let after = pool(json!({"spec": {"template": {"metadata": {"labels": {"team": "b"}}}}}));
    assert_eq!(hash(&before), api::hash::node_pool_hash(&before.spec));
    assert_ne!(hash(&before), hash(&after));
}

#[test]
fn requirements_are_written_in_the_order_of_keys_with_two_entries_for_a_range() {
    use model::requirements::Operator as Op;
    let demands = Requirements::default()
        .with("zone", Demand::new(Op::In, ["b", "a"]).with_min_values(Some(2)))
        .with("cpu", Demand::new(Op::Gt, ["3"]).intersection(&Demand::new(Op::Lt, ["9"])))
        .with("gpu", Demand::new(Op::DoesNotExist, []));
    let claim = made(&pool(json!({})), &planned(demands), &[]);
    let wire = serde_json::to_value(&claim.spec.requirements).unwrap();
    assert_eq!(
        wire,
        json!([
            {"key": "cpu", "operator": "Gte", "values": ["4"]},
            {"key": "cpu", "operator": "Lte", "values": ["8"]},
            {"key": "gpu", "operator": "DoesNotExist"},
            {"key": "zone", "operator": "In", "values": ["a", "b"], "minValues": 2},
        ])
    );
}

#[test]
fn reservations_and_overlays_are_written_on_the_claim() {
    let label = |key: &str, value: &str| Requirements::default().with(key, Demand::value(value.into()));
    let offering = Offering {
        requirements: label("example.com/reservation", "r-1"),
        price: Price::ZERO,
        is_available: true,
        reservation: Some(Reservation { id: "r-1".into(), left: 1 }),
        capacity_override: None,
        overhead_override: None,
        has_price_overlay: true,
    };
    let mut claim = planned(Requirements::default());
    claim.reservations = vec!["r-1".into(), "r-2".into()];
    let made = made(&pool(json!({})), &claim, &[sold("small", vec![offering]), sold("large", Vec::new())]);
    let wire = serde_json::to_value(&made.spec.requirements).unwrap();
    assert_eq!(wire, json!([{"key": "example.com/reservation", "operator": "In", "values": ["r-1", "r-2"]}]));
    let notes = made.metadata.annotations.unwrap();
    assert!(notes.contains_key(annotations::PRICE_OVERLAY_APPLIED));
    assert!(notes.contains_key(annotations::CAPACITY_OVERLAY_APPLIED));
}

#[tokio::test(start_paused = true)]
async fn a_created_claim_is_counted_on_before_any_watch_shows_it() {
    let world = World::new();
    let claim = made(&pool(json!({})), &planned(Requirements::default()), &[]);
    let name = create(&world.ctx, claim.clone(), CreateReason::Provisioned).await.unwrap();
    assert!(world.ctx.store().claim(&name).is_some());
    let labels =
        ClaimCreated { reason: CreateReason::Provisioned, nodepool: "general".to_owned(), min_values_relaxed: false };
    assert_eq!(world.ctx.metrics.claims_created.get_or_create(&labels).get(), 1);
    let again = create(&world.ctx, claim, CreateReason::Provisioned).await.unwrap_err();
    assert_eq!(again.reaction(), crate::error::Reaction::AgainNow, "asking twice does not make two");
    assert_eq!(world.server.all("NodeClaim").len(), 1);
}
