//! The wrappers that give any provider measurements and misfortune.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use provider::faulty::{Fault, Faulty, Mishap};
use provider::metered::{Call, Meter, Metered};
use provider::{CloudProvider, Method, ProviderError, Reaction};
use tokio::time::Instant;

use crate::{World, claim, class};

#[derive(Default)]
struct Notebook(Mutex<Vec<String>>);

impl Meter for Notebook {
    fn observe(&self, call: &Call<'_>) {
        let Call { controller, method, provider, node_pool, took, error } = call;
        let line = format!("{controller} {method} {provider} {node_pool} {} {}", took.as_secs(), error.unwrap_or("-"));
        self.0.lock().unwrap().push(line);
    }
}

fn unavailable() -> ProviderError {
    ProviderError::Unavailable { doing: "asking the cloud".to_owned(), source: None }
}

fn fault(method: Method, call: u32, mishap: Mishap) -> Fault {
    Fault { method, call, mishap }
}

// 01/MET-03
#[tokio::test(start_paused = true)]
async fn calls_are_measured_under_the_references_names_with_the_kind_of_their_error() {
    let world = World::new();
    let plan = vec![
        fault(Method::List, 1, Mishap::Takes(Duration::from_secs(3))),
        fault(Method::List, 2, Mishap::Fails(unavailable())),
    ];
    let notebook = Arc::new(Notebook::default());
    let metered = Metered::new(Arc::new(Faulty::new(Arc::new(world.start()), plan)), notebook.clone());
    let cloud = metered.for_controller("nodeclaim.lifecycle");
    let good = claim("a", &class("default"), &[]);
    let machine = cloud.launch(&good).await.unwrap();
    cloud.launch(&claim("b", &class("missing"), &[])).await.unwrap_err();
    cloud.list().await.unwrap();
    cloud.list().await.unwrap_err();
    cloud.drift(&[&good]).await.unwrap();
    cloud.catalog(&class("default")).await.unwrap();
    cloud.terminate(&machine.id).await.unwrap();
    cloud.get(&machine.id).await.unwrap_err();
    cloud.find(&good).await.unwrap();
    let lines = notebook.0.lock().unwrap().clone();
    let expected = [
        "Create kwok pool 0 -",
        "Create kwok pool 0 InsufficientCapacityError",
        "List kwok  3 -",
        "List kwok  0 ",
        "IsDrifted kwok pool 0 -",
        "GetInstanceTypes kwok  0 -",
        "Delete kwok  0 -",
        "Get kwok  0 NodeClaimNotFoundError",
        "Get kwok pool 0 -",
    ];
    assert_eq!(lines, expected.map(|line| format!("nodeclaim.lifecycle {line}")));
    assert_eq!((cloud.name(), cloud.duties().len(), cloud.repair_policies().len()), ("kwok", 6, 2));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_come_back_is_an_error_in_the_end_and_is_measured() {
    let world = World::new();
    let endless = |method| fault(method, 1, Mishap::Takes(Duration::from_secs(1_000_000)));
    let plan = vec![endless(Method::Catalog), endless(Method::Launch)];
    let notebook = Arc::new(Notebook::default());
    let cloud = Metered::new(Arc::new(Faulty::new(Arc::new(world.start()), plan)), notebook.clone());
    let error = cloud.catalog(&class("default")).await.unwrap_err();
    assert_eq!(error.reaction(), Reaction::BackOff);
    assert!(error.to_string().starts_with("waiting 30 seconds for GetInstanceTypes"), "{error}");
    cloud.launch(&claim("a", &class("default"), &[])).await.unwrap_err();
    assert_eq!(*notebook.0.lock().unwrap(), [" GetInstanceTypes kwok  30 ", " Create kwok pool 120 "]);
}

#[tokio::test(start_paused = true)]
async fn misfortune_strikes_the_call_that_the_plan_names_and_no_other() {
    let world = World::new();
    let plan = vec![
        fault(Method::Launch, 1, Mishap::Fails(unavailable())),
        fault(Method::Launch, 2, Mishap::LosesReply(unavailable())),
        fault(Method::Launch, 3, Mishap::Takes(Duration::from_secs(5))),
    ];
    let cloud = Faulty::new(Arc::new(world.start()), plan);
    let wanted = claim("a", &class("default"), &[]);
    cloud.launch(&wanted).await.unwrap_err();
    assert!(world.server.all("Node").is_empty(), "a failure has done nothing");
    cloud.launch(&wanted).await.unwrap_err();
    assert_eq!(world.server.all("Node").len(), 1, "a lost reply has done it");
    let start = Instant::now();
    cloud.launch(&wanted).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    cloud.launch(&wanted).await.unwrap();
    assert_eq!((cloud.calls(Method::Launch), cloud.calls(Method::Get)), (4, 0));
    assert_eq!(world.server.all("Node").len(), 1);
}
