//! SendTargets (RFC 7143 appendix C).

use crate::attempt::Attempt;
use crate::connection::Connection;
use crate::error::Error;
use crate::naming;
use crate::options::Options;
use crate::path::settings;
use crate::socket::{self, Wait};
use crate::url::{IscsiUrl, portal_text};
use iscsi_proto::initiator::{Event, Initiator};
use iscsi_proto::text::{self, TextError};
use std::net::ToSocketAddrs as _;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// A target in the answer of a portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    /// Its name.
    pub target: String,
    /// Its addresses: host, port and portal group, as the portal wrote them. The portal's own address if it wrote no address.
    pub addresses: Vec<String>,
}

/// Asks the first portal of the URL that answers for its targets.
///
/// # Errors
/// The error of the first portal if no portal answers.
pub fn discover(url: &IscsiUrl, options: &Options) -> Result<Vec<Discovered>, Error> {
    let url = IscsiUrl { target: None, ..url.clone() };
    let mut first_error = None;
    for (host, port) in &url.portals {
        match ask(&url, options, host, *port) {
            Ok(found) => return Ok(found),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    let seconds = options.login_timeout.as_secs();
    Err(first_error.unwrap_or_else(|| Error::Silent { portal: url.portals_text(), seconds }))
}

fn ask(url: &IscsiUrl, options: &Options, host: &str, port: u16) -> Result<Vec<Discovered>, Error> {
    let portal = portal_text(host, port);
    let resolve = |source| Error::Resolve { host: host.to_owned(), source };
    let addresses = (host, port).to_socket_addrs().map_err(resolve)?;
    let mut last_error = None;
    for address in addresses {
        let (mut attempt, deadline) = (Attempt::default(), Instant::now() + options.login_timeout);
        loop {
            let address = attempt.begin(Some(address)).unwrap_or(address);
            let session = Initiator::new(settings(url, options, attempt.algorithms(url), naming::isids(None)(0)));
            let asked = Connection::begin(portal.clone(), address, session, Instant::now());
            let asked = asked.and_then(|mut one| {
                converse(&mut one, deadline, &mut attempt).inspect_err(|error| attempt.ended(url, &one.session, error))
            });
            match asked {
                Ok(text) => {
                    let at = if attempt.is_redirected() { address.to_string() } else { portal.clone() };
                    return targets(&text, &at).map_err(|error| Error::Protocol { portal, source: error.into() });
                }
                Err(_) if attempt.goes_on() => {}
                Err(error) => {
                    last_error = Some(error);
                    break;
                }
            }
        }
    }
    let missing = || Error::Resolve { host: host.to_owned(), source: std::io::ErrorKind::NotFound.into() };
    Err(last_error.unwrap_or_else(missing))
}

/// Logs in, sends SendTargets, and logs out. Returns the text of the answer.
fn converse(connection: &mut Connection, deadline: Instant, attempt: &mut Attempt) -> Result<Vec<u8>, Error> {
    let (began, portal) = (Instant::now(), connection.portal().to_owned());
    let mut answer = None;
    loop {
        connection.send()?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(Error::Silent { portal, seconds: (now - began).as_secs() });
        }
        let waits = [Wait { fd: connection.stream().as_fd(), to_send: connection.has_output() }];
        let wait = (deadline - now).min(Duration::from_secs(1));
        socket::wait(&waits, wait).map_err(|source| Error::Broken { portal: portal.clone(), source })?;
        connection.connected(now)?;
        connection.receive(now, |session, output, event| {
            match event {
                Event::LoggedIn(_) => {
                    let asked = session.send_targets(output, "All");
                    asked.map_err(|error| Error::Broken { portal: portal.clone(), source: std::io::Error::other(error) })?;
                }
                Event::LoginRefused { status, address } => return Err(attempt.refused(&portal, status, address.as_deref())),
                Event::Text { text, .. } => {
                    answer = Some(text);
                    let _ = session.logout(output);
                }
                _ => {}
            }
            Ok(())
        })?;
    }
}

fn targets(answer: &[u8], portal: &str) -> Result<Vec<Discovered>, TextError> {
    let mut found: Vec<Discovered> = Vec::new();
    for pair in text::pairs(answer) {
        let pair = pair?;
        match (pair.key, found.last_mut()) {
            ("TargetName", _) => found.push(Discovered { target: pair.value.to_owned(), addresses: Vec::new() }),
            ("TargetAddress", Some(last)) => last.addresses.push(pair.value.to_owned()),
            _ => {}
        }
    }
    for target in found.iter_mut().filter(|target| target.addresses.is_empty()) {
        target.addresses.push(portal.to_owned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_an_address_is_at_the_portal_that_told_of_it() {
        let answer = b"TargetName=iqn.a\0TargetAddress=10.0.0.1:3260,1\0TargetAddress=10.0.0.2:3260,2\0TargetName=iqn.b\0";
        let found = targets(answer, "filer:3260").unwrap();
        assert_eq!(found[0].addresses, ["10.0.0.1:3260,1", "10.0.0.2:3260,2"]);
        assert_eq!((found[1].target.as_str(), &found[1].addresses[..]), ("iqn.b", &["filer:3260".to_owned()][..]));
    }

    #[test]
    fn a_list_of_4096_targets_is_read_whole_and_a_malformed_one_is_an_error() {
        let answer: String =
            (0..4096).map(|number| format!("TargetName=iqn.a:{number}\0TargetAddress=10.0.0.1:3260,1\0")).collect();
        assert_eq!(targets(answer.as_bytes(), "filer:3260").unwrap().len(), 4096);
        assert!(targets(b"TargetName=iqn.a\0TargetAddress\0", "filer:3260").is_err());
    }
}
