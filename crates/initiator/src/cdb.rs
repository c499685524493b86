//! The CDBs that are sent (SPC-4, SBC-3).

/// A CDB and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cdb {
    bytes: [u8; 16],
    length: usize,
}

impl Cdb {
    const fn new(length: usize, first: u8) -> Self {
        let mut bytes = [0; 16];
        bytes[0] = first;
        Self { bytes, length }
    }

    fn set<const N: usize>(mut self, at: usize, value: [u8; N]) -> Self {
        for (to, from) in self.bytes.iter_mut().skip(at).zip(value) {
            *to = from;
        }
        self
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&self.bytes)
    }

    /// A command of 16 bytes on blocks (SBC-3 5.15 and others): flags, LBA, number of blocks.
    fn blocks(opcode: u8, flags: u8, lba: u64, count: u32) -> Self {
        Self::new(16, opcode).set(1, [flags]).set(2, lba.to_be_bytes()).set(10, count.to_be_bytes())
    }
}

/// Force unit access, of READ and WRITE.
const FUA: u8 = 0x08;
/// Unmap, of WRITE SAME.
const UNMAP: u8 = 0x08;

pub(crate) const fn test_unit_ready() -> Cdb {
    Cdb::new(6, 0x00)
}

/// INQUIRY, or INQUIRY of a vital product data page if `page` names one.
pub(crate) fn inquiry(page: Option<u8>, bytes: u16) -> Cdb {
    Cdb::new(6, 0x12).set(1, [u8::from(page.is_some()), page.unwrap_or(0)]).set(3, bytes.to_be_bytes())
}

pub(crate) fn read_capacity(bytes: u32) -> Cdb {
    Cdb::new(16, 0x9e).set(1, [0x10]).set(10, bytes.to_be_bytes())
}

/// MODE SENSE (10) of the Caching page, without block descriptors.
pub(crate) fn mode_sense_caching(bytes: u16) -> Cdb {
    Cdb::new(10, 0x5a).set(1, [0x08, 0x08]).set(7, bytes.to_be_bytes())
}

pub(crate) fn report_target_port_groups(bytes: u32) -> Cdb {
    Cdb::new(12, 0xa3).set(1, [0x0a]).set(6, bytes.to_be_bytes())
}

/// REPORT LUNS without the well known logical units (SPC-4 6.33).
pub(crate) fn report_luns(bytes: u32) -> Cdb {
    Cdb::new(12, 0xa0).set(6, bytes.to_be_bytes())
}

pub(crate) fn read(lba: u64, count: u32) -> Cdb {
    Cdb::blocks(0x88, 0, lba, count)
}

pub(crate) fn write(lba: u64, count: u32, fua: bool) -> Cdb {
    Cdb::blocks(0x8a, if fua { FUA } else { 0 }, lba, count)
}

/// SYNCHRONIZE CACHE (16) of the whole LUN.
pub(crate) fn synchronize_cache() -> Cdb {
    Cdb::blocks(0x91, 0, 0, 0)
}

/// WRITE SAME (16) with one block of data.
pub(crate) fn write_same(lba: u64, count: u32, unmap: bool) -> Cdb {
    Cdb::blocks(0x93, if unmap { UNMAP } else { 0 }, lba, count)
}

/// UNMAP of one range, with its parameter list (SBC-3 5.28).
pub(crate) fn unmap(lba: u64, count: u32) -> (Cdb, Vec<u8>) {
    let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
    list.extend_from_slice(&lba.to_be_bytes());
    list.extend_from_slice(&count.to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    (Cdb::new(10, 0x42).set(7, (list.len() as u16).to_be_bytes()), list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_standards_put_them() {
        assert_eq!(read(0x0102_0304_0506_0708, 16).as_bytes(), [0x88, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 16, 0, 0]);
        assert_eq!(write(1, 2, true).as_bytes(), [0x8a, 8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0]);
        assert_eq!(inquiry(Some(0x83), 255).as_bytes(), [0x12, 1, 0x83, 0, 255, 0]);
        assert_eq!(mode_sense_caching(64).as_bytes(), [0x5a, 8, 8, 0, 0, 0, 0, 0, 64, 0]);
        assert_eq!(report_target_port_groups(512).as_bytes(), [0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
        let (cdb, list) = unmap(5, 6);
        assert_eq!(cdb.as_bytes(), [0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0]);
        assert_eq!(list, [0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 0]);
    }
}
