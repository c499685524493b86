//! The properties of a command that the filer needs before it is executed: whether it waits for the medium, and which blocks it uses.

use iscsi_proto::pdu::Cdb;
use volume::medium;

use crate::luns::Operation;

/// The properties of a command that the filer needs. The logical unit interprets the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommandKind {
    pub(super) operation: Operation,
    /// A plain write, which may share its flush with others.
    pub(super) is_plain_write: bool,
    /// FUA is set.
    pub(super) is_forced: bool,
    /// It waits for the store whatever the write cache, or takes long.
    pub(super) is_slow: bool,
    /// It only reads. An abort need not wait for its end, however long it takes.
    pub(super) changes_nothing: bool,
    /// First block and number of blocks of a read or write.
    blocks: (u64, u64),
}

impl CommandKind {
    /// The kind of a command (SBC-3 5, SPC-4 6).
    pub(super) fn of(cdb: &Cdb) -> Self {
        let bytes = cdb.as_slice();
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let number = |at: usize, count: usize| (at..at + count).fold(0, |sum, at| sum << 8 | u64::from(byte(at)));
        let opcode = byte(0);
        // FUA is in byte 1 of all commands except those of 6 bytes.
        let fua = byte(1) & 0x08 != 0;
        let ten = (number(2, 4), number(7, 2));
        let twelve = (number(2, 4), number(6, 4));
        let sixteen = (number(2, 8), number(10, 4));
        let six = (number(1, 3) & 0x1f_ffff, if byte(4) == 0 { 256 } else { u64::from(byte(4)) });
        let kind = |operation, is_plain_write, is_forced, is_slow, blocks| Self {
            operation,
            is_plain_write,
            is_forced,
            is_slow,
            // READ, VERIFY, PRE-FETCH; GET LBA STATUS and READ CAPACITY (16).
            changes_nothing: matches!(opcode, 0x08 | 0x28 | 0xa8 | 0x88 | 0x2f | 0xaf | 0x8f | 0x34 | 0x90 | 0x9e),
            blocks,
        };
        match opcode {
            0x08 => kind(Operation::Read, false, false, false, six),
            0x28 => kind(Operation::Read, false, fua, fua, ten),
            0xa8 => kind(Operation::Read, false, fua, fua, twelve),
            0x88 => kind(Operation::Read, false, fua, fua, sixteen),
            0x0a => kind(Operation::Write, true, false, false, six),
            0x2a => kind(Operation::Write, true, fua, fua, ten),
            0xaa => kind(Operation::Write, true, fua, fua, twelve),
            0x8a => kind(Operation::Write, true, fua, fua, sixteen),
            // WRITE AND VERIFY.
            0x2e => kind(Operation::Write, false, true, true, ten),
            0xae => kind(Operation::Write, false, true, true, twelve),
            0x8e => kind(Operation::Write, false, true, true, sixteen),
            // ORWRITE, COMPARE AND WRITE.
            0x8b => kind(Operation::Write, false, fua, true, sixteen),
            0x89 => kind(Operation::Write, false, fua, true, (number(2, 8), u64::from(byte(13)))),
            // WRITE SAME, with and without UNMAP; UNMAP.
            0x41 | 0x93 if byte(1) & 0x08 == 0 => {
                kind(Operation::Write, false, false, true, if opcode == 0x41 { ten } else { sixteen })
            }
            0x41 | 0x93 | 0x42 => kind(Operation::Unmap, false, false, true, (0, 0)),
            0x35 | 0x91 => kind(Operation::Flush, false, true, true, (0, 0)),
            // VERIFY reads all blocks; PRE-FETCH has the store read them.
            0x2f | 0x34 => kind(Operation::Other, false, false, true, ten),
            0xaf => kind(Operation::Other, false, false, true, twelve),
            0x8f | 0x90 => kind(Operation::Other, false, false, true, sixteen),
            // Commands that may flush, wait for others, copy, or write to the state directory: MODE SELECT, PERSISTENT RESERVE OUT,
            // RESERVE, START STOP UNIT, EXTENDED COPY.
            0x83 | 0x15 | 0x55 | 0x5f | 0x16 | 0x56 | 0x1b => kind(Operation::Other, false, false, true, (0, 0)),
            _ => kind(Operation::Other, false, false, false, (0, 0)),
        }
    }

    /// The operation of a modelled medium. `None` if the command does not reach the medium.
    pub(super) fn on_medium(&self, has_write_cache: bool, block_bytes: u32) -> Option<(medium::Kind, u64, u64)> {
        let block_bytes = u64::from(block_bytes);
        let (first, count) = self.blocks;
        let kind = match self.operation {
            Operation::Read => medium::Kind::Read,
            Operation::Write if has_write_cache && !self.is_forced => medium::Kind::Buffered,
            Operation::Write => medium::Kind::Write,
            Operation::Flush => medium::Kind::Flush,
            Operation::Unmap => medium::Kind::Metadata,
            Operation::Other => return None,
        };
        Some((kind, first.saturating_mul(block_bytes), count.saturating_mul(block_bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> CommandKind {
        let mut cdb = [0; 16];
        cdb[..bytes.len()].copy_from_slice(bytes);
        CommandKind::of(&Cdb::new(cdb, &[]).unwrap())
    }

    #[test]
    fn reads_and_writes_of_every_length_say_where_they_go() {
        let at = |bytes: &[u8]| of(bytes).blocks;
        assert_eq!(at(&[0x08, 0xe1, 2, 3, 0]), (0x01_0203, 256));
        assert_eq!(at(&[0x28, 0, 1, 2, 3, 4, 0, 5, 6]), (0x0102_0304, 0x0506));
        assert_eq!(at(&[0xa8, 0, 1, 2, 3, 4, 5, 6, 7, 8]), (0x0102_0304, 0x0506_0708));
        assert_eq!(at(&[0x8a, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]), (0x0102_0304_0506_0708, 0x090a_0b0c));
    }

    #[test]
    fn a_forced_write_is_slow_and_a_cached_one_is_buffered() {
        let (cached, forced) = (of(&[0x2a]), of(&[0x2a, 0x08]));
        assert!(!cached.is_slow && forced.is_slow && forced.is_plain_write);
        let kind = |command: CommandKind, cache| command.on_medium(cache, 512).map(|(kind, _, _)| kind);
        assert_eq!(kind(cached, true), Some(medium::Kind::Buffered));
        assert_eq!((kind(cached, false), kind(forced, true)), (Some(medium::Kind::Write), Some(medium::Kind::Write)));
        assert_eq!((kind(of(&[0x35]), true), kind(of(&[0x12]), true)), (Some(medium::Kind::Flush), None));
    }
}
