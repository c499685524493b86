//! `/PATH=nfs://…`: where an export appears.

use std::str::FromStr;

use crate::url::{NfsUrl, UrlError};

/// A mount that a user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountSpec {
    /// Absolute path that programs use, without a slash at the end.
    pub local_path: Vec<u8>,
    /// The export.
    pub url: NfsUrl,
}

/// Why a text is not a mount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text has no `=`, or its URL is not UTF-8.
    #[error("{0} is not of the form /PATH=nfs://HOST/EXPORT")]
    Form(String),
    /// The path is relative, `/`, or has `.` or `..` in it.
    #[error("the path {0} is not an absolute path below /")]
    Path(String),
    /// The URL is not valid.
    #[error(transparent)]
    Url(#[from] UrlError),
}

impl SpecError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Form(_) => Some("for example --mount /db=nfs://filer/vol".into()),
            Self::Path(_) => Some("the path is where the program sees the export: /db, /srv/pg, …".into()),
            Self::Url(url) => url.hint(),
        }
    }
}

impl MountSpec {
    /// Reads `/PATH=nfs://…`.
    ///
    /// # Errors
    /// Names what is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Self, SpecError> {
        let shown = || String::from_utf8_lossy(text).into_owned();
        let equals = text.iter().position(|byte| *byte == b'=').ok_or_else(|| SpecError::Form(shown()))?;
        let (path, url) = text.split_at(equals);
        let url = std::str::from_utf8(url.get(1..).unwrap_or_default()).map_err(|_| SpecError::Form(shown()))?;
        let mut components = path.split(|byte| *byte == b'/');
        let absolute = components.next() == Some(b"".as_slice());
        let mut local_path = Vec::new();
        let mut plain = true;
        for component in components.filter(|component| !component.is_empty()) {
            plain &= component != b"." && component != b"..";
            local_path.push(b'/');
            local_path.extend_from_slice(component);
        }
        if !absolute || !plain || local_path.is_empty() {
            return Err(SpecError::Path(String::from_utf8_lossy(path).into_owned()));
        }
        Ok(Self { local_path, url: NfsUrl::from_str(url)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_is_a_path_and_a_url() {
        let spec = MountSpec::parse(b"/srv//db/=nfs://host:3049/vol?uid=5").unwrap();
        assert_eq!(spec.local_path, b"/srv/db");
        assert_eq!(spec.url.export_path, "/vol");
    }

    #[test]
    fn mount_without_a_usable_path_is_refused() {
        assert!(matches!(MountSpec::parse(b"/db"), Err(SpecError::Form(_))));
        for path in ["db", "/", "", "/a/../b"] {
            let text = format!("{path}=nfs://host/vol");
            assert!(matches!(MountSpec::parse(text.as_bytes()), Err(SpecError::Path(_))), "{text}");
        }
        assert!(matches!(MountSpec::parse(b"/db=http://host/vol"), Err(SpecError::Url(_))));
    }
}
