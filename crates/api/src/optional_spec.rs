//! Kinds whose `spec` may be missing altogether, such as a KWOKNodeClass that only has a name.

/// Makes a missing or null `spec` decode to its default.
///
/// The derive of the root type has no way to say so. But serde asks a missing field for `None` before it gives up, so a
/// spec that decodes through an option gets its chance. The spec's own derive must carry `#[serde(remote = "Self")]`.
macro_rules! optional_spec {
    ($spec:ty) => {
        impl serde::Serialize for $spec {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                <$spec>::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $spec {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;

                impl<'de> serde::de::Visitor<'de> for Visitor {
                    type Value = $spec;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a spec, or none")
                    }

                    fn visit_none<E: serde::de::Error>(self) -> Result<$spec, E> {
                        Ok(<$spec>::default())
                    }

                    fn visit_unit<E: serde::de::Error>(self) -> Result<$spec, E> {
                        Ok(<$spec>::default())
                    }

                    fn visit_some<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<$spec, D::Error> {
                        <$spec>::deserialize(deserializer)
                    }
                }

                deserializer.deserialize_option(Visitor)
            }
        }
    };
}

pub(crate) use optional_spec;
