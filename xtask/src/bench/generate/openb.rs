//! The pods of a recorded production cluster. The trace is public and not part of the tree.

use std::path::Path;

use anyhow::{Context, ensure};

use super::diverse::Size;
use super::draft::{Draft, PodShape};

/// Relative to the folder of data.
pub(in crate::bench) const TRACE: &str = "openb/openb_pod_list_default.csv";

/// A pod of the trace. A share of a GPU counts as a whole one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bench) struct TracedPod {
    pub(in crate::bench) name: String,
    size: Size,
    gpus: u32,
    /// Seconds of the trace's own clock.
    pub(in crate::bench) comes: u64,
    pub(in crate::bench) leaves: u64,
}

pub(in crate::bench) fn read(data: &Path) -> anyhow::Result<Vec<TracedPod>> {
    let path = data.join(TRACE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| {
        let found = header.iter().position(|column| *column == name);
        found.with_context(|| format!("{} has no column {name}", path.display()))
    };
    let names = ["name", "cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time"];
    let columns = names.into_iter().map(column).collect::<anyhow::Result<Vec<usize>>>()?;
    let mut pods = Vec::new();
    for (index, line) in lines.enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        let at = || format!("{}:{}", path.display(), index + 2);
        ensure!(columns.iter().all(|column| *column < fields.len()), "{}: a row is too short", at());
        let number = |which: usize| fields[columns[which]].parse::<u32>().with_context(at);
        pods.push(TracedPod {
            name: fields[columns[0]].to_owned(),
            size: Size { cpu_milli: number(1)?.into(), memory_mib: number(2)?.into() },
            gpus: number(3)?,
            comes: number(4)?.into(),
            leaves: number(5)?.into(),
        });
    }
    Ok(pods)
}

/// Everybody waits. A pod that fits on no machine of the catalogue is left out.
pub(super) fn add_pods(draft: &mut Draft, pods: &[TracedPod]) {
    for pod in pods.iter().filter(|pod| fits_somewhere(draft, pod.size, pod.gpus)).collect::<Vec<_>>() {
        let template = draft.template(&PodShape::new(pod.size).gpus(pod.gpus).labelled("trace", "openb"));
        draft.wait(template, &pod.name, None);
    }
}

fn fits_somewhere(draft: &Draft, size: Size, gpus: u32) -> bool {
    let wanted = [
        ("cpu", api::Quantity::from_milli(size.cpu_milli)),
        ("memory", api::Quantity::from_bytes(size.memory_mib << 20)),
        ("nvidia.com/gpu", api::Quantity::from_units(i64::from(gpus))),
    ];
    let zero = api::Quantity::from_units(0);
    draft.types().iter().any(|kind| {
        wanted.iter().all(|(name, wanted)| {
            let milli = |list: &api::ResourceList| list.get(*name).unwrap_or(&zero).milli();
            wanted.milli() <= milli(&kind.capacity) - milli(&kind.overhead)
        })
    })
}
