//! `nfs://HOST[,HOST2…][:PORT]/EXPORT[/PATH][?key=value&…]`.
//!
//! The hosts are the addresses of one server. Mounting tries them in the given order. The client uses the one that
//! answers, until the server has moved to another address of its name. `local=` gives the addresses of this host to
//! connect from; the first of the server's family is used.

mod complete;
pub(crate) mod error;
pub(crate) mod escape;

pub use error::UrlError;

use crate::limits::ADDRESSES_MAX;
use crate::options::Options;
pub use escape::escape;
use escape::unescape;
use std::fmt;
use std::str::FromStr;

/// Where an export is, and how to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsUrl {
    /// Host names or addresses of the server, at most [`ADDRESSES_MAX`], the preferred one first; IPv6 without brackets.
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
        self.options.nfs_port.unwrap_or(crate::nfs3::procedures::PORT)
    }

    /// The first server, for messages.
    #[must_use]
    pub fn server(&self) -> &str {
        self.servers.first().map_or("", String::as_str)
    }

    /// The hosts in an order that does not depend on how the URL names them; each comes once, as spelled there.
    #[must_use]
    pub fn server_set(&self) -> Vec<&str> {
        let mut set: Vec<(String, &str)> = self.servers.iter().map(|name| (host_key(name), name.as_str())).collect();
        set.sort();
        set.dedup_by(|one, other| one.0 == other.0);
        set.into_iter().map(|(_, name)| name).collect()
    }

    /// The same URL with another path.
    #[must_use]
    pub fn with_path(&self, path: &str) -> Self {
        Self { export_path: path.to_owned(), ..self.clone() }
    }
}

impl FromStr for NfsUrl {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        let owned = || without_user(url);
        let Some(rest) = url.strip_prefix("nfs://") else { return Err(UrlError::Scheme { url: owned() }) };
        let (location, query) = rest.split_once('?').map_or((rest, ""), |(location, query)| (location, query));
        let Some(slash) = location.find('/') else {
            return Err(if location.is_empty() { UrlError::Host { url: owned() } } else { UrlError::Path { url: owned() } });
        };
        let (authority, path) = location.split_at(slash);
        if authority.contains('@') {
            return Err(UrlError::User { url: owned() });
        }
        let mut options = Options::default();
        let mut servers = Vec::new();
        for host in authority.split(',') {
            // If an `@` follows, an invalid port may be the start of a password that contains a slash.
            let (host, port) = split_port(host).map_err(|error| match error {
                UrlError::Port { .. } if url.contains('@') => UrlError::User { url: owned() },
                other => other,
            })?;
            if host.is_empty() {
                return Err(UrlError::Host { url: owned() });
            }
            if options.nfs_port.is_some() {
                return Err(UrlError::PortPlace { url: owned() });
            }
            if servers.len() == ADDRESSES_MAX {
                return Err(UrlError::ManyHosts { url: owned() });
            }
            options.nfs_port = port;
            servers.push(host.to_owned());
        }
        let mut given: Vec<(&str, &str)> = Vec::new();
        for item in query.split('&').filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').map_or((item, None), |(key, value)| (key, Some(value)));
            let setting = Options::setting_of(key);
            if let Some((earlier, _)) = given.iter().find(|(_, known)| *known == setting) {
                return Err(UrlError::Twice { key: key.to_owned(), earlier: (*earlier).to_owned() });
            }
            let port = options.nfs_port;
            options.set(key, value)?;
            if port.is_some() && port != options.nfs_port {
                let remedy = "write the port of NFS once, after the host or as nfsport=";
                return Err(UrlError::Together { problem: "nfsport and another port after the host", remedy });
            }
            given.push((key, setting));
        }
        options.check()?;
        let trimmed = path.trim_end_matches('/');
        let export_path = unescape(if trimmed.is_empty() { "/" } else { trimmed })?;
        Ok(Self { servers, export_path, options })
    }
}

impl fmt::Display for NfsUrl {
    /// The URL with the addresses of the server and of this host, without its other options: enough to identify the export
    /// and the way to it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nfs://")?;
        for (index, server) in self.servers.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            if server.contains(':') { write!(f, "{comma}[{server}]")? } else { write!(f, "{comma}{server}")? }
        }
        if let Some(port) = self.options.nfs_port {
            write!(f, ":{port}")?;
        }
        write!(f, "{}", escape(&self.export_path))?;
        for (index, local) in self.options.local.iter().enumerate() {
            write!(f, "{}{local}", if index > 0 { "," } else { "?local=" })?;
        }
        Ok(())
    }
}

/// Replaces what may be a user and a password in a URL inside `text`, so that no message shows them. NFS URLs have neither.
#[must_use]
pub fn without_user(text: &str) -> String {
    let before = text.find("://").and_then(|at| text.get(..at + 3)).unwrap_or_default();
    text.rsplit_once('@').map_or_else(|| text.to_owned(), |(_, rest)| format!("{before}…@{rest}"))
}

/// How a host is compared with another: plain variants of spelling are one.
pub(crate) fn host_key(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    if name == "localhost" { "127.0.0.1".to_owned() } else { name }
}

/// Splits `host:port`, `[v6]:port`, `host`.
fn split_port(host: &str) -> Result<(&str, Option<u16>), UrlError> {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, "")) => return Ok((name, None)),
        Some((name, rest)) => (name, rest.strip_prefix(':').unwrap_or(rest)),
        None if host.starts_with('[') => return Err(UrlError::Bracket { url: format!("nfs://{host}") }),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{ClosePolicy, StablePolicy};

    #[test]
    fn a_plain_url_has_defaults() {
        let url: NfsUrl = "nfs://filer/vol/".parse().unwrap();
        assert_eq!((url.server(), url.nfs_port(), url.export_path.as_str()), ("filer", 2049, "/vol"));
        assert_eq!(url.options, Options::default());
    }

    #[test]
    fn ports_hosts_and_options_are_read() {
        let url: NfsUrl =
            "nfs://a,b:3049/vol/x%20y?mountport=20048&rsize=64KiB&stable=always&close=nothing&version=3".parse().unwrap();
        assert_eq!(url.servers, ["a", "b"]);
        assert_eq!(url.nfs_port(), 3049);
        assert_eq!(url.export_path, "/vol/x y");
        assert_eq!(url.options.mount_port, Some(20048));
        assert_eq!(url.options.read_bytes_max, 65536);
        assert_eq!((url.options.stable, url.options.close), (StablePolicy::Always, ClosePolicy::Nothing));
        assert_eq!(url.to_string(), "nfs://a,b:3049/vol/x%20y");
        let six: NfsUrl = "nfs://[::1]:99/".parse().unwrap();
        assert_eq!((six.server(), six.nfs_port(), six.export_path.as_str()), ("::1", 99, "/"));
    }

    #[test]
    fn the_addresses_of_a_server_come_back_from_the_text_of_the_url() {
        let text = "nfs://a,[fd00::2]:3049/vol?local=10.0.0.1,fd00::1";
        let url: NfsUrl = format!("{text}&stable=always").parse().unwrap();
        assert_eq!(url.servers, ["a", "fd00::2"]);
        assert_eq!(url.options.local, ["10.0.0.1".parse::<std::net::IpAddr>().unwrap(), "fd00::1".parse().unwrap()]);
        assert_eq!(url.to_string(), text);
        let again: NfsUrl = url.to_string().parse().unwrap();
        assert_eq!((again.servers, again.options.local), (url.servers, url.options.local));
    }

    #[test]
    fn hosts_in_any_order_are_one_set() {
        let set = |url: &str| {
            let url: NfsUrl = url.parse().unwrap();
            url.server_set().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(set("nfs://b,a,b/vol"), set("nfs://a,b/vol"));
        assert_eq!(set("nfs://localhost,127.0.0.1/vol").len(), 1);
    }

    #[test]
    fn a_size_that_has_two_meanings_is_refused_with_one_that_has_one() {
        for (option, clear) in [("retain=5GB", "write 5GiB"), ("rsize=1MB", "write 1MiB"), ("split=8kb", "write 8KiB")] {
            let error = format!("nfs://h/v?{option}").parse::<NfsUrl>().unwrap_err().to_string();
            assert!(error.contains("powers of 1000") && error.ends_with(clear), "{error}");
        }
    }

    #[test]
    fn a_setting_that_is_given_twice_is_refused_also_by_another_name_of_it() {
        for (options, words) in [
            ("rsize=8k&wsize=8k&rsize=16k", "option rsize is given twice in the URL"),
            ("noac&noac", "option noac is given twice in the URL"),
            ("channels=2&nconnect=2", "options channels and nconnect in the URL are one setting"),
            ("hard&soft", "options hard and soft in the URL are one setting"),
            ("resvport&noresvport", "options resvport and noresvport in the URL are one setting"),
            ("vers=3&version=3", "options vers and version in the URL are one setting"),
        ] {
            let error = format!("nfs://h/v?{options}").parse::<NfsUrl>().unwrap_err();
            assert!(error.to_string().contains(words), "{options}: {error}");
            assert!(error.hint().unwrap().contains("once"), "{:?}", error.hint());
        }
        let error = "nfs://h:2049/v?nfsport=2050".parse::<NfsUrl>().unwrap_err();
        assert!(error.to_string().contains("nfsport") && error.to_string().contains("another port"), "{error}");
        assert!("nfs://h:2049/v?nfsport=2049&mountport=2050".parse::<NfsUrl>().is_ok());
    }

    #[test]
    fn too_many_addresses_and_a_port_for_one_host_are_refused() {
        let hosts = |count: usize| vec!["h"; count].join(",");
        assert!(format!("nfs://{}/v", hosts(8)).parse::<NfsUrl>().is_ok());
        let parse = |text: &str| text.parse::<NfsUrl>();
        assert!(matches!(parse(&format!("nfs://{}/v", hosts(9))), Err(UrlError::ManyHosts { .. })));
        assert!(matches!(parse("nfs://a:1,b/v"), Err(UrlError::PortPlace { .. })));
        let locals = ["127.0.0.1"; 9].join(",");
        assert!(matches!(parse(&format!("nfs://h/v?local={locals}")), Err(UrlError::Value { .. })));
        assert!(matches!(parse("nfs://h/v?local=eth0"), Err(UrlError::Value { .. })));
    }

    #[test]
    fn a_key_without_a_value_accepts_none_that_could_mean_its_opposite() {
        for text in ["soft=no", "soft=0", "hard=0", "noresvport=0", "resvport=no", "noac=off"] {
            let parsed = format!("nfs://h/v?{text}").parse::<NfsUrl>();
            assert!(matches!(parsed, Err(UrlError::Value { .. })), "{text}");
        }
        for text in ["soft", "hard", "resvport=0", "noac=1", "noac"] {
            assert!(format!("nfs://h/v?{text}").parse::<NfsUrl>().is_ok(), "{text}");
        }
    }

    #[test]
    fn no_error_shows_what_may_be_a_password() {
        for url in ["nfs://u:hidden@h/v", "nfs://u:hid/hidden@h/v", "nfs://hidden@h", "nfs:u:hidden@h/v", "nfs://hidden@"] {
            let error = url.parse::<NfsUrl>().unwrap_err().to_string();
            assert!(!error.contains("hid"), "{error}");
        }
        let error = "nfs://u:hidden@h/v".parse::<NfsUrl>().unwrap_err();
        assert_eq!(error.to_string(), "URL nfs://…@h/v has a user before its host");
        assert_eq!(without_user("/db=nfs://u:hidden@h/v"), "/db=nfs://…@h/v");
        assert!("nfs://h/v/a@b".parse::<NfsUrl>().is_ok());
        let error = "nfs://filer:nfs/v".parse::<NfsUrl>().unwrap_err();
        assert!(matches!(&error, UrlError::Port { port } if port == "nfs"), "{error}");
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
