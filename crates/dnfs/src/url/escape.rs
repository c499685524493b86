//! `%XX` in paths.

use super::error::UrlError;
use host::escape::{percent_decoded, percent_encoded};

/// Percent-encodes a path for a URL.
#[must_use]
pub fn escape(path: &str) -> String {
    percent_encoded(path, |byte| byte.is_ascii_graphic() && !b"%?#".contains(&byte))
}

/// Decodes the percent-encoded bytes of a path.
pub(crate) fn unescape(path: &str) -> Result<String, UrlError> {
    percent_decoded(path).ok_or_else(|| UrlError::Escape { path: path.to_owned() })
}
