//! The address and the CHAP algorithms of the next login over a portal. They depend on the answers to the logins before it.

use crate::error::{Error, Redirect};
use crate::url::{IscsiUrl, portal};
use iscsi_proto::chap::Algorithm;
use iscsi_proto::initiator::Initiator;
use iscsi_proto::login::LoginStatus;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

/// Redirects in a row that are followed from one portal; then the login fails (RFC 7143 11.13.5, status class 1).
const REDIRECTS_MAX: u32 = 4;

/// The state of a portal between its logins.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    /// The address of the last login.
    current: Option<SocketAddr>,
    /// The address at which another login follows at once: after a redirect, or with another list of algorithms.
    next: Option<SocketAddr>,
    /// Redirects since the last login at the portal's own address.
    redirects: u32,
    /// Whether all these redirects were permanent.
    is_permanent: bool,
    /// The address of the last permanent redirect.
    moved: Option<SocketAddr>,
    /// Whether only MD5 is offered, because a login with the whole list failed.
    md5_alone: bool,
    has_logged_in: bool,
}

impl Attempt {
    /// Whether another login follows at once, so that the path has not failed yet.
    pub(crate) const fn goes_on(&self) -> bool {
        self.next.is_some()
    }

    /// Whether the login is at another address than the portal's own.
    pub(crate) const fn is_redirected(&self) -> bool {
        self.redirects > 0
    }

    /// The address of the login that begins now. `own` is that of the portal. After a permanent redirect the new
    /// address is used. If a login there fails, the next one uses the portal's own address again.
    pub(crate) fn begin(&mut self, own: Option<SocketAddr>) -> Option<SocketAddr> {
        self.current = self.next.take().or_else(|| {
            let failed_there = self.current == self.moved && !self.has_logged_in;
            let moved = self.moved.filter(|_| !failed_there);
            (self.redirects, self.is_permanent) = (u32::from(moved.is_some()), true);
            moved.or(own)
        });
        self.has_logged_in = false;
        self.current
    }

    /// Notes that the login succeeded.
    pub(crate) const fn logged_in(&mut self) {
        self.has_logged_in = true;
    }

    /// The algorithms to offer.
    pub(crate) fn algorithms(&self, url: &IscsiUrl) -> Vec<Algorithm> {
        match &url.chap_algorithms {
            Some(chosen) => chosen.clone(),
            None if self.md5_alone => vec![Algorithm::Md5],
            None => Algorithm::ALL.to_vec(),
        }
    }

    /// Called when the target refused or redirected the login over `portal`. The next login follows a redirect. Returns
    /// the error that the path reports if it does not.
    pub(crate) fn refused(&mut self, portal: &str, status: LoginStatus, address: Option<&str>) -> Error {
        if !matches!(status, LoginStatus::MOVED_TEMPORARILY | LoginStatus::MOVED_PERMANENTLY) {
            return Error::Refused { portal: portal.to_owned(), status };
        }
        let to = address.unwrap_or_default().to_owned();
        let reason = match address.and_then(target_address) {
            None => Redirect::NoAddress,
            Some(_) if self.redirects >= REDIRECTS_MAX => Redirect::Loop(REDIRECTS_MAX),
            Some(next) => {
                self.redirects += 1;
                self.is_permanent &= status == LoginStatus::MOVED_PERMANENTLY;
                self.moved = if self.is_permanent { Some(next) } else { self.moved };
                self.next = Some(next);
                Redirect::Followed
            }
        };
        Error::Redirected { portal: portal.to_owned(), to, reason }
    }

    /// Called when a login ended without a session. If the list of CHAP algorithms may be the cause, the next login
    /// offers only MD5, at the same address: tgt takes the number 7 for SHA-1, which is SHA-256, and other targets
    /// accept no list.
    pub(crate) fn ended(&mut self, url: &IscsiUrl, session: &Initiator, error: &Error) {
        let is_answer = matches!(error, Error::Refused { .. } | Error::Protocol { .. } | Error::Broken { .. });
        let is_list = !self.md5_alone && url.chap_algorithms.is_none() && session.awaits_algorithm();
        if is_list && is_answer {
            self.md5_alone = true;
            self.next = self.current;
        } else if matches!(error, Error::Refused { .. }) {
            // The login with only MD5 was refused too, so the next one offers the whole list.
            self.md5_alone = false;
        }
    }
}

/// The address in a TargetAddress (RFC 7143 13.8): a host name or an address, then optionally a port and a portal group tag.
fn target_address(text: &str) -> Option<SocketAddr> {
    let place = text.split(',').next().unwrap_or(text).trim();
    if let Ok(ip) = place.parse::<IpAddr>() {
        return Some(SocketAddr::new(ip, crate::url::PORT));
    }
    let (host, port) = portal(place).ok()?;
    (host.as_str(), port).to_socket_addrs().ok()?.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Option<SocketAddr> {
        Some(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn redirect(attempt: &mut Attempt, status: LoginStatus, to: &str) -> Error {
        attempt.refused("p:1", status, Some(to))
    }

    #[test]
    fn a_temporary_redirect_is_followed_once_and_the_next_login_asks_the_portal() {
        let mut attempt = Attempt::default();
        assert_eq!(attempt.begin(address(1)), address(1));
        redirect(&mut attempt, LoginStatus::MOVED_TEMPORARILY, "127.0.0.1:2,1");
        assert!(attempt.goes_on());
        assert_eq!(attempt.begin(address(1)), address(2));
        attempt.logged_in();
        assert_eq!(attempt.begin(address(1)), address(1), "after the session has ended");
    }

    #[test]
    fn a_permanent_redirect_is_remembered_and_the_portal_is_asked_when_it_fails() {
        let mut attempt = Attempt::default();
        attempt.begin(address(1));
        redirect(&mut attempt, LoginStatus::MOVED_PERMANENTLY, "127.0.0.1:2");
        assert_eq!(attempt.begin(address(1)), address(2));
        attempt.logged_in();
        assert_eq!(attempt.begin(address(1)), address(2));
        attempt.logged_in();
        let tried: Vec<_> = (0..4).map(|_| attempt.begin(address(1))).collect();
        assert_eq!(tried, [address(2), address(1), address(2), address(1)], "while both fail");
    }

    #[test]
    fn a_loop_of_redirects_ends() {
        for status in [LoginStatus::MOVED_TEMPORARILY, LoginStatus::MOVED_PERMANENTLY] {
            let mut attempt = Attempt::default();
            let followed = (0..100).take_while(|_| {
                attempt.begin(address(1));
                redirect(&mut attempt, status, "127.0.0.1:2");
                attempt.goes_on()
            });
            assert_eq!(followed.count(), REDIRECTS_MAX as usize);
        }
    }

    #[test]
    fn a_target_address_is_a_name_or_an_address_with_and_without_port_and_group() {
        let read = |text| target_address(text).map(|found| found.to_string());
        for (text, found) in [
            ("10.0.0.1:3261,1", "10.0.0.1:3261"),
            ("10.0.0.1", "10.0.0.1:3260"),
            ("10.0.0.1,7", "10.0.0.1:3260"),
            ("[2001:db8::1]:3261,1", "[2001:db8::1]:3261"),
            ("[2001:db8::1],1", "[2001:db8::1]:3260"),
            ("2001:db8::1", "[2001:db8::1]:3260"),
        ] {
            assert_eq!(read(text).as_deref(), Some(found), "{text}");
        }
        assert!(read("localhost:3261,1").is_some_and(|found| found.ends_with(":3261")));
        for text in ["", ",1", "10.0.0.1:0", "10.0.0.1:x", "[::1", ":3260"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
