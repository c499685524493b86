//! The thread of a connection: receives, has the service serve what came, sends.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use super::Totals;
use super::buffers::Buffers;
use super::connection::Connection;
use super::ended::Ended;
use super::frame_timer::FrameTimer;
use super::replies::Replies;
use super::service::Service;
use super::transport::{ReceiveFault, Receiver};
use super::turn::{Outgoing, Turn};
use super::workers::Workers;
use crate::limits::{BUFFER_BYTES_MAX, BUFFER_IDLE, LONE_TURNS};

/// A service, and the threads beside its connections.
pub(crate) struct Driver<S: Service> {
    service: Arc<S>,
    workers: Workers<S>,
    totals: Arc<Totals>,
}

/// What a turn ended with.
struct TurnEnd {
    overlapped: bool,
    starts_tls: bool,
}

impl<S: Service> Driver<S> {
    pub(crate) fn new(service: Arc<S>, totals: Arc<Totals>) -> Self {
        Self { workers: Workers::new(Arc::clone(&service), Arc::clone(&totals)), service, totals }
    }

    /// The protocol.
    pub(crate) fn service(&self) -> &S {
        &self.service
    }

    /// The threads for slow requests.
    pub(crate) const fn workers(&self) -> &Workers<S> {
        &self.workers
    }

    /// Serves a connection until it ends.
    pub(crate) fn run(&self, connection: &Arc<Connection>, mut session: S::Session) -> Ended {
        match self.drive(connection, &mut session) {
            Ok(()) => Ended::Closed,
            Err(ended) => {
                if !matches!(ended, Ended::Socket(_) | Ended::Reset) {
                    connection.drop_now();
                }
                ended
            }
        }
    }

    fn drive(&self, connection: &Arc<Connection>, session: &mut S::Session) -> Result<(), Ended> {
        let transport = &connection.transport;
        let mut buffers = Buffers::new(&self.totals);
        let (mut timed, mut timer, mut lone_turns) = (false, FrameTimer::default(), 0);
        loop {
            let partial = buffers.received.partial();
            if !timer.is_in_time(partial, self.totals.is_short(), Instant::now) {
                return Err(Ended::Stalled);
            }
            // A connection with memory to give back, or with a part of a frame, receives with a time limit and so does not sleep
            // for ever. One with neither costs no timer.
            if !timed && (partial.is_some() || buffers.have_spare()) {
                timed = transport.set_receive_timeout(Some(BUFFER_IDLE));
            }
            timer.exclude(buffers.make_space()?);
            let bytes = match buffers.receiver.receive(transport, buffers.received.space()) {
                Ok(0) => break,
                Ok(bytes) => bytes,
                Err(ReceiveFault::Socket(error)) if error.kind() == ErrorKind::Interrupted => continue,
                Err(ReceiveFault::Socket(error)) if error.kind() == ErrorKind::WouldBlock => {
                    buffers.shrink_idle();
                    transport.shrink_idle();
                    timed = partial.is_some() || transport.set_receive_timeout(None);
                    continue;
                }
                Err(fault) => return Err(fault.into()),
            };
            buffers.received.filled(bytes);
            let lone = lone_turns >= LONE_TURNS;
            let TurnEnd { overlapped, starts_tls } = catch(|| self.turn(connection, session, &mut buffers, lone))?;
            lone_turns = if overlapped { 0 } else { (lone_turns + 1).min(LONE_TURNS) };
            if starts_tls {
                catch(|| self.tls_handshake(connection, session, &mut buffers.receiver))?;
                timed = transport.set_receive_timeout(None);
            }
            if buffers.end_turn() > BUFFER_BYTES_MAX && buffers.have_spare() {
                return Err(Ended::BuffersFull);
            }
            if overlapped {
                // Of a client that has many requests under way the next few are there already, and more while others have their
                // turn: the more a turn finds, the less each costs. One that waits for each reply is never held up by this.
                std::thread::yield_now();
            }
        }
        let mut out = outgoing(connection, &self.workers, &mut buffers.replies, false);
        catch(|| self.service.ending(session, &mut out))?;
        out.send()?;
        // A reply still to come is worth more than an orderly end.
        if buffers.receiver.is_closed() && connection.slow_requests() == 0 {
            transport.close_notify();
        }
        Ok(())
    }

    /// Serves what was received and sends the replies together.
    fn turn(
        &self,
        connection: &Arc<Connection>,
        session: &mut S::Session,
        buffers: &mut Buffers<'_>,
        lone: bool,
    ) -> Result<TurnEnd, Ended> {
        let (received, replies) = (&mut buffers.received, &mut buffers.replies);
        replies.out.clear();
        let out = outgoing(connection, &self.workers, replies, lone);
        let mut turn = Turn { received, out };
        self.service.serve(session, &mut turn)?;
        turn.out.send()?;
        Ok(TurnEnd { overlapped: turn.out.overlapped, starts_tls: turn.out.starts_tls })
    }

    /// Goes over to TLS.
    fn tls_handshake(&self, connection: &Connection, session: &mut S::Session, receiver: &mut Receiver) -> Result<(), Ended> {
        let Some(tls) = self.service.tls() else { return Err(Ended::Protocol("start TLS: it was switched off".into())) };
        let certified = connection.transport.tls_handshake(&tls, receiver)?;
        tracing::debug!(peer = %connection.peer, certified, "TLS");
        self.service.secured(session, certified);
        Ok(())
    }
}

fn outgoing<'t, S: Service>(
    connection: &'t Arc<Connection>,
    workers: &'t Workers<S>,
    replies: &'t mut Replies,
    lone: bool,
) -> Outgoing<'t, S> {
    let (begun, overlapped, starts_tls) = Default::default();
    Outgoing { connection, replies, workers, lone, begun, overlapped, starts_tls }
}

/// A panic costs the connection, not the process.
fn catch<T>(serve: impl FnOnce() -> Result<T, Ended>) -> Result<T, Ended> {
    catch_unwind(AssertUnwindSafe(serve)).map_err(|_| Ended::Panic)?
}
