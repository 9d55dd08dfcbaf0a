use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::Value;

use super::*;
use crate::fake_server::{FakeServer, Reply, status};

/// Half the renew deadline.
const REQUEST_SECONDS: u64 = 5;
const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/system/leases";

/// The one Lease of a cluster, with versions as the API server keeps them.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    lease: Option<Value>,
    version: u64,
    /// Nobody gets through.
    is_down: bool,
}

impl Store {
    fn server(&self) -> FakeServer {
        self.server_until(Arc::default())
    }

    /// A way to the store that is cut off when the flag is set.
    fn server_until(&self, is_cut: Arc<AtomicBool>) -> FakeServer {
        let store = self.clone();
        FakeServer::new(move |asked| {
            let mut kept = store.0.lock().unwrap();
            if kept.is_down || is_cut.load(Ordering::Relaxed) {
                return Reply::Never;
            }
            assert!(asked.path.starts_with(PATH), "{asked:?}");
            match (&asked.method, kept.lease.clone()) {
                (&Method::GET, Some(lease)) => Reply::Json(200, lease),
                (&Method::POST, None) => Reply::Json(201, kept.keep(asked.body.clone())),
                (&Method::POST, Some(_)) => Reply::Json(409, status(409, "AlreadyExists")),
                (&Method::PATCH, Some(lease))
                    if asked.body["metadata"]["resourceVersion"] == lease["metadata"]["resourceVersion"] =>
                {
                    let mut lease = lease;
                    for (key, value) in asked.body["spec"].as_object().unwrap() {
                        lease["spec"][key] = value.clone();
                    }
                    Reply::Json(200, kept.keep(lease))
                }
                (&Method::PATCH, Some(_)) => Reply::Json(409, status(409, "Conflict")),
                _ => Reply::Json(404, status(404, "NotFound")),
            }
        })
    }

    fn spec(&self, key: &str) -> Value {
        self.0.lock().unwrap().lease.as_ref().unwrap()["spec"][key].clone()
    }

    fn holder(&self) -> String {
        self.spec("holderIdentity").as_str().unwrap().to_owned()
    }
}

impl Kept {
    fn keep(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Some(lease.clone());
        lease
    }
}

fn candidate(server: &FakeServer, identity: &str) -> Election {
    let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
    let settings = LeaseSettings::new("system", "leader", identity);
    Election::new(server.client(), clock, Rng::new(1).fork(identity), settings)
}

async fn after(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_made_renewed_and_given_back() {
    let store = Store::default();
    let stop = Stop::new();
    let work = || async {
        assert_eq!(store.holder(), "a");
        assert_eq!(store.spec("leaseTransitions"), 0);
        assert_eq!(store.spec("leaseDurationSeconds"), 15);
        after(61).await;
        assert_eq!(store.spec("acquireTime"), "2026-01-01T00:00:00.000000Z");
        assert_eq!(store.spec("renewTime"), "2026-01-01T00:01:00.000000Z");
        Ok(())
    };
    candidate(&store.server(), "a").lead(&stop, work).await.unwrap();
    assert_eq!((store.holder().as_str(), store.spec("leaseDurationSeconds")), ("", 1.into()));
}

#[tokio::test(start_paused = true)]
async fn one_waits_while_the_other_holds_and_follows_soon_after_a_release() {
    let (store, stop, start) = (Store::default(), Stop::new(), Instant::now());
    let server = store.server();
    let first = candidate(&server, "a").lead(&stop, || async {
        after(100).await;
        Ok(())
    });
    let second = async {
        after(1).await;
        let work = || async {
            assert!(start.elapsed() >= Duration::from_secs(100) && start.elapsed() < Duration::from_secs(105));
            assert_eq!((store.holder().as_str(), store.spec("leaseTransitions")), ("b", 1.into()));
            Ok(())
        };
        candidate(&server, "b").lead(&stop, work).await
    };
    let (first, second) = futures::join!(first, second);
    first.and(second).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_holder_is_followed_when_its_time_is_over_and_has_given_up_before() {
    let (store, stop, start) = (Store::default(), Stop::new(), Instant::now());
    let is_cut = Arc::new(AtomicBool::new(false));
    let first = async {
        let error = candidate(&store.server_until(is_cut.clone()), "a").lead(&stop, pending).await.unwrap_err();
        assert!(
            error.to_string().contains("the lease system/leader is lost: it could not be renewed for 10s"),
            "{error}"
        );
        // Giving it back did not work either, and took its time.
        start.elapsed().as_secs() - REQUEST_SECONDS
    };
    let second = async {
        after(1).await;
        let work = || async { Ok(()) };
        let election = candidate(&store.server(), "b");
        let mut began = Duration::ZERO;
        election
            .lead(&stop, || {
                began = start.elapsed();
                work()
            })
            .await
            .unwrap();
        began.as_secs()
    };
    let cut = async {
        after(30).await;
        is_cut.store(true, Ordering::Relaxed);
    };
    let (ended, began, ()) = futures::join!(first, second, cut);
    assert!((40..=43).contains(&ended), "the old one ended at {ended}");
    assert!((45..=50).contains(&began), "the new one began at {began}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_survives_a_short_outage_and_an_edited_or_deleted_lease() {
    let (store, stop) = (Store::default(), Stop::new());
    let server = store.server();
    let work = || async {
        after(5).await;
        store.0.lock().unwrap().is_down = true;
        after(8).await;
        store.0.lock().unwrap().is_down = false;
        after(20).await;
        // Somebody else wrote a label: our version is old, but we still hold it.
        store.0.lock().unwrap().version += 1;
        let touched = store.0.lock().unwrap().lease.clone().unwrap();
        store.0.lock().unwrap().keep(touched);
        after(20).await;
        store.0.lock().unwrap().lease = None;
        after(20).await;
        assert_eq!(store.holder(), "a");
        Ok(())
    };
    candidate(&server, "a").lead(&stop, work).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_reads_another_name_ends_at_once() {
    let (store, stop, start) = (Store::default(), Stop::new(), Instant::now());
    let work = || async {
        after(9).await;
        let mut stolen = store.0.lock().unwrap().lease.clone().unwrap();
        stolen["spec"]["holderIdentity"] = "b".into();
        store.0.lock().unwrap().keep(stolen);
        pending().await
    };
    let error = candidate(&store.server(), "a").lead(&stop, work).await.unwrap_err();
    assert_eq!(error.to_string(), "the lease system/leader is lost: b has it");
    assert!(start.elapsed() <= Duration::from_secs(11));
    assert_eq!(store.holder(), "b", "what is not ours is not released");
}

#[tokio::test(start_paused = true)]
async fn who_is_stopped_while_waiting_takes_nothing_and_ends_well() {
    let (store, stop) = (Store::default(), Stop::new());
    let server = store.server();
    let holder = candidate(&server, "a").lead(&stop, || async {
        after(50).await;
        Ok(())
    });
    let waiter_stop = Stop::new();
    let waiter = async {
        after(1).await;
        candidate(&server, "b").lead(&waiter_stop, || async { panic!("it must not lead") }).await
    };
    let stopping = async {
        after(20).await;
        waiter_stop.cancel();
    };
    let (holder, waiter, ()) = futures::join!(holder, waiter, stopping);
    holder.and(waiter).unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_many_that_start_together_one_leads_at_a_time() {
    let (store, stop) = (Store::default(), Stop::new());
    let server = store.server();
    let leading = Mutex::new(0);
    let (server, store, stop, leading) = (&server, &store, &stop, &leading);
    let candidates = (0..5).map(|number| async move {
        let name = format!("candidate-{number}");
        let work = || async {
            *leading.lock().unwrap() += 1;
            assert_eq!(*leading.lock().unwrap(), 1);
            after(20).await;
            assert_eq!(store.holder(), name);
            *leading.lock().unwrap() -= 1;
            Ok(())
        };
        candidate(server, &name).lead(stop, work).await
    });
    for result in futures::future::join_all(candidates).await {
        result.unwrap();
    }
}

#[test]
fn identities_differ_between_processes_of_one_host() {
    let rng = Rng::new(1);
    let (one, other) = (identity("host", &rng), identity("host", &rng));
    assert!(one.starts_with("host_") && one != other, "{one} {other}");
}
