//! The volume: its parts, how it is opened, and what it reports about itself.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crate::acl;
use crate::changes::Changes;
use crate::counters::{Counted, Counters};
use crate::descriptor_budget::DescriptorBudget;
use crate::descriptor_cache::DescriptorCache;
use crate::directory_lock::DirectoryLock;
use crate::error::{Error, OpenError};
use crate::faults::Faults;
use crate::handle::{HandleKey, Named};
use crate::identity::Identity;
use crate::loss::{Loss, LossConfig, LossLock};
use crate::loss_epoch::LossEpoch;
use crate::mount_points::{self, MountPoint, MountPoints};
use crate::mounted::mounted;
use crate::node::{Node, NodeInner};
use crate::node_table::NodeTable;
use crate::options::{CacheMode, Durability, Options};
use crate::quota::account::Quota;
use crate::record::{BootId, Host};
use crate::size_limit::SizeLimit;
use crate::state::{NewDirectories, StateDirectory};
use crate::store::directory::Directory;
use crate::store::{SnapshotId, Store};
use crate::sys;
use crate::times;
use crate::tree_search::TreeSearch;
use crate::types::Kind;

/// The directory to serve, and how to serve it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The served directory. Mount points inside it are not entered.
    pub dir: PathBuf,
    /// The directory of the volume's own record. It is made if it does not exist, and must not be inside `dir`.
    pub state_dir: PathBuf,
    /// The loss layer, for tests. `None` in service.
    pub loss: Option<LossConfig>,
    /// Durability, use of the page cache, and read-ahead.
    pub options: Options,
}

/// A served directory. Cheap to clone; all clones are the same volume.
#[derive(Clone)]
pub struct Volume(pub(crate) Arc<VolumeInner>);

pub(crate) struct VolumeInner {
    /// For the thread of the tree search, which does not keep the volume open.
    pub(crate) me: Weak<Self>,
    /// Keeps other processes from serving the directory.
    pub(crate) _directory_lock: DirectoryLock,
    pub(crate) new_state: NewDirectories,
    /// Where the objects of the live tree live.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) root: Node,
    /// The path of the served directory when it was opened.
    pub(crate) dir: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) uid: u32,
    pub(crate) fsid: u64,
    pub(crate) handle_key: HandleKey,
    is_of_new_directory: bool,
    pub(crate) loss_epoch: LossEpoch,
    /// Set by [`Volume::close_when_unused`].
    pub(crate) closes_when_unused: AtomicBool,
    /// The changes in flight.
    pub(crate) changes: Changes,
    pub(crate) nodes: NodeTable,
    pub(crate) descriptors: Arc<DescriptorCache>,
    pub(crate) tree_search: TreeSearch,
    pub(crate) options: Options,
    pub(crate) counted: Counted,
    /// Whether reading a file's times makes the host write the inode with the next stable write.
    pub(crate) multigrain_times: bool,
    /// Cleared when the host refuses RWF_DONTCACHE.
    pub(crate) uncached_buffered: AtomicBool,
    pub(crate) quota: Quota,
    /// Whether the file system of the served directory has POSIX ACLs.
    pub(crate) has_acls: bool,
    /// Cleared when the host refuses an unnamed file.
    pub(crate) unnamed_files: AtomicBool,
    /// Cleared when the host refuses FALLOC_FL_PUNCH_HOLE.
    pub(crate) punch_hole: AtomicBool,
    /// Cleared when the host refuses FALLOC_FL_ZERO_RANGE.
    pub(crate) zero_range: AtomicBool,
    /// Cleared when the host refuses RWF_NOWAIT, with which a read fails instead of waiting.
    pub(crate) nowait_reads: AtomicBool,
    pub(crate) mount_points: MountPoints,
    pub(crate) size_limit: SizeLimit,
    pub(crate) loss: Option<LossLock>,
    pub(crate) faults: Faults,
    /// The name in the log; see [`Volume::set_name`].
    name: OnceLock<String>,
}

impl Volume {
    /// Opens the served directory and the state directory. Makes the state directory if it does not exist.
    ///
    /// **Durability**: changes by earlier processes are flushed before this returns, so that nothing that a
    /// client reads later can be lost.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let dir_failed = |source| OpenError::Directory { path: config.dir.clone(), source };
        let dir = config.dir.canonicalize().map_err(dir_failed)?;
        refuse_state_inside(&config.state_dir, &dir)?;
        if config.options.durability == Durability::Battery && config.loss.is_some() {
            return Err(OpenError::BatteryLoses);
        }
        let store = Directory::open(&dir, SnapshotId::LIVE)
            .map_err(dir_failed)?
            .ok_or_else(|| OpenError::NoIdentity { path: dir.clone() })?;
        // Before the state directory is made, so that a refused volume leaves no state directory.
        let directory_lock = DirectoryLock::take(&dir)?;
        let state_failed = |source| OpenError::State { path: config.state_dir.clone(), source };
        let new_state = NewDirectories::make(&config.state_dir).map_err(state_failed)?;
        let opened = Self::with_state(&config, dir, Arc::new(store), directory_lock, new_state.clone());
        // With `InUse`, another process has locked the state directory right after it was made, so it is that process's now.
        opened.inspect_err(|error| {
            if !matches!(error, OpenError::InUse { .. }) {
                new_state.remove()
            }
        })
    }

    /// Opens the volume with a state directory that exists.
    fn with_state(
        config: &Config,
        dir: PathBuf,
        store: Arc<dyn Store>,
        directory_lock: DirectoryLock,
        new_state: NewDirectories,
    ) -> Result<Self, OpenError> {
        let dir_failed = |source| OpenError::Directory { path: config.dir.clone(), source };
        let state_failed = |source| OpenError::State { path: config.state_dir.clone(), source };
        let (state, record) = StateDirectory::open(&config.state_dir)?;
        let (root_fd, root_stat) = (store.root(), store.root_stat());
        let (record, is_of_new_directory) = match store.identity() {
            // The inode numbers of an overlay's directories differ between mounts.
            Identity::BirthTimes => (record, false),
            _ => state.of_directory(record, &store.root_identity().to_text()).map_err(state_failed)?,
        };
        let (handle_key, fsid) = (HandleKey::new(&record.key), record.fsid());
        let host = Host { boot: config.options.boot_id.or_else(BootId::of_kernel), mounted: mounted(root_stat) };
        let loss_epoch = LossEpoch::start(state, record, host).map_err(state_failed)?;
        flush_former(root_fd, &dir, &loss_epoch).map_err(dir_failed)?;
        let named = Named { identity: *store.root_identity(), kind: Kind::Directory, fileid: root_stat.ino, parent_hint: 0 };
        let nodes = NodeTable::new();
        let root = nodes.intern(Arc::new(NodeInner::new(Arc::clone(&store), named)));
        let (multigrain_times, has_acls) = (times::multigrain_times(root_fd), acl::has_acls(root_fd));
        let loss = config.loss.map(|loss| Loss::start(loss, root_fd).map(LossLock::new)).transpose().map_err(dir_failed)?;
        Ok(Self(Arc::new_cyclic(|me| VolumeInner {
            me: me.clone(),
            store,
            root,
            dir,
            state_dir: config.state_dir.clone(),
            _directory_lock: directory_lock,
            new_state,
            uid: sys::effective_uid(),
            fsid,
            handle_key,
            is_of_new_directory,
            loss_epoch,
            closes_when_unused: AtomicBool::new(false),
            changes: Changes::default(),
            nodes,
            descriptors: DescriptorCache::new(DescriptorBudget::of_process()),
            tree_search: TreeSearch::default(),
            options: config.options,
            counted: Counted::default(),
            multigrain_times,
            uncached_buffered: AtomicBool::new(matches!(config.options.cache, CacheMode::Direct | CacheMode::DropBehind)),
            quota: Quota::default(),
            has_acls,
            unnamed_files: AtomicBool::new(true),
            punch_hole: AtomicBool::new(true),
            zero_range: AtomicBool::new(true),
            nowait_reads: AtomicBool::new(true),
            mount_points: MountPoints::default(),
            size_limit: SizeLimit::default(),
            loss,
            faults: Faults::default(),
            name: OnceLock::new(),
        })))
    }

    /// Notes the path of this volume below the directory of the volume that it is inside of. **Durability**: on disk when it returns.
    pub fn note_place(&self, below: &Path) -> io::Result<()> {
        mount_points::note_place(&self.0.state_dir, below)
    }

    /// Sets the mount points. From now on [`Volume::lookup`] refuses their names, mounted or not.
    pub fn set_mount_points(&self, points: &[MountPoint]) {
        self.0.mount_points.set(points, self.0.store.root_stat().dev);
    }

    /// Sets the volume's name in the log. Later calls change nothing.
    pub fn set_name(&self, name: &str) {
        let _ = self.0.name.set(name.to_owned());
    }

    /// Removes the state directory if opening made it, after a start was refused. The volume must not be used any more.
    pub fn discard_new_state(&self) {
        self.0.new_state.remove();
    }

    /// The path of the served directory when the volume was opened.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// The directory of the volume's own record. The server can keep its files there under other names, because the directory is
    /// locked for this process.
    pub fn state_dir(&self) -> &Path {
        &self.0.state_dir
    }

    /// The `fsid` in attributes.
    pub fn fsid(&self) -> u64 {
        self.0.fsid
    }

    /// Whether the state directory was used for another served directory before. Then no earlier handle is valid.
    pub fn is_of_new_directory(&self) -> bool {
        self.0.is_of_new_directory
    }

    /// How the volume identifies files and finds them again.
    pub fn identity(&self) -> Identity {
        self.0.store.identity()
    }

    /// The served directory itself.
    pub fn root(&self) -> Node {
        self.0.root.clone()
    }

    /// The write verifier (RFC 1813 3.3.7). It changes exactly when unstable data may have been lost. It stays the same if the process is
    /// killed while the host and the mount of the file system continue, and over a reboot after [`Volume::close`].
    ///
    /// A server must read it *before* an unstable write and *after* a commit. A loss in between then gives
    /// two different verifiers, and the client resends the data.
    pub fn verifier(&self) -> [u8; 8] {
        self.0.loss_epoch.verifier()
    }

    /// How often unstable data of any file may have been lost since the volume exists.
    pub fn loss_epoch(&self) -> u64 {
        self.0.loss_epoch.number()
    }

    /// Whether a flush has failed. Then every operation that promises durability fails until the volume is opened again.
    pub fn is_poisoned(&self) -> bool {
        self.0.loss_epoch.is_poisoned()
    }

    /// Number of flushes and durable writes that the volume has requested from the host.
    pub fn flushes(&self) -> u64 {
        self.0.counted.flushes.load(Ordering::Relaxed)
    }

    /// The options that the volume was opened with.
    pub fn options(&self) -> Options {
        self.0.options
    }

    /// Whether the process runs as root, and so makes objects for other users. An unprivileged one makes only its own.
    pub fn acts_as_root(&self) -> bool {
        self.0.uid == 0
    }

    /// Whether the process has the capabilities to make objects for other users.
    pub fn may_act_for_others(&self) -> bool {
        sys::may_act_for_others()
    }

    /// The counters since the volume was opened.
    pub fn counters(&self) -> Counters {
        self.0.counted.load()
    }

    /// Numbers of nodes in memory and of open descriptors.
    pub fn in_memory(&self) -> (usize, usize) {
        (self.0.nodes.len(), self.0.descriptors.count().get())
    }
}

impl VolumeInner {
    /// Fails with [`Error::Poisoned`] if a flush has failed.
    pub(crate) fn alive(&self) -> Result<(), Error> {
        self.loss_epoch.check()
    }

    /// Handles a flush of this object, or of the whole file system, that failed with `errno`. The kernel may have dropped the data and
    /// marked it clean. Increments the loss epoch, so that clients resend their data. Unless the store was only full, poisons the volume.
    pub(crate) fn flush_failed(&self, node: Option<&Node>, errno: i32) -> Error {
        let reason = std::io::Error::from_raw_os_error(errno);
        if matches!(errno, libc::ENOSPC | libc::EDQUOT) {
            self.lost_data(node, &reason);
        } else {
            let epoch = self.loss_epoch.poison(node.is_none());
            node.inspect(|node| node.0.mark_lost(epoch));
            tracing::error!(
                volume = self.name.get(), dir = %self.dir.display(), epoch, %reason,
                "a flush failed: the volume refuses changes until the filer is restarted; check the disk first"
            );
        }
        Error::from_errno(errno)
    }

    /// Handles a possible loss of unstable data of this object, or of any object: increments the loss epoch. If the epoch cannot be
    /// recorded, poisons the volume.
    pub(crate) fn lost_data(&self, node: Option<&Node>, reason: &std::io::Error) {
        let (epoch, recorded) = self.loss_epoch.advance(node.is_none());
        node.inspect(|node| node.0.mark_lost(epoch));
        let fileid = node.map(Node::fileid);
        tracing::error!(
            volume = self.name.get(), dir = %self.dir.display(), epoch, fileid, %reason,
            "the host could not keep data that was not yet stable: the write verifier changes, and clients resend what they hold"
        );
        if let Err(error) = recorded {
            self.flush_failed(
                node,
                error.raw_os_error().filter(|errno| *errno != libc::ENOSPC && *errno != libc::EDQUOT).unwrap_or(libc::EIO),
            );
        }
    }
}

/// Calls `work`, in which changes of files by this thread keep set-id bits, as changes by root do. Other writes and truncations
/// clear them, as the host does for users without privilege.
pub fn keeping_set_id<T>(work: impl FnOnce() -> T) -> T {
    sys::keeping_set_id(work)
}

/// Flushes what earlier processes left. If the host reports lost data, increments the loss epoch.
fn flush_former(root: BorrowedFd<'_>, dir: &Path, loss_epoch: &LossEpoch) -> std::io::Result<()> {
    let Err(reason) = sys::sync_file_system(root) else { return Ok(()) };
    let (epoch, recorded) = loss_epoch.advance(true);
    tracing::error!(
        dir = %dir.display(), epoch, %reason,
        "the host lost data of an earlier process: the write verifier changes, and clients resend what they hold"
    );
    recorded?;
    // The host reports each failure only once, so this call can succeed.
    sys::sync_file_system(root)
}

/// Refuses a state directory inside the served one, where clients could read it. Called before it is made.
fn refuse_state_inside(state: &Path, dir: &Path) -> Result<(), OpenError> {
    let absolute = std::path::absolute(state).map_err(|source| OpenError::State { path: state.to_path_buf(), source })?;
    let existing = absolute.ancestors().find_map(|path| path.canonicalize().ok());
    if existing.is_some_and(|path| path.starts_with(dir)) {
        return Err(OpenError::StateInside { state: state.to_path_buf(), dir: dir.to_path_buf() });
    }
    Ok(())
}
