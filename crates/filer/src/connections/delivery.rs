//! How many bytes the peer's TCP has acknowledged on a connection, also after the connection has ended.
//!
//! A position counts the bytes that were passed to the socket. Under TLS these are the bytes of the records.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use smallvec::SmallVec;

/// A connection, as the holders of marks see it.
pub(crate) trait Receiving: Send + Sync {
    /// Number of bytes that the peer's TCP has acknowledged. Asks the kernel.
    fn acknowledged(&self) -> u64;

    /// Queues a copy of a reply.
    fn queue_copy(self: Arc<Self>, reply: &[u8], mark: SentMark);

    /// Ends the connection at once.
    fn drop_now(&self);
}

/// A reference to a connection. It keeps neither the connection nor its socket open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// `None` if there never was a connection.
    connection: Option<Weak<dyn Receiving>>,
    /// Number of bytes that the peer had acknowledged when the connection was dropped.
    at_end: OnceLock<u64>,
}

/// A mark of a reply, by which the filer asks later whether the peer has received the reply. Its position is that of the reply's end. It is
/// set before the last bytes of the reply are passed to the socket.
#[derive(Clone, Debug)]
pub(crate) struct SentMark(Arc<Sent>);

/// The marks of replies that are sent together, usually one.
pub(crate) type SentMarks = SmallVec<[SentMark; 1]>;

#[derive(Debug)]
struct Sent {
    position: AtomicU64,
    on: Delivery,
}

/// The position of a reply that was not sent. No peer acknowledges that many bytes.
const NOT_SENT: u64 = u64::MAX;

impl Delivery {
    pub(super) fn new(connection: Weak<dyn Receiving>) -> Self {
        Self(Arc::new(Shared { connection: Some(connection), at_end: OnceLock::new() }))
    }

    /// A mark for a reply that will be sent on this connection.
    pub(crate) fn mark(&self) -> SentMark {
        SentMark(Arc::new(Sent { position: AtomicU64::new(NOT_SENT), on: self.clone() }))
    }

    /// Whether a reference other than the connection's own exists.
    pub(super) fn is_referred_to(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Notes how many bytes the peer has acknowledged. Called when the connection is dropped.
    pub(super) fn end(&self, acknowledged: u64) {
        let _ = self.0.at_end.set(acknowledged);
    }
}

impl SentMark {
    pub(crate) fn set(&self, position: u64) {
        self.0.position.store(position, Ordering::Release);
    }

    /// Whether the reply is sent on this connection.
    pub(crate) fn is_on(&self, connection: &Delivery) -> bool {
        Arc::ptr_eq(&self.0.on.0, &connection.0)
    }

    /// The connection, unless it has ended.
    pub(crate) fn connection(&self) -> Option<Arc<dyn Receiving>> {
        self.0.on.0.connection.as_ref()?.upgrade()
    }

    /// Whether the peer's TCP has acknowledged the reply. Asks the kernel.
    pub(crate) fn is_acknowledged(&self) -> bool {
        let position = self.0.position.load(Ordering::Acquire);
        if position == NOT_SENT {
            return false;
        }
        let acknowledged = match self.connection() {
            Some(connection) => connection.acknowledged(),
            // The thread that drops the connection has set the value or is about to set it.
            None => *self.0.on.0.at_end.wait(),
        };
        acknowledged >= position
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::connections::connection::tests::connected;

    fn await_acknowledged(mark: &SentMark) {
        let begun = Instant::now();
        while !mark.is_acknowledged() {
            assert!(begun.elapsed() < Duration::from_secs(10), "not acknowledged");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_reply_is_acknowledged_once_the_peer_has_all_of_it_and_not_before_it_was_sent() {
        let (connection, mut peer) = connected();
        let delivery = connection.delivery();
        let (first, second) = (delivery.mark(), delivery.mark());
        connection.send(&mut vec![1; 100], std::slice::from_ref(&first)).unwrap();
        peer.read_exact(&mut [0; 100]).unwrap();
        await_acknowledged(&first);
        assert_eq!(connection.acknowledged(), 100, "positions count from the first byte");
        assert!(!second.is_acknowledged());
        connection.queue_marked(&mut vec![2; 50], Vec::new(), smallvec::smallvec![second.clone()]);
        peer.read_exact(&mut [0; 50]).unwrap();
        await_acknowledged(&second);
    }

    #[test]
    fn what_the_peer_never_acknowledged_is_known_after_the_connection_has_ended() {
        let (connection, peer) = connected();
        let delivery = connection.delivery();
        let (reached, stuck) = (delivery.mark(), delivery.mark());
        connection.send(&mut vec![1; 100], std::slice::from_ref(&reached)).unwrap();
        await_acknowledged(&reached);
        // More than the socket buffers of both sides hold while the peer reads nothing.
        let bytes = 64 << 20;
        connection.queue_marked(&mut vec![2; bytes], Vec::new(), smallvec::smallvec![stuck.clone()]);
        connection.drop_now();
        drop(peer);
        drop(connection);
        let begun = Instant::now();
        while stuck.connection().is_some() {
            assert!(begun.elapsed() < Duration::from_secs(10), "the rest is still being sent");
            std::thread::yield_now();
        }
        assert!(reached.is_acknowledged());
        assert!(!stuck.is_acknowledged());
    }
}
