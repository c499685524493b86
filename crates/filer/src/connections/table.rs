//! The open connections. Clients make a connection again that was closed for another.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::admission::{self, Candidate, Full, Newcomer};
use super::connection::Connection;
use crate::limits::LEAVING_WAIT;
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
    /// Nobody is let in.
    shut: bool,
}

struct Entry {
    connection: Arc<Connection>,
    /// A rule names its client.
    known: bool,
}

/// While it lasts, nobody is let in.
pub(crate) struct Shut<'t>(&'t ConnectionTable);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.open().shut = false;
    }
}

impl ConnectionTable {
    /// Connections open now.
    pub(crate) fn count(&self) -> usize {
        self.open().connections.len()
    }

    /// Connections that were begun since the start.
    pub(crate) fn begun(&self) -> u64 {
        self.open().next
    }

    /// Enters a connection under a number; none while nobody is let in. `known`: a rule names its client.
    pub(crate) fn add(&self, connection: &Arc<Connection>, known: bool) -> Option<u64> {
        let mut open = self.open();
        if open.shut {
            return None;
        }
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, Entry { connection: Arc::clone(connection), known });
        tracing::debug!(peer = %connection.peer, connections = open.connections.len(), "connected");
        Some(id)
    }

    /// Takes a connection out that has ended.
    pub(crate) fn remove(&self, id: u64) {
        let removed = self.open().connections.remove(&id);
        self.closed.notify_all();
        drop(removed);
    }

    /// Has connections leave until there is a place for this one.
    ///
    /// # Errors
    /// Which places are all taken by connections that have a right to stay.
    pub(crate) fn admit(&self, newcomer: Newcomer) -> Result<(), Full> {
        self.have_leave(|open| {
            if admission::is_open(open.connections.len(), &newcomer) {
                return Ok(None);
            }
            let all = open.candidates();
            let Some(full) = admission::full_for(&newcomer, &all) else { return Ok(None) };
            admission::leaves_for(&newcomer, full, &all, sys::coarse_seconds()).map(Some).ok_or(full)
        })
        .map_err(|full| full.unwrap_or(Full::Connections))
    }

    /// Has one connection leave that can be spared; false when there is none.
    pub(crate) fn spare_one(&self) -> bool {
        let count = self.count();
        let done = self.have_leave(|open| {
            if open.connections.len() < count {
                return Ok(None);
            }
            admission::choose(&open.candidates(), sys::coarse_seconds()).map(Some).ok_or(Full::Connections)
        });
        done.is_ok() && count > 0
    }

    /// Asks again which clients are known.
    pub(crate) fn judge_anew(&self, knows: &dyn Fn(IpAddr) -> bool) {
        self.open().connections.values_mut().for_each(|entry| entry.known = knows(entry.connection.client()));
    }

    /// Has connections leave, one after the other, until `next` names none.
    ///
    /// # Errors
    /// That of `next`; none when one that had to leave did not in time.
    fn have_leave(&self, next: impl Fn(&Open) -> Result<Option<u64>, Full>) -> Result<(), Option<Full>> {
        let deadline = Instant::now() + LEAVING_WAIT;
        let mut open = self.open();
        while let Some(id) = next(&open)? {
            if let Some(entry) = open.connections.get(&id) {
                tracing::debug!(peer = %entry.connection.peer, "connection closed to make room for another");
                entry.connection.drop_now();
            }
            while open.connections.contains_key(&id) {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(None);
                }
                open = self.wait(open, left);
            }
        }
        Ok(())
    }

    /// Lets nobody in; none when that is so already.
    pub(crate) fn shut(&self) -> Option<Shut<'_>> {
        let mut open = self.open();
        (!std::mem::replace(&mut open.shut, true)).then_some(Shut(self))
    }

    /// Has all connections receive nothing more; what is under way is still answered.
    pub(crate) fn finish_all(&self) {
        self.open().connections.values().for_each(|entry| entry.connection.finish());
    }

    /// Ends all connections now.
    pub(crate) fn drop_all(&self) {
        self.open().connections.values().for_each(|entry| entry.connection.drop_now());
    }

    /// Waits until no connection is open; false when that is not so by the deadline.
    pub(crate) fn wait_until_empty(&self, deadline: Instant) -> bool {
        let mut open = self.open();
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
        self.closed.wait_timeout(open, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn candidates(&self) -> Vec<Candidate> {
        let candidate = |(&id, Entry { connection, known }): (&u64, &Entry)| Candidate {
            id,
            client: connection.client(),
            known: *known,
            active_s: connection.active_s(),
            busy: connection.slow_requests() > 0,
        };
        self.connections.iter().map(candidate).collect()
    }
}
