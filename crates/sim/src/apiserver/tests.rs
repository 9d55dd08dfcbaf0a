mod over_http;

use std::time::Duration;

use serde_json::json;

use super::*;

fn server() -> ApiServer {
    let epoch = "2026-01-01T00:00:00Z".parse().unwrap();
    ApiServer::new(Clock::virtual_from(epoch), Rng::new(1))
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    })
}

fn owned(mut object: Value, owner: &Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    object
}

fn at(name: &str) -> At {
    At::new("default", name)
}

fn drain(follower: &mut Follower) -> Vec<String> {
    std::iter::from_fn(|| follower.try_next())
        .map(|change| {
            let what = match (&change.before, &change.after) {
                (None, _) => "made",
                (_, Some(_)) => "changed",
                (_, None) => "gone",
            };
            format!("{} {} {what}", change.kind, change.at.name)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_the_same_uids_and_names() {
    let make = || {
        let mut object = pod("");
        object["metadata"] = json!({"generateName": "web-", "namespace": "default"});
        server().create(object).unwrap()
    };
    assert_eq!(make(), make());
    assert!(meta::name(&make()).starts_with("web-"));
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_changes_nothing_is_told_to_nobody() {
    let server = server();
    let first = server.create(pod("a")).unwrap();
    let mut follower = server.follow();
    let again = server.patch(Kind::Pod, &at("a"), &json!({"metadata": {"namespace": "default"}, "spec": {}})).unwrap();
    assert_eq!(again, first);
    assert_eq!(drain(&mut follower), [""; 0]);
    server.patch(Kind::Pod, &at("a"), &json!({"metadata": {"labels": {"a": "b"}}})).unwrap();
    assert_eq!(drain(&mut follower), ["Pod a changed"]);
}

#[tokio::test(start_paused = true)]
async fn a_follower_waits_and_loses_nothing() {
    let server = server();
    let mut follower = server.follow();
    assert!(tokio::time::timeout(Duration::from_secs(9), follower.changed()).await.is_err());
    server.create(pod("a")).unwrap();
    follower.changed().await;
    follower.changed().await;
    server.create(pod("b")).unwrap();
    assert_eq!(drain(&mut follower), ["Pod a made", "Pod b made"]);
    assert!(follower.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn indexes_follow_owners_and_nodes() {
    let server = server();
    let owner = server.create(pod("owner")).unwrap();
    server.create(owned(pod("a"), &owner)).unwrap();
    server.create(pod("b")).unwrap();
    let names =
        |objects: Vec<Arc<Value>>| objects.iter().map(|object| meta::name(object).to_owned()).collect::<Vec<_>>();
    assert_eq!(names(server.owned_by(Kind::Pod, meta::uid(&owner))), ["a"]);
    assert_eq!(names(server.owned_by(Kind::ReplicaSet, meta::uid(&owner))), [""; 0]);
    server.bind(&at("b"), "n").unwrap();
    server.bind(&at("a"), "n").unwrap();
    assert_eq!(names(server.pods_on("n")), ["a", "b"]);
    server.delete(Kind::Pod, &at("a"), &Deletion { grace_seconds: Some(0), ..Deletion::default() }).unwrap();
    assert_eq!(names(server.pods_on("n")), ["b"]);
    assert_eq!(names(server.owned_by(Kind::Pod, meta::uid(&owner))), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_is_marked_and_a_second_deletion_can_only_hurry_it() {
    let server = server();
    server.create(pod("a")).unwrap();
    server.bind(&at("a"), "n").unwrap();
    let delete = |grace_seconds| server.delete(Kind::Pod, &at("a"), &Deletion { grace_seconds, ..Deletion::default() });
    let end = || server.get(Kind::Pod, &at("a")).map(|pod| pod["metadata"]["deletionTimestamp"].clone());
    delete(None).unwrap();
    assert_eq!(end(), Some(json!("2026-01-01T00:00:30Z")));
    tokio::time::sleep(Duration::from_secs(5)).await;
    delete(Some(60)).unwrap();
    assert_eq!(end(), Some(json!("2026-01-01T00:00:30Z")));
    delete(Some(10)).unwrap();
    assert_eq!(end(), Some(json!("2026-01-01T00:00:10Z")));
    delete(Some(0)).unwrap();
    assert_eq!(end(), None);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_an_object_until_it_is_taken_off() {
    let server = server();
    let mut node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "finalizers": ["example.com/x"]}});
    node["status"] = json!({"capacity": {"cpu": "4"}});
    let made = server.create(node).unwrap();
    assert_eq!(made["status"]["capacity"]["cpu"], "4");
    let place = At::new("", "n");
    server.delete(Kind::Node, &place, &Deletion::default()).unwrap();
    let marked = server.get(Kind::Node, &place).unwrap();
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    let refusal =
        server.patch(Kind::Node, &place, &json!({"metadata": {"finalizers": ["example.com/y"]}})).unwrap_err();
    assert_eq!((refusal.code, refusal.reason), (422, "Invalid"));
    server.patch(Kind::Node, &place, &json!({"metadata": {"finalizers": null}})).unwrap();
    assert_eq!(server.get(Kind::Node, &place), None);
}

#[tokio::test(start_paused = true)]
async fn dependents_go_after_their_owner() {
    let server = server();
    let claim = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "top", "namespace": "default"}});
    let top = server.create(claim).unwrap();
    let middle = server.create(owned(pod("middle"), &top)).unwrap();
    server.create(owned(pod("low"), &middle)).unwrap();
    let mut follower = server.follow();
    server.delete(Kind::ConfigMap, &at("top"), &Deletion::default()).unwrap();
    let gone = ["ConfigMap top gone", "Pod middle changed", "Pod middle gone", "Pod low changed", "Pod low gone"];
    assert_eq!(drain(&mut follower), gone);
}

#[tokio::test(start_paused = true)]
async fn twenty_thousand_dependents_go_without_a_deep_stack() {
    let server = server();
    let claim = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "top", "namespace": "default"}});
    let top = server.create(claim).unwrap();
    for number in 0..20_000 {
        let metadata = json!({"name": format!("c{number}"), "namespace": "default"});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        server.create(owned(object, &top)).unwrap();
    }
    server.delete(Kind::ConfigMap, &at("top"), &Deletion::default()).unwrap();
    assert!(server.list(Kind::ConfigMap).is_empty());
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_without_their_owner() {
    let server = server();
    let owner = server.create(pod("owner")).unwrap();
    server.create(owned(pod("a"), &owner)).unwrap();
    let deletion = Deletion { orphans_dependents: true, ..Deletion::default() };
    server.delete(Kind::Pod, &at("owner"), &deletion).unwrap();
    assert_eq!(server.get(Kind::Pod, &at("owner")), None);
    let orphan = server.get(Kind::Pod, &at("a")).unwrap();
    assert!(orphan["metadata"]["ownerReferences"].is_null() && orphan["metadata"]["deletionTimestamp"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_content_along_and_waits_for_it() {
    let server = server();
    server.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).unwrap();
    let mut web = pod("web");
    web["metadata"]["namespace"] = "shop".into();
    server.create(web.clone()).unwrap();
    server.bind(&At::new("shop", "web"), "n").unwrap();
    server.delete(Kind::Namespace, &At::new("", "shop"), &Deletion::default()).unwrap();
    let namespace = server.get(Kind::Namespace, &At::new("", "shop")).unwrap();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    web["metadata"]["name"] = "late".into();
    assert_eq!(server.create(web).unwrap_err().code, 403);
    let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
    server.delete(Kind::Pod, &At::new("shop", "web"), &now).unwrap();
    assert_eq!(server.get(Kind::Namespace, &At::new("", "shop")), None);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_refused_by_name() {
    for (version, kind) in [
        ("v1", "Secret"),
        ("v1", "ReplicationController"),
        ("batch/v1", "CronJob"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ("apps/v1beta1", "Deployment"),
    ] {
        let refusal =
            server().create(json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}})).unwrap_err();
        assert_eq!(refusal.code, 404);
        let expected = format!("the simulator does not serve {kind} of {version}: the kind is not in its list");
        assert_eq!(refusal.message, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_admission_hook_changes_and_refuses_objects_and_sees_what_they_were_and_the_others() {
    fn admit(kind: Kind, object: &mut Value, old: Option<&Value>, store: &Store) -> Result<(), String> {
        if let Some(old) = old {
            object["metadata"]["labels"]["before"] =
                old["metadata"]["labels"]["colour"].as_str().unwrap_or("none").into();
            return Ok(());
        }
        if kind == Kind::Pod && store.get(Kind::ConfigMap, &at("closed")).is_some() {
            return Err("closed".into());
        }
        object["metadata"]["labels"]["seen"] = "yes".into();
        Ok(())
    }
    let hooks = Hooks { admit: Some(admit), ..Hooks::default() };
    let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
    let server = ApiServer::with_hooks(clock, Rng::new(1), hooks);
    assert_eq!(server.create(pod("a")).unwrap()["metadata"]["labels"]["seen"], "yes");
    for (colour, before) in [("red", "none"), ("blue", "red")] {
        let patch = json!({"metadata": {"labels": {"colour": colour}}});
        assert_eq!(server.patch(Kind::Pod, &at("a"), &patch).unwrap()["metadata"]["labels"]["before"], before);
    }
    server.patch_status(Kind::Pod, &at("a"), &json!({"status": {"phase": "Running"}})).unwrap();
    assert_eq!(
        server.get(Kind::Pod, &at("a")).unwrap()["metadata"]["labels"]["before"],
        "red",
        "a status is no such change"
    );
    let closed =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "closed", "namespace": "default"}});
    server.create(closed).unwrap();
    let denial = server.lock().create(Kind::Pod, "default", pod("b"), Source::Outside).unwrap_err();
    let expected = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "pods \"b\" is forbidden: closed", "details": {"name": "b", "kind": "pods"},
    });
    assert_eq!(denial.status(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_rules_of_a_custom_kind_are_asked_on_creation_and_change() {
    struct Even;
    impl Rules for Even {
        fn admit(&self, object: &mut Value, old: Option<&Value>) -> Result<(), Vec<RuleViolation>> {
            object["spec"]["isNew"] = old.is_none().into();
            match object["spec"]["number"].as_i64() {
                Some(number) if number % 2 == 0 => Ok(()),
                _ => Err(vec![RuleViolation {
                    field: "spec.number".into(),
                    reason: "FieldValueInvalid",
                    message: "Invalid value: odd".into(),
                }]),
            }
        }
    }
    let hooks = Hooks { rules: [(Kind::NodeClaim, Box::new(Even) as Box<dyn Rules>)].into(), ..Hooks::default() };
    let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
    let server = ApiServer::with_hooks(clock, Rng::new(1), hooks);
    let claim = |number: i64| json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"}, "spec": {"number": number}});
    let refusal = server.create(claim(1)).unwrap_err();
    assert_eq!(refusal.message, "NodeClaim.karpenter.sh \"a\" is invalid: spec.number: Invalid value: odd");
    assert_eq!(server.create(claim(2)).unwrap()["spec"]["isNew"], true);
    let place = At::new("", "a");
    assert!(server.patch(Kind::NodeClaim, &place, &json!({"spec": {"number": 3}})).is_err());
    let changed = server.patch(Kind::NodeClaim, &place, &json!({"spec": {"number": 4}})).unwrap();
    assert_eq!((&changed["spec"]["isNew"], &changed["metadata"]["generation"]), (&json!(false), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn a_custom_kind_without_a_definition_is_not_served() {
    struct Anything;
    impl Rules for Anything {
        fn admit(&self, _: &mut Value, _: Option<&Value>) -> Result<(), Vec<RuleViolation>> {
            Ok(())
        }
    }
    let definitions: Vec<Value> =
        api::crd::definitions(api::crd::CrdSet::Kwok).iter().map(|definition| definition.to_value().clone()).collect();
    let rules = |_: &Value, _: &str| Ok::<_, Refusal>(Box::new(Anything) as Box<dyn Rules>);
    let hooks = Hooks::default().with_definitions(&definitions, rules).unwrap();
    let served: Vec<&str> = hooks.rules.keys().map(|kind| kind.as_str()).collect();
    assert_eq!(served, ["NodeClaim", "NodePool", "NodeOverlay", "KWOKNodeClass", "CapacityBuffer"]);
    let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
    let server = ApiServer::with_hooks(clock, Rng::new(1), hooks);
    let class = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}});
    server.create(class("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass")).unwrap();
    assert_eq!(server.create(class("karpenter.k8s.aws/v1", "EC2NodeClass")).unwrap_err().code, 404);
    let aws = server.client().list_api_group_resources("karpenter.k8s.aws/v1").await.unwrap_err();
    assert!(matches!(aws, kube::Error::Api(status) if status.code == 404));
}

#[tokio::test(start_paused = true)]
async fn an_object_is_born_with_the_counts_that_cannot_be_absent() {
    for (kind, expected) in [
        (Kind::Deployment, json!({})),
        (Kind::ReplicaSet, json!({"replicas": 0})),
        (Kind::StatefulSet, json!({"availableReplicas": 0, "replicas": 0})),
        (
            Kind::DaemonSet,
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0}),
        ),
    ] {
        let mut object = crate::testing::workload(kind, "web", json!({}));
        object["status"] = json!({"replicas": 7});
        assert_eq!(server().create(object).unwrap()["status"], expected, "{kind}");
    }
    let metadata = json!({"name": "b", "namespace": "default"});
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": {"minAvailable": 1},
    });
    let expected = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
    assert_eq!(server().create(budget).unwrap()["status"], expected);
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {}});
    assert_eq!(server().create(claim).unwrap()["status"], json!({"phase": "Pending"}));
    assert_eq!(server().create(pod("a")).unwrap()["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_bears_its_name_even_if_that_is_drawn() {
    for metadata in [json!({"name": "team"}), json!({"generateName": "team-"})] {
        let made = server().create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})).unwrap();
        assert!(meta::name(&made).starts_with("team"));
        assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], meta::name(&made));
        assert_eq!((&made["spec"]["finalizers"], &made["status"]["phase"]), (&json!(["kubernetes"]), &json!("Active")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_null_is_stored_as_missing() {
    let mut object = pod("a");
    object["spec"]["nodeSelector"] = Value::Null;
    object["spec"]["containers"][0]["ports"] = Value::Null;
    let made = server().create(object).unwrap();
    assert!(made["spec"].get("nodeSelector").is_none() && made["spec"]["containers"][0].get("ports").is_none());
}
