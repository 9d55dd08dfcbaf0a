//! What a path and a query ask for.

use std::collections::BTreeMap;

use super::At;
use super::denial::{Denial, not_served};
use super::selector::{Selection, parse_fields, parse_labels};
use crate::kinds::{Kind, Subresource};

pub(super) enum Route {
    Objects(Target),
    Discovery(Place),
}

/// What discovery is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Version,
    /// `/api`
    Core,
    /// `/apis`
    Groups,
    Group(String),
    /// A group and version, or the version of the core group.
    GroupVersion(String),
    Health,
}

/// Objects of one kind, or one of them, or a part of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) kind: Kind,
    /// None for all namespaces, or for a kind without.
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<Subresource>,
}

/// The parameters of a request.
#[derive(Debug, Default)]
pub(super) struct Query(BTreeMap<String, String>);

impl Route {
    pub(super) fn parse(path: &str) -> Result<Self, Denial> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (version, rest) = match parts.as_slice() {
            ["version"] => return Ok(Self::Discovery(Place::Version)),
            ["healthz" | "livez" | "readyz"] => return Ok(Self::Discovery(Place::Health)),
            ["api"] => return Ok(Self::Discovery(Place::Core)),
            ["apis"] => return Ok(Self::Discovery(Place::Groups)),
            ["apis", group] => return Ok(Self::Discovery(Place::Group((*group).to_owned()))),
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            _ => return Err(not_served("nothing known", path)),
        };
        if rest.is_empty() {
            return Ok(Self::Discovery(Place::GroupVersion(version)));
        }
        Target::parse(&version, rest).map(Self::Objects)
    }
}

impl Target {
    fn parse(version: &str, parts: &[&str]) -> Result<Self, Denial> {
        let (namespace, parts) = match parts {
            // A namespace's own parts look like kinds within it.
            ["namespaces", name, "status" | "finalize"] => (None, ["namespaces", name, parts[2]].to_vec()),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest.to_vec()),
            parts => (None, parts.to_vec()),
        };
        let kind = Kind::of_plural(version, parts[0]).ok_or_else(|| not_served(version, parts[0]))?;
        let subresource = match parts.get(2) {
            None => None,
            Some(text) => Some(subresource(kind, text).ok_or_else(|| not_served(version, &parts.join("/")))?),
        };
        if parts.len() > 3 || namespace.is_some() != (kind.is_namespaced() && (namespace.is_some() || parts.len() > 1))
        {
            return Err(not_served(version, &parts.join("/")));
        }
        Ok(Self { kind, namespace, name: parts.get(1).map(|name| (*name).to_owned()), subresource })
    }

    /// The place of the one object that is meant.
    pub(super) fn place(&self) -> Option<At> {
        let name = self.name.as_deref()?;
        Some(At::new(self.namespace.as_deref().unwrap_or_default(), name))
    }

    /// What a list or watch of it shows.
    pub(super) fn selection(&self, query: &Query) -> Result<Selection, Denial> {
        Ok(Selection {
            namespace: self.namespace.clone().unwrap_or_default(),
            labels: parse_labels(query.get("labelSelector").unwrap_or_default())?,
            fields: parse_fields(self.kind, query.get("fieldSelector").unwrap_or_default())?,
        })
    }
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|part| !part.is_empty());
        Self(
            pairs
                .map(|part| part.split_once('=').unwrap_or((part, "")))
                .map(|(key, value)| (plain(key), plain(value)))
                .collect(),
        )
    }

    /// A parameter that says something.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        matches!(self.get(key), Some("true" | "1"))
    }

    pub(super) fn number(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }
}

fn subresource(kind: Kind, text: &str) -> Option<Subresource> {
    let found = match text {
        "status" => Subresource::Status,
        "scale" => Subresource::Scale,
        "binding" => Subresource::Binding,
        "eviction" => Subresource::Eviction,
        _ => return None,
    };
    kind.has(found).then_some(found)
}

/// Undoes the escapes of a query.
fn plain(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => plain.push(b' '),
            b'%' => {
                let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
                let code = digit().zip(digit()).map_or(0, |(high, low)| high * 16 + low);
                plain.push(u8::try_from(code).unwrap_or_default());
            }
            byte => plain.push(byte),
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> String {
        match Route::parse(path) {
            Ok(Route::Objects(target)) => {
                let part = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
                let subresource = target.subresource.map(|subresource| format!("{subresource:?}"));
                format!("{} {} {} {}", target.kind, part(target.namespace), part(target.name), part(subresource))
            }
            Ok(Route::Discovery(place)) => format!("{place:?}"),
            Err(denial) => denial.refusal.code.to_string(),
        }
    }

    #[test]
    fn paths_are_read_as_the_api_writes_them() {
        assert_eq!(target("/api/v1/pods"), "Pod - - -");
        assert_eq!(target("/api/v1/namespaces/shop/pods"), "Pod shop - -");
        assert_eq!(target("/api/v1/namespaces/shop/pods/a/eviction"), "Pod shop a Eviction");
        assert_eq!(target("/api/v1/namespaces/shop"), "Namespace - shop -");
        assert_eq!(target("/api/v1/namespaces/shop/status"), "Namespace - shop Status");
        assert_eq!(target("/apis/apps/v1/namespaces/shop/deployments/a/scale"), "Deployment shop a Scale");
        assert_eq!(target("/apis/karpenter.sh/v1/nodeclaims/a"), "NodeClaim - a -");
        assert_eq!(target("/apis/apps/v1"), "GroupVersion(\"apps/v1\")");
        assert_eq!(target("/api/v1"), "GroupVersion(\"v1\")");
        for unknown in [
            "/api/v1/secrets",
            "/api/v1/nodes/a/scale",
            "/apis/apps/v1/deployments/a",
            "/api/v1/namespaces/a/nodes",
            "/x",
        ] {
            assert_eq!(target(unknown), "404", "{unknown}");
        }
    }

    #[test]
    fn queries_lose_their_escapes() {
        let query = Query::parse("labelSelector=a%20in%20(b%2Cc)&watch=1&empty=&x=a+b");
        assert_eq!(
            (query.get("labelSelector"), query.get("empty"), query.get("x")),
            (Some("a in (b,c)"), None, Some("a b"))
        );
        assert!(query.is_true("watch") && !query.is_true("empty"));
    }
}
