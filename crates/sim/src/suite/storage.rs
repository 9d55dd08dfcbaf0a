//! Classes and claims: what is settled at their birth.

use anyhow::Result;
use serde_json::{Value, json};

use super::world::{World, same};

super::promises![
    a_default_that_is_left_out_of_a_change_is_filled_in_again,
    what_a_storage_class_is_made_with_stays,
    a_priority_class_keeps_its_value,
    an_attachment_is_never_changed,
    a_claim_that_is_not_bound_is_fixed,
    a_claim_gets_its_volume_once,
];

async fn class(world: &World) -> Result<(String, Value)> {
    let name = format!("{}-class", world.ns);
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "nobody.example.com", "parameters": {"kind": "fast"}});
    let made = world.post("/apis/storage.k8s.io/v1/storageclasses", &class).await?.made()?;
    Ok((format!("/apis/storage.k8s.io/v1/storageclasses/{name}"), made))
}

async fn a_default_that_is_left_out_of_a_change_is_filled_in_again(world: World) -> Result<()> {
    let (path, made) = class(&world).await?;
    let mut bare = made.clone();
    bare["metadata"]["labels"] = json!({"changed": "yes"});
    for member in ["reclaimPolicy", "volumeBindingMode"] {
        bare[member] = Value::Null;
    }
    let changed = world.put(&path, &bare).await?.fine()?;
    same(&changed["metadata"]["labels"]["changed"], "yes")?;
    same(&changed["reclaimPolicy"], "Delete")?;
    same(&changed["volumeBindingMode"], "Immediate")
}

async fn what_a_storage_class_is_made_with_stays(world: World) -> Result<()> {
    let (path, _) = class(&world).await?;
    for (field, change) in [
        ("provisioner", json!("other.example.com")),
        ("parameters", json!({"kind": "slow"})),
        ("reclaimPolicy", json!("Retain")),
        ("volumeBindingMode", json!("WaitForFirstConsumer")),
    ] {
        world.patch(&path, &json!({field: change})).await?.invalid(field, "FieldValueInvalid")?;
    }
    let grows = world.patch(&path, &json!({"allowVolumeExpansion": true})).await?.fine()?;
    same(&grows["allowVolumeExpansion"], true)
}

async fn a_priority_class_keeps_its_value(world: World) -> Result<()> {
    let name = format!("{}-class", world.ns);
    let class =
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 7});
    world.post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await?.made()?;
    let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}");
    world.patch(&path, &json!({"value": 8})).await?.invalid("value", "FieldValueForbidden")?;
    world
        .patch(&path, &json!({"preemptionPolicy": "Never"}))
        .await?
        .invalid("preemptionPolicy", "FieldValueInvalid")?;
    let told = world.patch(&path, &json!({"description": "seven"})).await?.fine()?;
    same(&told["value"], 7)
}

async fn an_attachment_is_never_changed(world: World) -> Result<()> {
    let name = format!("{}-attachment", world.ns);
    let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
        "spec": {"attacher": "nobody.example.com", "nodeName": world.nowhere(), "source": {"persistentVolumeName": "v"}}});
    world.post("/apis/storage.k8s.io/v1/volumeattachments", &attachment).await?.made()?;
    let path = format!("/apis/storage.k8s.io/v1/volumeattachments/{name}");
    world.patch(&path, &json!({"spec": {"nodeName": "other"}})).await?.invalid("spec", "FieldValueInvalid")?;
    world.delete(&path, &json!(null)).await?.fine()?;
    Ok(())
}

/// A claim that no volume will ever be made for.
async fn claim(world: &World) -> Result<String> {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": {
        "storageClassName": "nobodys", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    world.post(&world.path("persistentvolumeclaims"), &claim).await?.made()?;
    Ok(format!("{}/a", world.path("persistentvolumeclaims")))
}

async fn a_claim_that_is_not_bound_is_fixed(world: World) -> Result<()> {
    let path = claim(&world).await?;
    for change in [
        json!({"resources": {"requests": {"storage": "2Gi"}}}),
        json!({"storageClassName": "other"}),
        json!({"accessModes": ["ReadWriteMany"]}),
    ] {
        world.patch(&path, &json!({"spec": change})).await?.invalid("spec", "FieldValueForbidden")?;
    }
    Ok(())
}

async fn a_claim_gets_its_volume_once(world: World) -> Result<()> {
    let path = claim(&world).await?;
    let bound = world.patch(&path, &json!({"spec": {"volumeName": "v"}})).await?.fine()?;
    same(&bound["spec"]["volumeName"], "v")?;
    world.patch(&path, &json!({"spec": {"volumeName": "w"}})).await?.invalid("spec", "FieldValueForbidden")?;
    Ok(())
}
