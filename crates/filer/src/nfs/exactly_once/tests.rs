//! What the caller of [`ExactlyOnce`] relies on, for the reply cache and for a slot table of a session.

use std::io::Read;
use std::net::TcpStream;
use std::sync::Mutex;

use host::Unpoisoned;

use super::reply_cache::ReplyCache;
use super::*;
use crate::connections::connection::tests::connected_as;

/// The slots of an NFSv4.1 session. A call begins with the number of its slot and with its sequence number there.
#[derive(Default)]
struct Slots(Mutex<[Slot; 4]>);

#[derive(Default)]
struct Slot {
    sequence: u8,
    state: SlotState,
    waiting: Vec<SentMark>,
    hits: u64,
}

#[derive(Default)]
enum SlotState {
    #[default]
    Unused,
    Executing,
    Replied(Arc<[u8]>),
}

struct InSlot<'a> {
    slots: &'a Slots,
    at: usize,
    own: SentMark,
    answered: bool,
}

impl ExactlyOnce for Slots {
    fn claim(&self, attempt: &Attempt<'_>) -> Claim<'_> {
        let (at, sequence) = (usize::from(attempt.record[0]), attempt.record[1]);
        let own = attempt.sender.connection.mark();
        let slot = &mut self.0.lock().unpoisoned()[at];
        if sequence == slot.sequence {
            match &slot.state {
                SlotState::Unused => {}
                SlotState::Executing => {
                    slot.waiting.push(own);
                    return Claim::InProgress;
                }
                SlotState::Replied(reply) => {
                    slot.hits += 1;
                    return Claim::Answered(Arc::clone(reply), Some(own));
                }
            }
        }
        *slot = Slot { sequence, state: SlotState::Executing, ..Slot::default() };
        Claim::New(Box::new(InSlot { slots: self, at, own, answered: false }))
    }

    /// A session does not end with a connection.
    fn ended(&self, _: &Arc<Connection>) {}

    fn forget(&self) {
        *self.0.lock().unpoisoned() = <[Slot; 4]>::default();
    }

    fn contents(&self) -> Contents {
        let slots = self.0.lock().unpoisoned();
        let replies = slots.iter().filter_map(|slot| match &slot.state {
            SlotState::Replied(reply) => Some(reply.len()),
            _ => None,
        });
        let hits = slots.iter().map(|slot| slot.hits).sum();
        replies.fold(Contents { hits, ..Contents::default() }, |sum, bytes| Contents {
            replies: sum.replies + 1,
            bytes: sum.bytes + bytes,
            ..sum
        })
    }
}

impl Execution for InSlot<'_> {
    fn answered(mut self: Box<Self>, reply: &[u8], keep: bool) -> Option<SentMark> {
        self.answered = true;
        let slot = &mut self.slots.0.lock().unpoisoned()[self.at];
        slot.state = if keep { SlotState::Replied(reply.into()) } else { SlotState::Unused };
        for mark in std::mem::take(&mut slot.waiting) {
            if let Some(connection) = mark.connection() {
                connection.queue_copy(reply, mark);
            }
        }
        Some(self.own.clone())
    }
}

impl Drop for InSlot<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.slots.0.lock().unpoisoned()[self.at].state = SlotState::Unused;
        }
    }
}

/// A connection of one client, and the client's end of it.
fn connect() -> (Arc<Connection>, TcpStream) {
    connected_as([10, 0, 0, 1])
}

fn claim<'a>(once: &'a dyn ExactlyOnce, record: &[u8], connection: &Arc<Connection>) -> Claim<'a> {
    let sender = Sender { client: connection.client(), connection: connection.delivery(), channel: None };
    once.claim(&Attempt { xid: Xid(7), record, sender })
}

fn new<'a>(once: &'a dyn ExactlyOnce, record: &[u8], connection: &Arc<Connection>) -> Box<dyn Execution + 'a> {
    match claim(once, record, connection) {
        Claim::New(execution) => execution,
        Claim::InProgress | Claim::Answered(..) => panic!("taken for a resend"),
    }
}

/// `call` and `next` are two calls.
fn executes_each_call_once(once: &dyn ExactlyOnce, call: &[u8], next: &[u8]) {
    let ((first, _peer), (second, mut second_peer)) = (connect(), connect());
    // Dropped: not executed.
    drop(new(once, call, &first));
    assert!(new(once, call, &first).answered(b"later", false).is_some());
    // In progress: the resend takes no thread, and its connection gets the reply.
    let execution = new(once, call, &first);
    assert!(matches!(claim(once, call, &second), Claim::InProgress));
    assert_eq!(once.contents().replies, 0);
    execution.answered(b"reply", true).unwrap();
    let mut reply = [0; 5];
    second_peer.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"reply");
    // Answered.
    let Claim::Answered(stored, _) = claim(once, call, &first) else { panic!("not taken for a resend") };
    assert_eq!(&*stored, b"reply");
    assert_eq!(once.contents(), Contents { hits: 1, replies: 1, bytes: 5 });
    new(once, next, &first).answered(b"next", true);
    once.forget();
    assert_eq!(once.contents().replies, 0);
    drop(new(once, next, &first));
}

#[test]
fn the_reply_cache_executes_each_call_once() {
    executes_each_call_once(&ReplyCache::default(), b"call", b"next");
}

#[test]
fn a_slot_table_of_a_session_executes_each_call_once() {
    executes_each_call_once(&Slots::default(), &[2, 1], &[2, 2]);
}
