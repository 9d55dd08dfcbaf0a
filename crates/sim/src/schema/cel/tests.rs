use serde_json::json;

use super::*;

/// The verdicts of rules on one value, by the words of an error where there is none.
fn check(schema: &Value, value: &Value, old: Option<&Value>, expected: &[(&str, &str)]) {
    let node = Node::read(schema, "").unwrap();
    for (rule, expected) in expected {
        let verdict = match Expression::compile(rule).unwrap().holds(&Subject { node: &node, value, old }) {
            Ok(holds) => holds.to_string(),
            Err(EvaluationError::NoSuchOverload) => "no such overload".to_owned(),
            Err(EvaluationError::Other(problem)) => problem,
        };
        assert_eq!(verdict, *expected, "{rule}");
    }
}

fn requirements() -> Value {
    json!({"type": "array", "items": {"type": "object", "properties": {
        "key": {"type": "string"}, "operator": {"type": "string"}, "minValues": {"type": "integer"},
        "values": {"type": "array", "items": {"type": "string"}},
    }}})
}

#[test]
fn macros_walk_lists_and_keys_of_maps() {
    let value = json!([{"key": "a", "values": ["1", "2"], "minValues": 2}, {"key": "b"}]);
    check(
        &requirements(),
        &value,
        None,
        &[
            ("self.all(x, has(x.key))", "true"),
            ("self.all(x, has(x.values))", "false"),
            ("self.exists(x, x.key == 'b')", "true"),
            ("self.exists(x, has(x.minValues) && x.values.size() >= x.minValues)", "true"),
            ("self.filter(x, has(x.values)).size() == 1", "true"),
            ("self.filter(x, has(x.values))[0].key == 'a'", "true"),
            ("self.all(x, self.filter(y, x.key == y.key).size() == 1)", "true"),
            ("self.size() == 2 && size(self) == 2", "true"),
        ],
    );
    let map = json!({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}});
    check(
        &map,
        &json!({"cpu": "1", "pods": 5}),
        None,
        &[
            ("self.all(k, k != '')", "true"),
            ("self.all(k, self[k] != '1')", "false"),
            ("'pods' in self && !('memory' in self)", "true"),
            ("self['pods'] == 5 && self.cpu == '1'", "true"),
            ("self['memory'] == 5", "no such key: memory"),
            ("size(self) == 2", "true"),
        ],
    );
}

#[test]
fn a_deciding_part_outweighs_parts_without_a_value() {
    check(
        &requirements(),
        &json!([{"key": "a"}, {"key": "b", "values": []}]),
        None,
        &[
            ("self[5].key == 'a' || true", "true"),
            ("true || self[5].key == 'a'", "true"),
            ("self[5].key == 'a' && false", "false"),
            ("self[5].key == 'a' || false", "index out of bounds: 5"),
            ("self.exists(x, x.values.size() == 0)", "true"),
            ("self.all(x, x.values.size() == 0)", "no such key: values"),
            ("self.all(x, x.values.size() == 1)", "false"),
            ("self[5].key == 'a' ? true : true", "index out of bounds: 5"),
            ("self[0].key == 'a' ? true : self[5].key == 'a'", "true"),
        ],
    );
}

#[test]
fn texts_are_taken_apart() {
    check(
        &json!({"type": "string"}),
        &json!("karpenter.sh/nodepool@x"),
        None,
        &[
            ("self.find('^([^/]+)').endsWith('karpenter.sh')", "true"),
            ("self.find('^[0-9]+') == ''", "true"),
            ("self.matches('^[a-z./@]+$')", "true"),
            ("self.split('@')[1] == 'x'", "true"),
            ("self.split('@')[2] == 'x'", "index out of bounds: 2"),
            ("self.split('@') == ['karpenter.sh/nodepool', 'x']", "true"),
            ("self.startsWith('karpenter') && self.contains('pool')", "true"),
            ("self in [\"a\", 'karpenter.sh/nodepool@x']", "true"),
            ("self.split('@')[0] in ['a', 'b']", "false"),
            ("self < 'l' && self >= 'k'", "true"),
            ("self < 1", "no such overload"),
            ("self", "no such overload"),
        ],
    );
}

#[test]
fn texts_become_integers() {
    let schema = json!({"type": "string"});
    check(&schema, &json!("12"), None, &[("int(self) >= 0 && int(self) == 12 && 12.0 == int(self)", "true")]);
    check(&schema, &json!("-1"), None, &[("int(self) >= 0", "false"), ("int(self) == -1", "true")]);
    check(&schema, &json!("1.5"), None, &[("int(self) >= 0", "strconv.ParseInt: parsing \"1.5\": invalid syntax")]);
    check(
        &schema,
        &json!("9223372036854775808"),
        None,
        &[("int(self) >= 0", "strconv.ParseInt: parsing \"9223372036854775808\": value out of range")],
    );
}

#[test]
fn equality_minds_what_the_schema_says_of_order_and_time() {
    let schema = json!({"type": "object", "properties": {
        "atomic": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "at": {"type": "string", "format": "date-time"},
    }});
    let rule = "self == oldSelf";
    let old = json!({"atomic": ["a", "b"], "set": ["a", "b"], "at": "2024-01-01T00:00:00Z"});
    let same = json!({"atomic": ["a", "b"], "set": ["b", "a"], "at": "2024-01-01T01:00:00+01:00"});
    check(
        &schema,
        &same,
        Some(&old),
        &[(rule, "true"), ("self != oldSelf", "false"), ("has(self.at) == has(oldSelf.at)", "true")],
    );
    for other in [
        json!({"atomic": ["b", "a"], "set": ["a", "b"], "at": "2024-01-01T00:00:00Z"}),
        json!({"atomic": ["a", "b"], "set": ["a", "c"], "at": "2024-01-01T00:00:00Z"}),
        json!({"atomic": ["a", "b"], "set": ["a", "b"], "at": "2024-01-01T00:00:01Z"}),
        json!({"atomic": ["a", "b"], "set": ["a", "b"]}),
    ] {
        check(&schema, &other, Some(&old), &[(rule, "false")]);
    }
    assert!(Expression::compile(rule).unwrap().compares_with_old());
    assert!(!Expression::compile("self == 'oldSelf'").unwrap().compares_with_old());
}

#[test]
fn what_is_not_supported_is_refused_when_the_rule_is_read() {
    for (rule, expected) in [
        ("self + 1 == 2", "`+` is not supported"),
        ("quantity(self)", "the function `quantity` with these arguments is not supported"),
        ("self.map(x, x)", "there is no variable `x`"),
        ("self.lowerAscii() == ''", "the function `lowerAscii` is not supported"),
        ("self.matches(self)", "`matches` is only supported with a pattern that is written out"),
        ("self.matches('(')", "the pattern \"(\" cannot be read"),
        ("has(self)", "the function `has` with these arguments is not supported"),
        ("other == 1", "there is no variable `other`"),
        ("self ==", "ends too early"),
        ("self self", "did not expect"),
        ("(self", "expected `)`"),
        ("self.__in__ == 1", "the name `__in__` is not supported"),
    ] {
        let problem = Expression::compile(rule).err().unwrap_or_default();
        assert!(problem.starts_with(expected), "{rule}: {problem}");
    }
}
