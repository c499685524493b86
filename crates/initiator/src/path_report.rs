//! How a path shows itself: its state, and what ALUA says of it.

use std::net::SocketAddr;

/// ALUA (SPC-4 5.15.2), the best first.
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

/// How far a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// It waits before it is tried again.
    Down,
    /// It connects, logs in, or asks what it leads to.
    Starting,
    /// It takes commands.
    Up,
    /// The target asked to be left; what is under way is waited for.
    Draining,
}

/// A path, to be shown.
#[derive(Clone, Debug)]
pub struct PathReport {
    /// Its portal, as in the URL.
    pub portal: String,
    /// The address of the portal that it was tried at last, before the target sent it elsewhere; none before the first try.
    pub address: Option<SocketAddr>,
    /// The tag of the portal group it was logged in to last.
    pub portal_group: Option<u16>,
    /// How far it is.
    pub state: PathState,
    /// What ALUA says of it.
    pub access: AccessState,
    /// Commands under way.
    pub under_way: usize,
    /// Commands that ended over it.
    pub completed: u64,
    /// Times that it, or an attempt to bring it up, failed.
    pub failures: u64,
    /// Times that it went down after it had been up.
    pub downs: u64,
    /// Why it failed last.
    pub last_error: Option<String>,
}
