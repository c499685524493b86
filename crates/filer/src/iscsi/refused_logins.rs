//! The log of refused logins. Any peer can cause them, so each cause gets one line in some seconds.

use std::net::SocketAddr;

use iscsi_proto::login::Name;
use iscsi_proto::target::AuthenticationFault;

use super::settings::Settings;
use crate::paced::Paced;

/// Refused logins: failed authentications by cause, and initiators that see no LUN.
#[derive(Default)]
pub(super) struct RefusedLogins {
    authentication: [Paced; 8],
    unmapped: Paced,
}

impl RefusedLogins {
    /// Logs a login at a target that has no LUN for the initiator.
    pub(super) fn log_unmapped(&self, initiator: &Name, target: &Name) {
        if let Some(count) = self.unmapped.count() {
            let (initiator, iqn) = (initiator.as_str(), target.as_str());
            tracing::warn!(initiator, iqn, count, "initiator refused: no LUN is mapped to it");
        }
    }

    /// Logs a failed authentication, unless one of the same cause was logged within the last seconds.
    pub(super) fn log(
        &self,
        settings: &Settings,
        peer: SocketAddr,
        initiator: &Name,
        user: Option<&str>,
        fault: AuthenticationFault,
    ) {
        let (index, cause) = cause(settings, user, fault);
        let Some(count) = self.authentication.get(index).and_then(Paced::count) else { return };
        tracing::warn!(%peer, initiator = initiator.as_str(), user, cause, count, "login refused: the initiator did not authenticate");
    }
}

/// The number of a cause, and its text.
fn cause(settings: &Settings, user: Option<&str>, fault: AuthenticationFault) -> (usize, &'static str) {
    let is_user = || settings.users.iter().any(|known| Some(known.credential.name()) == user);
    match fault {
        AuthenticationFault::UnknownUser if is_user() => (0, "this initiator may not be this user"),
        AuthenticationFault::UnknownUser => (1, "unknown user"),
        AuthenticationFault::WrongSecret => (2, "wrong secret"),
        AuthenticationFault::NoOwnSecret => (3, "the initiator asks for mutual CHAP, and [iscsi.own] is missing"),
        AuthenticationFault::NoChap => (4, "the initiator does not offer CHAP, and [[iscsi.user]] demands it"),
        AuthenticationFault::ChapNotWanted => (5, "the initiator demands CHAP, and no [[iscsi.user]] is configured"),
        AuthenticationFault::NoAlgorithm => (6, "the initiator offers no CHAP algorithm that the filer knows"),
        AuthenticationFault::Invalid => (7, "the CHAP keys are not valid"),
    }
}
