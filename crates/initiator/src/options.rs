//! How a LUN is used.

use crate::naming;
use iscsi_proto::login::{Name, NameError};
use std::time::Duration;

/// How a LUN is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// This initiator's name.
    pub name: Name,
    /// Commands under way on one path.
    pub depth: usize,
    /// A path has this long to connect, log in and say what it leads to.
    pub login_timeout: Duration,
    /// A path with commands under way that brings nothing for so long is asked by a NOP-Out.
    pub ping_after: Duration,
    /// The same of a path that has nothing to do.
    pub idle_ping_after: Duration,
    /// A NOP-Out has to be answered within this time, or the path is given up.
    pub ping_timeout: Duration,
    /// A command has to be answered within this time, or its path is given up.
    pub command_timeout: Duration,
    /// Commands wait this long for a path, then they fail (node.session.timeo.replacement_timeout of open-iscsi).
    pub replacement_timeout: Duration,
    /// Of a LUN with a write cache: bytes of changes that were not flushed, kept to be written again when the target loses power. A flush is
    /// sent when half of it is used. 0: nothing is kept, and a power loss ends the device.
    pub retained_bytes_max: usize,
    /// What the LUN is used for on this host, where one process at a time does so: the sessions that a process of this use left behind
    /// are ended, with the writes that are still on their way, before this one sends a command. Our target does so; others answer that
    /// they do not know it. None: nobody's sessions are ended.
    pub of_use: Option<String>,
}

impl Options {
    /// For so many portals: with a second path, a silent one is given up within 1.5 s; a single one has 10 s.
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
    /// [`NameError`] where it is none.
    pub fn set_name(&mut self, name: &str) -> Result<(), NameError> {
        self.name = Name::of_user(name)?;
        Ok(())
    }
}
