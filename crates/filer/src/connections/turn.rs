//! A turn of a connection: one receive, all whole requests in it, one send.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use super::connection::{Connection, Reservation};
use super::delivery::SentMarks;
use super::ended::Ended;
use super::queue::{Job, Tenant};
use super::receive_buffer::ReceiveBuffer;
use super::replies::Replies;
use super::workers::{CarryOut, Workers};
use crate::limits::{BUFFER_WAIT, REPLY_BYTES_GATHERED};

/// The input and output of a service in one turn.
pub(crate) struct Turn<'t, S: CarryOut> {
    /// The received bytes of requests that are not executed yet.
    pub(crate) received: &'t mut ReceiveBuffer,
    /// The sending side.
    pub(crate) out: Outgoing<'t, S>,
}

/// The sending side of a turn.
pub(crate) struct Outgoing<'t, S: CarryOut> {
    pub(super) connection: &'t Arc<Connection>,
    pub(super) replies: &'t mut Replies,
    /// Bytes of large buffers of the client.
    pub(super) share: &'t AtomicUsize,
    pub(super) workers: &'t Workers<S>,
    /// For many turns no two requests of this connection were in progress together: its client waits for each reply.
    pub(super) lone: bool,
    pub(super) begun: bool,
    pub(super) overlapped: bool,
    pub(super) starts_tls: bool,
}

impl<S: CarryOut> Outgoing<'_, S> {
    /// Notes that a request begins. Returns whether it overlaps with others: `more` were received after it, or slow ones are in progress.
    pub(crate) fn begin(&mut self, more: bool) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            self.connection.note_activity();
        }
        self.connection.set_serving(true);
        let overlaps = more || self.connection.slow_requests() > 0;
        self.overlapped |= overlaps;
        overlaps
    }

    /// Whether the client has waited for each reply for many turns. A worker would only cost a wake-up then.
    pub(crate) const fn is_lone(&self) -> bool {
        self.lone
    }

    /// The collected replies that are not sent yet. The service appends to them.
    pub(crate) const fn replies(&mut self) -> &mut Vec<u8> {
        &mut self.replies.out
    }

    /// Adds a large reply of `bytes` bytes to the memory counts of the client and of all connections before the buffer grows. Returns false
    /// if a count would exceed its limit for longer than `wait`.
    pub(crate) fn make_space(&mut self, bytes: usize, wait: Duration) -> bool {
        self.replies.make_space(bytes, wait, self.workers.totals(), self.share)
    }

    /// As [`Self::make_space`]. Sends the collected replies before it waits for memory.
    ///
    /// # Errors
    /// As [`Self::send`]. [`Ended::BuffersFull`] if no memory becomes free in time.
    pub(crate) fn wait_for_space(&mut self, bytes: usize) -> Result<(), Ended> {
        if self.make_space(bytes, Duration::ZERO) {
            return Ok(());
        }
        self.send()?;
        if self.make_space(bytes, BUFFER_WAIT) { Ok(()) } else { Err(Ended::BuffersFull) }
    }

    /// Adds marks of collected replies. They are set when the replies are sent.
    pub(crate) fn mark(&mut self, marks: SentMarks) {
        self.replies.marks.extend(marks);
    }

    /// Sends the collected replies. Called before a request that waits.
    ///
    /// # Errors
    /// The socket's: the connection must end.
    pub(crate) fn send(&mut self) -> Result<(), Ended> {
        let (connection, begun) = (self.connection, self.begun);
        Ok(self.replies.send(|bytes, marks| not_serving(connection, begun, || connection.send(bytes, marks)))?)
    }

    /// As [`Self::send`], but only if the collected replies are large.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) fn send_if_large(&mut self) -> Result<(), Ended> {
        if self.replies.out.len() >= REPLY_BYTES_GATHERED { self.send() } else { Ok(()) }
    }

    /// Delays the collected replies from `start` on until `due`. If many earlier ones wait for the peer, waits until these have left.
    ///
    /// # Errors
    /// As [`Self::send`]: the replies before `start` are sent at once, because delaying may wait for memory.
    pub(crate) fn delay(&mut self, start: usize, due: Instant, marks: SentMarks) -> Result<(), Ended> {
        let delayed = self.replies.out.split_off(start);
        self.send()?;
        let connection = self.connection;
        if connection.has_backlog() {
            not_serving(connection, self.begun, || connection.send(&mut Vec::new(), &[]))?;
        }
        self.workers.delayed().delay(self.connection, due, delayed, marks);
        Ok(())
    }

    /// Reserves memory for a slow request and its reply, `bytes` bytes together. `None` if a limit is reached, or if many replies wait for
    /// the peer.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<Reservation> {
        if self.connection.has_backlog() { None } else { self.workers.reserve(self.connection, bytes) }
    }

    /// Hands a request to a worker, which takes waiting requests of the same `group` together. `volume` is a number that identifies the
    /// volume.
    ///
    /// # Errors
    /// The request, if the workers accept no request. The caller then executes it.
    pub(crate) fn submit(
        &self,
        reservation: Reservation,
        volume: usize,
        group: Option<u64>,
        request: S::Request,
    ) -> Result<(), S::Request> {
        let connection = Arc::clone(self.connection);
        let tenant = Tenant { volume, client: connection.client() };
        let job = Job { connection, request, reservation, tenant, group, received_at: Instant::now() };
        self.workers.submit(job).map_err(|job| job.request)
    }

    /// A group number that no other connection has.
    pub(crate) fn own_group(&self) -> u64 {
        Arc::as_ptr(self.connection).addr() as u64
    }

    /// Starts TLS once the replies have left. The service must execute no further request before.
    pub(crate) const fn start_tls(&mut self) {
        self.starts_tls = true;
    }

    /// Closes the connection with a TCP reset.
    pub(crate) fn reset(&self) {
        self.connection.reset();
    }
}

/// Sends on the connection's thread. While it waits for the peer, it executes no request.
fn not_serving<T>(connection: &Connection, begun: bool, send: impl FnOnce() -> T) -> T {
    connection.set_serving(false);
    let sent = send();
    connection.set_serving(begun);
    sent
}

impl<S: CarryOut> Drop for Outgoing<'_, S> {
    fn drop(&mut self) {
        if self.begun {
            self.connection.set_serving(false);
        }
    }
}
