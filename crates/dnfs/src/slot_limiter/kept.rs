//! Connections that stay open between calls: so many for each mount and host, since servers take some hundred of one client and drop or refuse
//! the rest. Beyond them a connection ends with its call, so that nobody waits for one whose owner sleeps.

use core::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::Arc;

use super::members::{Members, Owner};
use crate::limits::{KEPT_CONNECTIONS_MAX, KEPT_CONNECTIONS_MIN, KEPT_LOOK_MS, KEPT_LOW_MS};
use crate::sys::clock::monotonic_ms;
use crate::sys::fork;

/// Places for connections that stay open, of all processes of a mount.
#[derive(Debug)]
pub(crate) struct KeptConnections {
    members: Arc<Members>,
    /// When this process last looked for places of dead ones.
    looked_ms: AtomicU64,
}

/// A place, given back when dropped.
#[derive(Debug)]
pub(crate) struct KeptPlace {
    kept: Arc<KeptConnections>,
    place: usize,
    owner: Owner,
    fork_generation: u32,
}

/// Who has each place, and how many there are for now.
#[repr(C)]
pub(crate) struct KeptTable {
    /// Owner word; 0 when free.
    pub(crate) places: [AtomicU64; KEPT_CONNECTIONS_MAX],
    /// Until when there are only `low` of them, on the monotonic clock.
    pub(crate) low_until_ms: AtomicU64,
    pub(crate) low: AtomicU32,
    pub(crate) reserved: AtomicU32,
}

impl KeptConnections {
    /// Those of the members' mount.
    pub(crate) fn new(members: Arc<Members>) -> Arc<Self> {
        Arc::new(Self { members, looked_ms: AtomicU64::new(0) })
    }

    /// As [`Members::renew_leases`].
    pub(crate) fn renew_leases(&self) {
        self.members.renew_leases();
    }

    /// A place for a connection; none when all are taken: it must end with its call.
    pub(crate) fn take(self: &Arc<Self>) -> Option<KeptPlace> {
        let owner = self.members.owner()?;
        self.take_free(owner).or_else(|| {
            let now = monotonic_ms();
            let looked = self.looked_ms.load(Relaxed);
            if now < looked + KEPT_LOOK_MS || self.looked_ms.compare_exchange(looked, now, AcqRel, Relaxed).is_err() {
                return None;
            }
            self.free_dead();
            self.take_free(owner)
        })
    }

    /// Whether a place may still be used.
    pub(crate) fn allows(&self, place: &KeptPlace) -> bool {
        place.place < self.count()
    }

    /// The server ended a new connection without an answer: it has too many. Fewer stay open for a while.
    pub(crate) fn refused(&self) {
        let table = self.table();
        let used = table.places.iter().filter(|place| place.load(Relaxed) != 0).count();
        let low = (used * 3 / 4).max(KEPT_CONNECTIONS_MIN) as u32;
        table.low.store(low, Relaxed);
        table.low_until_ms.store(monotonic_ms() + KEPT_LOW_MS, SeqCst);
    }

    fn count(&self) -> usize {
        let table = self.table();
        let until = table.low_until_ms.load(Relaxed);
        // The clock is read only after a refusal.
        if until != 0 && monotonic_ms() < until { table.low.load(Relaxed) as usize } else { KEPT_CONNECTIONS_MAX }
    }

    fn take_free(self: &Arc<Self>, owner: Owner) -> Option<KeptPlace> {
        let places = self.table().places.iter().take(self.count());
        let is_taken = |place: &AtomicU64| place.load(Relaxed) == 0 && place.compare_exchange(0, owner, AcqRel, Relaxed).is_ok();
        let place = places.enumerate().find(|(_, place)| is_taken(place))?.0;
        Some(KeptPlace { kept: Arc::clone(self), place, owner, fork_generation: fork::fork_generation() })
    }

    fn free_dead(&self) {
        for place in &self.table().places {
            let owner = place.load(Relaxed);
            if owner != 0 && self.members.is_gone(owner) {
                let _ = place.compare_exchange(owner, 0, AcqRel, Relaxed);
            }
        }
    }

    fn table(&self) -> &KeptTable {
        &self.members.table().kept
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        // In a child of a fork the place is the parent's.
        if self.fork_generation == fork::fork_generation() {
            let _ = self.kept.table().places[self.place].compare_exchange(self.owner, 0, AcqRel, Relaxed);
        }
    }
}
