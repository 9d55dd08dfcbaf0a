//! All pods of a recorded production cluster, as if they came at once. The trace is public and not part of the tree.

use std::path::Path;

use anyhow::{Context, ensure};

use super::diverse::Size;
use super::draft::{Draft, PodShape};

/// Relative to the folder of data.
pub(in crate::bench) const TRACE: &str = "openb/openb_pod_list_default.csv";

/// A pod that shares a GPU counts as one that has a whole one. A pod that fits on no machine of the catalogue is left out.
pub(super) fn add_pods(draft: &mut Draft, data: &Path) -> anyhow::Result<()> {
    let path = data.join(TRACE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| {
        let found = header.iter().position(|column| *column == name);
        found.with_context(|| format!("{} has no column {name}", path.display()))
    };
    let columns = [column("name")?, column("cpu_milli")?, column("memory_mib")?, column("num_gpu")?];
    for (index, line) in lines.enumerate() {
        let fields: Vec<&str> = line.split(',').collect();
        let at = || format!("{}:{}", path.display(), index + 2);
        ensure!(columns.iter().all(|column| *column < fields.len()), "{}: a row is too short", at());
        let number = |which: usize| fields[columns[which]].parse::<i64>().with_context(at);
        let size = Size { cpu_milli: number(1)?, memory_mib: number(2)? };
        let gpus = u32::try_from(number(3)?).with_context(at)?;
        if fits_somewhere(draft, size, gpus) {
            let template = draft.template(&PodShape::new(size).gpus(gpus).labelled("trace", "openb"));
            draft.wait(template, fields[columns[0]], None);
        }
    }
    Ok(())
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
