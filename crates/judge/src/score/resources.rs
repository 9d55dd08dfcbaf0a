//! NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation.

use model::pod::Pod;
use model::resources::Resources;

use super::MOST;
use crate::world::Node;

/// What a container that asks for nothing counts for, so that such pods do not all land on one node.
const DEFAULT_CPU_MILLI: i64 = 100;
const DEFAULT_MEMORY_BYTES: i64 = 200 * 1024 * 1024;

/// Cpu and memory, which both plugins look at.
type Pair = [i64; 2];

/// The emptier, the better.
pub(super) fn least_allocated(pod: &Pod, nodes: &[&Node]) -> Vec<i64> {
    nodes
        .iter()
        .map(|node| {
            let standing = node.pods().map(|other| non_zero(other)).fold(pair(node.reserved()), plus);
            mean_free(plus(standing, non_zero(pod)), pair(&node.allocatable))
        })
        .collect()
}

/// Resources that the node does not have say nothing.
fn mean_free(requested: Pair, allocatable: Pair) -> i64 {
    let had: Vec<(i64, i64)> = requested.into_iter().zip(allocatable).filter(|(_, most)| *most != 0).collect();
    let points: i64 = had.iter().map(|(used, most)| free_points(*used, *most)).sum();
    points.checked_div(i64::try_from(had.len()).unwrap_or(1)).unwrap_or(0)
}

fn free_points(used: i64, most: i64) -> i64 {
    if used > most {
        return 0;
    }
    let points = (i128::from(most) - i128::from(used)) * i128::from(MOST) / i128::from(most);
    i64::try_from(points).unwrap_or(0)
}

/// The model knows a pod's sum but not its containers, so a pod counts here like one container.
fn non_zero(pod: &Pod) -> Pair {
    let [cpu, memory] = pair(&pod.requests);
    [if cpu == 0 { DEFAULT_CPU_MILLI } else { cpu }, if memory == 0 { DEFAULT_MEMORY_BYTES } else { memory }]
}

/// The more the pod evens out the shares of cpu and memory that are in use, the better: around 75 where it changes little.
/// A pod that asks for neither changes nothing anywhere.
pub(super) fn balanced(pod: &Pod, nodes: &[&Node]) -> Vec<i64> {
    let wanted = pair(&pod.requests);
    if wanted == [0, 0] {
        return vec![0; nodes.len()];
    }
    nodes
        .iter()
        .map(|node| {
            let before = pair(&node.used().plus(node.reserved()));
            let allocatable = pair(&node.allocatable);
            let gain = balance(plus(before, wanted), allocatable) - balance(before, allocatable);
            MOST / 2 + (MOST / 2 + gain) / 2
        })
        .collect()
}

/// 100 when both shares are equal, 50 when one is full and the other empty; cut to a whole number.
fn balance(requested: Pair, allocatable: Pair) -> i64 {
    let has_both = allocatable.iter().all(|most| *most != 0);
    let [cpu, memory] = [0, 1].map(|axis: usize| (requested[axis] as f64 / allocatable[axis] as f64).min(1.0));
    let deviation = if has_both { ((cpu - memory) / 2.0).abs() } else { 0.0 };
    ((1.0 - deviation) * MOST as f64) as i64
}

fn pair(resources: &Resources) -> Pair {
    [resources.cpu_milli, resources.memory_bytes]
}

fn plus(a: Pair, b: Pair) -> Pair {
    [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])]
}
