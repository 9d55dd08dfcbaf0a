//! Pieces of OpenAPI that several kinds share: patterns, rules, and list shapes that differ by one line between kinds.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::conditions::Condition;
use crate::requirement::Requirement;

pub(crate) const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
pub(crate) const LABEL_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
pub(crate) const DURATION: &str = r"^([0-9]+(s|m|h))+$";
pub(crate) const DURATION_OR_NEVER: &str = r"^(([0-9]+(s|m|h))+|Never)$";
pub(crate) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
pub(crate) const CONDITION_TYPE: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const CONDITION_REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
const CONDITION_REASON_OR_NONE: &str = r"^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$";

/// CEL rules with the messages that users see, in the order in which they are checked.
pub(crate) fn rules(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(message, rule)| json!({"message": message, "rule": rule})).collect()
}

pub(crate) fn quantity() -> Schema {
    json_schema!({"pattern": QUANTITY, "x-kubernetes-int-or-string": true})
}

/// An object whose members the API server neither checks nor prunes.
pub(crate) fn open_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Go's plain `int`, which carries no format on the wire.
pub(crate) fn min_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": 1, "maximum": 50})
}

/// Conditions of a kind whose every condition explains itself.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut list = unkeyed_conditions(generator);
    list.insert("x-kubernetes-list-type".into(), "map".into());
    list.insert("x-kubernetes-list-map-keys".into(), json!(["type"]));
    list
}

/// The same for kinds whose condition list the reference left without a merge key.
pub(crate) fn unkeyed_conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut item = Condition::json_schema_of_item(generator);
    edit(&mut item, "/properties/reason", |reason| {
        reason["minLength"] = 1.into();
        reason["pattern"] = CONDITION_REASON.into();
    });
    item["required"] = json!(["lastTransitionTime", "message", "reason", "status", "type"]);
    json_schema!({"type": "array", "items": item})
}

/// Conditions of a NodeClaim, where reason and message may be missing.
pub(crate) fn relaxed_conditions(generator: &mut SchemaGenerator) -> Schema {
    let mut item = Condition::json_schema_of_item(generator);
    edit(&mut item, "/properties/reason", |reason| reason["pattern"] = CONDITION_REASON_OR_NONE.into());
    item["required"] = json!(["lastTransitionTime", "status", "type"]);
    json_schema!({
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

const NUMERIC_RULE: &str = "self.all(x, (x.operator == 'Gt' || x.operator == 'Lt' || x.operator == 'Gte' || x.operator == 'Lte') ? (x.values.size() == 1 && int(x.values[0]) >= 0) : true)";
const IN_RULE: (&str, &str) = (
    "requirements with operator 'In' must have a value defined",
    "self.all(x, x.operator == 'In' ? x.values.size() != 0 : true)",
);
const NOT_IN_RULE: (&str, &str) = (
    "requirements with operator 'NotIn' must have a value defined",
    "self.all(x, x.operator == 'NotIn' ? x.values.size() != 0 : true)",
);
const MIN_VALUES_RULE: (&str, &str) = (
    "requirements with 'minValues' must have at least that many values specified in the 'values' field",
    "self.all(x, (x.operator == 'In' && has(x.minValues)) ? x.values.size() >= x.minValues : true)",
);

/// Requirements of a NodeClaim.
pub(crate) fn claim_requirements(generator: &mut SchemaGenerator) -> Schema {
    let numeric =
        ("requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value", NUMERIC_RULE);
    requirement_list(generator, &[IN_RULE, numeric, MIN_VALUES_RULE])
}

/// Requirements of a NodePool: those of its claims, except that a pool cannot require a pool.
pub(crate) fn pool_requirements(generator: &mut SchemaGenerator) -> Schema {
    let mut list = claim_requirements(generator).to_value();
    edit(&mut list, "/items/properties/key/x-kubernetes-validations", |key_rules| {
        if let Some(key_rules) = key_rules.as_array_mut() {
            let own_pool = json!({
                "message": "label \"karpenter.sh/nodepool\" is restricted",
                "rule": "self != \"karpenter.sh/nodepool\"",
            });
            key_rules.insert(1, own_pool);
        }
    });
    into_schema(list)
}

/// Requirements of a NodeOverlay: no minimum counts, and an empty `NotIn` is refused.
pub(crate) fn overlay_requirements(generator: &mut SchemaGenerator) -> Schema {
    let numeric =
        ("requirements operator 'Gt', 'Lt', 'Gte' or 'Lte' must have a single positive integer value", NUMERIC_RULE);
    let mut list = requirement_list(generator, &[NOT_IN_RULE, IN_RULE, numeric]).to_value();
    edit(&mut list, "/items/properties", |properties| {
        if let Some(properties) = properties.as_object_mut() {
            properties.remove("minValues");
        }
    });
    into_schema(list)
}

fn requirement_list(generator: &mut SchemaGenerator, list_rules: &[(&str, &str)]) -> Schema {
    json_schema!({
        "type": "array",
        "items": generator.subschema_for::<Requirement>(),
        "maxItems": 100,
        "x-kubernetes-list-type": "atomic",
        "x-kubernetes-validations": rules(list_rules),
    })
}

/// Changes the part of a schema that a JSON pointer names. The pointers are constants of this crate; one that leads
/// nowhere would silently drop a rule, so it is a bug worth stopping for.
pub(crate) fn edit(schema: &mut Value, pointer: &str, change: impl FnOnce(&mut Value)) {
    let place = schema.pointer_mut(pointer);
    assert!(place.is_some(), "the schema has no {pointer}");
    if let Some(place) = place {
        change(place);
    }
}

fn into_schema(value: Value) -> Schema {
    Schema::try_from(value).expect("an edited object schema is still an object")
}
