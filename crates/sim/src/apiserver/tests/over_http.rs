//! What only shows over HTTP, and what the shared suite cannot reach: our own list and watch, the end of history, sharing.

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use runtime::watch::{Event, Seen, Settings, Target, watch};

use super::super::store::EventKind;
use super::*;

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
}

fn touch(server: &ApiServer, name: &str, value: usize) {
    server.patch(Kind::ConfigMap, &at(name), &json!({"data": {"a": value.to_string()}})).unwrap();
}

#[tokio::test(start_paused = true)]
async fn our_own_watch_reads_pages_and_then_changes() {
    let server = server();
    ["a", "b", "c", "d", "e"].into_iter().for_each(|name| drop(server.create(map(name)).unwrap()));
    let settings = Settings { page_size: 2, ..Settings::default() };
    let decode = |seen: Seen<'_>| {
        serde_json::from_str::<ConfigMap>(&seen.json()).map(|map| map.metadata.name.unwrap_or_default())
    };
    let mut events = watch(server.client(), Target::of::<ConfigMap>(), settings, Rng::new(1), decode);
    let mut told = Vec::new();
    for _ in 0..7 {
        told.push(events.next().await.unwrap());
    }
    let applied = |name: &str| Event::Applied(name.to_owned());
    let expected =
        [Event::Restarted, applied("a"), applied("b"), applied("c"), applied("d"), applied("e"), Event::Listed];
    assert_eq!(told, expected);
    // Nobody polls while the watch is not open yet: what happens until then must come all the same.
    touch(&server, "c", 1);
    assert_eq!(events.next().await.unwrap(), applied("c"));
    server.delete(Kind::ConfigMap, &at("a"), &Deletion::default()).unwrap();
    assert!(matches!(events.next().await.unwrap(), Event::Deleted(id) if id.name == "a"));
    // It outlives many a watch that ends on time.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let late = async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        touch(&server, "e", 2);
    };
    let (event, ()) = tokio::join!(events.next(), late);
    assert_eq!(event.unwrap(), applied("e"));
}

#[tokio::test(start_paused = true)]
async fn our_own_watch_lists_again_when_history_has_ended() {
    let server = server();
    server.create(map("a")).unwrap();
    server.create(map("b")).unwrap();
    let decode = |seen: Seen<'_>| {
        serde_json::from_str::<ConfigMap>(&seen.json()).map(|map| map.metadata.name.unwrap_or_default())
    };
    let mut events = watch(server.client(), Target::of::<ConfigMap>(), Settings::default(), Rng::new(1), decode);
    for _ in 0..4 {
        events.next().await.unwrap();
    }
    // Between the list and the first look at the watch more happens than anybody remembers.
    for number in 0..5000 {
        touch(&server, "a", number);
    }
    assert_eq!(events.next().await.unwrap(), Event::Restarted);
}

#[tokio::test(start_paused = true)]
async fn history_has_an_end_for_each_kind_by_itself() {
    let server = server();
    server.create(map("a")).unwrap();
    server.create(pod("p")).unwrap();
    let before = server.lock().version();
    for number in 0..5000 {
        touch(&server, "a", number);
    }
    let store = server.lock();
    assert!(store.floor(Kind::ConfigMap) > before);
    assert!(store.floor(Kind::Pod) < before);
    assert_eq!(store.history(Kind::ConfigMap, before).count(), 4096);
    assert_eq!(store.history(Kind::Pod, 0).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_line_is_written_once_for_all_who_watch() {
    let server = server();
    server.create(map("a")).unwrap();
    let store = server.lock();
    let event = store.history(Kind::ConfigMap, 0).next().unwrap();
    assert_eq!(event.line(EventKind::Added).as_ptr(), event.line(EventKind::Added).as_ptr());
    assert!(event.line(EventKind::Added).starts_with(b"{\"type\":\"ADDED\",\"object\":{"));
    assert!(event.line(EventKind::Added).ends_with(b"}}\n"));
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_list_can_be_asked_for_five_minutes() {
    let server = server();
    ["a", "b", "c"].into_iter().for_each(|name| drop(server.create(map(name)).unwrap()));
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let first = maps.list(&ListParams::default().limit(1)).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(2));
    tokio::time::sleep(Duration::from_secs(300)).await;
    let next = ListParams::default().limit(1).continue_token(&token);
    assert_eq!(maps.list(&next).await.unwrap().items.len(), 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let error = maps.list(&next).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 410 && status.reason == "Expired"));
}

#[tokio::test(start_paused = true)]
async fn kubes_typed_calls_work() {
    let server = server();
    let pods: Api<Pod> = Api::namespaced(server.client(), "default");
    let typed: Pod = serde_json::from_value(pod("a")).unwrap();
    let made = pods.create(&PostParams::default(), &typed).await.unwrap();
    let version = made.metadata.resource_version.unwrap();
    let mut changes = Box::pin(pods.watch(&WatchParams::default(), &version).await.unwrap());
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    pods.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert!(matches!(changes.next().await, Some(Ok(WatchEvent::Modified(pod))) if pod.metadata.labels.is_some()));
    pods.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(pods.get_opt("a").await.unwrap(), None);
    assert_eq!(server.client().apiserver_version().await.unwrap().minor, "36");
    let listed = server.client().list_api_group_resources("karpenter.sh/v1").await.unwrap();
    assert!(listed.resources.iter().any(|resource| resource.name == "nodeclaims"));
    let missing = server.client().list_api_group_resources("resource.k8s.io/v1").await.unwrap_err();
    assert!(matches!(missing, kube::Error::Api(status) if status.code == 404));
}

#[tokio::test(start_paused = true)]
async fn watchers_that_have_left_are_forgotten() {
    let server = server();
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    for _ in 0..5 {
        drop(maps.watch(&WatchParams::default(), "0").await.unwrap());
    }
    let open = maps.watch(&WatchParams::default(), "0").await.unwrap();
    assert_eq!(server.lock().watchers(Kind::ConfigMap), 1);
    drop(open);
    server.create(map("a")).unwrap();
    assert_eq!(server.lock().watchers(Kind::ConfigMap), 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_that_is_forgotten_ends_with_an_error() {
    let server = server();
    server.create(map("a")).unwrap();
    for number in 0..5000 {
        server.patch(Kind::ConfigMap, &At::new("default", "a"), &json!({"data": {"n": number.to_string()}})).unwrap();
    }
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let mut changes = Box::pin(maps.watch(&WatchParams::default(), "1").await.unwrap());
    let Some(Ok(WatchEvent::Error(status))) = changes.next().await else { panic!("no error") };
    assert_eq!((status.code, &*status.reason), (410, "Expired"));
    assert!(status.message.starts_with("too old resource version: 1 ("), "{}", status.message);
    assert!(changes.next().await.is_none(), "it goes on");
}
