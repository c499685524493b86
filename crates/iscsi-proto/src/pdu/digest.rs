//! CRC32C digests (RFC 7143 13.1), computed with the processor's instruction if it has one.

/// Size of a digest, in bytes.
pub const DIGEST_BYTES: usize = 4;

/// The digests of the PDUs on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// A digest of BHS and AHS.
    pub header: bool,
    /// A digest of the data segment with its padding.
    pub data: bool,
}

impl Digests {
    /// Size of the header digest, in bytes: 4 or 0.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        if self.header { DIGEST_BYTES } else { 0 }
    }
}

/// The CRC32C of `bytes`. A PDU has its least significant byte first.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7143 appendix A and RFC 3720 B.4: bytes in wire order.
    #[test]
    fn examples_of_the_standard_come_out() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        assert_eq!(crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(crc32c(&[0xff; 32]).to_le_bytes(), [0x43, 0xab, 0xa8, 0x62]);
        assert_eq!(crc32c(&ascending).to_le_bytes(), [0x4e, 0x79, 0xdd, 0x46]);
        assert_eq!(crc32c(&descending).to_le_bytes(), [0x5c, 0xdb, 0x3f, 0x11]);
    }
}
