//! What a LUN reports about itself.

use std::fmt;

/// Identifies a LUN over any path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The designator of the LUN (SPC-4 7.8.6): NAA, else EUI-64, else T10 vendor, in hexadecimal after the name of its
    /// kind.
    pub designator: String,
    /// Vendor.
    pub vendor: String,
    /// Product.
    pub product: String,
    /// The number of the target port group to which this path belongs.
    pub(crate) port_group: Option<u16>,
}

impl fmt::Display for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}, {}", self.vendor, self.product, self.designator)
    }
}

/// Sizes of a LUN, and the commands that it supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Logical blocks.
    pub blocks: u64,
    /// Bytes of a physical block.
    pub physical_block_bytes: u32,
    /// Whether writes are durable only after a flush (WCE of the Caching page). True if the LUN does not report it.
    pub write_cache: bool,
    /// Whether the LUN refuses writes.
    pub read_only: bool,
    /// Whether the LUN supports UNMAP.
    pub can_unmap: bool,
    /// Whether the LUN supports WRITE SAME with UNMAP.
    pub can_unmap_same: bool,
    /// Whether unmapped blocks read as zeroes.
    pub unmapped_is_zero: bool,
    /// Maximum bytes of one read or write.
    pub transfer_bytes_max: u32,
    /// Maximum bytes of one UNMAP.
    pub unmap_bytes_max: u64,
    /// Maximum bytes of one WRITE SAME.
    pub write_same_bytes_max: u64,
}

impl Default for Geometry {
    fn default() -> Self {
        Self {
            block_bytes: 512,
            blocks: 0,
            physical_block_bytes: 512,
            write_cache: true,
            read_only: false,
            can_unmap: false,
            can_unmap_same: false,
            unmapped_is_zero: false,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            unmap_bytes_max: 1 << 30,
            write_same_bytes_max: 1 << 24,
        }
    }
}

/// Used if the target reports no limit: every target accepts this.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;

impl Geometry {
    /// Bytes of the complete LUN.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.blocks.saturating_mul(self.block_bytes as u64)
    }

    /// Reads the data of READ CAPACITY (16) (SBC-3 5.16). `None` if it has no usable block size.
    pub(crate) fn read_capacity(&mut self, data: &[u8]) -> Option<()> {
        let last = u64::from_be_bytes(*data.first_chunk()?);
        self.block_bytes = u32::from_be_bytes(*data.get(8..)?.first_chunk()?);
        self.blocks = last.checked_add(1)?;
        let exponent = u32::from(data.get(13)? & 0x0f);
        self.physical_block_bytes = self.block_bytes.checked_shl(exponent)?;
        self.unmapped_is_zero = data.get(14)? & 0x40 != 0;
        // SBC-3 4.5. LUNs on the market have blocks of 512 or 4096 bytes.
        (self.block_bytes.is_power_of_two() && (512..=65_536).contains(&self.block_bytes)).then_some(())
    }

    /// Reads the Block Limits page (SBC-3 6.6.4). In it, 0 means that the LUN reports no limit.
    pub(crate) fn read_block_limits(&mut self, page: &[u8]) {
        let word = |at: usize| page.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let in_bytes = |blocks: u64| blocks.saturating_mul(u64::from(self.block_bytes));
        if word(8) != 0 {
            self.transfer_bytes_max = in_bytes(word(8).into()).min(TRANSFER_BYTES_MAX.into()) as u32;
        }
        self.can_unmap = word(20) != 0 && word(24) != 0;
        self.unmap_bytes_max = in_bytes(word(20).into()).min(1 << 40);
        let same = page.get(36..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_be_bytes(*bytes));
        if same != 0 {
            self.write_same_bytes_max = in_bytes(same).min(1 << 30);
        }
    }

    /// Reads the Logical Block Provisioning page (SBC-3 6.6.6).
    pub(crate) fn read_provisioning(&mut self, page: &[u8]) {
        let flags = page.get(5).copied().unwrap_or(0);
        self.can_unmap &= flags & 0x80 != 0;
        self.can_unmap_same = flags & 0x40 != 0;
    }

    /// Reads the data of MODE SENSE (10) with the Caching page (SPC-4 7.5.2, SBC-3 6.5.6).
    pub(crate) fn read_mode(&mut self, data: &[u8]) {
        let Some(device) = data.get(3) else { return };
        self.read_only = device & 0x80 != 0;
        let descriptors =
            data.get(6..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| usize::from(u16::from_be_bytes(*bytes)));
        let page = data.get(8 + descriptors..).unwrap_or_default();
        if let [code, _, flags, ..] = page
            && code & 0x3f == 0x08
        {
            self.write_cache = flags & 0x04 != 0;
        }
    }
}

impl Identity {
    /// Reads standard INQUIRY data (SPC-4 6.6.2). Returns whether the LUN exists and is a disk.
    pub(crate) fn read_inquiry(&mut self, data: &[u8]) -> bool {
        let text = |from: usize, to: usize| String::from_utf8_lossy(data.get(from..to).unwrap_or_default()).trim().to_owned();
        (self.vendor, self.product) = (text(8, 16), text(16, 32));
        data.first() == Some(&0)
    }

    /// Reads the Device Identification page (SPC-4 7.8.6).
    pub(crate) fn read_designators(&mut self, page: &[u8]) {
        let mut rest = page.get(4..).unwrap_or_default();
        let mut best = 0;
        while let [_, kind, _, length, behind @ ..] = rest {
            let Some(designator) = behind.get(..usize::from(*length)) else { break };
            let (association, kind) = (kind >> 4 & 3, kind & 0x0f);
            let (rank, name) = match kind {
                3 => (3, "naa."),
                2 => (2, "eui."),
                1 => (1, "t10."),
                _ => (0, ""),
            };
            if association == 0 && rank > best {
                best = rank;
                let hexadecimal: String = designator.iter().map(|byte| format!("{byte:02x}")).collect();
                self.designator = format!("{name}{hexadecimal}");
            }
            if association == 1 && kind == 5 {
                self.port_group =
                    designator.get(2..4).and_then(|bytes| bytes.first_chunk()).map(|bytes| u16::from_be_bytes(*bytes));
            }
            rest = behind.get(usize::from(*length)..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_says_blocks_of_both_kinds() {
        let mut geometry = Geometry::default();
        let mut data = [0; 32];
        data[..8].copy_from_slice(&2047_u64.to_be_bytes());
        data[8..12].copy_from_slice(&512_u32.to_be_bytes());
        (data[13], data[14]) = (3, 0xc0);
        assert!(geometry.read_capacity(&data).is_some());
        assert_eq!((geometry.bytes(), geometry.physical_block_bytes, geometry.unmapped_is_zero), (1 << 20, 4096, true));
        data[..8].copy_from_slice(&u64::MAX.to_be_bytes());
        assert!(geometry.read_capacity(&data).is_none());
        assert!(geometry.read_capacity(&data[..11]).is_none());
    }

    #[test]
    fn the_best_designator_of_the_lun_is_its_identity() {
        let mut page = vec![0, 0x83, 0, 0];
        page.extend_from_slice(&[2, 1, 0, 3, b'a', b'b', b'c']); // T10 vendor, of the LUN
        page.extend_from_slice(&[1, 3, 0, 2, 0x60, 0x01]); // NAA, of the LUN
        page.extend_from_slice(&[1, 0x15, 0, 4, 0, 0, 0, 9]); // port group of the port
        page.extend_from_slice(&[1, 3, 0, 200, 1]); // longer than the page
        let mut identity = Identity::default();
        identity.read_designators(&page);
        assert_eq!((identity.designator.as_str(), identity.port_group), ("naa.6001", Some(9)));
    }

    #[test]
    fn a_write_cache_is_believed_to_be_there_until_the_lun_denies_it() {
        let mut geometry = Geometry::default();
        geometry.read_mode(&[]);
        assert!(geometry.write_cache);
        geometry.read_mode(&[0, 26, 0, 0x90, 0, 0, 0, 0, 0x08, 0x12, 0x00, 0, 0]);
        assert!(geometry.read_only && !geometry.write_cache);
    }
}
