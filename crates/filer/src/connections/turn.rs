//! A turn of a connection: one receive, every whole request in it, one send.

use std::sync::Arc;
use std::time::Instant;

use super::connection::{Connection, Reservation};
use super::ended::Ended;
use super::queue::Job;
use super::receive_buffer::ReceiveBuffer;
use super::replies::Replies;
use super::workers::{CarryOut, Workers};
use crate::limits::REPLY_BYTES_GATHERED;

/// What a service is given to serve.
pub(crate) struct Turn<'t, S: CarryOut> {
    /// What was received and is not served yet.
    pub(crate) received: &'t mut ReceiveBuffer,
    /// Where replies go.
    pub(crate) out: Outgoing<'t, S>,
}

/// The sending side of a turn.
pub(crate) struct Outgoing<'t, S: CarryOut> {
    pub(super) connection: &'t Arc<Connection>,
    pub(super) replies: &'t mut Replies,
    pub(super) workers: &'t Workers<S>,
    /// No requests of this connection have overlapped for long: its client waits for each reply.
    pub(super) lone: bool,
    pub(super) begun: bool,
    pub(super) overlapped: bool,
    pub(super) starts_tls: bool,
}

impl<S: CarryOut> Outgoing<'_, S> {
    /// Notes that a request is begun. True when it overlaps with others: `more` came behind it, or slow ones are under way.
    pub(crate) fn begin(&mut self, more: bool) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            self.connection.note_activity();
        }
        let overlaps = more || self.connection.slow_requests() > 0;
        self.overlapped |= overlaps;
        overlaps
    }

    /// Whether its client has waited for each reply for long: handing its requests over would only cost wake-ups.
    pub(crate) const fn is_lone(&self) -> bool {
        self.lone
    }

    /// The replies gathered and not sent yet; appended to.
    pub(crate) const fn replies(&mut self) -> &mut Vec<u8> {
        &mut self.replies.out
    }

    /// Sends what was gathered; before a request that waits.
    ///
    /// # Errors
    /// The socket's: the connection is of no use any more.
    pub(crate) fn send(&mut self) -> Result<(), Ended> {
        let connection = self.connection;
        Ok(self.replies.send(|bytes| connection.send(bytes))?)
    }

    /// The same once it is much.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) fn send_if_large(&mut self) -> Result<(), Ended> {
        if self.replies.out.len() >= REPLY_BYTES_GATHERED { self.send() } else { Ok(()) }
    }

    /// Has what was gathered from `start` on leave at `due`, and not before.
    ///
    /// # Errors
    /// As [`Self::send`]: what was gathered before is sent at once, since delaying may wait for memory.
    pub(crate) fn delay(&mut self, start: usize, due: Instant) -> Result<(), Ended> {
        let delayed = self.replies.out.split_off(start);
        self.send()?;
        self.workers.delayed().delay(self.connection, due, delayed);
        Ok(())
    }

    /// Memory for a slow request of so many bytes, its reply counted; none when as much waits as may.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<Reservation> {
        self.workers.reserve(self.connection, bytes)
    }

    /// Hands a request to a worker, with others of its `group` if there are.
    ///
    /// # Errors
    /// The request, when the workers take none and the caller has to carry it out.
    pub(crate) fn submit(&self, reservation: Reservation, group: Option<u64>, request: S::Request) -> Result<(), S::Request> {
        let connection = Arc::clone(self.connection);
        let job = Job { connection, request, reservation, group, received_at: Instant::now() };
        self.workers.submit(job).map_err(|job| job.request)
    }

    /// A number that requests of this connection alone have as their group.
    pub(crate) fn own_group(&self) -> u64 {
        Arc::as_ptr(self.connection).addr() as u64
    }

    /// Goes over to TLS once the replies have left. Nothing more is to be served before.
    pub(crate) const fn start_tls(&mut self) {
        self.starts_tls = true;
    }

    /// Ends the connection so that its peer sees a reset.
    pub(crate) fn reset(&self) {
        self.connection.reset();
    }
}
