//! What the server itself knows of workloads: shapes, defaults, and what may not change.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::world::{World, replica_set, same, text};

super::promises![
    a_selector_must_fit_the_template,
    a_selector_cannot_be_changed,
    a_workload_needs_a_selector,
    a_deployment_gets_the_defaults_of_its_type,
    a_workload_is_born_without_status,
    only_a_change_of_what_is_wanted_is_a_new_generation,
    a_job_does_not_restart_for_ever,
    a_job_names_its_pods,
    a_budget_says_one_thing,
    a_number_of_replicas_is_not_negative,
];

fn deployment(name: &str) -> Value {
    let mut deployment = replica_set(name);
    deployment["kind"] = "Deployment".into();
    deployment["spec"]["paused"] = true.into();
    deployment
}

async fn a_selector_must_fit_the_template(world: World) -> Result<()> {
    let mut set = replica_set("a");
    set["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
    let answer = world.post(&world.path_of("apps/v1", "replicasets"), &set).await?;
    let status = answer.invalid("spec.template.metadata.labels", "FieldValueInvalid")?;
    ensure!(text(&status["message"]).contains("`selector` does not match template `labels`"), "{status}");
    Ok(())
}

async fn a_selector_cannot_be_changed(world: World) -> Result<()> {
    for (plural, object) in [("replicasets", replica_set("a")), ("deployments", deployment("a"))] {
        let path = world.path_of("apps/v1", plural);
        world.post(&path, &object).await?.made()?;
        let labels = json!({"app": "a", "more": "b"});
        let patch =
            json!({"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}});
        let answer = world.patch(&format!("{path}/a"), &patch).await?;
        let status = answer.invalid("spec.selector", "FieldValueInvalid")?;
        ensure!(text(&status["message"]).contains("field is immutable"), "{status}");
    }
    Ok(())
}

async fn a_workload_needs_a_selector(world: World) -> Result<()> {
    let mut set = replica_set("a");
    set["spec"]["selector"] = json!(null);
    world.post(&world.path_of("apps/v1", "replicasets"), &set).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn a_deployment_gets_the_defaults_of_its_type(world: World) -> Result<()> {
    let mut bare = deployment("a");
    bare["spec"]["replicas"] = json!(null);
    let made = world.post(&format!("{}?dryRun=All", world.path_of("apps/v1", "deployments")), &bare).await?.made()?;
    let spec = &made["spec"];
    same(&spec["replicas"], 1)?;
    same(
        &spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
    )?;
    same(&spec["revisionHistoryLimit"], 10)?;
    same(&spec["progressDeadlineSeconds"], 600)?;
    same(&spec["template"]["spec"]["terminationGracePeriodSeconds"], 30)
}

async fn a_workload_is_born_without_status(world: World) -> Result<()> {
    let mut set = replica_set("a");
    set["status"] = json!({"replicas": 7});
    let made = world.post(&world.path_of("apps/v1", "replicasets"), &set).await?.made()?;
    ensure!(made["status"]["replicas"].as_i64().unwrap_or(0) == 0, "{made}");
    Ok(())
}

async fn only_a_change_of_what_is_wanted_is_a_new_generation(world: World) -> Result<()> {
    let collection = world.path_of("apps/v1", "replicasets");
    let made = world.post(&collection, &replica_set("a")).await?.made()?;
    same(&made["metadata"]["generation"], 1)?;
    let path = format!("{collection}/a");
    let patched = world.patch(&path, &json!({"metadata": {"labels": {"a": "b"}, "generation": 9}})).await?.fine()?;
    same(&patched["metadata"]["generation"], 1)?;
    let patched = world.patch(&path, &json!({"spec": {"minReadySeconds": 5}})).await?.fine()?;
    same(&patched["metadata"]["generation"], 2)?;
    let patched =
        world.patch(&format!("{path}/status"), &json!({"status": {"fullyLabeledReplicas": 0}})).await?.fine()?;
    same(&patched["metadata"]["generation"], 2)
}

fn job(name: &str, policy: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "suspend": true,
            "template": {"spec": {"restartPolicy": policy, "containers": [{"name": "main", "image": "none:1"}]}},
        },
    })
}

async fn a_job_does_not_restart_for_ever(world: World) -> Result<()> {
    let answer = world.post(&world.path_of("batch/v1", "jobs"), &job("a", "Always")).await?;
    answer.invalid("spec.template.spec.restartPolicy", "FieldValueRequired")?;
    Ok(())
}

async fn a_job_names_its_pods(world: World) -> Result<()> {
    let made = world.post(&world.path_of("batch/v1", "jobs"), &job("a", "Never")).await?.made()?;
    let labels = &made["spec"]["template"]["metadata"]["labels"];
    same(&labels["batch.kubernetes.io/job-name"], "a")?;
    same(&labels["batch.kubernetes.io/controller-uid"], made["metadata"]["uid"].clone())?;
    let wanted = json!({"batch.kubernetes.io/controller-uid": made["metadata"]["uid"]});
    same(&made["spec"]["selector"]["matchLabels"], wanted)?;
    same(&made["spec"]["backoffLimit"], 6)?;
    same(&made["spec"]["completions"], 1)
}

async fn a_budget_says_one_thing(world: World) -> Result<()> {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"},
        "spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    });
    let answer = world.post(&world.path_of("policy/v1", "poddisruptionbudgets"), &budget).await?;
    answer.invalid("spec", "FieldValueInvalid")?;
    Ok(())
}

async fn a_number_of_replicas_is_not_negative(world: World) -> Result<()> {
    let mut set = replica_set("a");
    set["spec"]["replicas"] = (-1).into();
    let answer = world.post(&world.path_of("apps/v1", "replicasets"), &set).await?;
    answer.invalid("spec.replicas", "FieldValueInvalid")?;
    Ok(())
}
