//! Replies of non-idempotent calls, which must not be executed twice.
//!
//! A client resends a call under the same xid if its connection broke before the reply came. The filer stores the first reply under the xid
//! and a checksum of the complete call, and resends the reply. Then REMOVE returns OK both times, and not NOENT the second time. An xid
//! alone does not identify a resend, because a client that starts may begin its xids at a constant. A call is a resend of a stored one if
//! - it arrives on the same connection,
//! - or its connection carries the same channel (`nfs_proto::channel1`), whatever its address,
//! - or it comes from the same address, and the client's TCP has not acknowledged the reply. A client that has the reply does not
//!   resend the call. TCP may delay an acknowledgement, so the filer waits some time for that of a recent reply.
//!
//! A resend that arrives while the first call is running takes no thread. Its connection gets the reply when the call is done.
//! The replies are kept in memory: a restart of the filer forgets them.

use std::collections::{HashMap, VecDeque};
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use host::Unpoisoned;
use nfs_proto::rpc::Xid;
use siphasher::sip::SipHasher13;
use smallvec::SmallVec;

use super::reply_order::ReplyOrder;
use super::{Attempt, Claim, Contents, ExactlyOnce, Execution, Sender};
use crate::connections::connection::Connection;
use crate::connections::delivery::{Delivery, SentMark, SentMarks};
use crate::limits::{
    ACKNOWLEDGEMENT_WAIT, CLOSING_KEPT, CLOSING_MAX, REPLIES_KEPT, REPLIES_PER_CALL_MAX, REPLY_AGE_MAX, REPLY_BYTES_KEPT,
    REPLY_COPIES_MAX, REPLY_KEPT_BYTES_MAX,
};
use crate::nfs::channels::ChannelId;

/// Xid and checksum of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct CallKey {
    xid: Xid,
    checksum: u64,
}

impl CallKey {
    /// The key of a call. `record` is the complete record.
    fn new(xid: Xid, record: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(record);
        Self { xid, checksum: hasher.finish() }
    }
}

/// A call that was executed or is running.
struct Entry {
    number: u64, // unique
    client: IpAddr,
    channel: Option<ChannelId>,
    /// The marks of its reply: that on the connection of the call, and those on the connections of resends.
    own: SentMark,
    resends: SentMarks,
    done: Option<Done>, // `None`: it is running
}

struct Done {
    reply: Arc<[u8]>,
    at: Instant,
    /// A copy was acknowledged. This saves asking the kernel again.
    acknowledged: bool,
}

/// The stored replies.
#[derive(Default)]
pub(crate) struct ReplyCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: HashMap<CallKey, SmallVec<[Entry; 1]>>,
    done: ReplyOrder<(CallKey, u64)>, // may name entries that were removed
    bytes: usize,                     // of the replies
    entered: u64,
    hits: u64,
    closing: VecDeque<(Instant, Arc<Connection>)>, // connections that the client closed before it acknowledged all replies
}

/// Whether a call with the key of a stored one is a resend.
enum Verdict {
    Resend,
    NewCall,
    /// The reply was sent a moment ago, and its acknowledgement may be on its way.
    Undecided,
}

impl Entry {
    /// Decides whether a call with the same key is a resend.
    fn judge(&mut self, sender: &Sender, now: Instant) -> Verdict {
        if self.channel.is_some() && self.channel == sender.channel {
            return Verdict::Resend;
        }
        let age = self.done.as_ref().map(|done| now.saturating_duration_since(done.at));
        if age.is_some_and(|age| age >= REPLY_AGE_MAX) {
            return Verdict::NewCall;
        }
        if self.goes_to(&sender.connection) {
            return Verdict::Resend;
        }
        if self.client != sender.client || self.is_acknowledged() {
            return Verdict::NewCall;
        }
        let is_fresh = age.is_some_and(|age| age < ACKNOWLEDGEMENT_WAIT);
        let is_open = is_fresh && self.copies().any(|copy| copy.connection().is_some());
        if is_open { Verdict::Undecided } else { Verdict::Resend }
    }

    fn copies(&self) -> impl Iterator<Item = &SentMark> {
        std::iter::once(&self.own).chain(&self.resends)
    }

    fn goes_to(&self, connection: &Delivery) -> bool {
        self.copies().any(|copy| copy.is_on(connection))
    }

    /// Whether the client has the reply.
    fn is_acknowledged(&mut self) -> bool {
        let Self { done: Some(done), own, resends, .. } = self else { return false };
        done.acknowledged = done.acknowledged || std::iter::once(&*own).chain(&*resends).any(SentMark::is_acknowledged);
        done.acknowledged
    }

    /// Notes that the reply also goes to the connection of a resend. `None` if it goes there already.
    fn add_copy(&mut self, connection: &Delivery) -> Option<SentMark> {
        if self.goes_to(connection) {
            return None;
        }
        if self.resends.len() + 1 >= REPLY_COPIES_MAX {
            self.resends.remove(0);
        }
        let mark = connection.mark();
        self.resends.push(mark.clone());
        Some(mark)
    }

    fn reply_bytes(&self) -> usize {
        self.done.as_ref().map_or(0, |done| done.reply.len())
    }
}

impl State {
    fn entry(&mut self, key: &CallKey, number: u64) -> Option<&mut Entry> {
        self.calls.get_mut(key)?.iter_mut().find(|entry| entry.number == number)
    }

    /// Removes an entry.
    fn remove(&mut self, key: &CallKey, number: u64) -> Option<Entry> {
        let entries = self.calls.get_mut(key)?;
        let at = entries.iter().position(|entry| entry.number == number)?;
        let entry = entries.remove(at);
        if entries.is_empty() {
            self.calls.remove(key);
        }
        self.bytes -= entry.reply_bytes();
        Some(entry)
    }

    /// Adds a call that begins.
    fn enter(&mut self, key: CallKey, sender: &Sender) -> u64 {
        let entries = self.calls.entry(key).or_default();
        // Clients that begin their xids at a constant make many calls of one key.
        let oldest = entries.iter().find(|entry| entry.done.is_some()).map(|entry| entry.number);
        let is_full = entries.len() >= REPLIES_PER_CALL_MAX;
        if let Some(oldest) = oldest.filter(|_| is_full) {
            self.remove(&key, oldest);
        }
        self.entered += 1;
        let (own, resends) = (sender.connection.mark(), SentMarks::new());
        let entry = Entry { number: self.entered, client: sender.client, channel: sender.channel, own, resends, done: None };
        self.calls.entry(key).or_default().push(entry);
        self.entered
    }

    /// Removes replies until there is room for one of this size.
    fn make_room(&mut self, client: IpAddr, bytes: usize) {
        while self.done.len() >= REPLIES_KEPT || self.bytes + bytes > REPLY_BYTES_KEPT {
            let Some((key, number)) = self.done.pop_for(client) else { return };
            self.remove(&key, number);
        }
    }
}

impl ReplyCache {
    /// `None` while the verdict is [`Verdict::Undecided`].
    fn claim_at(&self, key: CallKey, sender: &Sender, now: Instant) -> Option<Claim<'_>> {
        let mut state = self.state.lock().unpoisoned();
        let mut entries = state.calls.get_mut(&key).into_iter().flatten();
        let found = entries.find_map(|entry| match entry.judge(sender, now) {
            Verdict::NewCall => None,
            verdict => Some((entry, matches!(verdict, Verdict::Resend))),
        });
        if let Some((entry, is_resend)) = found {
            if !is_resend {
                return None;
            }
            let mark = entry.add_copy(&sender.connection);
            let Some(reply) = entry.done.as_ref().map(|done| Arc::clone(&done.reply)) else { return Some(Claim::InProgress) };
            state.hits += 1;
            return Some(Claim::Answered(reply, mark));
        }
        let number = state.enter(key, sender);
        Some(Claim::New(Box::new(Running { cache: self, key, number })))
    }
}

impl ExactlyOnce for ReplyCache {
    /// Waits for an acknowledgement that may be on its way, for [`ACKNOWLEDGEMENT_WAIT`] at most.
    fn claim(&self, attempt: &Attempt<'_>) -> Claim<'_> {
        let key = CallKey::new(attempt.xid, attempt.record);
        loop {
            if let Some(claim) = self.claim_at(key, &attempt.sender, Instant::now()) {
                return claim;
            }
            std::thread::sleep(ACKNOWLEDGEMENT_WAIT / 64);
        }
    }

    /// If the client may still acknowledge a stored reply, the socket stays open for some time. A connection with calls in progress is not closed here, because their replies must still leave.
    fn ended(&self, connection: &Arc<Connection>) {
        let now = Instant::now();
        let mut state = self.state.lock().unpoisoned();
        let is_old = |(since, _): &(Instant, _)| now.saturating_duration_since(*since) >= CLOSING_KEPT;
        let mut closed = Vec::new();
        while state.closing.front().is_some_and(is_old) || state.closing.len() >= CLOSING_MAX {
            closed.extend(state.closing.pop_front());
        }
        if connection.slow_requests() == 0 && connection.awaits_acknowledgement() {
            connection.drop_now();
            state.closing.push_back((now, Arc::clone(connection)));
        }
        drop(state);
    }

    fn contents(&self) -> Contents {
        let state = self.state.lock().unpoisoned();
        let replies = state.calls.values().flatten().filter(|entry| entry.done.is_some()).count();
        Contents { hits: state.hits, replies, bytes: state.bytes }
    }

    fn forget(&self) {
        let mut state = self.state.lock().unpoisoned();
        state.done.clear();
        state.bytes = 0;
        state.closing.clear();
        state.calls.retain(|_, entries| {
            entries.retain(|entry| entry.done.is_none());
            !entries.is_empty()
        });
    }
}

/// A claim on a call. If it is dropped without a reply, the cache forgets the call, so that a later resend is executed. The connections of
/// resends that wait for the reply are closed.
struct Running<'a> {
    cache: &'a ReplyCache,
    key: CallKey,
    number: u64, // 0: the call is done
}

impl Execution for Running<'_> {
    fn answered(mut self: Box<Self>, reply: &[u8], keep: bool) -> Option<SentMark> {
        let number = std::mem::take(&mut self.number);
        let mut state = self.cache.state.lock().unpoisoned();
        let (own, resends) = if keep && reply.len() <= REPLY_KEPT_BYTES_MAX {
            let client = state.entry(&self.key, number)?.client;
            state.make_room(client, reply.len());
            let entry = state.entry(&self.key, number)?;
            entry.done = Some(Done { reply: reply.into(), at: Instant::now(), acknowledged: false });
            let copies = (entry.own.clone(), entry.resends.clone());
            state.bytes += reply.len();
            state.done.push(client, (self.key, number));
            copies
        } else {
            let entry = state.remove(&self.key, number)?;
            (entry.own, entry.resends)
        };
        drop(state);
        for mark in resends {
            if let Some(connection) = mark.connection() {
                connection.queue_copy(reply, mark);
            }
        }
        Some(own)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.number == 0 {
            return;
        }
        let entry = self.cache.state.lock().unpoisoned().remove(&self.key, self.number);
        let resends = entry.into_iter().flat_map(|entry| entry.resends);
        resends.filter_map(|mark| mark.connection()).for_each(|connection| connection.drop_now());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use crate::connections::connection::tests::connected_as;

    fn key(number: u32) -> CallKey {
        CallKey::new(Xid(number), b"call")
    }

    /// A connection whose client has this address as far as the cache knows, and the client's end of it.
    fn connect(host: u8) -> (Sender, Arc<Connection>, TcpStream) {
        let (connection, peer) = connected_as([10, 0, 0, host]);
        (Sender { client: connection.client(), connection: connection.delivery(), channel: None }, connection, peer)
    }

    fn claim<'a>(cache: &'a ReplyCache, number: u32, sender: &Sender) -> Claim<'a> {
        cache.claim(&Attempt { xid: Xid(number), record: b"call", sender: sender.clone() })
    }

    fn first<'a>(cache: &'a ReplyCache, number: u32, sender: &Sender) -> Box<dyn Execution + 'a> {
        match claim(cache, number, sender) {
            Claim::New(running) => running,
            Claim::Answered(..) | Claim::InProgress => panic!("taken for a resend"),
        }
    }

    fn repeat(cache: &ReplyCache, number: u32, sender: &Sender, after: Duration) -> Vec<u8> {
        match cache.claim_at(key(number), sender, Instant::now() + after) {
            Some(Claim::Answered(reply, _)) => reply.to_vec(),
            _ => panic!("not taken for a resend"),
        }
    }

    /// Executes a call. `acknowledged`: the client has the reply.
    fn carry_out(cache: &ReplyCache, number: u32, sender: &Sender, acknowledged: bool) {
        let mark = first(cache, number, sender).answered(b"reply", true).unwrap();
        if acknowledged {
            mark.set(0);
        }
    }

    #[test]
    fn a_resend_on_the_same_connection_gets_the_stored_reply_and_another_body_is_another_call() {
        let (cache, (sender, _connection, _peer)) = (ReplyCache::default(), connect(1));
        carry_out(&cache, 1, &sender, true);
        assert_eq!(repeat(&cache, 1, &sender, Duration::ZERO), b"reply");
        assert_eq!(cache.contents(), Contents { hits: 1, replies: 1, bytes: 5 });
        let other = Attempt { xid: Xid(1), record: b"other", sender: sender.clone() };
        assert!(matches!(cache.claim(&other), Claim::New(_)));
    }

    #[test]
    fn a_client_that_has_the_reply_and_begins_its_xids_again_sends_a_new_call() {
        let cache = ReplyCache::default();
        let ((before, _old, _a), (after, _new, _b)) = (connect(1), connect(1));
        carry_out(&cache, 1, &before, true);
        carry_out(&cache, 1, &after, true);
        // Each connection has a reply of its own.
        assert_eq!(repeat(&cache, 1, &before, Duration::ZERO), b"reply");
        assert_eq!(cache.contents().replies, 2);
    }

    #[test]
    fn a_resend_after_a_partition_of_90_seconds_from_a_new_port_is_recognised_and_from_another_address_is_not() {
        let cache = ReplyCache::default();
        let ((before, _old, _a), (after, _new, _b), (other, _other, _c)) = (connect(1), connect(1), connect(2));
        carry_out(&cache, 1, &before, false);
        assert_eq!(repeat(&cache, 1, &after, Duration::from_secs(90)), b"reply");
        drop(first(&cache, 1, &other));
        assert!(matches!(cache.claim_at(key(1), &connect(1).0, Instant::now() + REPLY_AGE_MAX), Some(Claim::New(_))));
    }

    #[test]
    fn a_new_call_is_executed_though_the_acknowledgement_of_the_earlier_reply_is_delayed() {
        let cache = ReplyCache::default();
        let ((before, _old, _a), (after, _new, _b)) = (connect(1), connect(1));
        let mark = first(&cache, 1, &before).answered(b"reply", true).unwrap();
        assert!(cache.claim_at(key(1), &after, Instant::now()).is_none(), "undecided");
        std::thread::scope(|scope| {
            let again = scope.spawn(|| matches!(claim(&cache, 1, &after), Claim::New(_)));
            mark.set(0);
            assert!(again.join().unwrap());
        });
    }

    #[test]
    fn a_reply_that_a_resend_brought_is_acknowledged_too() {
        let cache = ReplyCache::default();
        let ((before, _old, _a), (after, _new, _b)) = (connect(1), connect(1));
        carry_out(&cache, 1, &before, false);
        match claim(&cache, 1, &after) {
            Claim::Answered(_, mark) => mark.unwrap().set(0),
            Claim::New(_) | Claim::InProgress => panic!("not taken for a resend"),
        }
        drop(first(&cache, 1, &connect(1).0));
    }

    #[test]
    fn a_channel_is_recognised_over_another_address_whatever_was_acknowledged() {
        let cache = ReplyCache::default();
        let ((mut before, _old, _a), (mut after, _new, _b)) = (connect(1), connect(2));
        (before.channel, after.channel) = (Some(ChannelId::numbered(1)), Some(ChannelId::numbered(1)));
        carry_out(&cache, 1, &before, true);
        assert_eq!(repeat(&cache, 1, &after, 2 * REPLY_AGE_MAX), b"reply");
        let (mut other, _other, _c) = connect(1);
        other.channel = Some(ChannelId::numbered(2));
        drop(first(&cache, 1, &other));
    }

    #[test]
    fn a_resend_of_a_running_call_takes_no_thread_and_its_connection_gets_the_reply() {
        let cache = ReplyCache::default();
        let ((before, _old, _a), (after, _new, mut peer)) = (connect(1), connect(1));
        let running = first(&cache, 1, &before);
        for _ in 0..3 {
            assert!(matches!(claim(&cache, 1, &after), Claim::InProgress));
            assert!(matches!(claim(&cache, 1, &before), Claim::InProgress));
        }
        running.answered(b"later", true);
        let mut reply = [0; 5];
        peer.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"later");
        peer.set_nonblocking(true).unwrap();
        assert!(peer.read(&mut reply).is_err(), "one reply for each connection");
    }

    #[test]
    fn a_call_that_was_not_executed_is_executed_when_it_is_resent() {
        let cache = ReplyCache::default();
        let ((before, _old, _a), (after, _new, mut peer)) = (connect(1), connect(1));
        let running = first(&cache, 1, &before);
        assert!(matches!(claim(&cache, 1, &after), Claim::InProgress));
        running.answered(b"again", false);
        let mut reply = [0; 5];
        peer.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"again");
        let running = first(&cache, 1, &before);
        assert!(matches!(claim(&cache, 1, &after), Claim::InProgress));
        drop(running);
        assert_eq!(peer.read(&mut reply).unwrap(), 0, "no reply comes: the client must resend");
        first(&cache, 1, &before).answered(&[0; REPLY_KEPT_BYTES_MAX + 1], true);
        drop(first(&cache, 1, &before));
    }

    #[test]
    fn the_oldest_reply_makes_room() {
        let (cache, (sender, _connection, _peer)) = (ReplyCache::default(), connect(1));
        for number in 0..=REPLIES_KEPT as u32 {
            carry_out(&cache, number, &sender, true);
        }
        drop(first(&cache, 0, &sender));
        assert_eq!(repeat(&cache, 1, &sender, Duration::ZERO), b"reply");
        assert!(cache.state.lock().unpoisoned().calls.len() <= REPLIES_KEPT);
    }

    #[test]
    fn a_client_with_many_calls_drives_out_no_reply_of_another_client() {
        let (cache, (quiet, _a, _b), (busy, _c, _d)) = (ReplyCache::default(), connect(1), connect(2));
        carry_out(&cache, u32::MAX, &quiet, false);
        for number in 0..2 * REPLIES_KEPT as u32 {
            carry_out(&cache, number, &busy, true);
        }
        assert_eq!(repeat(&cache, u32::MAX, &quiet, Duration::from_secs(90)), b"reply");
        assert_eq!(cache.contents().replies, REPLIES_KEPT);
    }

    #[test]
    fn calls_of_one_xid_and_content_are_bounded() {
        let cache = ReplyCache::default();
        let connections: Vec<_> = (0..=REPLIES_PER_CALL_MAX).map(|_| connect(1)).collect();
        for (sender, ..) in &connections {
            carry_out(&cache, 1, sender, true);
        }
        assert_eq!(cache.contents().replies, REPLIES_PER_CALL_MAX);
        assert_eq!(repeat(&cache, 1, &connections[REPLIES_PER_CALL_MAX].0, Duration::ZERO), b"reply");
        assert!(connections.iter().all(|(_, connection, _)| Arc::strong_count(connection) == 1), "no socket is kept open");
    }

    #[test]
    fn replies_are_bounded_by_their_bytes_too() {
        let (cache, (sender, _connection, _peer)) = (ReplyCache::default(), connect(1));
        let large = [7; REPLY_KEPT_BYTES_MAX];
        for number in 0..REPLIES_KEPT as u32 {
            first(&cache, number, &sender).answered(&large, true);
        }
        let state = cache.state.lock().unpoisoned();
        assert!(state.bytes <= REPLY_BYTES_KEPT && state.bytes > REPLY_BYTES_KEPT - 2 * REPLY_KEPT_BYTES_MAX);
        assert_eq!(state.calls.len() * REPLY_KEPT_BYTES_MAX, state.bytes);
        drop(state);
        cache.forget();
        assert_eq!(cache.state.lock().unpoisoned().bytes, 0);
        drop(first(&cache, REPLIES_KEPT as u32 - 1, &sender));
    }
}
