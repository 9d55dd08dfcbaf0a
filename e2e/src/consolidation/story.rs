//! What is played, by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A story that leaves a cluster with more than it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Story {
    /// Pods of one kind come, run, and most of them go.
    ScaleDown { from: usize, to: usize },
    /// A hundred nodes that pods fill to two fifths, at random.
    Fragmented,
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ScaleDown { from, to } => write!(f, "{from}-to-{to}"),
            Self::Fragmented => f.write_str("fragmented"),
        }
    }
}

impl FromStr for Story {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "fragmented" {
            return Ok(Self::Fragmented);
        }
        let numbers = text.split_once("-to-").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
        match numbers {
            Some((from, to)) if to < from => Ok(Self::ScaleDown { from, to }),
            _ => Err(format!("{text:?} is no story; write `fragmented`, or two numbers of pods as in `500-to-50`")),
        }
    }
}

impl From<Story> for String {
    fn from(story: Story) -> Self {
        story.to_string()
    }
}

impl TryFrom<String> for Story {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_read_by_the_name_that_it_is_written_by() {
        for story in [Story::ScaleDown { from: 500, to: 50 }, Story::Fragmented] {
            assert_eq!(story.to_string().parse(), Ok(story));
        }
        for text in ["", "500", "50-to-500", "many-to-few"] {
            assert!(text.parse::<Story>().is_err(), "{text}");
        }
    }
}
