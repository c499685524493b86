//! A running filer: the services and the connections they share, reload, simulated power cut, stop.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use host::Unpoisoned;
use volume::CutReport;

use crate::config::ConfigError;
use crate::config::edit::EditError;
use crate::connections::Totals;
use crate::connections::acceptor::{Acceptor, Judge, Serve, Served, Standing};
use crate::connections::admission::Pool;
use crate::connections::driver::Driver;
use crate::connections::table::ConnectionTable;
use crate::connections::workers::Workers;
use crate::iscsi::{self, Iscsi, IscsiService, Portal};
use crate::limits::{CLOSE_TIMEOUT, ISCSI_LOGOUT_WAIT, STOP_TIMEOUT};
use crate::listener::{Listener, ListenerRole};
use crate::nfs::export::Export;
use crate::nfs::exports::Exports;
use crate::nfs::filer::Filer;
use crate::nfs::service::Nfs;
use crate::setup::{ChangeError, Quotas, Reloaded, Setup};

/// A running filer.
pub struct Server {
    filer: Arc<Filer>,
    setup: Mutex<Option<Setup>>, // taken for the time of a reload
    acceptor: Arc<Acceptor>,
    nfs: Arc<Driver<Nfs>>,
    iscsi: Arc<Iscsi>,
    iscsi_driver: Arc<Driver<IscsiService>>,
    totals: Arc<Totals>,
    started: Instant,
}

impl Server {
    /// A server that is ready to [`Server::run`]. `setup` is the configuration it was made from, if there is one. LUNs are known and
    /// can be administered even if the filer has no iSCSI listener.
    #[must_use]
    pub fn new(filer: Filer, listeners: Vec<Listener>, setup: Option<Setup>, iscsi: iscsi::Settings) -> Arc<Self> {
        let (filer, totals) = (Arc::new(filer), Arc::new(Totals::default()));
        let service = Arc::new(Nfs::new(Arc::clone(&filer)));
        let nfs = Arc::new(Driver::new(service, Arc::clone(&totals)));
        let iscsi = Iscsi::new(iscsi, portals(&listeners), &filer.exports());
        let service = Arc::new(IscsiService::new(Arc::clone(&iscsi), Arc::clone(&totals)));
        let iscsi_driver = Arc::new(Driver::new(service, Arc::clone(&totals)));
        let serve = |role| match role {
            ListenerRole::Nfs | ListenerRole::Portmap => serve_nfs(&nfs, role),
            ListenerRole::Iscsi(tag) => serve_iscsi(&iscsi_driver, tag),
        };
        let pool = |role| if matches!(role, ListenerRole::Iscsi(_)) { Pool::Iscsi } else { Pool::Nfs };
        let served = |Listener { socket, role }| Served { socket, pool: pool(role), serve: serve(role) };
        let listeners = listeners.into_iter().map(served).collect();
        let judge = judge(&filer, &iscsi);
        let acceptor = Acceptor::new(listeners, Arc::clone(&totals), judge);
        Arc::new(Self { filer, setup: Mutex::new(setup), acceptor, nfs, iscsi, iscsi_driver, totals, started: Instant::now() })
    }

    /// What is served.
    #[must_use]
    pub fn filer(&self) -> &Filer {
        &self.filer
    }

    /// A shared reference to the filer, for a service that has no TCP connections.
    #[must_use]
    pub fn shared_filer(&self) -> Arc<Filer> {
        Arc::clone(&self.filer)
    }

    /// Time since the filer started.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Number of open connections.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.connections().count()
    }

    /// The table of open connections.
    pub(crate) fn connections(&self) -> &ConnectionTable {
        &self.acceptor.table
    }

    /// The threads for slow calls.
    pub(crate) fn workers(&self) -> &Workers<Nfs> {
        self.nfs.workers()
    }

    /// Targets, LUNs and sessions.
    pub(crate) fn iscsi(&self) -> &Iscsi {
        &self.iscsi
    }

    /// The threads for slow commands.
    pub(crate) fn iscsi_workers(&self) -> &Workers<IscsiService> {
        self.iscsi_driver.workers()
    }

    /// The address of a portal, and the name of each target with its volume, in the order of the volumes. `None` if iSCSI is not
    /// served.
    #[must_use]
    pub fn targets(&self) -> Option<(Portal, Vec<(String, String)>)> {
        let portal = *self.iscsi.portals().first()?;
        let named = |entry: &crate::nfs::exports::Entry| {
            let target = self.iscsi.targets.of_volume(entry.export.name())?;
            Some((entry.export.name().to_owned(), target.luns.target().to_owned()))
        };
        Some((portal, self.filer.exports().entries().iter().filter_map(named).collect()))
    }

    /// Size of the buffers of all connections, in bytes.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.totals.buffer_bytes()
    }

    /// Accepts and serves connections until [`Server::stop`]. Then ends the connections, waits for running calls, and flushes all
    /// volumes.
    ///
    /// **Durability**: everything written is durable when this returns without an error.
    ///
    /// # Errors
    /// The last flush failed.
    pub fn run(self: &Arc<Self>) -> Result<(), volume::Error> {
        if !self.iscsi.portals().is_empty() {
            self.iscsi.start_clock();
        }
        self.acceptor.run().map_err(|error| volume::Error::Io(error.raw_os_error().unwrap_or(libc::EMFILE)))?;
        self.iscsi.end_sessions(ISCSI_LOGOUT_WAIT);
        self.drain();
        let exports = self.filer.exports();
        // Every volume is closed, even after the close of another one failed.
        let closed: Vec<_> = exports.entries().iter().map(|entry| close(&entry.export)).collect();
        closed.into_iter().collect()
    }

    /// Makes [`Server::run`] return.
    pub fn stop(&self) {
        self.acceptor.stop();
    }

    /// Reads the configuration again and serves by it. Connections stay open. Returns `None` if there is no configuration. Logs what
    /// changed.
    ///
    /// # Errors
    /// The fault in the configuration. In that case nothing has changed.
    pub fn reload(&self) -> Option<Result<Reloaded, ConfigError>> {
        let mut setup = self.setup.lock().unpoisoned();
        let done = setup.as_mut()?.reload(&self.filer);
        self.renew(setup.as_ref());
        if let Err(error) = &done {
            tracing::error!(%error, "failed to load the configuration: the previous one stays in force");
        }
        Some(done)
    }

    /// Changes the configuration file and serves by it. `new` is the name of the volume that the change adds, if any. Returns `None` if
    /// there is no file.
    pub(crate) fn change(
        &self,
        new: Option<&str>,
        quotas: Quotas,
        change: impl FnOnce(&str) -> Result<String, EditError>,
    ) -> Option<Result<Reloaded, ChangeError>> {
        let mut setup = self.setup.lock().unpoisoned();
        let done = setup.as_mut()?.edit(&self.filer, new, quotas, change);
        self.renew(setup.as_ref());
        Some(done)
    }

    /// Applies the current configuration to connections and iSCSI.
    fn renew(&self, setup: Option<&Setup>) {
        self.acceptor.update_known();
        if let Some(setup) = setup {
            self.iscsi.set(setup.settings().iscsi.clone());
        }
        self.iscsi.adopt(&self.filer.exports());
    }

    /// Discards everything that was not stable, as a power cut would.
    ///
    /// No call and no reply crosses the cut: all connections are closed and the calls in progress have ended before anything is discarded,
    /// and no connection is accepted until the cut is complete. Clients notice the cut because their connections are closed.
    ///
    /// # Errors
    /// `NotSupported` if a volume has no loss layer. `Busy` if calls do not end, or if another cut is in progress. In both cases nothing
    /// was discarded or forgotten. Otherwise the error of the volume that could not be cut.
    pub fn power_cut(&self) -> Result<CutReport, volume::Error> {
        self.power_cut_by(Instant::now() + STOP_TIMEOUT)
    }

    fn power_cut_by(&self, deadline: Instant) -> Result<CutReport, volume::Error> {
        let exports = self.filer.exports();
        if !exports.entries().iter().all(|entry| entry.export.volume.can_lose()) {
            return Err(volume::Error::NotSupported);
        }
        let Some(_shut) = self.connections().shut() else { return Err(volume::Error::Busy) };
        self.connections().drop_all();
        hurry(&exports);
        let is_idle = || self.workers().wait_until_idle(deadline) && self.iscsi_workers().wait_until_idle(deadline);
        if !self.connections().wait_until_empty(deadline) || !is_idle() {
            return Err(volume::Error::Busy);
        }
        let report = cut(&exports);
        self.iscsi.power_cycle();
        // Also if one of several volumes could not be cut, because the volumes before it were.
        self.filer.forget();
        let report = report?;
        tracing::warn!(undone_writes = report.undone_writes, undone_names = report.undone_names, "power cut");
        Ok(report)
    }

    /// Waits until running calls have ended and their replies have been sent.
    fn drain(&self) {
        let deadline = Instant::now() + STOP_TIMEOUT;
        self.connections().finish_all();
        hurry(&self.filer.exports());
        if !self.connections().wait_until_empty(deadline) {
            let connections = self.connections().count();
            tracing::warn!(connections, "calls still running at the end of the stop time");
            self.connections().drop_all();
        }
        let left = || deadline.saturating_duration_since(Instant::now());
        if !self.workers().finish(left()) | !self.iscsi_workers().finish(left()) {
            tracing::warn!("slow calls still running at the end of the stop time");
        }
    }
}

/// Flushes a volume for the last time. Keeps its write verifier for the next start, unless calls may still write to it.
fn close(export: &Export) -> Result<(), volume::Error> {
    let volume = export.name();
    match export.volume.close(CLOSE_TIMEOUT) {
        Ok(true) => Ok(()),
        Ok(false) => {
            tracing::warn!(
                volume,
                "failed to record the clean stop: the write verifier changes with the next reboot of the host"
            );
            Ok(())
        }
        Err(volume::Error::Busy) => {
            tracing::warn!(volume, "calls still running: the stop is not clean, the write verifier changes with the next reboot");
            export.volume.flush_all()
        }
        Err(error) => Err(error),
    }
}

/// The rule that decides whether a client is known: for NFS the export rules, for iSCSI `clients` of `[iscsi]`. An initiator is a
/// stranger until it has logged in.
fn judge(filer: &Arc<Filer>, iscsi: &Arc<Iscsi>) -> Judge {
    let (filer, iscsi) = (Arc::clone(filer), Arc::clone(iscsi));
    Box::new(move |pool, client| match pool {
        Pool::Nfs if filer.names(client) => Standing::Known,
        Pool::Iscsi if !iscsi.settings().admits(client) => Standing::Refused,
        Pool::Nfs | Pool::Iscsi => Standing::Stranger,
    })
}

/// The function that serves the connections of a listener with this role.
fn serve_nfs(nfs: &Arc<Driver<Nfs>>, role: ListenerRole) -> Serve {
    let nfs = Arc::clone(nfs);
    Box::new(move |connection| nfs.begin(connection, nfs.service().session(connection, role)))
}

/// The function that serves iSCSI connections in the portal group with this tag.
fn serve_iscsi(driver: &Arc<Driver<IscsiService>>, tag: u16) -> Serve {
    let driver = Arc::clone(driver);
    Box::new(move |connection| driver.begin(connection, driver.service().session(connection, tag)))
}

/// The bound portals with their portal group tags.
fn portals(listeners: &[Listener]) -> Vec<Portal> {
    let portal = |listener: &Listener| match listener.role {
        ListenerRole::Iscsi(tag) => listener.socket.local_addr().ok().map(|address| Portal { address, tag }),
        ListenerRole::Nfs | ListenerRole::Portmap => None,
    };
    listeners.iter().filter_map(portal).collect()
}

/// Ends the waits of injected faults, so that their calls can end.
fn hurry(exports: &Exports) {
    exports.entries().iter().for_each(|entry| entry.export.volume.faults().release_waiters());
}

/// Discards what each volume has not made stable.
fn cut(exports: &Exports) -> Result<CutReport, volume::Error> {
    let mut all = CutReport::default();
    for entry in exports.entries() {
        let report = entry.export.volume.power_cut()?;
        all.undone_writes += report.undone_writes;
        all.undone_names += report.undone_names;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use nfs_proto::rpc::Xid;
    use volume::{LossConfig, Volume};

    use super::*;
    use crate::connections::connection::tests::connected;
    use crate::connections::delivery::Delivery;
    use crate::nfs::exactly_once::{Attempt, Claim, Sender};
    use crate::nfs::filer::Config;
    use crate::nfs::policy::{Policy, Rights};

    #[test]
    fn a_power_cut_that_is_refused_forgets_no_stored_reply_and_one_that_is_made_forgets_them() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, state_dir) = (folder.path().join("export"), folder.path().join("state"));
        std::fs::create_dir(&dir).unwrap();
        let config = volume::Config { dir, state_dir, loss: Some(LossConfig { seed: 0 }), options: volume::Options::default() };
        let export = Export::new("vol", "/vol", Volume::open(config).unwrap());
        let exports = Exports::one(export, Policy::open(Rights::default()));
        let server =
            Server::new(Filer::new(Config { exports, only: None, port: 2049 }), Vec::new(), None, iscsi::Settings::default());
        let sender = Sender { client: [127, 0, 0, 1].into(), connection: Delivery::default(), channel: None };
        match server.filer.once.claim(&Attempt { xid: Xid(1), record: b"call", sender }) {
            Claim::New(execution) => execution.answered(b"reply", true),
            Claim::Answered(..) | Claim::InProgress => panic!("claimed before"),
        };
        // A connection that does not end.
        let (connection, _peer) = connected();
        let id = server.connections().add(&connection, Pool::Nfs).unwrap();
        assert!(matches!(server.power_cut_by(Instant::now()), Err(volume::Error::Busy)));
        assert_eq!(server.filer.once.contents().replies, 1);
        server.connections().remove(id);
        assert!(server.power_cut().is_ok());
        assert_eq!(server.filer.once.contents().replies, 0);
    }
}
