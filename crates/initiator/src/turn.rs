//! One turn of a device: handle what is due, send, and receive.

use crate::command::{Command, Failure};
use crate::device::Device;
use crate::error::Error;
use crate::path::Path;
use crate::path_report::PathState;
use crate::socket::{self, Wait};
use crate::work::{FenceAnswer, Origin, Submitted};
use iscsi_proto::pdu::Isid;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

/// The longest wait for the kernel, even if the caller asks for more.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// How a turn ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Whether the caller's own descriptor is readable.
    pub is_woken: bool,
}

impl Device {
    /// Sends what can be sent, waits until data arrives or `wait` is over (`None`: does not wait), and receives the data. Does
    /// not wait while completions can be fetched. The wait also ends when `wake` is readable.
    ///
    /// # Errors
    /// [`Error::OtherLun`]: a portal leads to another LUN. [`Error::Broken`]: poll(2) failed. A path that breaks is not
    /// an error: it is retried.
    pub fn turn(&mut self, wait: Option<Duration>, wake: Option<BorrowedFd<'_>>) -> Result<Turn, Error> {
        let now = Instant::now();
        self.keep_paths(now);
        self.dispatch(now);
        self.send(now);
        let wait = if self.has_completed() { Duration::ZERO } else { self.bounded(wait.unwrap_or(Duration::ZERO), now) };
        let ready = {
            let connections = self.paths.iter().filter_map(|path| path.connection.as_ref());
            let mut waits: Vec<Wait<'_>> = connections
                .map(|connection| Wait { fd: connection.stream().as_fd(), to_send: connection.has_output() })
                .collect();
            waits.extend(wake.map(|fd| Wait { fd, to_send: false }));
            socket::wait(&waits, wait).map_err(|source| Error::Broken { portal: self.url.portals_text(), source })?
        };
        self.receive(&ready)?;
        // `wake` is the last descriptor in the list.
        Ok(Turn { is_woken: wake.is_some() && ready.last() == Some(&true) })
    }

    fn keep_paths(&mut self, now: Instant) {
        for path in &mut self.paths {
            if let Err(error) = path.tick(&self.url, &self.options, now, &mut self.work) {
                path.fail(&self.url, error, now, &mut self.work);
            }
        }
        self.work.take_due(now);
        self.fence(now);
        if std::mem::take(&mut self.work.ask_again) {
            self.paths.iter_mut().for_each(|path| path.ask_again(now));
        }
        let has_path = self.paths.iter().any(|path| matches!(path.state, PathState::Up | PathState::Draining));
        let limit = self.options.replacement_timeout;
        self.without_path = if has_path { None } else { Some(self.without_path.unwrap_or(now)) };
        if self.without_path.is_some_and(|since| now >= since + limit) {
            let fenced: Vec<Submitted> = self
                .paths
                .iter_mut()
                .flat_map(|path| path.fenced().extract_if(.., |one| one.is_older(limit, now)).collect::<Vec<_>>())
                .collect();
            self.work.send_again(fenced);
            // Each command may wait for the whole time, so commands that are submitted now do not fail yet.
            self.work.fail_waiting(Failure::NoPath, |submitted| submitted.is_older(limit, now));
        }
    }

    /// Asks the target, over another path, to end the sessions of broken paths. Their writes are not resent before
    /// that.
    fn fence(&mut self, now: Instant) {
        for (number, failures, answer) in std::mem::take(&mut self.work.fence_answers) {
            if let Some(path) = self.paths.get_mut(number) {
                path.fence_answered(failures, answer, now, &mut self.work);
            }
        }
        let due: Vec<(usize, (Isid, u64))> =
            self.paths.iter().enumerate().filter_map(|(number, path)| Some((number, path.fence_due(now)?))).collect();
        for (number, session) in due {
            let mut others = self.paths.iter_mut().filter(|path| path.state == PathState::Up);
            let is_asked = others.any(|path| path.ask_to_end(session, number));
            match self.paths.get_mut(number) {
                Some(path) if is_asked => path.fence_asked(now),
                // No path can send the request. It is tried again a moment later.
                Some(path) => path.fence_answered(session.1, FenceAnswer::Again, now, &mut self.work),
                None => {}
            }
        }
    }

    /// Gives commands to paths. During a replay, only the commands of the replay.
    fn dispatch(&mut self, now: Instant) {
        if self.work.retention.is_replaying() {
            self.replay(now);
            return;
        }
        if self.work.retention.take_flush() {
            self.work.own_flush = Some(self.numbered(0, Command::Flush, Origin::OwnFlush, now));
        }
        if let Some(flush) = self.work.own_flush.take()
            && let Err(flush) = self.give(flush, now)
        {
            self.work.own_flush = Some(flush);
            return;
        }
        while let Some(submitted) = self.work.queue.pop_front() {
            let is_held_back = submitted.command.is_change() && self.work.retention.is_full();
            let given = if is_held_back { Err(submitted) } else { self.give(submitted, now) };
            if let Err(submitted) = given {
                self.work.queue.push_front(submitted);
                return;
            }
        }
    }

    /// Writes again what the target has lost, after the commands in progress.
    fn replay(&mut self, now: Instant) {
        let epoch = self.work.retention.epoch();
        loop {
            let waiting = self.work.replays.pop_front();
            let submitted = match waiting {
                Some(submitted) if submitted.origin != Origin::Replay(epoch) => continue,
                Some(submitted) => submitted,
                None => {
                    let under_way = self.paths.iter().map(Path::under_way_for_replay).sum();
                    let Some(command) = self.work.retention.next(under_way) else { return };
                    self.numbered(0, command, Origin::Replay(epoch), now)
                }
            };
            if let Err(submitted) = self.give(submitted, now) {
                self.work.replays.push_front(submitted);
                return;
            }
        }
    }

    /// Gives a command to the path with the best ALUA state and, among these, the fewest commands under way.
    fn give(&mut self, submitted: Submitted, now: Instant) -> Result<(), Submitted> {
        let open = self.paths.iter_mut().filter(|path| path.is_open(&self.options));
        let Some(path) = open.min_by_key(|path| (path.access, path.commands())) else { return Err(submitted) };
        path.send(submitted, self.geometry.block_bytes, now)
    }

    fn send(&mut self, now: Instant) {
        for path in &mut self.paths {
            if let Some(connection) = &mut path.connection
                && let Err(error) = connection.send()
            {
                path.fail(&self.url, error, now, &mut self.work);
            }
        }
    }

    /// How long to wait: at most until something is due.
    fn bounded(&self, wait: Duration, now: Instant) -> Duration {
        let ticks = self.paths.iter().map(|path| path.next_tick(&self.options, now));
        let next = ticks.chain(self.work.next_due()).min();
        next.map_or(wait, |next| wait.min(next.saturating_duration_since(now))).min(WAIT_MAX)
    }

    fn receive(&mut self, ready: &[bool]) -> Result<(), Error> {
        let now = Instant::now();
        let connected: Vec<usize> = (0..self.paths.len())
            .filter(|number| self.paths.get(*number).is_some_and(|path| path.connection.is_some()))
            .collect();
        for (number, _) in connected.into_iter().zip(ready).filter(|(_, ready)| **ready) {
            let Some(path) = self.paths.get_mut(number) else { continue };
            if let Err(error) = path.receive(now, &mut self.work) {
                path.fail(&self.url, error, now, &mut self.work);
            }
            self.learn(number)?;
        }
        Ok(())
    }
}
