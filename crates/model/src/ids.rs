//! Names as types, so that a pool's name cannot stand where a node's is meant.

use std::fmt;
use std::sync::Arc;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The name itself, shared.
            pub fn shared(&self) -> Arc<str> {
                self.0.clone()
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    )+};
}

names! {
    /// A NodePool.
    PoolName,
    /// A Node, or a NodeClaim whose Node has not come yet.
    NodeName,
    /// An instance type of a cloud.
    TypeName,
    /// A namespace.
    Namespace,
    /// A resource that machines have and pods ask for, beyond cpu, memory, disk and pods.
    ResourceName,
    /// A CSI driver.
    DriverName,
    /// A volume as its driver counts it; equal ids attach once.
    VolumeId,
    /// A capacity reservation.
    ReservationId,
    /// The API server's id of an object; a name may be used again, an id is not.
    Uid,
}

/// A pod's namespace and name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    pub namespace: Namespace,
    pub name: Arc<str>,
}

impl PodName {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Debug for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_as_they_are_written() {
        let pod = PodName::new("default", "web");
        assert_eq!((pod.to_string(), format!("{pod:?}")), ("default/web".to_owned(), "default/web".to_owned()));
        assert_eq!(format!("{} {:?}", PoolName::from("p"), PoolName::from("p")), "p \"p\"");
    }
}
