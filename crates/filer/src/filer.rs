//! The state all connections share: the volume behind one export, who may use it, what was counted and answered.

use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use volume::Volume;
use volume::medium::{Medium, Operation};

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
    medium: Option<Medium>,
    started: Instant,
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
            medium: None,
            started: Instant::now(),
            mounts: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// The same on a modelled medium: replies wait until it would have been done.
    #[must_use]
    pub fn on_medium(self, medium: Medium) -> Self {
        Self { medium: Some(medium), ..self }
    }

    /// The modelled medium, if there is one.
    #[must_use]
    pub const fn medium(&self) -> Option<&Medium> {
        self.medium.as_ref()
    }

    /// When the medium will be done with an operation that came at `came`.
    pub(crate) fn due(&self, came: Instant, operation: Operation) -> Option<Instant> {
        let came_ns = u64::try_from(came.saturating_duration_since(self.started).as_nanos()).unwrap_or(u64::MAX / 4);
        let took = self.medium.as_ref()?.submit(came_ns, operation).saturating_sub(came_ns);
        Some(came + Duration::from_nanos(took))
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
