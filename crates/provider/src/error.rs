//! How a cloud says no, and what that means for whoever asked.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::OfferingKey;

/// What went wrong below. Shared, so that an error can be reported in more than one place.
pub type ErrorSource = Arc<dyn Error + Send + Sync>;

/// A call that a cloud could not answer. The variant decides what happens next: see [`ProviderError::reaction`].
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProviderError {
    /// No offering that would do has a machine left, or the class is not there. Those that just ran out are named.
    #[error("{message}{}", ran_out(exhausted))]
    InsufficientCapacity { message: String, exhausted: Vec<OfferingKey>, source: Option<ErrorSource> },
    #[error("node class {class} is not ready: {message}")]
    NodeClassNotReady { class: String, message: String },
    #[error("{what} was not found")]
    NotFound { what: String },
    #[error("{doing}: too many requests")]
    RateLimited { doing: String, source: Option<ErrorSource> },
    #[error("{doing}: no answer that could be used")]
    Unavailable { doing: String, source: Option<ErrorSource> },
    #[error("{doing}: not allowed")]
    Denied { doing: String, source: Option<ErrorSource> },
    #[error("{doing}: {problem}")]
    Invalid { doing: String, problem: String, source: Option<ErrorSource> },
    /// A launch that failed for a reason which the provider can name in one word, for the claim's condition.
    #[error("{message}")]
    Create { reason: String, message: String, source: Option<ErrorSource> },
}

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Try the same again, later and later.
    BackOff,
    /// Give the claim up and plan its pods again: the catalogue or the pool will look different then.
    PlanAgain,
    /// Nothing will help until somebody changes something. Say so, and look now and then.
    WaitForChange,
    /// What was asked about is not there. For whoever wanted it gone, that is success.
    AlreadyGone,
}

impl ProviderError {
    pub fn reaction(&self) -> Reaction {
        match self {
            Self::InsufficientCapacity { .. } | Self::NodeClassNotReady { .. } => Reaction::PlanAgain,
            Self::RateLimited { .. } | Self::Unavailable { .. } | Self::Create { .. } => Reaction::BackOff,
            Self::Denied { .. } | Self::Invalid { .. } => Reaction::WaitForChange,
            Self::NotFound { .. } => Reaction::AlreadyGone,
        }
    }

    /// The reason of the claim's `Launched` condition after a launch that failed so.
    pub fn condition_reason(&self) -> &str {
        match self {
            Self::Create { reason, .. } => reason,
            _ => "LaunchFailed",
        }
    }

    /// The label under which metrics count it, in the reference's words, which has none for any but the core's three kinds.
    pub fn metric_label(&self) -> &'static str {
        match self {
            Self::InsufficientCapacity { .. } => "InsufficientCapacityError",
            Self::NotFound { .. } => "NodeClaimNotFoundError",
            Self::NodeClassNotReady { .. } => "NodeClassNotReadyError",
            _ => "",
        }
    }

    /// The provider's error in a chain of errors that somebody wrapped around it.
    pub fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut link = Some(error);
        while let Some(here) = link {
            if let Some(found) = here.downcast_ref::<Self>() {
                return Some(found);
            }
            link = here.source();
        }
        None
    }

    pub(crate) fn invalid(doing: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Self::Invalid { doing: doing.to_string(), problem: problem.to_string(), source: None }
    }

    /// What an API server's refusal means.
    pub(crate) fn of_kube(doing: impl fmt::Display, error: kube::Error) -> Self {
        let doing = doing.to_string();
        let code = match &error {
            kube::Error::Api(status) => status.code,
            _ => 0,
        };
        let problem = match &error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        let source: Option<ErrorSource> = Some(Arc::new(error));
        match code {
            404 => Self::NotFound { what: format!("{doing}: the object") },
            429 => Self::RateLimited { doing, source },
            401 | 403 => Self::Denied { doing, source },
            400 | 405 | 413 | 415 | 422 => Self::Invalid { doing, problem, source },
            _ => Self::Unavailable { doing, source },
        }
    }
}

fn ran_out(exhausted: &[OfferingKey]) -> String {
    const MOST: usize = 3;
    if exhausted.is_empty() {
        return String::new();
    }
    let named: Vec<String> = exhausted.iter().take(MOST).map(ToString::to_string).collect();
    let rest = exhausted.len().saturating_sub(MOST);
    let others = if rest > 0 { format!(" and {rest} others") } else { String::new() };
    format!("; ran out: {}{others}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use model::instance::CapacityType;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("launching claim a")]
    struct Wrapped(#[source] ProviderError);

    // 01/MET-03
    #[test]
    fn an_error_that_somebody_wrapped_is_still_found() {
        let error = ProviderError::NotFound { what: "machine kwok://a".to_owned() };
        let wrapped = Wrapped(error);
        assert_eq!(ProviderError::within(&wrapped).map(ProviderError::metric_label), Some("NodeClaimNotFoundError"));
        assert!(ProviderError::within(&std::fmt::Error).is_none());
    }

    #[test]
    fn what_ran_out_is_named_but_not_all_of_it() {
        let key = |zone: &str| OfferingKey {
            type_name: "m5.large".into(),
            zone: zone.into(),
            capacity_type: CapacityType::Spot,
        };
        let error = |zones: &[&str]| ProviderError::InsufficientCapacity {
            message: "claim a got no machine".to_owned(),
            exhausted: zones.iter().map(|zone| key(zone)).collect(),
            source: None,
        };
        assert_eq!(error(&[]).to_string(), "claim a got no machine");
        assert_eq!(error(&["a"]).to_string(), "claim a got no machine; ran out: spot m5.large in a");
        assert!(error(&["a", "b", "c", "d", "e"]).to_string().ends_with("in c and 2 others"));
    }

    #[test]
    fn an_api_servers_refusal_decides_the_reaction() {
        let refusal = |code: u16| {
            let status = kube::core::Status::failure("no", "Because").with_code(code);
            ProviderError::of_kube("creating node a", kube::Error::Api(status.boxed()))
        };
        for (code, reaction) in [
            (404, Reaction::AlreadyGone),
            (409, Reaction::BackOff),
            (429, Reaction::BackOff),
            (403, Reaction::WaitForChange),
            (422, Reaction::WaitForChange),
            (500, Reaction::BackOff),
        ] {
            assert_eq!(refusal(code).reaction(), reaction, "{code}");
        }
        assert_eq!(refusal(422).to_string(), "creating node a: no");
        assert_eq!(refusal(422).condition_reason(), "LaunchFailed");
    }
}
