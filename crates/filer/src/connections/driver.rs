//! The thread of a connection: it receives, lets the service execute the requests, and sends. It leaves an idle connection.

use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use super::Totals;
use super::buffers::Buffers;
use super::connection::Connection;
use super::ended::Ended;
use super::frame_timer::FrameTimer;
use super::parking::{Resume, Stay};
use super::replies::Replies;
use super::service::Service;
use super::transport::{ReceiveFault, Receiver, Transport};
use super::turn::{Outgoing, Turn};
use super::workers::Workers;
use crate::limits::{BUFFER_BYTES_MAX, BUFFER_IDLE, CROWDED_TURN, LONE_TURNS, PARKED_AFTER_WAITS};

/// A service, and the worker threads that all its connections share.
pub(crate) struct Driver<S: Service> {
    service: Arc<S>,
    workers: Workers<S>,
    totals: Arc<Totals>,
}

/// The parts of an idle connection without a thread that are kept, except its session.
struct Kept {
    receiver: Receiver,
    /// Large buffers of its client.
    share: Arc<AtomicUsize>,
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

    /// The closure that serves a new connection.
    pub(crate) fn begin(self: &Arc<Self>, connection: &Arc<Connection>, session: S::Session) -> Resume {
        let share = self.totals.shares.of(connection.client());
        self.later(Arc::clone(connection), session, Kept { receiver: Receiver::default(), share })
    }

    fn later(self: &Arc<Self>, connection: Arc<Connection>, session: S::Session, kept: Kept) -> Resume {
        let driver = Arc::clone(self);
        Box::new(move || driver.run(connection, session, kept))
    }

    /// Serves a connection until it ends or is idle.
    fn run(self: Arc<Self>, connection: Arc<Connection>, mut session: S::Session, kept: Kept) -> Stay {
        match self.drive(&connection, &mut session, kept) {
            Ok(Some(kept)) => Stay::Idle(self.later(connection, session, kept)),
            Ok(None) => {
                self.service.closed(&connection);
                Stay::Ended(Ended::Closed)
            }
            Err(ended) => {
                if !matches!(ended, Ended::Socket(_) | Ended::Reset) {
                    connection.drop_now();
                }
                Stay::Ended(ended)
            }
        }
    }

    /// Serves a connection. When the connection is idle, returns the parts that are kept. Returns `None` when the peer has closed
    /// it.
    fn drive(&self, connection: &Arc<Connection>, session: &mut S::Session, kept: Kept) -> Result<Option<Kept>, Ended> {
        let transport = &connection.transport;
        let mut buffers = Buffers::new(&self.totals, &kept.share, kept.receiver);
        let (mut timer, mut lone_turns, mut idle_waits, begun) = (FrameTimer::default(), 0, 0, Instant::now());
        let mut receive_timeout = BUFFER_IDLE;
        transport.set_receive_timeout(receive_timeout)?;
        loop {
            let partial = buffers.received.partial();
            if !timer.is_in_time(partial, buffers.are_short(), Instant::now) {
                return Err(Ended::Stalled);
            }
            timer.exclude(buffers.make_space()?);
            let idle_limit = self.totals.crowd.idle_limit().filter(|_| self.may_leave(connection, session, &buffers));
            change_timeout(transport, &mut receive_timeout, idle_limit.unwrap_or(BUFFER_IDLE))?;
            let bytes = match buffers.receiver.receive(transport, buffers.received.space()) {
                Ok(0) => break,
                Ok(bytes) => bytes,
                Err(ReceiveFault::Socket(error)) if error.kind() == ErrorKind::Interrupted => continue,
                Err(ReceiveFault::Socket(error)) if error.kind() == ErrorKind::WouldBlock => {
                    idle_waits += 1;
                    if partial.is_none() && self.may_park(connection, session, idle_waits) {
                        transport.shrink_idle();
                        buffers.receiver.shrink();
                        return Ok(Some(Kept { receiver: std::mem::take(&mut buffers.receiver), share: kept.share }));
                    }
                    buffers.shrink_idle();
                    transport.shrink_idle();
                    catch(|| self.tick(connection, session, &mut buffers))?;
                    continue;
                }
                Err(fault) => return Err(fault.into()),
            };
            idle_waits = 0;
            buffers.received.filled(bytes);
            let lone = lone_turns >= LONE_TURNS;
            let TurnEnd { overlapped, starts_tls } = catch(|| self.turn(connection, session, &mut buffers, lone))?;
            lone_turns = if overlapped { 0 } else { (lone_turns + 1).min(LONE_TURNS) };
            if starts_tls {
                catch(|| self.tls_handshake(connection, session, &mut buffers.receiver))?;
                receive_timeout = BUFFER_IDLE;
                transport.set_receive_timeout(receive_timeout)?;
            }
            if buffers.end_turn() > BUFFER_BYTES_MAX && buffers.have_spare() {
                return Err(Ended::BuffersFull);
            }
            if self.totals.crowd.is_waited_for()
                && begun.elapsed() >= CROWDED_TURN
                && self.may_leave(connection, session, &buffers)
            {
                return Ok(Some(Kept { receiver: std::mem::take(&mut buffers.receiver), share: kept.share }));
            }
            if overlapped {
                // A client with many requests in progress has sent the next few already, and sends more while other threads run.
                // The more requests one turn finds, the less each costs. A client that waits for each reply is not delayed by this.
                std::thread::yield_now();
            }
        }
        let mut out = outgoing(connection, &self.workers, (&mut buffers.replies, &buffers.share), false);
        catch(|| self.service.ending(session, &mut out))?;
        out.send()?;
        // A close_notify would come before a reply of a slow request. The reply matters more.
        if buffers.receiver.is_closed() && connection.slow_requests() == 0 {
            transport.close_notify();
        }
        Ok(None)
    }

    /// Whether a connection gives up its thread after `idle_waits` receives in a row that timed out.
    fn may_park(&self, connection: &Connection, session: &S::Session, idle_waits: u32) -> bool {
        let waits = if self.totals.crowd.idle_limit().is_some() { 1 } else { PARKED_AFTER_WAITS };
        idle_waits >= waits && connection.slow_requests() == 0 && !self.service.waits(session)
    }

    /// Whether a busy connection can give up its thread after a turn: all received requests are executed and answered.
    fn may_leave(&self, connection: &Connection, session: &S::Session, buffers: &Buffers<'_>) -> bool {
        let is_empty = buffers.received.partial().is_none() && buffers.receiver.is_empty();
        is_empty && connection.slow_requests() == 0 && !self.service.waits(session)
    }

    /// Serves what was received and sends the replies together.
    fn turn(
        &self,
        connection: &Arc<Connection>,
        session: &mut S::Session,
        buffers: &mut Buffers<'_>,
        lone: bool,
    ) -> Result<TurnEnd, Ended> {
        let Buffers { received, replies, share, .. } = buffers;
        replies.out.clear();
        let out = outgoing(connection, &self.workers, (replies, share), lone);
        let mut turn = Turn { received, out };
        self.service.serve(session, &mut turn)?;
        turn.out.send()?;
        Ok(TurnEnd { overlapped: turn.out.overlapped, starts_tls: turn.out.starts_tls })
    }

    fn tick(&self, connection: &Arc<Connection>, session: &mut S::Session, buffers: &mut Buffers<'_>) -> Result<(), Ended> {
        let mut out = outgoing(connection, &self.workers, (&mut buffers.replies, &buffers.share), false);
        self.service.tick(session, &mut out)?;
        out.send()
    }

    /// Starts TLS.
    fn tls_handshake(&self, connection: &Connection, session: &mut S::Session, receiver: &mut Receiver) -> Result<(), Ended> {
        let Some(tls) = self.service.tls() else {
            return Err(Ended::Protocol("start TLS: TLS was switched off meanwhile".into()));
        };
        let certified = connection.transport.tls_handshake(&tls, receiver)?;
        tracing::debug!(peer = %connection.peer, certified, "TLS");
        self.service.secured(session, certified);
        Ok(())
    }
}

/// Sets the time limit of receives, if it differs from the current one.
fn change_timeout(transport: &Transport, now: &mut Duration, to: Duration) -> io::Result<()> {
    if *now != to {
        transport.set_receive_timeout(to)?;
        *now = to;
    }
    Ok(())
}

fn outgoing<'t, S: Service>(
    connection: &'t Arc<Connection>,
    workers: &'t Workers<S>,
    (replies, share): (&'t mut Replies, &'t AtomicUsize),
    lone: bool,
) -> Outgoing<'t, S> {
    let (begun, overlapped, starts_tls) = Default::default();
    Outgoing { connection, replies, share, workers, lone, begun, overlapped, starts_tls }
}

/// Turns a panic into the end of the connection, so that the process survives.
fn catch<T>(serve: impl FnOnce() -> Result<T, Ended>) -> Result<T, Ended> {
    catch_unwind(AssertUnwindSafe(serve)).map_err(|_| Ended::Panic)?
}
