//! Why a text is not a usable NFS URL, and what to write instead.

use crate::limits::ADDRESSES_MAX;
use results::sizes::SizeError;

/// Why a text is not a usable NFS URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The URL has another scheme, or no scheme.
    #[error("URL {url} does not begin with nfs://")]
    Scheme {
        /// The text.
        url: String,
    },
    /// No host.
    #[error("URL {url} names no host")]
    Host {
        /// The text.
        url: String,
    },
    /// A user before the host.
    #[error("URL {url} has a user before its host")]
    User {
        /// The text, without the user.
        url: String,
    },
    /// More hosts than [`ADDRESSES_MAX`].
    #[error("URL {url} names more than {ADDRESSES_MAX} hosts")]
    ManyHosts {
        /// The text.
        url: String,
    },
    /// A host other than the last one has a port.
    #[error("URL {url} gives one of several hosts a port of its own")]
    PortPlace {
        /// The text.
        url: String,
    },
    /// No path.
    #[error("URL {url} names no export")]
    Path {
        /// The text.
        url: String,
    },
    /// An IPv6 address that begins with a bracket and does not end with one.
    #[error("URL {url} has [ without ]")]
    Bracket {
        /// The text.
        url: String,
    },
    /// The port is invalid; valid ports are 1 to 65535.
    #[error("the port {port:?} in the URL is not a number from 1 to 65535")]
    Port {
        /// The text in its place.
        port: String,
    },
    /// An escape that is not `%` and two hexadecimal digits, or not UTF-8.
    #[error("escape in URL path {path} is not % and two hexadecimal digits of UTF-8")]
    Escape {
        /// The path.
        path: String,
    },
    /// An unknown key.
    #[error("unknown option {key} in the URL")]
    Key {
        /// The key.
        key: String,
        /// The known key that may be meant.
        nearest: Option<&'static str>,
    },
    /// A setting that an earlier part of the URL made.
    #[error("{}", twice(.key, .earlier))]
    Twice {
        /// The later key.
        key: String,
        /// The earlier one: the same, or another name of the setting.
        earlier: String,
    },
    /// A value that does not fit its key.
    #[error("option {key}{} in the URL: expected {expected}", value_text(.value))]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What would fit.
        expected: &'static str,
    },
    /// A size that has two meanings.
    #[error("option {key} in the URL: {error}")]
    Size {
        /// The key.
        key: String,
        /// Which two, and what to write.
        error: SizeError,
    },
    /// Options that cannot be combined.
    #[error("{problem} in the URL")]
    Together {
        /// What is wrong.
        problem: &'static str,
        /// What to write instead.
        remedy: &'static str,
    },
}

fn twice(key: &str, earlier: &str) -> String {
    if key == earlier {
        format!("option {key} is given twice in the URL")
    } else {
        format!("options {earlier} and {key} in the URL are one setting")
    }
}

/// A value as messages show it.
fn value_text(value: &str) -> String {
    if value.is_empty() { " without a value".to_owned() } else { format!("={value}") }
}

impl UrlError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Scheme { .. } | Self::Host { .. } | Self::Path { .. } => {
                Some("write nfs://HOST[:PORT]/EXPORT, for example nfs://10.0.0.5/vol or nfs://127.0.0.1:2049/vol".into())
            }
            Self::User { .. } => Some("NFS has no passwords: write nfs://HOST/EXPORT, with uid= and gid= as options".into()),
            Self::ManyHosts { .. } => Some("the hosts are the addresses of one server: name the ones to be tried first".into()),
            Self::PortPlace { .. } => Some("all hosts have the same port: write it once, after the last host".into()),
            Self::Key { nearest: Some(nearest), .. } => Some(format!("did you mean {nearest}?")),
            Self::Key { .. } => Some(
                "options are rsize, wsize, split, slots, channels, writers, stable, close, retain, gather, uid, gid, nfsport, mountport, local, timeo, \
                 retrans, hard, soft, gone, fence_ms, resvport, noac, owner, xprtsec, cacert, cert, key"
                    .into(),
            ),
            Self::Port { port } if port.is_empty() => Some("write nfs://HOST/EXPORT, without the colon that mount(8) has".into()),
            Self::Port { .. } => Some("write nfs://HOST:PORT/EXPORT, or no port for 2049".into()),
            Self::Bracket { .. } => Some("write an IPv6 address in brackets: nfs://[::1]/vol or nfs://[::1]:2049/vol".into()),
            Self::Twice { .. } => Some("write the setting once, with the value that you mean".into()),
            Self::Escape { .. } => Some("write % itself as %25".into()),
            Self::Together { remedy, .. } => Some((*remedy).into()),
            _ => None,
        }
    }
}
