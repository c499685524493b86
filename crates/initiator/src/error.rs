//! Why a LUN is not there.

use crate::command::Failure;
use iscsi_proto::initiator::Fault;
use iscsi_proto::login::LoginStatus;
use std::io;
use thiserror::Error;

/// Why a portal, a target or a LUN cannot be used.
#[derive(Debug, Error)]
pub enum Error {
    /// The name has no address.
    #[error("host {host} has no address: {source}")]
    Resolve {
        /// The host.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// No connection.
    #[error("portal {portal} cannot be reached: {source}")]
    Connect {
        /// The portal.
        portal: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The connection broke.
    #[error("connection to portal {portal} ended: {source}")]
    Broken {
        /// The portal.
        portal: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// The target does not keep to the protocol, or a digest is wrong.
    #[error("portal {portal} broke the protocol: {source}")]
    Protocol {
        /// The portal.
        portal: String,
        /// How.
        source: Fault,
    },
    /// The login was refused.
    #[error("portal {portal} refused the login: {}", refusal(*.status))]
    Refused {
        /// The portal.
        portal: String,
        /// Its status.
        status: LoginStatus,
    },
    /// No answer in time.
    #[error("portal {portal} did not answer in {seconds} s")]
    Silent {
        /// The portal.
        portal: String,
        /// How long was waited.
        seconds: u64,
    },
    /// A command that a LUN must have failed.
    #[error("LUN behind portal {portal}: {what}: {failure}")]
    Unusable {
        /// The portal.
        portal: String,
        /// The command.
        what: &'static str,
        /// How it failed.
        failure: Failure,
    },
    /// A path leads to another LUN than the first.
    #[error(
        "portal {portal} has another LUN under this name ({found}) than the first one ({expected}): no path to the same data"
    )]
    OtherLun {
        /// The portal.
        portal: String,
        /// Its LUN.
        found: String,
        /// The LUN of the first path.
        expected: String,
    },
    /// The URL names no LUN.
    #[error("{url} names no LUN: `millrace iscsi discover {url}` shows the targets, `millrace lun list` the LUNs of a filer")]
    NoLun {
        /// The URL.
        url: String,
    },
}

impl Error {
    /// Whether a target answered, and said no.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Unusable { .. } | Self::OtherLun { .. })
    }
}

fn refusal(status: LoginStatus) -> String {
    let fix = match status {
        LoginStatus::AUTHENTICATION_FAILED => "; user or secret is wrong, or one is asked for (iscsi://USER%SECRET@HOST)",
        LoginStatus::AUTHORIZATION_FAILED => "; map a LUN to this initiator's name (millrace lun map)",
        LoginStatus::NOT_FOUND => "; `millrace iscsi discover` shows the targets of a portal",
        _ => "",
    };
    format!("{status}{fix}")
}
