//! The open connections: who is let in, and who has to leave when all places are taken.
//!
//! A connection costs its peer nothing, so places must not go to whoever came first: those that never brought a request leave
//! first, the oldest of them; then, of the client with the most connections, the one that was idle for longest. Clients make a
//! connection again that was closed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Connection;
use crate::limits::{IDLE_SPARED_S, LEAVING_WAIT};
use crate::sys;

/// The open connections.
#[derive(Default)]
pub(crate) struct ConnectionTable {
    open: Mutex<Open>,
    closed: Condvar,
}

#[derive(Default)]
struct Open {
    connections: HashMap<u64, Arc<Connection>>,
    next: u64,
    /// Nobody is let in.
    shut: bool,
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

    /// Enters a connection under a number; none while nobody is let in.
    pub(crate) fn add(&self, connection: &Arc<Connection>) -> Option<u64> {
        let mut open = self.open();
        if open.shut {
            return None;
        }
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, Arc::clone(connection));
        tracing::debug!(peer = %connection.peer, connections = open.connections.len(), "connected");
        Some(id)
    }

    /// Takes a connection out that has ended.
    pub(crate) fn remove(&self, id: u64) {
        let removed = self.open().connections.remove(&id);
        self.closed.notify_all();
        drop(removed);
    }

    /// Has connections leave until there are fewer than `limit`; false when all have a right to stay.
    pub(crate) fn make_place(&self, limit: usize) -> bool {
        let deadline = Instant::now() + LEAVING_WAIT;
        let mut open = self.open();
        while open.connections.len() >= limit {
            let Some(leaving) = open.one_to_leave(sys::coarse_seconds()) else { return false };
            tracing::debug!(peer = %leaving.peer, "connection closed to make room for another");
            leaving.drop_now();
            drop(leaving);
            let before = open.connections.len();
            while open.connections.len() >= before {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                open = self.wait(open, left);
            }
        }
        true
    }

    /// Lets nobody in; none when that is so already.
    pub(crate) fn shut(&self) -> Option<Shut<'_>> {
        let mut open = self.open();
        (!std::mem::replace(&mut open.shut, true)).then_some(Shut(self))
    }

    /// Has all connections receive nothing more; what is under way is still answered.
    pub(crate) fn finish_all(&self) {
        self.open().connections.values().for_each(|connection| connection.finish());
    }

    /// Ends all connections now.
    pub(crate) fn drop_all(&self) {
        self.open().connections.values().for_each(|connection| connection.drop_now());
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
    /// The connection that has to leave for a new one; none when all are in use.
    fn one_to_leave(&self, now_s: u32) -> Option<Arc<Connection>> {
        let candidates = self.connections.iter().map(|(&id, connection)| Candidate {
            id,
            client: connection.client(),
            active_s: connection.active_s(),
            busy: connection.slow_requests() > 0,
        });
        let candidates: Vec<Candidate> = candidates.collect();
        choose(&candidates, now_s).and_then(|id| self.connections.get(&id).cloned())
    }
}

/// What is looked at of a connection.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: u64,
    client: IpAddr,
    /// Second of the last request; 0 when there was none.
    active_s: u32,
    /// Requests of it are with workers.
    busy: bool,
}

fn choose(candidates: &[Candidate], now_s: u32) -> Option<u64> {
    let never_called = candidates.iter().filter(|candidate| candidate.active_s == 0).min_by_key(|candidate| candidate.id);
    if let Some(candidate) = never_called {
        return Some(candidate.id);
    }
    let mut counts: HashMap<IpAddr, u32> = HashMap::new();
    candidates.iter().for_each(|candidate| *counts.entry(candidate.client).or_default() += 1);
    let most = *counts.values().max()?;
    candidates
        .iter()
        .filter(|candidate| counts.get(&candidate.client) == Some(&most) && !candidate.busy)
        .filter(|candidate| now_s.saturating_sub(candidate.active_s) >= IDLE_SPARED_S)
        .min_by_key(|candidate| (candidate.active_s, candidate.id))
        .map(|candidate| candidate.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: u64, client: u8, active_s: u32) -> Candidate {
        Candidate { id, client: IpAddr::from([10, 0, 0, client]), active_s, busy: false }
    }

    #[test]
    fn those_that_never_called_leave_first_the_oldest_of_them_before_the_others() {
        let all = [candidate(1, 1, 5), candidate(7, 2, 0), candidate(4, 1, 0), candidate(9, 3, 0)];
        assert_eq!(choose(&all, 1000), Some(4));
        assert_eq!(choose(&[], 1000), None);
    }

    #[test]
    fn then_the_longest_idle_of_whoever_has_most() {
        let all = [candidate(1, 1, 5), candidate(2, 2, 900), candidate(3, 2, 800), candidate(4, 2, 850)];
        assert_eq!(choose(&all, 1000), Some(3), "not the only one of the other client, though it is idle for longer");
        let busy = all.map(|candidate| Candidate { busy: candidate.id == 3, ..candidate });
        assert_eq!(choose(&busy, 1000), Some(4));
    }

    #[test]
    fn nobody_leaves_who_called_a_moment_ago() {
        let all = [candidate(1, 1, 995), candidate(2, 1, 1000)];
        assert_eq!(choose(&all, 1000), None);
        assert_eq!(choose(&all, 995 + IDLE_SPARED_S), Some(1));
    }
}
