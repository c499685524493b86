//! Sense data that was received, in either format (SPC-4 4.5).

use std::fmt;

/// Sense key, additional sense code and qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenseCode {
    /// The sense key.
    pub key: u8,
    /// Additional sense code.
    pub asc: u8,
    /// Its qualifier.
    pub ascq: u8,
    /// Whether the error belongs to an earlier command (SPC-4 4.5.5).
    pub deferred: bool,
}

/// What a CHECK CONDITION requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// The command is resent, which helps at once or not at all.
    Repeat,
    /// The command is resent for a while: the target is not ready yet.
    Later,
    /// As `Later`, over another path: this one has no access.
    OtherPath,
    /// Writes that were not flushed are lost.
    Lost,
    /// The command has failed.
    Fail,
}

impl SenseCode {
    /// Parses sense data. `None` if the format is unknown.
    pub(crate) fn parse(sense: &[u8]) -> Option<Self> {
        let byte = |at: usize| sense.get(at).copied();
        let (format, deferred) = (byte(0)? & 0x7f, byte(0)? & 1 == 1);
        match format {
            0x70 | 0x71 => Some(Self { key: byte(2)? & 0x0f, asc: byte(12).unwrap_or(0), ascq: byte(13).unwrap_or(0), deferred }),
            0x72 | 0x73 => Some(Self { key: byte(1)? & 0x0f, asc: byte(2)?, ascq: byte(3)?, deferred }),
            _ => None,
        }
    }

    pub(crate) const fn reaction(self) -> Reaction {
        match (self.key, self.asc, self.ascq) {
            _ if self.deferred => Reaction::Lost,
            // POWER ON OCCURRED: the content of a volatile cache is lost. With 29h/00h it may be lost: many targets report that
            // to each new session, and report nothing else after a loss. Another write of what was not flushed does no harm.
            (0x06, 0x29, 0x00 | 0x01) => Reaction::Lost,
            (0x06 | 0x01 | 0x0b, ..) => Reaction::Repeat,
            (0x02, 0x04, 0x01 | 0x0a) => Reaction::Later,
            (0x02, 0x04, 0x0b | 0x0c) => Reaction::OtherPath,
            _ => Reaction::Fail,
        }
    }

    /// CAPACITY DATA HAS CHANGED.
    pub(crate) const fn is_new_capacity(self) -> bool {
        matches!((self.key, self.asc, self.ascq), (0x06, 0x2a, 0x09))
    }

    /// ASYMMETRIC ACCESS STATE CHANGED.
    pub(crate) const fn is_new_access_state(self) -> bool {
        matches!((self.key, self.asc, self.ascq), (0x06, 0x2a, 0x06))
    }

    /// MODE PARAMETERS CHANGED: the write cache may be on now, or off.
    pub(crate) const fn is_new_mode(self) -> bool {
        matches!((self.key, self.asc, self.ascq), (0x06, 0x2a, 0x01))
    }

    /// The error number that a program on a block device would get.
    pub(crate) const fn errno(self) -> rustix::io::Errno {
        use rustix::io::Errno;
        match (self.key, self.asc, self.ascq) {
            (0x07, 0x27, 0x07) => Errno::NOSPC,
            (0x07, ..) => Errno::ROFS,
            (0x05, 0x25, _) => Errno::NXIO,
            (0x05, ..) => Errno::INVAL,
            (0x0e, ..) => Errno::ILSEQ,
            _ => Errno::IO,
        }
    }
}

impl fmt::Display for SenseCode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = match self.key {
            0x0 => "NO SENSE",
            0x1 => "RECOVERED ERROR",
            0x2 => "NOT READY",
            0x3 => "MEDIUM ERROR",
            0x4 => "HARDWARE ERROR",
            0x5 => "ILLEGAL REQUEST",
            0x6 => "UNIT ATTENTION",
            0x7 => "DATA PROTECT",
            0xb => "ABORTED COMMAND",
            0xe => "MISCOMPARE",
            _ => "sense key",
        };
        let what = match (self.asc, self.ascq) {
            (0x03 | 0x0c, _) => ", write error",
            (0x11, _) => ", unrecovered read error",
            (0x20, 0) => ", invalid command operation code",
            (0x21, 0) => ", logical block address out of range",
            (0x24, 0) => ", invalid field in CDB",
            (0x25, 0) => ", logical unit not supported: no such LUN, or not mapped to this initiator",
            (0x26, 0) => ", invalid field in parameter list",
            (0x27, 0x07) => ", space allocation failed",
            (0x27, _) => ", write protected",
            (0x29, _) => ", power on or reset",
            (0x3e, 0x01) => ", logical unit failure",
            _ => "",
        };
        write!(out, "{key} {:02x}h/{:02x}h{what}", self.asc, self.ascq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_read() {
        let fixed = [0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 0x07, 0, 0, 0, 0];
        let expected = SenseCode { key: 6, asc: 0x29, ascq: 7, deferred: false };
        assert_eq!(SenseCode::parse(&fixed), Some(expected));
        assert_eq!(SenseCode::parse(&[0x72, 6, 0x29, 7, 0, 0, 0, 0]), Some(expected));
        assert_eq!(SenseCode::parse(&[0x71, 0, 3, 0]).map(|code| (code.key, code.deferred)), Some((3, true)));
        assert_eq!(SenseCode::parse(&[]), None);
        assert_eq!(SenseCode::parse(&[0x7f, 1, 2, 3]), None);
    }

    #[test]
    fn a_loss_is_told_from_a_restart_and_an_error_from_what_passes() {
        let reaction = |key, asc, ascq| SenseCode { key, asc, ascq, deferred: false }.reaction();
        assert_eq!(reaction(6, 0x29, 0x01), Reaction::Lost);
        assert_eq!(reaction(6, 0x29, 0x07), Reaction::Repeat);
        assert_eq!(reaction(2, 0x04, 0x0b), Reaction::OtherPath);
        assert_eq!(reaction(6, 0x29, 0x00), Reaction::Lost, "all that many targets say after a loss");
        assert_eq!(reaction(0xb, 0, 0), Reaction::Repeat);
        assert_eq!(reaction(2, 0x04, 0x0a), Reaction::Later);
        assert_eq!(reaction(3, 0x11, 0), Reaction::Fail);
        assert_eq!(SenseCode { key: 3, asc: 0x0c, ascq: 0, deferred: true }.reaction(), Reaction::Lost);
    }
}
