//! The user that our controller is in a cluster: `deploy/rbac.yaml`, and nothing beyond it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::Cluster;

/// The namespace of the account, of the Lease and of what the simulated cloud remembers.
pub const NAMESPACE: &str = "kube-system";
const ACCOUNT: &str = "dovetail";
/// Longer than any test.
const TOKEN_LIFE: &str = "--duration=6h";

/// Creates the account with its roles, and writes a kubeconfig for it into the cluster's directory.
pub fn controller_kubeconfig(cluster: &Cluster) -> Result<PathBuf> {
    let rbac = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/rbac.yaml");
    let rbac = std::fs::read_to_string(&rbac).with_context(|| format!("reading {}", rbac.display()))?;
    cluster.apply(&rbac)?;
    let token = cluster.succeed(&["create", "token", ACCOUNT, "--namespace", NAMESPACE, TOKEN_LIFE])?;
    let path = cluster.dir().join("controller.kubeconfig");
    let text = with_token(&std::fs::read_to_string(cluster.kubeconfig())?, token.trim())?;
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// The administrator's kubeconfig with another way to prove who one is, and the account's own namespace.
fn with_token(admin: &str, token: &str) -> Result<String> {
    let mut config: serde_json::Value =
        serde_saphyr::from_str(admin).context("reading the administrator's kubeconfig")?;
    let users = config["users"].as_array_mut().context("the administrator's kubeconfig has no users")?;
    for user in users {
        user["user"] = serde_json::json!({"token": token});
    }
    let contexts = config["contexts"].as_array_mut().context("the administrator's kubeconfig has no contexts")?;
    for context in contexts {
        context["context"]["namespace"] = NAMESPACE.into();
    }
    // JSON is YAML.
    Ok(config.to_string())
}
