//! Types for fields that contain one of a few names, and keep an unknown name.

/// Defines an enum of names for a record's field. It is serialized as the name. A name that is not in the list becomes
/// `Unknown` and is written unchanged. The order is that of the names, so that a map with such keys is stored like one with
/// text keys.
macro_rules! names {
    ($(#[$about:meta])* pub enum $type:ident { $($(#[$each:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone)]
        pub enum $type {
            $($(#[$each])* $variant,)+
            /// A name that this version does not know.
            Unknown(String),
        }

        impl $type {
            /// The name as it is stored.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Unknown(name) => name,
                }
            }
        }

        impl From<&str> for $type {
            fn from(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)+
                    other => Self::Unknown(other.to_owned()),
                }
            }
        }

        impl Default for $type {
            fn default() -> Self {
                Self::from("")
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.as_str() == other.as_str()
            }
        }

        impl Eq for $type {}

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $type {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.as_str().cmp(other.as_str())
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Ok(Self::from(name.as_ref()))
            }
        }
    };
}

pub(crate) use names;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::compare::SessionState;

    #[test]
    fn names_are_written_as_stored_and_an_unknown_one_is_kept() {
        let unknown = SessionState::Unknown("sleeping".into());
        for (text, value) in
            [("running", SessionState::Running), ("block reads", SessionState::BlockReads), ("sleeping", unknown)]
        {
            assert_eq!(serde_json::to_string(&value).unwrap(), format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<SessionState>(&format!("\"{text}\"")).unwrap(), value);
        }
        assert!(matches!(serde_json::from_str("\"l\\u006fg\"").unwrap(), SessionState::Log));
    }

    #[test]
    fn a_map_is_ordered_by_the_stored_names() {
        let states = [SessionState::Running, SessionState::Unknown("idle".into()), SessionState::BlockReads];
        let map: BTreeMap<SessionState, u8> = states.into_iter().zip([1, 2, 3]).collect();
        assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"block reads":3,"idle":2,"running":1}"#);
    }
}
