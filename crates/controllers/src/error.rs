//! What can go wrong while acting, and what to do about it: in one function, by kind.

use provider::ProviderError;
use runtime::RuntimeError;

#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The API server did not do what we asked for.
    #[error("{doing}")]
    Kube { doing: String, source: kube::Error },
    /// The cloud did not.
    #[error("{doing}")]
    Cloud { doing: String, source: ProviderError },
    #[error("{doing}")]
    Runtime { doing: String, source: RuntimeError },
    /// An object asks for what nobody can do. Its author must change it.
    #[error("{doing}: {problem}")]
    Unusable { doing: String, problem: String },
    /// Something that we hold for impossible. One tick is lost, the process goes on.
    #[error("{doing}: this should not be possible: {fault}")]
    Invariant { doing: String, fault: String },
}

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Somebody was faster. Look again as soon as the watch may have shown it.
    AgainNow,
    /// Try the same again, later and later.
    BackOff,
    /// Nothing will help until somebody changes something. Say so, and look now and then.
    WaitForChange,
    /// The API server does not have what was asked about. For whoever wanted it gone, that is success.
    Gone,
}

impl ControllerError {
    /// The one place where the kind of a failure decides what happens next.
    pub fn reaction(&self) -> Reaction {
        match self {
            Self::Kube { source: kube::Error::Api(status), .. } => match status.code {
                409 => Reaction::AgainNow,
                404 | 410 => Reaction::Gone,
                // A token that runs out and a role that is granted a moment later look like a refusal for good (401, 403).
                400 | 405 | 413 | 415 | 422 => Reaction::WaitForChange,
                _ => Reaction::BackOff,
            },
            Self::Kube { .. } | Self::Runtime { .. } => Reaction::BackOff,
            Self::Cloud { source, .. } => match source.reaction() {
                provider::Reaction::WaitForChange => Reaction::WaitForChange,
                // Whoever launches gives the claim up when there is no capacity, and whoever wants a machine gone takes a
                // missing one for success; for everybody else the cloud just has to be asked again.
                provider::Reaction::PlanAgain | provider::Reaction::BackOff | provider::Reaction::AlreadyGone => {
                    Reaction::BackOff
                }
            },
            Self::Unusable { .. } | Self::Invariant { .. } => Reaction::WaitForChange,
        }
    }

    pub fn is_gone(&self) -> bool {
        self.reaction() == Reaction::Gone
    }
}

/// Gives a failed call its words: what was being done, and to what.
pub trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, ControllerError>;
}

impl<T> Doing<T> for Result<T, kube::Error> {
    fn doing(self, what: impl Into<String>) -> Result<T, ControllerError> {
        self.map_err(|source| ControllerError::Kube { doing: what.into(), source })
    }
}

impl<T> Doing<T> for Result<T, ProviderError> {
    fn doing(self, what: impl Into<String>) -> Result<T, ControllerError> {
        self.map_err(|source| ControllerError::Cloud { doing: what.into(), source })
    }
}

impl<T> Doing<T> for Result<T, RuntimeError> {
    fn doing(self, what: impl Into<String>) -> Result<T, ControllerError> {
        self.map_err(|source| ControllerError::Runtime { doing: what.into(), source })
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn kube(code: u16) -> ControllerError {
        let status = Status { code, ..Status::default() };
        Err::<(), _>(kube::Error::Api(Box::new(status))).doing("testing").unwrap_err()
    }

    #[test]
    fn the_kind_of_a_refusal_decides_what_happens_next() {
        for (code, reaction) in [
            (409, Reaction::AgainNow),
            (404, Reaction::Gone),
            (401, Reaction::BackOff),
            (403, Reaction::BackOff),
            (422, Reaction::WaitForChange),
            (429, Reaction::BackOff),
            (500, Reaction::BackOff),
        ] {
            assert_eq!(kube(code).reaction(), reaction, "{code}");
        }
    }

    // A launch template or a network that a cloud does not find may be there a moment later.
    #[test]
    fn what_a_cloud_does_not_find_is_asked_for_again() {
        let error = Err::<(), _>(ProviderError::NotFound { what: "image".to_owned() }).doing("launching").unwrap_err();
        assert_eq!(error.reaction(), Reaction::BackOff);
        assert_eq!(runtime::error::with_causes(&error), "launching: image was not found");
    }
}
