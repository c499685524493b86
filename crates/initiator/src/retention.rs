//! Changes that completed in a LUN's volatile cache: kept until a flush covers them, written again when the target has lost them.
//!
//! When a loss is noticed nothing new is sent, and what is under way ends first: a write among that may have been executed behind the
//! loss, and is kept behind the others. Then all that is kept is written in the order in which it completed, and what waited goes on.

use crate::command::Command;
use std::collections::VecDeque;

/// What is kept of one LUN.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    /// In the order of completion, with the number of changes that had completed then.
    kept: VecDeque<(u64, Command)>,
    bytes: usize,
    /// Most bytes that are kept; 0: nothing is.
    limit: usize,
    stage: Stage,
    /// How many replays began.
    epoch: u64,
    /// A flush of our own is under way.
    flushes: bool,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    /// What was under way has to end.
    Draining,
    /// The next of those kept, and the ranges that are being written.
    Writing(usize, Vec<(u64, u64)>),
}

impl Retention {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// A change completed: `number` had, with it.
    pub(crate) fn changed(&mut self, number: u64, command: &Command) {
        if !command.is_change() {
            return;
        }
        let copy = command.clone();
        // What is durable counts only where it stands over something that is not.
        let is_durable = matches!(command, Command::Write { fua: true, .. });
        if self.limit > 0 && !(is_durable && self.kept.is_empty()) {
            self.bytes += held_bytes(&copy);
            self.kept.push_back((number, copy));
        }
    }

    /// So many changes are durable.
    pub(crate) fn flushed(&mut self, covers: u64) {
        while self.kept.front().is_some_and(|(number, _)| *number <= covers) {
            self.bytes -= self.kept.pop_front().map_or(0, |(_, command)| held_bytes(&command));
        }
    }

    /// The target has lost its cache; whether all that was in it is kept.
    pub(crate) fn begin_replay(&mut self) -> bool {
        if self.kept.is_empty() {
            return false;
        }
        self.epoch += 1;
        self.stage = Stage::Draining;
        true
    }

    pub(crate) const fn is_replaying(&self) -> bool {
        !matches!(self.stage, Stage::Idle)
    }

    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The next change to be written again, if it can be sent now.
    pub(crate) fn next(&mut self, under_way: usize) -> Option<Command> {
        if matches!(self.stage, Stage::Draining) && under_way == 0 {
            self.stage = Stage::Writing(0, Vec::new());
        }
        let Stage::Writing(next, ranges) = &mut self.stage else { return None };
        let (_, command) = self.kept.get(*next)?;
        let (offset, bytes) = command.range();
        if ranges.iter().any(|(start, length)| offset < start + length && *start < offset + bytes) {
            return None; // in their order
        }
        ranges.push((offset, bytes));
        *next += 1;
        Some(command.clone())
    }

    /// A change of this replay was written.
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

    /// Whether no more changes may be sent until a flush has ended.
    pub(crate) const fn is_full(&self) -> bool {
        self.limit > 0 && self.bytes >= self.limit
    }

    /// Whether a flush of our own is to be sent now; it is taken for sent.
    pub(crate) const fn take_flush(&mut self) -> bool {
        let wanted = self.limit > 0 && self.bytes >= self.limit / 2 && !self.flushes;
        self.flushes |= wanted;
        wanted
    }

    /// Our own flush has ended.
    pub(crate) const fn own_flush_ended(&mut self) {
        self.flushes = false;
    }

    /// Keeps nothing from now on: what is kept cannot be made durable.
    pub(crate) fn give_up(&mut self) {
        *self = Self { epoch: self.epoch + 1, ..Self::default() };
    }
}

/// What a kept change takes.
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
    fn what_is_kept_is_written_again_in_its_order_once_what_was_under_way_has_ended() {
        let mut kept = Retention::new(1 << 20);
        assert!(!kept.begin_replay(), "nothing is kept");
        for (number, (offset, byte)) in (1..).zip([(0, 1), (512, 2), (0, 3)]) {
            kept.changed(number, &write(offset, byte));
        }
        kept.flushed(0);
        assert!(kept.begin_replay() && kept.is_replaying());
        assert_eq!(kept.next(1), None, "one is under way");
        assert_eq!((kept.next(0), kept.next(1)), (Some(write(0, 1)), Some(write(512, 2))));
        assert_eq!(kept.next(2), None, "over one that is being written");
        kept.replayed(1, (0, 512));
        assert_eq!(kept.next(1), Some(write(0, 3)));
        kept.replayed(1, (0, 512));
        kept.replayed(1, (512, 512));
        assert!(!kept.is_replaying());
        kept.flushed(3);
        assert!(!kept.begin_replay(), "all is durable");
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
    fn durable_writes_count_only_over_others_and_half_of_the_room_asks_for_a_flush() {
        let mut kept = Retention::new(4096);
        let durable = |offset| Command::Write { offset, data: vec![9; 512], fua: true };
        kept.changed(0, &durable(0));
        assert!(kept.kept.is_empty());
        kept.changed(1, &write(0, 1));
        kept.changed(1, &durable(0));
        assert_eq!(kept.kept.len(), 2);
        assert!(!kept.take_flush());
        for number in 2..7 {
            kept.changed(number, &write(number * 512, 1));
        }
        assert!(kept.take_flush() && !kept.take_flush(), "one at a time");
        kept.changed(7, &write(8192, 1));
        assert!(kept.is_full());
        kept.flushed(7);
        kept.own_flush_ended();
        assert!(!kept.is_full() && !kept.take_flush());
    }
}
