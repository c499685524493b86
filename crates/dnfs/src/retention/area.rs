//! The file `retained`: creates it, maps it, allocates its memory.

use crate::sys::atomic::{AtomicU32, AtomicU64};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::Arc;

use super::PIECE_BYTES_MAX;
use super::block_locks::BlockLocks;
use super::layout::{
    AreaHeader, BLOCK_LOCK_COUNT, CHUNK_BYTES, LAYOUT_VERSION, LOCKS_OFFSET, MAGIC, RECORDS_OFFSET, RUN_COUNT, RUNS_OFFSET,
    Record, Run, data_offset,
};
use crate::limits::RETAIN_BYTES_MIN;
use crate::process::this_process;
use crate::rpc::events::Event;
use crate::segment::runtime_dir::{FILE_MODE, RuntimeDir};
use crate::slot_limiter::{Lease, LeaseLock, Members, Strength};
use crate::sys::local_file::{CPath, Errno, allocate, free_bytes, open, rename, stat, truncate, unlink};
use crate::sys::shm::{LateMapping, Mapping};

/// Chunks that get memory first. Each later step doubles their number.
const FIRST_CHUNKS: u32 = 128;

/// The retained data of a mount, as one process sees it.
#[derive(Debug)]
pub(crate) struct Retention {
    memory: LateMapping,
    path: CPath,
    /// The file's name until it is complete.
    fresh_path: CPath,
    pub(super) members: Arc<Members>,
    /// The consecutive chunks that this process uses, until it finds one in use: the first one, and the next. After a COMMIT
    /// the process begins again with the first, whose memory is still in the processor's cache.
    pub(super) run_first: AtomicU32,
    pub(super) run_next: AtomicU32,
}

impl Retention {
    /// The retained data of the mount in this directory. `instance` is the segment's: the data belong to its slots only.
    pub(crate) fn new(directory: &RuntimeDir, instance: u64, members: Arc<Members>) -> Self {
        Self {
            memory: LateMapping::default(),
            path: directory.retained_path(instance),
            fresh_path: directory.new_retained_path(),
            members,
            run_first: AtomicU32::new(0),
            run_next: AtomicU32::new(0),
        }
    }

    /// Whether the file is mapped here.
    pub(crate) fn is_mapped(&self) -> bool {
        self.memory.length() != 0
    }

    /// Maps the file if another process has created it.
    ///
    /// # Errors
    /// The file cannot be opened or mapped.
    pub(crate) fn map_if_there(&self) -> Result<bool, Errno> {
        if let Some(mapping) = self.attach()? {
            self.memory.install(mapping);
        }
        Ok(self.is_mapped())
    }

    /// Maps the file; creates it, of at most `retain_bytes`, if there is no file. False if nothing is retained. If the file
    /// could get no memory, no process of the mount retains anything from then on.
    ///
    /// # Errors
    /// This process cannot create or map the file, or cannot get the lock.
    pub(crate) fn map(&self, retain_bytes: &AtomicU64) -> Result<bool, Errno> {
        if self.map_if_there()? {
            return Ok(true);
        }
        let lock = self.lock().ok_or(Errno(libc::ENOLCK))?;
        if self.map_if_there()? {
            return Ok(true);
        }
        match self.create(&lock, retain_bytes.load(Acquire)) {
            Ok(mapping) => self.memory.install(mapping),
            // This process has a limit (RLIMIT_FSIZE or RLIMIT_AS); another process can create the file.
            Err(errno @ Errno(libc::EFBIG | libc::ENOMEM)) => return Err(errno),
            Err(Errno(libc::EINTR)) => return self.map_if_there(),
            Err(_) => {
                retain_bytes.store(0, Release);
                this_process().reports.report(Event::NothingKept);
            }
        }
        Ok(self.is_mapped())
    }

    /// Owner word of the calling thread. `None` if the process can get no liveness lock.
    pub(crate) fn owner(&self) -> Option<crate::slot_limiter::Owner> {
        self.members.owner()
    }

    /// A lease for locks whose holder may write to the server. `None` if the process can get no liveness lock.
    pub(crate) fn lease(&self) -> Option<Lease<'_>> {
        self.owner()?;
        self.members.lease(Strength::Strong)
    }

    /// The processes of the mount.
    pub(crate) const fn members(&self) -> &Arc<Members> {
        &self.members
    }

    pub(crate) fn header(&self) -> &AreaHeader {
        // The slice always has one element.
        &self.memory.values::<AreaHeader>(0, 1)[0]
    }

    pub(crate) fn locks(&self) -> BlockLocks<'_> {
        let words = self.memory.values(LOCKS_OFFSET, BLOCK_LOCK_COUNT);
        BlockLocks { words, header: self.header(), members: &self.members }
    }

    /// All runs, including free ones.
    pub(crate) fn runs(&self) -> &[Run] {
        self.memory.values(RUNS_OFFSET, RUN_COUNT)
    }

    /// The records whose chunks have memory.
    pub(crate) fn records(&self) -> &[Record] {
        let count = self.header().chunk_count.load(Acquire).min(self.header().chunk_max.load(Relaxed));
        self.memory.values(RECORDS_OFFSET, count as usize)
    }

    /// Stores data in a chunk, from its byte `at` on.
    pub(super) fn store(&self, chunk: usize, at: usize, from: &[u8]) {
        self.memory.copy_in(self.data_at(chunk) + at, from);
    }

    /// Copies the data of a chunk, from its start.
    pub(crate) fn load(&self, chunk: usize, to: &mut [u8]) {
        self.memory.copy_out(self.data_at(chunk), to);
    }

    fn data_at(&self, chunk: usize) -> usize {
        data_offset(self.header().chunk_max.load(Relaxed) as usize) + chunk * CHUNK_BYTES
    }

    /// Allocates the first chunks if there are no chunks with memory.
    pub(crate) fn reserve(&self) {
        if self.records().is_empty() {
            self.grow();
        }
    }

    /// Doubles the number of chunks with memory. False if there is no more memory.
    pub(super) fn grow(&self) -> bool {
        let header = self.header();
        if header.is_full.load(Relaxed) != 0 {
            return false;
        }
        let Some(_lock) = self.lock() else { return false };
        let (count, most) = (header.chunk_count.load(Acquire), header.chunk_max.load(Relaxed));
        let more = count.max(FIRST_CHUNKS).min(most.saturating_sub(count));
        let given = more > 0
            && open(&self.path, libc::O_RDWR, 0)
                .and_then(|file| allocate(&file, self.data_at(count as usize) as u64, u64::from(more) * CHUNK_BYTES as u64))
                .is_ok();
        if given {
            header.chunk_count.fetch_max(count + more, AcqRel);
        }
        if !given || count + more == most {
            header.is_full.store(1, Relaxed);
        }
        given
    }

    fn attach(&self) -> Result<Option<Mapping>, Errno> {
        let file = match open(&self.path, libc::O_RDWR, 0) {
            Err(Errno(libc::ENOENT)) => return Ok(None),
            other => other?,
        };
        let length = stat(&file)?.size as usize;
        if length < RECORDS_OFFSET {
            return Err(Errno(libc::EINVAL));
        }
        let mapping = Mapping::new(&file, length)?;
        let header = &mapping.values::<AreaHeader>(0, 1)[0];
        let chunk_max = header.chunk_max.load(Relaxed) as usize;
        let known = header.magic.load(Acquire) == MAGIC
            && header.layout_version.load(Relaxed) == LAYOUT_VERSION
            && length == data_offset(chunk_max) + chunk_max * CHUNK_BYTES;
        if known { Ok(Some(mapping)) } else { Err(Errno(libc::EINVAL)) }
    }

    /// Creates the file. It appears under its name complete or not at all.
    fn create(&self, lock: &LeaseLock<'_>, bytes_max: u64) -> Result<Mapping, Errno> {
        match unlink(&self.fresh_path) {
            Ok(()) | Err(Errno(libc::ENOENT)) => {}
            Err(errno) => return Err(errno),
        }
        let file = open(&self.fresh_path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, FILE_MODE)?;
        let free = free_bytes(&file)?;
        // The area takes at most a quarter of the free space. The minimum may take half of it, since with less nothing
        // would be kept.
        let bytes = bytes_max.min((free / 4).max(RETAIN_BYTES_MIN.min(free / 2)));
        if bytes < RETAIN_BYTES_MIN {
            return Err(Errno(libc::ENOSPC));
        }
        let chunk_max = (bytes / CHUNK_BYTES as u64) as usize;
        let length = data_offset(chunk_max) + chunk_max * CHUNK_BYTES;
        truncate(&file, length as u64)?;
        let full = |errno| if errno == Errno(libc::ENOMEM) { Errno(libc::ENOSPC) } else { errno };
        allocate(&file, 0, data_offset(chunk_max) as u64).map_err(full)?;
        let mapping = Mapping::new(&file, length)?;
        let header = &mapping.values::<AreaHeader>(0, 1)[0];
        header.layout_version.store(LAYOUT_VERSION, Relaxed);
        header.chunk_max.store(chunk_max as u32, Relaxed);
        header.magic.store(MAGIC, Release);
        if !lock.is_held() {
            return Err(Errno(libc::EINTR)); // this process was stopped, and another created the file
        }
        rename(&self.fresh_path, &self.path)?;
        Ok(mapping)
    }

    /// Waits for the lock for creating and extending the file.
    fn lock(&self) -> Option<LeaseLock<'_>> {
        let table = self.members.table();
        self.members.lock(&table.area_lock, &table.area_unlocked, Strength::Weak).held()
    }

    /// Called after a COMMIT: the chunks that this process used last may be free.
    pub(crate) fn begin_run_again(&self) {
        self.run_next.store(self.run_first.load(Relaxed), Relaxed);
    }

    /// Bytes of a write that are kept and sent at once: a quarter of the area at most, so that one write never needs all of it.
    pub(crate) fn piece_bytes(&self) -> usize {
        (self.header().chunk_max.load(Relaxed) as usize / 4 * CHUNK_BYTES).min(PIECE_BYTES_MAX)
    }

    /// Draws order numbers. The caller holds the block locks.
    pub(super) fn next_order(&self, count: u64) -> u64 {
        self.header().order.fetch_add(count, AcqRel) + 1
    }
}
