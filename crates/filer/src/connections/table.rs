//! The open connections. If the filer closes one to make room for another, its client connects again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use host::Unpoisoned;

use super::admission::{self, Candidate, Counts, Full, Newcomer, Pool};
use super::connection::Connection;
use crate::limits::LEAVING_MAX;
use crate::sys;

/// The open connections.
#[derive(Default)]
pub(crate) struct ConnectionTable {
    open: Mutex<Open>,
    closed: Condvar,
}

#[derive(Default)]
struct Open {
    connections: HashMap<u64, Entry>,
    next: u64,
    /// Number of connections that were closed to make room and have not ended.
    leaving: usize,
    /// No connection is admitted.
    shut: bool,
}

struct Entry {
    connection: Arc<Connection>,
    client: IpAddr,
    pool: Pool,
    /// The connection was closed to make room.
    leaving: bool,
}

/// While this exists, no connection is admitted.
pub(crate) struct Shut<'t>(&'t ConnectionTable);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.open.lock().unpoisoned().shut = false;
    }
}

impl ConnectionTable {
    /// Connections open now.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().unpoisoned().connections.len()
    }

    /// Connections accepted since the start.
    pub(crate) fn begun(&self) -> u64 {
        self.open.lock().unpoisoned().next
    }

    /// Adds a connection and returns its number. `None` while no connection is admitted.
    pub(crate) fn add(&self, connection: &Arc<Connection>, pool: Pool) -> Option<u64> {
        let mut open = self.open.lock().unpoisoned();
        if open.shut {
            return None;
        }
        let id = open.next;
        open.next += 1;
        let entry = Entry { connection: Arc::clone(connection), client: connection.client(), pool, leaving: false };
        open.connections.insert(id, entry);
        tracing::debug!(peer = %connection.peer, connections = open.connections.len(), "connected");
        Some(id)
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&self, id: u64) {
        let mut open = self.open.lock().unpoisoned();
        let removed = open.connections.remove(&id);
        open.leaving -= usize::from(removed.as_ref().is_some_and(|entry| entry.leaving));
        drop(open);
        self.closed.notify_all();
        drop(removed);
    }

    /// Closes another connection if this one has no place otherwise. Does not wait for the other's end.
    ///
    /// # Errors
    /// The limit that is reached, if no open connection may be closed.
    pub(crate) fn admit(&self, newcomer: &Newcomer) -> Result<(), Full> {
        let mut open = self.open.lock().unpoisoned();
        if admission::is_open(open.connections.len(), newcomer) {
            return Ok(());
        }
        let Some(full) = admission::full_for(newcomer, &open.count_for(newcomer)) else { return Ok(()) };
        if open.leaving >= LEAVING_MAX {
            return Err(full);
        }
        let all = open.candidates(|entry| entry.pool == newcomer.pool);
        let id = admission::leaves_for(newcomer, full, &all, sys::coarse_seconds()).ok_or(full)?;
        open.have_leave(id);
        Ok(())
    }

    /// Closes one idle connection. Returns false if no connection is idle.
    pub(crate) fn spare_one(&self) -> bool {
        let mut open = self.open.lock().unpoisoned();
        let chosen = admission::choose(&open.candidates(|_| true), sys::coarse_seconds());
        chosen.is_some_and(|id| open.have_leave(id))
    }

    /// Decides again which NFS clients are known.
    pub(crate) fn update_known(&self, knows: &dyn Fn(IpAddr) -> bool) {
        for entry in self.open.lock().unpoisoned().connections.values().filter(|entry| entry.pool == Pool::Nfs) {
            entry.connection.set_known(knows(entry.client));
        }
    }

    /// Admits no connection while the result exists. `None` if that is the case already.
    pub(crate) fn shut(&self) -> Option<Shut<'_>> {
        let mut open = self.open.lock().unpoisoned();
        (!std::mem::replace(&mut open.shut, true)).then_some(Shut(self))
    }

    /// Makes all connections receive nothing more. Requests in progress are still answered.
    pub(crate) fn finish_all(&self) {
        self.open.lock().unpoisoned().connections.values().for_each(|entry| entry.connection.finish());
    }

    /// Closes all connections at once.
    pub(crate) fn drop_all(&self) {
        self.open.lock().unpoisoned().connections.values().for_each(|entry| entry.connection.drop_now());
    }

    /// Waits until no connection is open. Returns false if one is open at the deadline.
    pub(crate) fn wait_until_empty(&self, deadline: Instant) -> bool {
        let mut open = self.open.lock().unpoisoned();
        while !open.connections.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            open = self.wait(open, left);
        }
        true
    }

    fn wait<'t>(&'t self, open: MutexGuard<'t, Open>, limit: Duration) -> MutexGuard<'t, Open> {
        self.closed.wait_timeout(open, limit).unpoisoned().0
    }
}

impl Open {
    /// Counts the connections of a newcomer's pool.
    fn count_for(&self, newcomer: &Newcomer) -> Counts {
        let mut counts = Counts::default();
        for entry in self.connections.values().filter(|entry| entry.pool == newcomer.pool && !entry.leaving) {
            counts.add(entry.client == newcomer.client, entry.connection.is_known());
        }
        counts
    }

    fn candidates(&self, is_meant: impl Fn(&Entry) -> bool) -> Vec<Candidate> {
        let candidate = |(&id, entry): (&u64, &Entry)| Candidate {
            id,
            client: entry.client,
            known: entry.connection.is_known(),
            active_s: entry.connection.active_s(),
            busy: entry.connection.slow_requests() > 0,
        };
        self.connections.iter().filter(|(_, entry)| !entry.leaving && is_meant(entry)).map(candidate).collect()
    }

    /// Closes a connection to make room. Returns false if that was done already.
    fn have_leave(&mut self, id: u64) -> bool {
        let Some(entry) = self.connections.get_mut(&id).filter(|entry| !entry.leaving) else { return false };
        tracing::debug!(peer = %entry.connection.peer, "connection closed to make room for another");
        entry.leaving = true;
        entry.connection.drop_now();
        self.leaving += 1;
        true
    }
}
