//! One export: a volume under a path, its counters, and the modelled medium that times its replies.

use std::time::{Duration, Instant};

use nfs_proto::nfs3::NfsStatus;
use volume::Volume;
use volume::medium::{Medium, Operation};

use crate::episode::Episode;
use crate::nfs::stats::{Answer, Stats};

/// A served volume. All connections share it. Each field synchronizes itself.
pub struct Export {
    pub(crate) volume: Volume,
    pub(crate) stats: Stats,
    name: String,
    path: String,
    inside_of: Option<String>,
    medium: Option<Medium>,
    started: Instant,
    full: Episode,
}

impl Export {
    /// The volume under this name (for commands and logs) and path (for mounts).
    #[must_use]
    pub fn new(name: &str, path: &str, volume: Volume) -> Self {
        volume.set_name(name);
        if volume.options().durability == volume::Durability::Battery {
            tracing::warn!(
                volume = name,
                "durability by battery: nothing is flushed, a power cut must not reach this host's memory"
            );
        }
        if volume.is_of_new_directory() {
            tracing::warn!(
                volume = name,
                dir = %volume.dir().display(),
                "the volume has another directory than before: its former handles are invalid; clients must mount it again"
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
        Self { volume, stats: Stats::default(), name, path, inside_of: None, medium: None, started, full: Episode::default() }
    }

    /// Uses a modelled medium: each reply waits until the medium would have done the operation.
    #[must_use]
    pub fn on_medium(self, medium: Medium) -> Self {
        Self { medium: Some(medium), ..self }
    }

    /// Marks the export as a file system inside the volume with this name.
    #[must_use]
    pub(crate) fn inside_of(self, outer: Option<String>) -> Self {
        Self { inside_of: outer, ..self }
    }

    /// Whether this is a file system inside another volume. The configuration does not name it.
    #[must_use]
    pub const fn is_inside(&self) -> bool {
        self.inside_of.is_some()
    }

    /// The name of the configured volume that this export is, or is inside.
    pub(crate) fn outermost(&self) -> &str {
        self.inside_of.as_deref().unwrap_or(&self.name)
    }

    /// The volume's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path that clients mount, for example `/vol`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The volume.
    #[must_use]
    pub const fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The counters since the export began.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The modelled medium, if there is one.
    #[must_use]
    pub const fn medium(&self) -> Option<&Medium> {
        self.medium.as_ref()
    }

    /// Logs a reply NFS3ERR_NOSPC or NFS3ERR_DQUOT, once per episode. An episode ends after a minute without such a reply.
    pub(crate) fn note_full(&self, answer: Answer) {
        let Answer::Status(status @ (NfsStatus::NoSpc | NfsStatus::DQuot)) = answer else { return };
        if self.full.begins() {
            let what = if status == NfsStatus::NoSpc { "no space, or over its quota" } else { "over a quota of the host" };
            tracing::warn!(volume = self.name, "the volume refuses writes: {what}");
        }
    }

    /// When the medium will complete an operation that was received at `came`. `None` without a modelled medium.
    pub(crate) fn due(&self, came: Instant, operation: Operation) -> Option<Instant> {
        let came_ns = u64::try_from(came.saturating_duration_since(self.started).as_nanos()).unwrap_or(u64::MAX / 4);
        let took = self.medium.as_ref()?.submit(came_ns, operation).saturating_sub(came_ns);
        Some(came + Duration::from_nanos(took))
    }
}
