//! From text to a story: every value is checked, and what is wrong is said with its line before anything is played.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use controllers::settings::Flags;
use jiff::Timestamp;
use model::price::Price;
use provider::kwok::types::Menu;
use provider::kwok::{Assortment, Delays};
use serde_saphyr::Spanned;

use super::act::{Action, CloudAction, Manifest, PriceRule, Sickness};
use super::cast::{Market, Object, Selection};
use super::document::{
    API_VERSION, Catalog, Churn, Cloud, CloudEvent, Document, Expect, Goods, KIND, Operator, Sick, Step, Trace,
};
use super::expectation::{Expectation, When};
use super::fault::{Fault, Flaw};
use super::lines::{Located, documents, parse};
use super::{rehearsal, trace};
use crate::kinds::{Kind, Subresource};

/// What the clocks of a simulated cluster show at first.
const EPOCH: &str = "2026-01-01T00:00:00Z";
const NOTICE: Duration = Duration::from_secs(120);

/// A scenario that can be played.
pub struct Story {
    pub name: String,
    /// The file that it was read from.
    pub file: String,
    pub duration: Duration,
    pub(super) epoch: Timestamp,
    pub(super) setup: CloudSetup,
    pub(super) controller: controllers::Settings,
    /// The starting state, in the order of the file.
    pub(super) objects: Vec<Manifest>,
    /// By time; steps of one time in the order of the file.
    pub(super) steps: Vec<TimedAction>,
}

#[derive(Debug)]
pub(super) struct CloudSetup {
    pub(super) assortment: Assortment,
    pub(super) delays: Delays,
    pub(super) shortages: Vec<Selection>,
}

#[derive(Debug)]
pub(super) struct TimedAction {
    pub(super) at: Duration,
    pub(super) line: u64,
    pub(super) action: Action,
}

/// Gives the text of a file that a scenario names, or says why it cannot.
pub type Open<'a> = &'a dyn Fn(&str) -> Result<String, String>;

impl std::fmt::Debug for Story {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // All that is on sale would fill pages.
        f.debug_struct("Story").field("name", &self.name).field("file", &self.file).finish_non_exhaustive()
    }
}

impl Story {
    pub fn read(file: &str, text: &str, open: Open<'_>) -> Result<Self, Fault> {
        let (document, objects) = split(text).map_err(|flaw| flaw.within(file))?;
        let story = Reader { file, open, market: None }.story(document, objects)?;
        rehearsal::rehearse(&story).map_err(|flaw| flaw.within(file))?;
        Ok(story)
    }
}

/// The scenario itself, and everything else in the file.
fn split(text: &str) -> Result<(Document, Vec<Manifest>), Flaw> {
    let (mut scenario, mut objects) = (None, Vec::new());
    for text in documents(text) {
        let located: Located = parse(&text)?;
        if !located.is_map() {
            return Err(Flaw::new(located.line, "this is no object", "write `apiVersion`, `kind` and so on"));
        }
        let manifest = Manifest::of(&located);
        if manifest.value["kind"] != KIND {
            objects.push(manifest);
            continue;
        }
        if manifest.value["apiVersion"] != API_VERSION {
            let problem = format!("apiVersion {} of a Scenario is not known", manifest.value["apiVersion"]);
            return Err(Flaw::new(located.line_of("apiVersion"), problem, format!("write {API_VERSION}")));
        }
        if scenario.is_some() {
            return Err(Flaw::new(located.line, "this is a second Scenario", "keep one in a file"));
        }
        scenario = Some(parse::<Document>(&text)?);
    }
    let remedy = format!("add a document with `apiVersion: {API_VERSION}` and `kind: {KIND}`");
    let scenario = scenario.ok_or_else(|| Flaw::new(1, "there is no Scenario in the file", remedy))?;
    Ok((scenario, objects))
}

struct Reader<'a> {
    file: &'a str,
    open: Open<'a>,
    market: Option<Market>,
}

impl Reader<'_> {
    fn story(mut self, document: Document, objects: Vec<Manifest>) -> Result<Story, Fault> {
        let file = self.file;
        let spec = document.spec;
        let setup = self.cloud(&spec.cloud).map_err(|flaw| flaw.within(file))?;
        let controller = operator(spec.controller.as_ref()).map_err(|flaw| flaw.within(file))?;
        let duration = positive(&spec.duration).map_err(|flaw| flaw.within(file))?;
        let mut steps = Vec::new();
        for step in &spec.steps {
            steps.push(self.step(step, duration)?);
        }
        steps.sort_by_key(|step| step.at);
        let epoch = spec.starts_at.unwrap_or_else(|| EPOCH.parse().unwrap_or(Timestamp::UNIX_EPOCH));
        let name = document.metadata.name;
        Ok(Story { name, file: file.to_owned(), duration, epoch, setup, controller, objects, steps })
    }

    fn cloud(&mut self, cloud: &Spanned<Cloud>) -> Result<CloudSetup, Flaw> {
        let (line, cloud) = (cloud.referenced.line(), &cloud.value);
        let (assortment, market) = match (cloud.catalog, &cloud.region) {
            (Catalog::Kwok, None) => {
                let menu = Menu::generated();
                let market = Market { types: menu.types().to_vec(), place: "the kwok catalogue".to_owned() };
                (Assortment::Menu(menu), market)
            }
            (Catalog::Kwok, Some(region)) => {
                let remedy = "leave `region` out, or write `catalog: ec2`";
                return Err(Flaw::new(region.referenced.line(), "the kwok catalogue has no regions", remedy));
            }
            (Catalog::Ec2, None) => {
                let remedy = "write one, such as `region: us-east-1`";
                return Err(Flaw::new(line, "the ec2 catalogue needs a region", remedy));
            }
            (Catalog::Ec2, Some(region)) => {
                let types = provider::ec2::catalog().types(&region.value).map_err(|_| {
                    let regions = provider::ec2::catalog().regions().collect::<Vec<_>>().join(", ");
                    let problem = format!("nothing is known about the region {:?}", region.value);
                    Flaw::new(region.referenced.line(), problem, format!("use one of {regions}"))
                })?;
                let market = Market { types, place: region.value.clone() };
                (Assortment::Ec2 { region: region.value.clone() }, market)
            }
        };
        let delay = |given: &Option<Spanned<api::Duration>>| given.as_ref().map(not_negative).transpose();
        let delays = Delays {
            launch: delay(&cloud.launch_delay)?.unwrap_or_default(),
            registration: delay(&cloud.registration_delay)?.unwrap_or_default(),
        };
        let shortages = cloud.shortages.iter().map(|goods| Selection::of(&goods.value, &market));
        let shortages = shortages.collect::<Result<_, _>>()?;
        self.market = Some(market);
        Ok(CloudSetup { assortment, delays, shortages })
    }

    fn step(&self, step: &Spanned<Step>, duration: Duration) -> Result<TimedAction, Fault> {
        let (line, step) = (step.referenced.line(), &step.value);
        let at = not_negative(&step.at).map_err(|flaw| flaw.within(self.file))?;
        let action = match &step.trace {
            Some(trace) => {
                only_one(line, step).map_err(|flaw| flaw.within(self.file)).and_then(|()| self.trace(trace))?
            }
            None => self.action(line, step).map_err(|flaw| flaw.within(self.file))?,
        };
        let (until, what) = match &action {
            Action::Expect(Expectation { when: When::Within(time), .. }) => (at + *time, "`at` and `within`"),
            Action::Expect(Expectation { when: When::Throughout(time), .. }) => (at + *time, "`at` and `throughout`"),
            Action::Churn { lasts, .. } => (at + *lasts, "`at` and `for`"),
            Action::Scale { over, .. } => (at + *over, "`at` and `over`"),
            _ => (at, "`at`"),
        };
        if until > duration {
            let problem =
                format!("{what} end {} s after the start, the scenario after {}", until.as_secs(), duration.as_secs());
            let remedy = "make `duration` longer or the time shorter";
            return Err(Flaw::new(step.at.referenced.line(), problem, remedy).within(self.file));
        }
        Ok(TimedAction { at, line, action })
    }

    fn action(&self, line: u64, step: &Step) -> Result<Action, Flaw> {
        only_one(line, step)?;
        if let Some(source) = &step.apply {
            return Ok(Action::Apply(source.items().into_iter().map(Manifest::of).collect()));
        }
        if let Some(target) = &step.delete {
            return Ok(Action::Delete(Object::of(&target.kind, target.namespace.as_deref(), &target.name)?));
        }
        if let Some(scale) = &step.scale {
            let object = Object::of(&scale.kind, scale.namespace.as_deref(), &scale.name)?;
            if !object.kind.has(Subresource::Scale) {
                let problem = format!("a {} cannot be scaled", object.kind);
                let remedy = "scale a Deployment, ReplicaSet, StatefulSet or NodePool";
                return Err(Flaw::new(scale.kind.referenced.line(), problem, remedy));
            }
            let over = scale.over.as_ref().map(not_negative).transpose()?.unwrap_or_default();
            if scale.at_random && !matches!(object.kind, Kind::Deployment | Kind::ReplicaSet) {
                let problem = format!("which pods of a {} go is not up to chance", object.kind);
                return Err(Flaw::new(scale.kind.referenced.line(), problem, "leave `atRandom` out"));
            }
            return Ok(Action::Scale { object, replicas: scale.replicas, over, at_random: scale.at_random });
        }
        if let Some(patch) = &step.patch {
            let object = Object::of(&patch.kind, patch.namespace.as_deref(), &patch.name)?;
            return Ok(Action::Patch { object, patch: Manifest::of(&patch.patch) });
        }
        if let Some(event) = &step.cloud {
            return self.cloud_action(event.referenced.line(), &event.value).map(Action::Cloud);
        }
        if let Some(given) = &step.churn {
            return churn(given);
        }
        if let Some(given) = &step.sick {
            return self.sick(given);
        }
        match &step.expect {
            Some(expect) => self.expectation(expect.referenced.line(), &expect.value).map(Action::Expect),
            None => Err(nothing(line)),
        }
    }

    fn market(&self) -> Result<&Market, Flaw> {
        self.market.as_ref().ok_or_else(|| Flaw::new(1, "there is no cloud", "write `cloud`"))
    }

    fn cloud_action(&self, line: u64, event: &CloudEvent) -> Result<CloudAction, Flaw> {
        let market = self.market()?;
        let given = [
            event.price.is_some(),
            event.shortage.is_some(),
            event.restock.is_some(),
            event.interruption.is_some(),
            event.image.is_some(),
        ];
        if given.iter().filter(|is_given| **is_given).count() != 1 {
            let remedy = "write one of price, shortage, restock, interruption, image";
            return Err(Flaw::new(line, "one thing at a time happens to a cloud", remedy));
        }
        if let Some(price) = &event.price {
            let goods = goods(&price.types, &price.zones, &price.capacity_types);
            let change = price_rule(line, price.per_hour.as_ref(), price.times.as_ref())?;
            return Ok(CloudAction::Price { goods: Selection::of(&goods, market)?, change });
        }
        if let Some(goods) = &event.shortage {
            return Selection::of(goods, market).map(CloudAction::Shortage);
        }
        if let Some(goods) = &event.restock {
            return Selection::of(goods, market).map(CloudAction::Restock);
        }
        if let Some(struck) = &event.interruption {
            let goods = goods(&struck.types, &struck.zones, &struck.capacity_types);
            let notice = struck.notice.as_ref().map(not_negative).transpose()?.unwrap_or(NOTICE);
            let goods = Selection::of(&goods, market)?;
            return Ok(CloudAction::Interruption { goods, count: struck.count as usize, notice });
        }
        match &event.image {
            Some(image) => Ok(CloudAction::Image { family: image.family.clone(), release: image.release.clone() }),
            None => Err(nothing(line)),
        }
    }

    fn sick(&self, given: &Sick) -> Result<Action, Flaw> {
        let goods = goods(&given.types, &given.zones, &given.capacity_types);
        let status = &given.status;
        if !["True", "False", "Unknown"].contains(&status.value.as_str()) {
            let problem = format!("{:?} is no status of a condition", status.value);
            return Err(Flaw::new(status.referenced.line(), problem, "write \"True\", \"False\" or Unknown"));
        }
        let condition = given.condition.clone().unwrap_or_else(|| "Ready".to_owned());
        Ok(Action::Sick {
            goods: Selection::of(&goods, self.market()?)?,
            count: given.count as usize,
            sickness: Sickness { condition, status: status.value.clone() },
            lasts: given.lasts.as_ref().map(not_negative).transpose()?,
        })
    }

    fn expectation(&self, line: u64, expect: &Expect) -> Result<Expectation, Flaw> {
        let market = self.market()?;
        expect.types.iter().flatten().try_for_each(|name| market.check_type(name))?;
        let expectation = Expectation {
            nodes: expect.nodes,
            types: expect.types.as_ref().map(|names| names.iter().map(|name| name.value.clone()).collect()),
            price_at_most: expect.price_per_hour_at_most.as_ref().map(price).transpose()?,
            pending_pods: expect.pending_pods,
            running_pods: expect.running_pods,
            evicted_pods: expect.evicted_pods,
            launched_after: expect.launched_after.as_ref().map(not_negative).transpose()?,
            when: when(line, expect)?,
        };
        if expectation.judge(&super::expectation::State::default()).0.is_empty() {
            let remedy = "write one of nodes, types, pricePerHourAtMost, pendingPods, runningPods, evictedPods, \
                          launchedAfter";
            return Err(Flaw::new(line, "nothing is expected", remedy));
        }
        Ok(expectation)
    }

    fn trace(&self, given: &Trace) -> Result<Action, Fault> {
        let flaw = |line: u64, problem: String, remedy: &str| Flaw::new(line, problem, remedy).within(self.file);
        let line = given.file.referenced.line();
        let market = self.market().map_err(|flaw| flaw.within(self.file))?;
        let template = given.template.as_ref().map_or_else(|| serde_json::json!({}), Located::value);
        if !template["spec"]["containers"].is_null() || !template.is_object() {
            let line = given.template.as_ref().map_or(line, |template| template.line_of("spec.containers"));
            return Err(flaw(
                line,
                "containers come from the trace".to_owned(),
                "leave `containers` out of the template",
            ));
        }
        let to = given.to.as_ref().map_or(u64::MAX, |to| to.value);
        if to <= given.from {
            let line = given.to.as_ref().map_or(line, |to| to.referenced.line());
            return Err(flaw(line, format!("the window from {} to {to} is empty", given.from), "make `to` larger"));
        }
        let text = (self.open)(&given.file.value).map_err(|problem| {
            flaw(
                line,
                format!("cannot read the trace: {problem}"),
                "name a file that is there; $DOVETAIL_DATA may begin it",
            )
        })?;
        let window = trace::Window { from: given.from, to };
        let mut pods = trace::read(&text, window).map_err(|flaw| flaw.within(&given.file.value))?;
        let all = pods.len();
        pods.retain(|pod| pod.fits_on_any(&market.types));
        let name = Path::new(&given.file.value).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Ok(Action::Trace(Arc::new(trace::Trace {
            name: name.unwrap_or_default(),
            namespace: given.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            template,
            dropped: all - pods.len(),
            pods,
        })))
    }
}

fn only_one(line: u64, step: &Step) -> Result<(), Flaw> {
    let given = [
        step.apply.is_some(),
        step.delete.is_some(),
        step.scale.is_some(),
        step.patch.is_some(),
        step.cloud.is_some(),
        step.expect.is_some(),
        step.trace.is_some(),
        step.churn.is_some(),
        step.sick.is_some(),
    ];
    match given.iter().filter(|is_given| **is_given).count() {
        1 => Ok(()),
        0 => Err(nothing(line)),
        _ => Err(Flaw::new(line, "a step does one thing", "make two steps with the same `at`")),
    }
}

fn nothing(line: u64) -> Flaw {
    let remedy = "write one of apply, delete, scale, patch, cloud, expect, trace, churn, sick";
    Flaw::new(line, "nothing happens in this step", remedy)
}

/// What the autoscaler's flags say. A warning is a fault here: nobody would read it.
fn operator(given: Option<&Spanned<Operator>>) -> Result<controllers::Settings, Flaw> {
    let Some(given) = given else { return Ok(controllers::Settings::default()) };
    let flags = Flags {
        feature_gates: given.value.feature_gates.clone(),
        consolidation_payback: given.value.consolidation_payback,
        pod_move_cooldown: given.value.pod_move_cooldown,
        ..Flags::default()
    };
    let flaw = |problem: String| {
        Flaw::new(given.referenced.line(), problem, "write what the flags of `dovetail controller` take")
    };
    let chosen = controllers::Settings::choose(flags, |_| None).map_err(|error| flaw(error.to_string()))?;
    match chosen.warnings.into_iter().next() {
        None => Ok(chosen.settings),
        Some(warning) => Err(flaw(warning)),
    }
}

fn churn(given: &Churn) -> Result<Action, Flaw> {
    let line = given.kind.referenced.line();
    let object = Object::of(&given.kind, given.namespace.as_deref(), &given.name)?;
    if !matches!(object.kind, Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet) {
        let problem = format!("nobody brings pods of a {} back", object.kind);
        return Err(Flaw::new(line, problem, "name a Deployment, ReplicaSet or StatefulSet"));
    }
    let (every, lasts) = (not_negative(&given.every)?, not_negative(&given.lasts)?);
    if every.is_zero() {
        return Err(Flaw::new(given.every.referenced.line(), "no time passes in between", "write a time such as 1m"));
    }
    Ok(Action::Churn { object, count: given.count as usize, every, lasts })
}

fn when(line: u64, expect: &Expect) -> Result<When, Flaw> {
    match (&expect.within, &expect.throughout) {
        (within, None) => Ok(When::Within(within.as_ref().map(not_negative).transpose()?.unwrap_or_default())),
        (None, Some(time)) => not_negative(time).map(When::Throughout),
        (Some(_), Some(_)) => Err(Flaw::new(line, "at some moment or at every one", "write `within` or `throughout`")),
    }
}

fn goods(types: &[Spanned<String>], zones: &[Spanned<String>], capacity_types: &[Spanned<String>]) -> Goods {
    Goods { types: types.to_vec(), zones: zones.to_vec(), capacity_types: capacity_types.to_vec() }
}

fn price_rule(line: u64, per_hour: Option<&Spanned<f64>>, times: Option<&Spanned<f64>>) -> Result<PriceRule, Flaw> {
    match (per_hour, times) {
        (Some(dollars), None) => price(dollars).map(PriceRule::Is),
        (None, Some(times)) if times.value.is_finite() && (0.0..=1e6).contains(&times.value) => {
            Ok(PriceRule::TimesPartsPerMillion((times.value * 1e6).round() as i64))
        }
        (None, Some(times)) => Err(Flaw::new(
            times.referenced.line(),
            "no price can be so many times another",
            "write a factor such as 1.5",
        )),
        _ => Err(Flaw::new(line, "a price changes in one way", "write `perHour` or `times`")),
    }
}

fn price(dollars: &Spanned<f64>) -> Result<Price, Flaw> {
    Price::from_dollars(dollars.value)
        .map_err(|error| Flaw::new(dollars.referenced.line(), error.to_string(), "write dollars per hour"))
}

fn not_negative(time: &Spanned<api::Duration>) -> Result<Duration, Flaw> {
    match time.value < api::Duration::ZERO {
        true => {
            Err(Flaw::new(time.referenced.line(), "the time is negative", "write a time such as 30s, 10m or 1h30m"))
        }
        false => Ok(time.value.to_std()),
    }
}

fn positive(time: &Spanned<api::Duration>) -> Result<Duration, Flaw> {
    match not_negative(time)? {
        Duration::ZERO => {
            Err(Flaw::new(time.referenced.line(), "the scenario takes no time", "write a time such as 1h"))
        }
        time => Ok(time),
    }
}
