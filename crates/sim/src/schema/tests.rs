use serde_json::json;

use super::*;

fn schema() -> Schema {
    let definition = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
        "type": "object",
        "required": ["spec"],
        "x-kubernetes-validations": [{"rule": "self.metadata.name != 'forbidden'", "message": "not that name"}],
        "properties": {
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "x-kubernetes-validations": [{"rule": "!has(self.weight) || self.mode == 'heavy'", "message": "weight is for the heavy"}],
                "properties": {
                    "mode": {"type": "string", "default": "light", "enum": ["light", "heavy"]},
                    "name": {"type": "string", "pattern": "^[a-z]*$"},
                    "weight": {"type": "integer"},
                    "reasons": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                },
            },
        },
    }}}]}});
    Schema::of(&definition, "v1").unwrap()
}

fn errors(object: Value, old: Option<&Value>) -> Vec<String> {
    let mut object = object;
    let verdict = schema().admit(&mut object, old);
    verdict.err().unwrap_or_default().iter().map(FieldError::to_string).collect()
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "x/v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec})
}

#[test]
fn defaults_are_there_before_rules_run() {
    let mut fine = object(json!({"surprise": 1}));
    assert_eq!(schema().admit(&mut fine, None), Ok(()));
    assert_eq!(fine, object(json!({"mode": "light"})));
    assert_eq!(errors(object(json!({"weight": 1})), None), ["spec: Invalid value: weight is for the heavy"]);
}

#[test]
fn rules_do_not_run_on_what_has_no_sound_structure() {
    let broken = object(json!({"weight": 1, "mode": "odd"}));
    assert_eq!(
        errors(broken, None),
        [
            "spec.mode: Unsupported value: \"odd\": supported values: \"light\", \"heavy\"",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the \
             existing errors to complete validation",
        ]
    );
    // A text that does not match is no obstacle.
    assert_eq!(errors(object(json!({"weight": 1, "name": "N"})), None).len(), 2);
}

#[test]
fn rules_may_speak_of_the_name() {
    let mut named = object(json!({}));
    named["metadata"]["name"] = "forbidden".into();
    assert_eq!(errors(named, None), ["<nil>: Invalid value: not that name"]);
}

#[test]
fn a_list_may_keep_entries_that_were_alike_before() {
    let twice = || object(json!({"mode": "light", "reasons": ["a", "a"]}));
    assert_eq!(errors(twice(), None), ["spec.reasons[1]: Duplicate value: \"a\""]);
    assert_eq!(errors(twice(), Some(&object(json!({"mode": "light"})))).len(), 1);
    assert_eq!(errors(twice(), Some(&twice())), [""; 0]);
}

#[test]
fn a_definition_that_says_more_than_is_known_is_refused() {
    let problem = |schema: Value| {
        let definition = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": schema},
        }}}]}});
        Schema::of(&definition, "v1").err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(
        problem(json!({"type": "object", "patternProperties": {}})),
        "schema of spec: the keyword `patternProperties` is not supported"
    );
    assert!(problem(json!({"type": "string", "format": "ipv4"})).contains("`format` cannot be \"ipv4\""));
    assert!(problem(json!({"anyOf": [{"type": "string"}]})).contains("`anyOf`"));
    assert!(problem(json!({"type": "array"})).contains("entries of a list"));
    assert!(
        problem(json!({"type": "string", "x-kubernetes-validations": [{"rule": "self + 1"}]}))
            .contains("`+` is not supported")
    );
    assert!(Schema::of(&json!({}), "v1").is_err());
}
