//! Replies that leave at a set time, for example when a modelled medium would be done. One thread keeps them until they are due,
//! and sends them.
//!
//! A connection hands a reply over and continues at once. So hundreds of replies can wait at the cost of their bytes alone. The
//! first reply starts the thread, which sleeps until the earliest reply is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use host::Unpoisoned;

use super::connection::Connection;
use super::delivery::SentMarks;
use crate::limits::{DELAYED_BYTES_MAX, DELAYED_LEAD_MAX, DELAYED_LEAD_SHARE, STACK_BYTES};
use crate::sys;

/// All delayed replies of a service.
#[derive(Default)]
pub(crate) struct DelayedReplies {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    earlier: Condvar, // a reply is due before the one that the thread waits for, or no more replies come
    released: Condvar,
    sent: AtomicU64,           // replies, since the start
    waiting_cpu_ns: AtomicU64, // CPU time of the thread without the time for sending
}

#[derive(Default)]
struct Queue {
    schedule: Schedule,
    bytes: usize,              // of replies kept and being sent
    wakes_at: Option<Instant>, // when the thread wakes by itself
    running: bool,
    closed: bool,
}

/// Replies in the order of the times from which they may leave. Replies of one time leave in the order in which they came.
#[derive(Default)]
struct Schedule {
    replies: BinaryHeap<Reverse<Reply>>,
    taken: u64,
}

struct Reply {
    from: Instant, // when it may leave
    nth: u64,
    connection: Arc<Connection>,
    record: Vec<u8>,
    marks: SentMarks,
}

impl Schedule {
    fn add(&mut self, from: Instant, connection: &Arc<Connection>, record: Vec<u8>, marks: SentMarks) {
        self.taken += 1;
        self.replies.push(Reverse(Reply { from, nth: self.taken, connection: Arc::clone(connection), record, marks }));
    }

    /// Moves the replies that may leave to `due`, in their order. Returns their bytes.
    fn take_due(&mut self, now: Instant, due: &mut Vec<Reply>) -> usize {
        let mut bytes = 0;
        while let Some(Reverse(first)) = self.replies.peek()
            && first.from <= now
        {
            due.extend(self.replies.pop().map(|Reverse(reply)| reply));
            bytes += due.last().map_or(0, |reply| reply.record.len());
        }
        bytes
    }

    /// When the next reply may leave.
    fn next(&self) -> Option<Instant> {
        self.replies.peek().map(|Reverse(first)| first.from)
    }
}

/// The time from which a reply with this due time may leave. A sleeping thread wakes about 50 us late, so the reply may leave
/// earlier by this time, or by a small part of its wait if that is less.
fn leaves_from(due: Instant, now: Instant) -> Instant {
    due - DELAYED_LEAD_MAX.min(due.saturating_duration_since(now) / DELAYED_LEAD_SHARE)
}

impl DelayedReplies {
    /// Number of replies sent so far, and the CPU time, in nanoseconds, that waiting for their time took.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.shared.sent.load(Ordering::Relaxed), self.shared.waiting_cpu_ns.load(Ordering::Relaxed))
    }

    /// Number of replies that wait now.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.queue.lock().unpoisoned().schedule.replies.len()
    }

    /// Keeps a reply until it is due. Waits while other replies fill the memory.
    pub(crate) fn delay(&self, connection: &Arc<Connection>, due: Instant, mut record: Vec<u8>, marks: SentMarks) {
        let mut queue = self.shared.queue.lock().unpoisoned();
        while queue.bytes > 0 && queue.bytes + record.len() > DELAYED_BYTES_MAX {
            queue = self.shared.released.wait(queue).unpoisoned();
        }
        if queue.closed || !(queue.running || self.start(&mut queue)) {
            // The filer stops, or no thread can be started: the reply leaves early.
            drop(queue);
            connection.queue_marked(&mut record, Vec::new(), marks);
            return;
        }
        queue.bytes += record.len();
        let from = leaves_from(due, Instant::now());
        queue.schedule.add(from, connection, record, marks);
        if queue.wakes_at.is_none_or(|wakes_at| from < wakes_at) {
            drop(queue);
            self.shared.earlier.notify_one();
        }
    }

    fn start(&self, queue: &mut Queue) -> bool {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("medium".into()).stack_size(STACK_BYTES);
        queue.running = thread.spawn(move || shared.release()).is_ok();
        queue.running
    }

    /// Accepts no more replies, and waits until all are sent. Returns false if they are not sent within `limit`.
    pub(crate) fn finish(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut queue = self.shared.queue.lock().unpoisoned();
        queue.closed = true;
        self.shared.earlier.notify_one();
        while queue.bytes > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.shared.released.wait_timeout(queue, left).unpoisoned().0;
        }
        true
    }
}

impl Shared {
    /// The work of the thread: sends the replies that are due, then sleeps until the next one is.
    fn release(&self) {
        sys::wake_on_time();
        let mut due_now: Vec<Reply> = Vec::new();
        let mut sending_ns = 0;
        let mut queue = self.queue.lock().unpoisoned();
        loop {
            let now = Instant::now();
            let bytes = queue.schedule.take_due(now, &mut due_now);
            if !due_now.is_empty() {
                drop(queue);
                let begun_ns = sys::thread_cpu_ns();
                self.waiting_cpu_ns.store(begun_ns.saturating_sub(sending_ns), Ordering::Relaxed);
                self.sent.fetch_add(due_now.len() as u64, Ordering::Relaxed);
                send(&mut due_now);
                sending_ns += sys::thread_cpu_ns().saturating_sub(begun_ns);
                queue = self.queue.lock().unpoisoned();
                queue.bytes -= bytes;
                self.released.notify_all();
                continue;
            }
            let next = queue.schedule.next();
            queue.wakes_at = next;
            queue = match next {
                Some(at) => {
                    let left = at.saturating_duration_since(now);
                    self.earlier.wait_timeout(queue, left).unpoisoned().0
                }
                None if queue.closed => {
                    queue.running = false;
                    return;
                }
                None => self.earlier.wait(queue).unpoisoned(),
            };
        }
    }
}

/// Sends replies. Successive replies of one connection leave in one send.
fn send(replies: &mut Vec<Reply>) {
    let mut replies = replies.drain(..).peekable();
    while let Some(Reply { connection, mut record, mut marks, .. }) = replies.next() {
        while let Some(next) = replies.next_if(|next| Arc::ptr_eq(&next.connection, &connection)) {
            record.extend_from_slice(&next.record);
            marks.extend(next.marks);
        }
        connection.queue_marked(&mut record, Vec::new(), marks);
    }
}

impl Ord for Reply {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.from, self.nth).cmp(&(other.from, other.nth))
    }
}

impl PartialOrd for Reply {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Reply {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Reply {}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::connections::connection::tests::connected;

    #[test]
    fn replies_leave_in_the_order_they_are_due_and_those_of_one_time_in_the_order_they_came() {
        let (connection, _peer) = connected();
        let (begin, mut schedule, mut due) = (Instant::now(), Schedule::default(), Vec::new());
        let after = |ms| begin + Duration::from_millis(ms);
        for (ms, byte) in [(60, b'd'), (20, b'a'), (40, b'b'), (40, b'c')] {
            schedule.add(after(ms), &connection, vec![byte], SentMarks::new());
        }
        let mut taken = |now| {
            let bytes = schedule.take_due(now, &mut due);
            let records: Vec<u8> = due.drain(..).flat_map(|reply| reply.record).collect();
            assert_eq!(records.len(), bytes);
            (records, schedule.next())
        };
        assert_eq!(taken(after(19)), (b"".to_vec(), Some(after(20))));
        assert_eq!(taken(after(40)), (b"abc".to_vec(), Some(after(60))));
        assert_eq!(taken(after(60)), (b"d".to_vec(), None));
    }

    #[test]
    fn a_reply_leaves_a_little_before_it_is_due_and_never_much() {
        let now = Instant::now();
        let lead = |wait| (now + wait) - leaves_from(now + wait, now);
        assert_eq!(lead(Duration::from_secs(1)), DELAYED_LEAD_MAX);
        assert_eq!(lead(Duration::from_micros(160)), Duration::from_micros(160) / DELAYED_LEAD_SHARE);
        assert_eq!(leaves_from(now, now + Duration::from_secs(1)), now);
    }

    #[test]
    fn each_reply_is_sent_and_none_before_its_time() {
        let delayed = DelayedReplies::default();
        let (connection, mut peer) = connected();
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        for ms in [40, 20, 60] {
            delayed.delay(&connection, after(ms), vec![ms as u8], SentMarks::new());
        }
        for _ in 0..3 {
            let mut got = [0];
            peer.read_exact(&mut got).unwrap();
            let wait = Duration::from_millis(got[0].into());
            assert!(begin.elapsed() >= wait - DELAYED_LEAD_MAX, "{got:?} came early");
        }
        assert!(delayed.finish(Duration::from_secs(5)));
        assert_eq!((delayed.counts().0, delayed.waiting()), (3, 0));
    }

    #[test]
    fn finishing_waits_for_what_is_delayed() {
        let delayed = DelayedReplies::default();
        let (connection, _peer) = connected();
        delayed.delay(&connection, Instant::now() + Duration::from_secs(3600), vec![1; 100], Default::default());
        assert_eq!(delayed.waiting(), 1);
        assert!(!delayed.finish(Duration::from_millis(1)));
        let delayed = DelayedReplies::default();
        let begin = Instant::now();
        delayed.delay(&connection, begin + Duration::from_millis(20), vec![1; 100], Default::default());
        assert!(delayed.finish(Duration::from_secs(60)));
        assert!(begin.elapsed() >= Duration::from_millis(20) - DELAYED_LEAD_MAX);
    }

    #[test]
    fn a_reply_that_comes_after_the_end_is_sent_at_once() {
        let delayed = DelayedReplies::default();
        let (connection, mut peer) = connected();
        assert!(delayed.finish(Duration::ZERO));
        delayed.delay(&connection, Instant::now() + Duration::from_secs(3600), vec![2], SentMarks::new());
        let mut got = [0];
        peer.read_exact(&mut got).unwrap();
        assert_eq!(got, [2]);
    }

    #[test]
    fn whoever_finds_no_memory_waits_until_there_is_some() {
        let delayed = DelayedReplies::default();
        let (connection, mut peer) = connected();
        let begin = Instant::now();
        let reader = std::thread::spawn(move || {
            let mut got = 0;
            let mut buffer = vec![0; 1 << 20];
            while got < DELAYED_BYTES_MAX + 1 {
                got += peer.read(&mut buffer).unwrap();
            }
        });
        delayed.delay(&connection, begin + Duration::from_millis(60), vec![0; DELAYED_BYTES_MAX], Default::default());
        delayed.delay(&connection, begin, vec![0], SentMarks::new());
        assert!(begin.elapsed() >= Duration::from_millis(59), "the second waited for the first");
        reader.join().unwrap();
    }
}
