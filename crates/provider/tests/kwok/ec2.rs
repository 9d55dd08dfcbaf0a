//! EC2's goods and EC2NodeClasses on the simulated cloud.

use std::collections::BTreeSet;
use std::time::Duration;

use api::nodepool::NodeClassReference;
use provider::{CloudProvider, ProviderError};
use runtime::watch::LIFETIME_MAX;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::apiserver::Trouble;
use crate::{World, claim, duty, run};

const TYPE: &str = "node.kubernetes.io/instance-type";
const ZONE: &str = "topology.kubernetes.io/zone";

pub(crate) fn class(name: &str) -> NodeClassReference {
    NodeClassReference { group: "karpenter.k8s.aws".to_owned(), kind: "EC2NodeClass".to_owned(), name: name.to_owned() }
}

/// What people write, with some of it changed.
pub(crate) fn ec2_class(name: &str, changes: Value) -> Value {
    let mut class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": {"name": name, "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "role": "KarpenterNodeRole-demo",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
        },
    });
    for (key, value) in changes.as_object().unwrap() {
        class["spec"][key] = value.clone();
    }
    class
}

async fn settled(world: &World, name: &str, changes: Value) -> Value {
    world.server.put(ec2_class(name, changes));
    run(&duty(&world.start(), "kwok.nodeclass"), Duration::from_secs(1)).await;
    world.server.get("EC2NodeClass", name).unwrap()["status"].clone()
}

fn ready(status: &Value) -> &Value {
    status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == "Ready").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_class_whose_status_is_refused_keeps_no_other_and_is_tried_again() {
    let world = World::of_ec2();
    world.server.put(ec2_class("a", json!({})));
    world.server.put(ec2_class("b", json!({})));
    world.server.trouble("PATCH /apis/karpenter.k8s.aws/v1/ec2nodeclasses/a/", Trouble::Refuses(422));
    let duty = duty(&world.start(), "kwok.nodeclass");
    let failed = duty.round().await.unwrap_err();
    assert_eq!(failed.to_string(), "writing the status of EC2NodeClass a: refused");
    let status = |name: &str| world.server.get("EC2NodeClass", name).unwrap()["status"].clone();
    assert!(status("a").is_null());
    assert_eq!(ready(&status("b"))["status"], "True");
    run(&duty, Duration::from_secs(1)).await;
    assert_eq!(ready(&status("a"))["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_class_is_resolved_as_in_an_account_that_has_what_it_asks_for() {
    let world = World::of_ec2();
    let status = settled(&world, "tags", json!({})).await;
    assert_eq!(ready(&status)["status"], "True");
    assert_eq!(status["subnets"].as_array().unwrap().len(), 6, "one for each zone");
    assert_eq!(status["securityGroups"].as_array().unwrap().len(), 1);
    assert_eq!(status["amis"].as_array().unwrap().len(), 5);
    assert!(status["instanceProfile"].as_str().unwrap().starts_with("simulated-"));

    let named = json!({
        "subnetSelectorTerms": [{"id": "subnet-b"}, {"id": "subnet-a"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}, {"name": "nodes"}],
        "amiSelectorTerms": [{"id": "ami-mine"}], "amiFamily": "AL2023", "role": null, "instanceProfile": "mine",
    });
    let status = settled(&world, "named", named).await;
    let zones: Vec<(&str, &str)> = status["subnets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|subnet| (subnet["id"].as_str().unwrap(), subnet["zone"].as_str().unwrap()))
        .collect();
    assert_eq!(zones, [("subnet-a", "us-east-1b"), ("subnet-b", "us-east-1a")]);
    assert_eq!(
        (status["amis"][0]["id"].as_str(), status["instanceProfile"].as_str()),
        (Some("ami-mine"), Some("mine"))
    );

    let windows = settled(&world, "windows", json!({"amiSelectorTerms": [{"alias": "windows2022@latest"}]})).await;
    assert_eq!(ready(&windows)["status"], "False");
    let error = world.start().launch(&claim("a", &class("windows"), &[])).await.unwrap_err();
    assert_eq!(error.metric_label(), "NodeClassNotReadyError");
}

#[tokio::test(start_paused = true)]
async fn a_class_is_followed_while_it_changes_and_left_alone_while_it_does_not() {
    let world = World::of_ec2();
    let cloud = world.start();
    world.server.put(ec2_class("a", json!({})));
    let keeper = duty(&cloud, "kwok.nodeclass");
    let changing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.server.count("PATCH"), 1);
        let mut class = world.server.get("EC2NodeClass", "a").unwrap();
        class["spec"]["subnetSelectorTerms"] = json!([{"id": "subnet-1"}]);
        class["metadata"]["generation"] = 2.into();
        world.server.put(class);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let status = world.server.get("EC2NodeClass", "a").unwrap()["status"].clone();
        assert_eq!(status["subnets"].as_array().unwrap().len(), 1);
        assert_eq!(ready(&status)["observedGeneration"], 2);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(world.server.count("PATCH"), 2);
    };
    tokio::join!(run(&keeper, Duration::from_secs(103)), changing);
}

#[tokio::test(start_paused = true)]
async fn machines_are_those_that_the_subnets_reach_and_boot_the_image_that_fits() {
    let world = World::of_ec2();
    settled(&world, "a", json!({"subnetSelectorTerms": [{"id": "subnet-1"}, {"id": "subnet-2"}]})).await;
    let cloud = world.start();
    let catalog = cloud.catalog(&class("a")).await.unwrap();
    let zones: BTreeSet<&str> = catalog
        .types
        .iter()
        .flat_map(|machine| &machine.offerings)
        .filter_map(|offering| offering.label(ZONE))
        .map(|zone| &**zone)
        .collect();
    assert_eq!(zones, BTreeSet::from(["us-east-1a", "us-east-1b"]));
    assert_eq!(cloud.catalog(&class("a")).await.unwrap().version, catalog.version);
    let everywhere = cloud.catalog(&crate::class("default")).await.unwrap();
    assert_eq!(everywhere.types.len(), catalog.types.len());
    assert_ne!(everywhere.version, catalog.version);

    let small = cloud.launch(&claim("small", &class("a"), &[(TYPE, "In", &["m5.large", "c5.large"])])).await.unwrap();
    assert!(zones.contains(small.zone().unwrap()));
    assert_eq!(small.labels["karpenter.k8s.aws/ec2nodeclass"], "a");
    assert_eq!(small.labels["karpenter.k8s.aws/instance-tenancy"], "default");
    assert!(small.labels["topology.k8s.aws/zone-id"].starts_with("use1-az"));
    let gpu = cloud.launch(&claim("gpu", &class("a"), &[(TYPE, "In", &["g5.xlarge"])])).await.unwrap();
    assert_eq!(gpu.capacity["nvidia.com/gpu"], "1".parse().unwrap());
    let images = world.server.get("EC2NodeClass", "a").unwrap()["status"]["amis"].clone();
    let name = |id: &str| {
        images.as_array().unwrap().iter().find(|image| image["id"] == id).unwrap()["name"].as_str().unwrap().to_owned()
    };
    assert_eq!(name(small.image.as_deref().unwrap()), "simulated-al2023-amd64-standard-20260101");
    assert_eq!(name(gpu.image.as_deref().unwrap()), "simulated-al2023-amd64-nvidia-20260101");
}

#[tokio::test(start_paused = true)]
async fn machines_drift_when_their_image_or_their_subnet_is_replaced() {
    let world = World::of_ec2();
    let subnets = |ids: &[&str]| ids.iter().map(|id| json!({"id": id})).collect::<Vec<_>>();
    let first_two = subnets(&["subnet-1", "subnet-2"]);
    settled(&world, "latest", json!({"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]})).await;
    let pinned = json!({"amiSelectorTerms": [{"alias": "bottlerocket@v1.20.0"}], "subnetSelectorTerms": first_two});
    settled(&world, "pinned", pinned).await;
    let cloud = world.start();
    let mut claims = Vec::new();
    for name in ["latest", "pinned"] {
        let wanted: [(&str, &str, &[&str]); 2] = [(TYPE, "In", &["m5.large"]), (ZONE, "In", &["us-east-1b"])];
        let mut claim = claim(name, &class(name), &wanted);
        let machine = cloud.launch(&claim).await.unwrap();
        claim.metadata.labels = Some(machine.labels.clone());
        claim.status.get_or_insert_default().image_id = machine.image;
        claims.push(claim);
    }
    let claims: Vec<_> = claims.iter().collect();
    assert!(cloud.drift(&claims).await.unwrap().is_empty());
    let keeper = duty(&cloud, "kwok.nodeclass");
    let publishing = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cloud.facts().publish("bottlerocket", "1.30.0");
    };
    tokio::join!(run(&keeper, Duration::from_secs(5)), publishing);
    let drifted = cloud.drift(&claims).await.unwrap();
    assert_eq!(drifted, [("latest".to_owned(), "AMIDrift".to_owned())].into());

    let mut changed = world.server.get("EC2NodeClass", "pinned").unwrap();
    changed["spec"]["subnetSelectorTerms"] = subnets(&["subnet-1"]).into();
    world.server.put(changed);
    run(&keeper, Duration::from_secs(2)).await;
    assert_eq!(cloud.drift(&claims).await.unwrap()["pinned"], "SubnetDrift");
}

#[tokio::test(start_paused = true)]
async fn a_class_that_nobody_has_looked_at_sells_nothing_yet() {
    let world = World::of_ec2();
    world.server.put(ec2_class("new", json!({})));
    let cloud = world.start();
    let error = cloud.launch(&claim("a", &class("new"), &[])).await.unwrap_err();
    assert_eq!(error.condition_reason(), "NodeClassReadinessUnknown");
    assert!(cloud.catalog(&class("new")).await.is_err());
    assert!(matches!(cloud.catalog(&class("missing")).await, Err(ProviderError::NotFound { .. })));
    let kinds: Vec<&str> = cloud.node_class_kinds().iter().map(|kind| kind.kind).collect();
    assert_eq!(kinds, ["EC2NodeClass", "KWOKNodeClass"]);
}

/// Whether a class is ready, as somebody writes it whom no watch has told of.
fn set_ready(world: &World, name: &str, status: &str) {
    let mut changed = world.server.get("EC2NodeClass", name).unwrap();
    let conditions = changed["status"]["conditions"].as_array_mut().unwrap();
    conditions.iter_mut().find(|condition| condition["type"] == "Ready").unwrap()["status"] = status.into();
    world.server.put(changed);
}

// Decision 0059: a watch may be behind, and is believed only where that does no harm.
#[tokio::test(start_paused = true)]
async fn a_class_that_lags_is_held_for_ready_until_its_watch_is_opened_again_and_never_for_unready() {
    let world = World::of_ec2();
    settled(&world, "a", json!({})).await;
    let cloud = world.start();
    let is_sold = async || cloud.catalog(&class("a")).await.is_ok();
    let watching = duty(&cloud, "kwok.classes");
    let lagging = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let reads = || world.server.count("GET /apis/karpenter.k8s.aws/v1/ec2nodeclasses/a");
        assert!(is_sold().await && reads() == 0, "the watch is enough");

        world.server.fall_silent("EC2NodeClass");
        set_ready(&world, "a", "False");
        let start = Instant::now();
        while is_sold().await {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let lagged = start.elapsed();
        // A watch lives for 230 to 290 seconds, and three more if the server does not end it.
        assert!((Duration::from_secs(225)..LIFETIME_MAX + Duration::from_secs(5)).contains(&lagged), "{lagged:?}");

        world.server.fall_silent("EC2NodeClass");
        set_ready(&world, "a", "True");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(is_sold().await, "what the watch shows as unready is asked for");
    };
    tokio::select! {
        biased;
        () = run(&watching, Duration::from_secs(3600)) => panic!("the story takes less than an hour"),
        () = lagging => {}
    }
}
