//! The shapes of instance types, as `DescribeInstanceTypes` reports them and moto ships them.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::tables::Tables;

/// What the file says about one type. `None` is written as missing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) arch: &'static str,
    pub(super) cpus: u32,
    pub(super) memory_mib: u64,
    pub(super) maker: String,
    pub(super) clock_mhz: Option<u64>,
    /// `None` for bare metal.
    pub(super) hypervisor: Option<String>,
    pub(super) has_on_demand: bool,
    pub(super) has_spot: bool,
    /// Of the default network card, which is where pods get their addresses.
    pub(super) interfaces: u32,
    pub(super) addresses_per_interface: u32,
    pub(super) branch_interfaces: Option<u32>,
    pub(super) efa_interfaces: u32,
    pub(super) network_mbps: Option<u64>,
    pub(super) ebs_mbps: Option<u64>,
    pub(super) volumes: Option<u32>,
    pub(super) nvme_gb: Option<u64>,
    pub(super) encrypts_in_transit: bool,
    pub(super) has_enclaves: bool,
    pub(super) gpu: Option<Gpu>,
    pub(super) accelerator: Option<Accelerator>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gpu {
    pub(super) maker: String,
    pub(super) name: String,
    pub(super) count: u32,
    /// Of each one.
    pub(super) memory_mib: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Accelerator {
    pub(super) maker: String,
    pub(super) name: String,
    pub(super) count: u32,
    /// Neuron cores of each one; `None` when it is no Neuron device.
    pub(super) cores: Option<u32>,
}

/// All types that a Linux node can run on; macOS machines are left out.
pub(super) fn read(json: &str, tables: &Tables) -> anyhow::Result<BTreeMap<String, Shape>> {
    let described: BTreeMap<String, Described> = serde_json::from_str(json).context("reading the instance types")?;
    let mut shapes = BTreeMap::new();
    for (name, described) in described {
        let Some(arch) = described.arch() else { continue };
        if described.supported_virtualization_types.iter().any(|kind| kind == "hvm") {
            let shape = described.shape(&name, arch, tables).with_context(|| format!("reading {name}"))?;
            shapes.insert(name, shape);
        }
    }
    Ok(shapes)
}

impl Described {
    fn arch(&self) -> Option<&'static str> {
        self.processor_info.supported_architectures.iter().find_map(|arch| match arch.as_str() {
            "x86_64" => Some("amd64"),
            "arm64" => Some("arm64"),
            _ => None,
        })
    }

    fn shape(self, name: &str, arch: &'static str, tables: &Tables) -> anyhow::Result<Shape> {
        let network = &self.network_info;
        let index = network.default_network_card_index.unwrap_or(0);
        let card = network.network_cards.iter().find(|card| card.network_card_index == index);
        let is_sold = |usage: &str| self.supported_usage_classes.iter().any(|class| class == usage);
        Ok(Shape {
            arch,
            cpus: self.v_cpu_info.default_v_cpus,
            memory_mib: self.memory_info.size_mib,
            maker: kebab(self.processor_info.manufacturer.as_deref().context("its processor has no maker")?),
            clock_mhz: self.processor_info.sustained_clock_speed_in_ghz.map(thousandfold),
            hypervisor: self.hypervisor.clone(),
            has_on_demand: is_sold("on-demand"),
            has_spot: is_sold("spot"),
            interfaces: card.context("its default network card is not described")?.maximum_network_interfaces,
            addresses_per_interface: network.ipv4_addresses_per_interface,
            branch_interfaces: tables.branch_interfaces.get(name).copied(),
            efa_interfaces: network.efa_info.as_ref().map_or(0, |efa| efa.maximum_efa_interfaces),
            network_mbps: self.network_mbps(tables.bandwidth_mbps.get(name).copied()),
            ebs_mbps: self.ebs_mbps(),
            volumes: self.ebs_info.maximum_ebs_attachments,
            nvme_gb: self.nvme_gb(),
            encrypts_in_transit: network.encryption_in_transit_supported,
            has_enclaves: self.nitro_enclaves_support == "supported",
            gpu: self.gpu()?,
            accelerator: self.accelerator()?,
        })
    }

    /// The reference's table where it has the type: EC2 repeats the sum of all cards on each card of some types, so adding
    /// cards up is right only most of the time.
    fn network_mbps(&self, known: Option<u64>) -> Option<u64> {
        let cards = &self.network_info.network_cards;
        let sum: Option<f64> = cards.iter().map(|card| card.baseline_bandwidth_in_gbps).sum();
        known.or_else(|| sum.map(thousandfold).filter(|mbps| *mbps > 0))
    }

    fn ebs_mbps(&self) -> Option<u64> {
        let optimized = self.ebs_info.ebs_optimized_info.as_ref();
        optimized
            .filter(|_| self.ebs_info.ebs_optimized_support == "default")
            .map(|info| info.maximum_bandwidth_in_mbps)
    }

    fn nvme_gb(&self) -> Option<u64> {
        let storage = self.instance_storage_info.as_ref()?;
        (storage.nvme_support != "unsupported").then_some(storage.total_size_gb)
    }

    /// The file has room for one kind of GPU, which is all that exists so far.
    fn gpu(&self) -> anyhow::Result<Option<Gpu>> {
        match self.gpu_info.as_ref().map_or(&[][..], |info| &info.gpus) {
            [] => Ok(None),
            [gpu] => Ok(Some(Gpu {
                maker: kebab(&gpu.manufacturer),
                name: kebab(&gpu.name),
                count: gpu.count,
                memory_mib: gpu.memory_info.size_mib,
            })),
            several => bail!("it has {} kinds of GPU, and the file has room for one", several.len()),
        }
    }

    /// Neuron devices come before the older description of the same chips.
    fn accelerator(&self) -> anyhow::Result<Option<Accelerator>> {
        let neuron = self.neuron_info.as_ref().map_or(&[][..], |info| &info.neuron_devices);
        let inference = self.inference_accelerator_info.as_ref().map_or(&[][..], |info| &info.accelerators);
        match (neuron, inference) {
            ([], []) => Ok(None),
            ([device], _) => Ok(Some(Accelerator {
                maker: "aws".to_owned(),
                name: kebab(&device.name),
                count: device.count,
                cores: Some(device.core_info.count),
            })),
            ([], [chip]) => Ok(Some(Accelerator {
                maker: kebab(&chip.manufacturer),
                name: kebab(&chip.name),
                count: chip.count,
                cores: None,
            })),
            _ => bail!("it has several kinds of accelerator, and the file has room for one"),
        }
    }
}

/// A label value: lower case, joined by hyphens.
fn kebab(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join("-")
}

/// Giga to mega. The sources give two decimals, so rounding only undoes the binary fraction.
fn thousandfold(number: f64) -> u64 {
    (number * 1000.0).round() as u64
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    hypervisor: Option<String>,
    processor_info: Processor,
    v_cpu_info: Cpus,
    memory_info: Memory,
    network_info: Network,
    ebs_info: Ebs,
    instance_storage_info: Option<Storage>,
    gpu_info: Option<Gpus>,
    neuron_info: Option<Neuron>,
    inference_accelerator_info: Option<Inference>,
    nitro_enclaves_support: String,
    supported_usage_classes: Vec<String>,
    supported_virtualization_types: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Processor {
    manufacturer: Option<String>,
    supported_architectures: Vec<String>,
    sustained_clock_speed_in_ghz: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Cpus {
    default_v_cpus: u32,
}

#[derive(Deserialize)]
struct Memory {
    #[serde(rename = "SizeInMiB")]
    size_mib: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Network {
    default_network_card_index: Option<u32>,
    network_cards: Vec<Card>,
    ipv4_addresses_per_interface: u32,
    encryption_in_transit_supported: bool,
    efa_info: Option<Efa>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Card {
    network_card_index: u32,
    maximum_network_interfaces: u32,
    baseline_bandwidth_in_gbps: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Efa {
    maximum_efa_interfaces: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Ebs {
    ebs_optimized_support: String,
    ebs_optimized_info: Option<EbsOptimized>,
    maximum_ebs_attachments: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EbsOptimized {
    maximum_bandwidth_in_mbps: u64,
}

#[derive(Deserialize)]
struct Storage {
    #[serde(rename = "TotalSizeInGB")]
    total_size_gb: u64,
    #[serde(rename = "NvmeSupport")]
    nvme_support: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Gpus {
    gpus: Vec<GpuKind>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GpuKind {
    name: String,
    manufacturer: String,
    count: u32,
    memory_info: Memory,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Neuron {
    neuron_devices: Vec<NeuronDevice>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NeuronDevice {
    name: String,
    count: u32,
    core_info: Cores,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Cores {
    count: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inference {
    accelerators: Vec<Chip>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Chip {
    name: String,
    manufacturer: String,
    count: u32,
}
