//! How claims and Nodes are changed: merge patches of what differs, and what comes of them is told to the store at once.
//!
//! A patch that touches a list replaces all of it, so it goes only to the version that the list was read from; so does the
//! deadline of a drain, which others may write too. Labels and annotations are changed one by one and need no such care.

use api::NodeClaim;
use api::labels::annotations::TERMINATION_TIMESTAMP;
use cluster::Object;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Status;
use kube::{Resource, ResourceExt};
use runtime::patch::merge_patch;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};

/// Writes what of a claim differs: first metadata, then status. Gives back the claim as it is then.
pub(crate) async fn claim(ctx: &Ctx, before: &NodeClaim, after: &NodeClaim) -> Result<NodeClaim, ControllerError> {
    if before == after {
        return Ok(before.clone());
    }
    let api: Api<NodeClaim> = Api::all(ctx.client.clone());
    let name = before.name_any();
    let ClaimPatches { metadata, status } = ClaimPatches::between(before, after)?;
    let mut current = None;
    if let Some(patch) = metadata {
        let answer = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        let answered = answer.doing(format!("patching nodeclaim {name}"))?;
        tell(ctx, answered.clone());
        if answered.status != before.status {
            // Somebody wrote the status meanwhile; ours was made from an older one.
            return Err(conflict(&name));
        }
        current = Some(answered);
    }
    if let Some(mut patch) = status {
        lock(&mut patch, current.as_ref().unwrap_or(before));
        let answer = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        catch_up(ctx, &api, &name, &answer).await?;
        let answered = answer.doing(format!("patching the status of nodeclaim {name}"))?;
        tell(ctx, answered.clone());
        current = Some(answered);
    }
    Ok(current.unwrap_or_else(|| before.clone()))
}

/// What of a claim differs. Thousands of writes may wait for their turn at the same time, so nothing else waits with them: a claim as a
/// JSON document takes four times what it takes otherwise.
struct ClaimPatches {
    metadata: Option<Value>,
    status: Option<Value>,
}

impl ClaimPatches {
    /// A claim may name hundreds of instance types, and its spec never changes: it is left out wherever it is the same.
    fn between(before: &NodeClaim, after: &NodeClaim) -> Result<Self, ControllerError> {
        let (old, new) = (json!({"status": status_of(before)?}), json!({"status": status_of(after)?}));
        let metadata = if before.spec != after.spec {
            metadata_patch(before, document(before)?, document(after)?)
        } else if before.metadata != after.metadata {
            let document = |claim: &NodeClaim| Ok(json!({"metadata": document(&claim.metadata)?}));
            metadata_patch(before, document(before)?, document(after)?)
        } else {
            None
        };
        Ok(Self { metadata, status: merge_patch(&old, &new) })
    }
}

fn status_of(claim: &NodeClaim) -> Result<Value, ControllerError> {
    claim.status.as_ref().map_or_else(|| Ok(json!({})), document)
}

/// Writes what of a Node's metadata and spec differs. Gives back the Node as it is then.
pub(crate) async fn node(ctx: &Ctx, before: &Node, after: &Node) -> Result<Node, ControllerError> {
    if before == after {
        return Ok(before.clone());
    }
    let name = before.name_any();
    let Some(patch) = metadata_patch(before, document(before)?, document(after)?) else { return Ok(before.clone()) };
    let api: Api<Node> = Api::all(ctx.client.clone());
    let answer = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
    catch_up(ctx, &api, &name, &answer).await?;
    let node = answer.doing(format!("patching node {name}"))?;
    tell(ctx, node.clone());
    Ok(node)
}

/// Writes what of a status differs from the one that was read, if anything does, and tells the store.
pub(crate) async fn status<K, S>(
    ctx: &Ctx,
    api: &Api<K>,
    read: &K,
    statuses: Statuses<'_, S>,
) -> Result<(), ControllerError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Into<Object>,
    S: Serialize,
{
    let (name, kind) = (read.name_any(), K::kind(&()).to_lowercase());
    let before = statuses.before.map_or_else(|| Ok(json!({})), document)?;
    let Some(change) = merge_patch(&before, &document(statuses.after)?) else { return Ok(()) };
    // Conditions are a list that is replaced as a whole, so nobody may have written to it since.
    let mut patch = json!({"status": change});
    lock(&mut patch, read);
    let answer = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
    catch_up(ctx, api, &name, &answer).await?;
    tell(ctx, answer.doing(format!("writing the status of {kind} {name}"))?);
    Ok(())
}

/// A status as it was read, and as it shall be.
pub(crate) struct Statuses<'a, S> {
    pub(crate) before: Option<&'a S>,
    pub(crate) after: &'a S,
}

/// Asks for the end of a claim or a Node, and of no other that may bear its name by now. One that is gone is fine.
pub(crate) async fn delete<K>(ctx: &Ctx, object: &K) -> Result<(), ControllerError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Into<Object>,
{
    let name = object.name_any();
    let api: Api<K> = Api::all(ctx.client.clone());
    let preconditions = Preconditions { uid: object.uid(), ..Preconditions::default() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let kind = K::kind(&()).to_lowercase();
    match api.delete(&name, &params).await {
        Ok(answer) => {
            if let Some(object) = answer.left() {
                tell(ctx, object);
            }
            Ok(())
        }
        // Another one bears the name, which the store will learn; or nobody does.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error).doing(format!("deleting {kind} {name}")),
    }
}

/// Somebody has written since we read. The watch will show it some time; whoever wants to try again at once needs it now.
async fn catch_up<K>(ctx: &Ctx, api: &Api<K>, name: &str, answer: &kube::Result<K>) -> Result<(), ControllerError>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Into<Object>,
{
    if !matches!(answer, Err(kube::Error::Api(status)) if status.code == 409) {
        return Ok(());
    }
    if let Some(found) = api.get_opt(name).await.doing(format!("reading {name} again"))? {
        tell(ctx, found);
    }
    Ok(())
}

/// What the API server answered is a fact like any other. An object whose last finalizer is gone is gone itself.
fn tell(ctx: &Ctx, object: impl Into<Object>) {
    let object = object.into();
    let metadata = object.metadata();
    let is_held = metadata.finalizers.as_ref().is_some_and(|names| !names.is_empty());
    if metadata.deletion_timestamp.is_some() && !is_held {
        let gone = object.gone();
        ctx.tell(|store, now| store.delete(&gone, now));
    } else {
        ctx.tell(|store, now| store.apply(object, now));
    }
}

fn metadata_patch<K: Resource<DynamicType = ()>>(read: &K, mut old: Value, mut new: Value) -> Option<Value> {
    for document in [&mut old, &mut new] {
        document.as_object_mut()?.remove("status");
    }
    let mut patch = merge_patch(&old, &new)?;
    let touches = |pointer: &str| patch.pointer(pointer).is_some();
    let lists = ["/metadata/finalizers", "/metadata/ownerReferences", "/spec/taints"];
    let deadline = format!("/metadata/annotations/{}", TERMINATION_TIMESTAMP.replace('/', "~1"));
    if lists.into_iter().chain([deadline.as_str()]).any(touches) {
        lock(&mut patch, read);
    }
    Some(patch)
}

fn lock(patch: &mut Value, read: &impl Resource<DynamicType = ()>) {
    patch["metadata"]["resourceVersion"] = read.resource_version().into();
}

fn document(object: &impl Serialize) -> Result<Value, ControllerError> {
    serde_json::to_value(object).map_err(|error| ControllerError::Invariant {
        doing: "writing an object as JSON".to_owned(),
        fault: error.to_string(),
    })
}

fn conflict(name: &str) -> ControllerError {
    let status = Status::failure("the status changed while metadata was written", "Conflict").with_code(409);
    ControllerError::Kube { doing: format!("patching nodeclaim {name}"), source: kube::Error::Api(status.boxed()) }
}
