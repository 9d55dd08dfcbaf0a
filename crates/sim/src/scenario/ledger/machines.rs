//! The machines that were bought: what they are, what they cost, when they came and why they went.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::labels::{
    CAPACITY_TYPE, CAPACITY_TYPE_ON_DEMAND, CAPACITY_TYPE_RESERVED, CAPACITY_TYPE_SPOT, INSTANCE_TYPE, NODE_POOL, ZONE,
};
use jiff::Timestamp;
use model::instance::CapacityType;
use model::price::Price;
use provider::OfferingKey;
use serde_json::Value;

use super::decisions::{Marked, replaced_by};
use crate::apiserver::Change;
use crate::fields::{condition, has_condition, is_deleting, labels, moment, name};

pub(in crate::scenario) type Prices = BTreeMap<OfferingKey, Price>;

/// More machines than this are counted and not named on one line.
const MOST_NAMED: usize = 3;

/// A claim and its machine.
#[derive(Clone, Debug)]
pub(in crate::scenario) struct Machine {
    pub(in crate::scenario) claim: String,
    pub(in crate::scenario) pool: Option<String>,
    pub(in crate::scenario) node: Option<String>,
    pub(in crate::scenario) provider_id: String,
    pub(in crate::scenario) offering: OfferingKey,
    pub(in crate::scenario) price: Price,
    pub(in crate::scenario) launched: Timestamp,
    pub(in crate::scenario) ready: Option<Timestamp>,
    pub(in crate::scenario) ended: Option<Timestamp>,
    pub(in crate::scenario) reason: Option<String>,
    /// Whether the cloud has announced that it takes it back.
    pub(in crate::scenario) is_interrupted: bool,
    /// Why somebody means to disrupt it, if anybody does.
    marked: Option<String>,
}

/// Somebody has decided that a claim goes.
pub(super) struct Leaving {
    pub(super) name: String,
    pub(super) reason: String,
    pub(super) price: Price,
}

pub(super) struct Machines {
    prices: Prices,
    /// By claim. A name is drawn, so it is not used twice.
    known: BTreeMap<Arc<str>, Machine>,
    running: BTreeSet<Arc<str>>,
    by_node: BTreeMap<String, Arc<str>>,
    price: Price,
    launched: Vec<Arc<str>>,
    ready: Vec<Arc<str>>,
    leaving: BTreeMap<String, Vec<Arc<str>>>,
    gone: Vec<Arc<str>>,
    /// Claims that never had a machine, by the reason why they go.
    given_up: BTreeMap<String, Vec<Arc<str>>>,
}

fn disruption_reason(claim: &Value) -> Option<&str> {
    condition(claim, "DisruptionReason").and_then(|condition| condition["reason"].as_str())
}

/// Why a claim goes: what a disruption has written on it, or what can be seen.
fn reason_of(claim: &Value, is_interrupted: bool, now: Timestamp) -> String {
    if let Some(said) = disruption_reason(claim) {
        return said.to_owned();
    }
    let created = moment(&claim["metadata"]["creationTimestamp"]);
    let lives: Option<api::NillableDuration> = claim["spec"]["expireAfter"].as_str().and_then(|text| text.parse().ok());
    let lives = lives.and_then(|lives| lives.value());
    let is_old = created
        .zip(lives)
        .is_some_and(|(created, lives)| now.duration_since(created).as_nanos() >= i128::from(lives.as_nanos()));
    let unmet = ["Launched", "Registered"].into_iter().find(|stage| !has_condition(claim, stage, "True"));
    match (is_old, unmet) {
        (true, _) => "Expired".to_owned(),
        _ if is_interrupted => "Interrupted".to_owned(),
        (_, Some(stage)) => {
            let said = condition(claim, stage).and_then(|condition| condition["reason"].as_str());
            said.map_or_else(|| format!("Not{stage}"), str::to_owned)
        }
        (_, None) => "Deleted".to_owned(),
    }
}

impl Machines {
    pub(super) fn new(prices: Prices) -> Self {
        Self {
            prices,
            known: BTreeMap::new(),
            running: BTreeSet::new(),
            by_node: BTreeMap::new(),
            price: Price::ZERO,
            launched: Vec::new(),
            ready: Vec::new(),
            leaving: BTreeMap::new(),
            gone: Vec::new(),
            given_up: BTreeMap::new(),
        }
    }

    pub(super) fn reprice(&mut self, prices: Prices) {
        self.prices = prices;
        self.price = Price::ZERO;
        for claim in &self.running {
            let Some(machine) = self.known.get_mut(claim) else { continue };
            machine.price = self.prices.get(&machine.offering).copied().unwrap_or(machine.price);
            self.price = self.price.plus(machine.price);
        }
    }

    pub(super) fn interrupted(&mut self, claim: &str) {
        if let Some(machine) = self.known.get_mut(claim) {
            machine.is_interrupted = true;
        }
    }

    /// Says whether the claim has just been told to go.
    pub(super) fn note_claim(&mut self, change: &Change, now: Timestamp) -> Option<Leaving> {
        let key = &change.at.name;
        let Some(claim) = change.after.as_deref() else {
            self.end(key, now);
            return None;
        };
        let provider_id = claim["status"]["providerID"].as_str().unwrap_or_default();
        if !provider_id.is_empty() && !self.known.contains_key(key) {
            self.launch(key, claim, provider_id, now);
        }
        if let Some(machine) = self.known.get_mut(key) {
            if let (None, Some(node)) = (&machine.node, claim["status"]["nodeName"].as_str()) {
                machine.node = Some(node.to_owned());
                self.by_node.insert(node.to_owned(), key.clone());
            }
            machine.marked = disruption_reason(claim).map(str::to_owned);
            if machine.ready.is_none() && has_condition(claim, "Ready", "True") {
                machine.ready = Some(now);
                self.ready.push(key.clone());
            }
        }
        let is_news = is_deleting(claim) && !change.before.as_deref().is_some_and(is_deleting);
        is_news.then(|| self.leave(key, claim, now))
    }

    fn launch(&mut self, key: &Arc<str>, claim: &Value, provider_id: &str, now: Timestamp) {
        let label = |key: &str| labels(claim)[key].as_str().unwrap_or_default();
        let capacity_type = match label(CAPACITY_TYPE) {
            CAPACITY_TYPE_SPOT => CapacityType::Spot,
            CAPACITY_TYPE_RESERVED => CapacityType::Reserved,
            CAPACITY_TYPE_ON_DEMAND => CapacityType::OnDemand,
            // Its labels come with the same write; one without is not described yet.
            _ => return,
        };
        let offering = OfferingKey { type_name: label(INSTANCE_TYPE).into(), zone: label(ZONE).into(), capacity_type };
        let price = self.prices.get(&offering).copied().unwrap_or_default();
        let pool = Some(label(NODE_POOL)).filter(|pool| !pool.is_empty());
        let machine = Machine {
            claim: key.to_string(),
            pool: pool.map(str::to_owned),
            node: None,
            provider_id: provider_id.to_owned(),
            offering,
            price,
            launched: now,
            ready: None,
            ended: None,
            reason: None,
            is_interrupted: false,
            marked: None,
        };
        self.price = self.price.plus(price);
        self.known.insert(key.clone(), machine);
        self.running.insert(key.clone());
        self.launched.push(key.clone());
    }

    fn leave(&mut self, key: &Arc<str>, claim: &Value, now: Timestamp) -> Leaving {
        let is_interrupted = self.known.get(key).is_some_and(|machine| machine.is_interrupted);
        let reason = reason_of(claim, is_interrupted, now);
        let machine = self.known.get_mut(key);
        let price = machine.as_ref().map(|machine| machine.price).unwrap_or_default();
        match machine {
            Some(machine) => {
                machine.reason = Some(reason.clone());
                self.leaving.entry(reason.clone()).or_default().push(key.clone());
            }
            None => self.given_up.entry(reason.clone()).or_default().push(key.clone()),
        }
        Leaving { name: self.name_of(key), reason, price }
    }

    /// A Node that goes takes its machine along, if the claim has not gone before.
    pub(super) fn note_node(&mut self, change: &Change, now: Timestamp) {
        if change.after.is_some() {
            return;
        }
        let node = change.before.as_deref().map(name).unwrap_or_default();
        if let Some(claim) = self.by_node.remove(node) {
            self.end(&claim, now);
        }
    }

    fn end(&mut self, key: &Arc<str>, now: Timestamp) {
        if !self.running.remove(key) {
            return;
        }
        let Some(machine) = self.known.get_mut(key) else { return };
        machine.ended = Some(now);
        if machine.reason.is_none() {
            machine.reason = Some(if machine.is_interrupted { "Interrupted" } else { "Deleted" }.to_owned());
        }
        self.price = Price::from_pico(self.price.pico() - machine.price.pico());
        self.gone.push(key.clone());
    }

    /// The nodes that a new claim is to replace.
    pub(super) fn replaced_by(&self, claim: &Value) -> Vec<Marked> {
        let known = replaced_by(claim).into_iter().filter_map(|name| self.known.get(name));
        let named = known.map(|machine| Marked {
            name: machine.node.clone().unwrap_or_else(|| machine.claim.clone()),
            reason: machine.marked.clone().unwrap_or_default(),
        });
        named.collect()
    }

    fn name_of(&self, key: &Arc<str>) -> String {
        let node = self.known.get(key).and_then(|machine| machine.node.clone());
        node.unwrap_or_else(|| key.to_string())
    }

    pub(super) fn count(&self) -> usize {
        self.running.len()
    }

    pub(super) fn price(&self) -> Price {
        self.price
    }

    /// When the oldest of those that run was launched.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.running.iter().filter_map(|claim| self.known.get(claim)).map(|machine| machine.launched).min()
    }

    pub(super) fn types(&self) -> Vec<String> {
        let running = self.running.iter().filter_map(|claim| self.known.get(claim));
        let types: BTreeSet<&str> = running.map(|machine| machine.offering.type_name.as_str()).collect();
        types.into_iter().map(str::to_owned).collect()
    }

    pub(super) fn running(&self) -> Vec<&Machine> {
        self.all().into_iter().filter(|machine| machine.ended.is_none()).collect()
    }

    /// By time of launch.
    pub(super) fn all(&self) -> Vec<&Machine> {
        let mut all: Vec<&Machine> = self.known.values().collect();
        all.sort_by(|a, b| (a.launched, &a.claim).cmp(&(b.launched, &b.claim)));
        all
    }

    pub(super) fn take_lines(&mut self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let launched = std::mem::take(&mut self.launched);
        if !launched.is_empty() {
            lines.push(("launch", self.described(&launched)));
        }
        let ready = std::mem::take(&mut self.ready);
        if !ready.is_empty() {
            lines.push(("ready", self.described(&ready)));
        }
        for (reason, claims) in std::mem::take(&mut self.given_up) {
            let named = claims.iter().take(MOST_NAMED).map(|claim| &**claim).collect::<Vec<_>>().join(", ");
            let more = claims.len().saturating_sub(MOST_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            lines.push(("given up", format!("{reason}: claims without a machine: {named}{more}")));
        }
        for (reason, claims) in std::mem::take(&mut self.leaving) {
            lines.push(("leave", format!("{reason}: {}", self.described(&claims))));
        }
        let gone = std::mem::take(&mut self.gone);
        if !gone.is_empty() {
            lines.push(("gone", self.described(&gone)));
        }
        lines
    }

    /// Each machine if they are few, else how many of each type.
    fn described(&self, claims: &[Arc<str>]) -> String {
        let machines: Vec<&Machine> = claims.iter().filter_map(|claim| self.known.get(claim)).collect();
        if machines.len() <= MOST_NAMED {
            let each = machines.iter().map(|machine| {
                let OfferingKey { type_name, zone, capacity_type } = &machine.offering;
                format!("{} {type_name} {} in {zone} at {}", machine.claim, capacity_type.as_str(), machine.price)
            });
            return each.collect::<Vec<_>>().join("; ");
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for machine in &machines {
            *counts.entry(machine.offering.type_name.as_str()).or_default() += 1;
        }
        let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        let named: Vec<String> = counts.iter().take(6).map(|(name, count)| format!("{count} × {name}")).collect();
        let more = counts.len().saturating_sub(6);
        let more = if more > 0 { format!(" and {more} other types") } else { String::new() };
        format!("{} machines: {}{more}", machines.len(), named.join(", "))
    }
}
