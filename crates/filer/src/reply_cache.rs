//! Replies of calls that may not be carried out twice.
//!
//! A client that lost its connection sends a call again with the same xid, perhaps from another port. The reply of the
//! first time is stored under client address, xid and a checksum of the whole call, and replayed: REMOVE then answers
//! OK both times instead of NOENT the second time. A repeat that comes while the first is still running waits for it.
//! Kept in memory: a restart of the filer forgets it.

use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nfs_proto::rpc::Xid;
use siphasher::sip::SipHasher13;

use crate::limits::{REPEAT_WAIT, REPLIES_KEPT, REPLY_AGE_MAX, REPLY_KEPT_BYTES_MAX};

/// What tells one call from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallKey {
    client: IpAddr,
    xid: Xid,
    checksum: u64,
}

impl CallKey {
    /// The key of a call whose whole record is `record`.
    pub(crate) fn new(client: IpAddr, xid: Xid, record: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(record);
        Self { client, xid, checksum: hasher.finish() }
    }
}

enum Entry {
    Running,
    Done(Arc<[u8]>, Instant),
}

/// What is to be done with a call.
pub(crate) enum Turn<'a> {
    /// Nobody has seen it: carry it out, then [`Running::done`].
    First(Running<'a>),
    /// It was carried out: send this reply record again.
    Repeat(Arc<[u8]>),
    /// The first one is still running after a long wait: send nothing, the client will ask again.
    Drop,
}

/// The stored replies.
#[derive(Default)]
pub(crate) struct ReplyCache {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    entries: HashMap<CallKey, Entry>,
    done: VecDeque<CallKey>, // oldest first, at most REPLIES_KEPT
}

impl ReplyCache {
    /// Claims a call, or finds its reply; waits while the same call is running.
    pub(crate) fn claim(&self, key: CallKey) -> Turn<'_> {
        self.claim_at(key, Instant::now())
    }

    fn claim_at(&self, key: CallKey, now: Instant) -> Turn<'_> {
        let deadline = now + REPEAT_WAIT;
        let mut state = self.lock();
        loop {
            match state.entries.get(&key) {
                Some(Entry::Done(reply, at)) if now.saturating_duration_since(*at) < REPLY_AGE_MAX => {
                    return Turn::Repeat(Arc::clone(reply));
                }
                None | Some(Entry::Done(..)) => {
                    state.entries.insert(key, Entry::Running);
                    return Turn::First(Running { cache: self, key });
                }
                Some(Entry::Running) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Turn::Drop;
                    }
                    state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Forgets all stored replies, as a reboot would.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state.done.clear();
        state.entries.retain(|_, entry| matches!(entry, Entry::Running));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim on a call; dropped without [`Running::done`] it leaves no trace, so that a repeat is carried out.
pub(crate) struct Running<'a> {
    cache: &'a ReplyCache,
    key: CallKey,
}

impl Running<'_> {
    /// Stores the reply record.
    pub(crate) fn done(self, reply: &[u8]) {
        if reply.len() > REPLY_KEPT_BYTES_MAX {
            return;
        }
        let mut state = self.cache.lock();
        if state.done.len() == REPLIES_KEPT
            && let Some(oldest) = state.done.pop_front()
        {
            state.entries.remove(&oldest);
        }
        state.entries.insert(self.key, Entry::Done(reply.into(), Instant::now()));
        state.done.push_back(self.key);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        if matches!(state.entries.get(&self.key), Some(Entry::Running)) {
            state.entries.remove(&self.key);
        }
        drop(state);
        self.cache.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn key(number: u32) -> CallKey {
        CallKey::new(Ipv4Addr::LOCALHOST.into(), Xid(number), b"call")
    }

    fn first(cache: &ReplyCache, key: CallKey) -> Running<'_> {
        match cache.claim(key) {
            Turn::First(running) => running,
            Turn::Repeat(_) | Turn::Drop => panic!("claimed before"),
        }
    }

    #[test]
    fn a_repeat_gets_the_stored_reply() {
        let cache = ReplyCache::default();
        first(&cache, key(1)).done(b"reply");
        let Turn::Repeat(reply) = cache.claim(key(1)) else { panic!("forgotten") };
        assert_eq!(&*reply, b"reply");
    }

    #[test]
    fn another_body_or_client_under_the_same_xid_is_another_call() {
        let cache = ReplyCache::default();
        first(&cache, key(1)).done(b"reply");
        drop(first(&cache, CallKey::new(Ipv4Addr::LOCALHOST.into(), Xid(1), b"other")));
        drop(first(&cache, CallKey::new(Ipv4Addr::new(10, 0, 0, 1).into(), Xid(1), b"call")));
    }

    #[test]
    fn a_call_that_left_no_reply_is_carried_out_again() {
        let cache = ReplyCache::default();
        drop(first(&cache, key(1)));
        first(&cache, key(1)).done(&[0; REPLY_KEPT_BYTES_MAX + 1]);
        drop(first(&cache, key(1)));
    }

    #[test]
    fn a_repeat_waits_for_the_running_call() {
        let cache = ReplyCache::default();
        let running = first(&cache, key(1));
        std::thread::scope(|scope| {
            let repeat = scope.spawn(|| match cache.claim(key(1)) {
                Turn::Repeat(reply) => reply.to_vec(),
                Turn::First(_) | Turn::Drop => Vec::new(),
            });
            running.done(b"late");
            assert_eq!(repeat.join().unwrap(), b"late");
        });
    }

    #[test]
    fn an_old_reply_is_not_taken_for_that_of_a_new_call() {
        let cache = ReplyCache::default();
        first(&cache, key(1)).done(b"reply");
        assert!(matches!(cache.claim_at(key(1), Instant::now() + REPLY_AGE_MAX / 2), Turn::Repeat(_)));
        assert!(matches!(cache.claim_at(key(1), Instant::now() + REPLY_AGE_MAX), Turn::First(_)));
    }

    #[test]
    fn the_oldest_reply_makes_room() {
        let cache = ReplyCache::default();
        for number in 0..=REPLIES_KEPT as u32 {
            first(&cache, key(number)).done(b"reply");
        }
        drop(first(&cache, key(0)));
        assert!(matches!(cache.claim(key(1)), Turn::Repeat(_)));
        assert!(cache.lock().entries.len() <= REPLIES_KEPT);
    }
}
