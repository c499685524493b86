//! Replies of non-idempotent calls, which must not be carried out twice.
//!
//! A client that lost its connection sends a call again with the same xid, perhaps from another port. The reply of the
//! first time is stored under client address, xid and a checksum of the whole call, and replayed: REMOVE then answers
//! OK both times instead of NOENT the second time. A retransmission that comes while the first is still running waits for it.
//! Kept in memory: a restart of the filer forgets it.

use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nfs_proto::rpc::Xid;
use siphasher::sip::SipHasher13;

use crate::limits::{REPEAT_WAIT, REPLIES_KEPT, REPLY_AGE_MAX, REPLY_BYTES_KEPT, REPLY_KEPT_BYTES_MAX};

/// What identifies a call.
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
    Done { reply: Arc<[u8]>, at: Instant, number: u64 },
}

/// What is to be done with a call that was claimed.
pub(crate) enum Claim<'a> {
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
    done: VecDeque<(CallKey, u64)>, // oldest first; the number says whether the entry is still that one
    bytes: usize,                   // of the replies
    stored: u64,
    hits: u64,
}

/// What the cache holds, and how often it was of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) hits: u64,
    pub(crate) replies: usize,
    pub(crate) bytes: usize,
}

impl State {
    /// Forgets the stored reply of a call; a place in the queue may be left behind.
    fn forget(&mut self, key: &CallKey) {
        if let Some(Entry::Done { reply, .. }) = self.entries.remove(key) {
            self.bytes -= reply.len();
        }
    }

    /// Makes room for one more reply of so many bytes: the oldest go.
    fn make_room(&mut self, bytes: usize) {
        while self.done.len() >= REPLIES_KEPT || self.bytes + bytes > REPLY_BYTES_KEPT {
            let Some((oldest, number)) = self.done.pop_front() else { return };
            // A call that was carried out again after its reply had become too old has another place further back, or is
            // running at this moment: neither may be forgotten with the place of the first time.
            if matches!(self.entries.get(&oldest), Some(Entry::Done { number: now, .. }) if *now == number) {
                self.forget(&oldest);
            }
        }
    }
}

impl ReplyCache {
    /// Claims a call, or finds its reply; waits while the same call is running.
    pub(crate) fn claim(&self, key: CallKey) -> Claim<'_> {
        self.claim_at(key, Instant::now())
    }

    fn claim_at(&self, key: CallKey, now: Instant) -> Claim<'_> {
        let deadline = now + REPEAT_WAIT;
        let mut state = self.lock();
        loop {
            match state.entries.get(&key) {
                Some(Entry::Done { reply, at, .. }) if now.saturating_duration_since(*at) < REPLY_AGE_MAX => {
                    let reply = Arc::clone(reply);
                    state.hits += 1;
                    return Claim::Repeat(reply);
                }
                None | Some(Entry::Done { .. }) => {
                    state.forget(&key);
                    state.entries.insert(key, Entry::Running);
                    return Claim::First(Running { cache: self, key });
                }
                Some(Entry::Running) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Claim::Drop;
                    }
                    state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// What it holds now.
    pub(crate) fn contents(&self) -> Contents {
        let state = self.lock();
        let replies = state.entries.values().filter(|entry| matches!(entry, Entry::Done { .. })).count();
        Contents { hits: state.hits, replies, bytes: state.bytes }
    }

    /// Forgets all stored replies, as a reboot would.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state.done.clear();
        state.bytes = 0;
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
        state.make_room(reply.len());
        state.stored += 1;
        state.bytes += reply.len();
        let number = state.stored;
        state.entries.insert(self.key, Entry::Done { reply: reply.into(), at: Instant::now(), number });
        state.done.push_back((self.key, number));
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
            Claim::First(running) => running,
            Claim::Repeat(_) | Claim::Drop => panic!("claimed before"),
        }
    }

    #[test]
    fn a_repeat_gets_the_stored_reply() {
        let cache = ReplyCache::default();
        first(&cache, key(1)).done(b"reply");
        let Claim::Repeat(reply) = cache.claim(key(1)) else { panic!("forgotten") };
        assert_eq!(&*reply, b"reply");
        assert_eq!(cache.contents(), Contents { hits: 1, replies: 1, bytes: 5 });
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
                Claim::Repeat(reply) => reply.to_vec(),
                Claim::First(_) | Claim::Drop => Vec::new(),
            });
            running.done(b"late");
            assert_eq!(repeat.join().unwrap(), b"late");
        });
    }

    #[test]
    fn an_old_reply_is_not_taken_for_that_of_a_new_call() {
        let cache = ReplyCache::default();
        first(&cache, key(1)).done(b"reply");
        assert!(matches!(cache.claim_at(key(1), Instant::now() + REPLY_AGE_MAX / 2), Claim::Repeat(_)));
        assert!(matches!(cache.claim_at(key(1), Instant::now() + REPLY_AGE_MAX), Claim::First(_)));
    }

    #[test]
    fn the_oldest_reply_makes_room() {
        let cache = ReplyCache::default();
        for number in 0..=REPLIES_KEPT as u32 {
            first(&cache, key(number)).done(b"reply");
        }
        drop(first(&cache, key(0)));
        assert!(matches!(cache.claim(key(1)), Claim::Repeat(_)));
        assert!(cache.lock().entries.len() <= REPLIES_KEPT);
    }

    #[test]
    fn a_call_done_again_after_its_reply_was_too_old_keeps_its_place_among_the_newest() {
        let cache = ReplyCache::default();
        first(&cache, key(0)).done(b"old");
        let Claim::First(again) = cache.claim_at(key(0), Instant::now() + REPLY_AGE_MAX) else { panic!("too old") };
        for number in 1..=REPLIES_KEPT as u32 {
            first(&cache, key(number)).done(b"reply");
        }
        // While it runs, the place of the first time was given up: a copy must not become a second one.
        assert!(matches!(cache.lock().entries.get(&key(0)), Some(Entry::Running)));
        again.done(b"new");
        let Claim::Repeat(reply) = cache.claim(key(0)) else { panic!("forgotten") };
        assert_eq!(&*reply, b"new");
        assert!(cache.lock().entries.len() <= REPLIES_KEPT);
    }

    #[test]
    fn replies_are_bounded_by_their_bytes_too() {
        let cache = ReplyCache::default();
        let large = [7; REPLY_KEPT_BYTES_MAX];
        for number in 0..REPLIES_KEPT as u32 {
            first(&cache, key(number)).done(&large);
        }
        let state = cache.lock();
        assert!(state.bytes <= REPLY_BYTES_KEPT && state.bytes > REPLY_BYTES_KEPT - 2 * REPLY_KEPT_BYTES_MAX);
        assert_eq!(state.entries.len() * REPLY_KEPT_BYTES_MAX, state.bytes);
        drop(state);
        cache.clear();
        assert_eq!(cache.lock().bytes, 0);
        drop(first(&cache, key(REPLIES_KEPT as u32 - 1)));
    }
}
