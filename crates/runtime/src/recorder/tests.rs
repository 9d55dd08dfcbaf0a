use http::Method;
use serde_json::Value;

use super::*;
use crate::fake_server::{Asked, FakeServer, Reply, status};

fn pod(name: &str) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".into()),
        api_version: Some("v1".into()),
        namespace: Some("shop".into()),
        name: Some(name.into()),
        uid: Some(format!("uid-{name}")),
        ..ObjectReference::default()
    }
}

fn note(name: &str, message: &str) -> Note {
    Note::warning(pod(name), "FailedScheduling", message.to_owned())
}

fn recorder() -> Recorder {
    Recorder::new("tester", Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap()), Rng::new(1))
}

/// A server that takes every event.
fn willing() -> FakeServer {
    FakeServer::new(|asked| Reply::Json(200, asked.body.clone()))
}

/// Runs the recorder on a script, then stops it, and gives what the server was asked.
async fn check(server: &FakeServer, recorder: &Recorder, script: impl Future<Output = ()>) -> Vec<Asked> {
    let stop = Stop::new();
    let stopping = async {
        script.await;
        stop.cancel();
    };
    futures::join!(recorder.run(server.client(), &stop), stopping);
    server.asked()
}

fn messages(asked: &[Asked]) -> Vec<&str> {
    asked.iter().map(|asked| asked.body["message"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_event_says_who_what_when_and_about_what() {
    let recorder = recorder();
    let asked = check(&willing(), &recorder, async {
        tokio::time::sleep(Duration::from_secs(90)).await;
        recorder.publish(note("web-1", "no room"));
        let claim = ObjectReference { kind: Some("NodeClaim".into()), name: Some("a".into()), ..Default::default() };
        recorder.publish(Note::normal(claim, "Launched", "machine is there".to_owned()));
    })
    .await;
    let [first, second] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!((&first.method, first.path.as_str()), (&Method::POST, "/api/v1/namespaces/shop/events"));
    let body = &first.body;
    let name = body["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("web-1.") && name.len() == "web-1.".len() + 16, "{name}");
    for (pointer, expected) in [
        ("/involvedObject/uid", "uid-web-1"),
        ("/involvedObject/kind", "Pod"),
        ("/type", "Warning"),
        ("/reason", "FailedScheduling"),
        ("/message", "no room"),
        ("/source/component", "tester"),
        ("/reportingComponent", "tester"),
        ("/firstTimestamp", "2026-01-01T00:01:30Z"),
        ("/lastTimestamp", "2026-01-01T00:01:30Z"),
    ] {
        assert_eq!(body.pointer(pointer), Some(&Value::from(expected)), "{pointer} of {body}");
    }
    assert_eq!((second.path.as_str(), &second.body["type"]), ("/api/v1/namespaces/default/events", &"Normal".into()));
}

#[tokio::test(start_paused = true)]
async fn what_was_said_a_moment_ago_is_not_said_again() {
    let recorder = recorder();
    let asked = check(&willing(), &recorder, async {
        recorder.publish(note("a", "1").dedupe(["uid-a"]));
        recorder.publish(note("a", "2").dedupe(["uid-a"]));
        recorder.publish(note("b", "3").dedupe(["uid-b"]));
        recorder.publish(note("a", "4").dedupe(["uid-a", "other"]));
        recorder.publish(note("c", "5").dedupe(["uid-c"]).dedupe_for(Duration::from_secs(300)));
        tokio::time::sleep(Duration::from_secs(120)).await;
        recorder.publish(note("a", "6").dedupe(["uid-a"]));
        recorder.publish(note("c", "7").dedupe(["uid-c"]));
        recorder.publish(note("a", "8"));
    })
    .await;
    assert_eq!(messages(&asked), ["1", "3", "4", "5", "6", "8"]);
}

#[tokio::test(start_paused = true)]
async fn something_new_that_comes_too_soon_is_given_back_and_a_repeat_is_not() {
    let recorder = recorder();
    let (old, new) = (note("a", "old").dedupe(["uid-a"]), note("a", "new").dedupe(["uid-a"]));
    let is_given_back =
        |note: &Note| recorder.try_publish(note.clone()).is_some_and(|back| back.message == note.message);
    assert!(!is_given_back(&old) && !is_given_back(&old) && is_given_back(&new));
    tokio::time::advance(Duration::from_secs(120)).await;
    assert!(!is_given_back(&new) && is_given_back(&old), "the last words count");
    let asked = check(&willing(), &recorder, async {}).await;
    assert_eq!(messages(&asked), ["old", "new"]);
}

#[tokio::test(start_paused = true)]
async fn a_reason_with_a_rate_keeps_to_it_across_objects() {
    let recorder = recorder();
    let rate = Rate { per_second: 5.0, burst: 10 };
    let asked = check(&willing(), &recorder, async {
        for number in 0..30 {
            recorder.publish(note(&format!("pod-{number}"), "limited").rate(rate));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        for number in 30..60 {
            recorder.publish(note(&format!("pod-{number}"), "limited").rate(rate));
        }
    })
    .await;
    assert_eq!(asked.len(), 15);
}

#[tokio::test(start_paused = true)]
async fn repeats_are_counted_in_the_event_that_is_there_or_anew_when_it_is_gone() {
    let recorder = recorder();
    let server = FakeServer::new(|asked| match (&asked.method, asked.body["count"].as_i64()) {
        (&Method::PATCH, Some(3)) => Reply::Json(404, status(404, "NotFound")),
        _ => Reply::Json(200, asked.body.clone()),
    });
    let asked = check(&server, &recorder, async {
        for _ in 0..3 {
            recorder.publish(note("a", "no room"));
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    })
    .await;
    let [created, counted, gone, again] = asked.as_slice() else { panic!("{asked:?}") };
    let name = created.body["metadata"]["name"].as_str().unwrap();
    assert_eq!(counted.method, Method::PATCH);
    assert_eq!(counted.path, format!("/api/v1/namespaces/shop/events/{name}"));
    assert_eq!(counted.body, json!({"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z", "message": "no room"}));
    assert_eq!((&gone.method, &again.method), (&Method::PATCH, &Method::POST));
    assert_eq!(again.body["count"], 3);
    assert_eq!(again.body["firstTimestamp"], "2026-01-01T00:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_final_and_a_broken_connection_is_not() {
    let recorder = recorder();
    let mut tries = 0;
    let server = FakeServer::new(move |asked| {
        tries += 1;
        match tries {
            1 => Reply::Json(403, status(403, "Forbidden")),
            2 | 3 => Reply::Broken,
            _ => Reply::Json(200, asked.body.clone()),
        }
    });
    let asked = check(&server, &recorder, async {
        recorder.publish(note("a", "refused"));
        recorder.publish(note("a", "late"));
        tokio::time::sleep(Duration::from_secs(60)).await;
    })
    .await;
    assert_eq!(messages(&asked), ["refused", "late", "late", "late"]);
}

#[tokio::test(start_paused = true)]
async fn when_too_many_wait_the_oldest_are_dropped_and_counted() {
    let recorder = recorder();
    for number in 0..QUEUED_MAX + 3 {
        recorder.publish(note(&format!("pod-{number}"), &format!("{number}")));
    }
    assert_eq!(recorder.dropped(), 3);
    let asked = check(&willing(), &recorder, async {}).await;
    assert_eq!((asked.len(), messages(&asked)[0]), (QUEUED_MAX, "3"));
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_for_nobody_who_does_not_answer() {
    let recorder = recorder();
    let server = FakeServer::new(|_| Reply::Broken);
    recorder.publish(note("a", "1"));
    recorder.publish(note("a", "2"));
    let start = Instant::now();
    let asked = check(&server, &recorder, async {}).await;
    assert_eq!((asked.len(), start.elapsed()), (2, Duration::ZERO));
}

#[test]
fn names_stay_names_however_long_the_object_is_called() {
    assert_eq!(event_name("web", 0xabc), "web.0000000000000abc");
    let cut = event_name(&format!("{}-.{}", "x".repeat(234), "y".repeat(60)), 1);
    assert_eq!(cut, format!("{}.{:016x}", "x".repeat(234), 1));
    assert!(event_name(&"é".repeat(200), 1).len() <= 253);
}
