//! An autoscaler as a process: ours, or the reference's with its kwok provider. Both start from the same flags.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::reference::{self, Module};
use crate::{Cluster, Dovetail, account, dovetail};

const READY_WITHIN: Duration = Duration::from_secs(60);
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Linux counts a process's time in these, whatever the kernel's own clock.
const TICKS_PER_SECOND: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    #[value(name = "ours")]
    Dovetail,
    Reference,
}

/// A running autoscaler. Dropping it kills it.
pub struct Autoscaler {
    process: Child,
    metrics_port: u16,
    health_port: u16,
    log: PathBuf,
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Duration,
    /// The memory that it has now, and the most that it ever had.
    pub resident_bytes: u64,
    pub peak_bytes: u64,
}

impl Which {
    /// What runs when it is started.
    pub fn binary(self) -> Result<PathBuf> {
        match self {
            Self::Dovetail => dovetail::binary(),
            Self::Reference => reference_binary(),
        }
    }
}

impl Usage {
    pub(crate) fn of_process(id: u32) -> Result<Self> {
        let of_process = Path::new("/proc").join(id.to_string());
        let stat = fs::read_to_string(of_process.join("stat")).context("reading what the process has used")?;
        let status = fs::read_to_string(of_process.join("status")).context("reading what the process has used")?;
        parse_usage(&stat, &status).context("making sense of /proc")
    }
}

impl Autoscaler {
    /// Brings the autoscaler's definitions into the cluster, starts it with default flags, and returns when it is ready.
    /// Ours runs under its own role; the reference has none that is meant for kwok, and runs as administrator.
    pub fn start(cluster: &Cluster, which: Which) -> Result<Self> {
        Self::start_with(cluster, which, &[])
    }

    /// As `start`, with further variables for it.
    pub fn start_with(cluster: &Cluster, which: Which, variables: &[(&str, &str)]) -> Result<Self> {
        let (metrics_port, health_port) = (free_port()?, free_port()?);
        let mut command = match which {
            Which::Dovetail => {
                Dovetail::apply_crds(cluster, "kwok")?;
                let mut command = Command::new(which.binary()?);
                command
                    .args(["controller", "--provider", "kwok"])
                    .env("KUBECONFIG", account::controller_kubeconfig(cluster)?);
                command
            }
            Which::Reference => {
                apply_reference_definitions(cluster)?;
                let mut command = Command::new(which.binary()?);
                command.env("KUBECONFIG", cluster.kubeconfig());
                command
            }
        };
        let log = cluster.dir().join(format!("{which:?}.log"));
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let process = command
            .envs([
                ("DISABLE_LEADER_ELECTION", "true"),
                ("SYSTEM_NAMESPACE", account::NAMESPACE),
                ("KUBERNETES_MIN_VERSION", "1.19.0-0"),
                ("METRICS_PORT", &metrics_port.to_string()),
                ("HEALTH_PROBE_PORT", &health_port.to_string()),
            ])
            .envs(variables.iter().copied())
            .env_remove("HTTPS_PROXY")
            .env_remove("https_proxy")
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .spawn()
            .with_context(|| format!("starting {which:?}"))?;
        let mut started = Self { process, metrics_port, health_port, log };
        started.wait_until_ready()?;
        Ok(started)
    }

    /// What its metrics say now.
    pub fn scrape(&self) -> Result<String> {
        let (code, text) = get(self.metrics_port, "/metrics")?;
        ensure!(code == 200, "/metrics answers {code}: {text}");
        Ok(text)
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn usage(&self) -> Result<Usage> {
        Usage::of_process(self.process.id())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if let Some(status) = self.process.try_wait().context("looking after the process")? {
                bail!("it ended before it was ready, with {status}: {}", self.log());
            }
            if get(self.health_port, "/readyz").is_ok_and(|(code, _)| code == 200) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "not ready after {READY_WITHIN:?}: {}", self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Autoscaler {
    fn drop(&mut self) {
        // Errors have nowhere to go here: it has ended already, or will end with its cluster.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The binary that `make` has built and named in the environment, or else the one that the script builds now.
fn reference_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("DOVETAIL_REFERENCE") {
        return Ok(path.into());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hack/reference.sh");
    let output = Command::new(&script)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}", script.display()))?;
    ensure!(output.status.success(), "building the reference with {}: {}", script.display(), output.status);
    Ok(String::from_utf8(output.stdout).context("reading the path of the reference")?.trim_end().into())
}

fn apply_reference_definitions(cluster: &Cluster) -> Result<()> {
    let folders = reference::folders(&[(Module::Karpenter, "pkg/apis/crds"), (Module::Karpenter, "kwok/apis/crds")])?;
    for folder in folders {
        let folder = folder.to_str().context("the module's path is no text")?;
        cluster.succeed(&["apply", "--server-side", "--filename", folder])?;
    }
    // Applied is not served yet.
    let served = ["wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=30s"];
    cluster.succeed(&served).map(drop)
}

/// A port that nobody has now. Somebody may take it before it is used, and then the start fails and says so.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}

/// The code and the body of an answer. Enough of HTTP for a scrape, without a client for it.
pub(crate) fn get(port: u16, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    // The old version of the protocol, so that the body comes whole and not in chunks.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
    let code = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).context("an answer without a code")?;
    Ok((code, body.to_owned()))
}

fn parse_usage(stat: &str, status: &str) -> Option<Usage> {
    // The name in parentheses may hold anything; fields are counted from its end.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let bytes = |member: &str| {
        let text = status.lines().find_map(|line| line.strip_prefix(member))?;
        Some(text.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    };
    let cpu = Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND);
    Some(Usage { cpu, resident_bytes: bytes("VmRSS:")?, peak_bytes: bytes("VmHWM:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_past_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 100 1000 20 18446744073709551615 1 1";
        let status = "Name:\ta) b\nVmPeak:\t 900 kB\nVmHWM:\t 12 kB\nVmRSS:\t 10 kB\n";
        let expected = Usage { cpu: Duration::from_secs(3), resident_bytes: 10 * 1024, peak_bytes: 12 * 1024 };
        assert_eq!(parse_usage(stat, status), Some(expected));
        assert_eq!(parse_usage("7 (a) S", status), None);
    }

    #[test]
    fn our_own_usage_can_be_read() {
        let read = |name: &str| fs::read_to_string(Path::new("/proc/self").join(name)).unwrap();
        assert!(parse_usage(&read("stat"), &read("status")).unwrap().peak_bytes > 0);
    }
}
