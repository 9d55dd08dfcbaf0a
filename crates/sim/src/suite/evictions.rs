//! Evictions and disruption budgets.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::world::{Answer, World, patience, pod, same, text};

super::promises![
    without_a_budget_an_eviction_is_a_deletion,
    an_evicted_pod_says_why_it_goes,
    a_pending_pod_is_evicted_whatever_its_budget_says,
    a_pod_that_is_over_is_evicted_whatever_its_budget_says,
    a_budget_that_is_used_up_refuses,
    a_pod_with_two_budgets_is_not_evicted,
    a_budget_of_other_pods_does_not_matter,
    an_unhealthy_pod_goes_if_its_budget_lets_all_such_go,
    an_unhealthy_pod_stays_if_too_few_are_healthy,
    an_eviction_names_its_pod,
    an_eviction_of_another_uid_conflicts,
    what_does_not_exist_is_not_evicted,
    a_dry_eviction_evicts_nobody,
    an_eviction_can_bring_its_own_grace,
    a_budget_is_charged_for_an_eviction[BudgetStatus],
    a_budget_that_is_used_up_says_what_it_needs[BudgetStatus],
    an_unhealthy_pod_is_free_of_charge_when_enough_are_healthy[BudgetStatus],
];

fn at(world: &World, name: &str) -> String {
    format!("{}/{name}", world.path("pods"))
}

async fn evict(world: &World, name: &str, options: Value) -> Result<Answer> {
    let mut body =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": world.ns}});
    if !options.is_null() {
        body["deleteOptions"] = options;
    }
    world.post(&format!("{}/eviction", at(world, name)), &body).await
}

async fn budget(world: &World, name: &str, spec: Value) -> Result<()> {
    let body =
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec});
    world.post(&world.path_of("policy/v1", "poddisruptionbudgets"), &body).await?.made()?;
    Ok(())
}

fn of(app: &str) -> Value {
    json!({"matchLabels": {"app": app}})
}

/// Waits until the budget's keeper has counted so many healthy pods.
async fn counted(world: &World, name: &str, healthy: i64) -> Result<Value> {
    let path = format!("{}/{name}", world.path_of("policy/v1", "poddisruptionbudgets"));
    patience("the budget has counted its pods", || async {
        let budget = world.get(&path).await?.fine()?;
        let status = &budget["status"];
        let is_done = status["observedGeneration"] == 1 && status["currentHealthy"] == healthy;
        Ok(is_done.then_some(budget))
    })
    .await
}

async fn is_going(world: &World, name: &str) -> Result<bool> {
    let answer = world.get(&at(world, name)).await?;
    Ok(answer.code == 404 || !answer.fine()?["metadata"]["deletionTimestamp"].is_null())
}

async fn without_a_budget_an_eviction_is_a_deletion(world: World) -> Result<()> {
    world.running(pod("a"), true).await?;
    let status = evict(&world, "a", json!(null)).await?.made()?;
    ensure!(status["kind"] == "Status" && status["status"] == "Success", "{status}");
    let going = world.get(&at(&world, "a")).await?.fine()?;
    same(&going["metadata"]["deletionGracePeriodSeconds"], 30)
}

async fn an_evicted_pod_says_why_it_goes(world: World) -> Result<()> {
    world.running(pod("a"), true).await?;
    evict(&world, "a", json!(null)).await?.made()?;
    let going = world.get(&at(&world, "a")).await?.fine()?;
    let mut conditions = going["status"]["conditions"].as_array().into_iter().flatten();
    let target = conditions.find(|condition| condition["type"] == "DisruptionTarget");
    let is_told =
        target.is_some_and(|target| target["status"] == "True" && target["reason"] == "EvictionByEvictionAPI");
    ensure!(is_told, "{going}");
    Ok(())
}

async fn a_pending_pod_is_evicted_whatever_its_budget_says(world: World) -> Result<()> {
    budget(&world, "all", json!({"minAvailable": "100%", "selector": of("a")})).await?;
    world.post(&world.path("pods"), &pod("a")).await?.made()?;
    evict(&world, "a", json!(null)).await?.made()?;
    world.get(&at(&world, "a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_pod_that_is_over_is_evicted_whatever_its_budget_says(world: World) -> Result<()> {
    budget(&world, "all", json!({"minAvailable": "100%", "selector": of("a")})).await?;
    world.running(pod("a"), true).await?;
    world.patch(&format!("{}/status", at(&world, "a")), &json!({"status": {"phase": "Succeeded"}})).await?.fine()?;
    evict(&world, "a", json!(null)).await?.made()?;
    world.get(&at(&world, "a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_budget_that_is_used_up_refuses(world: World) -> Result<()> {
    budget(&world, "one", json!({"minAvailable": 1, "selector": of("a")})).await?;
    world.running(pod("a"), true).await?;
    let status = evict(&world, "a", json!(null)).await?.refused(429, "TooManyRequests")?;
    same(&status["message"], "Cannot evict pod as it would violate the pod's disruption budget.")?;
    same(&status["details"]["causes"][0]["reason"], "DisruptionBudget")?;
    ensure!(!is_going(&world, "a").await?, "it goes all the same");
    Ok(())
}

async fn a_pod_with_two_budgets_is_not_evicted(world: World) -> Result<()> {
    budget(&world, "one", json!({"maxUnavailable": 1, "selector": of("a")})).await?;
    budget(&world, "two", json!({"maxUnavailable": 1, "selector": of("a")})).await?;
    world.running(pod("a"), true).await?;
    let status = evict(&world, "a", json!(null)).await?.with_code(500)?;
    let expected = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    same(&status["message"], expected)?;
    ensure!(!is_going(&world, "a").await?, "it goes all the same");
    Ok(())
}

async fn a_budget_of_other_pods_does_not_matter(world: World) -> Result<()> {
    budget(&world, "one", json!({"minAvailable": 1, "selector": of("b")})).await?;
    budget(&world, "none", json!({"minAvailable": 1})).await?;
    world.running(pod("a"), true).await?;
    evict(&world, "a", json!(null)).await?.made()?;
    ensure!(is_going(&world, "a").await?, "it stays");
    Ok(())
}

async fn an_unhealthy_pod_goes_if_its_budget_lets_all_such_go(world: World) -> Result<()> {
    let spec = json!({"minAvailable": 1, "selector": of("a"), "unhealthyPodEvictionPolicy": "AlwaysAllow"});
    budget(&world, "one", spec).await?;
    world.running(pod("a"), false).await?;
    evict(&world, "a", json!(null)).await?.made()?;
    ensure!(is_going(&world, "a").await?, "it stays");
    Ok(())
}

async fn an_unhealthy_pod_stays_if_too_few_are_healthy(world: World) -> Result<()> {
    budget(&world, "one", json!({"minAvailable": 1, "selector": of("a")})).await?;
    world.running(pod("a"), false).await?;
    evict(&world, "a", json!(null)).await?.refused(429, "TooManyRequests")?;
    ensure!(!is_going(&world, "a").await?, "it goes all the same");
    Ok(())
}

async fn an_eviction_names_its_pod(world: World) -> Result<()> {
    world.running(pod("a"), true).await?;
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b", "namespace": world.ns}});
    world.post(&format!("{}/eviction", at(&world, "a")), &body).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn an_eviction_of_another_uid_conflicts(world: World) -> Result<()> {
    let made = world.running(pod("a"), true).await?;
    let other = json!({"preconditions": {"uid": "2c2f5c3f-5a3e-4a7f-8a51-6e0a8e5d9d4c"}});
    evict(&world, "a", other).await?.refused(409, "Conflict")?;
    ensure!(!is_going(&world, "a").await?, "it goes all the same");
    evict(&world, "a", json!({"preconditions": {"uid": made["metadata"]["uid"]}})).await?.made()?;
    ensure!(is_going(&world, "a").await?, "it stays");
    Ok(())
}

async fn what_does_not_exist_is_not_evicted(world: World) -> Result<()> {
    evict(&world, "a", json!(null)).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_dry_eviction_evicts_nobody(world: World) -> Result<()> {
    world.running(pod("a"), true).await?;
    evict(&world, "a", json!({"dryRun": ["All"]})).await?.made()?;
    ensure!(!is_going(&world, "a").await?, "it goes all the same");
    Ok(())
}

async fn an_eviction_can_bring_its_own_grace(world: World) -> Result<()> {
    world.running(pod("a"), true).await?;
    evict(&world, "a", json!({"gracePeriodSeconds": 600})).await?.made()?;
    let going = world.get(&at(&world, "a")).await?.fine()?;
    same(&going["metadata"]["deletionGracePeriodSeconds"], 600)
}

/// Ready pods of one application.
async fn several(world: &World, names: &[&str]) -> Result<()> {
    for name in names {
        let mut pod = pod(name);
        pod["metadata"]["labels"]["app"] = "web".into();
        world.running(pod, true).await?;
    }
    Ok(())
}

async fn a_budget_is_charged_for_an_eviction(world: World) -> Result<()> {
    several(&world, &["a", "b"]).await?;
    budget(&world, "one", json!({"minAvailable": 1, "selector": of("web")})).await?;
    let counted = counted(&world, "one", 2).await?;
    same(&counted["status"]["disruptionsAllowed"], 1)?;
    evict(&world, "a", json!(null)).await?.made()?;
    evict(&world, "b", json!(null)).await?.refused(429, "TooManyRequests")?;
    ensure!(is_going(&world, "a").await? && !is_going(&world, "b").await?, "the wrong ones go");
    Ok(())
}

async fn a_budget_that_is_used_up_says_what_it_needs(world: World) -> Result<()> {
    several(&world, &["a"]).await?;
    budget(&world, "one", json!({"minAvailable": 1, "selector": of("web")})).await?;
    counted(&world, "one", 1).await?;
    let status = evict(&world, "a", json!(null)).await?.refused(429, "TooManyRequests")?;
    let cause = &status["details"]["causes"][0];
    same(&cause["message"], "The disruption budget one needs 1 healthy pods and has 1 currently")?;
    ensure!(!text(&cause["reason"]).is_empty(), "{status}");
    Ok(())
}

async fn an_unhealthy_pod_is_free_of_charge_when_enough_are_healthy(world: World) -> Result<()> {
    several(&world, &["a"]).await?;
    let mut sick = pod("sick");
    sick["metadata"]["labels"]["app"] = "web".into();
    world.running(sick, false).await?;
    budget(&world, "one", json!({"minAvailable": 1, "selector": of("web")})).await?;
    counted(&world, "one", 1).await?;
    evict(&world, "sick", json!(null)).await?.made()?;
    evict(&world, "a", json!(null)).await?.refused(429, "TooManyRequests")?;
    Ok(())
}
