//! Errors of a configuration.

use std::io;
use std::path::PathBuf;

use crate::nfs::exports::ExportsError;

/// Why a configuration is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("read the configuration {file}: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The file has CHAP secrets, and every user of the host may read or write it.
    #[error("use the CHAP secrets in {file}: its mode is {mode:04o}, and every user of this host may {}", access(*.mode))]
    Exposed {
        /// The file.
        file: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A line of the file is wrong.
    #[error("read the configuration {file}:{line}: {reason}")]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong there, and what is allowed.
        reason: String,
    },
    /// The certificate and key files that it names cannot be used.
    #[error("serve under TLS ({file}): {reason}")]
    Tls {
        /// The configuration file.
        file: PathBuf,
        /// Which certificate or key file, and why.
        reason: String,
    },
    /// A volume cannot be served.
    #[error("serve volume {name:?}: {reason} ({file}:{line})")]
    Volume {
        /// The volume's name.
        name: String,
        /// The configuration file.
        file: PathBuf,
        /// The line on which the volume begins.
        line: usize,
        /// Why the volume cannot be served.
        reason: String,
        /// What the user can do about it, if that is known.
        hint: Option<String>,
    },
    /// The volumes cannot be served together.
    #[error(transparent)]
    Exports(#[from] ExportsError),
}

/// What this mode allows other users to do with the secrets in the file.
const fn access(mode: u32) -> &'static str {
    match mode & 0o006 {
        0o004 => "read them",
        0o002 => "replace them",
        _ => "read and replace them",
    }
}

impl ConfigError {
    /// The same error with a hint for the user, if it is about a volume.
    pub(crate) fn with_hint(mut self, text: Option<String>) -> Self {
        if let Self::Volume { hint, .. } = &mut self {
            *hint = text;
        }
        self
    }

    /// What the user can do about it, if that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { source, .. } => Some(
                match source.kind() {
                    io::ErrorKind::PermissionDenied => "run it as a user who may read the file, or as root",
                    io::ErrorKind::InvalidData => "the file must be a text in TOML, encoded in UTF-8",
                    _ => "name the file with --config FILE",
                }
                .to_owned(),
            ),
            Self::Exposed { file, .. } => {
                Some(format!("remove the access of others with chmod o-rwx {}; its group may read it", file.display()))
            }
            Self::Volume { hint, .. } => hint.clone(),
            Self::Line { .. } | Self::Tls { .. } | Self::Exports(_) => None,
        }
    }
}
