//! What a step on paper comes to, as far as it can be said of the step alone.

use std::time::Duration;

use super::act::{Action, CloudAction, Manifest, PriceRule};
use super::cast::{Market, Object, Selection};
use super::document::{Churn, Expect, Image, Interruption, PriceChange, Scale, Step};
use super::expectation::When;
use super::fault::Flaw;
use super::lines::Located;
use super::sense::{count, line, not_negative, positive, price};
use crate::kinds::{Kind, Subresource};

/// Two minutes, as EC2 gives them.
const NOTICE: Duration = Duration::from_secs(120);
/// Pods of a workload do not end more often than this.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) fn only_one(line: u64, deeds: &[(&str, bool)]) -> Result<(), Flaw> {
    match deeds.iter().filter(|(_, is_given)| *is_given).count() {
        1 => Ok(()),
        0 => Err(nothing(line, deeds)),
        _ => Err(Flaw::new(line, "several things happen in this step", "make two steps with the same `at`")),
    }
}

pub(super) fn nothing(line: u64, deeds: &[(&str, bool)]) -> Flaw {
    let names: Vec<&str> = deeds.iter().map(|(name, _)| *name).collect();
    Flaw::new(line, "nothing happens in this step", format!("write one of {}", names.join(", ")))
}

/// Refuses a step that begins or ends when the story is over.
pub(super) fn ends_in_time(step: &Step, duration: Duration) -> Result<(), Flaw> {
    let at = not_negative(&step.at)?;
    let (until, what, place) = match step.lasting() {
        Some((field, time)) if at <= duration => {
            (at.saturating_add(not_negative(time)?), format!("`at` and `{field}`"), line(time))
        }
        _ => (at, "`at`".to_owned(), line(&step.at)),
    };
    if until <= duration {
        return Ok(());
    }
    let (until, duration) = (until.as_secs(), duration.as_secs());
    let problem = format!("{what} end {until} s after the start, the scenario after {duration}");
    Err(Flaw::new(place, problem, "make `duration` longer or the time shorter"))
}

pub(super) fn apply(source: &Located) -> Result<Action, Flaw> {
    let manifests: Vec<Manifest> = source.items().into_iter().map(Manifest::of).collect();
    match manifests.is_empty() {
        true => Err(Flaw::new(source.line, "the list is empty", "write a manifest, or leave the step out")),
        false => Ok(Action::Apply(manifests)),
    }
}

pub(super) fn scale(given: &Scale) -> Result<Action, Flaw> {
    let object = Object::of(given.target())?;
    let kind_line = line(given.target().kind);
    if !object.kind.has(Subresource::Scale) {
        let problem = format!("a {} cannot be scaled", object.kind);
        return Err(Flaw::new(kind_line, problem, "scale a Deployment, ReplicaSet, StatefulSet or NodePool"));
    }
    let over = given.over.as_ref().map(not_negative).transpose()?.unwrap_or_default();
    if given.at_random && !matches!(object.kind, Kind::Deployment | Kind::ReplicaSet) {
        let problem = format!("which pods of a {} go is not up to chance", object.kind);
        return Err(Flaw::new(kind_line, problem, "leave `atRandom` out"));
    }
    Ok(Action::Scale { object, replicas: given.replicas, over, at_random: given.at_random })
}

pub(super) fn churn(given: &Churn) -> Result<Action, Flaw> {
    let object = Object::of(given.target())?;
    if !matches!(object.kind, Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet) {
        let problem = format!("nobody brings pods of a {} back", object.kind);
        return Err(Flaw::new(line(given.target().kind), problem, "name a Deployment, ReplicaSet or StatefulSet"));
    }
    let (every, lasts) = (not_negative(&given.every)?, not_negative(&given.lasts)?);
    if every < SHORTEST_PAUSE {
        let problem = "less than a second passes in between";
        return Err(Flaw::new(line(&given.every), problem, "write a time such as 1m"));
    }
    if lasts < every {
        let remedy = "make `for` at least as long as `every`";
        return Err(Flaw::new(line(&given.lasts), "it is over before anybody ends", remedy));
    }
    Ok(Action::Churn { object, count: count(given.count.as_ref())?, every, lasts })
}

pub(super) fn interruption(struck: &Interruption, market: &Market) -> Result<CloudAction, Flaw> {
    let notice = struck.notice.as_ref().map(not_negative).transpose()?.unwrap_or(NOTICE);
    let goods = Selection::of(struck.goods(), market)?;
    Ok(CloudAction::Interruption { goods, count: count(struck.count.as_ref())?, notice })
}

pub(super) fn image(given: &Image, market: &Market) -> Result<CloudAction, Flaw> {
    market.check_image(&given.family)?;
    if given.release.value.trim_start_matches('v').is_empty() {
        return Err(Flaw::new(line(&given.release), "the release has no name", "write one such as v20260115"));
    }
    Ok(CloudAction::Image { family: given.family.value.clone(), release: given.release.value.clone() })
}

pub(super) fn when(expect: &Expect) -> Result<When, Flaw> {
    match (&expect.within, &expect.throughout) {
        (within, None) => Ok(When::Within(within.as_ref().map(not_negative).transpose()?.unwrap_or_default())),
        (None, Some(time)) => positive(time, "at every moment of no time").map(When::Throughout),
        (Some(_), Some(time)) => {
            Err(Flaw::new(line(time), "at some moment or at every one", "write `within` or `throughout`"))
        }
    }
}

pub(super) fn price_rule(place: u64, given: &PriceChange) -> Result<PriceRule, Flaw> {
    match (&given.per_hour, &given.times) {
        (Some(dollars), None) => price(dollars).map(PriceRule::Is),
        (None, Some(times)) if times.value.is_finite() && (0.0..=1e6).contains(&times.value) => {
            Ok(PriceRule::TimesPartsPerMillion((times.value * 1e6).round() as i64))
        }
        (None, Some(times)) => {
            let problem = "no price can be so many times another";
            Err(Flaw::new(line(times), problem, "write a factor such as 1.5"))
        }
        _ => Err(Flaw::new(place, "a price changes in one way", "write `perHour` or `times`")),
    }
}

/// What comes from the trace cannot come from the template.
pub(super) fn check_template(template: &Manifest) -> Result<(), Flaw> {
    let flaw = |path: &str, problem: &str, remedy: &str| {
        Err(Flaw::new(template.source.line_of(path), problem.to_owned(), remedy.to_owned()))
    };
    let Some(members) = template.value.as_object() else {
        return flaw("", "the template is no object", "write `metadata` or `spec`");
    };
    if let Some(other) = members.keys().find(|key| !["metadata", "spec"].contains(&key.as_str())) {
        return flaw(other, &format!("a template has no `{other}`"), "write `metadata` or `spec`");
    }
    for (path, what) in
        [("/metadata/name", "names"), ("/metadata/generateName", "names"), ("/spec/containers", "containers")]
    {
        if template.value.pointer(path).is_some() {
            let path = path.trim_start_matches('/').replace('/', ".");
            return flaw(&path, &format!("{what} come from the trace"), &format!("leave `{path}` out of the template"));
        }
    }
    match template.value.pointer("/metadata/namespace") {
        None => Ok(()),
        Some(_) => flaw("metadata.namespace", "the namespace stands in the template", "write it beside `template`"),
    }
}
