//! A request of the kernel as commands of the LUN, and its answer when they have all ended.

use super::PARTS_MAX;
use super::protocol::{Operation, Unique, written};
use crate::command::{Command, Completion, Failure};
use crate::identity::Geometry;
use rustix::io::Errno;

/// What an answer has after its header.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Data,
    Written(u32),
    Empty,
}

/// A request whose commands are in progress.
#[derive(Debug)]
pub(crate) struct Pending {
    unique: Unique,
    kind: Kind,
    offset: u64,
    /// The data of a read in several parts.
    data: Vec<u8>,
    parts: usize,
    failure: Option<Failure>,
}

/// An answer: the bytes after its header, or an error.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) unique: Unique,
    pub(crate) result: Result<Vec<u8>, Errno>,
}

/// How a request begins.
#[derive(Debug)]
pub(crate) enum Begun {
    Answered(Result<Vec<u8>, Errno>),
    /// The request is answered when these commands have ended.
    Commands(Pending, Vec<Command>),
}

/// The state of a request after one of its commands has ended.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Other commands of the request are in progress.
    UnderWay(Pending),
    Done(Answer),
}

/// Splits a request into commands that the LUN accepts. `None` if the request is not for the LUN.
pub(crate) fn begin(unique: Unique, operation: &Operation<'_>, geometry: &Geometry) -> Option<Begun> {
    let transfer = u64::from(geometry.transfer_bytes_max).max(1);
    let begun = |kind, offset, data, commands: Vec<Command>| {
        Begun::Commands(Pending { unique, kind, offset, data, parts: commands.len(), failure: None }, commands)
    };
    Some(match *operation {
        Operation::Read { offset, bytes } => {
            // A read beyond the end is short, as with any file.
            let bytes = u64::from(bytes).min(geometry.bytes().saturating_sub(offset));
            if bytes == 0 {
                return Some(Begun::Answered(Ok(Vec::new())));
            }
            let parts = ranges(offset, bytes, transfer);
            let data = if parts.len() > 1 { vec![0; bytes as usize] } else { Vec::new() };
            let parts = parts.into_iter();
            let commands = parts.map(|(offset, bytes)| Command::Read { offset, buffer: vec![0; bytes as usize] }).collect();
            begun(Kind::Data, offset, data, commands)
        }
        Operation::Write { offset, data } => {
            let starts = (offset..).step_by(transfer as usize);
            let parts = starts.zip(data.chunks(transfer as usize));
            let commands = parts.map(|(offset, data)| Command::Write { offset, data: data.to_vec(), fua: false }).collect();
            begun(Kind::Written(data.len() as u32), offset, Vec::new(), commands)
        }
        Operation::Sync => begun(Kind::Empty, 0, Vec::new(), vec![Command::Flush]),
        Operation::Zero { offset, bytes, unmap } => {
            let most = geometry.write_same_bytes_max;
            // Without thin provisioning a discard would be useless work. Requested zeroes are written anyway.
            if most == 0 || bytes / most >= PARTS_MAX || (unmap && !geometry.can_unmap_same) {
                return Some(Begun::Answered(Err(Errno::OPNOTSUPP)));
            }
            let parts = ranges(offset, bytes, most).into_iter();
            let commands = parts.map(|(offset, bytes)| Command::WriteZeroes { offset, bytes, unmap }).collect();
            begun(Kind::Empty, offset, Vec::new(), commands)
        }
        _ => return None,
    })
}

/// The parts of a range, each of at most `part` bytes.
fn ranges(offset: u64, bytes: u64, part: u64) -> Vec<(u64, u64)> {
    let part = part.max(1);
    let count = bytes.div_ceil(part);
    (0..count).map(|number| (offset.saturating_add(number * part), part.min(bytes - number * part))).collect()
}

impl Pending {
    /// Notes that a command of the request ended.
    pub(crate) fn ended(mut self, completion: Completion) -> Progress {
        self.parts = self.parts.saturating_sub(1);
        self.failure = self.failure.or(completion.result.err());
        if let Command::Read { offset, buffer } = completion.command {
            let start = offset.saturating_sub(self.offset) as usize;
            match self.data.get_mut(start..start.saturating_add(buffer.len())) {
                Some(to) => to.copy_from_slice(&buffer),
                None => self.data = buffer,
            }
        }
        if self.parts > 0 { Progress::UnderWay(self) } else { Progress::Done(self.answer()) }
    }

    /// Ends a request whose commands will not end.
    pub(crate) fn give_up(mut self) -> Answer {
        self.failure = Some(Failure::NoPath);
        self.answer()
    }

    fn answer(self) -> Answer {
        let result = match (self.failure, self.kind) {
            (Some(failure), _) => Err(Errno::from_raw_os_error(failure.errno())),
            (None, Kind::Data) => Ok(self.data),
            (None, Kind::Written(bytes)) => Ok(written(bytes)),
            (None, Kind::Empty) => Ok(Vec::new()),
        };
        Answer { unique: self.unique, result }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry { blocks: 1 << 11, transfer_bytes_max: 4096, ..Geometry::default() }
    }

    fn commands(operation: &Operation<'_>) -> (Pending, Vec<Command>) {
        match begin(Unique(3), operation, &geometry()) {
            Some(Begun::Commands(pending, commands)) => (pending, commands),
            other => panic!("{other:?}"),
        }
    }

    fn end(pending: Pending, command: Command, result: Result<(), Failure>) -> Progress {
        pending.ended(Completion { tag: 1, command, result })
    }

    #[test]
    fn a_range_is_split_without_gaps_and_its_last_part_may_be_short() {
        assert_eq!(ranges(4096, 10240, 4096), [(4096, 4096), (8192, 4096), (12288, 2048)]);
        assert_eq!(ranges(0, 512, 1 << 20), [(0, 512)]);
        assert!(ranges(0, 0, 512).is_empty());
    }

    #[test]
    fn a_read_in_parts_that_end_in_any_order_is_put_together() {
        let (mut pending, commands) = commands(&Operation::Read { offset: 512, bytes: 10240 });
        assert_eq!(commands.len(), 3);
        for (number, command) in commands.into_iter().enumerate().rev() {
            let Command::Read { offset, mut buffer } = command else { panic!("{command:?}") };
            buffer.fill(number as u8);
            match end(pending, Command::Read { offset, buffer }, Ok(())) {
                Progress::UnderWay(rest) => pending = rest,
                Progress::Done(answer) => {
                    let expected = [vec![0; 4096], vec![1; 4096], vec![2; 2048]].concat();
                    return assert_eq!((answer.unique, answer.result), (Unique(3), Ok(expected)));
                }
            }
        }
        panic!("never answered");
    }

    #[test]
    fn a_write_of_which_a_part_fails_is_answered_with_its_error_when_all_have_ended() {
        let (pending, mut commands) = commands(&Operation::Write { offset: 0, data: &[7; 8192] });
        let (second, first) = (commands.pop().unwrap(), commands.pop().unwrap());
        let Progress::UnderWay(pending) = end(pending, first, Err(Failure::Reserved)) else { panic!("answered early") };
        let Progress::Done(answer) = end(pending, second, Ok(())) else { panic!("not answered") };
        assert_eq!(answer.result, Err(Errno::BADE));
    }

    #[test]
    fn reads_end_with_the_lun_and_a_flush_is_sent_without_a_write_cache_too() {
        let past = Operation::Read { offset: 1 << 20, bytes: 4096 };
        assert!(matches!(begin(Unique(1), &past, &geometry()), Some(Begun::Answered(Ok(data))) if data.is_empty()));
        let without = Geometry { write_cache: false, ..geometry() };
        for geometry in [geometry(), without] {
            assert!(matches!(begin(Unique(1), &Operation::Sync, &geometry), Some(Begun::Commands(..))));
        }
    }

    #[test]
    fn a_discard_without_thin_provisioning_is_refused_and_zeroes_are_written() {
        let zero = |unmap| Operation::Zero { offset: 0, bytes: 8192, unmap };
        assert!(matches!(begin(Unique(1), &zero(true), &geometry()), Some(Begun::Answered(Err(Errno::OPNOTSUPP)))));
        assert!(matches!(begin(Unique(1), &zero(false), &geometry()), Some(Begun::Commands(..))));
    }
}
