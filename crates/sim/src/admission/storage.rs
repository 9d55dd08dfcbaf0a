//! Volume claims and volumes on their way in.

use serde_json::{Value, json};

use super::{limits, list_of};
use crate::apiserver::Store;
use crate::fields::{annotation, at_cluster, created, name, quantity};
use crate::kinds::Kind;

const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub(super) fn protect_volume(volume: &mut Value) {
    protect(volume, "kubernetes.io/pv-protection");
}

pub(super) fn admit_claim(claim: &mut Value, store: &Store) -> Result<(), String> {
    // An empty class is a choice: no class at all.
    if claim["spec"]["storageClassName"].is_null()
        && let Some(class) = default_class(store)
    {
        claim["spec"]["storageClassName"] = json!(class);
    }
    protect(claim, "kubernetes.io/pvc-protection");
    limits::check_claim(claim, store)
}

/// A claim may grow within its limits, if its class lets it.
pub(super) fn admit_change(claim: &Value, old: &Value, store: &Store) -> Result<(), String> {
    if !claim["metadata"]["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let size = |claim: &Value| quantity(&claim["spec"]["resources"]["requests"]["storage"]);
    if size(claim) > size(old) && old["status"]["phase"] == "Bound" {
        let class = claim["spec"]["storageClassName"].as_str().unwrap_or_default();
        let class = store.get(Kind::StorageClass, &at_cluster(class));
        if class.is_none_or(|class| class["allowVolumeExpansion"] != true) {
            let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
            return Err(why.to_owned());
        }
    }
    limits::check_claim(claim, store)
}

/// The newest of those that are marked, then the first by name.
fn default_class(store: &Store) -> Option<&str> {
    let is_default = |class: &Value| DEFAULT_CLASS.iter().any(|key| annotation(class, key) == Some("true"));
    let marked = store.list(Kind::StorageClass).filter(|class| is_default(class));
    let first = marked.min_by(|a, b| created(b).cmp(&created(a)).then_with(|| name(a).cmp(name(b))));
    first.map(|class| name(class))
}

fn protect(object: &mut Value, finalizer: &str) {
    let finalizers = list_of(&mut object["metadata"]["finalizers"]);
    if !finalizers.iter().any(|present| present == finalizer) {
        finalizers.push(json!(finalizer));
    }
}
