//! Connections that stay open between calls. Their number per mount and host is limited, because servers accept some hundred
//! connections of one client and drop or refuse the rest. Above the limit a connection is closed after its call, so that no
//! caller waits for one whose owner sleeps.

use crate::sys::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use std::sync::Arc;

use super::members::{Members, Owner};
use super::records::KeptTable;
use crate::limits::{KEPT_CONNECTIONS_MAX, KEPT_CONNECTIONS_MIN, KEPT_LOOK_MS, KEPT_LOW_MS};
use crate::process::this_process;
use crate::sys::clock::monotonic_ms;

/// Places for connections that stay open, shared by all processes of a mount.
#[derive(Debug)]
pub(crate) struct KeptConnections {
    members: Arc<Members>,
    /// When this process last searched for places of dead processes.
    looked_ms: AtomicU64,
}

/// A place, released when dropped.
#[derive(Debug)]
pub(crate) struct KeptPlace {
    kept: Arc<KeptConnections>,
    place: usize,
    owner: Owner,
    fork_generation: u32,
}

impl KeptConnections {
    /// The places of the members' mount.
    pub(crate) fn new(members: Arc<Members>) -> Arc<Self> {
        Arc::new(Self { members, looked_ms: AtomicU64::new(0) })
    }

    /// See [`Members::renew_leases`].
    pub(crate) fn renew_leases(&self) {
        self.members.renew_leases();
    }

    /// Takes a place for a connection. `None` if all are taken; the connection must then be closed after its call.
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

    /// Notes that the server closed a new connection without a reply, because the client has too many. Lowers the limit for a
    /// while.
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
        Some(KeptPlace { kept: Arc::clone(self), place, owner, fork_generation: this_process().identity.generation() })
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
        // After a fork, the copied place belongs to the parent.
        if self.fork_generation == this_process().identity.generation() {
            let _ = self.kept.table().places[self.place].compare_exchange(self.owner, 0, AcqRel, Relaxed);
        }
    }
}
