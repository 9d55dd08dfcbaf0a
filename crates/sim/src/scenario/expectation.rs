//! What a scenario says shall come of it.

use std::time::Duration;

use model::price::Price;

use super::document::Count;

/// Something that shall be so at a time, or become so within a time.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    pub(super) nodes: Option<Count>,
    pub(super) types: Option<Vec<String>>,
    pub(super) price_at_most: Option<Price>,
    pub(super) pending_pods: Option<Count>,
    pub(super) running_pods: Option<Count>,
    pub(super) evicted_pods: Option<Count>,
    /// Since the beginning of the story.
    pub(super) launched_after: Option<Duration>,
    pub(super) when: When,
}

/// When it shall be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// At some moment of this time, which may be none at all.
    Within(Duration),
    /// At every moment of this time.
    Throughout(Duration),
}

impl When {
    pub(super) fn lasts(self) -> Duration {
        match self {
            Self::Within(time) | Self::Throughout(time) => time,
        }
    }
}

/// How things are at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) nodes: u64,
    /// The types of these nodes, by name.
    pub(super) types: Vec<String>,
    pub(super) price: Price,
    pub(super) pending_pods: u64,
    pub(super) running_pods: u64,
    pub(super) evicted_pods: u64,
    /// When the oldest of these nodes was launched.
    pub(super) oldest: Option<Duration>,
}

impl Expectation {
    /// What is expected, and of each part what is so instead.
    pub(super) fn judge(&self, state: &State) -> (Vec<String>, Vec<String>) {
        let (mut wanted, mut wrong) = (Vec::new(), Vec::new());
        let counts = [
            ("nodes", self.nodes, state.nodes),
            ("running pods", self.running_pods, state.running_pods),
            ("pending pods", self.pending_pods, state.pending_pods),
            ("evicted pods", self.evicted_pods, state.evicted_pods),
        ];
        for (what, expected, found) in counts {
            let Some(expected) = expected else { continue };
            wanted.push(format!("{expected} {what}"));
            if !expected.has(found) {
                wrong.push(format!("{found} {what} instead of {expected}"));
            }
        }
        if let Some(most) = self.price_at_most {
            wanted.push(format!("at most {most}"));
            if state.price > most {
                wrong.push(format!("{} instead of at most {most}", state.price));
            }
        }
        if let Some(types) = &self.types {
            wanted.push(format!("only {}", types.join(", ")));
            let others: Vec<&str> =
                state.types.iter().filter(|found| !types.contains(found)).map(String::as_str).collect();
            if !others.is_empty() {
                wrong.push(format!("nodes of {} instead of only {}", others.join(", "), types.join(", ")));
            }
        }
        if let Some(earliest) = self.launched_after {
            wanted.push(format!("only nodes launched after {} s", earliest.as_secs()));
            if let Some(oldest) = state.oldest.filter(|oldest| *oldest <= earliest) {
                let (oldest, earliest) = (oldest.as_secs(), earliest.as_secs());
                wrong.push(format!("a node launched after {oldest} s instead of only after {earliest} s"));
            }
        }
        (wanted, wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exactly(number: u64) -> Option<Count> {
        Some(Count { min: number, max: number })
    }

    #[test]
    fn every_part_that_is_not_so_is_named() {
        let expectation = Expectation {
            nodes: exactly(1),
            types: Some(vec!["a".to_owned()]),
            price_at_most: Price::from_dollars(1.0).ok(),
            pending_pods: exactly(0),
            running_pods: Some(Count { min: 3, max: u64::MAX }),
            evicted_pods: Some(Count { min: 0, max: 1 }),
            launched_after: Some(Duration::from_secs(60)),
            when: When::Within(Duration::ZERO),
        };
        let good = State {
            nodes: 1,
            types: vec!["a".to_owned()],
            running_pods: 4,
            oldest: Some(Duration::from_secs(61)),
            ..State::default()
        };
        assert_eq!(expectation.judge(&good).1, [""; 0]);
        let price = Price::from_dollars(2.0).unwrap();
        let types = vec!["a".to_owned(), "b".to_owned()];
        let (wanted, wrong) = expectation.judge(&State {
            nodes: 2,
            types,
            price,
            pending_pods: 7,
            running_pods: 2,
            evicted_pods: 5,
            oldest: Some(Duration::from_secs(60)),
        });
        assert_eq!(
            wanted.join(", "),
            "1 nodes, at least 3 running pods, 0 pending pods, at most 1 evicted pods, at most $1.0000/h, only a, \
             only nodes launched after 60 s"
        );
        assert_eq!(
            wrong,
            [
                "2 nodes instead of 1",
                "2 running pods instead of at least 3",
                "7 pending pods instead of 0",
                "5 evicted pods instead of at most 1",
                "$2.0000/h instead of at most $1.0000/h",
                "nodes of b instead of only a",
                "a node launched after 60 s instead of only after 60 s",
            ]
        );
    }
}
