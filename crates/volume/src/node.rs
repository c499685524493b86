//! Nodes: the state of an object in memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use host::Unpoisoned;

use crate::acl::KeptAcl;
use crate::descriptor::Descriptor;
use crate::group_commit::GroupCommit;
use crate::handle::{Handle, Named};
use crate::in_flight::InFlight;
use crate::limits::UNSTABLE_DRAGGED_BYTES_MAX;
use crate::quota::charged::Charged;
use crate::store::Store;
use crate::sys::KernelHandle;
use crate::times::TimesWanted;
use crate::types::Kind;
use crate::wcc::WccState;
use crate::write_turns::WriteTurns;

/// An object of a volume. Cheap to clone. Keeps no descriptor open by itself.
#[derive(Clone)]
pub struct Node(pub(crate) Arc<NodeInner>);

impl Node {
    /// Kind of the object; it never changes.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Inode number.
    pub fn fileid(&self) -> u64 {
        self.0.fileid
    }

    /// Whether it is the root of its store.
    pub(crate) fn is_root(&self) -> bool {
        self.0.identity == *self.0.store.root_identity()
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.0.identity == other.0.identity
    }
}

impl Eq for Node {}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({:?} {})", self.0.kind, self.0.fileid)
    }
}

/// Where an object was last seen. Used if the host does not open objects by handle.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) parent: Node,
    pub(crate) name: Box<[u8]>,
}

pub(crate) struct NodeInner {
    /// Where the object lives.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) identity: KernelHandle,
    pub(crate) kind: Kind,
    pub(crate) fileid: u64,
    /// Inode number of a directory that it was in. Zero if handles need no hint.
    pub(crate) parent_hint: u64,
    pub(crate) handle: OnceLock<Handle>,
    pub(crate) descriptor: Mutex<Option<Arc<Descriptor>>>,
    pub(crate) place: Mutex<Option<Place>>,
    /// Held during a change of attributes and the check of its guard. Taken before `names`.
    pub(crate) attr_lock: Mutex<()>,
    /// Of a directory. Held exclusively while an object in it is made in several steps, and while access to the object of a name is
    /// checked and the name is then removed. Held shared to look a name up or to add one in a single step. On an exclusive volume, held
    /// exclusively during each change of its names and attributes. Never held during a flush.
    pub(crate) names: RwLock<()>,
    pub(crate) group_commit: GroupCommit,
    /// Direct and buffered writes in flight. Used only if the cache mode has direct writes.
    pub(crate) in_flight: InFlight,
    /// Turns of writes into the page cache; durable ones, which wait for the disk, have separate turns.
    pub(crate) cached_turns: WriteTurns,
    pub(crate) durable_turns: WriteTurns,
    /// Whether replies to stable writes include the times.
    pub(crate) times: TimesWanted,
    pub(crate) acl: KeptAcl,
    /// Made at the first use, on exclusive volumes only.
    wcc: OnceLock<Box<WccState>>,
    /// The size for which the quota has charged the file.
    pub(crate) charged: Charged,
    /// Open as a block device: file operations do not change its content, and its descriptor stays open.
    pub(crate) is_device: AtomicBool,
    /// Used since the last eviction pass.
    pub(crate) used: AtomicBool,
    /// Counts marks: one before and one after each change, so that a flush that began in between does
    /// not count as covering the change.
    changed: AtomicU64,
    /// The mark up to which data and attributes are flushed.
    flushed_whole: AtomicU64,
    /// The mark up to which data is flushed.
    flushed: AtomicU64,
    /// The mark of the last write into the page cache that was not durable by itself.
    cached: AtomicU64,
    /// Bytes written into the page cache since the last flush for whose flush no caller waits. Approximate, because several threads
    /// change it.
    unstable_bytes: AtomicU64,
    /// The volume's loss epoch when this object last lost data that waited for a flush. 0 if this process knows of no such loss.
    lost: AtomicU64,
    /// A flush has succeeded since this node was made. Before that, an earlier process may have left unflushed data.
    flush_seen: AtomicBool,
}

impl NodeInner {
    pub(crate) fn new(store: Arc<dyn Store>, named: Named) -> Self {
        let Named { identity, kind, fileid, parent_hint } = named;
        Self {
            store,
            identity,
            kind,
            fileid,
            parent_hint,
            names: RwLock::new(()),
            handle: OnceLock::new(),
            descriptor: Mutex::new(None),
            place: Mutex::new(None),
            attr_lock: Mutex::new(()),
            group_commit: GroupCommit::default(),
            in_flight: InFlight::default(),
            cached_turns: WriteTurns::default(),
            durable_turns: WriteTurns::default(),
            times: TimesWanted::default(),
            acl: KeptAcl::default(),
            wcc: OnceLock::new(),
            charged: Charged::default(),
            is_device: AtomicBool::new(false),
            used: AtomicBool::new(true),
            changed: AtomicU64::new(0),
            flushed_whole: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            cached: AtomicU64::new(0),
            unstable_bytes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            flush_seen: AtomicBool::new(false),
        }
    }

    /// What its handle says.
    pub(crate) const fn named(&self) -> Named {
        let Self { identity, kind, fileid, parent_hint, .. } = *self;
        Named { identity, kind, fileid, parent_hint }
    }

    pub(crate) fn wcc_state(&self) -> &WccState {
        self.wcc.get_or_init(Box::default)
    }

    /// Called before and after each change that is not durable by itself.
    pub(crate) fn mark_change(&self) {
        self.changed.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn change_mark(&self) -> u64 {
        self.changed.load(Ordering::SeqCst)
    }

    /// Called after a write into the page cache, instead of the second [`Self::mark_change`]. `unstable_bytes`: bytes for whose
    /// flush no caller waits. Returns the mark that a flush must reach.
    pub(crate) fn mark_cached(&self, unstable_bytes: usize) -> u64 {
        let mark = self.changed.fetch_add(1, Ordering::SeqCst) + 1;
        self.cached.fetch_max(mark, Ordering::SeqCst);
        if unstable_bytes > 0 {
            self.unstable_bytes.fetch_add(unstable_bytes as u64, Ordering::Relaxed);
        }
        mark
    }

    /// Notes that all changes up to `mark` are durable. `whole`: attributes too.
    pub(crate) fn mark_flushed(&self, mark: u64, whole: bool) {
        if whole {
            self.flushed_whole.fetch_max(mark, Ordering::SeqCst);
        }
        self.flushed.fetch_max(mark, Ordering::SeqCst);
        self.unstable_bytes.store(0, Ordering::Relaxed);
        self.flush_seen.store(true, Ordering::SeqCst);
    }

    /// Notes that data or names of this object that waited for a flush may be lost, with this loss epoch.
    pub(crate) fn mark_lost(&self, epoch: u64) {
        self.lost.fetch_max(epoch, Ordering::SeqCst);
    }

    /// The loss epoch of the last [`Self::mark_lost`]. 0 without one.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::SeqCst)
    }

    /// Whether changes by this process wait for a flush. The descriptor must stay open then, because it reports the error.
    pub(crate) fn is_dirty(&self) -> bool {
        self.flushed.load(Ordering::SeqCst) < self.change_mark()
    }

    /// Whether a successful flush has covered `mark`. `whole`: attributes too.
    pub(crate) fn is_flushed(&self, mark: u64, whole: bool) -> bool {
        let flushed = if whole { &self.flushed_whole } else { &self.flushed };
        flushed.load(Ordering::SeqCst) >= mark
    }

    /// Whether data that this process has written into the page cache waits for a flush.
    pub(crate) fn has_cached_data(&self) -> bool {
        !self.is_flushed(self.cached.load(Ordering::SeqCst), false)
    }

    /// Whether a flush of the file would write so much unstable data that a durable write should not wait for it.
    pub(crate) fn has_much_unstable_data(&self) -> bool {
        self.unstable_bytes.load(Ordering::Relaxed) > UNSTABLE_DRAGGED_BYTES_MAX
    }

    /// Whether no change waits for a flush, including changes by earlier processes.
    pub(crate) fn is_clean(&self) -> bool {
        self.flush_seen.load(Ordering::SeqCst) && !self.is_dirty()
    }

    /// Whether a block device is open on the file.
    pub(crate) fn is_device(&self) -> bool {
        self.is_device.load(Ordering::SeqCst)
    }

    /// Called when the object is gone, or after a simulated power cut: closes the descriptor, and no change waits for a flush.
    pub(crate) fn forget(&self) {
        *self.descriptor.lock().unpoisoned() = None;
        *self.place.lock().unpoisoned() = None;
        let mark = self.change_mark();
        self.flushed_whole.fetch_max(mark, Ordering::SeqCst);
        self.flushed.fetch_max(mark, Ordering::SeqCst);
        self.flush_seen.store(false, Ordering::SeqCst);
    }
}
