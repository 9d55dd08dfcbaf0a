//! Reading the tables and making objects of their rows.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::rules::Rule;

/// Why a server refused an object: fields and messages.
pub type Causes = Vec<(String, String)>;

/// All rows about one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The name of the definition, such as `nodepools.karpenter.sh`.
    pub definition: String,
    /// The set that the definition is taken from: `aws` or `kwok`.
    pub set: String,
    /// Objects that rows start from, by name; each is complete and accepted as it is.
    bases: BTreeMap<String, Value>,
    pub rows: Vec<Row>,
    /// Rules that no object can violate, with the reason why.
    #[serde(default)]
    pub unviolable: BTreeMap<String, String>,
}

/// One object and the verdict on it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub name: String,
    #[serde(default = "default_base")]
    base: String,
    /// Changes to the base by JSON pointer: a value to put there, or null to remove what is there.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// Makes the row an update: the base with these changes exists already.
    old: Option<BTreeMap<String, Value>>,
    /// The change goes to the status sub-resource, where the API server keeps it.
    #[serde(default)]
    pub status: bool,
    /// The rule that refuses the object; without it the object is accepted.
    violates: Option<String>,
    /// Values of the stored object by JSON pointer; null means that nothing is there.
    #[serde(default)]
    stored: BTreeMap<String, Value>,
}

/// What the API server must say.
#[derive(Debug, PartialEq)]
pub enum Verdict<'a> {
    Accepted { stored: &'a BTreeMap<String, Value> },
    RefusedBy(&'a str),
}

fn default_base() -> String {
    "minimal".to_owned()
}

/// Reads every table of a folder, in the order of their names.
pub fn read_tables(folder: &Path) -> Result<Vec<Table>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        paths.push(entry.with_context(|| format!("listing {}", folder.display()))?.path());
    }
    paths.sort();
    paths.iter().map(|path| read_table(path)).collect()
}

fn read_table(path: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let table: Table = serde_saphyr::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
    for row in &table.rows {
        ensure!(
            table.bases.contains_key(&row.base),
            "{}: row {:?} starts from an unknown base",
            path.display(),
            row.name
        );
        let is_one_write = !(row.status && row.is_update());
        ensure!(is_one_write, "{}: row {:?} cannot change both the object and its status", path.display(), row.name);
    }
    Ok(table)
}

impl Table {
    /// The object that a row sends.
    pub fn object(&self, row: &Row) -> Result<Value> {
        self.changed(row, &row.set)
    }

    /// The object that an update row starts from.
    pub fn old_object(&self, row: &Row) -> Result<Option<Value>> {
        row.old.as_ref().map(|changes| self.changed(row, changes)).transpose()
    }

    fn changed(&self, row: &Row, changes: &BTreeMap<String, Value>) -> Result<Value> {
        let mut object = self.bases.get(&row.base).cloned().unwrap_or_default();
        for (pointer, value) in changes {
            put(&mut object, pointer, expand(value)).with_context(|| format!("row {:?}, {pointer}", row.name))?;
        }
        Ok(object)
    }
}

impl Row {
    pub fn verdict(&self) -> Verdict<'_> {
        match &self.violates {
            Some(rule) => Verdict::RefusedBy(rule),
            None => Verdict::Accepted { stored: &self.stored },
        }
    }

    /// What is wrong with an answer to the row, if anything: what was stored, or why it was refused, by field and message.
    pub fn problem_with(&self, rules: &BTreeMap<String, Rule>, outcome: Result<Value, Causes>) -> Option<String> {
        match (self.verdict(), outcome) {
            (Verdict::Accepted { stored }, Ok(object)) => stored.iter().find_map(|(pointer, expected)| {
                let found = object.pointer(pointer).cloned().unwrap_or_default();
                (found != *expected).then(|| format!("stored {pointer} is {found}, not {expected}"))
            }),
            (Verdict::Accepted { .. }, Err(causes)) => Some(format!("was refused: {causes:?}")),
            (Verdict::RefusedBy(rule), Ok(_)) => Some(format!("was accepted in spite of {rule}")),
            (Verdict::RefusedBy(name), Err(causes)) => match rules.get(name) {
                None => Some(format!("names a rule that does not exist: {name}")),
                Some(rule) if causes.iter().any(|(field, message)| rule.explains(field, message)) => None,
                Some(rule) => Some(format!("was refused, but not by {name} ({}): {causes:?}", rule.reason())),
            },
        }
    }

    pub fn is_update(&self) -> bool {
        self.old.is_some()
    }
}

/// Puts a value at a pointer, making objects on the way where nothing is; null removes.
fn put(object: &mut Value, pointer: &str, value: Value) -> Result<()> {
    let Some((parent, last)) = pointer.rsplit_once('/') else { bail!("is not a JSON pointer") };
    let mut place = object;
    for name in parent.split('/').skip(1).map(unescaped) {
        place = match place {
            Value::Array(items) => {
                let index: usize = name.parse().context("is no index")?;
                items.get_mut(index).context("leads past the end of a list")?
            }
            other => {
                if other.is_null() {
                    *other = json!({});
                }
                other
                    .as_object_mut()
                    .context("leads through a value that has no members")?
                    .entry(name)
                    .or_insert(Value::Null)
            }
        };
    }
    if place.is_null() {
        *place = json!({});
    }
    let last = unescaped(last);
    match place {
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => *items.get_mut(last.parse::<usize>()?).context("leads past the end of a list")? = value,
        Value::Object(members) if value.is_null() => {
            members.remove(&last);
        }
        Value::Object(members) => {
            members.insert(last, value);
        }
        _ => bail!("leads to a value that has no members"),
    }
    Ok(())
}

fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// Writes out what would be too long for a table: `{$text: 64}` is 64 letters, `{$list: 101, of: x}` and
/// `{$map: 101, of: x}` are that many entries, with `#` in texts replaced by the entry's number.
fn expand(value: &Value) -> Value {
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    if let Some(length) = count("$text") {
        return "a".repeat(usize::try_from(length).unwrap_or(0)).into();
    }
    if let Some(count) = count("$list") {
        return (0..count).map(|number| numbered(&value["of"], number)).collect();
    }
    if let Some(count) = count("$map") {
        let entries = (0..count).map(|number| (format!("key-{number}"), numbered(&value["of"], number)));
        return Value::Object(entries.collect::<Map<_, _>>());
    }
    match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), expand(value))).collect(),
        Value::Array(items) => items.iter().map(expand).collect(),
        other => other.clone(),
    }
}

fn numbered(value: &Value, number: u64) -> Value {
    match value {
        Value::String(text) => text.replace('#', &number.to_string()).into(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), numbered(value, number))).collect(),
        Value::Array(items) => items.iter().map(|item| numbered(item, number)).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_puts_and_removes() {
        let mut object = json!({"a": {"b": 1}, "l": [1, 2]});
        put(&mut object, "/a/b", Value::Null).unwrap();
        put(&mut object, "/x/y~1z", json!("new")).unwrap();
        put(&mut object, "/l/0", json!(9)).unwrap();
        put(&mut object, "/l/-", json!(3)).unwrap();
        assert_eq!(object, json!({"a": {}, "x": {"y/z": "new"}, "l": [9, 2, 3]}));
        assert!(put(&mut object, "/l/7", json!(0)).is_err());
    }

    #[test]
    fn long_values_are_written_short() {
        assert_eq!(expand(&json!({"$text": 3})), json!("aaa"));
        assert_eq!(expand(&json!({"$list": 2, "of": {"key": "k#"}})), json!([{"key": "k0"}, {"key": "k1"}]));
        assert_eq!(expand(&json!({"deep": {"$map": 2, "of": "v#"}})), json!({"deep": {"key-0": "v0", "key-1": "v1"}}));
    }
}
