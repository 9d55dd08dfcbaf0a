//! Why a pod has no place: the fewest constraints that would have to go.
//!
//! On a node that is there, constraints do not interact: those that fail are the reason. On a machine to come they do, so they
//! are set aside one at a time, then two at a time, until the pod would fit on a new machine of the pool as the plan stands.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::ids::{NodeName, PodName, PoolName};
use model::labels::HOSTNAME;
use model::pool::BrokenLimit;
use model::requirements::{Clash, Operator, Requirement, Requirements, Undefined};
use model::taints::first_untolerated;
use model::volume::first_overfull;
use model::why::{Obstacle, Unplaced};

use super::bits::Bits;
use super::claims::{Claim, conflict};
use super::greedy::Greedy;
use super::lift::{Constraint, Lift};
use super::listing::unmet;
use super::neighbours::Neighbours;
use super::outlook::Stock;
use super::topology::{Ground, Rule, Spot, Weighed};
use super::words::{Key, Mask, hold_surely};

/// Past this many constraints, pairs are too many to try.
const MOST_FOR_PAIRS: usize = 64;

/// Nodes and pods that reasons may look at, beside some for each there is.
const LOOKS: u64 = 1_000_000;

/// How many looks at a node a trial on a pool is worth.
const TRIAL: u64 = 20;

/// An inquiry into a finished plan. What it may look at is bounded, whatever the plan leaves out; when that is spent, or
/// somebody waits no longer, reasons get shorter, never wrong.
pub(crate) struct Inquiry<'g, 'w, 'a> {
    pub(crate) greedy: &'g Greedy<'w, 'a>,
    neighbours: OnceCell<Neighbours>,
    looks: Looks<'g>,
}

/// How many looks are left, as long as somebody waits for what comes of them.
struct Looks<'c> {
    left: Cell<u64>,
    cancel: &'c AtomicBool,
}

impl Looks<'_> {
    /// Takes so many looks, if they are left.
    fn take(&self, looks: u64) -> bool {
        let left = self.left.get().checked_sub(looks).filter(|_| !self.cancel.load(Ordering::Relaxed));
        self.left.set(left.unwrap_or_else(|| self.left.get()));
        left.is_some()
    }
}

impl<'g, 'w, 'a> Inquiry<'g, 'w, 'a> {
    pub(crate) fn new(greedy: &'g Greedy<'w, 'a>, cancel: &'g AtomicBool) -> Self {
        let size = greedy.world.pods.len() + greedy.world.sites.len();
        let left = Cell::new(LOOKS.saturating_add(10 * size as u64));
        Self { greedy, neighbours: OnceCell::new(), looks: Looks { left, cancel } }
    }

    fn other(&self, rule: &Rule, spot: Option<&Spot<'_>>) -> Option<PodName> {
        let neighbours = self.neighbours.get_or_init(|| Neighbours::new(self.greedy));
        neighbours.other(self.greedy, rule, spot, || self.looks.take(1))
    }
}

/// A reason for every pod without a seat.
pub(crate) fn unplaced(inquiry: &Inquiry<'_, '_, '_>) -> Vec<Unplaced> {
    let greedy = inquiry.greedy;
    let mut of_class: Vec<Option<Unplaced>> = vec![None; greedy.classes.len()];
    let mut reasons = Vec::new();
    for pod in (0..greedy.world.pods.len()).filter(|pod| greedy.seats[*pod].is_none()) {
        let class = greedy.class_of[pod];
        let mut reason = of_class[class].get_or_insert_with(|| explain_class(inquiry, class)).clone();
        reason.pod = greedy.world.pods[pod].name.clone();
        if !greedy.reached[pod] && !reason.general.contains(&Obstacle::NotReached) {
            reason.general.insert(0, Obstacle::NotReached);
        }
        reasons.push(reason);
    }
    reasons
}

fn explain_class(inquiry: &Inquiry<'_, '_, '_>, class: usize) -> Unplaced {
    let greedy = inquiry.greedy;
    let pod = greedy.classes[class].pod;
    let facts = [
        (pod.wants.has_resource_claims, Obstacle::ResourceClaims),
        (greedy.world.pools.is_empty(), Obstacle::NoPool),
        (greedy.deferred[class], Obstacle::Reserved),
    ];
    let template = |pool: &PoolName| greedy.world.templates.iter().position(|template| template.pool.name == *pool);
    let explained = greedy.world.pools.iter().map(|pool| {
        let nothing_on_sale = Some(vec![Obstacle::NoInstanceType]);
        let obstacles = template(&pool.name).map_or(nothing_on_sale, |number| explain_pool(inquiry, class, number));
        Some((pool.name.clone(), obstacles?))
    });
    let pools: Vec<Option<(PoolName, Vec<Obstacle>)>> = explained.collect();
    let is_cut_short = pools.contains(&None);
    let pools: Vec<(PoolName, Vec<Obstacle>)> = pools.into_iter().flatten().collect();
    let closest =
        pools.iter().filter(|(_, obstacles)| !obstacles.is_empty()).min_by_key(|(_, obstacles)| obstacles.len());
    // Whoever gets no full answer is told so.
    let facts = facts.into_iter().chain([(is_cut_short, Obstacle::NotReached)]);
    Unplaced {
        pod: pod.name.clone(),
        nearest_node: nearest_site(inquiry, class),
        closest_pool: closest.map(|(name, _)| name.clone()),
        general: facts.filter(|(holds, _)| *holds).map(|(_, obstacle)| obstacle).collect(),
        pools,
    }
}

/// The node with the fewest obstacles, and what they are. One obstacle is few enough to look no further.
pub(crate) fn nearest_site(inquiry: &Inquiry<'_, '_, '_>, class: usize) -> Option<(NodeName, Vec<Obstacle>)> {
    let sites = &inquiry.greedy.world.sites;
    let open = (0..sites.len()).filter(|site| sites[*site].takes_pods && !sites[*site].is_overdrawn);
    let rules = rules_of(inquiry.greedy, class);
    let mut nearest: Option<(usize, usize)> = None;
    for site in open.take_while(|_| inquiry.looks.take(1)) {
        let count = count_obstacles(inquiry.greedy, class, site, &rules);
        if nearest.is_none_or(|(fewest, _)| count < fewest) {
            nearest = Some((count, site));
        }
        if count <= 1 {
            break;
        }
    }
    let (_, site) = nearest?;
    Some((sites[site].node.name.clone(), explain_site(inquiry, class, site, &rules)))
}

/// The rules that bind a pod of this class, as the plan stands.
fn rules_of<'g>(greedy: &'g Greedy<'_, '_>, class: usize) -> Vec<Weighed<'g>> {
    let class = &greedy.classes[class];
    let rules = class.rungs[class.least_demanding()].rules.iter().chain(&class.unwanted);
    rules.map(|rule| greedy.topology.weighed(rule)).collect()
}

/// How many obstacles `explain_site` would name.
fn count_obstacles(greedy: &Greedy<'_, '_>, number: usize, site_number: usize, rules: &[Weighed<'_>]) -> usize {
    let class = &greedy.classes[number];
    let (site, taken) = (&greedy.world.sites[site_number], greedy.taken(site_number));
    let (rung, wants) = (&class.rungs[class.least_demanding()], &class.pod.wants);
    let spot = Spot { place: site_number, ground: Ground::Site(site_number), states: &site.states };
    let is_short = |(wanted, free): &(&i64, &i64)| **wanted > 0 && wanted > free;
    usize::from(first_untolerated(&site.node.taints, &rung.tolerations).is_some())
        + rung.masks.iter().filter(|mask| !mask.holds_surely(&site.states)).count()
        + usize::from(!rung.places.iter().any(|place| hold_surely(&place.masks, &site.states)))
        + class.requests.iter().zip(&taken.free).filter(is_short).count()
        + usize::from(conflict(&wants.ports, &taken.ports))
        + usize::from(first_overfull(&taken.attached, &wants.volumes.attached, &site.attach_limits).is_some())
        + rules.iter().filter(|rule| !rule.holds(&greedy.topology, &spot)).count()
}

/// Everything that keeps a pod of this class off a node.
fn explain_site(
    inquiry: &Inquiry<'_, '_, '_>,
    number: usize,
    site_number: usize,
    rules: &[Weighed<'_>],
) -> Vec<Obstacle> {
    let greedy = inquiry.greedy;
    let (world, class) = (greedy.world, &greedy.classes[number]);
    let (site, taken) = (&world.sites[site_number], greedy.taken(site_number));
    let (rung, wants) = (&class.rungs[class.least_demanding()], &class.pod.wants);
    let mut obstacles: Vec<Obstacle> = first_untolerated(&site.node.taints, &rung.tolerations)
        .map(|taint| Obstacle::Taint(taint.clone()))
        .into_iter()
        .collect();
    let labels = Requirements::from_labels(&site.node.labels);
    let clash = |mask: &Mask, wanted: &Requirements| site_clash(greedy, site_number, &labels, mask, wanted);
    obstacles.extend(rung.masks.iter().filter_map(|mask| clash(mask, &rung.labels)).map(Obstacle::Label));
    if !rung.places.iter().any(|place| hold_surely(&place.masks, &site.states)) {
        let clashes =
            rung.places.iter().flat_map(|place| place.masks.iter().filter_map(|mask| clash(mask, &place.requirements)));
        obstacles.extend(clashes.take(1).map(Obstacle::VolumePlace));
    }
    let axes = world.machines.axes().iter().zip(&class.requests).zip(&taken.free);
    let short = axes.filter(|((_, wanted), free)| **wanted > 0 && wanted > free);
    obstacles.extend(short.map(|((axis, wanted), free)| Obstacle::Resource {
        resource: axis.clone(),
        wanted: *wanted,
        available: *free,
    }));
    obstacles.extend(port_clash(&wants.ports, &taken.ports));
    let overfull = first_overfull(&taken.attached, &wants.volumes.attached, &site.attach_limits);
    obstacles.extend(overfull.map(|(driver, would_be, limit)| Obstacle::Attachments { driver, would_be, limit }));
    let spot = Spot { place: site_number, ground: Ground::Site(site_number), states: &site.states };
    let broken = rules.iter().filter(|rule| !rule.holds(&greedy.topology, &spot));
    obstacles.extend(broken.map(|rule| rule_obstacle(inquiry, rule.rule(), Some(&spot))));
    obstacles
}

/// How a node's label contradicts what is asked of it.
fn site_clash(
    greedy: &Greedy<'_, '_>,
    site: usize,
    labels: &Requirements,
    mask: &Mask,
    wanted: &Requirements,
) -> Option<Clash> {
    if mask.holds_surely(&greedy.world.sites[site].states) {
        return None;
    }
    let name = greedy.world.words.key_name(mask.key);
    labels.clash(&only(wanted, name), Undefined::Absent)
}

fn only(requirements: &Requirements, key: &Arc<str>) -> Requirements {
    requirements.get(key).cloned().into_iter().map(|requirement| (key.clone(), requirement)).collect()
}

/// The fewest constraints that keep the pod off a new machine of one pool. Empty when it would fit: then it waits for
/// something else. `None` when nothing more may be looked at.
fn explain_pool(inquiry: &Inquiry<'_, '_, '_>, class: usize, template: usize) -> Option<Vec<Obstacle>> {
    let greedy = inquiry.greedy;
    let rung = greedy.classes[class].least_demanding();
    let is_over = Cell::new(false);
    let constraints = constraints(greedy, class, rung);
    let fits = |set: &[Constraint]| {
        is_over.set(is_over.get() || !inquiry.looks.take(TRIAL + constraints.len() as u64));
        !is_over.get() && machines_without(greedy, class, template, set).is_some()
    };
    if fits(&[]) {
        return Some(Vec::new());
    }
    let fewest = if constraints.len() > MOST_FOR_PAIRS {
        halved(&constraints, fits)
    } else {
        let singles = constraints.iter().map(|one| vec![*one]);
        let tails = std::iter::successors(constraints.split_first(), |(_, later)| later.split_first());
        let pairs = tails.flat_map(|(one, later)| later.iter().map(|two| vec![*one, *two]));
        let mut sets = singles.chain(pairs).take_while(|_| !is_over.get());
        sets.find(|set| fits(set)).unwrap_or_else(|| halved(&constraints, fits))
    };
    let told = fewest.iter().map(|constraint| obstacle(inquiry, class, template, *constraint, &fewest));
    (!is_over.get()).then(|| told.collect())
}

/// The machines that a new claim would have with some constraints set aside.
fn machines_without(greedy: &Greedy<'_, '_>, class: usize, template: usize, set: &[Constraint]) -> Option<Bits> {
    let rung = greedy.classes[class].least_demanding();
    let candidate = greedy.candidate(class, rung, greedy.claims.len());
    let lift = Lift::of(set);
    let view = greedy.view(&lift);
    let stock = if lift.has(Constraint::Offerings) { Stock::Any } else { Stock::OnSale };
    let claim = Claim::new(greedy.world, &greedy.outlooks, template, stock)?;
    let narrowing = view.narrow(&claim, candidate).ok()?;
    let machines = view.machines_for(&claim, Some(candidate), narrowing.outlook);
    // What is too long a list for a minimum of values to be met is judged by its beginning.
    let is_about_the_list = lift.has(Constraint::MinValues);
    Some(if is_about_the_list { view.listed(Some(&narrowing.held), narrowing.outlook, &machines) } else { machines })
}

/// A set that is enough to set aside, and of which nothing can be taken back. Starts from everything set aside and takes
/// back half of what is left in question at a time, so that few obstacles among very many are found in few trials.
fn halved(constraints: &[Constraint], fits: impl Fn(&[Constraint]) -> bool) -> Vec<Constraint> {
    let mut needed: Vec<Constraint> = Vec::new();
    let mut in_question = vec![constraints.to_vec()];
    while let Some(part) = in_question.pop() {
        let others: Vec<Constraint> = needed.iter().chain(in_question.iter().flatten()).copied().collect();
        if part.is_empty() || fits(&others) {
            continue;
        }
        match &part[..] {
            [one] => needed.push(*one),
            more => {
                let (first, second) = more.split_at(more.len() / 2);
                in_question.push(first.to_vec());
                in_question.push(second.to_vec());
            }
        }
    }
    needed
}

/// Every constraint that a pod of this class could be kept off by.
fn constraints(greedy: &Greedy<'_, '_>, class: usize, rung: usize) -> Vec<Constraint> {
    let rung = &greedy.classes[class].rungs[rung];
    // What somebody set down comes before what the pod asks for, and its size last: a smaller pod always fits somewhere.
    let mut all = vec![Constraint::Limits, Constraint::Taints, Constraint::MinValues];
    all.extend(rung.masks.iter().map(|mask| Constraint::Label(mask.key)));
    all.extend((0..rung.rules.len()).map(Constraint::Rule));
    all.extend(greedy.classes[class].unwanted.iter().map(|rule| Constraint::Unwanted(rule.group())));
    all.extend([
        Constraint::Places,
        Constraint::Ports,
        Constraint::Attachments,
        Constraint::Domains,
        Constraint::Offerings,
    ]);
    all.extend((0..greedy.world.machines.axes().len()).map(Constraint::Resource));
    all
}

fn obstacle(
    inquiry: &Inquiry<'_, '_, '_>,
    class: usize,
    template: usize,
    constraint: Constraint,
    set: &[Constraint],
) -> Obstacle {
    let greedy = inquiry.greedy;
    let world = greedy.world;
    let pool = &world.templates[template].pool;
    let rung = &greedy.classes[class].rungs[greedy.classes[class].least_demanding()];
    match constraint {
        Constraint::Taints => first_untolerated(&pool.template.taints, &rung.tolerations)
            .map_or(Obstacle::NoInstanceType, |taint| Obstacle::Taint(taint.clone())),
        Constraint::Label(key) => Obstacle::Label(label_clash(greedy, template, key, &rung.labels)),
        Constraint::Places => {
            let masks = rung
                .places
                .iter()
                .flat_map(|place| place.masks.iter().map(move |mask| (&place.requirements, mask.key)));
            let mut clashes = masks.map(|(place, key)| label_clash(greedy, template, key, place));
            clashes.next().map_or(Obstacle::NoOffering, Obstacle::VolumePlace)
        }
        Constraint::Resource(axis) => resource_obstacle(greedy, class, template, axis, set),
        Constraint::Offerings => Obstacle::NoOffering,
        Constraint::Ports => {
            let held = world.templates[template]
                .daemons
                .iter()
                .find_map(|group| port_clash(&greedy.classes[class].pod.wants.ports, &group.ports));
            held.unwrap_or(Obstacle::NoInstanceType)
        }
        Constraint::Attachments => attachment_obstacle(greedy, class, template, set),
        Constraint::Rule(rule) => rule_obstacle(inquiry, &rung.rules[rule], None),
        Constraint::Unwanted(group) => rule_obstacle(inquiry, &Rule::Unwanted { group }, None),
        Constraint::Domains => {
            let key = greedy.topology.closed_domains(template).next().map(|(key, _)| world.words.key_name(key).clone());
            Obstacle::NewDomain { key: key.unwrap_or_else(|| HOSTNAME.into()) }
        }
        Constraint::Limits => limit_obstacle(greedy, class, template, set),
        Constraint::MinValues => min_values_obstacle(greedy, class, template, set),
    }
}

/// What is asked of a label, beside what the pool and its machines leave for it.
fn label_clash(greedy: &Greedy<'_, '_>, template: usize, key: Key, wanted: &Requirements) -> Clash {
    let world = greedy.world;
    let name = world.words.key_name(key);
    let wanted = only(wanted, name);
    let undefined = Undefined::OpenIfWellKnown(&world.snapshot.well_known);
    if let Some(clash) = world.templates[template].pool.template.requirements.clash(&wanted, undefined) {
        return clash;
    }
    let template = &world.templates[template];
    let mut offered = world.machines.states_of(key, &template.machines);
    offered.keep(&template.states[key]);
    let values: Vec<&str> =
        offered.iter().filter_map(|state| world.words.value(key, state)).map(|value| &**value).collect();
    let incoming = wanted.get(name).cloned().unwrap_or_else(Requirement::exists);
    Clash::NoCommonValue { key: name.clone(), incoming, existing: Requirement::new(Operator::In, values) }
}

/// How much the largest machine that would suit otherwise has left beside its daemons.
fn resource_obstacle(
    greedy: &Greedy<'_, '_>,
    class: usize,
    template: usize,
    axis: usize,
    set: &[Constraint],
) -> Obstacle {
    let world = greedy.world;
    let resource = world.machines.axes()[axis].clone();
    let suited = machines_without(greedy, class, template, set).unwrap_or_default();
    let room = |machine: usize| {
        let daemons = world.templates[template].daemons.iter().find(|group| group.machines.contains(machine));
        world.machines.all[machine].allocatable.get(&resource) - daemons.map_or(0, |group| group.requests[axis])
    };
    let available = suited.iter().map(room).max().unwrap_or(0);
    Obstacle::Resource { resource, wanted: greedy.classes[class].requests[axis], available }
}

fn attachment_obstacle(greedy: &Greedy<'_, '_>, class: usize, template: usize, set: &[Constraint]) -> Obstacle {
    let suited = machines_without(greedy, class, template, set).unwrap_or_default();
    let volumes = &greedy.classes[class].pod.wants.volumes.attached;
    let limits = suited.iter().map(|machine| &greedy.world.machines.all[machine].instance_type.attach_limits);
    let overfull = limits.filter_map(|limits| first_overfull(&Default::default(), volumes, limits));
    let best = overfull.max_by_key(|(_, _, limit)| *limit);
    best.map_or(Obstacle::NoInstanceType, |(driver, would_be, limit)| Obstacle::Attachments { driver, would_be, limit })
}

fn limit_obstacle(greedy: &Greedy<'_, '_>, class: usize, template: usize, set: &[Constraint]) -> Obstacle {
    let suited = machines_without(greedy, class, template, set).unwrap_or_default();
    let broken: Option<BrokenLimit> = greedy.limits.broken_by(greedy.world, template, &suited);
    broken.map_or(Obstacle::NoInstanceType, Obstacle::Limit)
}

fn min_values_obstacle(greedy: &Greedy<'_, '_>, class: usize, template: usize, set: &[Constraint]) -> Obstacle {
    let suited = machines_without(greedy, class, template, set).unwrap_or_default();
    let unmet = unmet(greedy.world, &greedy.world.templates[template].min_values, &suited);
    unmet.map_or(Obstacle::NoInstanceType, |(key, wanted, found)| Obstacle::MinValues {
        key: greedy.world.words.key_name(key).clone(),
        wanted,
        found,
    })
}

fn port_clash(wanted: &[model::pod::HostPort], held: &[model::pod::HostPort]) -> Option<Obstacle> {
    let pairs = wanted.iter().flat_map(|port| held.iter().map(move |other| (port, other)));
    let mut clashes = pairs.filter(|(port, other)| port.conflicts_with(other));
    clashes.next().map(|(port, other)| Obstacle::Port { wanted: port.clone(), held: other.clone() })
}

/// What a rule about other pods says, at a spot or wherever a machine may come.
fn rule_obstacle(inquiry: &Inquiry<'_, '_, '_>, rule: &Rule, spot: Option<&Spot<'_>>) -> Obstacle {
    let greedy = inquiry.greedy;
    let group = &greedy.topology.groups[rule.group()];
    let key = group.key_name().clone();
    match rule {
        Rule::Spread { max_skew, universe, .. } => {
            let domain = |state: usize| {
                let value = greedy.world.words.value(group.key?, state)?.clone();
                Some((value, greedy.topology.count(rule.group(), state)))
            };
            Obstacle::Spread {
                key,
                max_skew: i32::try_from(*max_skew).unwrap_or(i32::MAX),
                least: u32::try_from(greedy.topology.least(rule)).unwrap_or(0),
                domains: universe.iter().filter_map(domain).collect(),
            }
        }
        Rule::Near { .. } => Obstacle::Together { key },
        Rule::Far { .. } | Rule::Unwanted { .. } => Obstacle::Apart { key, other: inquiry.other(rule, spot) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_taken_until_none_are_left_or_nobody_waits() {
        let cancel = AtomicBool::new(false);
        let looks = Looks { left: Cell::new(5), cancel: &cancel };
        assert!(looks.take(2) && !looks.take(4) && looks.take(2) && looks.take(1) && !looks.take(1) && looks.take(0));
        let looks = Looks { left: Cell::new(5), cancel: &cancel };
        cancel.store(true, Ordering::Relaxed);
        assert!(!looks.take(1) && !looks.take(0));
        assert_eq!(looks.left.get(), 5);
    }

    #[test]
    fn a_few_clashes_among_thousands_are_found_in_few_trials() {
        let all: Vec<Constraint> = (0..5000).map(Constraint::Rule).collect();
        for needed in [vec![0], vec![4999], vec![17, 2500, 4001], vec![]] {
            let trials = Cell::new(0);
            let fits = |set: &[Constraint]| {
                trials.set(trials.get() + 1);
                needed.iter().all(|rule| set.contains(&Constraint::Rule(*rule)))
            };
            let mut found = halved(&all, fits);
            found.sort();
            assert_eq!(found, needed.iter().copied().map(Constraint::Rule).collect::<Vec<_>>());
            assert!(trials.get() <= 1 + 30 * needed.len(), "{} trials", trials.get());
        }
    }
}
