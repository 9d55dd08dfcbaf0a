use serde_json::{Value, json};

use crate::fields::{annotation, condition};
use crate::kinds::Kind;
use crate::testing::{Stage, workload};

fn job(spec: Value, annotations: Value) -> Value {
    let mut job = workload(Kind::Job, "batch", spec);
    job["spec"]["selector"] = Value::Null;
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    job["spec"]["template"]["metadata"]["annotations"] = annotations;
    job
}

fn status(stage: &Stage, field: &str) -> Value {
    stage.get(Kind::Job, "batch")["status"][field].clone()
}

fn reason(stage: &Stage, of_type: &str) -> Option<Value> {
    condition(&stage.get(Kind::Job, "batch"), of_type).map(|found| found["reason"].clone())
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_so_many_at_a_time_until_enough_have_succeeded() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    let annotations = json!({"dovetail.dev/run-seconds": "10"});
    stage.create(job(json!({"completions": 5, "parallelism": 2, "ttlSecondsAfterFinished": 60}), annotations));
    stage.pass(5).await;
    assert_eq!((status(&stage, "active"), status(&stage, "ready")), (json!(2), json!(2)));
    stage.pass(20).await;
    assert_eq!(status(&stage, "succeeded"), 4);
    assert_eq!(status(&stage, "active"), 1);
    stage.pass(12).await;
    assert_eq!((status(&stage, "succeeded"), status(&stage, "active")), (json!(5), json!(0)));
    assert_eq!(reason(&stage, "Complete"), Some(json!("CompletionsReached")));
    assert_eq!(stage.pods().len(), 5);
    stage.pass(70).await;
    assert!(stage.find(Kind::Job, "batch").is_none());
    assert!(stage.pods().is_empty());
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_more_and_more_slowly_until_the_limit() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    let annotations = json!({"dovetail.dev/run-seconds": "1", "dovetail.dev/exit-code": "1"});
    stage.create(job(json!({"backoffLimit": 2}), annotations));
    for (after, pods) in [(5, 1), (8, 2), (15, 2), (10, 3)] {
        stage.pass(after).await;
        assert_eq!(stage.pods().len(), pods);
    }
    assert_eq!(status(&stage, "failed"), 3);
    assert_eq!(reason(&stage, "Failed"), Some(json!("BackoffLimitExceeded")));
    stage.pass(600).await;
    assert_eq!(stage.pods().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_counts_as_failed_and_is_replaced() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(job(json!({}), json!({"dovetail.dev/run-seconds": "100"})));
    stage.pass(5).await;
    let pod = stage.pods()[0].clone();
    stage.delete(Kind::Pod, &pod);
    stage.pass(15).await;
    assert_eq!((status(&stage, "failed"), status(&stage, "active")), (json!(1), json!(1)));
    assert_ne!(stage.pods(), [pod]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_takes_too_long_fails() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(job(json!({"activeDeadlineSeconds": 30}), json!({})));
    stage.pass(29).await;
    assert_eq!(status(&stage, "active"), 1);
    stage.pass(3).await;
    assert_eq!(reason(&stage, "Failed"), Some(json!("DeadlineExceeded")));
    assert!(stage.pods().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_and_loses_nothing() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    stage.create(job(json!({"suspend": true}), json!({"dovetail.dev/run-seconds": "10"})));
    stage.pass(5).await;
    assert!(stage.pods().is_empty());
    stage.patch(Kind::Job, "batch", json!({"spec": {"suspend": false}}));
    stage.pass(5).await;
    stage.patch(Kind::Job, "batch", json!({"spec": {"suspend": true}}));
    stage.pass(5).await;
    assert!(stage.pods().is_empty());
    assert_eq!(status(&stage, "failed"), 0);
    stage.patch(Kind::Job, "batch", json!({"spec": {"suspend": false}}));
    stage.pass(15).await;
    assert_eq!(status(&stage, "succeeded"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_fills_every_place_once() {
    let mut stage = Stage::new();
    stage.nodes(&["n1"]);
    let spec = json!({"completions": 3, "parallelism": 2, "completionMode": "Indexed"});
    stage.create(job(spec, json!({"dovetail.dev/run-seconds": "5"})));
    stage.pass(30).await;
    let pods = stage.server.list(Kind::Pod);
    let mut indexes: Vec<&str> =
        pods.iter().filter_map(|pod| annotation(pod, "batch.kubernetes.io/job-completion-index")).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, ["0", "1", "2"]);
    assert_eq!(reason(&stage, "Complete"), Some(json!("CompletionsReached")));
}
