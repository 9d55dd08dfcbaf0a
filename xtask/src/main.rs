//! The command line of the repository's own tools; the work is in the library, where tests can reach it.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use xtask::{bench, catalog, tidy};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The repository's own tools")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the tree against the house rules
    Tidy,
    /// Write the custom resource definitions into crds/
    Crds,
    /// Write the EC2 catalogue of crates/provider from packages of the registries; needs network, pip and go
    Catalog {
        /// Compare with the committed file and change nothing
        #[arg(long)]
        check: bool,
    },
    /// Compare our engine with the reference on the same workloads, in one run
    Bench(bench::Options),
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Tidy => run_tidy(),
        Command::Crds => write_crds(),
        Command::Catalog { check } => {
            catalog::run(&root()?, if check { catalog::Mode::Check } else { catalog::Mode::Write })
        }
        Command::Bench(options) => bench::run(&root()?, &options),
    }
}

fn root() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("finding the current directory")?;
    tidy::workspace_root(&here)
}

fn run_tidy() -> anyhow::Result<ExitCode> {
    let findings = tidy::check_workspace(&root()?)?;
    write!(std::io::stdout().lock(), "{}", tidy::report(&findings)).context("writing the findings")?;
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts from an empty folder, so that a kind that no longer exists leaves no file behind.
fn write_crds() -> anyhow::Result<ExitCode> {
    let root = root()?;
    let folder = root.join("crds");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    for (path, text) in api::crd::files() {
        let path = root.join(path);
        let parent = path.parent().context("a generated file has a folder")?;
        std::fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
