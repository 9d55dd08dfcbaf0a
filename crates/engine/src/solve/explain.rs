//! Why a pod has no place: the fewest constraints that would have to go.
//!
//! For each pool, constraints are set aside one at a time, then two at a time, until the pod would fit on a new machine of
//! that pool as the plan stands. What had to be set aside is the reason.

use model::pool::BrokenLimit;
use model::requirements::Undefined;
use model::taints::first_untolerated;
use model::why::{Obstacle, Unplaced};

use super::claims::Claim;
use super::greedy::Greedy;
use super::lift::{Constraint, Lift};
use super::topology::Rule;

/// A reason for every pod without a seat.
pub(crate) fn unplaced(greedy: &Greedy<'_, '_>) -> Vec<Unplaced> {
    let mut reasons: Vec<Unplaced> = Vec::new();
    let mut of_class: Vec<Option<Unplaced>> = vec![None; greedy.classes.len()];
    for pod in (0..greedy.world.pods.len()).filter(|pod| greedy.seats[*pod].is_none()) {
        let class = greedy.class_of[pod];
        let reason = of_class[class].get_or_insert_with(|| explain_class(greedy, class));
        reasons.push(Unplaced { pod: greedy.world.pods[pod].name.clone(), ..reason.clone() });
    }
    reasons
}

fn explain_class(greedy: &Greedy<'_, '_>, class: usize) -> Unplaced {
    let pod = greedy.classes[class].pod;
    let mut general = Vec::new();
    if pod.wants.has_resource_claims {
        general.push(Obstacle::ResourceClaims);
    }
    if greedy.world.templates.is_empty() {
        general.push(Obstacle::NoPool);
    }
    let templates = greedy.world.templates.iter().enumerate();
    let pools: Vec<_> =
        templates.map(|(number, t)| (t.pool.name.clone(), explain_pool(greedy, class, number))).collect();
    let closest =
        pools.iter().filter(|(_, obstacles)| !obstacles.is_empty()).min_by_key(|(_, obstacles)| obstacles.len());
    let closest_pool = closest.map(|(name, _)| name.clone());
    Unplaced { pod: pod.name.clone(), nearest_node: None, pools, closest_pool, general }
}

/// The fewest constraints that keep the pod off a new machine of one pool.
fn explain_pool(greedy: &Greedy<'_, '_>, class: usize, template: usize) -> Vec<Obstacle> {
    let rung = greedy.classes[class].rungs.len() - 1;
    let constraints = constraints(greedy, class, rung);
    let singles = constraints.iter().map(|one| vec![*one]);
    let pairs = constraints
        .iter()
        .enumerate()
        .flat_map(|(i, one)| constraints[i + 1..].iter().map(move |two| vec![*one, *two]));
    let fits = |set: &Vec<Constraint>| {
        let lift = Lift::of(set);
        let claim = Claim::new(greedy.world, template);
        greedy.view(&lift).narrow(&claim, greedy.candidate(class, rung, greedy.claims.len())).is_ok()
    };
    let fewest = singles.chain(pairs).find(fits).unwrap_or_else(|| fewest_by_elimination(&constraints, fits));
    fewest.iter().map(|constraint| obstacle(greedy, class, rung, template, *constraint)).collect()
}

/// Starts from everything set aside and takes back what need not be.
fn fewest_by_elimination(constraints: &[Constraint], fits: impl Fn(&Vec<Constraint>) -> bool) -> Vec<Constraint> {
    let mut aside = constraints.to_vec();
    for constraint in constraints {
        let without: Vec<Constraint> = aside.iter().filter(|other| *other != constraint).copied().collect();
        if fits(&without) {
            aside = without;
        }
    }
    aside
}

/// Every constraint that a pod of this class could be kept off by.
fn constraints(greedy: &Greedy<'_, '_>, class: usize, rung: usize) -> Vec<Constraint> {
    let rung = &greedy.classes[class].rungs[rung];
    let axes = 0..greedy.world.machines.axes().len();
    let mut all: Vec<Constraint> = axes.map(Constraint::Resource).collect();
    all.extend(rung.masks.iter().map(|mask| Constraint::Label(mask.key)));
    all.push(Constraint::Taints);
    all.extend((0..rung.rules.len()).map(Constraint::Rule));
    all.extend([
        Constraint::Places,
        Constraint::Limits,
        Constraint::MinValues,
        Constraint::Ports,
        Constraint::Attachments,
        Constraint::Offerings,
    ]);
    all
}

fn obstacle(greedy: &Greedy<'_, '_>, class: usize, rung: usize, template: usize, constraint: Constraint) -> Obstacle {
    let world = greedy.world;
    let (class, pool) = (&greedy.classes[class], &world.templates[template].pool);
    let rung = &class.rungs[rung];
    let undefined = Undefined::OpenIfWellKnown(&world.snapshot.well_known);
    match constraint {
        Constraint::Taints => first_untolerated(&pool.template.taints, &rung.tolerations)
            .map_or(Obstacle::NoInstanceType, |taint| Obstacle::Taint(taint.clone())),
        Constraint::Label(key) => {
            let name = world.words.key_name(key);
            let wanted =
                rung.labels.get(name).cloned().into_iter().map(|requirement| (name.clone(), requirement)).collect();
            pool.template.requirements.clash(&wanted, undefined).map_or(Obstacle::NoOffering, Obstacle::Label)
        }
        Constraint::Places => {
            let clashes =
                rung.places.iter().filter_map(|(place, _)| pool.template.requirements.clash(place, undefined));
            clashes.into_iter().next().map_or(Obstacle::NoOffering, Obstacle::VolumePlace)
        }
        Constraint::Resource(axis) => {
            let resource = world.machines.axes()[axis].clone();
            let machines = world.templates[template].machines.iter();
            let available =
                machines.map(|machine| world.machines.all[machine].allocatable.get(&resource)).max().unwrap_or(0);
            Obstacle::Resource { resource, wanted: class.requests[axis], available }
        }
        Constraint::Offerings => Obstacle::NoOffering,
        Constraint::Ports | Constraint::Attachments => Obstacle::NoInstanceType,
        Constraint::Rule(rule) => rule_obstacle(greedy, &rung.rules[rule]),
        Constraint::Limits => greedy.limits.tightest(template).map_or(Obstacle::NoInstanceType, |(resource, left)| {
            Obstacle::Limit(BrokenLimit { resource, limit: left, would_be: left + 1 })
        }),
        Constraint::MinValues => {
            let unmet = world.templates[template].min_values.first();
            unmet.map_or(Obstacle::NoInstanceType, |(key, wanted)| Obstacle::MinValues {
                key: world.words.key_name(*key).clone(),
                wanted: *wanted,
                found: 0,
            })
        }
    }
}

fn rule_obstacle(greedy: &Greedy<'_, '_>, rule: &Rule) -> Obstacle {
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
        Rule::Far { .. } | Rule::Unwanted { .. } => Obstacle::Apart { key, other: None },
    }
}
