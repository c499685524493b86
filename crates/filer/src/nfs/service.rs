//! NFS on a connection: receives records, executes each call on the thread that is fastest for it, and sends replies.

use std::sync::Arc;

use nfs_proto::limits::RECORD_BYTES_MAX;
use nfs_proto::record::{self, RecordError};
use nfs_proto::rpc::encode_starttls;
use rpc_tls::ServerTls;

use super::batch::{self, Request};
use super::call::{Call, Marks, Served};
use super::channels::Attachment;
use super::dispatch;
use super::exports::View;
use super::filer::Filer;
use super::handlers;
use super::policy::{Peer, Security};
use super::views::OwnView;
use crate::connections::connection::Connection;
use crate::connections::delayed_replies::DelayedReplies;
use crate::connections::ended::Ended;
use crate::connections::queue::Job;
use crate::connections::receive_buffer::Framed;
use crate::connections::service::Service;
use crate::connections::turn::{Outgoing, Turn};
use crate::connections::workers::CarryOut;
use crate::listener::ListenerRole;

/// NFS version 3, MOUNT, portmap and CHANNEL.
pub(crate) struct Nfs {
    filer: Arc<Filer>,
}

/// The state of a connection for NFS.
pub(crate) struct Session {
    view: Arc<OwnView>,
    upgrade: Upgrade,
}

/// Whether a connection may start TLS (RFC 9289 4.1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upgrade {
    /// Only NULL was called so far, so no cleartext reply can arrive during a handshake.
    Possible,
    /// TLS cannot start any more, or is off.
    Over,
}

/// The reason in the log if the client fenced its connection.
const FENCED: Ended = Ended::ByService("connection closed at the demand of its client (CHANNEL)");

/// Finds one record at the start of the received bytes.
///
/// # Errors
/// The bytes are not record-marked RPC: the connection must be closed.
pub fn frame(unread: &mut [u8]) -> Result<Framed, RecordError> {
    Ok(match record::frame(unread, RECORD_BYTES_MAX)? {
        record::Framed::Incomplete { bytes_needed } => Framed::Incomplete { bytes_needed },
        record::Framed::Record { body, consumed } => Framed::Whole { body, consumed },
    })
}

impl Nfs {
    pub(crate) const fn new(filer: Arc<Filer>) -> Self {
        Self { filer }
    }

    /// The session of a new connection at a listener with this role.
    pub(crate) fn session(&self, connection: &Arc<Connection>, role: ListenerRole) -> Session {
        let attachment = Arc::new(Attachment::new(connection));
        let view = self.filer.own_view(Peer::at(connection.peer, role), attachment);
        let upgrade = if role == ListenerRole::Nfs && self.filer.tls().is_some() { Upgrade::Possible } else { Upgrade::Over };
        Session { view, upgrade }
    }

    /// Serves one call.
    fn call(&self, view: &Arc<View>, call: &Call<'_>, more: bool, out: &mut Outgoing<'_, Self>) -> Result<(), Ended> {
        let overlaps = out.begin(more);
        let slow = call.is_slow();
        // A single slow call is faster on this thread. So is a read of uncached data, if the client waits for each
        // reply. A listing of a large directory takes milliseconds. A worker executes it, so that calls of the client's other programs do
        // not wait.
        if slow && overlaps && submitted(view, call, out) {
            return Ok(());
        }
        if slow || handlers::waits_for_others(call) {
            out.send()?;
        }
        out.wait_for_space(call.reply_bytes_max())?;
        let mut start = out.replies().len();
        let marks = Marks::default();
        let call = &call.marking(&marks);
        let mut served = dispatch::serve_call(&self.filer, view, &call.without_waiting(), out.replies());
        if served == Served::Cold {
            if (overlaps || !out.is_lone() || call.is_listing()) && submitted(view, call, out) {
                return Ok(());
            }
            out.send()?;
            start = 0;
            served = dispatch::serve_call(&self.filer, view, call, out.replies());
        }
        match served {
            // If an injected fault dropped the reply, no bytes contain it, so its mark must not be set.
            Served::Answered if out.replies().len() > start => out.mark(marks.into_inner()),
            Served::Answered | Served::Cold => {}
            Served::Due(due) => out.delay(start, due, marks.into_inner())?,
            Served::Last => {
                out.send()?;
                return Err(FENCED);
            }
            Served::Reset => {
                out.reset();
                return Err(Ended::Reset);
            }
            Served::Close => return Err(not_a_call()),
        }
        out.send_if_large()
    }
}

impl Service for Nfs {
    type Session = Session;

    fn serve(&self, session: &mut Session, turn: &mut Turn<'_, Self>) -> Result<(), Ended> {
        let view = session.view.now();
        let Turn { received, out } = turn;
        while let Some(record) = received.next_frame(frame).map_err(|error| Ended::Protocol(format!("read a call: {error}")))? {
            if view.is_fenced() {
                return Err(FENCED);
            }
            let call = Call::parse(record.bytes).ok_or_else(not_a_call)?;
            if session.starts_tls(&call, record.more)? {
                encode_starttls(call.xid(), out.replies());
                out.start_tls();
                break;
            }
            self.call(&view, &call, record.more, out)?;
        }
        Ok(())
    }

    fn tls(&self) -> Option<ServerTls> {
        self.filer.tls()
    }

    fn closed(&self, connection: &Arc<Connection>) {
        self.filer.once.ended(connection);
    }

    fn secured(&self, session: &mut Session, certified: bool) {
        let security = if certified { Security::Certified } else { Security::Tls };
        session.view.replace(|view| self.filer.view_with(view, security));
    }
}

impl CarryOut for Nfs {
    type Request = Request;

    fn carry_out(&self, jobs: Vec<Job<Request>>, delayed: &DelayedReplies, out: &mut Vec<u8>) {
        batch::carry_out(&self.filer, jobs, delayed, out);
    }
}

impl Session {
    /// Whether this call starts TLS. `more`: bytes were received after it. An attacker may have injected them, so TLS is not started then.
    fn starts_tls(&mut self, call: &Call<'_>, more: bool) -> Result<bool, Ended> {
        if self.upgrade == Upgrade::Over {
            return Ok(false);
        }
        let asked = call.asks_for_tls();
        if asked && more {
            return Err(Ended::Protocol("start TLS: data in the clear follows the request for it".into()));
        }
        if asked || !call.is_null() {
            self.upgrade = Upgrade::Over;
        }
        Ok(asked)
    }
}

fn not_a_call() -> Ended {
    Ended::Protocol("read a call: not an RPC call".into())
}

/// Hands a slow call to a worker. Returns false if no worker takes it.
fn submitted(view: &Arc<View>, call: &Call<'_>, out: &Outgoing<'_, Nfs>) -> bool {
    let Some(reservation) = out.reserve(call.record.len() + call.reply_bytes_max()) else { return false };
    let group = batch::group(call, view, out.own_group());
    out.submit(reservation, batch::volume(call, view), group, Request { view: Arc::clone(view), record: call.record.to_vec() })
        .is_ok()
}
