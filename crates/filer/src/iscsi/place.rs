//! What the iSCSI protocol asks of the filer for one connection: decisions about its login, and the LUNs of its session.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use iscsi_proto::chap::Algorithm;
use iscsi_proto::login::{LoginStatus, Name};
use iscsi_proto::pdu;
use iscsi_proto::scsi::{Direction, Lun as LunNumber};
use iscsi_proto::target::{Access, Authentication, AuthenticationFault, Ending, Host, Opening, Purpose, Replies, Tsih};

use super::attached::{Attached, Mapped};
use super::command::Sender;
use super::iscsi::Iscsi;
use super::memory::Held;
use super::sessions::{SessionEntry, nexus};
use super::targets::Target;
use crate::connections::connection::Connection;
use crate::luns::Lun;

/// A connection's target and session.
pub(super) struct Place {
    pub(super) iscsi: Arc<Iscsi>,
    connection: Arc<Connection>,
    replies: Replies,
    /// The local address that the initiator connected to.
    local: Option<SocketAddr>,
    portal_group_tag: u16,
    opened: RefCell<Option<Opened>>,
    /// The memory that this connection holds for data of its commands.
    pub(super) held: Held,
    /// The LUNs that the session sees. `None` before login, and in a discovery session.
    pub(super) view: Option<View>,
}

/// A session whose login succeeded.
struct Opened {
    tsih: Tsih,
    entry: Arc<SessionEntry>,
}

/// The LUNs of a target as one session sees them.
pub(super) struct View {
    pub(super) target: Arc<Target>,
    generation: (u64, u64),
    /// The initiator, with the LUNs that are mapped to it.
    pub(super) sender: Arc<Sender>,
}

impl Place {
    pub(super) fn new(
        iscsi: &Arc<Iscsi>,
        connection: &Arc<Connection>,
        replies: &Replies,
        portal_group_tag: u16,
        held: Held,
    ) -> Self {
        Self {
            iscsi: Arc::clone(iscsi),
            connection: Arc::clone(connection),
            replies: replies.clone(),
            local: connection.local(),
            portal_group_tag,
            opened: RefCell::new(None),
            held,
            view: None,
        }
    }

    /// Attaches a new session to the LUNs that it sees.
    pub(super) fn enter(&mut self) {
        let opened = self.opened.borrow();
        let Some(entry) = opened.as_ref().map(|opened| &opened.entry) else { return };
        let (Some(target), Some(nexus)) = (&entry.target, entry.nexus()) else { return };
        let Some(target) = self.iscsi.targets.named(target) else { return };
        let sender = Sender {
            nexus: nexus.clone(),
            export: Arc::clone(&target.export),
            mapped: Mapped(Vec::new()),
            replies: self.replies.clone(),
        };
        self.view = Some(View { target, generation: (0, 0), sender: Arc::new(sender) });
        drop(opened);
        self.renew();
    }

    /// Updates the list of LUNs, if it has changed.
    pub(super) fn renew(&mut self) {
        let Some(view) = &mut self.view else { return };
        let generation = (view.target.luns.generation(), self.iscsi.generation());
        if view.generation == generation {
            return;
        }
        view.generation = generation;
        let settings = self.iscsi.settings();
        let before = Arc::clone(&view.sender);
        let nexus = &before.nexus;
        let visible = |lun: &Arc<Lun>| settings.maps(&lun.record().initiators, nexus.initiator_name());
        let now: Vec<Arc<Lun>> = view.target.luns.all().into_iter().filter(visible).collect();
        let mut units = Vec::new();
        for lun in now {
            let Some(number) = LunNumber::new(lun.number()) else { continue };
            let unit = lun.unit();
            let known = before.mapped.0.iter().find(|known| Arc::ptr_eq(&known.unit, &unit));
            units.push(known.cloned().unwrap_or_else(|| Arc::new(Attached::new(number, &lun, unit, nexus))));
        }
        let is_gone = |attached: &&Arc<Attached>| !units.iter().any(|now| Arc::ptr_eq(&now.unit, &attached.unit));
        before.mapped.0.iter().filter(is_gone).for_each(|attached| attached.unit.detach(nexus));
        if !units.is_empty() {
            self.connection.set_known(true);
        }
        let (nexus, export, replies) = (nexus.clone(), Arc::clone(&before.export), before.replies.clone());
        view.sender = Arc::new(Sender { nexus, export, mapped: Mapped(units), replies });
    }

    /// Whether a LUN of the target is mapped to the initiator.
    fn sees(&self, target: &Target, initiator: &str) -> bool {
        let settings = self.iscsi.settings();
        target.luns.all().iter().any(|lun| settings.maps(&lun.record().initiators, initiator))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(view) = &self.view {
            view.sender.mapped.0.iter().for_each(|attached| attached.unit.detach(&view.sender.nexus));
        }
        if let Some(Opened { tsih, entry }) = self.opened.take() {
            self.iscsi.sessions.close(tsih, &entry);
        }
    }
}

impl Host for Place {
    fn access(&self, initiator: &Name, target: Option<&Name>) -> Result<Access, LoginStatus> {
        let mut alias = None;
        if let Some(name) = target {
            let target = self.iscsi.targets.named(name.as_str()).ok_or(LoginStatus::NOT_FOUND)?;
            // A login at a target without LUNs is accepted, so that a session can exist before the first LUN is created.
            if !target.luns.all().is_empty() && !self.sees(&target, initiator.as_str()) {
                self.iscsi.refused_logins.log_unmapped(initiator, name);
                return Err(LoginStatus::AUTHORIZATION_FAILED);
            }
            alias = Some(target.export.name().to_owned());
        }
        let settings = self.iscsi.settings();
        let authentication = if settings.users.is_empty() {
            Authentication::None
        } else {
            let accepted = settings.users_of(initiator.as_str());
            Authentication::Chap { accepted, algorithms: Algorithm::ALL.to_vec(), own: settings.own.clone() }
        };
        Ok(Access { portal_group_tag: self.portal_group_tag, alias, authentication })
    }

    fn authentication_failed(&self, initiator: &Name, user: Option<&str>, fault: AuthenticationFault) {
        let peer = self.connection.peer;
        self.iscsi.refused_logins.log(&self.iscsi.settings(), peer, initiator, user, fault);
    }

    fn open(&self, opening: &Opening) -> Result<Tsih, LoginStatus> {
        if self.iscsi.is_stopping() {
            return Err(LoginStatus::SERVICE_UNAVAILABLE);
        }
        let nexus = match &opening.target {
            None => None,
            Some(_) => {
                let port = self.iscsi.relative_port(opening.portal_group_tag);
                Some(nexus(&opening.initiator, opening.isid, port).ok_or(LoginStatus::INITIATOR_ERROR)?)
            }
        };
        let (tsih, entry) = self.iscsi.sessions.open(opening, nexus, &self.connection, &self.replies)?;
        if opening.user.is_some() {
            self.connection.set_known(true);
        }
        *self.opened.borrow_mut() = Some(Opened { tsih, entry });
        Ok(tsih)
    }

    fn end_session(&self, initiator: &Name, target: &Name, which: Ending) -> Option<bool> {
        Some(self.iscsi.sessions.end(initiator.as_str(), target.as_str(), which, &self.connection))
    }

    fn targets(&self, initiator: &Name, visit: &mut dyn FnMut(&Name, &[String])) {
        let addresses = self.iscsi.addresses(self.local);
        for (name, target) in self.iscsi.targets.all().iter() {
            if let Ok(name) = Name::new(name)
                && self.sees(target, initiator.as_str())
            {
                visit(&name, &addresses);
            }
        }
    }

    fn data_out_bytes(&self, lun: pdu::Lun, cdb: &[u8]) -> u64 {
        let attached = self.view.as_ref().and_then(|view| view.sender.mapped.at(lun));
        let expected = attached.map(|attached| attached.unit.expected_data(cdb));
        expected.filter(|expected| expected.direction == Direction::Out).map_or(0, |expected| expected.bytes)
    }

    fn reserve(&self, bytes: usize, purpose: Purpose) -> bool {
        self.held.take(bytes, purpose)
    }
}
