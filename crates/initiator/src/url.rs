//! `iscsi://[USER%SECRET@]HOST[:PORT][,HOST2[:PORT2]…][/IQN/LUN][?key=value&…]`, the URL of libiscsi. Several hosts are
//! an extension.
//!
//! No error shows a secret: the error leaves out each part of the URL that may belong to one. No host is resolved
//! before the whole URL is valid.

use iscsi_proto::chap::{Algorithm, Credential};
use iscsi_proto::login::Name;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The registered port of iSCSI.
pub(crate) const PORT: u16 = 3260;
/// Most portals in one URL.
const PORTALS_MAX: usize = 8;

/// The portals of a target, and a LUN of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IscsiUrl {
    /// Host (IPv6 without brackets) and port of each portal.
    pub portals: Vec<(String, u16)>,
    /// The target and the LUN. `None` in a URL for discovery.
    pub target: Option<(Name, u16)>,
    /// The CHAP credential of this side.
    pub credential: Option<Credential>,
    /// The CHAP credential of the target.
    pub target_credential: Option<Credential>,
    /// The CHAP algorithms to offer, the preferred one first: `chap_algs=sha256,md5`. Without this option all are
    /// offered, and if that fails only MD5.
    pub chap_algorithms: Option<Vec<Algorithm>>,
    /// Whether headers and data must carry CRC32C digests: `header_digest=crc32c`, `data_digest=crc32c`.
    pub digests: (bool, bool),
}

/// A text that is not a valid URL.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{reason} in {url:?}; write iscsi://HOST[:PORT][,HOST2[:PORT2]]/IQN/LUN (`millrace lun list` shows it; `iscsi discover` takes iscsi://HOST[:PORT])"
)]
pub struct UrlError {
    /// The text, without a secret.
    pub url: String,
    /// What is wrong.
    pub reason: String,
}

impl IscsiUrl {
    /// The portals as they are written.
    #[must_use]
    pub fn portals_text(&self) -> String {
        let all: Vec<String> = self.portals.iter().map(|(host, port)| portal_text(host, *port)).collect();
        all.join(",")
    }

    fn parse(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("iscsi://").ok_or("iscsi:// is missing")?;
        let Parts { user, hosts, path, query } = Parts::of(rest);
        if path.contains('@') || query.contains('@') {
            return Err("an @ after the first / or ? (in a user or a secret, write / as %2F, ? as %3F, @ as %40)".into());
        }
        let portals: Vec<_> = hosts.split(',').map(portal).collect::<Result<_, _>>()?;
        if portals.len() > PORTALS_MAX {
            return Err(format!("more than {PORTALS_MAX} portals"));
        }
        let target = if path.trim_matches('/').is_empty() { None } else { Some(target(path)?) };
        let options = UrlOptions::parse(query)?;
        let user = user.map(|user| user.split_once('%').ok_or("a user without a secret (USER%SECRET@)")).transpose()?;
        let user = user.map(|(user, secret)| Some((user.to_owned(), unescape(secret)?)));
        let user = user.map(|user| user.ok_or("a secret whose percent-encoding is not UTF-8")).transpose()?;
        let credential = credential(user, "LIBISCSI_CHAP_USERNAME", "LIBISCSI_CHAP_PASSWORD")?;
        let target_user = pair("target_user", options.target_user, "target_password", options.target_password)?;
        let target_credential = credential_of_target(target_user)?;
        match (&credential, &target_credential) {
            (None, Some(_)) => return Err("a secret of the target without one of the initiator (mutual CHAP needs both)".into()),
            (Some(own), Some(other)) if own.shares_secret(other) => {
                return Err("the same secret for both sides (RFC 7143 forbids that)".into());
            }
            _ => {}
        }
        let (digests, chap_algorithms) = (options.digests, options.chap_algorithms);
        Ok(Self { portals, target, credential, target_credential, chap_algorithms, digests })
    }
}

/// The parts of a URL after its scheme.
struct Parts<'a> {
    user: Option<&'a str>,
    hosts: &'a str,
    path: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    fn of(rest: &'a str) -> Self {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let (user, hosts) = authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
        Self { user, hosts, path, query }
    }
}

/// The options after the `?`.
#[derive(Default)]
struct UrlOptions {
    digests: (bool, bool),
    chap_algorithms: Option<Vec<Algorithm>>,
    target_user: Option<String>,
    target_password: Option<String>,
}

impl UrlOptions {
    fn parse(query: &str) -> Result<Self, String> {
        let (mut found, mut given) = (Self::default(), Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or("an option without a value (KEY=VALUE)")?;
            let text = || unescape(value).ok_or_else(|| format!("option {key:?} whose percent-encoding is not UTF-8"));
            match key {
                "header_digest" => found.digests.0 = is_crc(value)?,
                "data_digest" => found.digests.1 = is_crc(value)?,
                "chap_algs" => found.chap_algorithms = Some(algorithms(value)?),
                "target_user" => found.target_user = Some(text()?),
                "target_password" => found.target_password = Some(text()?),
                _ => return Err(format!("the unknown option {key:?}")),
            }
            // After the unknown ones, which may be parts of a secret.
            if given.contains(&key) {
                return Err(format!("the option {key:?} twice"));
            }
            given.push(key);
        }
        Ok(found)
    }
}

fn algorithms(list: &str) -> Result<Vec<Algorithm>, String> {
    let one = |name: &str| {
        Algorithm::from_name(name).ok_or_else(|| format!("the unknown CHAP algorithm {name:?} (known: md5, sha1, sha256)"))
    };
    list.split(',').map(one).collect()
}

/// The credential of a URL, or that in two environment variables of libiscsi. These exist because every user of the host can see
/// the arguments of a program.
fn credential(given: Option<(String, String)>, user: &str, secret: &str) -> Result<Option<Credential>, String> {
    let given = match given {
        Some(given) => Some(given),
        None => pair(user, std::env::var(user).ok(), secret, std::env::var(secret).ok())?,
    };
    let checked = given.map(|(user, secret)| Credential::new(&user, secret.as_bytes()));
    checked.transpose().map_err(|error| format!("a secret that CHAP cannot use ({error})"))
}

/// A user and a secret, which are given together or not at all.
fn pair(
    user_key: &str,
    user: Option<String>,
    secret_key: &str,
    secret: Option<String>,
) -> Result<Option<(String, String)>, String> {
    match (user, secret) {
        (Some(user), Some(secret)) => Ok(Some((user, secret))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(format!("{user_key} without {secret_key}")),
        (None, Some(_)) => Err(format!("{secret_key} without {user_key}")),
    }
}

fn credential_of_target(given: Option<(String, String)>) -> Result<Option<Credential>, String> {
    credential(given, "LIBISCSI_CHAP_TARGET_USERNAME", "LIBISCSI_CHAP_TARGET_PASSWORD")
}

/// Decodes `%XX`. A `%` without two hexadecimal digits is kept as it is. `None` if the result is not UTF-8.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        rest = match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high << 4 | low) as u8);
                after.get(2..).unwrap_or_default()
            }
            _ => {
                bytes.push(*first);
                after
            }
        };
    }
    String::from_utf8(bytes).ok()
}

impl FromStr for IscsiUrl {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        Self::parse(url).map_err(|reason| UrlError { url: without_secrets(url), reason })
    }
}

impl fmt::Display for IscsiUrl {
    /// The URL without secrets.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "iscsi://{}", self.portals_text())?;
        match &self.target {
            Some((name, lun)) => write!(out, "/{name}/{lun}"),
            None => Ok(()),
        }
    }
}

pub(crate) fn portal_text(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Parses a host name or an address, and a port. An error does not show the text, because it may be part of a secret
/// that was not encoded.
pub(crate) fn portal(text: &str) -> Result<(String, u16), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("an address without its ]")?;
            (host, port.strip_prefix(':'))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("no host".into());
    }
    let is_allowed = |c: char| c.is_alphanumeric() || "-._".contains(c) || text.starts_with('[') && ":%".contains(c);
    if !host.chars().all(is_allowed) {
        return Err("a host with a character that is not allowed in a host name".into());
    }
    let port = port.map_or(Some(PORT), |port| port.parse().ok().filter(|port| *port > 0));
    Ok((host.to_owned(), port.ok_or("a port that is not a number from 1 to 65535")?))
}

fn target(path: &str) -> Result<(Name, u16), String> {
    // A target name may contain a slash. A LUN number does not.
    let (name, lun) = path.rsplit_once('/').ok_or("no LUN number after the target name")?;
    let name = Name::new(name).map_err(|error| error.to_string())?;
    // Flat addressing (SAM-5 4.7.7.3) has 14 bits.
    let number = lun.parse().ok().filter(|lun| *lun < 1 << 14);
    Ok((name, number.ok_or_else(|| format!("LUN {lun:?}, which is not a number from 0 to 16383,"))?))
}

fn is_crc(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "crc32c" => Ok(true),
        "none" => Ok(false),
        _ => Err(format!("digest {value:?}, neither crc32c nor none,")),
    }
}

/// The URL without each part that is, or may be, part of a secret.
fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // Without a user there is no secret in front of an option.
        let is_clear = !url.contains(['@', '?', '%']);
        return if is_clear { url.to_owned() } else { "a text that may contain a secret".to_owned() };
    };
    let Parts { user, hosts, path, query } = Parts::of(rest);
    let is_clear =
        !path.contains('@') && !query.contains('@') && hosts.split(',').all(|host| host.is_empty() || portal(host).is_ok());
    if !is_clear {
        return format!("{scheme}://…");
    }
    let user = user.map_or("", |_| "…@");
    let (slash, query) = (if path.is_empty() { "" } else { "/" }, if query.is_empty() { "" } else { "?…" });
    format!("{scheme}://{user}{hosts}{slash}{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_libiscsi_is_read_and_printed_without_its_secret() {
        let url: IscsiUrl =
            "iscsi://db%a secret of 12+@10.0.0.1:3261,[2001:db8::1]/iqn.2026-11.org.example:vol/7?header_digest=CRC32C"
                .parse()
                .unwrap();
        assert_eq!(url.portals, [("10.0.0.1".into(), 3261), ("2001:db8::1".into(), PORT)]);
        assert_eq!(url.target, Some((Name::new("iqn.2026-11.org.example:vol").unwrap(), 7)));
        assert_eq!((url.credential.as_ref().unwrap().name(), url.digests), ("db", (true, false)));
        assert_eq!(url.to_string(), "iscsi://10.0.0.1:3261,[2001:db8::1]:3260/iqn.2026-11.org.example:vol/7");
    }

    #[test]
    fn a_portal_alone_is_for_discovery() {
        for text in ["iscsi://filer", "iscsi://filer/"] {
            let url: IscsiUrl = text.parse().unwrap();
            assert_eq!((url.portals, url.target), (vec![("filer".into(), PORT)], None));
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_secrets_are_not() {
        let says = |url: &str, what: &str| {
            let error = url.parse::<IscsiUrl>().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
            assert!(!error.contains("hidden"), "{error}");
        };
        says("nfs://host/x", "iscsi:// is missing");
        says("iscsi:///iqn.a/0", "no host");
        says("iscsi://host/iqn.a", "no LUN number");
        says("iscsi://host/iqn.a/x", "LUN \"x\"");
        says("iscsi://host/iqn.a/16384", "LUN \"16384\", which is not a number from 0 to 16383");
        says("iscsi://host:0/iqn.a/1", "not a number from 1");
        says("iscsi://host:x/iqn.a/1", "not a number from 1");
        says("iscsi://user%hidden@host/iqn.a/1", "secret of 6 bytes");
        says("iscsi://user@host/iqn.a/1", "without a secret");
        says("iscsi://host/iqn.a/1?depth=3", "\"depth\"");
        says("iscsi://host/iqn.a/1?data_digest=none&data_digest=none", "\"data_digest\" twice");
        says("iscsi://host/iqn.a/1?data_digest=md5", "neither crc32c nor none");
        says("iscsi://host/iqn.a/1?target_user=a&target_password=hidden-hidden", "without one of the initiator");
        says("iscsi://host/iqn.a/1?target_user=a", "target_user without target_password");
        says("iscsi://u%hidden-hidden@host/iqn.a/1?target_password=hidden-hidden-2", "target_password without target_user");
        says("iscsi://host/iqn.a/1?chap_algs=md4", "\"md4\"");
    }

    #[test]
    fn a_percent_encoded_secret_may_have_any_character() {
        let url: IscsiUrl =
            "iscsi://db%a%2Fb%3Fc%40d%25%23%26e%C3%A4@h/iqn.a/0?target_user=t%26u&target_password=x%26y%3Dz-123456"
                .parse()
                .unwrap();
        let (own, other) = (url.credential.unwrap(), url.target_credential.unwrap());
        assert_eq!((own.name(), own.secret()), ("db", "a/b?c@d%#&eä".as_bytes()));
        assert_eq!((other.name(), other.secret()), ("t&u", &b"x&y=z-123456"[..]));
        for raw in ["twelve: bytes", "twelve%bytes!", "twelve@bytes=#", "100%zz-percent"] {
            let url: IscsiUrl = format!("iscsi://db%{raw}@h/iqn.a/0").parse().unwrap();
            assert_eq!(url.credential.unwrap().secret(), raw.as_bytes());
        }
    }

    #[test]
    fn no_error_shows_a_part_of_a_secret_that_is_not_encoded() {
        let before =
            ["hid/den", "hid?den", "den/hid", "hid@x/den", "hid?header_digest=den", "hid@den?target_password=den", "a:den/hid"];
        for secret in before {
            for url in ["iscsi://u%SECRET@h:1/iqn.a/0", "iscsi://u%SECRET@h", "iscsi://u:SECRET@h/iqn.a/0", "iscsi:u%SECRET@h"] {
                let error = url.replace("SECRET", secret).parse::<IscsiUrl>().unwrap_err().to_string();
                assert!(!error.contains("hid") && !error.contains("den"), "{error}");
            }
        }
        for url in [
            "iscsi://u%hidden-hidden/iqn.a/0",
            "iscsi://u:hidden-hidden",
            "iscsi://u@h/iqn.a/0?target_pasword=hidden",
            "iscsi://u%x@h/iqn.a/0?hidden",
        ] {
            let error = url.parse::<IscsiUrl>().unwrap_err().to_string();
            assert!(!error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn the_algorithms_of_chap_can_be_chosen() {
        let chosen = |query: &str| format!("iscsi://h/iqn.a/0{query}").parse::<IscsiUrl>().unwrap().chap_algorithms;
        assert_eq!(chosen("?chap_algs=SHA256,md5"), Some(vec![Algorithm::Sha256, Algorithm::Md5]));
        assert_eq!(chosen(""), None);
    }
}
