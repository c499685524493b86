//! The report about a path: its state, and its ALUA state.

use std::net::SocketAddr;

/// ALUA states (SPC-4 5.15.2), the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessState {
    /// Active/optimized.
    Optimized,
    /// Active/non-optimized.
    NonOptimized,
    /// Standby, or another state in which nothing is read or written.
    Standby,
    /// Unavailable or offline.
    Unavailable,
}

impl AccessState {
    pub(crate) const fn from_number(number: u8) -> Self {
        match number {
            0x0 => Self::Optimized,
            0x1 | 0x4 => Self::NonOptimized,
            0x3 | 0xe => Self::Unavailable,
            _ => Self::Standby,
        }
    }
}

/// The state of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// The path waits before the next attempt.
    Down,
    /// The path connects, logs in, or probes its LUN.
    Starting,
    /// The path accepts commands.
    Up,
    /// The target asked the initiator to log out. The commands in progress end first.
    Draining,
}

/// A path, for display.
#[derive(Clone, Debug)]
pub struct PathReport {
    /// Its portal, as in the URL.
    pub portal: String,
    /// The address of the portal that was last tried, before any redirect. `None` before the first attempt.
    pub address: Option<SocketAddr>,
    /// The tag of the portal group of the last login.
    pub portal_group: Option<u16>,
    /// Its state.
    pub state: PathState,
    /// Its ALUA state.
    pub access: AccessState,
    /// Commands in progress.
    pub under_way: usize,
    /// Commands that ended over it.
    pub completed: u64,
    /// How often the path failed, or an attempt to bring it up.
    pub failures: u64,
    /// How often the path went down after it had been up.
    pub downs: u64,
    /// The last error.
    pub last_error: Option<String>,
}
