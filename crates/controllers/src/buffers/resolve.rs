//! What a buffer refers to.

use api::CapacityBuffer;
use api::capacitybuffer::ScalableRef;
use cluster::lower::buffer::Source;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource};
use model::ids::PodName;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::error::{ControllerError, Doing};

/// The pods that a buffer is for.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) template: PodTemplateSpec,
    pub(super) source: Source,
    pub(super) generation: Option<i64>,
}

/// Why nobody knows which pods those are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unresolved {
    NoPodTemplate(String),
    NoScalable {
        kind: String,
        name: String,
    },
    /// The buffer asks for what nobody can do; the text says what would help.
    Unusable(String),
}

/// What is not there is an answer; an API server that gives none is an error.
pub(super) async fn resolve(
    ctx: &Ctx,
    name: &PodName,
    buffer: &CapacityBuffer,
) -> Result<Result<Found, Unresolved>, ControllerError> {
    match (&buffer.spec.pod_template_ref, &buffer.spec.scalable_ref) {
        (Some(named), _) => {
            let Some(found) = get::<PodTemplate>(ctx, name, &named.name).await? else {
                return Ok(Err(Unresolved::NoPodTemplate(named.name.clone())));
            };
            let template = found.template.unwrap_or_default();
            let generation = found.metadata.generation;
            Ok(Ok(Found { template, source: Source::PodTemplate, generation }))
        }
        (None, Some(named)) => scalable(ctx, name, named).await,
        (None, None) => Ok(Err(Unresolved::Unusable(
            "the buffer does not say what its pods are like; set spec.podTemplateRef or spec.scalableRef".to_owned(),
        ))),
    }
}

async fn scalable(
    ctx: &Ctx,
    name: &PodName,
    named: &ScalableRef,
) -> Result<Result<Found, Unresolved>, ControllerError> {
    let group = named.api_group.as_deref().filter(|group| !group.is_empty()).unwrap_or("apps");
    if group != "apps" {
        return Ok(Err(Unresolved::Unusable(format!("spec.scalableRef.apiGroup is {group:?}; use apps"))));
    }
    let workload = |metadata: ObjectMeta, template: PodTemplateSpec, replicas: Option<i32>| Found {
        template,
        source: Source::Workload { replicas },
        generation: metadata.generation,
    };
    let found = match named.kind.as_str() {
        "Deployment" => get::<Deployment>(ctx, name, &named.name).await?.map(|found| {
            let spec = found.spec.unwrap_or_default();
            workload(found.metadata, spec.template, spec.replicas)
        }),
        "StatefulSet" => get::<StatefulSet>(ctx, name, &named.name).await?.map(|found| {
            let spec = found.spec.unwrap_or_default();
            workload(found.metadata, spec.template, spec.replicas)
        }),
        "ReplicaSet" => get::<ReplicaSet>(ctx, name, &named.name).await?.map(|found| {
            let spec = found.spec.unwrap_or_default();
            workload(found.metadata, spec.template.unwrap_or_default(), spec.replicas)
        }),
        kind => {
            let text = format!("spec.scalableRef.kind is {kind:?}; use Deployment, StatefulSet or ReplicaSet");
            return Ok(Err(Unresolved::Unusable(text)));
        }
    };
    let missing = || Unresolved::NoScalable { kind: named.kind.clone(), name: named.name.clone() };
    Ok(found.ok_or_else(missing))
}

/// An object of the buffer's namespace.
async fn get<K>(ctx: &Ctx, buffer: &PodName, name: &str) -> Result<Option<K>, ControllerError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(ctx.client.clone(), buffer.namespace.as_str());
    let kind = K::kind(&()).to_lowercase();
    api.get_opt(name).await.doing(format!("reading {kind} {name} for capacitybuffer {buffer}"))
}
