//! The volume: its parts, opening it, and what it says of itself.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::changes::Changes;
use crate::counters::{Counted, Counters};
use crate::descriptor_cache::DescriptorCache;
use crate::directory_lock::DirectoryLock;
use crate::error::{Error, OpenError};
use crate::faults::Faults;
use crate::handle::HandleKey;
use crate::identity::{Identify, Identity};
use crate::loss::{Loss, LossConfig, LossLock};
use crate::loss_epoch::LossEpoch;
use crate::node::{Node, NodeInner};
use crate::node_table::NodeTable;
use crate::options::{CacheMode, Durability, Options};
use crate::quota::account::Quota;
use crate::record::BootId;
use crate::state::{NewDirectories, Store};
use crate::sys;
use crate::times;
use crate::tree_search::TreeSearch;
use crate::types::Kind;

/// What to serve, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The served directory. Mount points inside it are not entered.
    pub dir: PathBuf,
    /// Where the volume keeps its own record; made when missing, never inside `dir`.
    pub state_dir: PathBuf,
    /// The loss layer, a test switch; `None` in service.
    pub loss: Option<LossConfig>,
    /// How data is kept and promised.
    pub options: Options,
}

/// A served directory. Cheap to clone; all clones are the same volume.
#[derive(Clone)]
pub struct Volume(pub(crate) Arc<VolumeInner>);

pub(crate) struct VolumeInner {
    /// For the thread of the tree search; it does not keep the volume open.
    pub(crate) me: Weak<Self>,
    /// Keeps other servers off.
    pub(crate) _directory_lock: DirectoryLock,
    pub(crate) new_state: NewDirectories,
    pub(crate) root_fd: OwnedFd,
    pub(crate) root: Node,
    /// The root as it was opened: its device, mount and inode number never change.
    pub(crate) dir: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) root_stat: sys::RawStat,
    pub(crate) identify: Identify,
    pub(crate) uid: u32,
    pub(crate) fsid: u64,
    pub(crate) handle_key: HandleKey,
    pub(crate) loss_epoch: LossEpoch,
    /// [`Volume::close_when_unused`] was asked for.
    pub(crate) closes_when_unused: AtomicBool,
    /// What changes something and is in flight.
    pub(crate) changes: Changes,
    pub(crate) nodes: NodeTable,
    pub(crate) descriptors: DescriptorCache,
    pub(crate) tree_search: TreeSearch,
    pub(crate) options: Options,
    pub(crate) counted: Counted,
    /// Reading a file's times makes the host write the inode with its next stable write.
    pub(crate) multigrain_times: bool,
    /// Cleared when the host turns out to have no RWF_DONTCACHE.
    pub(crate) uncached_buffered: AtomicBool,
    pub(crate) quota: Quota,
    /// Cleared when the host turns out to have no unnamed files.
    pub(crate) unnamed_files: AtomicBool,
    /// Cleared when the host turns out to have no FALLOC_FL_PUNCH_HOLE.
    pub(crate) punch_hole: AtomicBool,
    /// Cleared when the host turns out to have no FALLOC_FL_ZERO_RANGE.
    pub(crate) zero_range: AtomicBool,
    /// Cleared when the host turns out to have no reads that fail instead of waiting (RWF_NOWAIT).
    pub(crate) nowait_reads: AtomicBool,
    pub(crate) loss: Option<LossLock>,
    pub(crate) faults: Faults,
}

impl Volume {
    /// Opens the directory and the state directory, which is made where missing.
    ///
    /// **Durability**: what a former process did to the directory is flushed before this returns, so
    /// that nothing seen later can vanish.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let dir_failed = |source| OpenError::Directory { path: config.dir.clone(), source };
        let dir = config.dir.canonicalize().map_err(dir_failed)?;
        refuse_state_inside(&config.state_dir, &dir)?;
        if config.options.durability == Durability::Battery && config.loss.is_some() {
            return Err(OpenError::BatteryLoses);
        }
        let root_fd = sys::open_path(&dir, libc::O_RDONLY | libc::O_DIRECTORY, 0).map_err(dir_failed)?;
        let identify = Identify::detect(&root_fd).map_err(dir_failed)?;
        let identify = identify.ok_or_else(|| OpenError::NoIdentity { path: dir.clone() })?;
        // Before the state directory: a volume that is refused leaves none.
        let directory_lock = DirectoryLock::take(&dir)?;
        let state_failed = |source| OpenError::State { path: config.state_dir.clone(), source };
        let new_state = NewDirectories::make(&config.state_dir).map_err(state_failed)?;
        let opened = Self::with_state(&config, dir, root_fd, identify, directory_lock, new_state.clone());
        // Another process that has the lock has come between making the directory and locking it: it is its own by now.
        opened.inspect_err(|error| {
            if !matches!(error, OpenError::InUse { .. }) {
                new_state.remove()
            }
        })
    }

    /// The rest of opening: in a state directory that is there.
    fn with_state(
        config: &Config,
        dir: PathBuf,
        root_fd: OwnedFd,
        identify: Identify,
        directory_lock: DirectoryLock,
        new_state: NewDirectories,
    ) -> Result<Self, OpenError> {
        let dir_failed = |source| OpenError::Directory { path: config.dir.clone(), source };
        let state_failed = |source| OpenError::State { path: config.state_dir.clone(), source };
        let (store, record) = Store::open(&config.state_dir)?;
        let (handle_key, fsid) = (HandleKey::new(&record.key), record.fsid());
        let loss_epoch =
            LossEpoch::start(store, record, config.options.boot_id.or_else(BootId::of_kernel)).map_err(state_failed)?;
        sys::sync_file_system(&root_fd).map_err(dir_failed)?;
        let stat = sys::stat(&root_fd).map_err(dir_failed)?;
        let root_identity = identify.of(&root_fd, &stat).map_err(dir_failed)?;
        let root = Arc::new(NodeInner::new(root_identity, Kind::Directory, stat.ino, 0));
        let multigrain_times = times::multigrain_times(&root_fd);
        let nodes = NodeTable::new();
        let root = nodes.intern(root);
        let loss = config.loss.map(|loss| Loss::start(loss, &root_fd).map(LossLock::new)).transpose().map_err(dir_failed)?;
        Ok(Self(Arc::new_cyclic(|me| VolumeInner {
            me: me.clone(),
            root,
            root_stat: stat,
            dir,
            state_dir: config.state_dir.clone(),
            _directory_lock: directory_lock,
            new_state,
            root_fd,
            identify,
            uid: sys::effective_uid(),
            fsid,
            handle_key,
            loss_epoch,
            closes_when_unused: AtomicBool::new(false),
            changes: Changes::default(),
            nodes,
            descriptors: DescriptorCache::new(),
            tree_search: TreeSearch::default(),
            options: config.options,
            counted: Counted::default(),
            multigrain_times,
            uncached_buffered: AtomicBool::new(matches!(config.options.cache, CacheMode::Direct | CacheMode::DropBehind)),
            quota: Quota::default(),
            unnamed_files: AtomicBool::new(true),
            punch_hole: AtomicBool::new(true),
            zero_range: AtomicBool::new(true),
            nowait_reads: AtomicBool::new(true),
            loss,
            faults: Faults::default(),
        })))
    }

    /// Removes the state directory if opening made it: for a start that is refused after all. The volume is not to be used any more.
    pub fn discard_new_state(&self) {
        self.0.new_state.remove();
    }

    /// Where the served directory was when the volume was opened.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Where the volume keeps its own record, and its server may keep more under other names: nobody else uses it meanwhile.
    pub fn state_dir(&self) -> &Path {
        &self.0.state_dir
    }

    /// The file system's number in attributes.
    pub fn fsid(&self) -> u64 {
        self.0.fsid
    }

    /// How files are distinguished and found again.
    pub fn identity(&self) -> Identity {
        self.0.identify.as_identity()
    }

    /// The served directory itself.
    pub fn root(&self) -> Node {
        self.0.root.clone()
    }

    /// The write verifier (RFC 1813 3.3.7): changes exactly when unstable data may have been lost. It stands when a process was
    /// killed and the host runs on, and over a reboot behind [`Volume::close`].
    ///
    /// A server reads it *before* an unstable write and *after* a commit: a loss in between then shows as
    /// two verifiers, and the client sends the data again.
    pub fn verifier(&self) -> [u8; 8] {
        self.0.loss_epoch.verifier()
    }

    /// Times unstable data may have been lost in this volume's life.
    pub fn loss_epoch(&self) -> u64 {
        self.0.loss_epoch.number()
    }

    /// Whether a flush failed: all that promises durability fails until the volume is opened anew.
    pub fn is_poisoned(&self) -> bool {
        self.0.loss_epoch.is_poisoned()
    }

    /// Flushes and durable writes that the host was asked for so far.
    pub fn flushes(&self) -> u64 {
        self.0.counted.flushes.load(Ordering::Relaxed)
    }

    /// How data is kept and promised.
    pub fn options(&self) -> Options {
        self.0.options
    }

    /// Whether objects of other users are to be made: by an unprivileged process only its own.
    pub fn acts_as_root(&self) -> bool {
        self.0.uid == 0
    }

    /// Whether the process has the capabilities for that.
    pub fn may_act_for_others(&self) -> bool {
        sys::may_act_for_others()
    }

    /// What was counted since the volume was opened.
    pub fn counters(&self) -> Counters {
        self.0.counted.load()
    }

    /// Nodes in memory (bounded) and open descriptors (bounded).
    pub fn in_memory(&self) -> (usize, usize) {
        (self.0.nodes.len(), self.0.descriptors.open.load(Ordering::Relaxed))
    }
}

impl VolumeInner {
    /// Fails when a flush failed before.
    pub(crate) fn alive(&self) -> Result<(), Error> {
        self.loss_epoch.check()
    }

    /// A flush failed with `errno`: the kernel may have dropped the data and marked it clean. The epoch
    /// moves, so that clients send again what they hold, and nothing durable is promised any more.
    pub(crate) fn flush_failed(&self, errno: i32) -> Error {
        self.loss_epoch.poison();
        Error::from_errno(errno)
    }
}

/// Carries out changes of files, by this thread, that leave set-id bits as they are, as those of root do. Other writes and cuts
/// clear them, as the host does for users without privilege.
pub fn keeping_set_id<T>(work: impl FnOnce() -> T) -> T {
    sys::keeping_set_id(work)
}

/// The state directory must not be readable by clients: refuse it inside the served one, before it is made.
fn refuse_state_inside(state: &Path, dir: &Path) -> Result<(), OpenError> {
    let absolute = std::path::absolute(state).map_err(|source| OpenError::State { path: state.to_path_buf(), source })?;
    let existing = absolute.ancestors().find_map(|path| path.canonicalize().ok());
    if existing.is_some_and(|path| path.starts_with(dir)) {
        return Err(OpenError::StateInside { state: state.to_path_buf(), dir: dir.to_path_buf() });
    }
    Ok(())
}
