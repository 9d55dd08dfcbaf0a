//! Pods: birth, binding, what may change, and how they go.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::world::{World, pod, same, text};

super::promises![
    a_pod_is_born_pending,
    a_pod_has_a_class_of_quality,
    a_pod_gets_the_defaults_of_its_type,
    a_pod_needs_a_container_with_an_image,
    two_containers_need_two_names,
    an_unbound_pod_goes_at_once,
    a_bound_pod_is_given_its_grace,
    a_second_deletion_can_only_hurry_a_pod,
    a_pod_that_is_over_goes_at_once,
    a_pod_whose_grace_is_over_waits_for_its_finalizers,
    a_binding_sets_the_node_and_says_so,
    a_pod_is_bound_once,
    a_pod_behind_a_gate_is_not_bound,
    a_pod_that_is_going_is_not_bound,
    a_binding_needs_a_node_and_a_pod,
    a_binding_for_another_uid_conflicts,
    the_spec_of_a_pod_is_fixed,
    the_image_of_a_container_may_change,
    tolerations_are_only_added,
    a_change_that_leaves_out_what_admission_filled_in_keeps_it,
    gates_are_only_taken_away,
    a_pod_counts_its_generations,
    writes_of_status_and_of_the_rest_do_not_mix,
    a_node_keeps_the_status_that_it_is_born_with,
];

fn at(world: &World, name: &str) -> String {
    format!("{}/{name}", world.path("pods"))
}

async fn make(world: &World, pod: &Value) -> Result<Value> {
    world.post(&world.path("pods"), pod).await?.made()
}

async fn bind(world: &World, name: &str, node: &str) -> Result<super::world::Answer> {
    let body = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    world.post(&format!("{}/binding", at(world, name)), &body).await
}

fn bound(world: &World, name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = world.nowhere().into();
    pod
}

async fn a_pod_is_born_pending(world: World) -> Result<()> {
    let mut early = pod("a");
    early["status"] = json!({"phase": "Running", "podIP": "10.0.0.1"});
    let made = make(&world, &early).await?;
    same(&made["status"]["phase"], "Pending")?;
    ensure!(made["status"]["podIP"].is_null(), "{made}");
    Ok(())
}

async fn a_pod_has_a_class_of_quality(world: World) -> Result<()> {
    let full = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    let some = json!({"requests": {"cpu": "1"}});
    for (name, resources, expected) in
        [("a", json!({}), "BestEffort"), ("b", some, "Burstable"), ("c", full, "Guaranteed")]
    {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["resources"] = resources;
        same(&make(&world, &pod).await?["status"]["qosClass"], expected)?;
    }
    Ok(())
}

async fn a_pod_gets_the_defaults_of_its_type(world: World) -> Result<()> {
    let mut plain = pod("a");
    plain["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    let spec = make(&world, &plain).await?["spec"].clone();
    same(&spec["restartPolicy"], "Always")?;
    same(&spec["dnsPolicy"], "ClusterFirst")?;
    same(&spec["terminationGracePeriodSeconds"], 30)?;
    same(&spec["containers"][0]["imagePullPolicy"], "IfNotPresent")?;
    same(&spec["containers"][0]["resources"]["requests"], json!({"cpu": "1"}))
}

async fn a_pod_needs_a_container_with_an_image(world: World) -> Result<()> {
    let mut empty = pod("a");
    empty["spec"]["containers"] = json!([]);
    world.post(&world.path("pods"), &empty).await?.invalid("spec.containers", "FieldValueRequired")?;
    let mut bare = pod("a");
    bare["spec"]["containers"] = json!([{"name": "main"}]);
    world.post(&world.path("pods"), &bare).await?.invalid("spec.containers[0].image", "FieldValueRequired")?;
    Ok(())
}

async fn two_containers_need_two_names(world: World) -> Result<()> {
    let mut twins = pod("a");
    twins["spec"]["containers"] = json!([{"name": "main", "image": "x"}, {"name": "main", "image": "y"}]);
    world.post(&world.path("pods"), &twins).await?.invalid("spec.containers[1].name", "FieldValueDuplicate")?;
    Ok(())
}

async fn an_unbound_pod_goes_at_once(world: World) -> Result<()> {
    make(&world, &pod("a")).await?;
    world.delete(&at(&world, "a"), &json!(null)).await?.fine()?;
    world.get(&at(&world, "a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_bound_pod_is_given_its_grace(world: World) -> Result<()> {
    let mut slow = bound(&world, "a");
    slow["spec"]["terminationGracePeriodSeconds"] = 600.into();
    make(&world, &slow).await?;
    let marked = world.delete(&at(&world, "a"), &json!(null)).await?.fine()?;
    same(&marked["metadata"]["deletionGracePeriodSeconds"], 600)?;
    ensure!(!text(&marked["metadata"]["deletionTimestamp"]).is_empty(), "{marked}");
    world.get(&at(&world, "a")).await?.fine()?;
    world.delete(&at(&world, "a"), &json!({"gracePeriodSeconds": 0})).await?.fine()?;
    world.get(&at(&world, "a")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_second_deletion_can_only_hurry_a_pod(world: World) -> Result<()> {
    make(&world, &bound(&world, "a")).await?;
    let path = at(&world, "a");
    let first = world.delete(&path, &json!({"gracePeriodSeconds": 300})).await?.fine()?;
    let longer = world.delete(&path, &json!({"gracePeriodSeconds": 900})).await?.fine()?;
    same(&longer["metadata"]["deletionTimestamp"], first["metadata"]["deletionTimestamp"].clone())?;
    let again = world.delete(&path, &json!(null)).await?.fine()?;
    same(&again["metadata"]["deletionGracePeriodSeconds"], 300)?;
    let shorter = world.delete(&path, &json!({"gracePeriodSeconds": 100})).await?.fine()?;
    same(&shorter["metadata"]["deletionGracePeriodSeconds"], 100)?;
    ensure!(
        text(&shorter["metadata"]["deletionTimestamp"]) < text(&first["metadata"]["deletionTimestamp"]),
        "{shorter}"
    );
    world.delete(&path, &json!({"gracePeriodSeconds": 0})).await?.fine()?;
    Ok(())
}

async fn a_pod_that_is_over_goes_at_once(world: World) -> Result<()> {
    for phase in ["Succeeded", "Failed"] {
        let name = phase.to_lowercase();
        make(&world, &bound(&world, &name)).await?;
        let path = at(&world, &name);
        world.patch(&format!("{path}/status"), &json!({"status": {"phase": phase}})).await?.fine()?;
        world.delete(&path, &json!(null)).await?.fine()?;
        world.get(&path).await?.refused(404, "NotFound")?;
    }
    Ok(())
}

async fn a_pod_whose_grace_is_over_waits_for_its_finalizers(world: World) -> Result<()> {
    let mut held = bound(&world, "a");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    make(&world, &held).await?;
    let path = at(&world, "a");
    let marked = world.delete(&path, &json!({"gracePeriodSeconds": 0})).await?.fine()?;
    same(&marked["metadata"]["deletionGracePeriodSeconds"], 0)?;
    world.get(&path).await?.fine()?;
    world.patch(&path, &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    world.get(&path).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_binding_sets_the_node_and_says_so(world: World) -> Result<()> {
    make(&world, &pod("a")).await?;
    let status = bind(&world, "a", &world.nowhere()).await?.made()?;
    same(&status["status"], "Success")?;
    let bound = world.get(&at(&world, "a")).await?.fine()?;
    same(&bound["spec"]["nodeName"], world.nowhere())?;
    let condition = &bound["status"]["conditions"][0];
    ensure!(condition["type"] == "PodScheduled" && condition["status"] == "True", "{bound}");
    Ok(())
}

async fn a_pod_is_bound_once(world: World) -> Result<()> {
    make(&world, &pod("a")).await?;
    bind(&world, "a", &world.nowhere()).await?.made()?;
    let status = bind(&world, "a", "elsewhere").await?.refused(409, "Conflict")?;
    let node = world.nowhere();
    let expected =
        format!("Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"{node}\"");
    same(&status["message"], expected)
}

async fn a_pod_behind_a_gate_is_not_bound(world: World) -> Result<()> {
    let mut gated = pod("a");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/x"}]);
    let made = make(&world, &gated).await?;
    let condition = &made["status"]["conditions"][0];
    ensure!(condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated", "{made}");
    let status = bind(&world, "a", &world.nowhere()).await?.refused(409, "Conflict")?;
    ensure!(text(&status["message"]).contains("has non-empty .spec.schedulingGates"), "{status}");
    Ok(())
}

async fn a_pod_that_is_going_is_not_bound(world: World) -> Result<()> {
    let mut held = pod("a");
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    make(&world, &held).await?;
    world.delete(&at(&world, "a"), &json!(null)).await?.fine()?;
    let status = bind(&world, "a", &world.nowhere()).await?.refused(409, "Conflict")?;
    ensure!(text(&status["message"]).contains("is being deleted, cannot be assigned to a host"), "{status}");
    world.patch(&at(&world, "a"), &json!({"metadata": {"finalizers": null}})).await?.fine()?;
    Ok(())
}

async fn a_binding_needs_a_node_and_a_pod(world: World) -> Result<()> {
    bind(&world, "a", &world.nowhere()).await?.refused(404, "NotFound")?;
    make(&world, &pod("a")).await?;
    let status = bind(&world, "a", "").await?.refused(500, "")?;
    same(&status["message"], "target.name: Required value")?;
    Ok(())
}

async fn a_binding_for_another_uid_conflicts(world: World) -> Result<()> {
    make(&world, &pod("a")).await?;
    let body = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a", "uid": "2c2f5c3f-5a3e-4a7f-8a51-6e0a8e5d9d4c"},
        "target": {"kind": "Node", "name": world.nowhere()},
    });
    world.post(&format!("{}/binding", at(&world, "a")), &body).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn the_spec_of_a_pod_is_fixed(world: World) -> Result<()> {
    make(&world, &pod("a")).await?;
    for patch in [
        json!({"spec": {"nodeName": world.nowhere()}}),
        json!({"spec": {"containers": [{"name": "main", "image": "none:1", "resources": {"requests": {"cpu": "1"}}}]}}),
        json!({"spec": {"terminationGracePeriodSeconds": 5}}),
        json!({"spec": {"nodeSelector": {"a": "b"}}}),
    ] {
        let status = world.patch(&at(&world, "a"), &patch).await?.invalid("spec", "FieldValueForbidden")?;
        ensure!(text(&status["message"]).contains("pod updates may not change fields other than"), "{status}");
    }
    Ok(())
}

async fn the_image_of_a_container_may_change(world: World) -> Result<()> {
    let made = make(&world, &pod("a")).await?;
    let mut containers = made["spec"]["containers"].clone();
    containers[0]["image"] = "none:2".into();
    let patched = world.patch(&at(&world, "a"), &json!({"spec": {"containers": containers}})).await?.fine()?;
    same(&patched["spec"]["containers"][0]["image"], "none:2")
}

async fn tolerations_are_only_added(world: World) -> Result<()> {
    let made = make(&world, &pod("a")).await?;
    let mut all = made["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    all.push(json!({"key": "example.com/x", "operator": "Exists", "effect": "NoSchedule"}));
    let patched = world.patch(&at(&world, "a"), &json!({"spec": {"tolerations": all}})).await?.fine()?;
    ensure!(patched["spec"]["tolerations"].as_array().map(Vec::len) == Some(all.len()), "{patched}");
    all.pop();
    world.patch(&at(&world, "a"), &json!({"spec": {"tolerations": all}})).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn a_change_that_leaves_out_what_admission_filled_in_keeps_it(world: World) -> Result<()> {
    let made = make(&world, &pod("a")).await?;
    let mut bare = made.clone();
    bare["metadata"]["labels"]["changed"] = "yes".into();
    for member in ["priority", "preemptionPolicy", "tolerations"] {
        ensure!(!made["spec"][member].is_null(), "no {member}: {made}");
        bare["spec"][member] = Value::Null;
    }
    let changed = world.put(&at(&world, "a"), &bare).await?.fine()?;
    same(&changed["metadata"]["labels"]["changed"], "yes")?;
    same(&changed["spec"], made["spec"].clone())
}

async fn gates_are_only_taken_away(world: World) -> Result<()> {
    let mut gated = pod("a");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/x"}, {"name": "example.com/y"}]);
    make(&world, &gated).await?;
    let gates = |names: &[&str]| json!({"spec": {"schedulingGates": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()}});
    world.patch(&at(&world, "a"), &gates(&["example.com/y"])).await?.fine()?;
    world.patch(&at(&world, "a"), &gates(&["example.com/y", "example.com/z"])).await?.refused(422, "Invalid")?;
    world.patch(&at(&world, "a"), &json!({"spec": {"schedulingGates": null}})).await?.fine()?;
    bind(&world, "a", &world.nowhere()).await?.made()?;
    Ok(())
}

async fn a_pod_counts_its_generations(world: World) -> Result<()> {
    let made = make(&world, &pod("a")).await?;
    same(&made["metadata"]["generation"], 1)?;
    let path = at(&world, "a");
    bind(&world, "a", &world.nowhere()).await?.made()?;
    let patched = world.patch(&path, &json!({"metadata": {"labels": {"a": "b"}}})).await?.fine()?;
    same(&patched["metadata"]["generation"], 1)?;
    let patched = world.patch(&path, &json!({"spec": {"activeDeadlineSeconds": 600}})).await?.fine()?;
    same(&patched["metadata"]["generation"], 2)?;
    let marked = world.delete(&path, &json!(null)).await?.fine()?;
    same(&marked["metadata"]["generation"], 3)?;
    world.delete(&path, &json!({"gracePeriodSeconds": 0})).await?.fine()?;
    Ok(())
}

async fn writes_of_status_and_of_the_rest_do_not_mix(world: World) -> Result<()> {
    make(&world, &bound(&world, "a")).await?;
    let path = at(&world, "a");
    let patch = json!({"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}});
    let patched = world.patch(&path, &patch).await?.fine()?;
    same(&patched["status"]["phase"], "Pending")?;
    same(&patched["metadata"]["labels"]["a"], "b")?;
    let patch = json!({"status": {"phase": "Running"}, "spec": {"activeDeadlineSeconds": 5}});
    let patched = world.patch(&format!("{path}/status"), &patch).await?.fine()?;
    same(&patched["status"]["phase"], "Running")?;
    ensure!(patched["spec"]["activeDeadlineSeconds"].is_null(), "{patched}");
    Ok(())
}

async fn a_node_keeps_the_status_that_it_is_born_with(world: World) -> Result<()> {
    let name = format!("{}-node", world.ns);
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {"taints": [{"key": "example.com/x", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi"}},
    });
    let made = world.post("/api/v1/nodes", &node).await?.made()?;
    same(&made["status"]["capacity"], json!({"cpu": "4", "memory": "8Gi"}))?;
    ensure!(made["metadata"]["generation"].is_null(), "{made}");
    let path = format!("/api/v1/nodes/{name}");
    let patched = world
        .patch(&path, &json!({"status": {"capacity": {"cpu": "64"}}, "metadata": {"labels": {"a": "b"}}}))
        .await?
        .fine()?;
    same(&patched["metadata"]["labels"]["a"], "b")?;
    ensure!(patched["status"]["capacity"]["cpu"] != "64", "{patched}");
    world.delete(&path, &json!(null)).await?.fine()?;
    world.gone(&path).await
}
