//! The parts together, as a process uses them: a leader that watches, queues, computes and records until it is told to stop.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use ::http::Method;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::fake_server::{FakeServer, Reply, status};
use crate::watch::{Event, Seen, Settings, Target, watch};
use crate::*;

const GRACE: Duration = Duration::from_secs(10);

fn map(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version.to_string()}})
}

/// Three objects, two more that come a while later, and a Lease that nobody else wants.
fn server() -> FakeServer {
    FakeServer::new(|asked| match (&asked.method, asked.path.as_str()) {
        (&Method::GET, "/api/v1/configmaps") if asked.query.contains("watch=true") => {
            let later = stream::iter(["d", "e"]).then(async |name| {
                tokio::time::sleep(Duration::from_millis(20)).await;
                json!({"type": "ADDED", "object": map(name, 9)})
            });
            Reply::Lines(later.chain(stream::pending()).boxed())
        }
        (&Method::GET, "/api/v1/configmaps") => {
            let items = [map("c", 1), map("a", 2), map("b", 3)];
            Reply::Json(200, json!({"metadata": {"resourceVersion": "3"}, "items": items}))
        }
        (&Method::GET, _) => Reply::Json(404, status(404, "NotFound")),
        (&Method::PATCH, path) if path.contains("/events/") => {
            let mut event = asked.body.clone();
            event["involvedObject"] = json!({});
            event["metadata"] = json!({});
            Reply::Json(200, event)
        }
        _ => Reply::Json(200, asked.body.clone()),
    })
}

/// Runs a process until its workers have seen so many keys.
async fn process(client: Client, clock: Clock, compute: Compute, seed: u64, keys: u32) -> Result<(), RuntimeError> {
    let rng = Rng::new(seed);
    let recorder = Recorder::new("test", clock.clone(), rng.fork("recorder"));
    let settings = LeaseSettings::new("system", "leader", lease::identity("host", &rng));
    let election = Election::new(client.clone(), clock, rng.fork("lease"), settings);
    let seen = Arc::new(Semaphore::new(0));
    let mut tasks = Tasks::default();
    let (stop, writer, events) = (tasks.stop(), recorder.clone(), client.clone());
    tasks.spawn("recorder", async move {
        writer.run(events, &stop).await;
        Ok::<_, Infallible>(())
    });
    let (stop, count) = (tasks.stop(), seen.clone());
    tasks.spawn("leader", async move {
        election.lead(&stop, || lead(client, compute, rng, recorder, count, stop.child_token())).await
    });
    let done = async {
        tokio::time::timeout(Duration::from_secs(7200), seen.acquire_many(keys)).await.unwrap().unwrap().forget();
    };
    tasks.run(done, GRACE).await
}

async fn lead(
    client: Client,
    compute: Compute,
    rng: Rng,
    recorder: Recorder,
    seen: Arc<Semaphore>,
    stop: Stop,
) -> Result<(), RuntimeError> {
    let second = Duration::from_secs(1);
    let queue: Queue<String> = Queue::new("maps", Backoff::new(second, second * 9).with_jitter(0.5), rng.fork("queue"));
    let mut tasks = Tasks::new(stop);
    let (keys, stop) = (queue.clone(), tasks.stop());
    tasks.spawn("watch maps", async move {
        let decode = |seen: Seen<'_>| serde_json::from_str::<ConfigMap>(&seen.json()).map(|map| map.metadata.name);
        let events = watch(client, Target::of::<ConfigMap>(), Settings::default(), rng.fork("watch"), decode);
        let mut events = events.take_until(Box::pin(stop.cancelled()));
        while let Some(event) = events.next().await {
            if let Event::Applied(Some(name)) = event {
                keys.push(name);
            }
        }
        Ok::<_, Infallible>(())
    });
    let stop = tasks.stop();
    tasks.spawn("maps", async move {
        let work = |name: String| {
            let (compute, recorder, seen) = (compute.clone(), recorder.clone(), seen.clone());
            async move {
                let letters = name.clone();
                let upper = compute.run(&Cancel::default(), move |_| letters.to_uppercase()).await?;
                let about = ObjectReference { name: Some(name), ..ObjectReference::default() };
                recorder.publish(Note::normal(about, "Seen", upper));
                seen.add_permits(1);
                Ok::<_, RuntimeError>(Next::After(Duration::from_secs(30)))
            }
        };
        queue::run(&queue, 2, &stop, work).await;
        Ok::<_, Infallible>(())
    });
    tasks.run(pending(), GRACE).await
}

/// Everything that a process of this seed asks the server in some virtual minutes.
fn diary(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let server = server();
        let clock = Clock::virtual_from(Timestamp::UNIX_EPOCH);
        process(server.client(), clock, Compute::in_place(), seed, 200).await.unwrap();
        server.asked().iter().map(|asked| format!("{asked:?}")).collect()
    })
}

#[test]
fn one_seed_gives_one_run() {
    let first = diary(1);
    assert!(first.len() > 500, "{}", first.len());
    assert_eq!(first, diary(1));
    assert_ne!(first, diary(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_process_runs_on_many_threads_and_real_time() {
    let server = server();
    process(server.client(), Clock::wall(), Compute::on_threads(2), 1, 5).await.unwrap();
    let asked = server.asked();
    let told =
        asked.iter().filter_map(|asked| asked.body["message"].as_str()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(told.into_iter().collect::<String>(), "ABCDE");
    let released = asked.iter().rfind(|asked| asked.path.contains("leases")).unwrap();
    assert_eq!(released.method, Method::GET, "the Lease was looked up to be given back: {released:?}");
}
