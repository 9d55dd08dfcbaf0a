//! From text to a story: every value is checked, and what is wrong is said with its line before anything is played.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use controllers::settings::Flags;
use jiff::Timestamp;
use provider::kwok::types::Menu;
use provider::kwok::{Assortment, Delays, Kwok};
use serde_saphyr::Spanned;

use super::act::{Action, CloudAction, Manifest, Sickness};
use super::cast::{Market, Object, Selection};
use super::document::{API_VERSION, Catalog, Cloud, CloudEvent, Document, Expect, KIND, Operator, Sick, Step, Trace};
use super::expectation::Expectation;
use super::fault::{Fault, Flaw};
use super::lines::{Located, documents, parse};
use super::sense::{self, count, line, name, names, not_negative, positive};
use super::{rehearsal, steps, trace};

/// What the clocks of a simulated cluster show at first.
const EPOCH: &str = "2026-01-01T00:00:00Z";

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
    /// Of the name of the object that it is about, if it is about one.
    pub(super) target_line: u64,
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
        rehearsal::rehearse(&story)?;
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
        let within = |flaw: Flaw| flaw.within(file);
        let setup = self.cloud(&spec.cloud).map_err(within)?;
        let controller = operator(spec.controller.as_ref()).map_err(within)?;
        let duration = positive(&spec.duration, "the scenario takes no time").map_err(within)?;
        let mut steps = Vec::new();
        for step in &spec.steps {
            steps.push(self.step(step, duration)?);
        }
        steps.sort_by_key(|step| step.at);
        let epoch = spec.starts_at.unwrap_or_else(|| EPOCH.parse().unwrap_or(Timestamp::UNIX_EPOCH));
        let name = document.metadata.name;
        Ok(Story { name, file: file.to_owned(), duration, epoch, setup, controller, objects, steps })
    }

    fn cloud(&mut self, cloud: &Cloud) -> Result<CloudSetup, Flaw> {
        let (assortment, market) = match (cloud.catalog.value, &cloud.region) {
            (Catalog::Kwok, None) => {
                let menu = Menu::generated();
                let (types, place) = (menu.types().to_vec(), "the kwok catalogue".to_owned());
                (Assortment::Menu(menu), Market { types, images: Vec::new(), place })
            }
            (Catalog::Kwok, Some(region)) => {
                let remedy = "leave `region` out, or write `catalog: ec2`";
                return Err(Flaw::new(line(region), "the kwok catalogue has no regions", remedy));
            }
            (Catalog::Ec2, None) => {
                let remedy = "write one, such as `region: us-east-1`";
                return Err(Flaw::new(line(&cloud.catalog), "the ec2 catalogue needs a region", remedy));
            }
            (Catalog::Ec2, Some(region)) => {
                let types = provider::ec2::catalog().types(&region.value).map_err(|_| {
                    let regions = provider::ec2::catalog().regions().collect::<Vec<_>>().join(", ");
                    let problem = format!("nothing is known about the region {:?}", region.value);
                    Flaw::new(line(region), problem, format!("use one of {regions}"))
                })?;
                let (images, place) = (Kwok::image_families().collect(), region.value.clone());
                (Assortment::Ec2 { region: place.clone() }, Market { types, images, place })
            }
        };
        let delay = |given: &Option<Spanned<api::Duration>>| given.as_ref().map(not_negative).transpose();
        let delays = Delays {
            launch: delay(&cloud.launch_delay)?.unwrap_or_default(),
            registration: delay(&cloud.registration_delay)?.unwrap_or_default(),
        };
        let shortages = cloud.shortages.iter().map(|choice| Selection::of(choice.goods(), &market));
        let shortages = shortages.collect::<Result<_, _>>()?;
        self.market = Some(market);
        Ok(CloudSetup { assortment, delays, shortages })
    }

    fn step(&self, step: &Spanned<Step>, duration: Duration) -> Result<TimedAction, Fault> {
        let (line, step) = (line(step), &step.value);
        let within = |flaw: Flaw| flaw.within(self.file);
        steps::only_one(line, &step.deeds()).map_err(within)?;
        let at = not_negative(&step.at).map_err(within)?;
        let action = match &step.trace {
            Some(trace) => self.trace(trace)?,
            None => self.action(line, step).map_err(within)?,
        };
        steps::ends_in_time(step, duration).map_err(within)?;
        let target_line = step.target().map_or(line, |target| sense::line(target.name));
        Ok(TimedAction { at, line, target_line, action })
    }

    fn action(&self, line: u64, step: &Step) -> Result<Action, Flaw> {
        if let Some(source) = &step.apply {
            return steps::apply(source);
        }
        if let Some(target) = &step.delete {
            return Object::of(target.target()).map(Action::Delete);
        }
        if let Some(given) = &step.scale {
            return steps::scale(given);
        }
        if let Some(given) = &step.patch {
            let (object, patch) = (Object::of(given.target())?, Manifest::of(&given.patch));
            if patch.value.as_object().is_none_or(serde_json::Map::is_empty) {
                let remedy = "write the fields that change, such as `spec: {replicas: 2}`";
                return Err(Flaw::new(given.patch.line, "the patch changes nothing", remedy));
            }
            return Ok(Action::Patch { object, patch });
        }
        if let Some(event) = &step.cloud {
            return self.cloud_action(sense::line(event), &event.value).map(Action::Cloud);
        }
        if let Some(given) = &step.churn {
            return steps::churn(given);
        }
        if let Some(given) = &step.sick {
            return self.sick(given);
        }
        match &step.expect {
            Some(expect) => self.expectation(sense::line(expect), &expect.value).map(Action::Expect),
            None => Err(steps::nothing(line, &step.deeds())),
        }
    }

    fn market(&self) -> Result<&Market, Flaw> {
        self.market.as_ref().ok_or_else(|| Flaw::new(1, "there is no cloud", "write `cloud`"))
    }

    fn cloud_action(&self, line: u64, event: &CloudEvent) -> Result<CloudAction, Flaw> {
        steps::only_one(line, &event.deeds())?;
        let market = self.market()?;
        if let Some(price) = &event.price {
            let change = steps::price_rule(sense::line(price), &price.value)?;
            return Ok(CloudAction::Price { goods: Selection::of(price.value.goods(), market)?, change });
        }
        if let Some(choice) = &event.shortage {
            return Selection::of(choice.goods(), market).map(CloudAction::Shortage);
        }
        if let Some(choice) = &event.restock {
            return Selection::of(choice.goods(), market).map(CloudAction::Restock);
        }
        if let Some(struck) = &event.interruption {
            return steps::interruption(struck, market);
        }
        match &event.image {
            Some(given) => steps::image(given, market),
            None => Err(steps::nothing(line, &event.deeds())),
        }
    }

    fn sick(&self, given: &Sick) -> Result<Action, Flaw> {
        let status = &given.status;
        if !["True", "False", "Unknown"].contains(&status.value.as_str()) {
            let problem = format!("{:?} is no status of a condition", status.value);
            return Err(Flaw::new(line(status), problem, "write \"True\", \"False\" or Unknown"));
        }
        if let Some(none) = given.condition.as_ref().filter(|condition| condition.value.is_empty()) {
            return Err(Flaw::new(line(none), "the condition has no name", "write one such as Ready"));
        }
        let condition = given.condition.as_ref().map_or("Ready", |condition| &condition.value).to_owned();
        let well_at_once = "they are well again at once";
        Ok(Action::Sick {
            goods: Selection::of(given.goods(), self.market()?)?,
            count: count(given.count.as_ref())?,
            sickness: Sickness { condition, status: status.value.clone() },
            lasts: given.lasts.as_ref().map(|time| positive(time, well_at_once)).transpose()?,
        })
    }

    fn expectation(&self, line: u64, expect: &Expect) -> Result<Expectation, Flaw> {
        let market = self.market()?;
        let types = names(expect.types.as_ref())?;
        types.iter().try_for_each(|name| market.check_type(name))?;
        let expectation = Expectation {
            nodes: expect.nodes,
            types: expect.types.as_ref().map(|_| types.iter().map(|name| name.value.clone()).collect()),
            price_at_most: expect.price_per_hour_at_most.as_ref().map(sense::price).transpose()?,
            pending_pods: expect.pending_pods,
            running_pods: expect.running_pods,
            evicted_pods: expect.evicted_pods,
            launched_after: expect.launched_after.as_ref().map(not_negative).transpose()?,
            when: steps::when(expect)?,
        };
        if expectation.judge(&super::expectation::State::default()).0.is_empty() {
            let remedy = "write one of nodes, types, pricePerHourAtMost, pendingPods, runningPods, evictedPods, \
                          launchedAfter";
            return Err(Flaw::new(line, "nothing is expected", remedy));
        }
        Ok(expectation)
    }

    fn trace(&self, given: &Trace) -> Result<Action, Fault> {
        let within = |flaw: Flaw| flaw.within(self.file);
        let template = given.template.as_ref().map(Manifest::of);
        template.iter().try_for_each(steps::check_template).map_err(within)?;
        let to = given.to.as_ref().map_or(u64::MAX, |to| to.value);
        if to <= given.from {
            let problem = format!("the window from {} to {to} is empty", given.from);
            let line = given.to.as_ref().map_or(line(&given.file), line);
            return Err(within(Flaw::new(line, problem, "make `to` larger")));
        }
        let text = (self.open)(&given.file.value).map_err(|problem| {
            let remedy = "name a file that is there; $DOVETAIL_DATA may begin it";
            within(Flaw::new(line(&given.file), format!("cannot read the trace: {problem}"), remedy))
        })?;
        let window = trace::Window { from: given.from, to };
        let mut pods = trace::read(&text, window).map_err(|flaw| flaw.within(&given.file.value))?;
        let all = pods.len();
        let types = &self.market().map_err(within)?.types;
        // Thousands of pods are of few sorts, and there are hundreds of types to try each on.
        let mut fits = BTreeMap::new();
        pods.retain(|pod| *fits.entry(pod.amounts).or_insert_with(|| pod.fits_on_any(types)));
        let stem = Path::new(&given.file.value).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let namespace = given.namespace.as_ref().map(name).transpose().map_err(within)?;
        Ok(Action::Trace(Arc::new(trace::Trace {
            name: stem.unwrap_or_default(),
            file: given.file.value.clone(),
            namespace: namespace.unwrap_or("default").to_owned(),
            namespace_line: given.namespace.as_ref().map_or(line(&given.file), line),
            template,
            dropped: all - pods.len(),
            pods,
        })))
    }
}

/// What the autoscaler's flags say. A warning is a fault here: nobody would read it.
fn operator(given: Option<&Operator>) -> Result<controllers::Settings, Flaw> {
    let Some(given) = given else { return Ok(controllers::Settings::default()) };
    let (gates, payback, cooldown) = (&given.feature_gates, &given.consolidation_payback, &given.pod_move_cooldown);
    let value = |time: &Option<Spanned<api::Duration>>| time.as_ref().map(|time| time.value);
    let fee = &given.node_fee;
    let flags = Flags {
        feature_gates: gates.as_ref().map(|gates| gates.value.clone()),
        consolidation_payback: value(payback),
        pod_move_cooldown: value(cooldown),
        node_fee: fee.as_ref().map(|fee| fee.value.to_string()),
        ..Flags::default()
    };
    // Each alone, so that what is wrong with one is said of its line.
    let Flags { feature_gates, consolidation_payback, pod_move_cooldown, node_fee, .. } = flags.clone();
    let alone = [
        (gates.as_ref().map(line), Flags { feature_gates, ..Flags::default() }),
        (payback.as_ref().map(line), Flags { consolidation_payback, ..Flags::default() }),
        (cooldown.as_ref().map(line), Flags { pod_move_cooldown, ..Flags::default() }),
        (fee.as_ref().map(line), Flags { node_fee, ..Flags::default() }),
    ];
    let mut last = 1;
    for (line, flags) in alone {
        let Some(line) = line else { continue };
        chosen(line, flags)?;
        last = line;
    }
    chosen(last, flags)
}

fn chosen(line: u64, flags: Flags) -> Result<controllers::Settings, Flaw> {
    let flaw = |problem: String| Flaw::new(line, problem, "write what the flags of `dovetail controller` take");
    let chosen = controllers::Settings::choose(flags, |_| None).map_err(|error| flaw(error.to_string()))?;
    match chosen.warnings.into_iter().next() {
        None => Ok(chosen.settings),
        Some(warning) => Err(flaw(warning)),
    }
}
