//! Which machine a claim gets, and what its Node looks like.

use std::collections::BTreeSet;
use std::time::Duration;

use model::instance::CapacityType;
use provider::kwok::Assortment;
use provider::kwok::types::Menu;
use provider::{CloudProvider, ProviderError, Reaction};
use serde_json::json;

use crate::{World, claim, class, kwok_class, offering};

const TYPE: &str = "node.kubernetes.io/instance-type";
const ZONE: &str = "topology.kubernetes.io/zone";
const WAY: &str = "karpenter.sh/capacity-type";
const CPU: &str = "karpenter.kwok.sh/instance-cpu";

#[tokio::test(start_paused = true)]
async fn a_machine_registers_as_the_references_would() {
    let world = World::new();
    let mut wanted = claim(
        "pool-abc",
        &class("default"),
        &[
            (TYPE, "In", &["c-2x-amd64-linux", "s-2x-amd64-linux"]),
            ("team", "In", &["blue"]),
            (WAY, "In", &["on-demand"]),
        ],
    );
    wanted.metadata.annotations = Some([("note".to_owned(), "kept".to_owned())].into());
    wanted.spec.resources.requests.insert("example.com/fuse".to_owned(), "2".parse().unwrap());
    let machine = world.start().launch(&wanted).await.unwrap();

    let nodes = world.server.all("Node");
    let [node] = &nodes[..] else { panic!("{nodes:?}") };
    let name = node["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("kwok-pool-abc-"), "{name}");
    assert_eq!(node["spec"]["providerID"], format!("kwok://{name}"));
    assert_eq!(node["spec"]["taints"], json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]));
    assert_eq!(node["status"]["phase"], "Pending");
    let zone = machine.zone().unwrap();
    assert_eq!(
        node["metadata"]["labels"],
        json!({
            "karpenter.sh/nodepool": "pool",
            "karpenter.kwok.sh/kwoknodeclass": "default",
            "team": "blue",
            TYPE: "c-2x-amd64-linux",
            ZONE: zone,
            WAY: "on-demand",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": "pool-abc",
            "karpenter.kwok.sh/instance-size": "2",
            "karpenter.kwok.sh/instance-family": "c",
            CPU: "2",
            "karpenter.kwok.sh/instance-memory": "4Gi",
            "kwok.x-k8s.io/node": "fake",
            "kwok-partition": "a",
            "eks-node-viewer/instance-price": "0.054295",
        })
    );
    assert_eq!(node["metadata"]["annotations"]["kwok.x-k8s.io/node"], "fake");
    assert_eq!(node["metadata"]["annotations"]["note"], "kept");
    // What an overlay promised beyond the type comes from the claim's requests.
    let expected =
        json!({"cpu": "2", "memory": "4Gi", "pods": "32", "ephemeral-storage": "20Gi", "example.com/fuse": "2"});
    assert_eq!(node["status"]["capacity"], expected);
    assert_eq!(node["status"]["allocatable"]["cpu"], "1900m");
    assert_eq!(node["status"]["allocatable"]["memory"], "4086Mi");
    assert_eq!(machine.id.as_str(), format!("kwok://{name}"));
    assert_eq!((machine.type_name(), machine.capacity_type()), (Some("c-2x-amd64-linux"), Some("on-demand")));
    assert_eq!(machine.annotations.len(), 3, "{:?}", machine.annotations);
}

#[tokio::test(start_paused = true)]
async fn the_cheapest_offering_wins_and_equal_ones_spread_over_zones() {
    let world = World::new();
    let cloud = world.start();
    let mut zones = BTreeSet::new();
    for number in 0..24 {
        let types: &[&str] = &["s-4x-amd64-linux", "c-4x-arm64-linux", "m-1x-amd64-linux"];
        let machine =
            cloud.launch(&claim(&format!("a{number}"), &class("default"), &[(TYPE, "In", types)])).await.unwrap();
        assert_eq!((machine.type_name(), machine.capacity_type()), (Some("m-1x-amd64-linux"), Some("spot")));
        zones.insert(machine.zone().unwrap().to_owned());
    }
    assert_eq!(zones.len(), 4, "{zones:?}");
}

#[tokio::test(start_paused = true)]
async fn a_world_that_is_repeated_makes_the_same_machines() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let world = World::new();
        for number in 0..5 {
            world.start().launch(&claim(&format!("a{number}"), &class("default"), &[])).await.unwrap();
        }
        runs.push(world.server.all("Node"));
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_types_gets_the_cheapest_that_it_fits_on() {
    let world = World::new();
    let cloud = world.start();
    let any = claim("any", &class("default"), &[(CPU, "Gt", &["4"]), ("kubernetes.io/os", "In", &["windows"])]);
    let machine = cloud.launch(&any).await.unwrap();
    assert_eq!(machine.type_name(), Some("c-8x-amd64-windows"));
    let mut large = claim("large", &class("default"), &[("kubernetes.io/arch", "In", &["arm64"])]);
    large.spec.resources.requests.insert("cpu".to_owned(), "60".parse().unwrap());
    let machine = cloud.launch(&large).await.unwrap();
    assert_eq!(machine.type_name(), Some("c-64x-arm64-linux"));
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_used_before_anything_cheaper() {
    let offerings =
        |price: f64, way: &str| json!({"Price": price, "zone": "z", "capacityType": way, "ReservationCapacity": 1});
    let list = json!([{
        "name": "a.large", "architecture": "amd64", "operatingSystems": ["linux"], "resources": {"cpu": "2", "memory": "8Gi"},
        "offerings": [offerings(0.1, "spot"), offerings(0.5, "reserved")],
    }]);
    let world = World::selling(Assortment::Menu(Menu::from_json(&list.to_string()).unwrap()));
    let machine = world.start().launch(&claim("a", &class("default"), &[])).await.unwrap();
    assert_eq!((machine.type_name(), machine.capacity_type()), (Some("a.large"), Some("reserved")));
}

#[tokio::test(start_paused = true)]
async fn what_is_sold_out_is_skipped_noticed_and_believed_for_a_while() {
    let world = World::new();
    let cloud = world.start();
    let only = |name: &str, zones: &[&str]| {
        claim(
            name,
            &class("default"),
            &[(TYPE, "In", &["c-1x-amd64-linux"]), (WAY, "In", &["spot"]), (ZONE, "In", zones)],
        )
    };
    for zone in ["test-zone-a", "test-zone-b"] {
        cloud.facts().sell_out(offering("c-1x-amd64-linux", zone, CapacityType::Spot));
    }
    let before = cloud.catalog(&class("default")).await.unwrap();
    let machine = cloud.launch(&only("a", &["test-zone-a", "test-zone-b", "test-zone-c"])).await.unwrap();
    assert_eq!(machine.zone(), Some("test-zone-c"));

    let error = cloud.launch(&only("b", &["test-zone-a", "test-zone-b"])).await.unwrap_err();
    assert_eq!(error.reaction(), Reaction::PlanAgain);
    let ProviderError::InsufficientCapacity { exhausted, .. } = &error else { panic!("{error}") };
    assert_eq!(exhausted.len(), 2, "{error}");
    assert!(cloud.list().await.unwrap().len() == 1);

    let after = cloud.catalog(&class("default")).await.unwrap();
    assert_ne!(before.version, after.version);
    assert_eq!(before.types.len(), after.types.len());
    let unavailable = |catalog: &provider::Catalog| {
        catalog.types.iter().flat_map(|machine| &machine.offerings).filter(|offering| !offering.is_available).count()
    };
    assert_eq!((unavailable(&before), unavailable(&after)), (0, 2));

    cloud.facts().restock(&offering("c-1x-amd64-linux", "test-zone-a", CapacityType::Spot));
    tokio::time::sleep(Duration::from_secs(181)).await;
    let healed = cloud.catalog(&class("default")).await.unwrap();
    assert_eq!((healed.version, unavailable(&healed)), (before.version, 0));
    assert_eq!(cloud.launch(&only("c", &["test-zone-a"])).await.unwrap().zone(), Some("test-zone-a"));
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_missing_or_not_ready_gets_no_machines() {
    let world = World::new();
    let mut unready = kwok_class("unready", json!({}));
    unready["status"]["conditions"][0]["status"] = "False".into();
    unready["status"]["conditions"][0]["message"] = "the moon is full".into();
    world.server.put(unready);
    let mut leaving = kwok_class("leaving", json!({}));
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    world.server.put(leaving);
    let cloud = world.start();
    let error = |name: &'static str| {
        let cloud = cloud.clone();
        async move { cloud.launch(&claim(name, &class(name), &[])).await.unwrap_err() }
    };
    let unready = error("unready").await;
    assert_eq!(unready.to_string(), "node class unready is not ready: the moon is full");
    assert_eq!((unready.metric_label(), unready.reaction()), ("NodeClassNotReadyError", Reaction::PlanAgain));
    assert_eq!(error("missing").await.metric_label(), "InsufficientCapacityError");
    assert_eq!(error("leaving").await.metric_label(), "InsufficientCapacityError");
    let foreign = cloud.launch(&claim("foreign", &crate::ec2::class("a"), &[])).await.unwrap_err();
    assert_eq!(foreign.reaction(), Reaction::WaitForChange);
    assert!(world.server.all("Node").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_launches_reads_the_class_once() {
    let world = World::new();
    let cloud = world.start();
    let claims: Vec<_> = (0..20).map(|number| claim(&format!("a{number}"), &class("default"), &[])).collect();
    let answers = futures::future::join_all(claims.iter().map(|claim| cloud.launch(claim))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(world.server.all("Node").len(), 20);
    assert_eq!(world.server.count("GET /apis/karpenter.kwok.sh"), 1);
    // Everything else is one request per machine.
    assert_eq!(world.server.count(""), 21);
}
