//! CapacityBuffers: how many pods each stands for, and those pods.

#[cfg(test)]
mod tests;

use api::CapacityBuffer;
use k8s_openapi::api::core::v1::{Pod as WirePod, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::ids::Uid;
use model::pod::{DoNotDisrupt, Life, Owner, Pod, Readiness};

use super::pod::Surroundings;
use super::resources::{Amounts, Origin, requests};
use super::{Lowered, Oddities, created, pod, volume};

/// Most pods that one buffer can stand for. A slip of the finger must not fill our memory.
const MOST_PODS: u32 = 10_000;

/// What a buffer refers to, once it has been looked up.
#[derive(Clone, Copy, Debug)]
pub struct Resolved<'a> {
    pub template: &'a PodTemplateSpec,
    pub source: Source,
}

/// Where the template stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a PodTemplate, which has no size.
    PodTemplate,
    /// In a workload with so many replicas; one that does not say has one.
    Workload { replicas: Option<i32> },
}

/// How many pods the buffer stands for.
///
/// The greater of the fixed number and the share of the workload, as the reference does it; its field documentation says
/// the smaller. Limits cap that, or stand alone.
pub fn replicas(buffer: &CapacityBuffer, resolved: &Resolved<'_>) -> Lowered<u32> {
    let mut oddities = Oddities::of("CapacityBuffer", &buffer.metadata);
    let fixed = buffer.spec.replicas.map(count);
    let share = buffer.spec.percentage.and_then(|percentage| match resolved.source {
        Source::Workload { replicas } => Some(share(count(percentage), count(replicas.unwrap_or(1)))),
        Source::PodTemplate => None,
    });
    let cap = capped_by_limits(buffer, resolved.template, &mut oddities);
    let wanted = match (fixed.max(share), cap) {
        (Some(wanted), Some(cap)) => wanted.min(cap),
        (Some(wanted), None) => wanted,
        (None, Some(cap)) => cap,
        (None, None) => {
            oddities.note("spec", "nothing says how many pods the buffer is for; set replicas, percentage or limits");
            0
        }
    };
    oddities.with(wanted)
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// So many hundredths of the replicas, rounded up.
fn share(percentage: u32, replicas: u32) -> u32 {
    let share = (u64::from(percentage) * u64::from(replicas)).div_ceil(100);
    u32::try_from(share).unwrap_or(u32::MAX)
}

/// How many pods the limits have room for; `None` when no limit is on anything that the pod asks for.
fn capped_by_limits(buffer: &CapacityBuffer, template: &PodTemplateSpec, oddities: &mut Oddities<'_>) -> Option<u32> {
    let spec = template.spec.as_ref()?;
    let asked = requests(spec, Origin::Template, oddities);
    let limits = Amounts::of_list(buffer.spec.limits.as_ref()?);
    let room = limits.iter().filter_map(|(name, limit)| {
        let each = if name == "pods" { 1000 } else { asked.get(name)? };
        (each > 0).then(|| limit.max(0) / each)
    });
    room.min().map(|most| u32::try_from(most).unwrap_or(u32::MAX))
}

/// The pods that the buffer stands for. Equal buffers give equal pods, names and uids included.
pub fn pods(buffer: &CapacityBuffer, resolved: &Resolved<'_>, around: &Surroundings<'_>) -> Lowered<Vec<Pod>> {
    let Lowered { value: wanted, oddities: about_size } = replicas(buffer, resolved);
    let mut oddities = Oddities::of("CapacityBuffer", &buffer.metadata);
    if wanted > MOST_PODS {
        oddities.note("spec.replicas", format_args!("{wanted} pods are too many for one buffer; {MOST_PODS} are used"));
    }
    let spec = stripped(resolved.template);
    let prototype = pod::from_template(&wire(buffer, resolved.template, &spec), around);
    let numbers = 1..=wanted.min(MOST_PODS);
    let found = numbers.map(|number| numbered(buffer, number, &prototype.value, &spec)).collect();
    let mut lowered = oddities.with(found);
    lowered.oddities.extend(about_size.into_iter().chain(prototype.oddities));
    lowered
}

/// The template's spec without volumes behind claims: nobody makes claims for pods that do not exist.
fn stripped(template: &PodTemplateSpec) -> PodSpec {
    let mut spec = template.spec.clone().unwrap_or_default();
    if let Some(volumes) = &mut spec.volumes {
        volumes.retain(|volume| !volume::needs_claim(volume));
    }
    spec.node_name = None;
    spec
}

fn wire(buffer: &CapacityBuffer, template: &PodTemplateSpec, spec: &PodSpec) -> WirePod {
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.clone());
    WirePod {
        metadata: ObjectMeta {
            name: Some(name(buffer, 1)),
            namespace: buffer.metadata.namespace.clone(),
            labels,
            ..ObjectMeta::default()
        },
        spec: Some(spec.clone()),
        status: None,
    }
}

fn name(buffer: &CapacityBuffer, number: u32) -> String {
    format!("capacity-buffer-{}-{number}", buffer.metadata.name.as_deref().unwrap_or_default())
}

fn numbered(buffer: &CapacityBuffer, number: u32, prototype: &Pod, spec: &PodSpec) -> Pod {
    let uid = format!("{}-{number}", buffer.metadata.uid.as_deref().unwrap_or_default());
    let mut pod = prototype.clone();
    pod.name.name = name(buffer, number).into();
    pod.wants.volumes.attached = volume::inline(spec, &uid);
    pod.uid = Uid::from(uid);
    pod.priority = i32::MIN;
    pod.created = created(&buffer.metadata);
    pod.life = Life::Active;
    pod.owner = Owner::Other;
    pod.is_unschedulable = true;
    pod.is_nominated = false;
    pod.do_not_disrupt = DoNotDisrupt::No;
    pod.is_ready = Readiness::Unknown;
    pod.is_virtual = true;
    pod
}
