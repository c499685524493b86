//! The interface through which a connection asks its caller about targets, their initiators, and sessions.

use super::tasks::Tasks;
use crate::chap::{Algorithm, Credential};
use crate::login::{LoginStatus, Name, SessionType};
use crate::pdu::{Isid, Lun};

/// The target's number of a session, not 0 (RFC 7143 11.12.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tsih(pub u16);

/// A CHAP challenge. The caller draws the bytes at random for one connection and uses them for no other.
#[derive(Clone, Copy, Debug)]
pub struct Challenge {
    /// CHAP_I.
    pub identifier: u8,
    /// CHAP_C.
    pub bytes: [u8; 32],
}

/// How an initiator must authenticate itself.
#[derive(Clone, Debug, Default)]
pub enum Authentication {
    /// The initiator need not authenticate itself.
    #[default]
    None,
    /// The initiator must authenticate itself by CHAP.
    Chap {
        /// The credentials that are accepted.
        accepted: Vec<Credential>,
        /// The allowed algorithms. The initiator's first choice among them is used.
        algorithms: Vec<Algorithm>,
        /// The target's own credential, for initiators that request mutual CHAP.
        own: Option<Credential>,
    },
}

/// Why the authentication of an initiator failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthenticationFault {
    /// The initiator does not offer CHAP.
    NoChap,
    /// The initiator insists on CHAP, and the target has no credentials to verify it.
    ChapNotWanted,
    /// The initiator offers no CHAP algorithm that is allowed.
    NoAlgorithm,
    /// No accepted credential has this user name.
    UnknownUser,
    /// The secret is not that of the user.
    WrongSecret,
    /// The initiator requests mutual CHAP, and the target has no secret of its own.
    NoOwnSecret,
    /// The keys are malformed, or the challenge is the target's own.
    Invalid,
}

/// An initiator's access to a target, or to discovery.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The portal group of the listener (RFC 7143 4.4.1).
    pub portal_group_tag: u16,
    /// A name of the target for people (TargetAlias).
    pub alias: Option<String>,
    /// The required authentication.
    pub authentication: Authentication,
}

/// A session that is about to begin.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Discovery or SCSI.
    pub session_type: SessionType,
    /// The initiator's name.
    pub initiator: Name,
    /// The initiator's part of the session identifier.
    pub isid: Isid,
    /// The target. `None` in a discovery session.
    pub target: Option<Name>,
    /// The portal group in which the initiator logs in.
    pub portal_group_tag: u16,
    /// The session that the initiator wants to continue. `None` for a new session.
    pub tsih: Option<Tsih>,
    /// The initiator's number of the connection.
    pub cid: u16,
    /// The CHAP name, if the initiator authenticated itself by CHAP.
    pub user: Option<String>,
    /// The tasks of the new session.
    pub tasks: Tasks,
}

/// Sessions that an initiator wants ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The session with this ISID.
    One(Isid),
    /// The sessions that this ISID [succeeds](Isid::succeeds).
    Former(Isid),
}

impl Ending {
    /// Whether a session with this ISID must end.
    #[must_use]
    pub fn means(self, isid: Isid) -> bool {
        match self {
            Self::One(one) => one == isid,
            Self::Former(successor) => successor.succeeds(isid),
        }
    }
}

/// The purpose of memory. Unsolicited data must not take all memory, because its commands may wait for solicited data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Data that the initiator sends without an R2T, or a text response that the initiator may never fetch.
    Unsolicited,
    /// All data of a command, before its first R2T. With it the command can be completed.
    Solicited,
}

/// The questions that a connection asks its caller while it receives.
pub trait Host {
    /// The initiator's access to the target, or to discovery if `target` is `None`.
    ///
    /// # Errors
    /// The status with which the login is refused: [`LoginStatus::NOT_FOUND`], [`LoginStatus::AUTHORIZATION_FAILED`] and others.
    fn access(&self, initiator: &Name, target: Option<&Name>) -> Result<Access, LoginStatus>;

    /// Reports a login that ended with [`LoginStatus::AUTHENTICATION_FAILED`]. `user` is the CHAP name, if the initiator sent one.
    fn authentication_failed(&self, initiator: &Name, user: Option<&str>, fault: AuthenticationFault) {
        let _ = (initiator, user, fault);
    }

    /// Begins a session. Its login is complete except for the response. If an older session has the same initiator name, ISID,
    /// target and portal group, that session and its tasks are ended first (RFC 7143 6.3.5). [`super::Registry`] finds it.
    ///
    /// # Errors
    /// The status with which the login is refused: [`LoginStatus::NO_SESSION`], [`LoginStatus::TOO_MANY_CONNECTIONS`] and others.
    fn open(&self, opening: &Opening) -> Result<Tsih, LoginStatus>;

    /// Ends sessions of this initiator name and target with all their tasks, in any portal group. An initiator requests this over
    /// another portal before it resends a session's writes, and at its start for sessions that an earlier process left: writes that
    /// are still on their way over those connections must not follow newer writes. Returns whether the sessions have ended. `None`
    /// if the host does not support this.
    fn end_session(&self, initiator: &Name, target: &Name, which: Ending) -> Option<bool> {
        let _ = (initiator, target, which);
        None
    }

    /// Calls `visit` for each target that the initiator may see, with its name and its addresses in the form of TargetAddress:
    /// `10.0.0.1:3260,1`, `[2001:db8::1]:3260,1` (RFC 7143 13.8).
    fn targets(&self, initiator: &Name, visit: &mut dyn FnMut(&Name, &[String]));

    /// Largest number of data bytes that a command takes according to its CDB. 0 if the command will be refused. The connection
    /// requests no more than this, and no more than the initiator expects to send.
    fn data_out_bytes(&self, lun: Lun, cdb: &[u8]) -> u64;

    /// Grants `bytes` more memory for the data of commands that wait for data. Returns false if there is no memory now. Memory that
    /// [`super::Receiver::held_bytes`] no longer counts is free again.
    fn reserve(&self, bytes: usize, purpose: Purpose) -> bool {
        let _ = (bytes, purpose);
        true
    }
}
