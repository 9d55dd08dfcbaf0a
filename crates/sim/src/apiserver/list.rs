//! Lists, whole or in pages. The pages of one list show one moment, whatever has changed since its first.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::denial::Denial;
use super::meta;
use super::route::{Query, Target};
use super::selector::Selection;
use super::store::{Page, Store};
use crate::kinds::Kind;

/// Lists that are read in pages at one time; the oldest is forgotten first.
const OPEN_MAX: usize = 16;
/// How long the rest of a list can be asked for, as long as etcd keeps old versions by default.
const OPEN_FOR: SignedDuration = SignedDuration::from_mins(5);

impl Store {
    /// The text of one page of a list.
    pub(super) fn write_list(&mut self, target: &Target, query: &Query) -> Result<Vec<u8>, Denial> {
        let selection = target.selection(query)?;
        let limit = query.number("limit").and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
        let (version, objects, token) = match query.get("continue") {
            Some(token) => self.next_page(token, limit)?,
            None => self.first_page(target.kind, &selection, limit),
        };
        let mut head = json!({"resourceVersion": version.to_string()});
        if let Some((token, left)) = token {
            head["continue"] = token.into();
            if selection.is_everything() {
                head["remainingItemCount"] = left.into();
            }
        }
        Ok(write(target.kind, &head, &objects))
    }

    /// All objects that a selection shows, by namespace and name.
    pub(super) fn select(&self, kind: Kind, selection: &Selection) -> Vec<Arc<Value>> {
        let matches = |object: &&Arc<Value>| selection.matches(object);
        match (kind, selection.node()) {
            (Kind::Pod, Some(node)) => self.pods_on(node).into_iter().filter(|pod| selection.matches(pod)).collect(),
            _ if selection.namespace.is_empty() => self.list(kind).filter(matches).cloned().collect(),
            _ => self.list_in(kind, &selection.namespace).filter(matches).cloned().collect(),
        }
    }

    fn first_page(&mut self, kind: Kind, selection: &Selection, limit: Option<usize>) -> PageRead {
        let mut objects = self.select(kind, selection);
        let version = self.version();
        let Some(limit) = limit.filter(|limit| *limit < objects.len()) else { return (version, objects, None) };
        let rest = objects.split_off(limit);
        self.close_old_pages();
        self.pages.next += 1;
        let (id, left) = (self.pages.next, rest.len());
        self.pages.open.insert(id, Page { version, opened: self.now(), objects: rest });
        (version, objects, Some((token(id, 0), left)))
    }

    fn next_page(&mut self, text: &str, limit: Option<usize>) -> Result<PageRead, Denial> {
        let (id, offset) =
            read_token(text).ok_or_else(|| Denial::bad_request(format!("continue key is not valid: {text}")))?;
        self.close_old_pages();
        let page = self.pages.open.get(&id).filter(|page| offset < page.objects.len()).ok_or_else(|| {
            let message = "The provided continue parameter is too old to display a consistent list result. You can start a new list \
                           without the continue parameter.";
            Denial::expired(message)
        })?;
        let end = limit.map_or(page.objects.len(), |limit| (offset + limit).min(page.objects.len()));
        let left = page.objects.len() - end;
        let next = (left > 0).then(|| (token(id, end), left));
        Ok((page.version, page.objects[offset..end].to_vec(), next))
    }

    fn close_old_pages(&mut self) {
        let now = self.now();
        let is_young = |page: &Page| now.duration_since(page.opened) <= OPEN_FOR;
        self.pages.open.retain(|_, page| is_young(page));
        while self.pages.open.len() >= OPEN_MAX {
            self.pages.open.pop_first();
        }
    }
}

/// The version of the list, the objects of the page, and how to ask for the next with how much is left.
type PageRead = (u64, Vec<Arc<Value>>, Option<(String, usize)>);

fn token(id: u64, offset: usize) -> String {
    format!("{id}.{offset}")
}

fn read_token(text: &str) -> Option<(u64, usize)> {
    let (id, offset) = text.split_once('.')?;
    Some((id.parse().ok()?, offset.parse().ok()?))
}

/// Objects of built-in kinds do not say in a list what they are: the list does.
fn write(kind: Kind, head: &Value, objects: &[Arc<Value>]) -> Vec<u8> {
    let mut text =
        format!("{{\"kind\":\"{kind}List\",\"apiVersion\":\"{}\",\"metadata\":{head},\"items\":[", kind.api_version());
    for (place, object) in objects.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        match object.as_object().filter(|_| !kind.is_custom()) {
            None => text.push_str(&meta::text(object)),
            Some(members) => {
                let members = members.iter().filter(|(member, _)| !["apiVersion", "kind"].contains(&member.as_str()));
                let members: Vec<String> =
                    members.map(|(member, value)| format!("\"{member}\":{}", meta::text(value))).collect();
                text.push('{');
                text.push_str(&members.join(","));
                text.push('}');
            }
        }
    }
    text.push_str("]}");
    text.into_bytes()
}
