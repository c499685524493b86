//! Addresses to listen on, as written in the file.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer};

/// An address with a port, or only a port, as text or as a number.
#[derive(Debug)]
pub(super) struct AddressText(String);

impl<'de> Deserialize<'de> for AddressText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = AddressText;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("ADDR:PORT or a port")
            }
            fn visit_str<E>(self, text: &str) -> Result<AddressText, E> {
                Ok(AddressText(text.to_owned()))
            }
            fn visit_i64<E>(self, port: i64) -> Result<AddressText, E> {
                Ok(AddressText(port.to_string()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl AddressText {
    /// As it is written.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}
