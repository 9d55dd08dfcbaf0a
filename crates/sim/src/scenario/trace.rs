//! Pods that come and go as a recorded cluster's did.
//!
//! A trace is a CSV file with a header. Needed are the columns `name`, `cpu_milli`, `memory_mib`, `creation_time` and
//! `deletion_time` (seconds); `num_gpu` may be there, others are not looked at. A share of a GPU counts as a whole one. Every line is
//! read, also of pods that never come; what the API has to say about those that do is found in the rehearsal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::instance::InstanceType;
use model::resources::Resource;
use serde_json::{Value, json};

use super::act::Manifest;
use super::fault::Flaw;
use crate::apiserver::{is_subdomain, merge};

pub(super) const GPU: &str = "nvidia.com/gpu";
/// The label by which pods of a trace are known.
pub(super) const LABEL: &str = "dovetail.dev/trace";
const MIB: i64 = 1 << 20;

/// The pods of a trace within a window.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) namespace: String,
    /// Where the scenario says so.
    pub(super) namespace_line: u64,
    /// What every pod is like beside, as a merge patch.
    pub(super) template: Option<Manifest>,
    /// By time of arrival.
    pub(super) pods: Vec<TracedPod>,
    /// Pods that no machine can hold, which never come.
    pub(super) dropped: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TracedPod {
    pub(super) name: String,
    /// Of the trace.
    pub(super) line: u64,
    pub(super) amounts: Amounts,
    /// Since the window began; nought for whoever was there already.
    pub(super) comes: Duration,
    /// `None` for whoever outlives the window.
    pub(super) leaves: Option<Duration>,
}

/// What a pod asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Amounts {
    cpu_milli: i64,
    memory_mib: i64,
    gpus: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Reads the pods that are there at some time of the window.
pub(super) fn read(text: &str, window: Window) -> Result<Vec<TracedPod>, Flaw> {
    let mut lines = text.lines().zip(1..);
    let columns = Columns::of(lines.next().map_or("", |(header, _)| header))?;
    let (mut pods, mut known) = (Vec::new(), BTreeMap::new());
    for (text, line) in lines.filter(|(text, _)| !text.trim().is_empty()) {
        let row = columns.row(text, line)?;
        if let Some(other) = known.insert(row.name, line) {
            let problem = format!("the pod {} is on line {other} already", row.name);
            return Err(Flaw::new(line, problem, "give it another name or remove the line"));
        }
        if row.deletion > row.creation.max(window.from) && row.creation < window.to {
            pods.push(row.pod(window));
        }
    }
    pods.sort_by(|a, b| (a.comes, &a.name).cmp(&(b.comes, &b.name)));
    match pods.is_empty() {
        true => Err(Flaw::new(1, "the trace has no pods in the window", "choose other values for `from` and `to`")),
        false => Ok(pods),
    }
}

/// Where the columns are.
struct Columns<'a> {
    header: Vec<&'a str>,
    name: usize,
    cpu_milli: usize,
    memory_mib: usize,
    gpus: Option<usize>,
    creation: usize,
    deletion: usize,
}

impl<'a> Columns<'a> {
    fn of(header: &'a str) -> Result<Self, Flaw> {
        let header: Vec<&str> = header.split(',').map(str::trim).collect();
        let remedy = "begin with a line such as name,cpu_milli,memory_mib,num_gpu,creation_time,deletion_time";
        let column = |name: &str| {
            let mut places = header.iter().enumerate().filter(|(_, found)| **found == name).map(|(place, _)| place);
            match (places.next(), places.next()) {
                (Some(_), Some(_)) => Err(Flaw::new(1, format!("the trace has two columns {name:?}"), remedy)),
                (place, _) => Ok(place),
            }
        };
        let needed =
            |name: &str| column(name)?.ok_or_else(|| Flaw::new(1, format!("the trace has no column {name:?}"), remedy));
        Ok(Self {
            name: needed("name")?,
            cpu_milli: needed("cpu_milli")?,
            memory_mib: needed("memory_mib")?,
            gpus: column("num_gpu")?,
            creation: needed("creation_time")?,
            deletion: needed("deletion_time")?,
            header,
        })
    }

    fn row<'r>(&self, text: &'r str, line: u64) -> Result<Row<'r>, Flaw> {
        let remedy = "correct the line or remove it";
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields.len() != self.header.len() {
            let problem = format!("the line has {} fields, the first line {}", fields.len(), self.header.len());
            return Err(Flaw::new(line, problem, remedy));
        }
        let number = |place: usize| {
            let (column, field) = (self.header[place], fields[place]);
            let problem = || format!("{column} {field:?} is no whole number from 0 to {}", u32::MAX);
            field.parse::<u32>().map_err(|_| Flaw::new(line, problem(), remedy))
        };
        let row = Row {
            line,
            name: fields[self.name],
            amounts: Amounts {
                cpu_milli: number(self.cpu_milli)?.into(),
                memory_mib: number(self.memory_mib)?.into(),
                gpus: self.gpus.map(number).transpose()?.unwrap_or(0).into(),
            },
            creation: number(self.creation)?.into(),
            deletion: number(self.deletion)?.into(),
        };
        if !is_subdomain(row.name) {
            let problem = format!("{:?} is no name of a pod", row.name);
            return Err(Flaw::new(line, problem, "use lower case letters, digits, '-' and '.'"));
        }
        if row.deletion < row.creation {
            let problem = format!("{} leaves at {} and comes at {}", row.name, row.deletion, row.creation);
            return Err(Flaw::new(line, problem, "make deletion_time at least creation_time"));
        }
        Ok(row)
    }
}

/// A line that makes sense.
struct Row<'a> {
    line: u64,
    name: &'a str,
    amounts: Amounts,
    /// In seconds of the trace.
    creation: u64,
    deletion: u64,
}

impl Row<'_> {
    fn pod(&self, window: Window) -> TracedPod {
        let since = |time: u64| Duration::from_secs(time.saturating_sub(window.from));
        TracedPod {
            name: self.name.to_owned(),
            line: self.line,
            amounts: self.amounts,
            comes: since(self.creation),
            leaves: (self.deletion < window.to).then(|| since(self.deletion)),
        }
    }
}

impl TracedPod {
    /// Whether some machine is large enough when it is empty.
    pub(super) fn fits_on_any(&self, types: &[Arc<InstanceType>]) -> bool {
        let gpu = Resource::from_name(GPU);
        let Amounts { cpu_milli, memory_mib, gpus } = self.amounts;
        types.iter().any(|machine| {
            let has = machine.allocatable();
            cpu_milli <= has.cpu_milli && memory_mib * MIB <= has.memory_bytes && gpus <= has.get(&gpu)
        })
    }
}

impl Trace {
    pub(super) fn object(&self, pod: &TracedPod) -> Value {
        let mut object = self.plain(pod);
        if let Some(template) = &self.template {
            merge(&mut object, &template.value);
        }
        object
    }

    /// The pod without what the template says.
    pub(super) fn plain(&self, pod: &TracedPod) -> Value {
        let Amounts { cpu_milli, memory_mib, gpus } = pod.amounts;
        let mut requests = json!({"cpu": format!("{cpu_milli}m"), "memory": format!("{memory_mib}Mi")});
        let mut limits = json!({});
        if gpus > 0 {
            requests[GPU] = gpus.to_string().into();
            limits[GPU] = gpus.to_string().into();
        }
        let resources = json!({"requests": requests, "limits": limits});
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": pod.name, "namespace": self.namespace, "labels": {LABEL: self.name}},
            "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}]},
        })
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
        assert_eq!((pods[1].amounts.gpus, pods[1].amounts.cpu_milli), (1, 2000), "a share of a GPU is a whole one");
    }

    #[test]
    fn every_line_is_read_before_anything_is_played() {
        let all = Window { from: 0, to: 900 };
        for (from, to, line, words) in [
            ("memory_mib,", "memory,", 1, "no column \"memory_mib\""),
            ("gpu_milli", "name", 1, "two columns \"name\""),
            ("30,200", "30,soon", 4, "deletion_time \"soon\" is no whole number"),
            ("never,1,", "never,-1,", 5, "cpu_milli \"-1\""),
            ("late,2000", "late,5000000000", 4, "from 0 to 4294967295"),
            ("early,1000,", "early,", 2, "6 fields, the first line 7"),
            ("early,", "\"early,one\",", 2, "8 fields"),
            ("before,", "Before,", 3, "\"Before\" is no name of a pod"),
            ("before,", "be_fore,", 3, "lower case letters"),
            ("before,", ",", 3, "\"\" is no name"),
            ("late,", "early,", 4, "the pod early is on line 2 already"),
            ("30,200", "30,29", 4, "late leaves at 29 and comes at 30"),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let flaw = read(&TEXT.replacen(from, to, 1), all).unwrap_err();
            let said = format!("{}; {}", flaw.problem, flaw.remedy);
            assert!(flaw.line == line && said.contains(words), "line {}: {said} should contain {words}", flaw.line);
        }
        assert!(read("", all).unwrap_err().problem.contains("no column"));
        assert!(read(TEXT, Window { from: 900, to: 901 }).unwrap_err().problem.contains("no pods"));
    }
}
