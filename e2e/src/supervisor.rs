//! The process `control-plane serve`, and the directory it works in.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The supervisor gives up after 60 s and then says which component was late; a little more lets it speak.
const START_LIMIT: Duration = Duration::from_secs(65);
/// It kills its children instead of asking them, so it needs far less.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// The supervisor holds a lock on this file of its directory as long as it lives.
const PID_FILE: &str = "serve.pid";

pub(crate) struct Supervisor {
    process: Child,
    /// Nothing is ever written: when this end of the pipe closes, by drop or by our death, the supervisor ends.
    stdin: Option<ChildStdin>,
    dir: PathBuf,
}

/// What the supervisor says on stdout once everything answers.
#[derive(Deserialize)]
pub(crate) struct Ready {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) server: String,
    pub(crate) dir: PathBuf,
}

/// Every user has clusters of their own, so that nobody trips over another's files.
fn clusters_dir() -> PathBuf {
    let home = || std::env::home_dir().map(|home| home.join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap_or_else(std::env::temp_dir);
    let cache = std::env::var_os("DOVETAIL_CACHE").map_or_else(|| cache.join("dovetail"), PathBuf::from);
    cache.join("e2e")
}

impl Supervisor {
    pub(crate) fn spawn(binary: &Path, flags: &[&str]) -> Result<Self> {
        let base = clusters_dir();
        sweep(&base);
        let dir = base.join(unique_name());
        let mut process = Command::new(binary)
            .args(["serve", "--ephemeral", "--dir"])
            .arg(&dir)
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting the control plane {}", binary.display()))?;
        let stdin = process.stdin.take();
        Ok(Self { process, stdin, dir })
    }

    pub(crate) fn wait_until_ready(&mut self) -> Result<Ready> {
        let stdout = self.process.stdout.take().context("waiting for the control plane a second time")?;
        let (sender, receiver) = mpsc::channel();
        // A pipe cannot be read with a time limit, a channel can. The thread ends with the supervisor at the latest.
        thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            // Nobody listens any more if the limit was reached.
            let _ = sender.send(read.map(|_| line));
        });
        let line = receiver
            .recv_timeout(START_LIMIT)
            .with_context(|| format!("waiting {} s for the control plane", START_LIMIT.as_secs()))?
            .context("reading from the control plane")?;
        ensure!(!line.is_empty(), "the control plane ended before it was ready; its reason is on stderr");
        serde_json::from_str(&line).with_context(|| format!("reading what the control plane says of itself: {line:?}"))
    }

    fn has_ended_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            // An error means that there is no child to wait for.
            if !matches!(self.process.try_wait(), Ok(None)) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if !self.has_ended_within(STOP_LIMIT) {
            // Its children notice and follow. Errors have nowhere to go here, and the next start sweeps.
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
        // A supervisor that was killed could not do this itself.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The pid in front is the owner's, which `sweep` asks for.
fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Removes what clusters left behind whose owner and supervisor were both killed. Whatever cannot be read or removed
/// stays: it may be another user's, or another sweep was faster.
fn sweep(base: &Path) {
    // Without /proc every owner would look dead.
    if !Path::new("/proc/self").exists() {
        return;
    }
    let Ok(entries) = fs::read_dir(base) else { return };
    for dir in entries.flatten().map(|entry| entry.path()).filter(|dir| is_abandoned(dir)) {
        let _ = fs::remove_dir_all(dir);
    }
}

/// The owner's pid tells about a cluster that is still starting; the lock tells about one whose owner has a pid in
/// another container, which shares the temporary directory but not the process table.
fn is_abandoned(dir: &Path) -> bool {
    let owner = dir.file_name().and_then(|name| name.to_str()).and_then(|name| name.split('-').next());
    let Some(owner) = owner.and_then(|owner| owner.parse::<u32>().ok()) else { return false };
    if Path::new("/proc").join(owner.to_string()).exists() {
        return false;
    }
    File::open(dir.join(PID_FILE)).is_ok_and(|file| file.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No process can have it: pids end at 2^22.
    const DEAD: u32 = u32::MAX;

    #[test]
    fn only_what_nobody_owns_or_runs_is_swept() {
        let base = std::env::temp_dir().join(format!("dovetail-e2e-sweep-{}", std::process::id()));
        let make = |name: String| {
            let dir = base.join(name);
            fs::create_dir_all(&dir).unwrap();
            File::create(dir.join(PID_FILE)).unwrap();
            dir
        };
        let abandoned = make(format!("{DEAD}-0"));
        let owned = make(format!("{}-0", std::process::id()));
        let running = make(format!("{DEAD}-1"));
        let foreign = make("notes".to_owned());
        let lock = File::open(running.join(PID_FILE)).unwrap();
        lock.lock().unwrap();

        sweep(&base);

        let left: Vec<bool> = [&abandoned, &owned, &running, &foreign].iter().map(|dir| dir.exists()).collect();
        fs::remove_dir_all(&base).unwrap();
        assert_eq!(left, [false, true, true, true]);
    }
}
