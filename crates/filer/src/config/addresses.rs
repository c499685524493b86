//! Addresses to listen on, as written in the file.

use std::fmt;
use std::net::SocketAddr;

use serde::de::{self, Deserialize, Deserializer};
use toml::Spanned;

use super::Reader;
use super::error::ConfigError;
use crate::listener::address_or_port;

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

impl Reader<'_> {
    /// The address of a key.
    pub(super) fn address(&self, key: &str, written: &Spanned<AddressText>) -> Result<SocketAddr, ConfigError> {
        let AddressText(text) = written.get_ref();
        address_or_port(text).map_err(|reason| self.wrong(written.span().start, format!("{key} {text:?}: {reason}")))
    }

    /// The addresses of a key.
    pub(super) fn addresses(&self, key: &str, written: &[Spanned<AddressText>]) -> Result<Vec<SocketAddr>, ConfigError> {
        written.iter().map(|address| self.address(key, address)).collect()
    }
}
