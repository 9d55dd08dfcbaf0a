use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use model::resources::Resources;
use runtime::{Clock, Recorder, Rng, Stop};
use serde_json::{Value, json};

use super::*;

fn pod(name: &str) -> Pod {
    Pod::pending("shop", name, Resources::default())
}

fn claim() -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": "default-a", "uid": "u1"},
        "spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}},
    }))
    .unwrap()
}

fn pool() -> NodePool {
    let template = json!({"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}});
    serde_json::from_value(json!({"metadata": {"name": "default", "uid": "u2"}, "spec": {"template": template}}))
        .unwrap()
}

fn node() -> Node {
    serde_json::from_value(json!({"metadata": {"name": "n1", "uid": "u3"}})).unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Everything that the API server is sent for these notes, as reason, kind of object and message.
async fn written(publish: impl AsyncFnOnce(&Recorder)) -> Vec<Value> {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let server = sent.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let sent = server.clone();
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            sent.lock().unwrap().push(serde_json::from_slice::<Value>(&body).unwrap());
            Ok::<_, Infallible>(Response::new(Full::new(body)))
        }
    });
    let recorder = Recorder::new(COMPONENT, Clock::virtual_from(at("2026-01-01T00:00:00Z")), Rng::new(1));
    let stop = Stop::new();
    let client = Client::new(service, "default");
    futures::join!(recorder.run(client, &stop), async {
        publish(&recorder).await;
        stop.cancel();
    });
    std::mem::take(&mut *sent.lock().unwrap())
}

// 02/OP5
#[tokio::test(start_paused = true)]
async fn repeats_are_written_once_per_window_and_other_objects_pass() {
    let failed = |name: &str| failed_scheduling(&pod(name), "Failed to schedule pod, no room".to_owned());
    let events = written(async |recorder| {
        for _ in 0..3 {
            recorder.publish(failed("a"));
            recorder.publish(evicted(&pod("a"), "Empty"));
        }
        recorder.publish(failed("b"));
        // Two minutes are over for most events, and five are not for this one.
        tokio::time::sleep(2 * MINUTE + Duration::from_secs(1)).await;
        recorder.publish(failed("a"));
        recorder.publish(evicted(&pod("a"), "Empty"));
        tokio::time::sleep(3 * MINUTE).await;
        recorder.publish(failed("a"));
    })
    .await;
    let count = |reason: &str, name: &str| {
        events.iter().filter(|event| event["reason"] == reason && event["involvedObject"]["name"] == name).count()
    };
    assert_eq!((count("FailedScheduling", "a"), count("FailedScheduling", "b"), count("Evicted", "a")), (1, 1, 1));
    // What is repeated after its window is counted on the event that is there already.
    let again = events.iter().filter(|event| event["reason"].is_null()).count();
    assert_eq!(again, 2, "{events:?}");
    assert!(events.iter().all(|event| event["reason"].is_null() || event["source"]["component"] == "karpenter"));
}

// 02/OP5
#[tokio::test(start_paused = true)]
async fn nominations_come_ten_at_once_and_then_five_a_second() {
    let publish = |recorder: &Recorder, from: usize| {
        for number in from..from + 50 {
            recorder.publish(nominated(&pod(&format!("p{number}")), Destination::Claim("default-a")));
        }
    };
    let first = written(async |recorder| publish(recorder, 0)).await;
    assert_eq!(first.len(), 10);
    let both = written(async |recorder| {
        publish(recorder, 0);
        tokio::time::sleep(Duration::from_secs(1)).await;
        publish(recorder, 50);
    })
    .await;
    assert_eq!(both.len(), 15);
}

#[test]
fn texts_are_the_references() {
    let node_name = NodeName::from("n1");
    let check = |note: Note, reason: &str, message: &str| {
        assert_eq!((&*note.reason, note.message.as_str()), (reason, message));
    };
    let pod = pod("web");
    check(nominated(&pod, Destination::Claim("c")), "Nominated", "Pod should schedule on: nodeclaim/c");
    check(nominated(&pod, Destination::Node(&node_name)), "Nominated", "Pod should schedule on: node/n1");
    let both = Destination::Both { claim: "c", node: &node_name };
    check(nominated(&pod, both), "Nominated", "Pod should schedule on: nodeclaim/c, node/n1");
    let none = "NodePool requirements filtered out all compatible available instance types";
    check(no_compatible_instance_types(&pool(), Filtered::ByRequirements), "NoCompatibleInstanceTypes", none);
    check(
        no_compatible_instance_types(&pool(), Filtered::ByMinValues),
        "NoCompatibleInstanceTypes",
        &format!("{none} due to minValues incompatibility"),
    );
    check(evicted(&pod, "Forceful Termination"), "Evicted", "Evicted pod: Forceful Termination");
    let node_ends = at("2026-01-01T00:00:30.5Z");
    let deadline = Deadline { node_ends, granted: Duration::from_secs(7), wanted: Some(Duration::from_secs(30)) };
    let text = "Deleting the pod to accommodate the terminationTime 2026-01-01T00:00:30Z of the node. The pod was granted 7 \
                seconds of grace-period of its 30 terminationGracePeriodSeconds. This bypasses the PDB of the pod and the \
                do-not-disrupt annotation.";
    check(disrupted(&pod, deadline), "Disrupted", text);
    check(failed_draining(&node(), "2 pods are left"), "FailedDraining", "Failed to drain node, 2 pods are left");
    let names = ["a", "b", "c", "d", "e", "f"];
    let waiting = "Awaiting deletion of bound volumeattachments (a, b, c, d, e and 1 other(s))";
    check(awaiting_volume_detachment(&node(), &names), "AwaitingVolumeDetachment", waiting);
    let expiring = "All pods will be deleted by 2026-01-01T00:00:30Z";
    check(node_termination_grace_period_expiring(&node(), node_ends), "TerminationGracePeriodExpiring", expiring);
    check(claim_termination_grace_period_expiring(&claim(), node_ends), "TerminationGracePeriodExpiring", expiring);
    let long = insufficient_capacity(&claim(), &"x".repeat(400));
    assert_eq!(long.message.len(), "NodeClaim default-a event: ".len() + 300);
    check(
        finalized(claim().object_ref(&()), "karpenter.sh/termination"),
        "Finalized",
        "Finalized karpenter.sh/termination",
    );
}

#[test]
fn a_condition_is_told_by_its_own_name() {
    let change = ConditionChange { type_: "Launched", from: "Unknown", to: "True", reason: "Launched", message: "" };
    let note = condition_transitioned(claim().object_ref(&()), change);
    assert_eq!(note.reason, "Launched");
    assert_eq!(
        note.message,
        "Status condition transitioned, Type: Launched, Status: Unknown -> True, Reason: Launched"
    );
    assert!(note.dedupe.is_empty());
    let change = ConditionChange { message: "no room", to: "False", ..change };
    let note = condition_transitioned(claim().object_ref(&()), change);
    assert!(note.message.ends_with("Unknown -> False, Reason: Launched, Message: no room"), "{}", note.message);
}

#[test]
fn an_object_that_cannot_be_read_is_named_so_that_kubectl_finds_the_event() {
    let json = br#"{"metadata": {"name": "odd", "uid": "u9"}, "spec": 7}"#;
    let note = undecodable(&Undecodable::read(cluster::Kind::NodePool, json, "no struct"));
    let about = note.regarding;
    assert_eq!((about.api_version.as_deref(), about.kind.as_deref()), (Some("karpenter.sh/v1"), Some("NodePool")));
    assert_eq!((about.name.as_deref(), about.uid.as_deref(), about.namespace), (Some("odd"), Some("u9"), None));
}
