//! Injects the faults of data, flushes and changes.

use std::io;

use super::{FaultKind, Faults, Injection, Kinds, Probe, SetError};
use crate::error::Error;
use crate::limits::SECTOR_BYTES;
use crate::node::Node;
use crate::volume::{Volume, VolumeInner};

/// Kinds that make an operation fail with an error number.
const FAILURES: Kinds = Kinds::of(&[FaultKind::Eio, FaultKind::Enospc]);
const READS: Kinds = Kinds::of(&[FaultKind::Eio, FaultKind::BitFlip]);
const WRITES: Kinds = Kinds::of(&[FaultKind::Eio, FaultKind::Enospc, FaultKind::TornWrite]);
const FLUSHES: Kinds = Kinds::of(&[FaultKind::Eio, FaultKind::Enospc, FaultKind::SlowFlush]);
const SLOW_FLUSH: Kinds = Kinds::of(&[FaultKind::SlowFlush]);

impl Volume {
    /// The faults that are set.
    pub fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// Sets a fault and returns its number. Its path is looked up now; links are not followed.
    ///
    /// # Errors
    /// [`SetError`].
    pub fn set_fault(&self, mut fault: super::FaultSpec) -> Result<u64, SetError> {
        fault.check()?;
        if let Some(path) = &fault.path {
            let parts = path.split('/').filter(|part| !part.is_empty());
            let found = parts.clone().try_fold(self.root(), |dir, name| Ok(self.lookup(&dir, name.as_bytes())?.0));
            let node = found.map_err(|source| SetError::Path { path: path.clone(), source })?;
            fault.file = Some(node.fileid());
            fault.path = None;
        }
        self.faults().set(fault)
    }
}

/// The result of a torn write. The ranges are the pieces of its data that reach the file.
pub(crate) enum Torn {
    /// The write fails.
    Fails(Vec<std::ops::Range<usize>>),
    /// The write reports success.
    Lies(Vec<std::ops::Range<usize>>),
}

impl VolumeInner {
    /// Whether a fault of reads is set.
    pub(crate) fn faults_reads(&self) -> bool {
        self.faults.any(READS)
    }

    /// Called before a read. Fails if a fault affects it.
    pub(crate) fn read_fault(&self, node: &Node, offset: u64, bytes: usize) -> Result<(), Error> {
        if self.faults_reads() { fail(&self.faults, "read", &[node.0.fileid], Some((offset, bytes as u64))) } else { Ok(()) }
    }

    /// Called after a read. Flips a bit of `data` if a fault affects it.
    pub(crate) fn flip_bit(&self, node: &Node, offset: u64, data: &mut [u8]) {
        if data.is_empty() || !self.faults_reads() {
            return;
        }
        let (file, range) = (node.0.fileid, (offset, data.len() as u64));
        let probe = Probe { on: "read", files: &[file], range: Some(range) };
        if let Some(mut injection) = self.faults.inject(Kinds::of(&[FaultKind::BitFlip]), &probe) {
            let bit = injection.random.below(range.1 * 8);
            if let Some(byte) = data.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
            self.faults.add_detail(&injection, format!("bit {} of the byte at {}", bit % 8, offset + bit / 8));
        }
    }

    /// Called before a write. Fails, or returns how the write is torn, if a fault affects it.
    pub(crate) fn write_fault(&self, node: &Node, offset: u64, len: usize) -> Result<Option<Torn>, Error> {
        if !self.faults.any(WRITES) {
            return Ok(None);
        }
        let (files, range) = (&[node.0.fileid], Some((offset, len as u64)));
        fail(&self.faults, "write", files, range)?;
        let sectors = sectors(offset, len);
        if sectors.len() < 2 {
            // A sector is written whole or not at all.
            return Ok(None);
        }
        let probe = Probe { on: "write", files, range };
        Ok(self.faults.inject(Kinds::of(&[FaultKind::TornWrite]), &probe).map(|injection| self.tear(injection, sectors)))
    }

    fn tear(&self, mut injection: Injection, sectors: Vec<std::ops::Range<usize>>) -> Torn {
        let all = sectors.len();
        // At least one sector arrives and at least one does not.
        let (kept, lost) = (injection.random.below(all as u64) as usize, injection.random.below(all as u64 - 1) as usize);
        let lost = if lost >= kept { lost + 1 } else { lost };
        let pieces = sectors.into_iter().enumerate();
        let arrived: Vec<_> = pieces
            .filter(|(n, _)| *n == kept || (*n != lost && injection.random.below(2) == 0))
            .map(|(_, piece)| piece)
            .collect();
        self.faults.add_detail(&injection, format!("{} of {all} sectors arrived", arrived.len()));
        if injection.silent { Torn::Lies(arrived) } else { Torn::Fails(arrived) }
    }

    /// Called before a flush. Waits or fails if a fault affects it. After a failure the caller does not flush.
    pub(crate) fn flush_fault(&self, file: Option<u64>) -> io::Result<()> {
        if !self.faults.any(FLUSHES) {
            return Ok(());
        }
        let files: &[u64] = file.as_slice();
        if let Some(injection) = self.faults.inject(SLOW_FLUSH, &Probe { on: "flush", files, range: None }) {
            self.faults.wait(&injection);
        }
        let injection = self.faults.inject(FAILURES, &Probe { on: "flush", files, range: None });
        injection.map_or(Ok(()), |injection| Err(io::Error::from_raw_os_error(errno(&injection))))
    }

    /// Called before a change of names or attributes of these objects. Fails after a failed flush, and if a fault affects it.
    pub(crate) fn may_change(&self, nodes: &[&Node]) -> Result<(), Error> {
        self.alive()?;
        if !self.faults.any(FAILURES) {
            return Ok(());
        }
        let files: Vec<u64> = nodes.iter().map(|node| node.0.fileid).collect();
        fail(&self.faults, "change", &files, None)
    }
}

fn fail(faults: &Faults, on: &str, files: &[u64], range: Option<(u64, u64)>) -> Result<(), Error> {
    faults.inject(FAILURES, &Probe { on, files, range }).map_or(Ok(()), |injection| Err(Error::from_errno(errno(&injection))))
}

fn errno(injection: &Injection) -> i32 {
    if injection.kind == FaultKind::Enospc { libc::ENOSPC } else { libc::EIO }
}

/// The sectors that a write touches, as ranges of its data.
fn sectors(offset: u64, len: usize) -> Vec<std::ops::Range<usize>> {
    let end = offset + len as u64;
    let piece = |sector: u64| {
        let at = |byte: u64| (byte.clamp(offset, end) - offset) as usize;
        at(sector * SECTOR_BYTES)..at((sector + 1) * SECTOR_BYTES)
    };
    (offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES)).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_falls_into_the_sectors_it_touches() {
        assert_eq!(sectors(0, 1024), [0..512, 512..1024]);
        assert_eq!(sectors(500, 600), [0..12, 12..524, 524..600]);
        assert_eq!(sectors(512, 512).as_slice(), std::slice::from_ref(&(0..512)));
        assert!(sectors(512, 0).is_empty());
    }
}
