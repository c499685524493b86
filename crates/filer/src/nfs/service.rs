//! NFS on a connection: records in, each call served where it is quickest, replies out.

use std::sync::Arc;

use nfs_proto::limits::RECORD_BYTES_MAX;
use nfs_proto::record::{self, RecordError};
use nfs_proto::rpc::encode_starttls;
use rpc_tls::ServerTls;

use super::batch::{self, Request};
use super::call::{Call, Served};
use super::channels::Attachment;
use super::dispatch;
use super::exports::View;
use super::filer::Filer;
use super::handlers;
use super::policy::{Peer, Security};
use crate::connections::connection::Connection;
use crate::connections::delayed_replies::DelayedReplies;
use crate::connections::ended::Ended;
use crate::connections::queue::Job;
use crate::connections::receive_buffer::Framed;
use crate::connections::service::Service;
use crate::connections::turn::{Outgoing, Turn};
use crate::connections::workers::CarryOut;
use crate::listener::ListenerRole;

/// NFS version 3 and what belongs to it.
pub(crate) struct Nfs {
    filer: Arc<Filer>,
}

/// A connection as NFS has it.
pub(crate) struct Session {
    view: Arc<View>,
    upgrade: Upgrade,
}

/// Where a connection stands on its way to TLS (RFC 9289 4.1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upgrade {
    /// Nothing but NULL was called: no reply in the clear can fall into a handshake.
    Possible,
    /// Not any more, or there is no TLS.
    Over,
}

/// A connection whose client has ended it for good, as the log has it.
const FENCED: Ended = Ended::ByService("connection closed at the demand of its client (CHANNEL)");

/// Looks for one record at the start of what was received.
///
/// # Errors
/// The bytes are not record-marked RPC: the connection has to be closed.
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

    /// A connection that begins, at a listener of this role.
    pub(crate) fn session(&self, connection: &Arc<Connection>, role: ListenerRole) -> Session {
        let attachment = Arc::new(Attachment::new(connection));
        let view = self.filer.view_of(Peer::at(connection.peer, role), Some(attachment));
        let upgrade = if role == ListenerRole::Nfs && self.filer.tls().is_some() { Upgrade::Possible } else { Upgrade::Over };
        Session { view, upgrade }
    }

    /// Serves one call.
    fn call(&self, view: &Arc<View>, call: &Call<'_>, more: bool, out: &mut Outgoing<'_, Self>) -> Result<(), Ended> {
        let overlaps = out.begin(more);
        let slow = call.is_slow();
        // A lone slow call is quicker on the thread that has it; a read that turns out cold, if its client waits for each.
        if slow && overlaps && submitted(view, call, out) {
            return Ok(());
        }
        if slow || handlers::waits_for_others(call) {
            out.send()?;
        }
        let mut start = out.replies().len();
        let mut served = dispatch::serve_call(&self.filer, view, &call.without_waiting(), out.replies());
        if served == Served::Cold {
            if (overlaps || !out.is_lone()) && submitted(view, call, out) {
                return Ok(());
            }
            out.send()?;
            start = 0;
            served = dispatch::serve_call(&self.filer, view, call, out.replies());
        }
        match served {
            Served::Answered | Served::Cold => {}
            Served::Due(due) => out.delay(start, due)?,
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
        self.filer.renew(&mut session.view);
        let Turn { received, out } = turn;
        while let Some(record) = received.next_frame(frame).map_err(|error| Ended::Protocol(format!("read a call: {error}")))? {
            if session.view.is_fenced() {
                return Err(FENCED);
            }
            let call = Call::parse(record.bytes).ok_or_else(not_a_call)?;
            if session.starts_tls(&call, record.more)? {
                encode_starttls(call.xid(), out.replies());
                out.start_tls();
                break;
            }
            self.call(&session.view, &call, record.more, out)?;
        }
        Ok(())
    }

    fn tls(&self) -> Option<ServerTls> {
        self.filer.tls()
    }

    fn secured(&self, session: &mut Session, certified: bool) {
        let security = if certified { Security::Certified } else { Security::Tls };
        session.view = self.filer.view_with(&session.view, security);
    }
}

impl CarryOut for Nfs {
    type Request = Request;

    fn carry_out(&self, jobs: Vec<Job<Request>>, delayed: &DelayedReplies, out: &mut Vec<u8>) {
        batch::carry_out(&self.filer, jobs, delayed, out);
    }
}

impl Session {
    /// Whether this call asks for TLS while it can be had; `more`: something came behind it, which could only be injected.
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

/// Gives a slow call to a worker, if it may wait.
fn submitted(view: &Arc<View>, call: &Call<'_>, out: &Outgoing<'_, Nfs>) -> bool {
    let Some(reservation) = out.reserve(call.record.len() + call.reply_bytes_max()) else { return false };
    let group = batch::group(call, view, out.own_group());
    out.submit(reservation, group, Request { view: Arc::clone(view), record: call.record.to_vec() }).is_ok()
}
