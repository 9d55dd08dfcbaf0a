//! Pods that come and go as a recorded cluster's did.
//!
//! A trace is a CSV file with a header. Needed are the columns `name`, `cpu_milli`, `memory_mib`, `creation_time` and
//! `deletion_time` (seconds); `num_gpu` may be there, others are not looked at. A share of a GPU counts as a whole one.

use std::sync::Arc;
use std::time::Duration;

use model::instance::InstanceType;
use model::resources::Resource;
use serde_json::{Value, json};

use super::fault::Flaw;
use crate::apiserver::merge;

pub(super) const GPU: &str = "nvidia.com/gpu";
/// The label by which pods of a trace are known.
pub(super) const LABEL: &str = "dovetail.dev/trace";
const MIB: i64 = 1 << 20;

/// The pods of a trace within a window.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) template: Value,
    /// By time of arrival.
    pub(super) pods: Vec<TracedPod>,
    /// Pods that no machine can hold, which never come.
    pub(super) dropped: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TracedPod {
    pub(super) name: String,
    cpu_milli: i64,
    memory_mib: i64,
    gpus: i64,
    /// Since the window began; nought for whoever was there already.
    pub(super) comes: Duration,
    /// `None` for whoever outlives the window.
    pub(super) leaves: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Reads the pods that are there at some time of the window.
pub(super) fn read(text: &str, window: Window) -> Result<Vec<TracedPod>, Flaw> {
    let mut lines = text.lines().zip(1..);
    let header: Vec<&str> = lines.next().map_or("", |(line, _)| line).split(',').map(str::trim).collect();
    let column = |name: &str| header.iter().position(|found| *found == name);
    let needed = |name: &str| {
        let remedy = "begin with a line such as name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time";
        column(name).ok_or_else(|| Flaw::new(1, format!("the trace has no column {name:?}"), remedy))
    };
    let (name, cpu, memory) = (needed("name")?, needed("cpu_milli")?, needed("memory_mib")?);
    let (creation, deletion, gpus) = (needed("creation_time")?, needed("deletion_time")?, column("num_gpu"));
    let mut pods = Vec::new();
    for (text, line) in lines.filter(|(text, _)| !text.trim().is_empty()) {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        let number = |place: usize| {
            let field = fields.get(place).copied().unwrap_or_default();
            let column = header.get(place).copied().unwrap_or_default();
            let problem = || format!("{column} {field:?} is no whole number");
            field.parse::<u32>().map_err(|_| Flaw::new(line, problem(), "correct the field or remove the line"))
        };
        let (created, deleted) = (u64::from(number(creation)?), u64::from(number(deletion)?));
        let pod = TracedPod {
            name: fields.get(name).copied().unwrap_or_default().to_owned(),
            cpu_milli: number(cpu)?.into(),
            memory_mib: number(memory)?.into(),
            gpus: gpus.map(number).transpose()?.unwrap_or(0).into(),
            comes: Duration::from_secs(created.saturating_sub(window.from)),
            leaves: (deleted < window.to).then(|| Duration::from_secs(deleted.saturating_sub(window.from))),
        };
        if deleted > created.max(window.from) && created < window.to {
            pods.push(pod);
        }
    }
    pods.sort_by(|a, b| (a.comes, &a.name).cmp(&(b.comes, &b.name)));
    match pods.is_empty() {
        true => Err(Flaw::new(1, "the trace has no pods in the window", "choose other values for `from` and `to`")),
        false => Ok(pods),
    }
}

impl TracedPod {
    /// Whether some machine is large enough when it is empty.
    pub(super) fn fits_on_any(&self, types: &[Arc<InstanceType>]) -> bool {
        let gpu = Resource::from_name(GPU);
        types.iter().any(|machine| {
            let has = machine.allocatable();
            self.cpu_milli <= has.cpu_milli && self.memory_mib * MIB <= has.memory_bytes && self.gpus <= has.get(&gpu)
        })
    }
}

impl Trace {
    pub(super) fn object(&self, pod: &TracedPod) -> Value {
        let mut requests = json!({"cpu": format!("{}m", pod.cpu_milli), "memory": format!("{}Mi", pod.memory_mib)});
        let mut limits = json!({});
        if pod.gpus > 0 {
            requests[GPU] = pod.gpus.to_string().into();
            limits[GPU] = pod.gpus.to_string().into();
        }
        let resources = json!({"requests": requests, "limits": limits});
        let mut object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod.name, "namespace": self.namespace, "labels": {LABEL: self.name}},
            "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}]},
        });
        merge(&mut object, &self.template);
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n\
                        early,1000,1024,0,0,5,90\nbefore,1000,1024,0,0,5,10\nlate,2000,2048,1,460,30,200\nnever,1,1,0,0,40,40\n";

    #[test]
    fn a_window_begins_with_whoever_is_there_and_keeps_whoever_stays() {
        let pods = read(TEXT, Window { from: 20, to: 100 }).unwrap();
        let told: Vec<_> = pods.iter().map(|pod| (pod.name.as_str(), pod.comes.as_secs(), pod.leaves)).collect();
        assert_eq!(told, [("early", 0, Some(Duration::from_secs(70))), ("late", 10, None)]);
        assert_eq!((pods[1].gpus, pods[1].cpu_milli), (1, 2000), "a share of a GPU is a whole one");
    }

    #[test]
    fn a_trace_that_cannot_be_read_says_where_and_what_to_do() {
        let flaw = read("name,cpu_milli\n", Window { from: 0, to: 9 }).unwrap_err();
        assert!(flaw.line == 1 && flaw.problem.contains("memory_mib"), "{flaw:?}");
        let broken = TEXT.replace("30,200", "30,soon");
        let flaw = read(&broken, Window { from: 0, to: 900 }).unwrap_err();
        assert!(flaw.line == 4 && flaw.problem.contains("soon"), "{flaw:?}");
        assert!(read(TEXT, Window { from: 900, to: 901 }).unwrap_err().problem.contains("no pods"));
    }
}
