//! `nfs://HOST[,HOST2…][:PORT]/EXPORT[/PATH][?key=value&…]`.

use crate::options::Options;
use std::fmt;
use std::str::FromStr;

/// Where an export is and how it is to be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsUrl {
    /// Host names or addresses, the preferred one first; IPv6 without brackets.
    pub servers: Vec<String>,
    /// Path on the server, absolute, without a slash at the end (but `/` alone).
    pub export_path: String,
    /// The query.
    pub options: Options,
}

impl NfsUrl {
    /// Port of the NFS service as given, 2049 otherwise.
    #[must_use]
    pub fn nfs_port(&self) -> u16 {
        self.options.nfs_port.unwrap_or(nfs_proto::nfs3::PORT)
    }

    /// The first server, for messages.
    #[must_use]
    pub fn server(&self) -> &str {
        self.servers.first().map_or("", String::as_str)
    }

    /// The same with another path.
    #[must_use]
    pub fn with_path(&self, path: &str) -> Self {
        Self { export_path: path.to_owned(), ..self.clone() }
    }
}

/// Why a text is not a usable NFS URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme, or none.
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
    /// No path.
    #[error("URL {url} names no export")]
    Path {
        /// The text.
        url: String,
    },
    /// A port that is none.
    #[error("{port} in the URL is not a port")]
    Port {
        /// What stands in its place.
        port: String,
    },
    /// An escape that is not `%` and two hexadecimal digits, or not UTF-8.
    #[error("escape in URL path {path} is not % and two hexadecimal digits of UTF-8")]
    Escape {
        /// The path.
        path: String,
    },
    /// A key nobody knows.
    #[error("unknown option {key} in the URL")]
    Key {
        /// The key.
        key: String,
        /// The one that may be meant.
        nearest: Option<&'static str>,
    },
    /// A value that does not fit its key.
    #[error("option {key}={value} in the URL: expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What would fit.
        expected: &'static str,
    },
    /// Options that do not go together.
    #[error("{problem} in the URL")]
    Together {
        /// What is wrong.
        problem: &'static str,
        /// What to write instead.
        remedy: &'static str,
    },
}

impl UrlError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Scheme { .. } | Self::Host { .. } | Self::Path { .. } => {
                Some("write nfs://HOST[:PORT]/EXPORT, for example nfs://10.0.0.5/vol or nfs://127.0.0.1:2049/vol".into())
            }
            Self::Key { nearest: Some(nearest), .. } => Some(format!("did you mean {nearest}?")),
            Self::Key { .. } => Some(
                "options are rsize, wsize, split, slots, channels, writers, stable, uid, gid, nfsport, mountport, timeo, retrans, soft, \
                 resvport, noac, xprtsec, cacert, cert, key"
                    .into(),
            ),
            Self::Together { remedy, .. } => Some((*remedy).into()),
            _ => None,
        }
    }
}

impl FromStr for NfsUrl {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        let owned = || url.to_owned();
        let Some(rest) = url.strip_prefix("nfs://") else { return Err(UrlError::Scheme { url: owned() }) };
        let (location, query) = rest.split_once('?').map_or((rest, ""), |(location, query)| (location, query));
        let Some(slash) = location.find('/') else {
            return Err(if location.is_empty() { UrlError::Host { url: owned() } } else { UrlError::Path { url: owned() } });
        };
        let (authority, path) = location.split_at(slash);
        let mut options = Options::default();
        let mut servers = Vec::new();
        for host in authority.split(',') {
            let (host, port) = split_port(host)?;
            if host.is_empty() || host.contains('@') {
                return Err(UrlError::Host { url: owned() });
            }
            options.nfs_port = port.or(options.nfs_port);
            servers.push(host.to_owned());
        }
        for item in query.split('&').filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').map_or((item, None), |(key, value)| (key, Some(value)));
            options.set(key, value)?;
        }
        options.check()?;
        let trimmed = path.trim_end_matches('/');
        let export_path = unescape(if trimmed.is_empty() { "/" } else { trimmed })?;
        Ok(Self { servers, export_path, options })
    }
}

impl fmt::Display for NfsUrl {
    /// The URL without its options: enough to say which export is meant.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nfs://")?;
        for (index, server) in self.servers.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            if server.contains(':') { write!(f, "{comma}[{server}]")? } else { write!(f, "{comma}{server}")? }
        }
        if let Some(port) = self.options.nfs_port {
            write!(f, ":{port}")?;
        }
        for byte in self.export_path.bytes() {
            match byte {
                b'%' | b'?' | b'#' | 0..=b' ' => write!(f, "%{byte:02X}")?,
                0x80.. => write!(f, "%{byte:02X}")?,
                _ => write!(f, "{}", char::from(byte))?,
            }
        }
        Ok(())
    }
}

/// Splits `host:port`, `[v6]:port`, `host`.
fn split_port(host: &str) -> Result<(&str, Option<u16>), UrlError> {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => return Ok((name, None)),
        Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or(rest)),
        None => match host.split_once(':') {
            Some((name, port)) => (name, port),
            None => return Ok((host, None)),
        },
    };
    match port.parse::<u16>() {
        Ok(number) if number > 0 => Ok((name, Some(number))),
        _ => Err(UrlError::Port { port: port.to_owned() }),
    }
}

pub(crate) fn unescape(path: &str) -> Result<String, UrlError> {
    let bad = || UrlError::Escape { path: path.to_owned() };
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(bad)?;
            bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::StablePolicy;

    #[test]
    fn a_plain_url_has_defaults() {
        let url: NfsUrl = "nfs://filer/vol/".parse().unwrap();
        assert_eq!((url.server(), url.nfs_port(), url.export_path.as_str()), ("filer", 2049, "/vol"));
        assert_eq!(url.options, Options::default());
    }

    #[test]
    fn ports_hosts_and_options_are_read() {
        let url: NfsUrl = "nfs://a,b:3049/vol/x%20y?mountport=20048&rsize=64KiB&stable=always&version=3".parse().unwrap();
        assert_eq!(url.servers, ["a", "b"]);
        assert_eq!(url.nfs_port(), 3049);
        assert_eq!(url.export_path, "/vol/x y");
        assert_eq!(url.options.mount_port, Some(20048));
        assert_eq!(url.options.read_bytes_max, 65536);
        assert_eq!(url.options.stable, StablePolicy::Always);
        assert_eq!(url.to_string(), "nfs://a,b:3049/vol/x%20y");
        let six: NfsUrl = "nfs://[::1]:99/".parse().unwrap();
        assert_eq!((six.server(), six.nfs_port(), six.export_path.as_str()), ("::1", 99, "/"));
    }

    #[test]
    fn a_typo_is_named_with_the_nearest_key() {
        let error = "nfs://h/v?mount_port=1".parse::<NfsUrl>().unwrap_err();
        assert_eq!(error.hint().as_deref(), Some("did you mean mountport?"));
        assert!(matches!("nfs:/h/v".parse::<NfsUrl>(), Err(UrlError::Scheme { .. })));
        assert!(matches!("nfs://h".parse::<NfsUrl>(), Err(UrlError::Path { .. })));
        assert!(matches!("nfs:///v".parse::<NfsUrl>(), Err(UrlError::Host { .. })));
        assert!(matches!("nfs://h:70000/v".parse::<NfsUrl>(), Err(UrlError::Port { .. })));
        assert!(matches!("nfs://h/v?version=4".parse::<NfsUrl>(), Err(UrlError::Value { .. })));
        assert!(matches!("nfs://h/v%zz".parse::<NfsUrl>(), Err(UrlError::Escape { .. })));
    }
}
