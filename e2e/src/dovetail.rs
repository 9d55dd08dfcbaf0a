//! Our own binary, run as users run it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::Cluster;

/// The binary `dovetail` that was built beside the tests.
pub struct Dovetail;

impl Dovetail {
    /// Runs a command and returns what it printed; a failure is what it said on standard error.
    pub fn run(arguments: &[&str]) -> Result<String> {
        let binary = binary()?;
        let output = Command::new(&binary)
            .args(arguments)
            // Clusters of tests are on loopback, which no proxy of the user's can reach.
            .env_remove("HTTPS_PROXY")
            .env_remove("https_proxy")
            .output()
            .with_context(|| format!("running {}", binary.display()))?;
        if !output.status.success() {
            bail!(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        String::from_utf8(output.stdout).context("reading what dovetail printed")
    }

    /// Brings a provider's definitions into a cluster.
    pub fn apply_crds(cluster: &Cluster, provider: &str) -> Result<String> {
        let kubeconfig = cluster.kubeconfig().to_str().context("the kubeconfig's path is no text")?;
        Self::run(&["crds", "--provider", provider, "--apply", "--kubeconfig", kubeconfig])
    }
}

/// The one that the environment names, or the one beside us: cargo puts programs into one folder, and tests into `deps` below it.
pub(crate) fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("DOVETAIL_BINARY") {
        return Ok(path.into());
    }
    let this = std::env::current_exe().context("finding the running program")?;
    let folders = this.ancestors().skip(1).take(2).map(|folder| folder.join("dovetail"));
    let candidates: Vec<PathBuf> = folders.collect();
    let found = candidates.iter().find(|path| path.is_file()).cloned();
    found.with_context(|| format!("{} does not exist; run `make e2e`, which builds it", candidates[0].display()))
}
