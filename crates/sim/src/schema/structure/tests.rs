use serde_json::json;

use super::*;

fn errors_of_update(schema: &Value, old: Option<&Value>, value: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    check(&Node::read(schema, "").unwrap(), value, old, &Path::Root, &mut errors);
    errors.iter().map(|error| format!("{} {error}", error.kind.reason())).collect()
}

/// What is wrong with the value of a field `x` with this schema.
fn check_field(schema: Value, value: Value, expected: &[&str]) {
    let schema = json!({"type": "object", "properties": {"x": schema}});
    assert_eq!(errors_of_update(&schema, None, &json!({"x": value})), expected, "{value}");
}

#[test]
fn a_value_has_the_type_that_it_should_have() {
    check_field(
        json!({"type": "string"}),
        json!(1),
        &["FieldValueTypeInvalid x: Invalid value: \"integer\": x in body must be of type string: \"integer\""],
    );
    check_field(
        json!({"type": "string"}),
        json!(null),
        &["FieldValueTypeInvalid x: Invalid value: \"null\": x in body must be of type string: \"null\""],
    );
    check_field(
        json!({"type": "integer", "format": "int64"}),
        json!(1.5),
        &["FieldValueTypeInvalid x: Invalid value: \"float64\": x in body must be of type int64: \"float64\""],
    );
    check_field(
        json!({"type": "integer", "format": "int64"}),
        json!("1"),
        &["FieldValueTypeInvalid x: Invalid value: \"string\": x in body must be of type integer: \"string\""],
    );
    check_field(json!({"type": "integer"}), json!(1.0), &[]);
    check_field(json!({"type": "number"}), json!(1), &[]);
    check_field(json!({"type": "string", "nullable": true}), json!(null), &[]);
}

#[test]
fn an_amount_is_an_integer_or_a_text() {
    let schema = || json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+$"});
    check_field(schema(), json!(5), &[]);
    check_field(schema(), json!("5"), &[]);
    check_field(
        schema(),
        json!("five"),
        &["FieldValueInvalid x: Invalid value: \"five\": x in body should match '^[0-9]+$'"],
    );
    check_field(
        schema(),
        json!(true),
        &["FieldValueTypeInvalid x: Invalid value: \"boolean\": x in body must be of type integer,string: \"boolean\""],
    );
}

#[test]
fn limits_of_texts_count_letters_and_the_first_fault_hides_the_rest() {
    let schema = || json!({"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-zä]*$"});
    check_field(schema(), json!("äää"), &[]);
    check_field(schema(), json!("AAAA"), &["FieldValueTooLong x: Too long: may not be more than 3 bytes"]);
    check_field(
        schema(),
        json!("A"),
        &["FieldValueInvalid x: Invalid value: \"A\": x in body should be at least 2 chars long"],
    );
    check_field(
        schema(),
        json!("AA"),
        &["FieldValueInvalid x: Invalid value: \"AA\": x in body should match '^[a-zä]*$'"],
    );
    check_field(
        json!({"type": "string", "enum": ["a", "b"]}),
        json!("c"),
        &["FieldValueNotSupported x: Unsupported value: \"c\": supported values: \"a\", \"b\""],
    );
}

#[test]
fn limits_of_numbers_and_lists_are_kept() {
    let schema = || json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 10});
    check_field(
        schema(),
        json!(0),
        &["FieldValueInvalid x: Invalid value: 0: x in body should be greater than or equal to 1"],
    );
    check_field(
        schema(),
        json!(11),
        &["FieldValueInvalid x: Invalid value: 11: x in body should be less than or equal to 10"],
    );
    check_field(
        json!({"type": "integer", "format": "int32"}),
        json!(2_147_483_648_i64),
        &["FieldValueInvalid <nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in x"],
    );
    let schema = || json!({"type": "array", "minItems": 1, "maxItems": 1, "items": {"type": "boolean"}});
    check_field(
        schema(),
        json!([]),
        &["FieldValueInvalid x: Invalid value: 0: x in body should have at least 1 items"],
    );
    check_field(
        schema(),
        json!([true, "no"]),
        &[
            "FieldValueTypeInvalid x[1]: Invalid value: \"string\": x[1] in body must be of type boolean: \"string\"",
            "FieldValueTooMany x: Too many: 2: must have at most 1 item",
        ],
    );
    let schema =
        json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string", "maxLength": 1}});
    check_field(
        schema,
        json!({"a": "b", "c": "dd"}),
        &[
            "FieldValueTooMany x: Too many: 2: must have at most 1 item",
            "FieldValueTooLong x.c: Too long: may not be more than 1 byte",
        ],
    );
}

#[test]
fn a_required_field_is_missed() {
    let schema = json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}}},
    }});
    assert_eq!(errors_of_update(&schema, None, &json!({})), ["FieldValueRequired spec: Required value"]);
    assert_eq!(
        errors_of_update(&schema, None, &json!({"spec": {"a": ""}})),
        ["FieldValueRequired spec.b: Required value"]
    );
}

#[test]
fn a_date_is_one_of_the_calendar_and_has_a_zone() {
    for good in ["2024-02-29T23:59:59Z", "2024-01-01t00:00:00.123z", "2024-01-01T00:00:00+01:00"] {
        assert!(is_date_time(good), "{good}");
    }
    for bad in
        ["", "2024-01-01", "2023-02-29T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:00:00", "2024-1-01T00:00:00Z"]
    {
        assert!(!is_date_time(bad), "{bad}");
    }
    check_field(
        json!({"type": "string", "format": "date-time"}),
        json!("soon"),
        &["FieldValueTypeInvalid x: Invalid value: \"soon\": x in body must be of type date-time: \"soon\""],
    );
}

#[test]
fn faults_that_an_update_leaves_as_they_were_are_forgiven() {
    let schema = json!({"type": "object", "properties": {
        "kept": {"type": "object", "required": ["missing"], "properties": {"a": {"type": "integer", "maximum": 1}}},
        "list": {"type": "array", "items": {"type": "integer", "maximum": 1}},
        "other": {"type": "integer", "maximum": 1},
    }});
    let old = json!({"kept": {"a": 2}, "list": [2, 0], "other": 0});
    assert_eq!(errors_of_update(&schema, Some(&old), &json!({"kept": {"a": 2}, "list": [2, 0], "other": 1})), [""; 0]);
    assert_eq!(
        errors_of_update(&schema, Some(&old), &json!({"kept": {"a": 3}, "list": [2, 1], "other": 2})),
        [
            "FieldValueInvalid kept.a: Invalid value: 3: kept.a in body should be less than or equal to 1",
            "FieldValueRequired kept.missing: Required value",
            "FieldValueInvalid list[0]: Invalid value: 2: list[0] in body should be less than or equal to 1",
            "FieldValueInvalid other: Invalid value: 2: other in body should be less than or equal to 1",
        ]
    );
}
