use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::*;
use crate::fake_server::{Asked, FakeServer, Reply, status};

fn map(name: &str, version: u64) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "uid": format!("u-{name}"), "resourceVersion": version.to_string()}})
}

fn list(items: &[Value], version: u64) -> Reply {
    Reply::Json(200, json!({"metadata": {"resourceVersion": version.to_string()}, "items": items}))
}

fn line(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

fn gone() -> Value {
    line("ERROR", status(410, "Expired"))
}

/// Answers the requests one after the other; afterwards nothing happens any more.
fn scripted(replies: Vec<Reply>) -> FakeServer {
    let mut replies = replies.into_iter();
    FakeServer::new(move |_| replies.next().unwrap_or(Reply::Never))
}

/// Watches config maps for a virtual time and puts the events into short words.
async fn watch_for(server: &FakeServer, settings: Settings, time: Duration) -> Vec<String> {
    let decode = |seen: Seen<'_>| serde_json::from_str::<ConfigMap>(&seen.json()).map(|map| map.metadata.name.unwrap());
    let events = watch(server.client(), Target::of::<ConfigMap>(), settings, Rng::new(1), decode);
    let words = events.map(|event| match event {
        Event::Restarted => "restarted".to_owned(),
        Event::Listed => "listed".to_owned(),
        Event::Absent => "absent".to_owned(),
        Event::Applied(name) => format!("+{name}"),
        Event::Deleted(id) => format!("-{}/{}/{}", id.namespace, id.name, id.uid),
        Event::Undecodable { id, error } => format!("?{}/{}: {error}", id.namespace, id.name),
    });
    words.take_until(tokio::time::sleep(time)).collect().await
}

async fn check(replies: Vec<Reply>, expected: &[&str]) -> Vec<Asked> {
    let server = scripted(replies);
    assert_eq!(watch_for(&server, Settings::default(), Duration::from_secs(30)).await, expected);
    server.asked()
}

#[tokio::test(start_paused = true)]
async fn first_everything_that_is_there_and_then_every_change() {
    let changes = vec![
        line("ADDED", map("c", 4)),
        line("MODIFIED", map("a", 5)),
        line("BOOKMARK", json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}})),
        line("DELETED", map("b", 10)),
    ];
    let replies = vec![list(&[map("a", 1), map("b", 2)], 3), Reply::open(changes)];
    let asked = check(replies, &["restarted", "+a", "+b", "listed", "+c", "+a", "-shop/b/u-b"]).await;
    assert_eq!(asked[0].path, "/api/v1/configmaps");
    assert!(asked[0].query.contains("limit=500"), "{}", asked[0].query);
    for part in ["watch=true", "resourceVersion=3", "allowWatchBookmarks=true", "timeoutSeconds=2"] {
        assert!(asked[1].query.contains(part), "{part} in {}", asked[1].query);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_list_is_decoded_when_its_turn_comes() {
    let server = scripted(vec![list(&[map("a", 1), map("b", 2), map("c", 3)], 4), Reply::open(vec![])]);
    let decoded: Arc<AtomicUsize> = Arc::default();
    let count = decoded.clone();
    let decode = move |seen: Seen<'_>| {
        count.fetch_add(1, Ordering::Relaxed);
        serde_json::from_str::<ConfigMap>(&seen.json())
    };
    let mut events = watch(server.client(), Target::of::<ConfigMap>(), Settings::default(), Rng::new(1), decode);
    let mut counts = Vec::new();
    for _ in 0..5 {
        events.next().await;
        counts.push(decoded.load(Ordering::Relaxed));
    }
    assert_eq!(counts, [0, 1, 2, 3, 3], "the list begins, three objects, the list is complete");
}

#[tokio::test(start_paused = true)]
async fn a_long_list_comes_in_pages() {
    let page = |items: &[Value], token: &str| {
        Reply::Json(200, json!({"metadata": {"resourceVersion": "7", "continue": token}, "items": items}))
    };
    let replies = vec![page(&[map("a", 1)], "next"), Reply::Broken, page(&[map("b", 2)], ""), Reply::open(vec![])];
    let asked = check(replies, &["restarted", "+a", "+b", "listed"]).await;
    assert!(!asked[0].query.contains("continue="));
    // The page whose connection broke is asked for again, not the whole list.
    assert!(asked[1].query.contains("continue=next") && asked[2].query.contains("continue=next"));
    assert!(asked[3].query.contains("resourceVersion=7"));
}

#[tokio::test(start_paused = true)]
async fn pages_that_expire_are_followed_by_the_list_in_one_piece() {
    let replies = vec![
        Reply::Json(200, json!({"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [map("a", 1)]})),
        Reply::Json(410, status(410, "Expired")),
        list(&[map("a", 1), map("b", 2)], 8),
        Reply::open(vec![]),
    ];
    let asked = check(replies, &["restarted", "+a", "restarted", "+a", "+b", "listed"]).await;
    assert!(!asked[2].query.contains("limit="), "{}", asked[2].query);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_may_be_null() {
    let empty = Reply::Json(200, json!({"metadata": {"resourceVersion": "7"}, "items": null}));
    check(vec![empty, Reply::open(vec![])], &["restarted", "listed"]).await;
}

#[tokio::test(start_paused = true)]
async fn one_object_that_cannot_be_read_stops_nothing() {
    let mut odd = map("odd", 2);
    odd["data"] = json!(7);
    let replies = vec![
        list(&[map("a", 1), odd.clone(), map("b", 2)], 3),
        Reply::open(vec![line("MODIFIED", odd.clone()), line("ADDED", map("c", 5)), line("DELETED", odd)]),
    ];
    let server = scripted(replies);
    let events = watch_for(&server, Settings::default(), Duration::from_secs(30)).await;
    let short: Vec<&str> = events.iter().map(|event| event.split(':').next().unwrap()).collect();
    let expected = ["restarted", "+a", "?shop/odd", "+b", "listed", "?shop/odd", "+c", "-shop/odd/u-odd"];
    assert_eq!(short, expected);
    assert!(events[2].contains("invalid type: integer"), "{}", events[2]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_was() {
    let replies = vec![
        list(&[], 3),
        Reply::closed(vec![line("ADDED", map("a", 4))]),
        Reply::Broken,
        Reply::Json(500, status(500, "InternalError")),
        Reply::open(vec![line("ERROR", status(500, "InternalError"))]),
        Reply::open(vec![line("ADDED", map("b", 6))]),
    ];
    let asked = check(replies, &["restarted", "listed", "+a", "+b"]).await;
    assert!(asked[2..].iter().all(|asked| asked.query.contains("resourceVersion=4")), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_after_a_change_is_opened_again_at_once_and_a_silent_one_later() {
    let mut replies = vec![
        list(&[], 3),
        Reply::closed(vec![line("ADDED", map("a", 4))]),
        Reply::closed(vec![line("DELETED", map("a", 5))]),
        Reply::closed(vec![line("BOOKMARK", map("", 6))]),
    ]
    .into_iter();
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let notes = times.clone();
    let server = FakeServer::new(move |_| {
        notes.lock().unwrap().push(Instant::now());
        replies.next().unwrap_or(Reply::Never)
    });
    watch_for(&server, Settings::default(), Duration::from_secs(30)).await;
    let times = times.lock().unwrap();
    let waits: Vec<bool> = times.windows(2).map(|pair| pair[1] > pair[0]).collect();
    assert_eq!(waits, [false, false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_begins_again() {
    let replies = vec![
        list(&[map("a", 1)], 3),
        Reply::open(vec![gone()]),
        list(&[map("b", 4)], 5),
        Reply::Json(410, status(410, "Expired")),
        list(&[map("c", 6)], 7),
        Reply::open(vec![]),
    ];
    let expected = ["restarted", "+a", "listed", "restarted", "+b", "listed", "restarted", "+c", "listed"];
    check(replies, &expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_no_change_begins_again() {
    let replies = vec![list(&[], 3), Reply::open(vec![json!("odd")]), list(&[map("a", 4)], 5), Reply::open(vec![])];
    check(replies, &["restarted", "listed", "restarted", "+a", "listed"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_opened_again_before_it_can_be_dead_for_long() {
    let server = scripted(vec![list(&[], 3), Reply::open(vec![]), Reply::open(vec![line("ADDED", map("a", 4))])]);
    let start = Instant::now();
    let events = watch_for(&server, Settings::default(), LIFETIME_MAX + LIFETIME_GRACE).await;
    assert_eq!(events, ["restarted", "listed", "+a"]);
    assert!(start.elapsed() > LIFETIME_MAX - LIFETIME_SPREAD);
}

#[tokio::test(start_paused = true)]
async fn an_api_that_is_not_served_is_said_once_and_looked_for_again() {
    let mut requests = 0;
    let server = FakeServer::new(move |_| {
        requests += 1;
        match requests {
            // What the server says to a group that it never heard of, and to a resource that it lost.
            1 | 2 => Reply::Text(404, "404 page not found\n"),
            3 => list(&[map("a", 1)], 2),
            4 => Reply::Json(404, status(404, "NotFound")),
            5 => Reply::Json(404, status(404, "NotFound")),
            _ => list(&[], 3),
        }
    });
    let start = Instant::now();
    let events = watch_for(&server, Settings::default(), Duration::from_secs(241)).await;
    let expected = ["absent", "restarted", "+a", "listed", "absent", "restarted", "listed"];
    assert_eq!(events[..7], expected, "{:?}", start.elapsed());
    let looks = server.asked().iter().filter(|asked| !asked.query.contains("watch")).count();
    assert!(looks >= 5, "{looks}");
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_ever_more_slowly() {
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let notes = times.clone();
    let server = FakeServer::new(move |_| {
        notes.lock().unwrap().push(Instant::now());
        Reply::Broken
    });
    watch_for(&server, Settings::default(), Duration::from_secs(600)).await;
    let times = times.lock().unwrap();
    let waits: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits[0] <= Duration::from_millis(501) && waits.len() > 20, "{waits:?}");
    assert!(waits.iter().all(|wait| *wait <= Duration::from_millis(30_001)), "{waits:?}");
    assert!(waits[10..].iter().all(|wait| *wait >= Duration::from_secs(15)), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn selectors_and_namespaces_reach_the_server() {
    let server = scripted(vec![list(&[], 3), Reply::open(vec![])]);
    let target = Target {
        namespace: Some("kube-system".into()),
        label_selector: Some("a=b".into()),
        field_selector: Some("metadata.name=x".into()),
        ..Target::of::<ConfigMap>()
    };
    let decode = |seen: Seen<'_>| serde_json::from_str::<BTreeMap<String, Value>>(&seen.json());
    let events = watch(server.client(), target, Settings::default(), Rng::new(1), decode);
    events.take_until(tokio::time::sleep(Duration::from_secs(1))).for_each(async |_| {}).await;
    for asked in server.asked() {
        assert_eq!(asked.path, "/api/v1/namespaces/kube-system/configmaps");
        assert!(asked.query.contains("labelSelector=a%3Db"), "{}", asked.query);
        assert!(asked.query.contains("fieldSelector=metadata.name%3Dx"), "{}", asked.query);
    }
}

/// What a decoder gets to see of an object.
fn check_lean(object: &str, expected: &str) {
    let object: &RawValue = serde_json::from_str(object).unwrap();
    assert_eq!(ObjectHead::of(object).without_managed_fields(object), expected);
}

#[test]
fn who_wrote_which_field_is_left_out_before_decoding() {
    check_lean(
        r#"{"metadata":{"name":"a","managedFields":[{"manager":"}]\"","fieldsV1":{"f:x":{}}}],"uid":"u"},"data":{"k":"v"}}"#,
        r#"{"metadata":{"name":"a","managedFields":[],"uid":"u"},"data":{"k":"v"}}"#,
    );
    for untouched in [
        r#"{"metadata":{"name":"a"},"spec":{"managedFields":[1]}}"#,
        r#"{"metadata":{"name":3,"managedFields":[{}]}}"#,
        "{}",
        "[]",
    ] {
        check_lean(untouched, untouched);
    }
}
