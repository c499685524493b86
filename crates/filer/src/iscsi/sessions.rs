//! The sessions of all initiators, and the connections that have no session yet.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use host::Unpoisoned;
use iscsi_proto::login::LoginStatus;
use iscsi_proto::scsi::{Lun as LunNumber, Nexus};
use iscsi_proto::target::{Admission, Ending, KeepAlive, Opening, Pulse, Registry, Replies, Tasks, Tsih};
use iscsi_proto::{login, pdu};

use crate::connections::connection::Connection;
use crate::limits::{
    ISCSI_END_WAIT, ISCSI_LOGIN_TIMEOUT, ISCSI_PING_AFTER, ISCSI_PING_TIMEOUT, ISCSI_REINSTATEMENT_WAIT, ISCSI_SESSIONS_MAX,
};

/// Interval at which the filer checks whether the last task of a session has ended. No event reports its end.
const TASK_PAUSE: Duration = Duration::from_millis(5);

/// All sessions and connections.
pub(crate) struct Sessions {
    registry: Mutex<Registry<Arc<SessionEntry>>>,
    /// Sessions that have ended while their tasks still run.
    ending: Mutex<Vec<Arc<SessionEntry>>>,
    /// Notified when a session has ended.
    ended: Condvar,
    links: Mutex<VecDeque<Weak<Link>>>,
    started: Instant,
}

/// The shared state of a session.
pub(crate) struct SessionEntry {
    /// Weak, so that it does not keep the connection open. The entry of a session remains while its last task runs.
    connection: Weak<Connection>,
    /// The initiator's address.
    pub(crate) peer: SocketAddr,
    pub(crate) initiator: String,
    /// The target. `None` in a discovery session.
    pub(crate) target: Option<String>,
    pub(crate) portal_group_tag: u16,
    nexus: Option<Nexus>,
    tasks: Tasks,
    replies: Replies,
    /// Its login has succeeded. Before that it has no tasks.
    is_open: AtomicBool,
    has_ended: AtomicBool,
}

/// The state of a connection for timeouts.
pub(super) struct Link {
    connection: Arc<Connection>,
    replies: Replies,
    begun: Instant,
    logged_in: AtomicBool,
    /// Changes with each received PDU.
    turns: AtomicU32,
    /// The connection's thread serves a turn. PDUs that arrive during the turn wait.
    is_serving: AtomicBool,
    alive: Mutex<(KeepAlive, u32)>, // and the turns it knows of
}

impl Link {
    /// Notes a received PDU.
    pub(super) fn heard(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the connection's thread begins or ends a turn.
    pub(super) fn serves(&self, is_serving: bool) {
        self.is_serving.store(is_serving, Ordering::Release);
    }

    /// Notes that the login has ended.
    pub(super) fn logged_in(&self) {
        self.logged_in.store(true, Ordering::Release);
    }

    /// Acts on expired deadlines.
    fn tick(&self, now: Duration) {
        if !self.logged_in.load(Ordering::Acquire) {
            if self.begun.elapsed() >= ISCSI_LOGIN_TIMEOUT {
                tracing::debug!(peer = %self.connection.peer, "login not over in time: connection closed");
                self.connection.drop_now();
            }
            return;
        }
        let mut alive = self.alive.lock().unpoisoned();
        let turns = self.turns.load(Ordering::Relaxed);
        let has_moved = turns != std::mem::replace(&mut alive.1, turns);
        let is_serving = self.is_serving.load(Ordering::Acquire);
        if has_moved || is_serving {
            alive.0.heard(now);
        }
        if is_serving && !has_moved {
            // The thread waits for the store and answers no NOP-Out. This NOP-In shows the initiator that the target is alive, so
            // that it keeps the path.
            let mut sign = Vec::new();
            self.replies.window_update(&mut sign);
            self.connection.queue(&mut sign, Vec::new());
            return;
        }
        match alive.0.pulse(now) {
            Pulse::Wait(_) => {}
            Pulse::Ping => {
                let mut ping = Vec::new();
                self.replies.ping(&mut ping);
                self.connection.queue(&mut ping, Vec::new());
            }
            Pulse::Dead => {
                tracing::info!(peer = %self.connection.peer, "no answer from the initiator: session ended");
                self.connection.drop_now();
            }
        }
    }
}

impl Default for Sessions {
    fn default() -> Self {
        let (ended, links, started) = (Condvar::new(), Mutex::default(), Instant::now());
        Self { registry: Mutex::new(Registry::new(ISCSI_SESSIONS_MAX)), ending: Mutex::default(), ended, links, started }
    }
}

impl Sessions {
    /// Registers a new connection.
    pub(super) fn connect(&self, connection: &Arc<Connection>, replies: &Replies) -> Arc<Link> {
        let alive = KeepAlive::new(ISCSI_PING_AFTER, ISCSI_PING_TIMEOUT, self.started.elapsed());
        let link = Arc::new(Link {
            connection: Arc::clone(connection),
            replies: replies.clone(),
            begun: Instant::now(),
            logged_in: AtomicBool::new(false),
            turns: AtomicU32::new(0),
            is_serving: AtomicBool::new(false),
            alive: Mutex::new((alive, 0)),
        });
        let mut links = self.links.lock().unpoisoned();
        links.retain(|link| link.strong_count() > 0);
        links.push_back(Arc::downgrade(&link));
        link
    }

    /// Time since the filer started.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Acts on the expired deadlines of all connections.
    pub(super) fn tick(&self) {
        let links: Vec<Arc<Link>> = self.links.lock().unpoisoned().iter().filter_map(Weak::upgrade).collect();
        let now = self.started.elapsed();
        links.iter().for_each(|link| link.tick(now));
    }

    /// Opens a session, after the session that it replaces and all its tasks have ended.
    ///
    /// # Errors
    /// The status with which the login is refused.
    pub(super) fn open(
        &self,
        opening: &Opening,
        nexus: Option<Nexus>,
        connection: &Arc<Connection>,
        replies: &Replies,
    ) -> Result<(Tsih, Arc<SessionEntry>), LoginStatus> {
        let entry = Arc::new(SessionEntry {
            connection: Arc::downgrade(connection),
            peer: connection.peer,
            initiator: opening.initiator.as_str().to_owned(),
            target: opening.target.as_ref().map(|target| target.as_str().to_owned()),
            portal_group_tag: opening.portal_group_tag,
            nexus,
            tasks: opening.tasks.clone(),
            replies: replies.clone(),
            is_open: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        });
        let Admission { tsih, replaced } = self.registry.lock().unpoisoned().admit(opening, Arc::clone(&entry))?;
        // A session that ended by itself may still have a running task.
        let mut old: Vec<Arc<SessionEntry>> = self.ending(|other| other.nexus.is_some() && other.nexus == entry.nexus);
        // A request to end the replaced session finds it in this list, even if this login gives up waiting before it has ended.
        self.ending.lock().unpoisoned().extend(replaced.clone());
        old.extend(replaced);
        for old in old {
            tracing::info!(initiator = entry.initiator, peer = %old.peer, "session replaced by a new one of the same name");
            if !self.end_now(&old, ISCSI_REINSTATEMENT_WAIT) {
                self.forget(tsih, &entry);
                return Err(LoginStatus::TARGET_ERROR);
            }
        }
        entry.is_open.store(true, Ordering::Release);
        Ok((tsih, entry))
    }

    /// Ends the sessions of an initiator with a target, and their tasks, except the session of the connection `asking`. Waits
    /// [`ISCSI_END_WAIT`] at most for each, because `asking` gets no replies meanwhile. Returns whether all of them have ended.
    pub(super) fn end(&self, initiator: &str, target: &str, which: Ending, asking: &Arc<Connection>) -> bool {
        let is_meant = |entry: &SessionEntry| {
            let is_meant = entry.nexus.as_ref().is_some_and(|nexus| which.means(pdu::Isid(nexus.isid())));
            let is_own = entry.is_of(asking);
            !is_own && entry.initiator == initiator && entry.target.as_deref() == Some(target) && is_meant
        };
        let meant = self.all().into_iter().filter(|entry| is_meant(entry));
        let (mut open, waiting): (Vec<_>, Vec<_>) = meant.partition(|entry| entry.is_open.load(Ordering::Acquire));
        for entry in &open {
            tracing::info!(initiator, peer = %entry.peer, "session ended, as its initiator asks over another session");
        }
        open.extend(self.ending(is_meant));
        // A session whose login still waits has had no task. It waits for the end of the previous session, as the caller does.
        open.iter().all(|entry| self.end_now(entry, ISCSI_END_WAIT)) && waiting.is_empty()
    }

    fn end_now(&self, session: &SessionEntry, limit: Duration) -> bool {
        session.tasks.abort(None);
        session.drop_connection();
        self.wait_for_end(session, Instant::now() + limit)
    }

    /// The sessions that have ended and still have running tasks.
    fn ending(&self, is_meant: impl Fn(&SessionEntry) -> bool) -> Vec<Arc<SessionEntry>> {
        let mut ending = self.ending.lock().unpoisoned();
        ending.retain(|entry| entry.is_executing());
        ending.iter().filter(|entry| is_meant(entry)).cloned().collect()
    }

    /// Waits until a session and its last task have ended. No write of it may follow a write of the next session.
    fn wait_for_end(&self, session: &SessionEntry, deadline: Instant) -> bool {
        let mut registry = self.registry.lock().unpoisoned();
        while !session.has_ended.load(Ordering::Acquire) || session.tasks.executing() > 0 {
            if Instant::now() >= deadline {
                return false;
            }
            registry = self.ended.wait_timeout(registry, TASK_PAUSE).unpoisoned().0;
        }
        drop(registry);
        true
    }

    /// Waits until aborted tasks of these sessions have ended, if they are at this LUN and may change data.
    pub(super) fn wait_for_tasks(&self, sessions: &[Arc<SessionEntry>], lun: u16) {
        let mut registry = self.registry.lock().unpoisoned();
        while sessions.iter().any(|entry| entry.is_ending(lun)) {
            registry = self.ended.wait_timeout(registry, TASK_PAUSE).unpoisoned().0;
        }
    }

    /// Removes a session that has ended.
    pub(super) fn close(&self, tsih: Tsih, entry: &Arc<SessionEntry>) {
        entry.tasks.abort(None);
        if entry.is_executing() {
            let mut ending = self.ending.lock().unpoisoned();
            ending.retain(|entry| entry.is_executing());
            ending.push(Arc::clone(entry));
        }
        self.forget(tsih, entry);
        entry.has_ended.store(true, Ordering::Release);
        self.ended.notify_all();
    }

    fn forget(&self, tsih: Tsih, entry: &Arc<SessionEntry>) {
        let mut registry = self.registry.lock().unpoisoned();
        // Another session may have its TSIH by now.
        if registry.iter().any(|(number, _, other)| number == tsih && Arc::ptr_eq(other, entry)) {
            registry.remove(tsih);
        }
    }

    /// All sessions.
    pub(crate) fn all(&self) -> Vec<Arc<SessionEntry>> {
        self.registry.lock().unpoisoned().iter().map(|(_, _, entry)| Arc::clone(entry)).collect()
    }

    /// The sessions of a target.
    pub(crate) fn of_target(&self, target: &str) -> Vec<Arc<SessionEntry>> {
        self.all().into_iter().filter(|entry| entry.target.as_deref() == Some(target)).collect()
    }

    /// Aborts the tasks of a nexus at a LUN of a target.
    pub(super) fn abort(&self, target: &str, nexus: &Nexus, lun: u16) {
        let of_nexus = |entry: &&Arc<SessionEntry>| entry.nexus.as_ref() == Some(nexus);
        self.of_target(target).iter().filter(of_nexus).for_each(|entry| {
            entry.abort(lun);
        });
    }

    /// Asks every initiator to log out. Waits until all have, or until `limit` is over.
    pub(crate) fn end_all(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let seconds = u16::try_from(limit.as_secs()).unwrap_or(u16::MAX);
        for entry in self.all() {
            let mut request = Vec::new();
            entry.replies.request_logout(&mut request, seconds);
            if let Some(connection) = entry.connection.upgrade() {
                connection.queue(&mut request, Vec::new());
            }
        }
        let mut registry = self.registry.lock().unpoisoned();
        while !registry.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            registry = self.ended.wait_timeout(registry, left).unpoisoned().0;
        }
    }
}

impl SessionEntry {
    /// The initiator port and the target port. `None` in a discovery session.
    pub(super) const fn nexus(&self) -> Option<&Nexus> {
        self.nexus.as_ref()
    }

    /// Whether the session uses this connection.
    pub(super) fn is_of(&self, connection: &Arc<Connection>) -> bool {
        std::ptr::eq(self.connection.as_ptr(), Arc::as_ptr(connection))
    }

    /// Closes its connection, if it is still open.
    pub(super) fn drop_connection(&self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.drop_now();
        }
    }

    /// Whether some of its commands have no reply yet.
    pub(super) fn has_tasks(&self) -> bool {
        self.tasks.active() > 0
    }

    /// Whether some of its commands may still change data. Commands whose reply was lost with the connection do not count.
    fn is_executing(&self) -> bool {
        self.tasks.executing() > 0
    }

    /// Aborts its tasks at a LUN. Replies that wait for the end of these tasks are sent when they have ended.
    pub(super) fn abort(&self, lun: u16) {
        if let Some(lun) = LunNumber::new(lun) {
            self.tasks.abort(Some(pdu::Lun(lun.to_bytes())));
        }
    }

    /// Whether an aborted task of the session at a LUN may still change data.
    fn is_ending(&self, lun: u16) -> bool {
        LunNumber::new(lun).is_some_and(|lun| self.tasks.is_ending(pdu::Lun(lun.to_bytes())))
    }
}

/// The nexus of an initiator port and a target port. `None` if a name is not valid in SCSI.
pub(super) fn nexus(initiator: &login::Name, isid: pdu::Isid, relative_port: u16) -> Option<Nexus> {
    Nexus::new(initiator.as_str(), isid.0, relative_port).ok()
}
