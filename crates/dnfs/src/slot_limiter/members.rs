//! The processes of a mount, the words that name them as holders, and whether they are alive.

use crate::sys::atomic::AtomicU64;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, OnceLock};

use crate::limits::{KEEPER_MEMBERS, MEMBER_RETRY_MS, MEMBERS_MAX};
use crate::process::this_process;
use crate::segment::layout::{CALLS_OFFSET, SlotTable};
use crate::sys::clock::monotonic_ms;
use crate::sys::liveness_lock::LivenessFile;
use crate::sys::local_file::{CPath, Errno};
use crate::sys::raw::{process_id, thread_number};
use crate::sys::shm::Mapping;

/// Names a process that has no place among the members. Only its leases show whether it runs.
pub(super) const OUTSIDER: u64 = u32::MAX as u64;

/// Prevents the holder of a revoked lease from changing anything at the server.
pub(crate) trait Fence: Send + Sync + core::fmt::Debug {
    /// Sends a call and returns whether the server answers it.
    fn is_answered(&self) -> bool;

    /// Closes the connections that were made under this number. If the server does not support that, waits until their calls
    /// have arrived or never will. False if the server does not answer.
    fn fence(&self, number: u64) -> bool;
}

/// Bits of an owner word: member, incarnation of its lock, thread.
const MEMBER_BITS: u32 = 10;
const INCARNATION_BITS: u32 = 22;
/// Position of the member in an owner word.
pub(super) const MEMBER_SHIFT: u32 = 32 + INCARNATION_BITS;
const _: () = assert!(MEMBERS_MAX == 1 << MEMBER_BITS && MEMBER_BITS + INCARNATION_BITS == 32);

/// The processes of a mount, as one of them sees it.
///
/// A process becomes a member at its first request: it locks a byte of the members' file. A child does not inherit the lock by
/// fork; it becomes a member at its own first request.
#[derive(Debug)]
pub(crate) struct Members {
    memory: Arc<Mapping>,
    table_offset: usize,
    /// The members' file. `None` if no other process sees the table.
    path: Option<CPath>,
    /// Fork generation in the high half; member and incarnation in the low one.
    mine: AtomicU64,
    file: LivenessFile,
    /// Whether this is a keeper, for which places are reserved.
    is_keeper: AtomicBool,
    /// When this process found all places taken, in ms of the monotonic clock; 0: never.
    refused_ms: AtomicU64,
    /// Fences holders of revoked leases; unset if the table serves no server.
    pub(super) fence: OnceLock<Box<dyn Fence>>,
}

/// The word that names the holder of a slot or a lock; never 0.
pub(crate) type Owner = u64;

impl Members {
    /// The members of a segment, whose liveness locks are bytes of this file.
    pub(crate) fn shared(memory: Arc<Mapping>, path: CPath) -> Self {
        // No process has this fork generation, so that the first request takes a lock.
        Self::new(memory, CALLS_OFFSET, Some(path), u64::MAX)
    }

    /// The only member of a table that no other process sees.
    pub(crate) fn alone(memory: Arc<Mapping>) -> Self {
        Self::new(memory, 0, None, u64::from(this_process().identity.generation()) << 32)
    }

    fn new(memory: Arc<Mapping>, table_offset: usize, path: Option<CPath>, mine: u64) -> Self {
        let (is_keeper, refused_ms) = (AtomicBool::new(false), AtomicU64::new(0));
        let (mine, file, fence) = (AtomicU64::new(mine), LivenessFile::new(), OnceLock::new());
        Self { memory, table_offset, path, mine, file, is_keeper, refused_ms, fence }
    }

    /// Lets this process take a place that is reserved for keepers.
    pub(crate) fn join_as_keeper(&self) {
        self.is_keeper.store(true, Relaxed);
    }

    /// The table that the members share.
    pub(crate) fn table(&self) -> &SlotTable {
        // The slice always has one element.
        &self.memory.values::<SlotTable>(self.table_offset, 1)[0]
    }

    /// Identifies the mount within this process. An even number.
    pub(super) fn table_id(&self) -> usize {
        core::ptr::from_ref(self.table()) as usize
    }

    /// Sets how holders of revoked leases are fenced.
    pub(crate) fn fence_by(&self, fence: Box<dyn Fence>) {
        let _ = self.fence.set(fence);
    }

    /// Becomes a member now, so that a failure to get a lock is an error of mounting.
    ///
    /// # Errors
    /// The members' file cannot be opened or locked; `ENOLCK` if all places are taken.
    pub(crate) fn join(&self) -> Result<(), Errno> {
        self.try_owner().map(|_| ())
    }

    /// Prepares the liveness checks for a process that does not become a member.
    ///
    /// # Errors
    /// The members' file cannot be opened.
    pub(crate) fn watch(&self) -> Result<(), Errno> {
        self.path.as_ref().map_or(Ok(()), |path| self.file.open(path).map(|_| ()))
    }

    /// The owner word of the calling thread. `None` if the process can get no liveness lock. Async-signal-safe, does not
    /// allocate.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.try_owner().ok()
    }

    fn try_owner(&self) -> Result<Owner, Errno> {
        let generation = u64::from(this_process().identity.generation());
        let mut mine = self.mine.load(Acquire);
        while mine >> 32 != generation {
            mine = self.claim(mine, generation)?;
        }
        Ok(u64::from(mine as u32) << 32 | u64::from(thread_number()))
    }

    /// Whether the owner's process has died.
    pub(crate) fn has_died(&self, owner: Owner) -> bool {
        let bits = (owner >> 32) as u32;
        if u64::from(bits) == OUTSIDER {
            return false; // unknown here: the owner's lease shows whether it runs
        }
        let mine = self.mine.load(Acquire);
        // After a fork, the copied place belongs to the parent, which may have died.
        let is_ours = bits == mine as u32 && mine >> 32 == u64::from(this_process().identity.generation());
        if is_ours || self.path.is_none() {
            return false;
        }
        // The order matters: if the lock is free now, or another process has taken it, the former holder is dead.
        !self.file.is_taken_elsewhere(bits >> INCARNATION_BITS) || !self.is_incarnation_of(owner)
    }

    /// Whether no other process has taken the place of the owner's process.
    pub(super) fn is_incarnation_of(&self, owner: Owner) -> bool {
        let bits = (owner >> 32) as u32;
        let current = self.table().incarnations.get((bits >> INCARNATION_BITS) as usize);
        current.is_some_and(|current| (current.load(Acquire) ^ bits) & ((1 << INCARNATION_BITS) - 1) == 0)
    }

    /// [`Self::is_gone`] for a process that has just started.
    #[cfg(test)]
    pub(crate) fn is_known_gone(&self, owner: Owner) -> bool {
        self.join().is_ok() && self.is_gone(owner)
    }

    /// Becomes a member. All users of the file in this process share the membership.
    fn claim(&self, before: u64, generation: u64) -> Result<u64, Errno> {
        let Some(path) = &self.path else {
            // The table is a copy of the parent's: its slots belong to threads that do not exist here.
            self.table().slots.iter().for_each(|slot| slot.store(0, Relaxed));
            let made = generation << 32;
            return Ok(self.mine.compare_exchange(before, made, AcqRel, Acquire).map_or_else(|now| now, |_| made));
        };
        let refused_ms = self.refused_ms.load(Relaxed);
        if refused_ms != 0 && monotonic_ms() < refused_ms + MEMBER_RETRY_MS {
            return Err(Errno(libc::ENOLCK));
        }
        let bits = self.file.join(path, |take| {
            let member = self.free_place(take).ok_or_else(|| {
                self.refused_ms.store(monotonic_ms().max(1), Relaxed);
                Errno(libc::ENOLCK)
            })?;
            let taken = self.table().incarnations.get(member as usize).ok_or(Errno(libc::ENOLCK))?;
            let incarnation = taken.fetch_add(1, AcqRel).wrapping_add(1);
            Ok(member << INCARNATION_BITS | incarnation & ((1 << INCARNATION_BITS) - 1))
        })?;
        let made = generation << 32 | u64::from(bits);
        Ok(self.mine.compare_exchange(before, made, AcqRel, Acquire).map_or_else(|now| now, |_| made))
    }

    /// The last places are reserved for keepers; a keeper tries them first.
    fn free_place(&self, take: &dyn Fn(u32) -> bool) -> Option<u32> {
        const OPEN: u32 = (MEMBERS_MAX - KEEPER_MEMBERS) as u32;
        if self.is_keeper.load(Relaxed) {
            return (0..MEMBERS_MAX as u32).rev().find(|place| take(*place));
        }
        let start = process_id();
        (0..OPEN).map(|step| start.wrapping_add(step) % OPEN).find(|place| take(*place))
    }
}
