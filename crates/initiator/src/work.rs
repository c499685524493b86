//! The commands of a LUN, shared by its paths: which must be resent, which have ended, and what is lost.

use crate::command::{Command, Completion, Failure};
use crate::retention::Retention;
use crate::sense::{Reaction, SenseCode};
use iscsi_proto::initiator::{Residual, Status};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often a command is resent because of the target's answer.
pub(crate) const ATTEMPTS_MAX: u16 = 50;
/// How often a command is resent while the target is busy or not ready: for at least 30 s, after which Linux gives up too.
const BUSY_ATTEMPTS_MAX: u16 = 3000;
/// The pause before a command is resent.
pub(crate) const BUSY: Duration = Duration::from_millis(10);

/// A submitted command.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub(crate) number: u64,
    pub(crate) origin: Origin,
    pub(crate) tag: u64,
    pub(crate) command: Command,
    pub(crate) attempts: u16,
    /// For a flush: the number of changes that had completed when it was submitted.
    pub(crate) covers: u64,
    pub(crate) submitted: Instant,
    pub(crate) sent: Instant,
}

/// What submitted a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Caller,
    /// The replay with this number: the target had lost the change.
    Replay(u64),
    /// The initiator itself: a flush that frees space for kept changes.
    OwnFlush,
}

/// The state that the paths share: commands that wait, commands that ended, and the state of the LUN.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) queue: VecDeque<Submitted>,
    /// Waiting commands of a replay. No other command is sent before them.
    pub(crate) replays: VecDeque<Submitted>,
    pub(crate) retention: Retention,
    /// The flush that frees space for kept changes, while it waits to be sent. It is not in `queue`, so that it does not wait for
    /// changes that wait for it.
    pub(crate) own_flush: Option<Submitted>,
    pub(crate) later: Vec<(Instant, Submitted)>,
    pub(crate) done: VecDeque<Completion>,
    pub(crate) changes: u64,
    pub(crate) flushed: u64,
    pub(crate) is_lost: bool,
    /// The loss epoch of the LUN under which the kept changes were acknowledged. Only Millrace's target has it.
    pub(crate) loss_epoch: Option<u64>,
    /// The failure of the initiator's own flush, until a flush of a caller reports it.
    pub(crate) own_failure: Option<Failure>,
    pub(crate) write_cache: bool,
    pub(crate) block_bytes: u32,
    pub(crate) ask_again: bool,
    /// Answers to requests to end the session of a path: the path, how often it had failed by then, and the answer.
    pub(crate) fence_answers: Vec<(usize, u64, FenceAnswer)>,
}

impl Work {
    /// Called when the content of the LUN's volatile cache may be lost. The kept changes are written again. If they are
    /// not kept, the device accepts no further command.
    pub(crate) fn note_loss(&mut self) {
        if self.write_cache && self.changes > self.flushed && !self.retention.begin_replay() {
            self.lose();
        }
    }

    /// Takes the loss epoch of the LUN. A changed epoch is a loss, even if no unit attention came.
    pub(crate) fn note_epoch(&mut self, epoch: u64) {
        if self.loss_epoch.replace(epoch).is_some_and(|known| known != epoch) {
            self.note_loss();
        }
    }

    /// Whether a flush succeeds only if the loss epoch is the same as before.
    pub(crate) const fn compares_losses(&self) -> bool {
        self.write_cache && self.loss_epoch.is_some()
    }

    fn lose(&mut self) {
        self.is_lost = true;
        self.retention.give_up();
        self.replays.clear();
    }

    fn put_first(&mut self, submitted: Submitted) {
        match submitted.origin {
            Origin::Replay(_) => self.replays.push_front(submitted),
            Origin::OwnFlush => self.own_flush = Some(submitted),
            Origin::Caller => self.queue.push_front(submitted),
        }
    }

    /// Resends a command at a time, unless it was sent too often.
    pub(crate) fn repeat(&mut self, mut submitted: Submitted, failure: Failure, at: Instant, attempts_max: u16) {
        submitted.attempts = submitted.attempts.saturating_add(1);
        if submitted.attempts >= attempts_max {
            self.finish(submitted, Err(failure));
        } else {
            self.later.push((at, submitted));
        }
    }

    /// Puts commands of a broken session before the others, in their order.
    pub(crate) fn send_again(&mut self, mut commands: Vec<Submitted>) {
        commands.sort_by_key(|submitted| submitted.number);
        commands.into_iter().rev().for_each(|submitted| self.put_first(submitted));
    }

    /// Moves the commands that are due to the queue.
    pub(crate) fn take_due(&mut self, now: Instant) {
        if self.later.iter().any(|(at, _)| *at <= now) {
            let (due, later) = std::mem::take(&mut self.later).into_iter().partition(|(at, _)| *at <= now);
            self.later = later;
            let due: Vec<(Instant, Submitted)> = due;
            due.into_iter().rev().for_each(|(_, submitted)| self.put_first(submitted));
        }
    }

    /// When the next command is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.later.iter().map(|(at, _)| *at).min()
    }

    pub(crate) fn finish(&mut self, submitted: Submitted, mut result: Result<(), Failure>) {
        if let Origin::Replay(epoch) = submitted.origin {
            // A result of an earlier replay does not count.
            match result {
                Err(_) if epoch == self.retention.epoch() => self.lose(),
                _ => self.retention.replayed(epoch, submitted.command.range()),
            }
            return;
        }
        let is_own = submitted.origin == Origin::OwnFlush;
        if is_own {
            self.retention.own_flush_ended();
        }
        if result.is_ok() {
            let was_under_way = self.retention.is_replaying();
            match &submitted.command {
                Command::Flush if was_under_way && is_own => return,
                // The command may have been executed before or after the loss, so its data, or what it covered, may lack lost
                // changes.
                Command::Flush | Command::Read { .. } if was_under_way => return self.later.push((submitted.sent, submitted)),
                Command::Flush => {
                    self.flushed = self.flushed.max(submitted.covers);
                    self.retention.flushed(self.flushed);
                }
                command if command.is_change() => {
                    self.changes += u64::from(!matches!(command, Command::Write { fua: true, .. }));
                    if self.write_cache {
                        self.retention.changed(self.changes, command);
                    }
                }
                _ => {}
            }
        } else if is_own {
            // The target could not make the changes durable, and another write of them would not help. The next flush
            // of a caller reports it.
            self.own_failure = result.err();
            self.retention.give_up();
        }
        if is_own {
            return;
        }
        if submitted.command == Command::Flush
            && let Some(failure) = self.own_failure.take()
        {
            result = Err(failure);
        }
        let result = if self.is_lost { Err(Failure::Lost) } else { result };
        self.done.push_back(Completion { tag: submitted.tag, command: submitted.command, result });
    }

    /// Handles the target's answer to a command.
    pub(crate) fn ended(&mut self, submitted: Submitted, status: Status, sense: &[u8], now: Instant) {
        match (status.response, status.status) {
            (0, 0x00) => {
                let result = match status.residual {
                    Residual::Underflow(bytes) if bytes > 0 => Err(Failure::Short(bytes)),
                    _ => Ok(()),
                };
                self.finish(submitted, result);
            }
            (0, 0x02) => match SenseCode::parse(sense) {
                None => self.finish(submitted, Err(Failure::Status(2))),
                Some(code) => self.check_condition(submitted, code, now),
            },
            (0, status @ (0x08 | 0x28 | 0x40)) => self.repeat(submitted, Failure::Status(status), now + BUSY, BUSY_ATTEMPTS_MAX),
            (0, 0x18) => self.finish(submitted, Err(Failure::Reserved)),
            (0, status) => self.finish(submitted, Err(Failure::Status(status))),
            (response, _) => self.repeat(submitted, Failure::Target(response), now + BUSY, ATTEMPTS_MAX),
        }
    }

    fn check_condition(&mut self, submitted: Submitted, code: SenseCode, now: Instant) {
        let failure = Failure::Sense(code);
        match code.reaction() {
            Reaction::Fail => self.finish(submitted, Err(failure)),
            Reaction::Repeat => self.repeat(submitted, failure, now + BUSY, ATTEMPTS_MAX),
            Reaction::Later | Reaction::OtherPath => self.repeat(submitted, failure, now + BUSY, BUSY_ATTEMPTS_MAX),
            Reaction::Lost => {
                self.note_loss();
                if self.is_lost {
                    self.finish(submitted, Err(Failure::Lost));
                } else if !matches!(submitted.origin, Origin::Replay(_)) {
                    // Another replay has begun.
                    self.repeat(submitted, failure, now + BUSY, ATTEMPTS_MAX);
                }
            }
        }
    }

    /// Ends all waiting commands.
    pub(crate) fn fail_waiting(&mut self, failure: Failure, is_meant: impl Fn(&Submitted) -> bool) {
        let waiting = self.later.drain(..).map(|(_, submitted)| submitted).chain(self.queue.drain(..));
        let is_meant = |submitted: &Submitted| submitted.origin == Origin::Caller && is_meant(submitted);
        let (meant, kept): (Vec<_>, Vec<_>) = waiting.partition(is_meant);
        kept.into_iter().rev().for_each(|submitted| self.put_first(submitted));
        meant.into_iter().for_each(|submitted| self.finish(submitted, Err(failure)));
    }
}

impl Submitted {
    pub(crate) fn is_older(&self, age: Duration, now: Instant) -> bool {
        now >= self.submitted + age
    }
}

/// The target's answer to a request to end a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FenceAnswer {
    /// The session has ended. Or the target does not know such requests; then the initiator resends as dm-multipath does.
    Go,
    /// The session has not ended yet, or no answer came.
    Again,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submitted(command: Command, covers: u64) -> Submitted {
        let now = Instant::now();
        Submitted { number: 1, origin: Origin::Caller, tag: 7, command, attempts: 0, covers, submitted: now, sent: now }
    }

    fn status(status: u8) -> Status {
        Status { response: 0, status, residual: Residual::None }
    }

    const POWER_ON: [u8; 8] = [0x72, 6, 0x29, 1, 0, 0, 0, 0];

    #[test]
    fn a_power_loss_behind_an_unflushed_write_ends_the_device_and_behind_a_flush_nothing() {
        let now = Instant::now();
        let write = || Command::Write { offset: 0, data: vec![0; 512], fua: false };
        let mut work = Work { write_cache: true, ..Work::default() };
        work.ended(submitted(write(), 0), status(0), &[], now);
        work.ended(submitted(Command::Flush, 1), status(0), &[], now);
        work.ended(submitted(write(), 0), status(2), &POWER_ON, now);
        assert!(!work.is_lost && work.later.len() == 1, "it was flushed: the write is resent");
        work.ended(submitted(write(), 0), status(0), &[], now);
        work.ended(submitted(Command::Flush, 1), status(0), &[], now); // submitted before that write completed
        work.ended(submitted(write(), 0), status(2), &POWER_ON, now);
        assert!(work.is_lost);
        assert_eq!(work.done.back().unwrap().result, Err(Failure::Lost));
    }

    #[test]
    fn what_is_kept_is_replayed_and_reads_and_flushes_that_were_under_way_are_done_again() {
        let now = Instant::now();
        let mut work = Work { write_cache: true, retention: Retention::new(1 << 20), ..Work::default() };
        let write = || Command::Write { offset: 0, data: vec![1; 512], fua: false };
        work.ended(submitted(write(), 0), status(0), &[], now);
        work.done.clear();
        work.ended(submitted(write(), 0), status(2), &POWER_ON, now);
        assert!(!work.is_lost && work.retention.is_replaying());
        work.ended(submitted(Command::Flush, 1), status(0), &[], now);
        work.ended(submitted(Command::Read { offset: 0, buffer: vec![0; 512] }, 0), status(0), &[], now);
        assert!(work.done.is_empty() && work.later.len() == 3 && work.flushed == 0);
        let again = Submitted { origin: Origin::Replay(1), ..submitted(work.retention.next(0).unwrap(), 0) };
        work.ended(again, status(0), &[], now);
        assert!(!work.retention.is_replaying());
        let failed = |work: &mut Work| {
            work.note_loss();
            let again = Submitted { origin: Origin::Replay(2), ..submitted(work.retention.next(0).unwrap(), 0) };
            work.ended(again, status(2), &[0x72, 3, 0x0c, 0, 0, 0, 0, 0], now);
        };
        failed(&mut work);
        assert!(work.is_lost && !work.retention.is_replaying());
    }

    #[test]
    fn a_flush_that_makes_room_does_not_wait_for_the_changes_that_wait_for_it() {
        let mut work = Work { write_cache: true, retention: Retention::new(1 << 20), ..Work::default() };
        let write = Command::Write { offset: 0, data: vec![1; 512], fua: false };
        let own = Submitted { origin: Origin::OwnFlush, number: 2, ..submitted(Command::Flush, 0) };
        work.send_again(vec![own, submitted(write, 0)]); // of a session that broke
        assert!(work.own_flush.is_some() && work.queue.len() == 1);
    }

    #[test]
    fn another_loss_epoch_is_a_loss_though_no_unit_attention_came() {
        let now = Instant::now();
        let write = || Command::Write { offset: 0, data: vec![1; 512], fua: false };
        let mut work = Work { write_cache: true, retention: Retention::new(1 << 20), ..Work::default() };
        work.note_epoch(3);
        work.ended(submitted(write(), 0), status(0), &[], now);
        work.note_epoch(3);
        assert!(!work.retention.is_replaying());
        work.note_epoch(4);
        assert!(work.retention.is_replaying() && !work.is_lost);
    }

    #[test]
    fn a_flush_that_makes_room_and_fails_fails_the_next_flush_of_a_caller_once() {
        let now = Instant::now();
        let mut work = Work { write_cache: true, retention: Retention::new(1 << 20), ..Work::default() };
        let own = Submitted { origin: Origin::OwnFlush, ..submitted(Command::Flush, 0) };
        work.ended(own, status(2), &[0x72, 3, 0x0c, 0, 0, 0, 0, 0], now);
        assert!(work.done.is_empty());
        for expected in [true, false] {
            work.ended(submitted(Command::Flush, 0), status(0), &[], now);
            assert_eq!(work.done.pop_back().unwrap().result.is_err(), expected);
        }
    }

    #[test]
    fn without_a_write_cache_a_power_loss_is_nothing() {
        let mut work = Work::default();
        let write = Command::Write { offset: 0, data: vec![0; 512], fua: false };
        work.ended(submitted(write, 0), status(0), &[], Instant::now());
        work.ended(submitted(Command::Flush, 1), status(2), &POWER_ON, Instant::now());
        assert!(!work.is_lost && work.later.len() == 1);
    }

    #[test]
    fn a_busy_target_is_asked_again_and_a_reservation_is_not() {
        let (now, mut work) = (Instant::now(), Work::default());
        work.ended(submitted(Command::Flush, 0), status(0x28), &[], now);
        assert_eq!(work.next_due(), Some(now + BUSY));
        work.take_due(now + BUSY);
        assert_eq!(work.queue.len(), 1);
        work.ended(submitted(Command::Flush, 0), status(0x18), &[], now);
        assert_eq!(work.done.pop_front().unwrap().result, Err(Failure::Reserved));
    }

    #[test]
    fn a_command_that_the_target_refuses_again_and_again_fails() {
        let (now, mut work) = (Instant::now(), Work::default());
        let mut one = submitted(Command::Flush, 0);
        let aborted = [0x72, 0x0b, 0, 0, 0, 0, 0, 0];
        for _ in 0..ATTEMPTS_MAX {
            work.ended(one, status(2), &aborted, now);
            work.take_due(now + BUSY);
            match work.queue.pop_front() {
                Some(again) => one = again,
                None => break,
            }
        }
        assert!(matches!(work.done.pop_front().unwrap().result, Err(Failure::Sense(code)) if code.key == 0x0b));
    }
}
