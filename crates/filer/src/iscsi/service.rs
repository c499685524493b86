//! iSCSI as a service on connections.

use std::sync::Arc;

use rpc_tls::ServerTls;

use super::iscsi::Iscsi;
use super::memory::CommandMemory;
use super::session::Session;
use super::worker::{self, Request};
use crate::connections::Totals;
use crate::connections::connection::Connection;
use crate::connections::delayed_replies::DelayedReplies;
use crate::connections::ended::Ended;
use crate::connections::queue::Job;
use crate::connections::service::Service;
use crate::connections::turn::{Outgoing, Turn};
use crate::connections::workers::CarryOut;

/// iSCSI on connections.
pub(crate) struct IscsiService {
    iscsi: Arc<Iscsi>,
    memory: Arc<CommandMemory>,
}

impl IscsiService {
    pub(crate) fn new(iscsi: Arc<Iscsi>, totals: Arc<Totals>) -> Self {
        Self { iscsi, memory: CommandMemory::new(totals) }
    }

    /// The session of a new connection in the portal group with this tag.
    pub(crate) fn session(&self, connection: &Arc<Connection>, portal_group_tag: u16) -> Session {
        Session::new(&self.iscsi, connection, portal_group_tag, self.memory.begin(connection.client()))
    }
}

impl Service for IscsiService {
    type Session = Session;

    fn serve(&self, session: &mut Session, turn: &mut Turn<'_, Self>) -> Result<(), Ended> {
        session.serve(turn)
    }

    fn waits(&self, session: &Session) -> bool {
        session.waits()
    }

    fn tick(&self, session: &mut Session, out: &mut Outgoing<'_, Self>) -> Result<(), Ended> {
        session.expire(out.replies());
        Ok(())
    }

    fn tls(&self) -> Option<ServerTls> {
        None
    }

    fn secured(&self, _session: &mut Session, _certified: bool) {}
}

impl CarryOut for IscsiService {
    type Request = Request;

    fn carry_out(&self, jobs: Vec<Job<Request>>, delayed: &DelayedReplies, out: &mut Vec<u8>) {
        worker::carry_out(jobs, delayed, out);
    }
}
