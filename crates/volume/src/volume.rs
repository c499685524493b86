//! The volume: opening, handles, descriptors, flushes and what happens when one fails.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::descriptors::DescriptorCache;
use crate::error::{Error, OpenError};
use crate::faults::Faults;
use crate::handle::{Handle, HandleKey, Named};
use crate::identity::{self, Identify, Identity};
use crate::loss::{Gate, Guard, Loss};
use crate::node::{Access, Descriptor, Node, NodeInner, NodeTable, locked};
use crate::options::{CacheMode, Counters, Durability, Options, ReadAhead};
use crate::quota::Quota;
use crate::search::Search;
use crate::state::{self, Record, Store};
use crate::sys;
use crate::times;
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

/// How a power cut takes things back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LossConfig {
    /// 0: all that was not promised stable is lost. Else: the seed by which some of it survives.
    pub seed: u64,
}

/// A served directory. Cheap to clone; all clones are the same volume.
#[derive(Clone)]
pub struct Volume(pub(crate) Arc<VolumeInner>);

pub(crate) struct VolumeInner {
    /// For the thread that searches; it does not keep the volume open.
    pub(crate) me: Weak<Self>,
    pub(crate) root_fd: OwnedFd,
    pub(crate) root: Node,
    /// The root as it was opened: its device, mount and inode number never change.
    pub(crate) dir: PathBuf,
    pub(crate) root_stat: sys::RawStat,
    pub(crate) identify: Identify,
    pub(crate) uid: u32,
    pub(crate) fsid: u64,
    handle_key: HandleKey,
    boot_id: Vec<u8>,
    store: Mutex<(Store, Record)>,
    verifier: AtomicU64,
    epoch: AtomicU64,
    poisoned: AtomicBool,
    pub(crate) nodes: NodeTable,
    pub(crate) descriptors: DescriptorCache,
    pub(crate) search: Search,
    pub(crate) options: Options,
    pub(crate) counted: Counted,
    /// A look at a file's times makes its next stable write dearer.
    pub(crate) looking_costs: bool,
    /// Cleared when the host turns out to have no RWF_DONTCACHE.
    pub(crate) drops_behind: AtomicBool,
    pub(crate) quota: Quota,
    /// Cleared when the host turns out to have no unnamed files.
    pub(crate) unnamed_files: AtomicBool,
    /// Cleared when the host turns out not to tell what it would have to wait for.
    pub(crate) tells_cold_reads: AtomicBool,
    pub(crate) loss: Option<Gate>,
    pub(crate) faults: Faults,
}

/// [`Counters`] at work.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) flushes: AtomicU64,
    pub(crate) data_flushes: AtomicU64,
    pub(crate) stable_writes: AtomicU64,
    pub(crate) shared_flushes: AtomicU64,
    pub(crate) direct_writes: AtomicU64,
    pub(crate) direct_reads: AtomicU64,
}

impl Counted {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
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
        let (store, mut record) = Store::open(&config.state_dir)?;
        let state_failed = |source| OpenError::State { path: config.state_dir.clone(), source };
        // Without a boot id nobody knows whether the page cache survived: that is doubt.
        let boot_id = match state::boot_id() {
            Some(id) => id,
            None => {
                record.loss_epoch += 1;
                store.write(&record).map_err(state_failed)?;
                Vec::new()
            }
        };
        sys::sync_file_system(&root_fd).map_err(dir_failed)?;
        let stat = sys::stat(&root_fd).map_err(dir_failed)?;
        let root_identity = identify.of(&root_fd, &stat).map_err(dir_failed)?;
        let root = Arc::new(NodeInner::new(root_identity, Kind::Directory, stat.ino, 0));
        let looking_costs = times::looking_costs(&root_fd);
        let nodes = NodeTable::new();
        let root = nodes.intern(root);
        let loss = config.loss.map(|loss| Loss::start(loss, &root_fd).map(Gate::new)).transpose().map_err(dir_failed)?;
        Ok(Self(Arc::new_cyclic(|me| VolumeInner {
            me: me.clone(),
            root,
            root_stat: stat,
            dir,
            root_fd,
            identify,
            uid: sys::effective_uid(),
            fsid: u64::from_le_bytes(state::verifier(&Record { loss_epoch: 0, ..record.clone() }, b"fsid")),
            handle_key: HandleKey::new(&record.key),
            verifier: AtomicU64::new(u64::from_le_bytes(state::verifier(&record, &boot_id))),
            epoch: AtomicU64::new(record.loss_epoch),
            boot_id,
            store: Mutex::new((store, record)),
            poisoned: AtomicBool::new(false),
            nodes,
            descriptors: DescriptorCache::new(),
            search: Search::default(),
            options: config.options,
            counted: Counted::default(),
            looking_costs,
            drops_behind: AtomicBool::new(config.options.cache != CacheMode::Cached),
            quota: Quota::default(),
            unnamed_files: AtomicBool::new(true),
            tells_cold_reads: AtomicBool::new(true),
            loss,
            faults: Faults::default(),
        })))
    }

    /// Where the served directory was when the volume was opened.
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// The file system's number in attributes.
    pub fn fsid(&self) -> u64 {
        self.0.fsid
    }

    /// How files are told apart and found again.
    pub fn identity(&self) -> Identity {
        self.0.identify.as_identity()
    }

    /// The served directory itself.
    pub fn root(&self) -> Node {
        self.0.root.clone()
    }

    /// The handle of an object: at most 56 bytes, valid over restarts, renames and hard links.
    pub fn handle(&self, node: &Node) -> Handle {
        let inner = &node.0;
        *inner.handle.get_or_init(|| {
            self.0.handle_key.encode(&Named {
                identity: inner.identity,
                kind: inner.kind,
                fileid: inner.fileid,
                parent_hint: inner.parent_hint,
            })
        })
    }

    /// The object of a handle. For one in memory: one MAC and one look into a map.
    ///
    /// **Errors**: [`Error::BadHandle`] for anything this volume did not make, [`Error::Stale`] when the
    /// object is gone, [`Error::Busy`] while it is searched for.
    pub fn resolve(&self, handle: &[u8]) -> Result<Node, Error> {
        let named = self.0.handle_key.decode(handle).ok_or(Error::BadHandle)?;
        if let Some(node) = self.0.nodes.find(&named.identity) {
            node.0.used.store(true, Ordering::Relaxed);
            return Ok(node);
        }
        let _gate = self.0.read_gate();
        self.0.recall(&named)
    }

    /// The byte that all handles of this volume carry (see [`crate::handle_tag`]). Other volumes may have the same.
    pub fn tag(&self) -> u8 {
        self.0.handle_key.tag()
    }

    /// Whether this volume made the handle; what it names may be gone.
    pub fn made(&self, handle: &[u8]) -> bool {
        self.0.handle_key.made(handle)
    }

    /// The write verifier (RFC 1813 3.3.7): changes exactly when unstable data may have been lost.
    ///
    /// A server reads it *before* an unstable write and *after* a commit: a loss in between then shows as
    /// two verifiers, and the client sends the data again.
    pub fn verifier(&self) -> [u8; 8] {
        self.0.verifier.load(Ordering::SeqCst).to_le_bytes()
    }

    /// Times unstable data may have been lost in this volume's life.
    pub fn loss_epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::SeqCst)
    }

    /// Whether a flush failed: all that promises durability fails until the volume is opened anew.
    pub fn is_poisoned(&self) -> bool {
        self.0.poisoned.load(Ordering::SeqCst)
    }

    /// Flushes and durable writes asked of the host so far.
    pub fn flushes(&self) -> u64 {
        self.0.counted.flushes.load(Ordering::Relaxed)
    }

    /// How data is kept and promised.
    pub fn options(&self) -> Options {
        self.0.options
    }

    /// What was counted since the volume was opened.
    pub fn counters(&self) -> Counters {
        let counted = &self.0.counted;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            flushes: load(&counted.flushes),
            data_flushes: load(&counted.data_flushes),
            stable_writes: load(&counted.stable_writes),
            shared_flushes: load(&counted.shared_flushes),
            direct_writes: load(&counted.direct_writes),
            direct_reads: load(&counted.direct_reads),
        }
    }

    /// Nodes in memory (bounded) and open descriptors (bounded).
    pub fn in_memory(&self) -> (usize, usize) {
        (self.0.nodes.len(), self.0.descriptors.open.load(Ordering::Relaxed))
    }

    /// Makes everything of the volume durable. The host flushes its whole file system.
    pub fn flush_all(&self) -> Result<(), Error> {
        self.0.alive()?;
        let mut gate = self.0.write_gate();
        self.0.flush_file_system()?;
        if let Some(loss) = &mut gate {
            loss.all_flushed();
        }
        Ok(())
    }
}

impl VolumeInner {
    /// Fails when a flush failed before. Nobody hears of that before it is on record: a process killed in between would
    /// come back with the old verifier.
    pub(crate) fn alive(&self) -> Result<(), Error> {
        if self.poisoned.load(Ordering::SeqCst) {
            drop(locked(&self.store));
            return Err(Error::Poisoned);
        }
        Ok(())
    }

    /// A flush failed with `errno`: the kernel may have dropped the data and marked it clean. The epoch
    /// moves, so that clients send again what they hold, and nothing durable is promised any more.
    pub(crate) fn flush_failed(&self, errno: i32) -> Error {
        let mut store = locked(&self.store);
        self.poisoned.store(true, Ordering::SeqCst);
        // When even the record can't be written, the verifier has moved in memory and all promises fail.
        let _ = self.record_loss(&mut store);
        Error::from_errno(errno)
    }

    /// Moves the loss epoch and with it the verifier. **Durability**: on disk when it returns `Ok`; in
    /// memory it has moved in any case.
    pub(crate) fn move_epoch(&self) -> io::Result<()> {
        self.record_loss(&mut locked(&self.store))
    }

    fn record_loss(&self, (store, record): &mut (Store, Record)) -> io::Result<()> {
        record.loss_epoch += 1;
        self.epoch.store(record.loss_epoch, Ordering::SeqCst);
        self.verifier.store(u64::from_le_bytes(state::verifier(record, &self.boot_id)), Ordering::SeqCst);
        store.write_loss(record)
    }

    /// The node's descriptor, opened when it has none.
    pub(crate) fn descriptor(&self, node: &Node) -> Result<Arc<Descriptor>, Error> {
        let inner = &node.0;
        if let Some(descriptor) = &*locked(&inner.descriptor) {
            inner.used.store(true, Ordering::Relaxed);
            return Ok(descriptor.clone());
        }
        self.make_room(DescriptorCache::make_room)?;
        let (fd, access) = match self.open_node(node) {
            Err(Error::Io(libc::EMFILE | libc::ENFILE)) => {
                self.make_room(DescriptorCache::give_back)?;
                self.open_node(node)?
            }
            other => other?,
        };
        Ok(self.keep(node, fd, access))
    }

    fn make_room(&self, evict: impl Fn(&DescriptorCache) -> Option<Arc<NodeInner>>) -> Result<(), Error> {
        match evict(&self.descriptors) {
            None => Ok(()),
            Some(dirty) => {
                self.flush_node(&Node(dirty), false)?;
                evict(&self.descriptors);
                Ok(())
            }
        }
    }

    /// Gives the node a descriptor, unless another caller was faster.
    pub(crate) fn keep(&self, node: &Node, fd: OwnedFd, access: Access) -> Arc<Descriptor> {
        let inner = &node.0;
        let mut slot = locked(&inner.descriptor);
        inner.used.store(true, Ordering::Relaxed);
        if let Some(descriptor) = &*slot {
            return descriptor.clone();
        }
        if self.options.read_ahead == ReadAhead::Minimal && inner.kind == Kind::File {
            // Advice: a store that takes none reads as it likes, and the data are the same.
            let _ = sys::read_nothing_ahead(&fd);
        }
        let descriptor = Arc::new(Descriptor::new(fd, access, &self.descriptors.open));
        *slot = Some(descriptor.clone());
        drop(slot);
        self.descriptors.opened(inner);
        descriptor
    }

    /// Flushes an object that holds changes, together with all who ask at the same time; true if this caller made the
    /// flush. `whole`: attributes too. The loss layer is not told: see `flush`.
    pub(crate) fn flush_node(&self, node: &Node, whole: bool) -> Result<bool, Error> {
        self.alive()?;
        if self.options.durability == Durability::Battery {
            // The host has promised it already.
            node.0.mark_flushed(node.0.change_mark(), whole);
            return Ok(false);
        }
        let descriptor = self.descriptor(node)?;
        let mut made = false;
        let result = node.0.turns.flush(whole, |whole| {
            made = true;
            let mark = node.0.change_mark();
            Counted::add(&self.counted.flushes);
            let flushed = self.flush_fault(Some(node.0.fileid)).and_then(|()| match (descriptor.access, whole) {
                // An O_PATH descriptor can't be flushed by itself.
                (Access::Path, _) => sys::sync_file_system(&self.root_fd),
                (_, true) => sys::fsync(&*descriptor),
                (_, false) => sys::fdatasync(&*descriptor),
            });
            if let Err(error) = &flushed {
                self.flush_failed(error.raw_os_error().unwrap_or(libc::EIO));
            }
            // The kernel tells of lost pages once: this flush may have ended well because the one before it did not.
            let flushed = flushed.and_then(|()| self.alive().map_err(|_| io::Error::from_raw_os_error(libc::EIO)));
            if flushed.is_ok() {
                node.0.mark_flushed(mark, whole);
            }
            flushed
        });
        if !made {
            Counted::add(&self.counted.shared_flushes);
        }
        result.map(|()| made).map_err(Error::from_errno)
    }

    /// Makes the object's changes durable; `whole`: attributes (of a directory: entries) too.
    pub(crate) fn flush(&self, node: &Node, whole: bool, loss: &mut Option<Guard<'_>>) -> Result<(), Error> {
        if loss.as_ref().is_some_and(|loss| loss.answers_early()) {
            return Ok(());
        }
        self.flush_now(node, whole, loss).map(drop)
    }

    /// The same, also when a test lets operations answer early; true if this caller made the flush.
    pub(crate) fn flush_now(&self, node: &Node, whole: bool, loss: &mut Option<Guard<'_>>) -> Result<bool, Error> {
        let made = self.flush_node(node, whole)?;
        if let Some(loss) = loss {
            loss.flushed(&node.0.identity, whole);
        }
        Ok(made)
    }

    /// Makes everything durable.
    pub(crate) fn flush_file_system(&self) -> Result<(), Error> {
        let mut marks = Vec::new();
        self.nodes.for_each(|node| {
            if node.is_dirty() {
                marks.push((node.clone(), node.change_mark()));
            }
        });
        Counted::add(&self.counted.flushes);
        let flushed = self.flush_fault(None).and_then(|()| sys::sync_file_system(&self.root_fd));
        flushed.map_err(|error| self.flush_failed(error.raw_os_error().unwrap_or(libc::EIO)))?;
        for (node, mark) in marks {
            // syncfs may not report a file's own write-back error; its own flush does, and is cheap now.
            self.flush_node(&Node(node.clone()), true)?;
            node.mark_flushed(mark, true);
        }
        Ok(())
    }

    /// The node of a handle that is not in memory, opened to see that it still exists.
    fn recall(&self, named: &Named) -> Result<Node, Error> {
        let Named { identity, kind, fileid, parent_hint } = *named;
        if self.identify == Identify::Walk || self.identify == Identify::Birth {
            return self.find_by_walk(named);
        }
        let fresh = Node(Arc::new(NodeInner::new(identity, kind, fileid, parent_hint)));
        self.make_room(DescriptorCache::make_room)?;
        let (fd, access) = self.open_node(&fresh)?;
        let node = self.nodes.intern(fresh.0);
        self.keep(&node, fd, access);
        Ok(node)
    }

    /// Opens the object, by its identity or at its place, for as much as the host allows.
    fn open_node(&self, node: &Node) -> Result<(OwnedFd, Access), Error> {
        identity::open_as_allowed(node.0.kind, |flags| {
            if *node == self.root {
                return sys::open_at(&self.root_fd, b".", flags, 0).map_err(Error::from);
            }
            match self.identify {
                Identify::Kernel { .. } => {
                    sys::open_handle(&self.root_fd, &node.0.identity, flags).map_err(|error| match error.raw_os_error() {
                        Some(libc::ENOENT) => Error::Stale,
                        _ => Error::from(error),
                    })
                }
                Identify::Walk | Identify::Birth => self.open_at_place(node, flags),
            }
        })
    }

    /// A directory's descriptor; anything else is refused.
    pub(crate) fn directory(&self, node: &Node) -> Result<Arc<Descriptor>, Error> {
        if node.kind() != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        self.descriptor(node)
    }

    /// Held by operations that change nothing; `None` without the loss layer.
    pub(crate) fn read_gate(&self) -> Option<impl Drop + '_> {
        self.loss.as_ref().map(Gate::read)
    }

    /// Held by operations that change something; `None` without the loss layer.
    pub(crate) fn write_gate(&self) -> Option<Guard<'_>> {
        self.loss.as_ref().map(Gate::write)
    }
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
