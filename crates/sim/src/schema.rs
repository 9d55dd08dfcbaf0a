//! Schemas of custom resources: what an API server makes of an object before it keeps it, and why it refuses one.
//!
//! A schema is read once from its definition, with its patterns and rules compiled; admitting an object is then a few walks over it.
//! What a definition says and this room does not know is an error when it is read, so that nothing goes unchecked.
//!
//! Not here: validation of `metadata` (the same for every kind), which parts of an object a subresource may change, and the budget
//! that the API server grants to rules.

mod cel;
mod changes;
mod error;
mod lists;
mod node;
mod path;
mod pattern;
mod rules;
mod scale;
mod shape;
mod structure;

use serde_json::{Value, json};

pub use self::error::{FieldError, FieldErrorKind, SchemaError};
use self::node::Node;
use self::path::Path;
use self::scale::Scale;

/// What one version of a custom resource definition says of its objects.
pub struct Schema {
    root: Node,
    scale: Option<Scale>,
}

impl Schema {
    /// The schema of one version of a `CustomResourceDefinition`.
    pub fn of(definition: &Value, version: &str) -> Result<Self, SchemaError> {
        let versions = definition["spec"]["versions"].as_array();
        let found = versions.into_iter().flatten().find(|candidate| candidate["name"] == version);
        let found = found.ok_or_else(|| SchemaError::new("", format!("there is no version `{version}`")))?;
        if !found["schema"]["openAPIV3Schema"].is_object() {
            return Err(SchemaError::new("", format!("version `{version}` has no schema")));
        }
        let root = Node::read(&with_own_fields(&found["schema"]["openAPIV3Schema"]), "")?;
        let scale = Scale::read(&found["subresources"]["scale"])?;
        Ok(Self { root, scale })
    }

    /// Drops what nobody knows, fills in defaults, and checks what is then there. `old` is the object as it is stored, for an update.
    ///
    /// A status that comes with a new object is to be taken off before: its defaults are filled in here like all others.
    pub fn admit(&self, object: &mut Value, old: Option<&Value>) -> Result<(), Vec<FieldError>> {
        shape::complete_object(&self.root, object);
        let mut errors = Vec::new();
        structure::check(&self.root, object, old, &Path::Root, &mut errors);
        if let Some(scale) = &self.scale {
            scale.check(object, &mut errors);
        }
        self.check_lists(object, old, &mut errors);
        if self.root.leads_to_rules {
            if errors.iter().any(|error| error.kind.keeps_rules_from_running()) {
                errors.push(rules_not_checked());
            } else {
                rules::check(&self.root, object, old, &mut errors);
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Entries may stay alike where they were so before.
    fn check_lists(&self, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let mut new_errors = Vec::new();
        lists::check(&self.root, object, &Path::Root, &mut new_errors);
        let mut old_errors = Vec::new();
        if let Some(old) = old.filter(|_| !new_errors.is_empty()) {
            lists::check(&self.root, old, &Path::Root, &mut old_errors);
        }
        if old_errors.is_empty() {
            errors.append(&mut new_errors);
        }
    }
}

/// Rules may speak of the object's name, which no definition declares.
fn with_own_fields(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let text = json!({"type": "string"});
    for name in ["apiVersion", "kind"] {
        schema["properties"][name] = text.clone();
    }
    for name in ["name", "generateName"] {
        let field = &mut schema["properties"]["metadata"]["properties"][name];
        if field.is_null() {
            *field = text.clone();
        }
    }
    schema["properties"]["metadata"]["type"] = "object".into();
    schema
}

fn rules_not_checked() -> FieldError {
    let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to \
                  complete validation";
    FieldError::with_value(FieldErrorKind::Invalid, Path::Root.bracketed_field(), &Value::Null, detail)
}

#[cfg(test)]
mod tests;
