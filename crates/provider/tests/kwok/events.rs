//! What happens to a cloud while it runs: prices move, launches take their time, machines are taken back.

use std::time::Duration;

use model::instance::CapacityType;
use model::price::Price;
use provider::kwok::Delays;
use provider::{CloudProvider, ProviderError, ProviderId};
use serde_json::json;
use tokio::time::Instant;

use crate::{World, claim, class, duty, kwok_class, offering, run};

const SMALLEST: &str = "c-1x-amd64-linux";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn dollars(amount: f64) -> Price {
    Price::from_dollars(amount).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_price_that_moves_shows_in_the_catalogue_and_decides_launches() {
    let world = World::new();
    let cloud = world.start();
    let before = cloud.catalog(&class("default")).await.unwrap();
    let dear = offering(SMALLEST, "test-zone-a", CapacityType::Spot);
    cloud.facts().set_price(dear.clone(), dollars(9.5));
    let after = cloud.catalog(&class("default")).await.unwrap();
    assert_ne!(before.version, after.version);
    let costing = |catalog: &provider::Catalog| {
        let offerings = catalog.types.iter().flat_map(|machine| &machine.offerings);
        offerings.filter(|offering| offering.price == dollars(9.5)).count()
    };
    assert_eq!((costing(&before), costing(&after)), (0, 1));
    let listed: Vec<Price> = cloud.price_list().filter(|(key, _)| *key == dear).map(|(_, price)| price).collect();
    assert_eq!(listed, [dollars(9.5)]);

    let spot = [("karpenter.sh/capacity-type", "In", &["spot"][..])];
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let machine = cloud.launch(&claim(name, &class("default"), &spot)).await.unwrap();
        assert_ne!(machine.zone(), Some("test-zone-a"), "cheaper elsewhere");
    }
    // A price that comes back is one that the catalogue has shown before.
    let usual = before.types.iter().find(|machine| machine.name.as_str() == SMALLEST).unwrap();
    let is_spot = |offering: &&model::instance::Offering| offering.capacity_type() == Some(CapacityType::Spot);
    cloud.facts().set_price(dear.clone(), usual.offerings.iter().find(is_spot).unwrap().price);
    let healed = cloud.catalog(&class("default")).await.unwrap();
    assert_eq!(healed.types, before.types);
}

#[tokio::test(start_paused = true)]
async fn launches_and_registrations_take_as_long_as_they_are_told() {
    let world = World::new();
    world.server.put(kwok_class("fast", json!({"nodeRegistrationDelay": "1s"})));
    let cloud = world.start();
    cloud.facts().set_delays(Delays { launch: seconds(4), registration: seconds(20) });
    let start = Instant::now();
    cloud.launch(&claim("a", &class("default"), &[])).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 4);
    let registration = duty(&cloud, "kwok.registration");
    run(&registration, seconds(19)).await;
    assert!(world.server.all("Node").is_empty());
    run(&registration, seconds(2)).await;
    assert_eq!(world.server.all("Node").len(), 1);
    cloud.launch(&claim("b", &class("fast"), &[])).await.unwrap();
    run(&registration, seconds(2)).await;
    assert_eq!(world.server.all("Node").len(), 2, "a class that says how long is believed");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_taken_back_runs_until_its_notice_is_over() {
    let world = World::new();
    let cloud = world.start();
    let interruption = duty(&cloud, "kwok.interruption");
    let taken = cloud.launch(&claim("a", &class("default"), &[])).await.unwrap();
    let kept = cloud.launch(&claim("b", &class("default"), &[])).await.unwrap();
    run(&interruption, seconds(5)).await;
    cloud.interrupt(taken.id.clone(), seconds(120));
    cloud.interrupt(taken.id.clone(), seconds(500));
    assert_eq!(cloud.announced().len(), 1);
    run(&interruption, seconds(119)).await;
    assert_eq!(cloud.get(&taken.id).await.unwrap(), taken);
    run(&interruption, seconds(2)).await;
    assert!(matches!(cloud.get(&taken.id).await, Err(ProviderError::NotFound { .. })));
    let left: Vec<ProviderId> = cloud.list().await.unwrap().into_iter().map(|machine| machine.id).collect();
    assert_eq!(left, [kept.id]);
    assert!(cloud.announced().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_annotated_with_a_notice_is_taken_back() {
    let world = World::new();
    let cloud = world.start();
    let taken = cloud.launch(&claim("a", &class("default"), &[])).await.unwrap();
    cloud.launch(&claim("b", &class("default"), &[])).await.unwrap();
    let watch = duty(&cloud, "kwok.machines");
    let annotate = |notice: &str| {
        let mut nodes = world.server.all("Node");
        let node = nodes.iter_mut().find(|node| node["spec"]["providerID"] == taken.id.as_str()).unwrap();
        node["metadata"]["annotations"]["karpenter.kwok.sh/interruption-notice"] = notice.into();
        world.server.put(node.clone());
    };
    annotate("soon");
    run(&watch, seconds(5)).await;
    assert!(cloud.announced().is_empty(), "that is no time");
    annotate("2m");
    run(&watch, seconds(5)).await;
    let announced = cloud.announced();
    assert_eq!(announced.iter().map(|(id, _)| id).collect::<Vec<_>>(), [&taken.id]);
    run(&watch, seconds(5)).await;
    assert_eq!(cloud.announced(), announced, "who is seen again is not given more time");
    run(&duty(&cloud, "kwok.interruption"), seconds(121)).await;
    assert_eq!(cloud.list().await.unwrap().len(), 1);
    assert!(cloud.announced().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_machine_of_the_cloud_keeps_no_other_from_being_taken_back() {
    let world = World::new();
    let cloud = world.start();
    let taken = cloud.launch(&claim("a", &class("default"), &[])).await.unwrap();
    cloud.interrupt(ProviderId::from("another-cloud:///i-1".to_owned()), seconds(10));
    cloud.interrupt(taken.id.clone(), seconds(10));
    run(&duty(&cloud, "kwok.interruption"), seconds(11)).await;
    assert!(matches!(cloud.get(&taken.id).await, Err(ProviderError::NotFound { .. })));
    assert!(cloud.announced().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_taken_back_before_its_node_came_never_registers() {
    let world = World::new();
    let cloud = world.start();
    let machine = cloud.launch(&claim("a", &class("slow"), &[])).await.unwrap();
    cloud.interrupt(machine.id.clone(), seconds(10));
    run(&duty(&cloud, "kwok.interruption"), seconds(11)).await;
    run(&duty(&cloud, "kwok.registration"), seconds(60)).await;
    assert!(world.server.all("Node").is_empty() && world.server.all("ConfigMap").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_notice_is_told_until_somebody_has_dealt_with_it() {
    let world = World::new();
    let cloud = world.start();
    let told = async || tokio::time::timeout(seconds(5), CloudProvider::interruptions(&cloud)).await.ok()?.ok();
    let machine = cloud.launch(&claim("a", &class("default"), &[])).await.unwrap();
    assert_eq!(told().await, None, "there is nothing to say");
    cloud.interrupt(machine.id.clone(), seconds(120));
    let first = told().await.unwrap();
    assert_eq!((first.len(), &first[0].machine), (1, &machine.id));
    assert!(first[0].kind.ends_machine() && first[0].deadline.is_some());
    assert_eq!(told().await.as_ref(), Some(&first), "whoever heard it may have ended since");
    cloud.acknowledge(&first).await.unwrap();
    assert_eq!(told().await, None);
    cloud.interrupt(machine.id.clone(), seconds(30));
    let sooner = told().await.unwrap();
    assert!(sooner[0].deadline < first[0].deadline, "what is brought forward is news");
    cloud.acknowledge(&first).await.unwrap();
    assert_eq!(told().await, Some(sooner), "the old notice was dealt with, not this one");
}
