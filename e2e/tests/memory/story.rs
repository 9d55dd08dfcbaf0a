//! A day of a large cluster, and what the controller's process holds in memory during it.
//!
//! The process runs in real time against the API server in memory on loopback; the day is told as fast as it can listen. In each of its
//! hours an equal part of all pods is replaced, every node sends a heartbeat, and some pods that fit nowhere get machines, which go
//! again when the pods have gone. What a day does to memory depends on how much happens in it and not on how long it takes, but for
//! what is remembered for a time: at most minutes, which is longer here in proportion. When an hour has been told, the process is waited
//! for until it has nothing more to do, and its resident memory is read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::{Replica, Usage};
use runtime::{Clock, Rng};
use serde_json::{Value, json};
use sim::{ApiServer, At, Deletion, Kind};

use super::{objects, server};

const NAMESPACES: usize = 50;
/// Pods that need machines of their own, each hour.
const LARGE: usize = 5;
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A process that has used less than this in a second is idle.
const IDLE: Duration = Duration::from_millis(30);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) pods: usize,
    /// Of the day: in each an equal part of the pods is replaced.
    pub(crate) hours: usize,
}

/// What was seen.
#[derive(Debug)]
pub(crate) struct Report {
    /// From the start of the process until it had listed everything.
    pub(crate) ready_after: Duration,
    /// The most memory until it had nothing more to do after that.
    pub(crate) peak_of_start: u64,
    /// After each hour.
    pub(crate) resident: Vec<u64>,
    /// The most of all.
    pub(crate) peak: u64,
    pub(crate) cpu: Duration,
}

impl Report {
    /// How much more the process held at the end of the day than after its first hour.
    pub(crate) fn growth(&self) -> i64 {
        let at = |place: Option<&u64>| place.map_or(0, |bytes| i64::try_from(*bytes).unwrap_or(i64::MAX));
        at(self.resident.last()) - at(self.resident.first())
    }
}

/// Plays the day, and tells of each hour what it found. Everything that it starts ends with it.
pub(crate) fn play(size: Size, mut tell: impl FnMut(usize, &Usage)) -> Result<Report> {
    let folder = tempfile::tempdir().context("making a folder")?;
    let world = World::new(size)?;
    let kubeconfig = folder.path().join("kubeconfig");
    server::write_kubeconfig(&kubeconfig, server::serve(world.server.clone())?)?;
    let start = Instant::now();
    let mut controller = start_controller(&kubeconfig, folder.path())?;
    controller.wait_until_ready()?;
    let ready_after = start.elapsed();
    wait_until_idle(&controller)?;
    let mut report = Report {
        ready_after,
        peak_of_start: controller.usage()?.peak_bytes,
        resident: Vec::new(),
        peak: 0,
        cpu: Duration::ZERO,
    };
    for hour in 0..size.hours {
        world.pass_hour(hour).with_context(|| format!("in hour {hour}; {}", controller.log()))?;
        let usage = wait_until_idle(&controller)?;
        tell(hour + 1, &usage);
        report.resident.push(usage.resident_bytes);
        (report.peak, report.cpu) = (usage.peak_bytes, usage.cpu);
    }
    ensure!(world.is_as_before(), "the controller has removed or added something; {}", controller.log());
    let mended = world.mended();
    ensure!(mended.is_empty(), "the controller has mended {mended:?}; {}", controller.log());
    Ok(report)
}

fn start_controller(kubeconfig: &Path, folder: &Path) -> Result<Replica> {
    Replica::spawn_at(kubeconfig, folder, &["--disable-leader-election"], &[])
}

/// Waits until the process has nothing to do.
fn wait_until_idle(controller: &Replica) -> Result<Usage> {
    let end = Instant::now() + PATIENCE;
    let mut before = controller.usage()?;
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let usage = controller.usage()?;
        if usage.cpu.saturating_sub(before.cpu) < IDLE {
            return Ok(usage);
        }
        ensure!(Instant::now() < end, "the controller is never idle; {}", controller.log());
        before = usage;
    }
}

struct World {
    server: ApiServer,
    size: Size,
    /// What pods belong to, as the server stored it.
    sets: Vec<Arc<Value>>,
    /// What claims and Nodes were like at first, by name.
    machines: BTreeMap<String, Value>,
}

impl World {
    fn new(size: Size) -> Result<Self> {
        let server = ApiServer::of_cluster(Clock::wall(), Rng::new(1))?;
        let mut world = Self { server, size, sets: Vec::new(), machines: BTreeMap::new() };
        world.server.create(objects::class())?;
        let pool = world.server.create(objects::pool())?;
        for number in 0..NAMESPACES {
            world.server.create(objects::namespace_object(number))?;
        }
        let now = world.now();
        for number in 0..size.nodes {
            let claim = world.server.create(objects::claim(number, &pool)?)?;
            world.server.patch_status(Kind::NodeClaim, &At::of(&claim), &objects::claim_status(number, &now))?;
            world.server.create(objects::node(number, &claim, &now))?;
            let untainted = json!({"spec": {"taints": null}});
            world.server.patch(Kind::Node, &At::new("", &objects::node_name(number)), &untainted)?;
        }
        for set in 0..size.pods.div_ceil(objects::PODS_PER_SET) {
            world.sets.push(world.server.create(objects::replica_set(set))?);
            if set % 10 == 0 {
                world.server.create(objects::budget(set))?;
            }
        }
        for number in 0..size.pods {
            world.start_pod(number, 0)?;
        }
        world.machines = world.described();
        Ok(world)
    }

    fn now(&self) -> String {
        // The API writes whole seconds.
        let now = self.server.now();
        jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
    }

    fn start_pod(&self, number: usize, generation: usize) -> Result<()> {
        let set = &self.sets[objects::set_of_pod(number)];
        let pod = self.server.create(objects::pod(number, generation, set))?;
        self.server.bind(&At::of(&pod), &objects::node_name(number % self.size.nodes))?;
        self.server.patch_status(Kind::Pod, &At::of(&pod), &objects::running(&self.now(), number))?;
        Ok(())
    }

    fn remove_pod(&self, at: &At) -> Result<()> {
        Ok(self.server.delete(Kind::Pod, at, &Deletion { grace_seconds: Some(0), ..Deletion::default() })?)
    }

    fn pass_hour(&self, hour: usize) -> Result<()> {
        for number in (hour..self.size.pods).step_by(self.size.hours) {
            let old = At::new(&objects::namespace(objects::set_of_pod(number)), &objects::pod_name(number, 0));
            self.remove_pod(&old)?;
            self.start_pod(number, 1)?;
        }
        for number in 0..self.size.nodes {
            self.beat(&objects::node_name(number))?;
        }
        self.grow_and_shrink(hour)
    }

    /// What a kubelet says every few minutes.
    fn beat(&self, node: &str) -> Result<()> {
        let beat = json!({"status": {"conditions": objects::conditions_of_node(&self.now())}});
        self.server.patch_status(Kind::Node, &At::new("", node), &beat)?;
        Ok(())
    }

    /// Pods come that fit nowhere, get machines, and go; then the machines go.
    fn grow_and_shrink(&self, hour: usize) -> Result<()> {
        let before: BTreeSet<String> = self.names(Kind::NodeClaim).into_iter().collect();
        let pods: Vec<usize> = (hour * LARGE..(hour + 1) * LARGE).collect();
        for number in &pods {
            let pod = self.server.create(objects::large_pod(*number))?;
            self.server.patch_status(Kind::Pod, &At::of(&pod), &objects::refused(&self.now()))?;
        }
        let nodes_before = self.size.nodes;
        let new_nodes = self.wait_for("machines for new pods", || {
            let nodes = self.names(Kind::Node);
            (nodes.len() > nodes_before).then(|| nodes.into_iter().filter(|name| !is_old(name)).collect::<Vec<_>>())
        })?;
        let claims = self.wait_for("machines to be part of the cluster", || {
            // A kubelet reports that it is ready, and takes the taint of birth off.
            for node in self.names(Kind::Node).iter().filter(|name| !is_old(name)) {
                self.beat(node).ok()?;
                self.take_birth_taint(node).ok()?;
            }
            let claims = self.server.list(Kind::NodeClaim).into_iter();
            let new: Vec<_> = claims.filter(|claim| !before.contains(&name(claim))).collect();
            let are_ready = !new.is_empty() && new.iter().all(|claim| is_initialized(claim));
            are_ready.then(|| new.iter().map(|claim| name(claim)).collect::<Vec<_>>())
        })?;
        for (place, number) in pods.iter().enumerate() {
            let at = At::new("default", &format!("large-{number}"));
            self.server.bind(&at, &new_nodes[place % new_nodes.len()])?;
            self.remove_pod(&at)?;
        }
        for claim in &claims {
            self.server.delete(Kind::NodeClaim, &At::new("", claim), &Deletion::default())?;
        }
        self.wait_for("machines to go", || self.is_as_before().then_some(()))
    }

    fn take_birth_taint(&self, node: &str) -> Result<()> {
        let at = At::new("", node);
        let Some(object) = self.server.get(Kind::Node, &at) else { return Ok(()) };
        let taints = object["spec"]["taints"].as_array().into_iter().flatten();
        let kept: Vec<&Value> = taints.filter(|taint| taint["key"] != "node.kubernetes.io/not-ready").collect();
        self.server.patch(Kind::Node, &at, &json!({"spec": {"taints": kept}}))?;
        Ok(())
    }

    fn is_as_before(&self) -> bool {
        let count = |kind: Kind| self.server.list(kind).len();
        (count(Kind::NodeClaim), count(Kind::Node), count(Kind::Pod))
            == (self.size.nodes, self.size.nodes, self.size.pods)
    }

    /// Machines that live ones would not have been like: somebody found something to set right.
    fn mended(&self) -> Vec<String> {
        let now = self.described();
        let differs = |(name, before): &(&String, &Value)| now.get(*name) != Some(*before);
        self.machines.iter().filter(differs).map(|(name, _)| name.clone()).collect()
    }

    /// Claims and Nodes by name, without what changes in every cluster.
    fn described(&self) -> BTreeMap<String, Value> {
        let kinds = [Kind::NodeClaim, Kind::Node].into_iter();
        let all = kinds.flat_map(|kind| self.server.list(kind));
        all.map(|object| {
            let (metadata, spec) = (&object["metadata"], &object["spec"]);
            let said = ["labels", "annotations", "finalizers", "ownerReferences"].map(|field| &metadata[field]);
            (name(&object), json!([said, spec]))
        })
        .collect()
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        self.server.list(kind).iter().map(|object| name(object)).collect()
    }

    fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            ensure!(Instant::now() < end, "waited in vain for {what}");
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Whether the node has been there from the beginning: those that the cloud makes have more in their names.
fn is_old(name: &str) -> bool {
    name.len() == objects::node_name(0).len()
}

fn is_initialized(claim: &Value) -> bool {
    let conditions = claim["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Initialized" && condition["status"] == "True")
}
