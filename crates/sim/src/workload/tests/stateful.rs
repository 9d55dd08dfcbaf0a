use serde_json::{Value, json};

use crate::fields::{labels, node_of};
use crate::kinds::Kind;
use crate::testing::{Stage, workload};

fn set(spec: Value) -> Value {
    let mut set = workload(Kind::StatefulSet, "db", spec);
    set["spec"]["serviceName"] = json!("db");
    set
}

fn new_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

fn images(stage: &Stage) -> Vec<String> {
    let pods = stage.server.list(Kind::Pod);
    pods.iter().map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_come_one_after_the_other_and_leave_in_reverse() {
    let mut stage = Stage::new();
    stage.nodes(&["n1", "n2"]);
    let mut db = set(json!({"replicas": 3}));
    db["spec"]["template"]["metadata"]["annotations"] =
        json!({"dovetail.dev/ready-seconds": "9", "dovetail.dev/stop-seconds": "9"});
    stage.create(db);
    for count in 1..=3 {
        stage.pass(5).await;
        assert_eq!(stage.pods().len(), count);
        stage.pass(5).await;
    }
    assert_eq!(stage.pods(), ["db-0", "db-1", "db-2"]);
    let first = stage.get(Kind::Pod, "db-0");
    assert_eq!((&first["spec"]["hostname"], &first["spec"]["subdomain"]), (&json!("db-0"), &json!("db")));
    assert_eq!(labels(&first)["apps.kubernetes.io/pod-index"], "0");
    stage.pass(5).await;
    let status = stage.get(Kind::StatefulSet, "db")["status"].clone();
    assert_eq!((&status["readyReplicas"], &status["updatedReplicas"]), (&json!(3), &json!(3)));
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    stage.patch(Kind::StatefulSet, "db", json!({"spec": {"replicas": 1}}));
    stage.pass(5).await;
    let leaving = |stage: &Stage| stage.pods_that(|pod| pod["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(leaving(&stage), ["db-2"]);
    stage.pass(9).await;
    assert_eq!((stage.pods(), leaving(&stage)), (vec!["db-0".to_owned(), "db-1".to_owned()], vec!["db-1".to_owned()]));
    stage.pass(10).await;
    assert_eq!(stage.pods(), ["db-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_parallel_set_does_not_wait() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    let mut db = set(json!({"replicas": 3, "podManagementPolicy": "Parallel"}));
    db["spec"]["template"]["metadata"]["annotations"] = json!({"dovetail.dev/ready-seconds": "99"});
    stage.create(db);
    stage.settle();
    assert_eq!(stage.pods(), ["db-0", "db-1", "db-2"]);
    stage.patch(Kind::StatefulSet, "db", json!({"spec": {"replicas": 1}}));
    stage.pass(2).await;
    assert_eq!(stage.pods(), ["db-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_lost_comes_back_under_its_name_with_its_claim() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"}, "provisioner": "csi.test",
    }));
    let template = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}},
    });
    stage.create(set(json!({"replicas": 2, "volumeClaimTemplates": [template]})));
    stage.pass(30).await;
    assert_eq!(stage.ready_pods(), 2);
    let claim = stage.get(Kind::PersistentVolumeClaim, "data-db-1");
    let first = stage.get(Kind::Pod, "db-1");
    assert_eq!(
        first["spec"]["volumes"],
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-1"}}])
    );
    stage.delete(Kind::Pod, "db-1");
    stage.pass(30).await;
    let second = stage.get(Kind::Pod, "db-1");
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(node_of(&second), Some("n1"));
    assert_eq!(stage.ready_pods(), 2);
    assert_eq!(stage.get(Kind::PersistentVolumeClaim, "data-db-1")["metadata"]["uid"], claim["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_rolls_from_the_top_down_to_its_partition() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    stage.create(set(json!({"replicas": 3, "updateStrategy": strategy})));
    stage.pass(20).await;
    stage.patch(Kind::StatefulSet, "db", new_image("two"));
    stage.settle();
    // One at a time: the second waits until the first is ready again.
    assert_eq!(stage.pods_that(|pod| pod["spec"]["containers"][0]["image"] == "one").len(), 2);
    stage.pass(20).await;
    assert_eq!(images(&stage), ["one", "two", "two"]);
    let status = stage.get(Kind::StatefulSet, "db")["status"].clone();
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    assert_eq!((&status["currentReplicas"], &status["updatedReplicas"]), (&json!(1), &json!(2)));
    // Below the partition a pod comes back as it was.
    stage.delete(Kind::Pod, "db-0");
    stage.pass(5).await;
    assert_eq!(images(&stage), ["one", "two", "two"]);
    stage.patch(Kind::StatefulSet, "db", json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}));
    stage.pass(5).await;
    assert_eq!(images(&stage), ["two", "two", "two"]);
    let status = stage.get(Kind::StatefulSet, "db")["status"].clone();
    assert_eq!(status["currentRevision"], status["updateRevision"]);
}
