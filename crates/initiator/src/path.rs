//! One path: a portal, the session over it, and the commands in progress there.

use crate::attempt::Attempt;
use crate::command::Wire;
use crate::connection::Connection;
use crate::error::Error;
use crate::naming;
use crate::options::Options;
use crate::path_report::{AccessState, PathReport, PathState};
use crate::probe::{Probe, loss_epoch_command};
use crate::url::{IscsiUrl, portal_text};
use crate::work::{FenceAnswer, Origin, Submitted, Work};
use fnv::FnvHashMap;
use iscsi_proto::chap::Algorithm;
use iscsi_proto::initiator::{Initiator, Request, Settings, Transfer};
use iscsi_proto::login::{DigestChoice, Offer};
use iscsi_proto::pdu::{Isid, Itt, Lun};
use iscsi_proto::target::Challenge;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// The wait before the next login of a path that failed: the first, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How long the answer to a request to end a session may take. Then the request is repeated.
const FENCE_ANSWER: Duration = Duration::from_secs(5);

pub(crate) enum Task {
    Command(Submitted),
    /// A command of the probe, the memory for its data, and when it was sent.
    Probe(Vec<u8>, Instant),
    /// A flush that the target answered with GOOD. It succeeds once the loss epoch in this page is known to be the same
    /// as before.
    Verify(Submitted, Vec<u8>),
    /// The request to end the session of the path with this number, and how often that path had failed when it was sent.
    EndSession(usize, u64),
    /// The request to end the sessions that an earlier process left.
    EndFormer,
}

impl Task {
    /// When it was sent, if the path ends without an answer within [`Options::command_timeout`]. The other tasks have
    /// limits of their own: the login timeout, and [`FENCE_ANSWER`].
    const fn sent(&self) -> Option<Instant> {
        match self {
            Self::Command(submitted) | Self::Verify(submitted, _) => Some(submitted.sent),
            Self::Probe(_, sent) => Some(*sent),
            Self::EndSession(..) | Self::EndFormer => None,
        }
    }
}

pub(crate) struct Path {
    pub(crate) portal: String,
    addresses: Vec<SocketAddr>,
    /// The last of `addresses` that was tried.
    address: Option<SocketAddr>,
    pub(crate) portal_group: Option<u16>,
    isid: Isid,
    /// Whether sessions that an earlier process left at the target may not have ended yet.
    pub(crate) has_former: bool,
    former_due: Option<Instant>,
    pub(crate) lun_number: u16,
    lun: Lun,
    pub(crate) connection: Option<Connection>,
    pub(crate) state: PathState,
    pub(crate) access: AccessState,
    pub(crate) tasks: FnvHashMap<u32, Task>,
    pub(crate) commands: usize,
    /// Changes of a broken session. The target may still execute them.
    pub(crate) fenced: Vec<Submitted>,
    /// When the target must be asked, or asked again, to end that session.
    fence_at: Instant,
    pub(crate) probe: Option<Probe>,
    /// Whether the LUN must be probed again.
    pub(crate) asks_again: bool,
    /// What the path has learned about its LUN, until the device takes it.
    pub(crate) learned: Option<Probe>,
    /// Whether the loss epoch must still be compared after the first flush of this session.
    pub(crate) verifies: bool,
    pub(crate) attempt: Attempt,
    retry_at: Instant,
    began: Instant,
    pinged: Option<Instant>,
    looked: Instant,
    pub(crate) in_a_row: u32,
    pub(crate) failures: u64,
    /// How often the path went down after it had been up, also at the request of the target. Failures while it is down
    /// are retries.
    downs: u64,
    pub(crate) completed: u64,
    pub(crate) last_error: Option<Error>,
}

impl Path {
    pub(crate) fn new(
        url: &IscsiUrl,
        isid: Isid,
        has_former: bool,
        (host, port): (&str, u16),
        now: Instant,
    ) -> Result<Self, Error> {
        let resolve = |source| Error::Resolve { host: host.to_owned(), source };
        let addresses: Vec<_> = (host, port).to_socket_addrs().map_err(resolve)?.collect();
        let lun = url.target.as_ref().map_or(0, |(_, lun)| *lun);
        let [high, low] = lun.to_be_bytes();
        // Peripheral addressing below 256, flat above (SAM-5 4.7.7).
        let high = if lun < 256 { 0 } else { 0x40 | high };
        Ok(Self {
            portal: portal_text(host, port),
            addresses,
            address: None,
            portal_group: None,
            isid,
            has_former,
            former_due: None,
            lun_number: lun,
            lun: Lun([high, low, 0, 0, 0, 0, 0, 0]),
            connection: None,
            state: PathState::Down,
            access: AccessState::Optimized,
            tasks: FnvHashMap::default(),
            commands: 0,
            fenced: Vec::new(),
            fence_at: now,
            probe: None,
            asks_again: false,
            learned: None,
            verifies: true,
            attempt: Attempt::default(),
            retry_at: now,
            began: now,
            pinged: None,
            looked: now,
            in_a_row: 0,
            failures: 0,
            downs: 0,
            completed: 0,
            last_error: None,
        })
    }

    pub(crate) fn report(&self) -> PathReport {
        PathReport {
            portal: self.portal.clone(),
            address: self.address,
            portal_group: self.portal_group,
            state: self.state,
            access: self.access,
            under_way: self.commands,
            completed: self.completed,
            failures: self.failures,
            downs: self.downs,
            last_error: self.last_error.as_ref().map(ToString::to_string),
        }
    }

    /// Whether the path has failed since the start.
    pub(crate) const fn has_given_up(&self) -> bool {
        self.failures > 0
    }

    pub(crate) const fn commands(&self) -> usize {
        self.commands
    }

    /// Number of commands that must end before lost changes are written again: those in progress, and changes of a
    /// replay that a broken session may still execute.
    pub(crate) fn under_way_for_replay(&self) -> usize {
        self.commands + self.fenced.iter().filter(|one| matches!(one.origin, Origin::Replay(_))).count()
    }

    /// Whether the path accepts one more command.
    pub(crate) fn is_open(&self, options: &Options) -> bool {
        let is_open = |connection: &Connection| !connection.is_full() && connection.session.window() > 0;
        self.state == PathState::Up && self.commands < options.depth && self.connection.as_ref().is_some_and(is_open)
    }

    /// Sends a command. Returns it if the session does not accept it.
    pub(crate) fn send(&mut self, mut submitted: Submitted, block_bytes: u32, now: Instant) -> Result<(), Submitted> {
        let Some(connection) = &mut self.connection else { return Err(submitted) };
        let (session, output) = (&mut connection.session, &mut connection.output);
        let sent = match submitted.command.wire(block_bytes) {
            Wire::None(cdb) => request(session, output, self.lun, cdb.as_bytes(), Transfer::None),
            Wire::Read(cdb, bytes) => request(session, output, self.lun, cdb.as_bytes(), Transfer::Read(bytes)),
            Wire::Write(cdb, data) => request(session, output, self.lun, cdb.as_bytes(), Transfer::Write(data)),
            Wire::Own(cdb, data) => request(session, output, self.lun, cdb.as_bytes(), Transfer::Write(&data)),
        };
        let Some(itt) = sent else { return Err(submitted) };
        submitted.sent = now;
        self.tasks.insert(itt.0, Task::Command(submitted));
        self.commands += 1;
        Ok(())
    }

    /// Starts to probe the LUN again, while commands continue. A probe in progress may have read old values, so it
    /// begins again at its end.
    pub(crate) fn ask_again(&mut self, now: Instant) {
        self.asks_again = true;
        self.probe_if_asked(now);
    }

    fn probe_if_asked(&mut self, now: Instant) {
        if self.asks_again
            && self.state == PathState::Up
            && self.probe.is_none()
            && let Some(mut connection) = self.connection.take()
        {
            self.begin_probe(&mut connection.session, &mut connection.output, now);
            self.connection = Some(connection);
        }
    }

    pub(crate) fn begin_probe(&mut self, session: &mut Initiator, output: &mut Vec<u8>, now: Instant) {
        self.asks_again = false;
        self.probe = Some(Probe::new());
        self.send_probe(session, output, now);
    }

    pub(crate) fn send_probe(&mut self, session: &mut Initiator, output: &mut Vec<u8>, now: Instant) {
        let Some(probe) = &self.probe else { return };
        let (cdb, bytes) = probe.command();
        let transfer = if bytes == 0 { Transfer::None } else { Transfer::Read(bytes) };
        // Some targets answer REPORT LUNS only at LUN 0, which each target has (SAM-5 4.6.4).
        let lun = if probe.asks_the_target() { Lun([0; 8]) } else { self.lun };
        match request(session, output, lun, cdb.as_bytes(), transfer) {
            Some(itt) => {
                self.tasks.insert(itt.0, Task::Probe(vec![0; bytes as usize], now));
            }
            // The command window is closed. The probe begins again once commands have ended.
            None => (self.probe, self.asks_again) = (None, true),
        }
    }

    /// Asks for the loss epoch after a flush that the target answered with GOOD. Returns the flush if the session does
    /// not accept the command.
    pub(crate) fn verify(&mut self, session: &mut Initiator, output: &mut Vec<u8>, flush: Submitted) -> Result<(), Submitted> {
        let (cdb, bytes) = loss_epoch_command();
        let Some(itt) = request(session, output, self.lun, cdb.as_bytes(), Transfer::Read(bytes)) else { return Err(flush) };
        self.tasks.insert(itt.0, Task::Verify(flush, vec![0; bytes as usize]));
        self.commands += 1;
        Ok(())
    }

    /// Closes the path and queues its commands for a resend. The next login follows later, or at once after a redirect
    /// or with another list of CHAP algorithms.
    pub(crate) fn fail(&mut self, url: &IscsiUrl, error: Error, now: Instant, work: &mut Work) {
        if let (PathState::Starting, Some(connection)) = (self.state, &self.connection) {
            self.attempt.ended(url, &connection.session, &error);
            if self.attempt.goes_on() {
                self.close();
                self.retry_at = now;
                return;
            }
        }
        let (changes, others) = self.take_tasks(work).into_iter().partition(|submitted| submitted.command.is_change());
        work.send_again(others);
        // A login that fails does not end the session before it, whose changes must still be fenced.
        self.fenced.extend::<Vec<Submitted>>(changes);
        self.fence_at = now;
        self.close();
        let wait = RETRY.0.saturating_mul(1 << self.in_a_row.min(8)).min(RETRY.1);
        self.retry_at = now + wait;
        self.in_a_row += 1;
        self.failures += 1;
        self.last_error = Some(error);
    }

    fn take_tasks(&mut self, work: &mut Work) -> Vec<Submitted> {
        self.commands = 0;
        let mut commands = Vec::new();
        for (_, task) in self.tasks.drain() {
            match task {
                Task::Command(submitted) | Task::Verify(submitted, _) => commands.push(submitted),
                Task::EndSession(path, failures) => work.fence_answers.push((path, failures, FenceAnswer::Again)),
                Task::Probe(..) | Task::EndFormer => {}
            }
        }
        commands
    }

    /// The ISID of a broken session that the target must be asked to end, over another path.
    pub(crate) fn fence_due(&self, now: Instant) -> Option<(Isid, u64)> {
        let is_down = matches!(self.state, PathState::Down | PathState::Starting);
        (now >= self.fence_at && is_down && !self.fenced.is_empty()).then_some((self.isid, self.failures))
    }

    /// Asks the target, over this path, to end the session of another one.
    pub(crate) fn ask_to_end(&mut self, (isid, failures): (Isid, u64), of: usize) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        let asked = connection.session.end_session(&mut connection.output, isid);
        asked.is_ok_and(|itt| self.tasks.insert(itt.0, Task::EndSession(of, failures)).is_none())
    }

    /// Continues after the login: asks the target to end the sessions that an earlier process left, then probes the LUN.
    pub(crate) fn begin_use(&mut self, session: &mut Initiator, output: &mut Vec<u8>, now: Instant) {
        self.former_due = None;
        if self.has_former {
            match session.end_former(output) {
                Ok(itt) => drop(self.tasks.insert(itt.0, Task::EndFormer)),
                // The command window is closed. No command is sent before this request.
                Err(_) => self.former_due = Some(now + RETRY.0),
            }
            return;
        }
        self.begin_probe(session, output, now);
    }

    /// Notes whether the sessions of an earlier process have ended, or must be asked for again.
    pub(crate) fn former_ended(&mut self, has_ended: bool, session: &mut Initiator, output: &mut Vec<u8>, now: Instant) {
        if has_ended {
            self.has_former = false;
            self.begin_use(session, output, now);
        } else {
            self.former_due = Some(now + RETRY.0);
        }
    }

    /// Notes that the target was asked to end the broken session.
    pub(crate) fn fence_asked(&mut self, now: Instant) {
        self.fence_at = now + FENCE_ANSWER;
    }

    /// Takes the target's answer about the session that broke at this failure of the path. The answer does not count
    /// for a later session, which may have begun after it.
    pub(crate) fn fence_answered(&mut self, failures: u64, answer: FenceAnswer, now: Instant, work: &mut Work) {
        if failures != self.failures {
            return;
        }
        match answer {
            FenceAnswer::Go => work.send_again(std::mem::take(&mut self.fenced)),
            FenceAnswer::Again => self.fence_at = now + RETRY.0,
        }
    }

    /// Changes that wait for the end of a broken session.
    pub(crate) const fn fenced(&mut self) -> &mut Vec<Submitted> {
        &mut self.fenced
    }

    fn close(&mut self) {
        self.downs += u64::from(matches!(self.state, PathState::Up | PathState::Draining));
        self.connection = None;
        self.state = PathState::Down;
        (self.probe, self.pinged, self.former_due) = (None, None, None);
    }

    /// Asks the target to end the session, without waiting for the answer.
    pub(crate) fn log_out(&mut self) {
        if let Some(connection) = &mut self.connection
            && connection.session.logout(&mut connection.output).is_ok()
        {
            let _ = connection.send();
        }
        self.close();
    }

    fn begin(&mut self, url: &IscsiUrl, options: &Options, now: Instant) -> Result<(), Error> {
        self.address = self.addresses.get(self.in_a_row as usize % self.addresses.len().max(1)).copied();
        let address = self.attempt.begin(self.address).ok_or_else(|| Error::Resolve {
            host: self.portal.clone(),
            source: io::Error::new(io::ErrorKind::NotFound, "the resolver found no address"),
        })?;
        let session = Initiator::new(settings(url, options, self.attempt.algorithms(url), self.isid));
        (self.began, self.state) = (now, PathState::Starting);
        self.connection = Some(Connection::begin(self.portal.clone(), address, session, now)?);
        Ok(())
    }

    /// Handles what is due: a new login, the end of a wait, a ping.
    pub(crate) fn tick(&mut self, url: &IscsiUrl, options: &Options, now: Instant, work: &mut Work) -> Result<(), Error> {
        match self.state {
            PathState::Down if now >= self.retry_at => return self.begin(url, options, now),
            PathState::Down => return Ok(()),
            PathState::Starting if now >= self.began + options.login_timeout => return Err(self.silent(options.login_timeout)),
            PathState::Starting => {
                if self.former_due.is_some_and(|due| now >= due)
                    && let Some(mut connection) = self.connection.take()
                {
                    self.begin_use(&mut connection.session, &mut connection.output, now);
                    self.connection = Some(connection);
                }
                return Ok(());
            }
            PathState::Draining if self.commands == 0 => {
                self.log_out();
                // The answer to a request to end another session does not arrive any more. So the request is repeated
                // over another path.
                let left = self.take_tasks(work);
                work.send_again(left);
                self.retry_at = now + RETRY.1;
                return Ok(());
            }
            PathState::Up | PathState::Draining => self.probe_if_asked(now),
        }
        let quiet_since = self.connection.as_ref().map_or(now, |connection| connection.heard);
        match self.pinged {
            Some(pinged) if quiet_since >= pinged => self.pinged = None,
            Some(pinged) if now >= pinged + options.ping_timeout => return Err(self.silent(now - quiet_since)),
            None if now >= quiet_since + self.ping_after(options) => {
                if let Some(connection) = &mut self.connection
                    && connection.session.ping(&mut connection.output, &[]).is_ok()
                {
                    self.pinged = Some(now);
                }
            }
            _ => {}
        }
        if now >= self.looked + Duration::from_secs(1) {
            self.looked = now;
            let is_late = |task: &Task| task.sent().is_some_and(|sent| now >= sent + options.command_timeout);
            if self.tasks.values().any(is_late) {
                return Err(self.silent(options.command_timeout));
            }
        }
        Ok(())
    }

    const fn ping_after(&self, options: &Options) -> Duration {
        if self.commands == 0 { options.idle_ping_after } else { options.ping_after }
    }

    fn silent(&self, waited: Duration) -> Error {
        Error::Silent { portal: self.portal.clone(), seconds: waited.as_secs().max(1) }
    }

    /// The next time at which `tick` has something to do.
    pub(crate) fn next_tick(&self, options: &Options, now: Instant) -> Instant {
        let fence = (!self.fenced.is_empty()).then_some(self.fence_at);
        let tick = match self.state {
            PathState::Down => self.retry_at,
            PathState::Starting => {
                let limit = self.began + options.login_timeout;
                self.former_due.map_or(limit, |due| due.min(limit))
            }
            PathState::Up | PathState::Draining => match (self.pinged, &self.connection) {
                (Some(pinged), _) => pinged + options.ping_timeout,
                (None, Some(connection)) => connection.heard + self.ping_after(options),
                (None, None) => now,
            },
        };
        fence.map_or(tick, |at| at.min(tick))
    }
}

fn request(session: &mut Initiator, output: &mut Vec<u8>, lun: Lun, cdb: &[u8], transfer: Transfer<'_>) -> Option<Itt> {
    session.command(output, &Request { lun, cdb, attribute: 1, transfer }).ok()
}

pub(crate) fn settings(url: &IscsiUrl, options: &Options, algorithms: Vec<Algorithm>, isid: Isid) -> Settings {
    let choice = |wanted| if wanted { DigestChoice::Required } else { DigestChoice::Allowed };
    let offer = Offer { header_digest: choice(url.digests.0), data_digest: choice(url.digests.1), ..Offer::default() };
    let [identifier] = naming::random();
    Settings {
        name: options.name.clone(),
        isid,
        target: url.target.as_ref().map(|(name, _)| name.clone()),
        offer,
        credential: url.credential.clone(),
        target_credential: url.target_credential.clone(),
        algorithms,
        challenge: Challenge { identifier, bytes: naming::random() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;

    fn path(now: Instant) -> (IscsiUrl, Path) {
        let url: IscsiUrl = "iscsi://127.0.0.1/iqn.2026-11.org.example:v/0".parse().unwrap();
        let path = Path::new(&url, Isid::of_life([0, 0, 1], 1, 0), false, ("127.0.0.1", 3260), now).unwrap();
        (url, path)
    }

    #[test]
    fn a_retry_of_a_path_that_is_down_is_no_second_time_that_it_went_down() {
        let (now, mut work) = (Instant::now(), Work::default());
        let (url, mut path) = path(now);
        let mut fail = |path: &mut Path| {
            let error = Error::Broken { portal: path.portal.clone(), source: io::ErrorKind::ConnectionRefused.into() };
            path.fail(&url, error, now, &mut work);
            (path.report().downs, path.report().failures)
        };
        assert_eq!(fail(&mut path), (0, 1), "it was never up");
        path.state = PathState::Up;
        assert_eq!(fail(&mut path), (1, 2));
        path.state = PathState::Starting;
        assert_eq!((fail(&mut path), fail(&mut path)), ((1, 3), (1, 4)));
        path.state = PathState::Draining;
        assert_eq!(fail(&mut path), (2, 5));
        path.state = PathState::Draining;
        path.log_out();
        assert_eq!(fail(&mut path), (3, 6), "left as the target asked, then not reached");
    }

    #[test]
    fn a_request_to_end_a_session_that_the_target_does_not_answer_is_made_again() {
        let (now, mut work) = (Instant::now(), Work::default());
        let (_, mut path) = path(now);
        let command = Command::Write { offset: 0, data: vec![1; 512], fua: false };
        let origin = Origin::Caller;
        path.fenced.push(Submitted { number: 1, origin, tag: 1, command, attempts: 0, covers: 0, submitted: now, sent: now });
        assert!(path.fence_due(now).is_some());
        path.fence_asked(now);
        assert_eq!(path.fence_due(now + FENCE_ANSWER / 2), None);
        assert!(path.fence_due(now + FENCE_ANSWER).is_some());
        path.fence_answered(0, FenceAnswer::Go, now, &mut work);
        assert_eq!((path.fence_due(now + FENCE_ANSWER), work.queue.len()), (None, 1));
    }

    #[test]
    fn a_request_to_end_a_session_that_a_path_leaves_unanswered_is_made_again() {
        let (now, mut work) = (Instant::now(), Work::default());
        let (url, mut path) = path(now);
        path.state = PathState::Draining;
        path.tasks.insert(1, Task::EndSession(1, 7));
        path.tick(&url, &Options::for_portals(1), now, &mut work).unwrap();
        assert_eq!((path.state, work.fence_answers), (PathState::Down, vec![(1, 7, FenceAnswer::Again)]));
        assert!(path.tasks.is_empty());
    }

    #[test]
    fn a_probe_command_that_the_target_does_not_answer_ends_the_path_as_any_other_command() {
        let (now, mut work, options) = (Instant::now(), Work::default(), Options::for_portals(1));
        let (url, mut path) = path(now);
        path.state = PathState::Up;
        path.tasks.insert(1, Task::Probe(Vec::new(), now));
        assert!(path.tick(&url, &options, now + options.command_timeout / 2, &mut work).is_ok());
        let late = path.tick(&url, &options, now + options.command_timeout, &mut work);
        assert!(matches!(late, Err(Error::Silent { .. })), "{late:?}");
    }

    #[test]
    fn a_request_to_end_former_sessions_that_the_target_does_not_answer_ends_with_the_time_of_the_login() {
        let (now, mut work, options) = (Instant::now(), Work::default(), Options::for_portals(1));
        let (url, mut path) = path(now);
        path.state = PathState::Starting;
        path.tasks.insert(1, Task::EndFormer);
        assert!(path.tick(&url, &options, now + options.login_timeout / 2, &mut work).is_ok());
        let late = path.tick(&url, &options, now + options.login_timeout, &mut work);
        assert!(matches!(late, Err(Error::Silent { .. })), "{late:?}");
    }
}
