//! The state that all iSCSI connections share, and iSCSI as a service of connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use host::Unpoisoned;

use super::refused_logins::RefusedLogins;
use super::sessions::{SessionEntry, Sessions};
use super::settings::{Portal, Settings};
use super::targets::{Target, Targets, ports};
use crate::limits::{ISCSI_CLOCK, STACK_BYTES};
use crate::luns::Naming;
use crate::nfs::exports::Exports;

/// The state that all iSCSI connections share. Each field synchronizes itself.
pub(crate) struct Iscsi {
    pub(crate) targets: Targets,
    pub(crate) sessions: Arc<Sessions>,
    settings: RwLock<Arc<Settings>>,
    /// Changes with the settings.
    generation: AtomicU64,
    /// Fixed at the start. To an initiator, other names and portals are other targets.
    naming: Naming,
    portals: Vec<Portal>,
    stopping: AtomicBool,
    pub(super) refused_logins: RefusedLogins,
}

impl Iscsi {
    /// Serves the LUNs of these exports at the bound portals.
    pub(crate) fn new(settings: Settings, portals: Vec<Portal>, exports: &Exports) -> Arc<Self> {
        let base = settings.base_name.as_ref().map(|base| base.to_lowercase());
        let naming = Naming { base, ports: ports(portals.iter().map(|portal| portal.tag)) };
        let iscsi = Arc::new(Self {
            targets: Targets::default(),
            sessions: Arc::default(),
            settings: RwLock::new(Arc::new(settings)),
            generation: AtomicU64::new(1),
            naming,
            portals,
            stopping: AtomicBool::new(false),
            refused_logins: RefusedLogins::default(),
        });
        iscsi.adopt(exports);
        iscsi
    }

    /// Makes exactly the volumes of these exports targets. Ends sessions with other targets.
    pub(crate) fn adopt(&self, exports: &Exports) {
        self.targets.adopt(exports, &self.naming, &self.sessions);
        let targets = self.targets.all();
        let is_gone = |entry: &Arc<SessionEntry>| entry.target.as_ref().is_some_and(|target| !targets.contains_key(target));
        self.sessions.all().into_iter().filter(is_gone).for_each(|entry| entry.drop_connection());
    }

    /// Replaces the settings. Names and portals stay as they are.
    pub(crate) fn set(&self, settings: Settings) {
        *self.settings.write().unpoisoned() = Arc::new(settings);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The current settings.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unpoisoned())
    }

    /// Changes with the settings.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The relative port identifier of a portal group.
    pub(super) fn relative_port(&self, tag: u16) -> u16 {
        let port = self.naming.ports.iter().find(|port| port.portal_group_tag == tag);
        port.map_or(1, |port| port.relative_port)
    }

    /// The addresses of all portals, as targets are listed. For a wildcard address, the address by which the initiator reached
    /// the filer.
    pub(super) fn addresses(&self, reached: Option<SocketAddr>) -> Vec<String> {
        let address = |portal: &Portal| {
            let ip = portal.address.ip();
            let ip = if ip.is_unspecified() { reached.map_or(ip, |reached| reached.ip().to_canonical()) } else { ip };
            format!("{},{}", SocketAddr::new(ip, portal.address.port()), portal.tag)
        };
        self.portals.iter().map(address).collect()
    }

    /// The bound portals.
    pub(crate) fn portals(&self) -> &[Portal] {
        &self.portals
    }

    /// Whether no further session may begin.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Asks initiators to log out, and refuses further logins.
    pub(crate) fn end_sessions(&self, limit: Duration) {
        self.stopping.store(true, Ordering::Release);
        self.sessions.end_all(limit);
    }

    /// Restarts all units after a power cut. There is no session at this time.
    pub(crate) fn power_cycle(&self) {
        self.targets.all().values().for_each(|target| target.luns.power_cycle());
    }

    /// All targets, by name.
    pub(crate) fn all_targets(&self) -> Arc<BTreeMap<String, Arc<Target>>> {
        self.targets.all()
    }

    /// Starts the thread that checks the deadlines of connections. The thread ends with the filer.
    pub(crate) fn start_clock(self: &Arc<Self>) {
        let iscsi = Arc::downgrade(self);
        let watch = move || {
            while let Some(iscsi) = iscsi.upgrade() {
                iscsi.sessions.tick();
                drop(iscsi);
                std::thread::sleep(ISCSI_CLOCK);
            }
        };
        let thread = std::thread::Builder::new().name("iscsi-clock".into()).stack_size(STACK_BYTES);
        if let Err(error) = thread.spawn(watch) {
            tracing::error!(%error, "failed to start a thread: initiators that vanish keep their sessions");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portal_of_all_addresses_is_listed_with_the_one_that_was_reached() {
        let portals = Portal::each(&["0.0.0.0:3260".parse().unwrap(), "[2001:db8::1]:3261".parse().unwrap()]);
        let iscsi = Iscsi {
            targets: Targets::default(),
            sessions: Arc::default(),
            settings: RwLock::default(),
            generation: AtomicU64::new(1),
            naming: Naming::default(),
            portals,
            stopping: AtomicBool::new(false),
            refused_logins: RefusedLogins::default(),
        };
        let reached = Some("10.1.0.5:3260".parse().unwrap());
        assert_eq!(iscsi.addresses(reached), ["10.1.0.5:3260,1", "[2001:db8::1]:3261,2"]);
    }
}
