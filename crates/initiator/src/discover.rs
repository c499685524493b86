//! SendTargets (RFC 7143 appendix C).

use crate::connection::Connection;
use crate::error::Error;
use crate::naming;
use crate::options::Options;
use crate::path::settings;
use crate::socket::{self, Wait};
use crate::url::{IscsiUrl, portal_text};
use iscsi_proto::initiator::{Event, Initiator};
use iscsi_proto::text;
use std::net::ToSocketAddrs as _;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// A target that a portal told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    /// Its name.
    pub target: String,
    /// Its addresses: host, port and portal group, as the portal wrote them; the portal's own where it names none.
    pub addresses: Vec<String>,
}

/// Asks the first portal of the URL that answers for its targets.
///
/// # Errors
/// What is wrong with the first portal when none answers.
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
        let session = Initiator::new(settings(url, options, naming::isids(None)(0)));
        let now = Instant::now();
        match Connection::begin(portal.clone(), address, session, now).and_then(|one| converse(one, now + options.login_timeout))
        {
            Ok(text) => return Ok(targets(&text, &portal)),
            Err(error) => last_error = Some(error),
        }
    }
    let missing = || Error::Resolve { host: host.to_owned(), source: std::io::ErrorKind::NotFound.into() };
    Err(last_error.unwrap_or_else(missing))
}

/// Logs in, asks, and logs out; the text of the answer.
fn converse(mut connection: Connection, deadline: Instant) -> Result<Vec<u8>, Error> {
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
                Event::LoginRefused { status, .. } => return Err(Error::Refused { portal: portal.clone(), status }),
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

fn targets(answer: &[u8], portal: &str) -> Vec<Discovered> {
    let mut found: Vec<Discovered> = Vec::new();
    for pair in text::parse(answer).unwrap_or_default() {
        match (pair.key, found.last_mut()) {
            ("TargetName", _) => found.push(Discovered { target: pair.value.to_owned(), addresses: Vec::new() }),
            ("TargetAddress", Some(last)) => last.addresses.push(pair.value.to_owned()),
            _ => {}
        }
    }
    for target in found.iter_mut().filter(|target| target.addresses.is_empty()) {
        target.addresses.push(portal.to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_an_address_is_at_the_portal_that_told_of_it() {
        let answer = b"TargetName=iqn.a\0TargetAddress=10.0.0.1:3260,1\0TargetAddress=10.0.0.2:3260,2\0TargetName=iqn.b\0";
        let found = targets(answer, "filer:3260");
        assert_eq!(found[0].addresses, ["10.0.0.1:3260,1", "10.0.0.2:3260,2"]);
        assert_eq!((found[1].target.as_str(), &found[1].addresses[..]), ("iqn.b", &["filer:3260".to_owned()][..]));
    }
}
