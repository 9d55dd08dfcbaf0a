//! One control plane as a value: it runs while the value lives.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};

use crate::supervisor::{Ready, Supervisor};

/// A Kubernetes control plane with kwok, ready to take pods. It has etcd, API server, controller-manager, scheduler and
/// ports of its own. Dropping it ends all of its processes and removes its files.
pub struct Cluster {
    binary: PathBuf,
    ready: Ready,
    /// Kept for its drop, which ends the cluster.
    _supervisor: Supervisor,
}

impl Cluster {
    /// Starts an empty cluster and returns when pods can be created in it.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// As `start`, with further flags of `control-plane serve`, such as
    /// `--controller-manager-arg=--node-monitor-grace-period=300s`.
    pub fn start_with(flags: &[&str]) -> Result<Self> {
        let binary = control_plane()?;
        let mut supervisor = Supervisor::spawn(&binary, flags)?;
        let ready = supervisor.wait_until_ready()?;
        Ok(Self { binary, ready, _supervisor: supervisor })
    }

    /// The kubeconfig of a user who may do everything.
    pub fn kubeconfig(&self) -> &Path {
        &self.ready.kubeconfig
    }

    /// The API server's address.
    pub fn server(&self) -> &str {
        &self.ready.server
    }

    /// Where the cluster keeps its files and logs until it is dropped.
    pub fn dir(&self) -> &Path {
        &self.ready.dir
    }

    /// Runs kubectl on this cluster and returns what it said, whether it succeeded or not.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<Output> {
        self.kubectl_command(arguments)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("running kubectl {}", arguments.join(" ")))
    }

    /// Runs kubectl on this cluster and returns what it printed; its failure is an error with what it complained about.
    pub fn succeed(&self, arguments: &[&str]) -> Result<String> {
        let output = self.kubectl(arguments)?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {}", arguments.join(" "), complaint.trim());
        String::from_utf8(output.stdout).context("reading what kubectl printed")
    }

    /// Runs a shell command in which `kubectl` means this cluster, as somebody would who follows our advice.
    pub fn shell(&self, command: &str) -> Result<String> {
        let kubectl = self.binary.with_file_name("bin");
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("bash")
            .args(["-c", command])
            .env("KUBECONFIG", self.kubeconfig())
            .env("PATH", format!("{}:{path}", kubectl.display()))
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("running {command}"))?;
        ensure!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr).trim());
        String::from_utf8(output.stdout).with_context(|| format!("reading what {command} printed"))
    }

    /// Creates or changes the objects in a YAML text, by server-side apply. A status given for a new object is kept if
    /// the API server takes it at creation, as it does for nodes.
    pub fn apply(&self, yaml: &str) -> Result<()> {
        let mut kubectl = self
            .kubectl_command(&["apply", "--server-side", "--filename=-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting kubectl apply")?;
        // Taken, so that it is closed before the wait: kubectl reads to the end.
        let written = kubectl.stdin.take().map(|mut stdin| stdin.write_all(yaml.as_bytes()));
        let output = kubectl.wait_with_output().context("waiting for kubectl apply")?;
        ensure!(output.status.success(), "applying objects: {}", String::from_utf8_lossy(&output.stderr).trim());
        written.transpose().context("handing objects to kubectl")?;
        Ok(())
    }

    fn kubectl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .arg("kubectl")
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            // Otherwise it leaves a directory for every cluster that ever was under the user's home.
            .arg("--cache-dir")
            .arg(self.dir().join("kubectl-cache"))
            .args(arguments);
        command
    }
}

/// A typed client for a cluster, as the user who may do everything.
pub async fn client(cluster: &Cluster) -> Result<kube::Client> {
    let file = kube::config::Kubeconfig::read_from(cluster.kubeconfig()).context("reading the cluster's kubeconfig")?;
    let mut config =
        kube::Config::from_custom_kubeconfig(file, &Default::default()).await.context("using the kubeconfig")?;
    // The cluster is on loopback, which no proxy of the user's can reach.
    config.proxy_url = None;
    // A test wants to see each answer; 429 also means that a budget forbids an eviction.
    config.default_retry = false;
    kube::Client::try_from(config).context("making a client")
}

/// The binary that `make` has built and named in the environment, or else the one that the script builds now.
fn control_plane() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("DOVETAIL_CONTROL_PLANE") {
        return Ok(path.into());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hack/control-plane.sh");
    let output = Command::new(&script)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}", script.display()))?;
    ensure!(output.status.success(), "building the control plane with {}: {}", script.display(), output.status);
    let path = String::from_utf8(output.stdout).context("reading the path of the control plane")?;
    Ok(path.trim_end().into())
}
