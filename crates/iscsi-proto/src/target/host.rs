//! What a connection asks of its caller: targets, who may use them, and sessions.

use super::tasks::Tasks;
use crate::chap::{Algorithm, Credential};
use crate::login::{LoginStatus, Name, SessionType};
use crate::pdu::{Isid, Lun};

/// The target's number of a session, not 0 (RFC 7143 11.12.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tsih(pub u16);

/// A challenge of CHAP: random bytes that the caller draws for one connection and uses for no other.
#[derive(Clone, Copy, Debug)]
pub struct Challenge {
    /// CHAP_I.
    pub identifier: u8,
    /// CHAP_C.
    pub bytes: [u8; 32],
}

/// How an initiator proves who it is.
#[derive(Clone, Debug, Default)]
pub enum Authentication {
    /// It does not have to.
    #[default]
    None,
    /// By CHAP.
    Chap {
        /// The credentials that are accepted; the algorithms, of which the initiator's first is taken.
        accepted: Vec<Credential>,
        /// Which hashes may be used.
        algorithms: Vec<Algorithm>,
        /// How the target proves itself where the initiator asks (mutual CHAP).
        own: Option<Credential>,
    },
}

/// Why an initiator did not prove who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthenticationFault {
    /// The initiator does not offer CHAP.
    NoChap,
    /// The initiator insists on CHAP, and the target has no credentials to check it by.
    ChapNotWanted,
    /// The initiator offers no CHAP algorithm that is allowed.
    NoAlgorithm,
    /// No accepted credential has this user name.
    UnknownUser,
    /// The secret is not that of the user.
    WrongSecret,
    /// The initiator asks for mutual CHAP, and the target has no secret of its own.
    NoOwnSecret,
    /// The keys are malformed, or the challenge is the target's own.
    Invalid,
}

/// An initiator's access to a target, or to discovery.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The portal group of the listener (RFC 7143 4.4.1).
    pub portal_group_tag: u16,
    /// What people call the target.
    pub alias: Option<String>,
    /// The proof that is asked for.
    pub authentication: Authentication,
}

/// A session that is about to begin.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Discovery or SCSI.
    pub session_type: SessionType,
    /// The initiator's name.
    pub initiator: Name,
    /// The initiator's number of the session.
    pub isid: Isid,
    /// The target; none in a discovery session.
    pub target: Option<Name>,
    /// The portal group it was logged in to.
    pub portal_group_tag: u16,
    /// The session that the initiator wants to go on with; none for a new one.
    pub tsih: Option<Tsih>,
    /// The initiator's number of the connection.
    pub cid: u16,
    /// The CHAP name, where one was proved.
    pub user: Option<String>,
    /// The tasks of the new session.
    pub tasks: Tasks,
}

/// Sessions that an initiator wants ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// That of this ISID.
    One(Isid),
    /// Those which this ISID [succeeds](Isid::succeeds).
    Former(Isid),
}

impl Ending {
    /// Whether a session of this ISID is meant.
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

/// What a connection asks while it receives.
pub trait Host {
    /// What the initiator may do with the target, or with discovery where there is none.
    ///
    /// # Errors
    /// The status that the login is refused with: [`LoginStatus::NOT_FOUND`], [`LoginStatus::AUTHORIZATION_FAILED`] and others.
    fn access(&self, initiator: &Name, target: Option<&Name>) -> Result<Access, LoginStatus>;

    /// Reports a login that ended with [`LoginStatus::AUTHENTICATION_FAILED`]; `user` is the CHAP name, if the initiator sent one.
    fn authentication_failed(&self, initiator: &Name, user: Option<&str>, fault: AuthenticationFault) {
        let _ = (initiator, user, fault);
    }

    /// Begins a session, whose login is complete but for the answer. An older session of the same initiator name, ISID, target and
    /// portal group is ended first, its tasks with it (RFC 7143 6.3.5); [`super::Registry`] finds it.
    ///
    /// # Errors
    /// The status that the login is refused with: [`LoginStatus::NO_SESSION`], [`LoginStatus::TOO_MANY_CONNECTIONS`] and others.
    fn open(&self, opening: &Opening) -> Result<Tsih, LoginStatus>;

    /// Ends sessions of this initiator name and target with all their tasks, whatever their portal group. An initiator asks so over
    /// another portal before it sends a session's writes again, and when it begins, of those that a process before it left: what is
    /// still on its way over their connections must not come behind what is written next. Whether they have ended; none where that
    /// cannot be asked.
    fn end_session(&self, initiator: &Name, target: &Name, which: Ending) -> Option<bool> {
        let _ = (initiator, target, which);
        None
    }

    /// Calls `visit` for each target that the initiator may see, with its name and its addresses in the form of TargetAddress:
    /// `10.0.0.1:3260,1`, `[2001:db8::1]:3260,1` (RFC 7143 13.8).
    fn targets(&self, initiator: &Name, visit: &mut dyn FnMut(&Name, &[String]));

    /// Bytes of data that a command takes by its CDB, at most; 0 where the command will be refused. The connection asks for no
    /// more, and for no more than the initiator expects to send.
    fn data_out_bytes(&self, lun: Lun, cdb: &[u8]) -> u64;

    /// Grants `bytes` more memory for the data of commands that wait for data. Returns false if there is no memory now. Memory that
    /// [`super::Receiver::held_bytes`] no longer counts is free again.
    fn reserve(&self, bytes: usize, purpose: Purpose) -> bool {
        let _ = (bytes, purpose);
        true
    }
}
