//! YAML that remembers its lines, so that what is wrong with an object can be shown where it stands.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::fault::Flaw;

/// A value and the line on which it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Located {
    pub(super) line: u64,
    node: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Scalar(Value),
    List(Vec<Located>),
    Map(Vec<Member>),
}

#[derive(Clone, Debug, PartialEq)]
struct Member {
    key: String,
    /// Of the key.
    line: u64,
    value: Located,
}

/// One document of a file. In front of it stand as many empty lines as the file has lines before it, so lines count from the
/// file's beginning.
pub(super) fn documents(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    for (number, line) in text.lines().enumerate() {
        let is_mark = |mark: &str| line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        if is_mark("---") || is_mark("...") {
            found.push("\n".repeat(number));
            // What follows on the line of the mark belongs to the document.
            if let (Some(document), Some(rest)) = (found.last_mut(), line.get(3..)) {
                document.push_str("   ");
                document.push_str(rest);
                document.push('\n');
            }
        } else if let Some(document) = found.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    let has_content =
        |document: &String| document.lines().map(str::trim).any(|line| !line.is_empty() && !line.starts_with('#'));
    found.retain(has_content);
    found
}

/// Reads one document as a type.
pub(super) fn parse<'de, T: Deserialize<'de>>(document: &'de str) -> Result<T, Flaw> {
    // As in manifests for Kubernetes, `y` and `on` are words.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(document, options).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        let text = error.without_snippet().to_string();
        let place = text.find(" at line ").or_else(|| text.find("line ").filter(|place| *place == 0));
        let problem = place.map_or(text.as_str(), |place| &text[..place]).trim().to_owned();
        let problem = if problem.is_empty() { text.clone() } else { problem };
        let remedy = match (problem.contains("unknown field"), problem.contains("missing field")) {
            (true, _) => "correct the name or leave the field out",
            (_, true) => "add it to what ends here",
            _ => "correct the line",
        };
        Flaw::new(line, problem, remedy)
    })
}

impl Located {
    pub(super) fn value(&self) -> Value {
        match &self.node {
            Node::Scalar(value) => value.clone(),
            Node::List(items) => items.iter().map(Self::value).collect(),
            Node::Map(members) => {
                Value::Object(members.iter().map(|member| (member.key.clone(), member.value.value())).collect())
            }
        }
    }

    /// The items of a list; the value itself when it is none.
    pub(super) fn items(&self) -> Vec<&Self> {
        match &self.node {
            Node::List(items) => items.iter().collect(),
            _ => vec![self],
        }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.node, Node::Map(_))
    }

    /// The line of a field such as `spec.containers[0].name`, or of the last part of its path that is there.
    pub(super) fn line_of(&self, path: &str) -> u64 {
        let (mut here, mut line, mut rest) = (self, self.line, path);
        loop {
            rest = rest.trim_start_matches('.');
            let found = match &here.node {
                _ if rest.is_empty() => None,
                Node::Scalar(_) => None,
                Node::List(items) => item(items, rest),
                Node::Map(members) => member(members, rest),
            };
            let Some((line_there, there, after)) = found else { return line };
            (line, here, rest) = (line_there, there, after);
        }
    }
}

fn item<'a, 'p>(items: &'a [Located], path: &'p str) -> Option<(u64, &'a Located, &'p str)> {
    let (number, after) = path.strip_prefix('[')?.split_once(']')?;
    let item = items.get(number.parse::<usize>().ok()?)?;
    Some((item.line, item, after))
}

/// Keys may contain dots, so they are looked for in the path and not the other way round.
fn member<'a, 'p>(members: &'a [Member], path: &'p str) -> Option<(u64, &'a Located, &'p str)> {
    let after_key = |key: &str| {
        let bare = path.strip_prefix(key).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        let bracketed = || path.strip_prefix('[')?.strip_prefix(key)?.strip_prefix(']');
        bare.or_else(bracketed)
    };
    members.iter().find_map(|member| Some((member.line, &member.value, after_key(&member.key)?)))
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Node>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), node: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, Located>()? {
            members.push(Member { line: key.referenced.line(), key: key.value, value });
        }
        Ok(Node::Map(members))
    }
}

/// Every path of `given` that `kept` does not have: fields that nobody knows. Empty values do not count, and neither does what the
/// server writes itself.
pub(super) fn unknown_fields(given: &Value, kept: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let empty = Map::new();
    for (key, value) in given.as_object().unwrap_or(&empty).iter().filter(|(key, _)| *key != "status") {
        missing(key, value, kept.get(key), &mut found);
    }
    let is_ours = |path: &String| {
        const SYSTEM: [&str; 6] =
            ["creationTimestamp", "resourceVersion", "uid", "generation", "managedFields", "selfLink"];
        SYSTEM.iter().any(|field| path.strip_prefix("metadata.").is_some_and(|rest| rest.starts_with(field)))
    };
    found.retain(|path| !is_ours(path));
    found
}

fn missing(path: &str, given: &Value, kept: Option<&Value>, found: &mut Vec<String>) {
    let is_empty = match given {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    match (given, kept) {
        _ if is_empty => {}
        (_, None) => found.push(path.to_owned()),
        (Value::Object(members), Some(kept)) => {
            for (key, value) in members {
                missing(&format!("{path}.{key}"), value, kept.get(key), found);
            }
        }
        (Value::Array(items), Some(kept)) => {
            for (place, item) in items.iter().enumerate() {
                missing(&format!("{path}[{place}]"), item, kept.get(place), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "# first\nkind: A\nspec:\n  list:\n    - name: x\n    - name: y\n  labels:\n    a.b/c: d\n---\n\n# nothing\n---\nkind: B\n";

    #[test]
    fn values_know_the_lines_of_the_file() {
        let found = documents(TEXT);
        assert_eq!(found.len(), 2);
        let first: Located = parse(&found[0]).unwrap();
        assert_eq!(
            first.value(),
            json!({"kind": "A", "spec": {"list": [{"name": "x"}, {"name": "y"}], "labels": {"a.b/c": "d"}}})
        );
        for (path, line) in [
            ("kind", 2),
            ("spec", 3),
            ("spec.list[1].name", 6),
            ("spec.list[1].other", 6),
            ("spec.labels.a.b/c", 8),
            ("spec.labels[a.b/c]", 8),
            ("spec.nothing.there", 3),
        ] {
            assert_eq!(first.line_of(path), line, "{path}");
        }
        let second: Located = parse(&found[1]).unwrap();
        assert_eq!(second.line_of("kind"), 13);
    }

    #[test]
    fn broken_yaml_is_shown_where_it_breaks() {
        let flaw = parse::<Located>("a: 1\nb: [1, 2\nc: 3\n").unwrap_err();
        assert_eq!(flaw.line, 3, "the colon within the brackets: {flaw:?}");
        let flaw = parse::<Located>("a: 1\na: 2\n").unwrap_err();
        assert_eq!(flaw.line, 2, "{flaw:?}");
    }

    #[test]
    fn fields_that_were_dropped_are_found() {
        let given = json!({"metadata": {"uid": "x", "labels": {}}, "spec": {"a": [{"b": 1, "c": null}], "d": 1}, "status": {"x": 1}});
        let kept = json!({"metadata": {}, "spec": {"a": [{}], "d": 2}});
        assert_eq!(unknown_fields(&given, &kept), ["spec.a[0].b"]);
    }
}
