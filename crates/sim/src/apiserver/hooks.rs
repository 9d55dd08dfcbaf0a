//! Where other parts of the simulator plug into the server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::store::Store;
use crate::kinds::Kind;

/// What others have to say about objects before they are stored.
#[derive(Default)]
pub struct Hooks {
    /// Called for every object of a built-in kind that is made or changed, after defaults and before validation. A write of a part
    /// that has an address of its own is no such change.
    pub admit: Option<Admit>,
    /// The rules of custom kinds.
    pub rules: BTreeMap<Kind, Box<dyn Rules>>,
    /// Kinds that this cluster does not serve, as if their definitions had never been installed.
    pub absent: BTreeSet<Kind>,
}

/// Changes an object of a built-in kind or says why it is forbidden. One that is changed comes with what it was.
pub type Admit = fn(Kind, &mut Value, Option<&Value>, &Store) -> Result<(), String>;

/// What objects of one custom kind must be like.
pub trait Rules: Send + Sync {
    /// Prunes unknown fields, fills in defaults, and says what is wrong with what is left.
    fn admit(&self, object: &mut Value, old: Option<&Value>) -> Result<(), Vec<RuleViolation>>;
}

/// One broken rule of a custom kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleViolation {
    pub field: String,
    /// The API's name of what is wrong, such as `FieldValueInvalid`.
    pub reason: &'static str,
    pub message: String,
}

impl Hooks {
    /// Serves the custom kinds of these definitions and no others; `rules` makes the rules of one version of a definition.
    pub fn with_definitions<E>(
        mut self,
        definitions: &[Value],
        rules: impl Fn(&Value, &str) -> Result<Box<dyn Rules>, E>,
    ) -> Result<Self, E> {
        for kind in Kind::ALL.iter().copied().filter(|kind| kind.is_custom()) {
            let (group, version) = kind.api_version().split_once('/').unwrap_or(("", kind.api_version()));
            let is_it = |definition: &&Value| {
                let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
                definition["spec"]["group"] == group
                    && definition["spec"]["names"]["kind"] == kind.as_str()
                    && versions.into_iter().any(|served| served["name"] == version)
            };
            match definitions.iter().find(is_it) {
                None => drop(self.absent.insert(kind)),
                Some(definition) => drop(self.rules.insert(kind, rules(definition, version)?)),
            }
        }
        Ok(self)
    }
}
