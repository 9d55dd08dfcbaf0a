//! What the autoscaler tells people about their objects and a story should not pass over: warnings, each once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::apiserver::Change;

/// So many different warnings of one reason are told; more would drown the story.
const MOST_OF_ONE_REASON: usize = 20;
/// A longer text is cut.
const MOST_CHARS: usize = 240;

#[derive(Default)]
pub(super) struct Voices {
    /// Reasons and messages without the names of their objects.
    told: BTreeSet<(String, String)>,
    /// Of this instant, by reason.
    news: BTreeMap<String, Vec<Warning>>,
}

struct Warning {
    about: String,
    message: String,
}

impl Voices {
    pub(super) fn note(&mut self, change: &Change) {
        let (None, Some(event)) = (&change.before, &change.after) else { return };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let component = [&event["source"]["component"], &event["reportingComponent"]];
        let is_ours = component.iter().any(|said| **said == controllers::events::COMPONENT);
        if !is_ours || event["type"] != "Warning" {
            return;
        }
        let (kind, name) = (text(&event["involvedObject"]["kind"]), text(&event["involvedObject"]["name"]));
        let warning = Warning { about: format!("{kind} {name}"), message: text(&event["message"]) };
        self.news.entry(text(&event["reason"])).or_default().push(warning);
    }

    pub(super) fn take_lines(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for (reason, warnings) in std::mem::take(&mut self.news) {
            let is_new = warnings.iter().filter(|warning| self.is_news(&reason, warning)).count() > 0;
            let Some(first) = warnings.first().filter(|_| is_new) else { continue };
            let others = match warnings.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} others"),
            };
            let cut: String = first.message.chars().take(MOST_CHARS).collect();
            let cut = if cut.len() < first.message.len() { format!("{cut}…") } else { cut };
            lines.push(format!("{reason} about {}{others}: {cut}", first.about));
        }
        lines
    }

    /// Whether nobody has said so before, whomever it was about; remembered from now on.
    fn is_news(&mut self, reason: &str, warning: &Warning) -> bool {
        let of_reason = self.told.iter().filter(|(told, _)| told == reason).count();
        let name = warning.about.rsplit(' ').next().unwrap_or_default();
        let message = warning.message.replace(name, "");
        // What ran out, or what else is in the way, is listed at the end and differs every time.
        let essence = message.split(';').next().unwrap_or_default().to_owned();
        of_reason < MOST_OF_ONE_REASON && self.told.insert((reason.to_owned(), essence))
    }
}
