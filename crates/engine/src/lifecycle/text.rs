//! The words in a claim's conditions while it waits, letter by letter the reference's.

use model::claim::Status;

use super::{Lacking, Overdue, Waiting};

/// What a condition is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub condition: &'static str,
    pub status: Status,
    pub reason: &'static str,
    pub message: String,
}

impl Waiting {
    /// The condition that tells people what is waited for, if one does.
    pub fn said(&self) -> Option<Said> {
        let (condition, lacking) = match self {
            Self::Launch | Self::NodesGone(_) => return None,
            Self::Registration(lacking) => ("Registered", lacking),
            Self::Initialization(lacking) => ("Initialized", lacking),
        };
        // Only registration has a way out of this, which is its timeout; an initialised node may lose its twin again.
        let status = match (self, lacking) {
            (Self::Registration(_), Lacking::OneNode(_)) => Status::False,
            _ => Status::Unknown,
        };
        let (reason, message) = lacking.words(condition);
        Some(Said { condition, status, reason, message })
    }
}

impl Lacking {
    fn words(&self, condition: &str) -> (&'static str, String) {
        match self {
            Self::Node => ("NodeNotFound", "Node not registered with cluster".to_owned()),
            Self::OneNode(_) if condition == "Registered" => {
                ("MultipleNodesFound", "Invariant violated, matched multiple nodes".to_owned())
            }
            Self::OneNode(_) => ("NodeNotFound", "Invariant violated, matched multiple nodes".to_owned()),
            Self::Readiness => ("NodeNotReady", "Node status is NotReady".to_owned()),
            Self::StartupTaintRemoved(taint) => {
                ("StartupTaintsExist", format!("StartupTaint \"{taint}\" still exists"))
            }
            Self::PassingTaintRemoved(taint) => {
                ("KnownEphemeralTaintsExist", format!("KnownEphemeralTaint \"{taint}\" still exists"))
            }
            Self::Resource(resource) => {
                ("ResourceNotRegistered", format!("Resource \"{resource}\" was requested but not registered"))
            }
        }
    }
}

impl Overdue {
    /// The reason under which the claim's end is counted.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Launch => "launch_timeout",
            Self::Registration => "registration_timeout",
            Self::Initialization => "initialization_timeout",
        }
    }
}
