//! The sessions of all initiators, and the connections that have none yet.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use iscsi_proto::login::LoginStatus;
use iscsi_proto::scsi::{Lun as LunNumber, Nexus};
use iscsi_proto::target::{Admission, Ending, KeepAlive, Opening, Pulse, Registry, Replies, Tasks, Tsih};
use iscsi_proto::{login, pdu};

use crate::connections::connection::Connection;
use crate::limits::{
    ISCSI_END_WAIT, ISCSI_HALF_OPEN_MAX, ISCSI_LOGIN_TIMEOUT, ISCSI_PING_AFTER, ISCSI_PING_TIMEOUT, ISCSI_REINSTATEMENT_WAIT,
    ISCSI_SESSIONS_MAX,
};

/// How often it is looked whether the last task of a session has ended, which nobody tells.
const TASK_PAUSE: Duration = Duration::from_millis(5);

/// All sessions and connections.
pub(crate) struct Sessions {
    registry: Mutex<Registry<Arc<SessionEntry>>>,
    /// Sessions that have ended while tasks of theirs ran.
    ending: Mutex<Vec<Arc<SessionEntry>>>,
    /// A session has ended.
    ended: Condvar,
    links: Mutex<VecDeque<Weak<Link>>>,
    started: Instant,
}

/// A session as others see it.
pub(crate) struct SessionEntry {
    /// Not kept open by it: a session is remembered while its last task runs, and its initiator waits for the connection to end.
    connection: Weak<Connection>,
    /// The initiator's address.
    pub(crate) peer: SocketAddr,
    pub(crate) initiator: String,
    /// The target; none in a discovery session.
    pub(crate) target: Option<String>,
    pub(crate) portal_group_tag: u16,
    nexus: Option<Nexus>,
    tasks: Tasks,
    replies: Replies,
    /// It was let in: before that it has had no task.
    is_open: AtomicBool,
    has_ended: AtomicBool,
}

/// A connection as the clock sees it.
pub(super) struct Link {
    connection: Arc<Connection>,
    replies: Replies,
    begun: Instant,
    logged_in: AtomicBool,
    /// Moves with each PDU that came.
    turns: AtomicU32,
    /// The connection's thread serves what came; what comes meanwhile waits.
    is_serving: AtomicBool,
    alive: Mutex<(KeepAlive, u32)>, // and the turns it knows of
}

impl Link {
    /// Something came.
    pub(super) fn heard(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Its thread begins, or has ended, to serve what came.
    pub(super) fn serves(&self, is_serving: bool) {
        self.is_serving.store(is_serving, Ordering::Release);
    }

    /// Its login is over.
    pub(super) fn logged_in(&self) {
        self.logged_in.store(true, Ordering::Release);
    }

    /// Does what is due.
    fn tick(&self, now: Duration) {
        if !self.logged_in.load(Ordering::Acquire) {
            if self.begun.elapsed() >= ISCSI_LOGIN_TIMEOUT {
                tracing::debug!(peer = %self.connection.peer, "login not over in time: connection closed");
                self.connection.drop_now();
            }
            return;
        }
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = self.turns.load(Ordering::Relaxed);
        let has_moved = turns != std::mem::replace(&mut alive.1, turns);
        let is_serving = self.is_serving.load(Ordering::Acquire);
        if has_moved || is_serving {
            alive.0.heard(now);
        }
        if is_serving && !has_moved {
            // The store keeps its thread: an initiator that asks whether the target is there gets no answer from that, and would
            // give the path up.
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
    /// A connection that begins. Where many have begun and not logged in, the oldest of these leaves for it.
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
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.strong_count() > 0);
        let half_open: Vec<Arc<Link>> =
            links.iter().filter_map(Weak::upgrade).filter(|link| !link.logged_in.load(Ordering::Acquire)).collect();
        if let Some(oldest) = half_open.first().filter(|_| half_open.len() >= ISCSI_HALF_OPEN_MAX) {
            oldest.connection.drop_now();
        }
        links.push_back(Arc::downgrade(&link));
        link
    }

    /// Does for all connections what is due.
    pub(super) fn tick(&self) {
        let links: Vec<Arc<Link>> =
            self.links.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
        let now = self.started.elapsed();
        links.iter().for_each(|link| link.tick(now));
    }

    /// Lets a session in, once one that it takes the place of has ended with all its tasks.
    ///
    /// # Errors
    /// The status that the login is refused with.
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
        let Admission { tsih, replaced } = self.registry().admit(opening, Arc::clone(&entry))?;
        // One that ended by itself may still have a task that runs.
        let mut old: Vec<Arc<SessionEntry>> = self.ending(|other| other.nexus.is_some() && other.nexus == entry.nexus);
        // Whoever asks for the end of the one before finds it there, also where this login does not wait for as long.
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).extend(replaced.clone());
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

    /// Ends sessions of an initiator with a target, with their tasks; whether they have ended, which is waited for only a moment: the
    /// connection that asks answers nothing meanwhile. Not that connection's own session, which could not answer.
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
        // One that waits to be let in has had no task, and waits for the end of the one before it, as the asker does.
        open.iter().all(|entry| self.end_now(entry, ISCSI_END_WAIT)) && waiting.is_empty()
    }

    fn end_now(&self, session: &SessionEntry, limit: Duration) -> bool {
        session.tasks.abort(None);
        session.drop_connection();
        self.wait_for_end(session, Instant::now() + limit)
    }

    /// Those of the sessions that have ended and have tasks that run.
    fn ending(&self, is_meant: impl Fn(&SessionEntry) -> bool) -> Vec<Arc<SessionEntry>> {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        ending.retain(|entry| entry.is_executing());
        ending.iter().filter(|entry| is_meant(entry)).cloned().collect()
    }

    /// Waits until a session has ended and its last task too: a write of it must not come behind one of the session that follows.
    fn wait_for_end(&self, session: &SessionEntry, deadline: Instant) -> bool {
        let mut registry = self.registry();
        while !session.has_ended.load(Ordering::Acquire) || session.tasks.executing() > 0 {
            if Instant::now() >= deadline {
                return false;
            }
            registry = self.ended.wait_timeout(registry, TASK_PAUSE).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(registry);
        true
    }

    /// A session has ended.
    pub(super) fn close(&self, tsih: Tsih, entry: &Arc<SessionEntry>) {
        entry.tasks.abort(None);
        if entry.is_executing() {
            let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
            ending.retain(|entry| entry.is_executing());
            ending.push(Arc::clone(entry));
        }
        self.forget(tsih, entry);
        entry.has_ended.store(true, Ordering::Release);
        self.ended.notify_all();
    }

    fn forget(&self, tsih: Tsih, entry: &Arc<SessionEntry>) {
        let mut registry = self.registry();
        // Its number may be another's by now.
        if registry.iter().any(|(number, _, other)| number == tsih && Arc::ptr_eq(other, entry)) {
            registry.remove(tsih);
        }
    }

    /// The sessions there are.
    pub(crate) fn all(&self) -> Vec<Arc<SessionEntry>> {
        self.registry().iter().map(|(_, _, entry)| Arc::clone(entry)).collect()
    }

    /// The sessions of a target.
    pub(crate) fn of_target(&self, target: &str) -> Vec<Arc<SessionEntry>> {
        self.all().into_iter().filter(|entry| entry.target.as_deref() == Some(target)).collect()
    }

    /// Ends the tasks of a nexus at a LUN of a target, those that have not begun.
    pub(super) fn abort(&self, target: &str, nexus: &Nexus, lun: u16) {
        let of_nexus = |entry: &&Arc<SessionEntry>| entry.nexus.as_ref() == Some(nexus);
        self.of_target(target).iter().filter(of_nexus).for_each(|entry| {
            entry.abort(lun);
        });
    }

    /// Asks every initiator to log out, and waits until all have or the time is up.
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
        let mut registry = self.registry();
        while !registry.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            registry = self.ended.wait_timeout(registry, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn registry(&self) -> MutexGuard<'_, Registry<Arc<SessionEntry>>> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionEntry {
    /// The initiator port and the target port, as SCSI has them; none in discovery.
    pub(super) const fn nexus(&self) -> Option<&Nexus> {
        self.nexus.as_ref()
    }

    /// Whether this is its connection.
    pub(super) fn is_of(&self, connection: &Arc<Connection>) -> bool {
        std::ptr::eq(self.connection.as_ptr(), Arc::as_ptr(connection))
    }

    /// Ends its connection, if it is not ended yet.
    pub(super) fn drop_connection(&self) {
        if let Some(connection) = self.connection.upgrade() {
            connection.drop_now();
        }
    }

    /// Whether commands of it are not answered yet.
    pub(super) fn has_tasks(&self) -> bool {
        self.tasks.active() > 0
    }

    /// Whether commands of it may still change something. Those whose reply was lost with the connection do not.
    fn is_executing(&self) -> bool {
        self.tasks.executing() > 0
    }

    /// Aborts its tasks at a LUN. Answers that wait for the end of tasks are sent when these have ended.
    pub(super) fn abort(&self, lun: u16) {
        if let Some(lun) = LunNumber::new(lun) {
            self.tasks.abort(Some(pdu::Lun(lun.to_bytes())));
        }
    }
}

/// The initiator port and the target port of a session, as SCSI has them; none of a name that SCSI cannot have.
pub(super) fn nexus(initiator: &login::Name, isid: pdu::Isid, relative_port: u16) -> Option<Nexus> {
    Nexus::new(initiator.as_str(), isid.0, relative_port).ok()
}
