//! How a LUN is used.

use crate::naming;
use iscsi_proto::login::{Name, NameError};
use std::time::Duration;

/// How a LUN is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// This initiator's name.
    pub name: Name,
    /// Commands in progress on one path.
    pub depth: usize,
    /// Time in which a path must connect, log in and identify its LUN.
    pub login_timeout: Duration,
    /// If nothing arrives over a path with commands in progress for this time, a NOP-Out is sent.
    pub ping_after: Duration,
    /// As [`Self::ping_after`], for a path without commands.
    pub idle_ping_after: Duration,
    /// If a NOP-Out is not answered within this time, the path is closed.
    pub ping_timeout: Duration,
    /// If a command is not answered within this time, its path is closed.
    pub command_timeout: Duration,
    /// Commands wait this long for a path, then they fail (node.session.timeo.replacement_timeout of open-iscsi).
    pub replacement_timeout: Duration,
    /// For a LUN with a write cache: bytes of unflushed changes that are kept, to be written again if the target loses power.
    /// When half of it is used, a flush is sent. 0: nothing is kept, and a power loss ends the device.
    pub retained_bytes_max: usize,
    /// What the LUN is used for on this host, if one process at a time does so. Before this process sends a command, the sessions
    /// that an earlier process of this use left are ended, with the writes that are still in flight. Millrace's target supports
    /// that; others answer that they do not. `None`: no session of another process is ended.
    pub of_use: Option<String>,
}

impl Options {
    /// Options for this number of portals. With a second path, a silent one is closed within 1.5 s; a single one has 10
    /// s.
    #[must_use]
    pub fn for_portals(portals: usize) -> Self {
        let (ping_after, ping_timeout) = if portals > 1 {
            (Duration::from_millis(500), Duration::from_secs(1))
        } else {
            (Duration::from_secs(5), Duration::from_secs(5))
        };
        Self {
            name: naming::default_name(),
            depth: 128,
            login_timeout: Duration::from_secs(5),
            ping_after,
            idle_ping_after: Duration::from_secs(5),
            ping_timeout,
            command_timeout: Duration::from_secs(30),
            replacement_timeout: Duration::from_secs(120),
            retained_bytes_max: 64 << 20,
            of_use: None,
        }
    }

    /// Uses this name instead of the host's.
    ///
    /// # Errors
    /// [`NameError`] if the name is not valid.
    pub fn set_name(&mut self, name: &str) -> Result<(), NameError> {
        self.name = Name::of_user(name)?;
        Ok(())
    }
}
