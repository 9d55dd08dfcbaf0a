//! `dovetail crds`: the definitions on paper, or in a cluster.
//!
//! Applying looks at every definition before it changes the first one. A cluster that still stores an older version
//! would lose those objects' meaning, so it is left alone and told how to get out of that state.

use std::io::Write;

use anyhow::Context;
use api::crd::{self, Crd, CrdSet};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use runtime::connect::{ClusterChoice, Connection, connect};
use runtime::patch::merge_patch;
use serde_json::{Value, json};

use crate::args::{Crds, Provider};

/// How often a definition may change under our hands before we say so.
const MOST_CONFLICTS: usize = 10;

pub(crate) fn run(command: &Crds) -> anyhow::Result<()> {
    let definitions = crd::definitions(match command.provider {
        Provider::Aws => CrdSet::Aws,
        Provider::Kwok => CrdSet::Kwok,
        Provider::Core => CrdSet::Core,
    });
    if !command.apply {
        let text: String = definitions.iter().map(Crd::to_yaml).collect();
        return print(&text);
    }
    let choice = ClusterChoice { kubeconfig: command.kubeconfig.clone(), context: command.context.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(apply(&definitions, &choice))
}

/// Writes to standard output; a reader that closed early, such as `head`, is not a failure.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write the definitions")
        }
        _ => Ok(()),
    }
}

async fn apply(definitions: &[Crd], choice: &ClusterChoice) -> anyhow::Result<()> {
    let Connection { client, address } = connect(choice).await?;
    let api: Api<CustomResourceDefinition> = Api::all(client);
    let mut present = Vec::new();
    for definition in definitions {
        let existing = api.get_opt(definition.name()).await.with_context(|| {
            format!(
                "cannot read {} from the cluster at {address}; check that it is up and that you may read it",
                definition.name()
            )
        })?;
        if let Some(problem) = existing.as_ref().and_then(|existing| stored_version_problem(definition, existing)) {
            anyhow::bail!(problem);
        }
        present.push(existing);
    }
    for (definition, existing) in definitions.iter().zip(present) {
        let done = match existing {
            None => create(&api, definition).await,
            Some(existing) => update(&api, definition, existing).await,
        };
        let done = done.with_context(|| format!("cannot write {} to the cluster at {address}", definition.name()))?;
        print(&format!("{} {done}\n", definition.name()))?;
    }
    Ok(())
}

async fn create(api: &Api<CustomResourceDefinition>, definition: &Crd) -> anyhow::Result<&'static str> {
    let object = serde_json::from_value(definition.to_value().clone())?;
    api.create(&PostParams::default(), &object).await?;
    Ok("created")
}

/// Makes the spec ours and leaves labels, annotations and status to their owners.
///
/// The API server itself writes to a definition's status, so a conflict is no reason to give up: look again and compare
/// again.
async fn update(
    api: &Api<CustomResourceDefinition>,
    definition: &Crd,
    mut existing: CustomResourceDefinition,
) -> anyhow::Result<&'static str> {
    for _ in 0..MOST_CONFLICTS {
        let Some(change) = merge_patch(&comparable(serde_json::to_value(&existing.spec)?), &wanted_spec(definition))
        else {
            return Ok("unchanged");
        };
        let patch = json!({"metadata": {"resourceVersion": existing.resource_version()}, "spec": change});
        match api.patch(definition.name(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => existing = api.get(definition.name()).await?,
            other => return other.map(|_| "updated").map_err(Into::into),
        }
    }
    anyhow::bail!("somebody else keeps changing it; end the other writer and run this again")
}

fn wanted_spec(definition: &Crd) -> Value {
    let mut spec = definition.to_value()["spec"].clone();
    // The server fills this in; saying it ourselves also switches off a conversion webhook of an older release.
    spec["conversion"] = json!({"strategy": "None"});
    comparable(spec)
}

/// Numbers in one spelling: the client reads a bound of 1 as 1.0.
fn comparable(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, comparable(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(comparable).collect(),
        #[expect(clippy::cast_possible_truncation, reason = "bounds of fields are small whole numbers")]
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 => json!(float as i64),
            _ => Value::Number(number),
        },
        other => other,
    }
}

/// Objects that were last written in a version that we do not serve cannot be read through our definition, and the API
/// server refuses it. Says which and how to get rid of them.
fn stored_version_problem(definition: &Crd, existing: &CustomResourceDefinition) -> Option<String> {
    let stored = existing.status.as_ref()?.stored_versions.as_ref()?;
    let served = definition.versions();
    let stale: Vec<&str> = stored.iter().map(String::as_str).filter(|version| !served.contains(version)).collect();
    if stale.is_empty() {
        return None;
    }
    let (name, kept, stale) = (definition.name(), served.join("\",\""), stale.join(", "));
    Some(format!(
        "{name} still holds objects stored as {stale}, which only the release that wrote them can convert; while that \
         release runs, store each object again (kubectl get {name} -o name | xargs -I{{}} kubectl label {{}} dovetail.dev/stored-again=true), \
         then say that none is left (kubectl patch crd {name} --subresource=status --type=merge \
         -p '{{\"status\":{{\"storedVersions\":[\"{kept}\"]}}}}') and run this again; nothing was changed"
    ))
}
