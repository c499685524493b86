//! One export: a volume under a path, its counters, and the medium whose reply times it has.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use volume::Volume;
use volume::medium::{Medium, Operation};

use crate::nfs::stats::Stats;

/// A served volume. Shared by all connections; every field is safe for that by itself.
pub struct Export {
    pub(crate) volume: Volume,
    pub(crate) stats: Stats,
    name: String,
    path: String,
    medium: Option<Medium>,
    started: Instant,
    poison_logged: AtomicBool,
}

impl Export {
    /// The volume under this name (for commands and logs) and path (for mounts).
    #[must_use]
    pub fn new(name: &str, path: &str, volume: Volume) -> Self {
        if volume.options().durability == volume::Durability::Battery {
            tracing::warn!(
                volume = name,
                "durability by battery: nothing is flushed, a power cut must not reach this host's memory"
            );
        }
        if volume.identity() == volume::Identity::BirthTimes {
            tracing::warn!(volume = name, "no file handles on this store: files are identified by inode number and birth time");
        }
        if volume.acts_as_root() && !volume.may_act_for_others() {
            tracing::warn!(
                volume = name,
                "root without CAP_SETUID, CAP_SETGID or CAP_CHOWN: other users cannot create files, directories and links"
            );
        }
        let (name, path, started) = (name.to_owned(), path.to_owned(), Instant::now());
        Self { volume, stats: Stats::default(), name, path, medium: None, started, poison_logged: AtomicBool::new(false) }
    }

    /// The same on a modelled medium: replies wait until it would have been done.
    #[must_use]
    pub fn on_medium(self, medium: Medium) -> Self {
        Self { medium: Some(medium), ..self }
    }

    /// The volume's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path clients mount, `/vol`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The volume.
    #[must_use]
    pub const fn volume(&self) -> &Volume {
        &self.volume
    }

    /// What was counted since the export began.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The modelled medium, if there is one.
    #[must_use]
    pub const fn medium(&self) -> Option<&Medium> {
        self.medium.as_ref()
    }

    /// Logs once that a flush failed. Looked at when a call failed, so it costs the others nothing.
    pub(crate) fn log_poison(&self) {
        if self.volume.is_poisoned() && !self.poison_logged.swap(true, Ordering::Relaxed) {
            let epoch = self.volume.loss_epoch();
            tracing::error!(
                volume = self.name,
                epoch,
                "a flush failed: the volume acknowledges nothing as stable and refuses changes until the filer is restarted"
            );
        }
    }

    /// When the medium will be done with an operation that came at `came`.
    pub(crate) fn due(&self, came: Instant, operation: Operation) -> Option<Instant> {
        let came_ns = u64::try_from(came.saturating_duration_since(self.started).as_nanos()).unwrap_or(u64::MAX / 4);
        let took = self.medium.as_ref()?.submit(came_ns, operation).saturating_sub(came_ns);
        Some(came + Duration::from_nanos(took))
    }
}
