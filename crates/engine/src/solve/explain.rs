//! Why a pod has no place: the fewest constraints that would have to go.
//!
//! On a node that is there, constraints do not interact: those that fail are the reason. On a machine to come they do, so they
//! are set aside one at a time, then two at a time, until the pod would fit on a new machine of the pool as the plan stands.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::ids::{NodeName, PodName, PoolName};
use model::labels::HOSTNAME;
use model::pod::HostPort;
use model::requirements::{Clash, Operator, Requirement, Requirements, Undefined};
use model::taints::{Taint, Toleration, untolerated};
use model::volume::{Attachments, overfull};
use model::why::{Obstacle, Unplaced};

use super::bits::Bits;
use super::claims::Claim;
use super::classes::Rung;
use super::greedy::Greedy;
use super::lift::{Constraint, Lift};
use super::listing::unmet;
use super::neighbours::Neighbours;
use super::outlook::{OutlookId, Stock};
use super::topology::{Ground, Rule, Spot, Weighed};
use super::words::{Key, Mask};

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
    untolerated(&site.node.taints, &rung.tolerations).count()
        + rung.masks.iter().filter(|mask| !mask.holds_surely(&site.states)).count()
        + unmet_place(rung, |mask| mask.holds_surely(&site.states)).map_or(0, |(_, unmet)| unmet.len())
        + class.requests.iter().zip(&taken.free).filter(is_short).count()
        + port_clashes(&wants.ports, &taken.ports).count()
        + overfull(&taken.attached, &wants.volumes.attached, &site.attach_limits).count()
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
    let mut obstacles: Vec<Obstacle> = taint_obstacles(&site.node.taints, &rung.tolerations).collect();
    let labels = Requirements::from_labels(&site.node.labels);
    let clash = |mask: &Mask, wanted: &Requirements| site_clash(greedy, site_number, &labels, mask, wanted);
    obstacles.extend(rung.masks.iter().filter_map(|mask| clash(mask, &rung.labels)).map(Obstacle::Label));
    if let Some((place, unmet)) = unmet_place(rung, |mask| mask.holds_surely(&site.states)) {
        obstacles.extend(unmet.into_iter().filter_map(|mask| clash(mask, place)).map(Obstacle::VolumePlace));
    }
    let axes = world.machines.axes().iter().zip(&class.requests).zip(&taken.free);
    let short = axes.filter(|((_, wanted), free)| **wanted > 0 && wanted > free);
    obstacles.extend(short.map(|((axis, wanted), free)| Obstacle::Resource {
        resource: axis.clone(),
        wanted: *wanted,
        available: *free,
    }));
    obstacles.extend(port_clashes(&wants.ports, &taken.ports));
    let overfull = overfull(&taken.attached, &wants.volumes.attached, &site.attach_limits);
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
        !is_over.get() && left_without(greedy, class, template, set).is_some()
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
    if is_over.get() {
        return None;
    }
    let left = left_without(greedy, class, template, &fewest);
    let told = fewest.iter().flat_map(|constraint| {
        let told = left.as_ref().map(|left| obstacles(inquiry, (class, template), *constraint, left));
        // Whatever it is, nothing of the pool is left.
        told.filter(|told| !told.is_empty()).unwrap_or_else(|| vec![Obstacle::NoInstanceType])
    });
    Some(told.collect())
}

/// What a new claim would have with some constraints set aside.
struct Left<'s> {
    aside: &'s [Constraint],
    outlook: OutlookId,
    machines: Bits,
}

fn left_without<'s>(greedy: &Greedy<'_, '_>, class: usize, template: usize, set: &'s [Constraint]) -> Option<Left<'s>> {
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
    let outlook = narrowing.outlook;
    let machines = if is_about_the_list { view.listed(Some(&narrowing.held), outlook, &machines) } else { machines };
    Some(Left { aside: set, outlook, machines })
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

/// Everything that one of the constraints which are set aside would have to be relieved of, as what is left shows.
fn obstacles(
    inquiry: &Inquiry<'_, '_, '_>,
    (class, template): (usize, usize),
    constraint: Constraint,
    left: &Left<'_>,
) -> Vec<Obstacle> {
    let greedy = inquiry.greedy;
    let (world, pool) = (greedy.world, &greedy.world.templates[template].pool);
    let rung = &greedy.classes[class].rungs[greedy.classes[class].least_demanding()];
    let clash = |key: Key, wanted: &Requirements| label_clash(greedy, template, key, wanted, left);
    match constraint {
        Constraint::Taints => taint_obstacles(&pool.template.taints, &rung.tolerations).collect(),
        Constraint::Label(key) => vec![Obstacle::Label(clash(key, &rung.labels))],
        Constraint::Places => {
            let may_hold = |mask: &Mask| offered(greedy, mask.key, left).intersects(&mask.states);
            let unmet = unmet_place(rung, may_hold).map(|(place, unmet)| {
                unmet.into_iter().map(|mask| Obstacle::VolumePlace(clash(mask.key, place))).collect()
            });
            // Each label could be had, but not all of them together.
            unmet.unwrap_or_else(|| vec![Obstacle::NoOffering])
        }
        Constraint::Resource(axis) => vec![resource_obstacle(greedy, (class, template), axis, left)],
        Constraint::Offerings => vec![Obstacle::NoOffering],
        Constraint::Ports => port_obstacles(greedy, (class, template), left),
        Constraint::Attachments => attachment_obstacles(greedy, class, left),
        Constraint::Rule(rule) => vec![rule_obstacle(inquiry, &rung.rules[rule], None)],
        Constraint::Unwanted(group) => vec![rule_obstacle(inquiry, &Rule::Unwanted { group }, None)],
        Constraint::Domains => {
            let key = greedy.topology.closed_domains(template).next().map(|(key, _)| world.words.key_name(key).clone());
            vec![Obstacle::NewDomain { key: key.unwrap_or_else(|| HOSTNAME.into()) }]
        }
        Constraint::Limits => {
            let broken = greedy.limits.broken_by(world, template, &left.machines);
            broken.into_iter().map(Obstacle::Limit).collect()
        }
        Constraint::MinValues => {
            let minimums = world.templates[template].min_values.iter();
            let unmet = minimums.filter_map(|minimum| unmet(world, &[*minimum], &left.machines));
            let key = |key: Key| world.words.key_name(key).clone();
            unmet.map(|(of, wanted, found)| Obstacle::MinValues { key: key(of), wanted, found }).collect()
        }
    }
}

fn taint_obstacles(taints: &[Taint], tolerations: &[Toleration]) -> impl Iterator<Item = Obstacle> {
    untolerated(taints, tolerations).map(|taint| Obstacle::Taint(taint.clone()))
}

/// What is asked of a label, beside what the pool and the machines that are left have for it.
fn label_clash(greedy: &Greedy<'_, '_>, template: usize, key: Key, wanted: &Requirements, left: &Left<'_>) -> Clash {
    let world = greedy.world;
    let name = world.words.key_name(key);
    let wanted = only(wanted, name);
    let undefined = Undefined::OpenIfWellKnown(&world.snapshot.well_known);
    if let Some(clash) = world.templates[template].pool.template.requirements.clash(&wanted, undefined) {
        return clash;
    }
    let offered = offered(greedy, key, left);
    let values: Vec<&str> =
        offered.iter().filter_map(|state| world.words.value(key, state)).map(|value| &**value).collect();
    let incoming = wanted.get(name).cloned().unwrap_or_else(Requirement::exists);
    Clash::NoCommonValue { key: name.clone(), incoming, existing: Requirement::new(Operator::In, values) }
}

/// What a label can be on the machines that are left, each in the ways in which it is sold.
fn offered(greedy: &Greedy<'_, '_>, key: Key, left: &Left<'_>) -> Bits {
    let (world, outlook) = (greedy.world, greedy.outlooks.borrow().get(left.outlook).clone());
    let name = world.words.key_name(key);
    let is_on_sale = !left.aside.contains(&Constraint::Offerings);
    let mut offered = Bits::empty(world.words.state_count(key));
    for machine in left.machines.iter().map(|machine| &world.machines.all[machine]) {
        let mut own = outlook.states[key].clone();
        if let Some(requirement) = machine.instance_type.requirements.get(name) {
            own.keep(&world.words.states(key, requirement));
        }
        let ways = machine.sales.iter().filter(|sale| is_on_sale && outlook.shapes.contains(sale.shape));
        for sale in ways {
            let mut sold = own.clone();
            world.machines.keep_shape(sale.shape, key, &mut sold);
            offered.add_all(&sold);
        }
        if !is_on_sale {
            offered.add_all(&own);
        }
    }
    offered
}

/// What fails of the place for volumes that fails in the fewest labels; `None` when one place suits.
fn unmet_place(rung: &Rung, holds: impl Fn(&Mask) -> bool) -> Option<(&Requirements, Vec<&Mask>)> {
    let unmet = rung.places.iter().map(|place| {
        let unmet: Vec<&Mask> = place.masks.iter().filter(|mask| !holds(mask)).collect();
        (&place.requirements, unmet)
    });
    unmet.min_by_key(|(_, unmet)| unmet.len()).filter(|(_, unmet)| !unmet.is_empty())
}

/// How much is left beside its daemons on the machine that comes closest in everything that is set aside.
fn resource_obstacle(
    greedy: &Greedy<'_, '_>,
    (class, template): (usize, usize),
    axis: usize,
    left: &Left<'_>,
) -> Obstacle {
    let (axes, wanted) = (greedy.world.machines.axes(), &greedy.classes[class].requests);
    let room = |machine: usize| greedy.world.templates[template].room(machine, axes.len());
    // In millionths of what is wanted, so that amounts of different kinds add up.
    let shortage = |machine: &usize| -> i128 {
        let aside = (0..axes.len()).filter(|axis| left.aside.contains(&Constraint::Resource(*axis)));
        let missing = |axis: usize| (i128::from(wanted[axis]) - i128::from(room(*machine)[axis])).max(0);
        aside.map(|axis| missing(axis) * 1_000_000 / i128::from(wanted[axis].max(1))).sum()
    };
    let closest = left.machines.iter().min_by_key(shortage);
    let available = closest.map_or(0, |machine| room(machine)[axis]);
    Obstacle::Resource { resource: axes[axis].clone(), wanted: wanted[axis], available }
}

/// The ports that daemons hold, on the machines where they hold the fewest.
fn port_obstacles(greedy: &Greedy<'_, '_>, (class, template): (usize, usize), left: &Left<'_>) -> Vec<Obstacle> {
    let wanted = &greedy.classes[class].pod.wants.ports;
    let groups = greedy.world.templates[template].daemons.iter();
    let possible = groups.filter(|group| group.machines.intersects(&left.machines));
    let held = possible.map(|group| port_clashes(wanted, &group.ports).collect::<Vec<_>>());
    held.min_by_key(Vec::len).unwrap_or_default()
}

/// The drivers that are full on the machine that comes closest.
fn attachment_obstacles(greedy: &Greedy<'_, '_>, class: usize, left: &Left<'_>) -> Vec<Obstacle> {
    let (none, volumes) = (Attachments::new(), &greedy.classes[class].pod.wants.volumes.attached);
    let limits = left.machines.iter().map(|machine| &greedy.world.machines.all[machine].instance_type.attach_limits);
    let full = limits.map(|limits| overfull(&none, volumes, limits).collect::<Vec<_>>());
    let beyond = |full: &Vec<(_, u32, u32)>| full.iter().map(|(_, would_be, limit)| u64::from(would_be - limit)).sum();
    let closest = full.min_by_key(|full| -> (usize, u64) { (full.len(), beyond(full)) }).unwrap_or_default();
    closest.into_iter().map(|(driver, would_be, limit)| Obstacle::Attachments { driver, would_be, limit }).collect()
}

/// Each port that is taken, with the first that takes it.
fn port_clashes(wanted: &[HostPort], held: &[HostPort]) -> impl Iterator<Item = Obstacle> {
    wanted.iter().filter_map(|port| {
        let other = held.iter().find(|other| port.conflicts_with(other))?;
        Some(Obstacle::Port { wanted: port.clone(), held: other.clone() })
    })
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
