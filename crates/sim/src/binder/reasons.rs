//! Why a pod finds no place, in kube-scheduler's words.

use std::collections::BTreeMap;

use model::resources::Resources;

use super::board::{Board, Facts, Seat, Slot};
use super::class::{Class, ClassId};
use super::look::Look;

/// The rule that keeps a pod off a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    /// There is no such node.
    Absent,
    Unschedulable,
    Taint,
    NodeAffinity,
    Ports,
    Resources,
    Attachments,
    VolumePlace,
    SpreadLabel,
    Spread,
    Affinity,
    AntiAffinity,
    ExistingAntiAffinity,
    ResourceClaims,
}

impl Refusal {
    const ALL: [Self; 14] = [
        Self::Absent,
        Self::Unschedulable,
        Self::Taint,
        Self::NodeAffinity,
        Self::Ports,
        Self::Resources,
        Self::Attachments,
        Self::VolumePlace,
        Self::SpreadLabel,
        Self::Spread,
        Self::Affinity,
        Self::AntiAffinity,
        Self::ExistingAntiAffinity,
        Self::ResourceClaims,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Absent => "node(s) didn't match the requested node name",
            Self::Unschedulable => "node(s) were unschedulable",
            Self::Taint => "node(s) had untolerated taint(s)",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::Resources => "Insufficient resources",
            Self::Attachments => "node(s) exceed max volume count",
            Self::VolumePlace => "node(s) didn't match PersistentVolume's node affinity",
            Self::SpreadLabel => "node(s) didn't match pod topology spread constraints (missing required label)",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::Affinity => "node(s) didn't match pod affinity rules",
            Self::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::ResourceClaims => "cannot allocate all claims",
        }
    }

    /// Whether other pods' leaving could help. Too few resources are looked at more closely.
    pub(super) fn is_curable(self) -> bool {
        matches!(
            self,
            Self::Ports
                | Self::Resources
                | Self::Attachments
                | Self::Spread
                | Self::AntiAffinity
                | Self::ExistingAntiAffinity
        )
    }
}

/// Counts by reason.
pub(super) type Histogram = BTreeMap<String, usize>;

/// `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).`
pub(super) fn sentence(nodes: usize, reasons: &Histogram) -> String {
    let mut parts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    // By their whole text, numbers first, as the original does.
    parts.sort();
    let start = format!("0/{nodes} nodes are available:");
    if parts.is_empty() { start } else { format!("{start} {}.", parts.join(", ")) }
}

/// What all nodes have against a class.
pub(super) struct Survey {
    pub(super) reasons: Histogram,
    /// Nodes from which others would have to leave to let a pod in, if that can help at all.
    pub(super) curable: Vec<Slot>,
}

impl Board {
    pub(super) fn survey(&self, class: ClassId, look: &Look) -> Survey {
        let mut tally = Tally::default();
        let nodes = self.nodes().map(|(slot, ..)| slot);
        let curable = nodes.filter(|slot| self.tally(&mut tally, class, look, *slot)).collect();
        Survey { reasons: tally.histogram(self.class(class)), curable }
    }

    /// The same for a pod that is made for one node.
    pub(super) fn survey_pinned(&self, class: ClassId, look: &Look, pinned: Option<Slot>) -> Survey {
        let pinned = pinned.filter(|slot| self.seat_at(*slot).is_some_and(|seat| seat.facts.is_some()));
        let mut tally = Tally::default();
        let curable = pinned.into_iter().filter(|slot| self.tally(&mut tally, class, look, *slot)).collect();
        let mut reasons = tally.histogram(self.class(class));
        let others = self.node_count() - usize::from(pinned.is_some());
        if others > 0 {
            reasons.insert("node(s) didn't satisfy plugin(s) [NodeAffinity]".to_owned(), others);
        }
        Survey { reasons, curable }
    }

    /// What one node has against a class.
    pub(super) fn objections(&self, class: ClassId, look: &Look, slot: Slot) -> Histogram {
        let mut tally = Tally::default();
        self.tally(&mut tally, class, look, slot);
        tally.histogram(self.class(class))
    }

    /// Counts one node's refusal, and says whether others' leaving could help.
    fn tally(&self, tally: &mut Tally, class: ClassId, look: &Look, slot: Slot) -> bool {
        let Some(refusal) = self.refusal(class, look, slot) else { return false };
        let node = self.seat_at(slot).and_then(|seat| Some((seat, seat.facts.as_ref()?)));
        let Some((seat, facts)) = node else { return false };
        tally.by_refusal[refusal as usize] += 1;
        let is_hopeless = refusal == Refusal::Resources && !tally.add_short(self.class(class), seat, facts);
        refusal.is_curable() && !is_hopeless
    }
}

/// Counts without a word, for there may be thousands of nodes.
#[derive(Default)]
struct Tally {
    by_refusal: [usize; Refusal::ALL.len()],
    /// By resource, in the order of [`axes`].
    short: [usize; 4],
    /// The same for the class's extended resources.
    short_extended: Vec<usize>,
}

impl Tally {
    /// Counts every resource that is short; says whether the pod would fit if the node were empty.
    fn add_short(&mut self, class: &Class, seat: &Seat, facts: &Facts) -> bool {
        let (wanted, had, used) = (axes(&class.sample.requests), axes(&facts.allocatable), axes(&seat.used));
        let mut is_large_enough = true;
        for (axis, short) in self.short.iter_mut().enumerate() {
            let is_place = axis == PLACES;
            let wanted = if is_place { wanted[axis].max(1) } else { wanted[axis] };
            *short += usize::from(wanted > 0 && wanted > had[axis].saturating_sub(used[axis]));
            is_large_enough &= is_place || wanted <= had[axis];
        }
        self.short_extended.resize(class.extended.len(), 0);
        for ((axis, wanted), short) in class.extended.iter().zip(&mut self.short_extended) {
            let had = facts.allocatable.get(axis);
            *short += usize::from(*wanted > 0 && *wanted > had.saturating_sub(seat.used.get(axis)));
            is_large_enough &= *wanted <= had;
        }
        is_large_enough
    }

    fn histogram(&self, class: &Class) -> Histogram {
        let refusals = Refusal::ALL.into_iter().filter(|refusal| *refusal != Refusal::Resources);
        let refusals = refusals.map(|refusal| (refusal.words().to_owned(), self.by_refusal[refusal as usize]));
        let short = ["Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage", "Too many pods"];
        let short = short.into_iter().map(str::to_owned).zip(self.short);
        let extended = class.extended.iter().zip(&self.short_extended);
        let extended = extended.map(|((axis, _), count)| (format!("Insufficient {axis}"), *count));
        refusals.chain(short).chain(extended).filter(|(_, count)| *count > 0).collect()
    }
}

const PLACES: usize = 3;

fn axes(resources: &Resources) -> [i64; 4] {
    [resources.cpu_milli, resources.memory_bytes, resources.disk_bytes, resources.pods]
}
