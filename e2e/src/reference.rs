//! The reference's own modules, fetched by exact version through the Go command, which checks their sums.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Deserializer, Value};

/// A module of the reference that a test reads. None of its text enters this repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// The cloud-neutral part, with its kwok provider.
    Karpenter,
    /// The AWS provider.
    KarpenterAws,
    /// The cloud-neutral part of the last release with Provisioners.
    LegacyCore,
    /// The AWS provider of that release.
    LegacyAws,
}

impl Module {
    const fn path_and_version(self) -> &'static str {
        match self {
            Self::Karpenter => "sigs.k8s.io/karpenter@v1.15.0",
            Self::KarpenterAws => "github.com/aws/karpenter-provider-aws@v1.14.1",
            Self::LegacyCore => "github.com/aws/karpenter-core@v0.29.2",
            Self::LegacyAws => "github.com/aws/karpenter@v0.29.2",
        }
    }
}

/// Where folders of modules lie on this machine. A module that is not there yet is downloaded, and so is a
/// newer Go when the machine's own is too old for the newest module (some 100 MB in all, once).
pub fn folders(wanted: &[(Module, &str)]) -> Result<Vec<PathBuf>> {
    let roots = download(wanted.iter().map(|(module, _)| module.path_and_version()))?;
    Ok(roots.into_iter().zip(wanted).map(|(root, (_, folder))| root.join(folder)).collect())
}

fn download<'a>(modules: impl Iterator<Item = &'a str>) -> Result<Vec<PathBuf>> {
    let modules: Vec<&str> = modules.collect();
    let output = Command::new("go")
        .args(["mod", "download", "-json"])
        .args(&modules)
        // The newest module asks for a newer Go than the machine may have; the Go command fetches that one too.
        .env("GOTOOLCHAIN", "auto")
        .env("GOFLAGS", "-mod=mod")
        .current_dir(std::env::temp_dir())
        .stderr(Stdio::inherit())
        .output()
        .context("running go mod download; install Go")?;
    ensure!(
        output.status.success(),
        "go mod download {}: {}",
        modules.join(" "),
        String::from_utf8_lossy(&output.stdout)
    );
    let mut roots = std::collections::BTreeMap::new();
    for answer in Deserializer::from_slice(&output.stdout).into_iter::<Value>() {
        let answer = answer.context("reading what go mod download says")?;
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        roots.insert(format!("{}@{}", text("Path"), text("Version")), PathBuf::from(text("Dir")));
    }
    let find = |module: &&str| roots.get(*module).cloned().with_context(|| format!("{module} was not downloaded"));
    modules.iter().map(find).collect()
}
