//! `dovetail crds`: the definitions on paper, or in a cluster.
//!
//! Applying looks at every definition before it changes the first one. A cluster that still stores an older version
//! would lose those objects' meaning, so it is left alone and told how to get out of that state.

use anyhow::Context;
use api::crd::{self, Crd, CrdSet};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use runtime::connect::{ClusterChoice, Connection, connect};
use runtime::patch::merge_patch;
use serde_json::json;

use crate::args::{Crds, Provider};
use crate::output::print;

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

async fn apply(definitions: &[Crd], choice: &ClusterChoice) -> anyhow::Result<()> {
    let Connection { client, address } = connect(choice).await?;
    let api: Api<CustomResourceDefinition> = Api::all(client);
    let mut present = Vec::new();
    for definition in definitions {
        let existing = api.get_opt(definition.name()).await.map_err(plain).with_context(|| {
            format!(
                "cannot read {} from the cluster at {address}; check that it is up and that you may read it",
                definition.name()
            )
        })?;
        present.push(existing);
    }
    let obstacles = definitions.iter().zip(&present);
    let obstacles: Vec<String> = obstacles.filter_map(|(ours, theirs)| ours.obstacle_over(theirs.as_ref()?)).collect();
    anyhow::ensure!(obstacles.is_empty(), "{}; nothing was changed", obstacles.join("; "));
    for (definition, existing) in definitions.iter().zip(present) {
        let done = match existing {
            None => create(&api, definition).await,
            Some(existing) => update(&api, definition, existing).await,
        };
        let done = done.with_context(|| {
            format!(
                "cannot write {} to the cluster at {address}; those named above are done, and the same command goes on where \
                 it stopped (it needs to get, create and patch customresourcedefinitions)",
                definition.name()
            )
        })?;
        print(&format!("{} {done}\n", definition.name()))?;
    }
    Ok(())
}

/// The API server's own sentence instead of the client's dump of the whole answer.
fn plain(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!("{}", status.message),
        other => other.into(),
    }
}

async fn create(api: &Api<CustomResourceDefinition>, definition: &Crd) -> anyhow::Result<&'static str> {
    api.create(&PostParams::default(), &typed(definition)?).await.map_err(plain)?;
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
    let mut wanted = typed(definition)?;
    // The server fills this in; saying it ourselves also switches off a conversion webhook of an older release.
    wanted.spec.conversion = Some(CustomResourceConversion { strategy: "None".to_owned(), webhook: None });
    let wanted = serde_json::to_value(&wanted.spec)?;
    for _ in 0..MOST_CONFLICTS {
        let Some(change) = merge_patch(&serde_json::to_value(&existing.spec)?, &wanted) else {
            return Ok("unchanged");
        };
        let patch = json!({"metadata": {"resourceVersion": existing.resource_version()}, "spec": change});
        match api.patch(definition.name(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                existing = api.get(definition.name()).await.map_err(plain)?
            }
            other => return other.map(|_| "updated").map_err(plain),
        }
    }
    anyhow::bail!("somebody else keeps changing it; end the other writer and run this again")
}

fn typed(definition: &Crd) -> anyhow::Result<CustomResourceDefinition> {
    serde_json::from_value(definition.to_value().clone()).context("our own definition is malformed")
}
