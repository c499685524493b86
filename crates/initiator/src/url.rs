//! `iscsi://[USER%SECRET@]HOST[:PORT][,HOST2[:PORT2]…][/IQN/LUN][?key=value&…]`, as libiscsi writes it; several hosts are ours.

use iscsi_proto::chap::Credential;
use iscsi_proto::login::Name;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The registered port of iSCSI.
pub(crate) const PORT: u16 = 3260;
/// Portals of one URL.
const PORTALS_MAX: usize = 8;

/// Where a LUN, or a portal, is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IscsiUrl {
    /// Host (IPv6 without brackets) and port of each portal.
    pub portals: Vec<(String, u16)>,
    /// The target and the number of the LUN; none in a URL for discovery.
    pub target: Option<(Name, u16)>,
    /// What this side proves itself by.
    pub credential: Option<Credential>,
    /// What the target has to prove itself by.
    pub target_credential: Option<Credential>,
    /// Whether headers and data shall carry CRC32C digests: `header_digest=crc32c`, `data_digest=crc32c`.
    pub digests: (bool, bool),
}

/// Text that is no such URL.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason} in {url:?}; write iscsi://HOST[:PORT][,HOST2[:PORT2]]/IQN/LUN, as `millrace lun list` shows it")]
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
        let rest = url.strip_prefix("iscsi://").ok_or("no iscsi:// at the start")?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let (user, hosts) = authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
        let portals: Vec<_> = hosts.split(',').map(portal).collect::<Result<_, _>>()?;
        if portals.len() > PORTALS_MAX {
            return Err(format!("more than {PORTALS_MAX} portals"));
        }
        let target = if path.trim_matches('/').is_empty() { None } else { Some(target(path)?) };
        let mut found = Self { portals, target, credential: None, target_credential: None, digests: (false, false) };
        let (mut target_user, mut target_secret) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("header_digest", value)) => found.digests.0 = is_crc(value)?,
                Some(("data_digest", value)) => found.digests.1 = is_crc(value)?,
                Some(("target_user", value)) => target_user = Some(value.to_owned()),
                Some(("target_password", value)) => target_secret = Some(value.to_owned()),
                _ => return Err(format!("option {:?}, which is unknown,", pair.split('=').next().unwrap_or_default())),
            }
        }
        let user = user.map(|user| user.split_once('%').ok_or("a user without a secret (USER%SECRET@)")).transpose()?;
        let variable = |name: &str| std::env::var(name).ok();
        // The variables of libiscsi: secrets in arguments are seen by everybody on the host.
        let user = user
            .map(|(user, secret)| (user.to_owned(), secret.to_owned()))
            .or_else(|| variable("LIBISCSI_CHAP_USERNAME").zip(variable("LIBISCSI_CHAP_PASSWORD")));
        let target_user = target_user
            .zip(target_secret)
            .or_else(|| variable("LIBISCSI_CHAP_TARGET_USERNAME").zip(variable("LIBISCSI_CHAP_TARGET_PASSWORD")));
        let credential = |(user, secret): (String, String)| {
            Credential::new(&user, secret.as_bytes()).map_err(|error| format!("a user whose secret is not usable ({error})"))
        };
        found.credential = user.map(credential).transpose()?;
        found.target_credential = target_user.map(credential).transpose()?;
        match (&found.credential, &found.target_credential) {
            (None, Some(_)) => Err("a secret of the target without one of this side, which CHAP does not have,".into()),
            (Some(own), Some(other)) if own.shares_secret(other) => {
                Err("one secret for both sides, which RFC 7143 forbids,".into())
            }
            _ => Ok(found),
        }
    }
}

impl FromStr for IscsiUrl {
    type Err = UrlError;

    fn from_str(url: &str) -> Result<Self, UrlError> {
        Self::parse(url).map_err(|reason| UrlError { url: without_secrets(url), reason })
    }
}

impl fmt::Display for IscsiUrl {
    /// Without secrets.
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

fn portal(text: &str) -> Result<(String, u16), String> {
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
    let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| format!("port {port:?}")))?;
    if port == 0 {
        return Err("port 0".into());
    }
    Ok((host.to_owned(), port))
}

fn target(path: &str) -> Result<(Name, u16), String> {
    // A name may have a slash; a number of a LUN has none.
    let (name, lun) = path.rsplit_once('/').ok_or("no number of a LUN behind the name of the target")?;
    let name = Name::new(name).map_err(|error| error.to_string())?;
    let lun: u16 = lun.parse().map_err(|_| format!("LUN {lun:?}, which is no number,"))?;
    // Flat addressing (SAM-5 4.7.7.3) has 14 bits.
    if lun < 1 << 14 { Ok((name, lun)) } else { Err(format!("LUN {lun}, over 16383,")) }
}

fn is_crc(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "crc32c" => Ok(true),
        "none" => Ok(false),
        _ => Err(format!("digest {value:?}, neither crc32c nor none,")),
    }
}

fn without_secrets(url: &str) -> String {
    let (place, query) = url.split_once('?').map_or((url, None), |(place, query)| (place, Some(query)));
    let hidden = match (place.split_once("://"), place.rsplit_once('@')) {
        (Some((scheme, _)), Some((user, rest))) if user.contains('%') => format!("{scheme}://…@{rest}"),
        _ => place.to_owned(),
    };
    match query {
        Some(query) if query.contains("password") => format!("{hidden}?…"),
        Some(query) => format!("{hidden}?{query}"),
        None => hidden,
    }
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
        says("nfs://host/x", "no iscsi://");
        says("iscsi:///iqn.a/0", "no host");
        says("iscsi://host/iqn.a", "no number of a LUN");
        says("iscsi://host/iqn.a/x", "LUN \"x\"");
        says("iscsi://host/iqn.a/16384", "over 16383");
        says("iscsi://host:0/iqn.a/1", "port 0");
        says("iscsi://host:x/iqn.a/1", "port \"x\"");
        says("iscsi://user%hidden@host/iqn.a/1", "secret of 6 bytes");
        says("iscsi://user@host/iqn.a/1", "without a secret");
        says("iscsi://host/iqn.a/1?depth=3", "\"depth\"");
        says("iscsi://host/iqn.a/1?data_digest=md5", "neither crc32c nor none");
        says("iscsi://host/iqn.a/1?target_user=a&target_password=hidden-hidden", "without one of this side");
    }
}
