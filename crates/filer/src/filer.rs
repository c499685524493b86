//! The state all connections share: the volume behind one export, who may use it, what was counted and answered.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use volume::Volume;

use crate::limits::{MOUNTS_MAX, REFUSED_UIDS_LOGGED_MAX};
use crate::reply_cache::ReplyCache;
use crate::stats::Stats;

/// What is served, and to whom.
pub struct Config {
    /// The volume.
    pub volume: Volume,
    /// Path of the export, `/vol`.
    pub export: String,
    /// Uid 0 becomes nobody.
    pub root_squash: bool,
    /// Uid and gid of an unprivileged filer: only this user is served. None: the process can act for everybody.
    pub only: Option<(u32, u32)>,
    /// Port that portmap answers with.
    pub port: u16,
}

/// One served volume. Shared by all connections; every field is safe for that by itself.
pub struct Filer {
    pub(crate) volume: Volume,
    pub(crate) export: String,
    pub(crate) root_squash: bool,
    pub(crate) only: Option<(u32, u32)>,
    pub(crate) port: u16,
    pub(crate) stats: Stats,
    pub(crate) replies: ReplyCache,
    /// Sizes of the buffers of all connections, in bytes.
    pub(crate) buffer_bytes: AtomicUsize,
    mounts: Mutex<VecDeque<Mount>>,
    refused: Mutex<HashSet<u32>>,
}

/// One line of MOUNT DUMP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) client: IpAddr,
    pub(crate) path: Vec<u8>,
}

impl Filer {
    /// A filer that has served nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let Config { volume, export, root_squash, only, port } = config;
        Self {
            volume,
            export,
            root_squash,
            only,
            port,
            stats: Stats::default(),
            replies: ReplyCache::default(),
            buffer_bytes: AtomicUsize::new(0),
            mounts: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// The served volume.
    #[must_use]
    pub const fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The counters since the start.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Forgets what a reboot would forget: stored replies and the list of mounts.
    pub fn forget(&self) {
        self.replies.clear();
        self.mounts().clear();
    }

    /// The mounts clients told us of; advisory.
    pub(crate) fn mounts(&self) -> MutexGuard<'_, VecDeque<Mount>> {
        self.mounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a mount once.
    pub(crate) fn mounted(&self, mount: Mount) {
        let mut mounts = self.mounts();
        if mounts.contains(&mount) {
            return;
        }
        if mounts.len() == MOUNTS_MAX {
            mounts.pop_front();
        }
        mounts.push_back(mount);
    }

    /// Logs a uid that an unprivileged filer cannot serve, once.
    pub(crate) fn refused(&self, uid: u32, own: u32) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() < REFUSED_UIDS_LOGGED_MAX && refused.insert(uid) {
            tracing::warn!(uid, own, "uid refused: an unprivileged filer serves its own uid only");
        }
    }
}
