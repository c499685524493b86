//! The format of the bytes that the host stores if APTPL is set.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | `MRPR` |
//! | 2 | version, 1 |
//! | 1 | type of the reservation (SPC-4 table 132), 0 without a reservation |
//! | 2 | index of its holder among the registrations |
//! | 2 | number of registrations, followed by these fields of each: |
//! | 8 | reservation key |
//! | 2 | relative target port |
//! | 6 | ISID |
//! | 1 | bytes of the initiator's name, then the name |
//!
//! All numbers are big-endian. If nothing is kept, there are no bytes.

use super::super::nexus::Nexus;
use super::state::{Reservation, ReservationType, State};
use crate::limits::SCSI_REGISTRATIONS_MAX;

const MAGIC: &[u8; 4] = b"MRPR";
const VERSION: u16 = 1;

/// Why stored bytes are not reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct KeptError {
    pub(in super::super) offset: usize,
    pub(in super::super) reason: &'static str,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    const fn error(&self, reason: &'static str) -> KeptError {
        KeptError { offset: self.offset, reason }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], KeptError> {
        let end = self.offset + count;
        let taken = self.bytes.get(self.offset..end).ok_or(self.error("bytes are missing"))?;
        self.offset = end;
        Ok(taken)
    }

    fn number(&mut self, count: usize) -> Result<u64, KeptError> {
        Ok(self.take(count)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

impl State {
    /// The bytes to store.
    pub(in super::super) fn to_kept(&self) -> Vec<u8> {
        if !self.persists {
            return Vec::new();
        }
        let holder = self.reservation.as_ref().map(|reservation| &reservation.holder);
        let index = self.registrations.keys().position(|nexus| Some(nexus) == holder).unwrap_or(0);
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.push(self.reservation.as_ref().map_or(0, |reservation| reservation.kind as u8));
        out.extend_from_slice(&(index as u16).to_be_bytes());
        out.extend_from_slice(&(self.registrations.len() as u16).to_be_bytes());
        for (nexus, key) in &self.registrations {
            out.extend_from_slice(&key.to_be_bytes());
            out.extend_from_slice(&nexus.relative_target_port().to_be_bytes());
            out.extend_from_slice(&nexus.isid());
            out.push(nexus.initiator_name().len() as u8);
            out.extend_from_slice(nexus.initiator_name().as_bytes());
        }
        out
    }

    /// Parses stored bytes.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, KeptError> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut input = Cursor { bytes, offset: 0 };
        if input.take(4)? != MAGIC {
            return Err(KeptError { offset: 0, reason: "not a record of reservations" });
        }
        if input.number(2)? != u64::from(VERSION) {
            return Err(KeptError { offset: 4, reason: "they have a version this program does not know" });
        }
        let kind = input.number(1)? as u8;
        let holder = input.number(2)? as usize;
        let count = input.number(2)? as usize;
        if count > SCSI_REGISTRATIONS_MAX {
            return Err(input.error("there are more registrations than a unit has"));
        }
        let mut state = Self { persists: true, ..Self::default() };
        let mut nexuses = Vec::with_capacity(count);
        for _ in 0..count {
            let (nexus, key) = read_registration(&mut input)?;
            nexuses.push(nexus.clone());
            state.registrations.insert(nexus, key);
        }
        if state.registrations.len() != count {
            return Err(input.error("a nexus is registered twice"));
        }
        if input.offset != bytes.len() {
            return Err(input.error("bytes are left over"));
        }
        if kind != 0 {
            let kind = ReservationType::from_code(kind).ok_or(KeptError { offset: 6, reason: "there is no such type" })?;
            let holder = nexuses.get(holder).ok_or(KeptError { offset: 7, reason: "the holder is not registered" })?;
            state.reservation = Some(Reservation { holder: holder.clone(), kind });
        }
        Ok(state)
    }
}

fn read_registration(input: &mut Cursor<'_>) -> Result<(Nexus, u64), KeptError> {
    let key = input.number(8)?;
    let port = input.number(2)? as u16;
    let isid = input.take(6)?.try_into().map_err(|_| input.error("bytes are missing"))?;
    let length = input.number(1)? as usize;
    let name = std::str::from_utf8(input.take(length)?).map_err(|_| input.error("a name is not UTF-8"))?;
    let nexus = Nexus::new(name, isid, port).map_err(|_| input.error("a name is not an iSCSI name"))?;
    Ok((nexus, key))
}
