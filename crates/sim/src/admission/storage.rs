//! Volume claims and volumes on their way in.

use serde_json::{Value, json};

use super::{limits, list_of};
use crate::apiserver::Store;
use crate::fields::{annotation, created, name};
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
