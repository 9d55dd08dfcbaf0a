//! How much a node of a type has, and how much of it the system keeps, on AL2023 with kubelet defaults.

use model::resources::Resources;

use super::read::Shape;

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

/// What the hypervisor and firmware take of the memory that EC2 advertises, in thousandths. No API tells it; this is the
/// reference's default.
const MEMORY_LOST_PERMILLE: i64 = 75;
/// Arm machines set this much aside at boot.
const ARM_MEMORY_LOST_MIB: i64 = 64;
const ROOT_VOLUME_BYTES: i64 = 20 * GIB;
const KUBELET_DISK_BYTES: i64 = GIB;
const EVICTION_MEMORY_MIB: i64 = 100;
const EVICTION_DISK_PERCENT: i64 = 10;

pub(super) fn capacity(shape: &Shape<'_>) -> Resources {
    let advertised = shape.memory_mib - if shape.arch == "arm64" { ARM_MEMORY_LOST_MIB } else { 0 };
    let memory_mib = advertised - divided_up(advertised * MEMORY_LOST_PERMILLE, 1000);
    let base = Resources::default()
        .with("cpu", shape.cpus * 1000)
        .with("memory", memory_mib * MIB)
        .with("ephemeral-storage", ROOT_VOLUME_BYTES)
        .with("pods", pods(shape))
        .with("vpc.amazonaws.com/pod-eni", shape.branch_interfaces.unwrap_or(0))
        .with("vpc.amazonaws.com/efa", shape.efa_interfaces);
    let with_gpus = match shape.gpu.as_ref() {
        Some(gpu) => gpu_resource(gpu.maker).map_or(base.clone(), |resource| base.with(resource, gpu.count)),
        None => base,
    };
    match shape.accelerator.as_ref().and_then(|accelerator| Some((accelerator.count, accelerator.cores?))) {
        Some((devices, cores)) => {
            with_gpus.with("aws.amazon.com/neuron", devices).with("aws.amazon.com/neuroncore", devices * cores)
        }
        None => with_gpus,
    }
}

pub(super) fn overhead(shape: &Shape<'_>) -> Resources {
    let kubelet_memory_mib = 11 * pods(shape) + 255;
    Resources::default()
        .with("cpu", kubelet_cpu_milli(shape.cpus * 1000))
        .with("memory", (kubelet_memory_mib + EVICTION_MEMORY_MIB) * MIB)
        .with("ephemeral-storage", KUBELET_DISK_BYTES + divided_up(ROOT_VOLUME_BYTES * EVICTION_DISK_PERCENT, 100))
}

/// Every interface keeps one address for itself; two pods use the node's own network.
fn pods(shape: &Shape<'_>) -> i64 {
    match shape.interfaces {
        0 => 0,
        interfaces => interfaces * (shape.addresses_per_interface - 1) + 2,
    }
}

/// A share of each band of cores, smaller from band to band, and each rounded down by itself.
fn kubelet_cpu_milli(milli: i64) -> i64 {
    const BANDS: [(i64, i64, i64); 4] = [(0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, i64::MAX, 25)];
    BANDS.iter().map(|(from, to, per_10_000)| (milli.min(*to) - from).max(0) * per_10_000 / 10_000).sum()
}

fn gpu_resource(maker: &str) -> Option<&'static str> {
    match maker {
        "nvidia" => Some("nvidia.com/gpu"),
        "amd" => Some("amd.com/gpu"),
        "habana" => Some("habana.ai/gaudi"),
        _ => None,
    }
}

fn divided_up(number: i64, divisor: i64) -> i64 {
    (number + divisor - 1).div_euclid(divisor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelet_keeps_a_falling_share_of_the_cores() {
        for (cores, milli) in [(1, 60), (2, 70), (4, 80), (36, 160), (96, 310)] {
            assert_eq!(kubelet_cpu_milli(cores * 1000), milli, "{cores} cores");
        }
    }
}
