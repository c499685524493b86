//! The sender of a command (nexus), and the number of the unit that it is for (LUN).

use std::fmt;
use std::sync::Arc;

use crate::limits::SCSI_NAME_BYTES_MAX;

/// An I_T nexus (SAM-5 4.8): an initiator port and a target port. In iSCSI the initiator port is the initiator's name with the
/// ISID, and the target port is the target portal group (RFC 7143 4.4.1). A session that is established again has the same nexus,
/// and so the same registrations.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nexus {
    initiator_name: Arc<str>,
    isid: [u8; 6],
    relative_target_port: u16,
}

/// The name is not an iSCSI name: it is empty, is longer than 223 bytes, or has a comma or a control character, which would end it
/// too early in a TransportID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "use an initiator name of {bytes} bytes: it is empty, longer than {SCSI_NAME_BYTES_MAX} bytes or has a comma or a control character"
)]
pub struct NameError {
    /// Length of the name, in bytes.
    pub bytes: usize,
}

impl Nexus {
    /// The nexus of an initiator's iSCSI name, the ISID of its session, and the relative port identifier (SPC-4 7.8.6.7; not 0) of
    /// the target port.
    ///
    /// # Errors
    /// [`NameError`] if the name is not an iSCSI name.
    pub fn new(initiator_name: &str, isid: [u8; 6], relative_target_port: u16) -> Result<Self, NameError> {
        let bytes = initiator_name.len();
        if bytes == 0 || bytes > SCSI_NAME_BYTES_MAX || initiator_name.chars().any(|char| char == ',' || char.is_control()) {
            return Err(NameError { bytes });
        }
        Ok(Self { initiator_name: initiator_name.into(), isid, relative_target_port })
    }

    /// The initiator's iSCSI name.
    #[must_use]
    pub fn initiator_name(&self) -> &str {
        &self.initiator_name
    }

    /// The ISID of the session.
    #[must_use]
    pub const fn isid(&self) -> [u8; 6] {
        self.isid
    }

    /// The relative port identifier of the target port.
    #[must_use]
    pub const fn relative_target_port(&self) -> u16 {
        self.relative_target_port
    }

    /// The nexus of the same initiator port with another target port.
    #[must_use]
    pub fn through(&self, relative_target_port: u16) -> Self {
        Self { relative_target_port, ..self.clone() }
    }
}

impl fmt::Display for Nexus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},i,0x", self.initiator_name)?;
        for byte in self.isid {
            write!(f, "{byte:02x}")?;
        }
        write!(f, " port {}", self.relative_target_port)
    }
}

/// A logical unit number below 16,384, the limit of the flat space addressing method (SAM-5 4.7.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lun(u16);

impl Lun {
    /// The largest number.
    pub const MAX: u16 = 0x3fff;

    /// A LUN with this number. `None` above [`Self::MAX`].
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if number <= Self::MAX { Some(Self(number)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The 8-byte LUN field: peripheral device addressing below 256, flat space addressing above.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        let [high, low] = self.0.to_be_bytes();
        let method = if self.0 < 256 { 0 } else { 0x40 };
        [high | method, low, 0, 0, 0, 0, 0, 0]
    }

    /// Parses an 8-byte LUN field. `None` for an address with more than one level, with a bus other than 0, or of another method.
    /// No unit can have such an address.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        let [first, low, rest @ ..] = bytes;
        if u64::from_be_bytes([0, 0, rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]]) != 0 {
            return None;
        }
        match first >> 6 {
            0 if first == 0 => Some(Self(low as u16)),
            1 => Some(Self(u16::from_be_bytes([first & 0x3f, low]))),
            _ => None,
        }
    }
}
