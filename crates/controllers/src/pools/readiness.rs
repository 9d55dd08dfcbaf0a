//! A pool is as ready as the NodeClass that it names.

use api::NodePool;
use api::conditions::ConditionStatus;
use cluster::store::NodeClass;

/// What a condition is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) status: ConditionStatus,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Setting {
    fn refusing(reason: &str, message: String) -> Self {
        Self { status: ConditionStatus::False, reason: reason.to_owned(), message }
    }
}

/// What `NodeClassReady` says of a class.
pub(super) fn of_class(pool: &NodePool, class: Option<&NodeClass>) -> Setting {
    let named = &pool.spec.template.spec.node_class_ref;
    let whom = format!("{} {:?}", named.kind, named.name);
    let Some(class) = class else {
        let remedy = "create it, or name another in spec.template.spec.nodeClassRef";
        return Setting::refusing("NodeClassNotFound", format!("{whom} does not exist; {remedy}"));
    };
    if class.is_deleting {
        let remedy = "name another in spec.template.spec.nodeClassRef";
        return Setting::refusing("NodeClassTerminating", format!("{whom} is being deleted; {remedy}"));
    }
    match class.ready.as_ref().map(|ready| (ready.status, ready)) {
        Some((ConditionStatus::True, _)) => {
            Setting { status: ConditionStatus::True, reason: "NodeClassReady".to_owned(), message: String::new() }
        }
        Some((ConditionStatus::False, ready)) => Setting::refusing(&ready.reason, ready.message.clone()),
        Some((ConditionStatus::Unknown, _)) | None => {
            let remedy = format!("look at its conditions with kubectl describe {} {}", named.kind, named.name);
            Setting::refusing(
                "NodeClassReadinessUnknown",
                format!("{whom} does not say yet whether it is ready; {remedy}"),
            )
        }
    }
}
