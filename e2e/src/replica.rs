//! The live controller as a process, under the role that it is shipped with.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::account::{self, NAMESPACE};
use crate::autoscaler::{Usage, free_port, get};
use crate::{Cluster, dovetail};

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// It is ready as soon as it has listed everything once.
const START_LIMIT: Duration = Duration::from_secs(60);

/// `dovetail controller`, running. Dropping it kills it, without a chance to put anything in order.
pub struct Replica {
    process: Child,
    log: PathBuf,
    metrics_port: u16,
    probe_port: u16,
}

impl Replica {
    /// Starts it on a cluster that has the definitions, and waits until it is ready.
    pub fn start(cluster: &Cluster, arguments: &[&str]) -> Result<Self> {
        let mut live = Self::spawn(cluster, arguments, &[])?;
        live.wait_until_ready()?;
        Ok(live)
    }

    /// Starts it, with variables of the test's own, and waits for nothing.
    pub fn spawn(cluster: &Cluster, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Self> {
        Self::spawn_at(&account::controller_kubeconfig(cluster)?, cluster.dir(), arguments, variables)
    }

    /// The same for whatever a kubeconfig leads to, with a folder for the log.
    pub fn spawn_at(kubeconfig: &Path, folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Self> {
        let (metrics_port, probe_port) = (free_port()?, free_port()?);
        let log = folder.join(format!("controller-{metrics_port}.log"));
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let process = Command::new(dovetail::binary()?)
            .args(["controller", "--provider", "kwok"])
            .args(["--leader-election-namespace", NAMESPACE])
            .args(["--metrics-port", &metrics_port.to_string(), "--health-probe-port", &probe_port.to_string()])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(arguments)
            .envs(variables.iter().copied())
            .env_remove("HTTPS_PROXY")
            .env_remove("https_proxy")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("starting dovetail controller")?;
        Ok(Self { process, log, metrics_port, probe_port })
    }

    pub fn wait_until_ready(&mut self) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        loop {
            if get(self.probe_port, "/readyz").is_ok_and(|(code, _)| code == 200) {
                return Ok(());
            }
            if let Some(status) = self.process.try_wait()? {
                bail!("dovetail controller ended with {status}: {}", self.log());
            }
            ensure!(Instant::now() < end, "dovetail controller is not ready: {}", self.log());
            thread::sleep(LOOK_EVERY);
        }
    }

    pub fn usage(&self) -> Result<Usage> {
        Usage::of_process(self.process.id())
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// What a scraper gets.
    pub fn metrics(&self) -> Result<String> {
        Ok(get(self.metrics_port, "/metrics")?.1)
    }

    /// Waits for it to end by itself.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < end, "dovetail controller still runs after {limit:?}: {}", self.log());
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Asks it to end, as Kubernetes does.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        let id = self.process.id().to_string();
        ensure!(Command::new("kill").args(["-TERM", &id]).status()?.success(), "sending SIGTERM to {id}");
        self.wait_for_end(Duration::from_secs(30))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until the closure has something to say.
pub fn wait_for<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        ensure!(Instant::now() < end, "waited {limit:?} for {what}");
        thread::sleep(LOOK_EVERY);
    }
}
