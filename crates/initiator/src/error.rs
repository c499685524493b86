//! Why a LUN cannot be used.

use crate::command::Failure;
use crate::units::Units;
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
        /// The resolver's error.
        source: io::Error,
    },
    /// The connection could not be made.
    #[error("portal {portal} cannot be reached: {source}")]
    Connect {
        /// The portal.
        portal: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The connection broke.
    #[error("connection to portal {portal} ended: {source}")]
    Broken {
        /// The portal.
        portal: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The target violates the protocol, or a digest is wrong.
    #[error("portal {portal} broke the protocol: {source}")]
    Protocol {
        /// The portal.
        portal: String,
        /// The violation.
        source: Fault,
    },
    /// The login was refused.
    #[error("portal {portal} refused the login: {}", refusal(*.status))]
    Refused {
        /// The portal.
        portal: String,
        /// The status of the reply.
        status: LoginStatus,
    },
    /// The login was redirected, and the redirect cannot be followed.
    #[error("portal {portal} redirects the login to {to:?}: {reason}")]
    Redirected {
        /// The portal.
        portal: String,
        /// The TargetAddress of the target.
        to: String,
        /// Why it is not followed.
        reason: Redirect,
    },
    /// The portal did not answer in time.
    #[error("portal {portal} did not answer in {seconds} s")]
    Silent {
        /// The portal.
        portal: String,
        /// How long the initiator waited.
        seconds: u64,
    },
    /// A command failed that every LUN must support.
    #[error("LUN at portal {portal}: {what}: {failure}")]
    Unusable {
        /// The portal.
        portal: String,
        /// The command.
        what: &'static str,
        /// How it failed.
        failure: Failure,
    },
    /// The LUN does not exist, or is not a disk.
    #[error("portal {portal}: {units}")]
    NoDisk {
        /// The portal.
        portal: String,
        /// What the target has instead.
        units: Units,
    },
    /// A path leads to another LUN than the first.
    #[error(
        "portal {portal} has another LUN under this name ({found}) than the first portal ({expected}): it does not lead to the same data"
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
    /// What the user can do about it, if there is a hint.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Connect { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused => Some(
                "nothing listens on that port: check that the target runs (millrace serve --iscsi ADDR:PORT) and that the port is right"
                    .into(),
            ),
            Self::Connect { .. } | Self::Silent { .. } => {
                Some("the target does not run, is stopped, or is still starting: check it there; then check the address, the route and the firewall".into())
            }
            Self::Broken { source, .. } if source.kind() == io::ErrorKind::UnexpectedEof => Some(
                "what listens on that port closes the connection: it is not an iSCSI target (an NFS port is one for `millrace nfs`), or it \
                 refuses this host; `millrace lun list` shows the portals of a filer"
                    .into(),
            ),
            Self::Protocol { .. } => {
                Some("is it an iSCSI port? `millrace lun list` shows the portals of a filer".into())
            }
            Self::Resolve { host, .. } => Some(format!("check the spelling and `getent hosts {host}`")),
            _ => None,
        }
    }
}

/// Whether a redirect is followed, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Redirect {
    /// The next login goes there.
    #[error("the next login goes there")]
    Followed,
    /// The redirect does not name a usable address.
    #[error(
        "the target did not name HOST[:PORT][,GROUP], or HOST has no address; check the address that the target redirects to"
    )]
    NoAddress,
    /// The target redirects in a loop.
    #[error("{0} redirects in a row did not lead to the LUN; check the addresses that the target redirects to")]
    Loop(u32),
}

impl Error {
    /// Whether a target answered with a refusal.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::Redirected { .. } | Self::Unusable { .. } | Self::NoDisk { .. } | Self::OtherLun { .. }
        )
    }
}

fn refusal(status: LoginStatus) -> String {
    let fix = match status {
        LoginStatus::AUTHENTICATION_FAILED => {
            "; the user or the secret is wrong, or the target requires them (iscsi://USER%SECRET@HOST)"
        }
        LoginStatus::AUTHORIZATION_FAILED => "; map a LUN to this initiator's name (millrace lun map)",
        LoginStatus::NOT_FOUND => "; `millrace iscsi discover` shows the targets of a portal",
        _ => "",
    };
    format!("{status}{fix}")
}
