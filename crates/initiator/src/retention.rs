//! Changes that completed in a LUN's volatile cache. They are kept until a flush covers them, and written again if the
//! target loses them.
//!
//! When a loss is noticed, no new command is sent until those in progress have ended. A write among these may have been
//! executed after the loss, and is kept after the others. Then all kept changes are written in the order in which they
//! completed. Then the commands that waited continue.

use crate::command::Command;
use std::collections::VecDeque;

/// The kept changes of one LUN.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    /// Changes in the order of completion, each with the number of changes that had completed by then.
    kept: VecDeque<(u64, Command)>,
    bytes: usize,
    /// Most bytes that are kept. 0: no change is kept.
    limit: usize,
    stage: Stage,
    /// Number of replays that began.
    epoch: u64,
    /// The initiator's own flush is in progress.
    flushes: bool,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    /// The commands in progress must end first.
    Draining,
    /// The index of the next kept change, and the ranges that are being written.
    Writing(usize, Vec<(u64, u64)>),
}

impl Retention {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Notes a completed change. `number` is the number of completed changes, with this one.
    pub(crate) fn changed(&mut self, number: u64, command: &Command) {
        if !command.is_change() {
            return;
        }
        if matches!(command, Command::Write { fua: true, .. }) {
            self.forget(command.range());
        } else if self.limit > 0 {
            self.bytes += held_bytes(command);
            self.kept.push_back((number, command.clone()));
        }
    }

    /// Drops what is kept of a range, because a later write of it is durable. The older data must not be written again,
    /// not even for a moment: the process may end at that moment, and another initiator may flush.
    fn forget(&mut self, (start, bytes): (u64, u64)) {
        let touches = |command: &Command| {
            let (offset, length) = command.range();
            offset < start + bytes && start < offset + length
        };
        if self.kept.iter().any(|(_, command)| touches(command)) {
            let parts = |(number, command): (u64, Command)| {
                let parts =
                    if touches(&command) { [command.before(start), command.from(start + bytes)] } else { [Some(command), None] };
                parts.into_iter().flatten().map(move |part| (number, part))
            };
            self.kept = std::mem::take(&mut self.kept).into_iter().flat_map(parts).collect();
            self.bytes = self.kept.iter().map(|(_, command)| held_bytes(command)).sum();
        }
    }

    /// Notes that the first `covers` changes are durable.
    pub(crate) fn flushed(&mut self, covers: u64) {
        while self.kept.front().is_some_and(|(number, _)| *number <= covers) {
            self.bytes -= self.kept.pop_front().map_or(0, |(_, command)| held_bytes(&command));
        }
    }

    /// Called when the target has lost its cache. Returns whether all changes in it are kept.
    pub(crate) fn begin_replay(&mut self) -> bool {
        if self.limit == 0 {
            return false;
        }
        self.epoch += 1;
        self.stage = if self.kept.is_empty() { Stage::Idle } else { Stage::Draining };
        true
    }

    pub(crate) const fn is_replaying(&self) -> bool {
        !matches!(self.stage, Stage::Idle)
    }

    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The next change to write again, if it can be sent now.
    pub(crate) fn next(&mut self, under_way: usize) -> Option<Command> {
        if matches!(self.stage, Stage::Draining) && under_way == 0 {
            self.stage = Stage::Writing(0, Vec::new());
        }
        let Stage::Writing(next, ranges) = &mut self.stage else { return None };
        let (_, command) = self.kept.get(*next)?;
        let (offset, bytes) = command.range();
        if ranges.iter().any(|(start, length)| offset < start + length && *start < offset + bytes) {
            return None; // overlapping changes are written in their order
        }
        ranges.push((offset, bytes));
        *next += 1;
        Some(command.clone())
    }

    /// Notes that a change of a replay was written.
    pub(crate) fn replayed(&mut self, epoch: u64, range: (u64, u64)) {
        let Stage::Writing(next, ranges) = &mut self.stage else { return };
        if epoch != self.epoch {
            return;
        }
        if let Some(at) = ranges.iter().position(|known| *known == range) {
            ranges.swap_remove(at);
        }
        if ranges.is_empty() && *next == self.kept.len() {
            self.stage = Stage::Idle;
        }
    }

    /// Whether no change may be sent until a flush has ended.
    pub(crate) const fn is_full(&self) -> bool {
        self.limit > 0 && self.bytes >= self.limit
    }

    /// Whether the initiator's own flush must be sent now. If so, it counts as sent.
    pub(crate) const fn take_flush(&mut self) -> bool {
        let wanted = self.limit > 0 && self.bytes >= self.limit / 2 && !self.flushes;
        self.flushes |= wanted;
        wanted
    }

    /// Notes that the initiator's own flush has ended.
    pub(crate) const fn own_flush_ended(&mut self) {
        self.flushes = false;
    }

    /// Drops all kept changes, because they cannot be made durable.
    pub(crate) fn give_up(&mut self) {
        *self = Self { epoch: self.epoch + 1, ..Self::default() };
    }
}

/// The memory that a kept change takes.
const fn held_bytes(command: &Command) -> usize {
    size_of::<(u64, Command)>() + if let Command::Write { data, .. } = command { data.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(offset: u64, byte: u8) -> Command {
        Command::Write { offset, data: vec![byte; 512], fua: false }
    }

    #[test]
    fn kept_changes_are_written_again_in_their_order_after_the_commands_in_progress() {
        let mut kept = Retention::new(1 << 20);
        assert!(kept.begin_replay() && !kept.is_replaying(), "no change is kept, so no replay is needed");
        assert!(!Retention::default().begin_replay(), "with the limit 0 the changes are not kept");
        for (number, (offset, byte)) in (1..).zip([(0, 1), (512, 2), (0, 3)]) {
            kept.changed(number, &write(offset, byte));
        }
        kept.flushed(0);
        assert!(kept.begin_replay() && kept.is_replaying());
        assert_eq!(kept.next(1), None, "one command is in progress");
        assert_eq!((kept.next(0), kept.next(1)), (Some(write(0, 1)), Some(write(512, 2))));
        assert_eq!(kept.next(2), None, "over one that is being written");
        kept.replayed(2, (0, 512));
        assert_eq!(kept.next(1), Some(write(0, 3)));
        kept.replayed(2, (0, 512));
        kept.replayed(2, (512, 512));
        assert!(!kept.is_replaying());
        kept.flushed(3);
        assert!(kept.begin_replay() && !kept.is_replaying(), "all is durable");
    }

    #[test]
    fn a_second_loss_begins_anew() {
        let mut kept = Retention::new(1 << 20);
        kept.changed(1, &write(0, 1));
        assert!(kept.begin_replay());
        assert!(kept.next(0).is_some());
        assert!(kept.begin_replay());
        kept.replayed(1, (0, 512));
        assert!(kept.is_replaying(), "that was of the first");
        assert_eq!(kept.next(0), Some(write(0, 1)));
        kept.replayed(2, (0, 512));
        assert!(!kept.is_replaying());
    }

    #[test]
    fn data_that_a_durable_write_replaced_is_never_written_again() {
        let mut kept = Retention::new(1 << 20);
        let durable = |offset, bytes| Command::Write { offset, data: vec![9; bytes], fua: true };
        let long = Command::Write { offset: 0, data: [vec![1; 512], vec![2; 512], vec![3; 512]].concat(), fua: false };
        kept.changed(1, &long);
        kept.changed(2, &Command::WriteZeroes { offset: 512, bytes: 1024, unmap: true });
        kept.changed(3, &Command::Unmap { offset: 4096, bytes: 512 });
        kept.changed(3, &durable(512, 512));
        kept.changed(3, &durable(4096, 4096));
        let rest = Command::WriteZeroes { offset: 1024, bytes: 512, unmap: true };
        let left: Vec<_> = kept.kept.iter().map(|(number, command)| (*number, command.clone())).collect();
        assert_eq!(left, [(1, write(0, 1)), (1, write(1024, 3)), (2, rest)]);
        assert_eq!(kept.bytes, left.iter().map(|(_, command)| held_bytes(command)).sum::<usize>());
        kept.flushed(1);
        assert_eq!(kept.kept.len(), 1);
    }

    #[test]
    fn a_flush_is_sent_when_half_of_the_room_is_used() {
        let mut kept = Retention::new(4096);
        kept.changed(1, &write(0, 1));
        assert!(!kept.take_flush());
        for number in 2..8 {
            kept.changed(number, &write(number * 512, 1));
        }
        assert!(kept.take_flush() && !kept.take_flush(), "one at a time");
        kept.changed(8, &write(8192, 1));
        assert!(kept.is_full());
        kept.flushed(8);
        kept.own_flush_ended();
        assert!(!kept.is_full() && !kept.take_flush());
    }
}
