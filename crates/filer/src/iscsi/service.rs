//! iSCSI as a service on connections.

use std::sync::Arc;

use rpc_tls::ServerTls;

use super::iscsi::Iscsi;
use super::session::Session;
use super::worker::{self, Request};
use crate::connections::connection::Connection;
use crate::connections::delayed_replies::DelayedReplies;
use crate::connections::ended::Ended;
use crate::connections::queue::Job;
use crate::connections::service::Service;
use crate::connections::turn::Turn;
use crate::connections::workers::CarryOut;

/// iSCSI on connections.
pub(crate) struct IscsiService(Arc<Iscsi>);

impl IscsiService {
    pub(crate) const fn new(iscsi: Arc<Iscsi>) -> Self {
        Self(iscsi)
    }

    /// A connection that begins, in the portal group of this tag.
    pub(crate) fn session(&self, connection: &Arc<Connection>, portal_group_tag: u16) -> Session {
        Session::new(&self.0, connection, portal_group_tag)
    }
}

impl Service for IscsiService {
    type Session = Session;

    fn serve(&self, session: &mut Session, turn: &mut Turn<'_, Self>) -> Result<(), Ended> {
        session.serve(turn)
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
