//! Rules for names, labels, annotations, finalizers and owner references.

use serde_json::Value;

use super::denial::Cause;
use super::meta;
use crate::kinds::Kind;

const NAME_LENGTH_MAX: usize = 253;
const LABEL_LENGTH_MAX: usize = 63;
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
                         end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
pub(super) const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with \
                         an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
                           end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
                           is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// What is wrong with the metadata of an object, new or changed.
pub(super) fn metadata(kind: Kind, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = meta::name(object);
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
    } else if let Some(why) = what_is_wrong_with_name(kind, name) {
        causes.push(Cause::invalid("metadata.name", &name.into(), why));
    }
    let metadata = &object["metadata"];
    labels("metadata.labels", &metadata["labels"], &mut causes);
    annotations(&metadata["annotations"], &mut causes);
    for finalizer in meta::finalizers(object) {
        if !is_qualified_name(finalizer) {
            causes.push(Cause::invalid("metadata.finalizers", &finalizer.into(), QUALIFIED));
        } else if !kind.is_custom()
            && !finalizer.contains('/')
            && ![meta::FOREGROUND, meta::ORPHAN].contains(&finalizer)
        {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid("metadata.finalizers", &finalizer.into(), why));
        }
    }
    owner_references(meta::owners(object), &mut causes);
    causes
}

fn what_is_wrong_with_name(kind: Kind, name: &str) -> Option<&'static str> {
    match kind {
        Kind::Namespace => (!is_dns_label(name)).then_some(DNS_LABEL),
        Kind::Service => (!is_dns_label(name) || name.starts_with(|letter: char| letter.is_ascii_digit())).then_some(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end \
             with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        ),
        _ => (!is_subdomain(name)).then_some(SUBDOMAIN),
    }
}

fn labels(field: &str, labels: &Value, causes: &mut Vec<Cause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        if !is_qualified_name(key) {
            causes.push(Cause::invalid(field, &key.as_str().into(), QUALIFIED));
        }
        if !value.as_str().is_some_and(is_label_value) {
            causes.push(Cause::invalid(field, value, LABEL_VALUE));
        }
    }
}

fn annotations(annotations: &Value, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        // Keys of annotations may be written in capitals.
        if !is_qualified_name(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &key.as_str().into(), QUALIFIED));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_BYTES_MAX {
        let message = format!("Too long: may not be more than {ANNOTATIONS_BYTES_MAX} bytes");
        causes.push(Cause { field: "metadata.annotations".into(), reason: "FieldValueTooLong", message });
    }
}

fn owner_references(owners: &[Value], causes: &mut Vec<Cause>) {
    const FIELD: &str = "metadata.ownerReferences";
    let text = |owner: &Value, member: &str| owner[member].as_str().unwrap_or_default().to_owned();
    let mut controller: Option<String> = None;
    for owner in owners {
        for member in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, member).is_empty() {
                let why = if member == "apiVersion" { "version must not be empty" } else { "must not be empty" };
                causes.push(Cause::invalid(format!("{FIELD}.{member}"), &"".into(), why));
            }
        }
        // Events come and go by the thousand and own nothing.
        if text(owner, "apiVersion") == "v1" && text(owner, "kind") == "Event" {
            causes.push(Cause::invalid(FIELD, owner, "/v1, Kind=Event is disallowed from being an owner"));
        }
        if owner["controller"] == true {
            let name = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            if let Some(first) = &controller {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                causes.push(Cause::invalid(FIELD, &Value::Array(owners.to_vec()), &why));
            }
            controller.get_or_insert(name);
        }
    }
}

/// What a change of the metadata breaks, beyond what the metadata itself may be.
pub(super) fn metadata_change(old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if meta::is_deleting(old) {
        let added: Vec<&str> = meta::finalizers(new).filter(|finalizer| !meta::has_finalizer(old, finalizer)).collect();
        if !added.is_empty() {
            let listed: Vec<String> = added.iter().map(|finalizer| format!("{finalizer:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                listed.join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (before, after) = (&old["metadata"][field], &new["metadata"][field]);
        if before != after {
            causes.push(Cause::immutable(format!("metadata.{field}"), after));
        }
    }
    causes
}

/// One label of a DNS name: lower case letters, digits and hyphens within.
pub(super) fn is_dns_label(text: &str) -> bool {
    text.len() <= LABEL_LENGTH_MAX && is_label_of_any_length(text)
}

fn is_label_of_any_length(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

/// What most objects may be called.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= NAME_LENGTH_MAX && text.split('.').all(is_label_of_any_length)
}

/// A key of a label: an optional domain, then a name of at most 63 letters.
pub(super) fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_name(name),
        None => is_label_name(key),
    }
}

fn is_label_name(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= LABEL_LENGTH_MAX
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_label_name(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_keys_are_held_to_their_alphabets() {
        let good = ["a", "a-b.c", "0"];
        let bad = ["", "A", "a_b", "-a", "a-", "a..b", ".a"];
        assert!(good.iter().all(|name| is_subdomain(name)) && !bad.iter().any(|name| is_subdomain(name)));
        assert!(
            is_qualified_name("example.com/My_Name.x") && is_qualified_name("a") && is_qualified_name(&"a".repeat(63))
        );
        let bad = ["", "/a", "a/", "a/b/c", "Example.com/a", "_a"];
        assert!(!bad.iter().any(|key| is_qualified_name(key)) && !is_qualified_name(&"a".repeat(64)));
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let object = json!({"metadata": {
            "name": "A", "labels": {"a": "b c", "/": "x"}, "annotations": {"b d": ""}, "finalizers": ["x"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}],
        }});
        let fields: Vec<String> = metadata(Kind::ConfigMap, &object).into_iter().map(|cause| cause.field).collect();
        let expected = [
            "metadata.name",
            "metadata.labels",
            "metadata.labels",
            "metadata.annotations",
            "metadata.finalizers",
            "metadata.ownerReferences.uid",
        ];
        assert_eq!(fields, expected);
    }
}
