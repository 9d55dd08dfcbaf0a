//! Objects that are kept as they came, so that whoever patches one patches what the API server has.
//!
//! As values of their types a Node and its claim take well over ten kilobytes, nearly all of it small pieces of text and half-empty maps; as
//! JSON they take three and a half. So the last few that something happened to are kept as values, which is what a duty that works on one
//! asks for again and again, and those that came before them are kept as text and read again when somebody asks. What claims were asked for
//! is mostly alike, so that part of the text is kept once.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::NodeClaim;
use api::conditions::DISRUPTION_REASON;
use api::labels::{NODE_POOL, taints};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::ids::NodeName;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::sharing::Shared;

/// How many of a kind are kept as values. Smaller clusters never read anything again.
const MOST_WHOLE: usize = 512;

/// All objects of one kind.
#[derive(Debug)]
pub struct Wires<T> {
    kept: BTreeMap<NodeName, Kept<T>>,
    /// Those that are kept as values, by the turn in which each came.
    whole: BTreeMap<u64, NodeName>,
    turn: u64,
    words: Shared<str>,
}

#[derive(Debug)]
struct Kept<T> {
    brief: Brief,
    form: Form<T>,
}

#[derive(Debug)]
enum Form<T> {
    Whole { wire: Arc<T>, turn: u64 },
    Text(Text),
}

/// An object as JSON.
#[derive(Debug)]
pub(super) struct Text {
    own: Box<str>,
    /// What others say, too.
    common: Option<Arc<str>>,
}

/// What is asked of all objects of a kind together, and of the oldest of a few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Brief {
    pub(super) pool: Option<Arc<str>>,
    pub(super) born: Option<Timestamp>,
    pub(super) is_ending: bool,
    /// Which machine it is, if it says so.
    pub(super) id: Option<Arc<str>>,
    is_told_to_leave: bool,
}

/// A kind of which there may be thousands.
pub(super) trait Wire: PartialEq + Sized {
    fn metadata(&self) -> &ObjectMeta;
    fn provider_id(&self) -> Option<&str>;
    fn is_told_to_leave(&self) -> bool;
    fn write(&self, words: &mut Shared<str>) -> Option<Text>;
    fn read(text: &Text) -> Option<Self>;
}

impl Wire for Node {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn provider_id(&self) -> Option<&str> {
        self.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).filter(|id| !id.is_empty())
    }

    fn is_told_to_leave(&self) -> bool {
        let mut taints = self.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        taints.any(|taint| taint.key == taints::DISRUPTED && taint.effect == "NoSchedule")
    }

    fn write(&self, _: &mut Shared<str>) -> Option<Text> {
        Some(Text { own: written(self)?.into(), common: None })
    }

    fn read(text: &Text) -> Option<Self> {
        read(&text.own)
    }
}

impl Wire for NodeClaim {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn provider_id(&self) -> Option<&str> {
        self.status.as_ref().and_then(|status| status.provider_id.as_deref()).filter(|id| !id.is_empty())
    }

    fn is_told_to_leave(&self) -> bool {
        let mut conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| condition.type_ == DISRUPTION_REASON && condition.is_true())
    }

    fn write(&self, words: &mut Shared<str>) -> Option<Text> {
        let spec = words.share(written(&self.spec)?.into());
        Some(Text { own: written(&(&self.metadata, &self.status))?.into(), common: Some(spec) })
    }

    fn read(text: &Text) -> Option<Self> {
        let (metadata, status) = read(&text.own)?;
        Some(Self { metadata, spec: read(text.common.as_deref()?)?, status })
    }
}

fn written(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok()
}

fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

impl<T> Default for Wires<T> {
    fn default() -> Self {
        Self { kept: BTreeMap::new(), whole: BTreeMap::new(), turn: 0, words: Shared::default() }
    }
}

#[expect(private_bounds, reason = "there are no other kinds than those that are here")]
impl<T: Wire> Wires<T> {
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub fn contains(&self, name: &NodeName) -> bool {
        self.kept.contains_key(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.kept.keys()
    }

    pub fn get(&self, name: &NodeName) -> Option<Arc<T>> {
        self.kept.get(name).and_then(Kept::wire)
    }

    /// Each in its turn; in a large cluster most are read from text for it.
    pub fn values(&self) -> impl Iterator<Item = Arc<T>> {
        self.kept.values().filter_map(Kept::wire)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&NodeName, Arc<T>)> {
        self.kept.iter().filter_map(|(name, kept)| Some((name, kept.wire()?)))
    }

    /// Whether a Node has the taint, or a claim the condition, of those that are disrupted.
    pub fn is_told_to_leave(&self, name: &NodeName) -> bool {
        self.brief(name).is_some_and(|brief| brief.is_told_to_leave)
    }

    pub(super) fn brief(&self, name: &NodeName) -> Option<&Brief> {
        self.kept.get(name).map(|kept| &kept.brief)
    }

    pub(super) fn briefs(&self) -> impl Iterator<Item = (&NodeName, &Brief)> {
        self.kept.iter().map(|(name, kept)| (name, &kept.brief))
    }

    pub(super) fn insert(&mut self, name: &NodeName, wire: T) {
        self.turn += 1;
        let brief = self.brief_of(&wire);
        let form = Form::Whole { wire: Arc::new(wire), turn: self.turn };
        let before = self.kept.insert(name.clone(), Kept { brief, form });
        self.forget_turn(before.as_ref());
        self.whole.insert(self.turn, name.clone());
        while self.whole.len() > MOST_WHOLE {
            self.shrink_first();
        }
    }

    pub(super) fn remove(&mut self, name: &NodeName) {
        let before = self.kept.remove(name);
        self.forget_turn(before.as_ref());
    }

    fn brief_of(&mut self, wire: &T) -> Brief {
        let metadata = wire.metadata();
        let pool = metadata.labels.as_ref().and_then(|labels| labels.get(NODE_POOL));
        Brief {
            pool: pool.map(|pool| self.words.share(pool.as_str().into())),
            born: metadata.creation_timestamp.as_ref().map(|time| time.0),
            is_ending: metadata.deletion_timestamp.is_some(),
            id: wire.provider_id().map(Into::into),
            is_told_to_leave: wire.is_told_to_leave(),
        }
    }

    fn forget_turn(&mut self, before: Option<&Kept<T>>) {
        if let Some(Kept { form: Form::Whole { turn, .. }, .. }) = before {
            self.whole.remove(turn);
        }
    }

    /// Turns the value to which nothing has happened for longest into text, unless the text would say less than the value.
    fn shrink_first(&mut self) {
        let Some((_, name)) = self.whole.pop_first() else { return };
        let Some(kept) = self.kept.get_mut(&name) else { return };
        let Form::Whole { wire, .. } = &kept.form else { return };
        let text = wire.write(&mut self.words).filter(|text| T::read(text).as_ref() == Some(&**wire));
        if let Some(text) = text {
            kept.form = Form::Text(text);
        }
    }
}

impl<T: Wire> Kept<T> {
    /// There always is one: a text that cannot be read is not kept.
    fn wire(&self) -> Option<Arc<T>> {
        match &self.form {
            Form::Whole { wire, .. } => Some(wire.clone()),
            Form::Text(text) => T::read(text).map(Arc::new),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(number: usize, version: usize) -> NodeClaim {
        let types: Vec<String> = (0..60).map(|size| format!("m{size}.large")).collect();
        let value = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {
                "name": format!("c-{number}"), "uid": format!("u-{number}"), "resourceVersion": version.to_string(), "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"karpenter.sh/nodepool": "general"},
                "annotations": {"quoted": "\"{}\" \u{1f600}"}, "finalizers": ["karpenter.sh/termination"],
            },
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types, "minValues": 2}],
                "resources": {"requests": {"cpu": "1.125", "memory": "1024Mi"}}, "expireAfter": "Never",
                "taints": [{"key": "a", "effect": "NoSchedule"}], "terminationGracePeriod": "30s",
            },
            "status": {
                "providerID": format!("kwok://{number}"), "capacity": {"cpu": "16"}, "lastPodEventTime": "2026-01-01T00:00:09Z",
                "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:05Z"}],
            },
        });
        serde_json::from_value(value).unwrap()
    }

    fn name(number: usize) -> NodeName {
        format!("c-{number}").into()
    }

    fn is_text<T>(wires: &Wires<T>, number: usize) -> bool {
        matches!(wires.kept[&name(number)].form, Form::Text(_))
    }

    #[test]
    fn what_is_kept_as_text_is_the_very_same_when_it_is_asked_for() {
        let mut wires = Wires::default();
        for number in 0..MOST_WHOLE + 3 {
            wires.insert(&name(number), claim(number, 1));
        }
        assert_eq!([0, 1, 2, 3].map(|number| is_text(&wires, number)), [true, true, true, false]);
        for number in [0, 1, 2, 3, MOST_WHOLE + 2] {
            let (read, expected) = (wires.get(&name(number)).unwrap(), claim(number, 1));
            assert_eq!(*read, expected);
            // Equal amounts may be spelt differently.
            assert_eq!(serde_json::to_value(&*read).unwrap(), serde_json::to_value(&expected).unwrap());
        }
        assert_eq!((wires.values().count(), wires.iter().count(), wires.len()), (515, 515, 515));
    }

    #[test]
    fn what_something_happens_to_is_a_value_again_and_the_rest_stays_text() {
        let mut wires = Wires::default();
        for number in 0..MOST_WHOLE + 2 {
            wires.insert(&name(number), claim(number, 1));
        }
        wires.insert(&name(0), claim(0, 2));
        assert_eq!([0, 1, 2, 3].map(|number| is_text(&wires, number)), [false, true, true, false]);
        assert_eq!(wires.get(&name(0)).unwrap().metadata.resource_version.as_deref(), Some("2"));
        wires.remove(&name(1));
        assert!(wires.get(&name(1)).is_none() && !wires.contains(&name(1)));
        // A thousand changes of one are still one value.
        for version in 3..1_000 {
            wires.insert(&name(0), claim(0, version));
        }
        assert_eq!(wires.whole.len(), MOST_WHOLE);
        assert!(!is_text(&wires, 3));
    }

    #[test]
    fn what_many_were_asked_for_is_kept_once() {
        let mut wires = Wires::default();
        for number in 0..MOST_WHOLE + 2 {
            wires.insert(&name(number), claim(number, 1));
        }
        let common = |number: usize| match &wires.kept[&name(number)].form {
            Form::Text(text) => text.common.clone().unwrap(),
            Form::Whole { .. } => panic!("it is a value"),
        };
        assert!(Arc::ptr_eq(&common(0), &common(1)));
    }

    #[test]
    fn what_a_text_would_lose_stays_a_value() {
        let node = |time: &str| -> Node {
            let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": time});
            let value: Value =
                json!({"metadata": {"name": "n", "annotations": {}}, "status": {"conditions": [condition]}});
            serde_json::from_value(value).unwrap()
        };
        let mut wires = Wires::default();
        let times = ["2026-01-01T00:00:05Z", "2026-01-01T00:00:05.123456789Z"];
        for number in 0..MOST_WHOLE + 2 {
            wires.insert(&name(number), node(times[number % 2]));
        }
        for number in [0, 1] {
            assert_eq!(*wires.get(&name(number)).unwrap(), node(times[number]), "{number}");
        }
        assert!(is_text(&wires, 0));
    }

    #[test]
    fn what_is_asked_of_all_is_known_without_reading() {
        let mut wires = Wires::default();
        wires.insert(&name(0), claim(0, 1));
        let brief = wires.brief(&name(0)).unwrap();
        assert_eq!(brief.pool.as_deref(), Some("general"));
        assert!(brief.id.is_some() && !brief.is_ending && brief.born.is_some());
        wires.insert(
            &name(0),
            serde_json::from_value(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim"}))
            .unwrap(),
        );
        let expected = Brief { pool: None, born: None, is_ending: true, id: None, is_told_to_leave: false };
        assert_eq!(wires.brief(&name(0)), Some(&expected));
        assert_eq!(wires.briefs().count(), 1);
    }
}
