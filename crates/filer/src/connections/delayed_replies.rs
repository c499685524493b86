//! Replies that are ready before a modelled medium would be: kept until they are due, sent by one thread.
//!
//! A connection that hands a reply over goes on at once, so hundreds wait side by side at no cost but their bytes. The
//! thread is started with the first reply and sleeps until the earliest is due; without a medium there is none.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::connections::connection::Connection;
use crate::limits::{HELD_BYTES_MAX, HELD_LEAD_MAX, HELD_LEAD_SHARE, STACK_BYTES};
use crate::sys;

/// All held replies of a filer.
pub(crate) struct Held {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    earlier: Condvar, // a reply is due before the one that is waited for, or none is to come
    released: Condvar,
    sent: AtomicU64,           // replies, since the start
    waiting_cpu_ns: AtomicU64, // of the thread, what it spent on sending taken off
}

#[derive(Default)]
struct Queue {
    replies: BinaryHeap<Reverse<Reply>>,
    bytes: usize, // of replies kept and being sent
    taken: u64,
    wakes_at: Option<Instant>, // when the thread will look again by itself
    running: bool,
    closed: bool,
}

struct Reply {
    from: Instant, // when it may leave
    nth: u64,
    connection: Arc<Connection>,
    record: Vec<u8>,
}

impl Held {
    pub(crate) fn new() -> Self {
        Self { shared: Arc::default() }
    }

    /// Replies sent so far, and what waiting for their time has cost, in nanoseconds of CPU.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.shared.sent.load(Ordering::Relaxed), self.shared.waiting_cpu_ns.load(Ordering::Relaxed))
    }

    /// Replies kept now.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.queue().replies.len()
    }

    /// Keeps a reply until it is due. Waits while others fill the room there is.
    pub(crate) fn hold(&self, connection: &Arc<Connection>, due: Instant, record: Vec<u8>) {
        let mut queue = self.shared.queue();
        while queue.bytes > 0 && queue.bytes + record.len() > HELD_BYTES_MAX {
            queue = self.shared.released.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.closed || !(queue.running || self.start(&mut queue)) {
            // Late answers are of no more use than early ones: the filer stops, or has no thread to spare.
            drop(queue);
            connection.queue(&record, Vec::new());
            return;
        }
        queue.bytes += record.len();
        queue.taken += 1;
        let nth = queue.taken;
        // A thread that sleeps wakes some 50 us late: it is called that much before, if that is little of the wait.
        let lead = HELD_LEAD_MAX.min(due.saturating_duration_since(Instant::now()) / HELD_LEAD_SHARE);
        let from = due - lead;
        queue.replies.push(Reverse(Reply { from, nth, connection: Arc::clone(connection), record }));
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

    /// Waits until all are sent, takes no more; false when that is not so within `limit`.
    pub(crate) fn finish(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut queue = self.shared.queue();
        queue.closed = true;
        self.shared.earlier.notify_one();
        while queue.bytes > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.shared.released.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Shared {
    /// The thread: sends what is due, sleeps until the next is.
    fn release(&self) {
        sys::wake_on_time();
        let mut due_now: Vec<Reply> = Vec::new();
        let mut sending_ns = 0;
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            let mut bytes = 0;
            while let Some(Reverse(first)) = queue.replies.peek()
                && first.from <= now
            {
                due_now.extend(queue.replies.pop().map(|Reverse(reply)| reply));
                bytes += due_now.last().map_or(0, |reply| reply.record.len());
            }
            if !due_now.is_empty() {
                drop(queue);
                let begun_ns = sys::thread_cpu_ns();
                self.waiting_cpu_ns.store(begun_ns.saturating_sub(sending_ns), Ordering::Relaxed);
                self.sent.fetch_add(due_now.len() as u64, Ordering::Relaxed);
                send(&mut due_now);
                sending_ns += sys::thread_cpu_ns().saturating_sub(begun_ns);
                queue = self.queue();
                queue.bytes -= bytes;
                self.released.notify_all();
                continue;
            }
            let next = queue.replies.peek().map(|Reverse(first)| first.from);
            queue.wakes_at = next;
            queue = match next {
                Some(at) => {
                    let left = at.saturating_duration_since(now);
                    self.earlier.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None if queue.closed => {
                    queue.running = false;
                    return;
                }
                None => self.earlier.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends replies; those of one connection that follow each other go together.
fn send(replies: &mut Vec<Reply>) {
    let mut gathered: Option<(Arc<Connection>, Vec<u8>)> = None;
    for Reply { connection, record, .. } in replies.drain(..) {
        match &mut gathered {
            Some((to, bytes)) if Arc::ptr_eq(to, &connection) => bytes.extend_from_slice(&record),
            _ => {
                if let Some((to, bytes)) = gathered.replace((connection, record)) {
                    to.queue(&bytes, Vec::new());
                }
            }
        }
    }
    if let Some((to, bytes)) = gathered {
        to.queue(&bytes, Vec::new());
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
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connected() -> (Arc<Connection>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, address) = listener.accept().unwrap();
        (Arc::new(Connection::new(stream, address, crate::listener::ListenerRole::Nfs).unwrap()), peer)
    }

    #[test]
    fn replies_leave_in_the_order_they_are_due_and_not_before() {
        let held = Held::new();
        let (connection, mut peer) = connected();
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        for (ms, byte) in [(60, b'c'), (20, b'a'), (40, b'b'), (80, b'd')] {
            held.hold(&connection, after(ms), vec![byte]);
        }
        for (ms, byte) in [(20, b'a'), (40, b'b'), (60, b'c'), (80, b'd')] {
            let mut got = [0];
            peer.read_exact(&mut got).unwrap();
            assert_eq!(got, [byte]);
            let earliest = after(ms) - (HELD_LEAD_MAX + Duration::from_millis(ms) / HELD_LEAD_SHARE);
            assert!(Instant::now() >= earliest, "{} came early", char::from(byte));
        }
        assert!(held.finish(Duration::from_secs(5)));
        assert_eq!(held.counts().0, 4);
    }

    #[test]
    fn finishing_waits_for_what_is_held_and_sends_later_ones_at_once() {
        let held = Held::new();
        let (connection, mut peer) = connected();
        let begin = Instant::now();
        held.hold(&connection, begin + Duration::from_millis(50), vec![1; 100]);
        assert_eq!(held.waiting(), 1);
        assert!(!held.finish(Duration::from_millis(1)));
        assert!(held.finish(Duration::from_secs(5)));
        assert!(begin.elapsed() >= Duration::from_millis(49));
        held.hold(&connection, begin + Duration::from_secs(3600), vec![2; 100]);
        let mut got = [0; 200];
        peer.read_exact(&mut got).unwrap();
        assert_eq!((got[99], got[100]), (1, 2));
    }

    #[test]
    fn whoever_finds_no_room_waits_until_there_is_some() {
        let held = Held::new();
        let (connection, mut peer) = connected();
        let begin = Instant::now();
        let reader = std::thread::spawn(move || {
            let mut got = 0;
            let mut buffer = vec![0; 1 << 20];
            while got < HELD_BYTES_MAX + 1 {
                got += peer.read(&mut buffer).unwrap();
            }
        });
        held.hold(&connection, begin + Duration::from_millis(60), vec![0; HELD_BYTES_MAX]);
        held.hold(&connection, begin, vec![0]);
        assert!(begin.elapsed() >= Duration::from_millis(59), "the second waited for the first");
        reader.join().unwrap();
    }
}
