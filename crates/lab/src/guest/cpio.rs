//! An archive that the kernel unpacks as its initial root: cpio, format "newc".
//!
//! Source: Documentation/driver-api/early-userspace/buffer-format.rst of Linux. A header is the magic number and 13 numbers of
//! eight hexadecimal digits; header with name, and content, are each padded to a multiple of four bytes.

/// Directory.
const DIRECTORY: u32 = 0o040_000;
/// Regular file.
const REGULAR: u32 = 0o100_000;
/// Header, without the name.
const HEADER_BYTES: usize = 110;

/// An archive being built.
pub(crate) struct Archive {
    bytes: Vec<u8>,
    files: u32,
}

impl Archive {
    /// An empty archive.
    pub(crate) fn new() -> Self {
        Self { bytes: Vec::new(), files: 0 }
    }

    /// Adds a directory. The name has no leading slash; add its parent first.
    pub(crate) fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY | 0o755, &[]);
    }

    /// Adds a file with these permissions.
    pub(crate) fn file(&mut self, name: &str, permissions: u32, content: &[u8]) {
        self.entry(name, REGULAR | permissions, content);
    }

    /// The complete archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.files = 0;
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        assert!(!name.starts_with('/'), "{name} is an absolute path");
        // No file of an initial root is near 4 GiB; a larger one would give a wrong size in the archive.
        let size = u32::try_from(content.len()).unwrap_or_else(|_| panic!("{name} has {} bytes", content.len()));
        self.files += 1;
        let name_size = name.len() as u32 + 1;
        // inode, mode, uid, gid, links, time, size, device (2), device of the node (2), name's size, checksum
        let fields = [self.files, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        let start = self.bytes.len();
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        debug_assert_eq!(self.bytes.len() - start, HEADER_BYTES);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_110_bytes_and_everything_is_padded_to_four() {
        let mut archive = Archive::new();
        archive.directory("bin");
        archive.file("bin/sh", 0o755, b"hello");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert!(bytes.starts_with(b"070701000000010000" as &[u8]), "{}", String::from_utf8_lossy(&bytes[..20]));
        // 110 + "bin\0" = 114, padded to 116: the second header.
        assert_eq!(&bytes[116..122], b"070701");
        assert_eq!(&bytes[116 + 14..116 + 22], b"000081ed", "a regular file that may be executed");
        assert_eq!(&bytes[116 + 54..116 + 62], b"00000005", "of five bytes");
        let name = 116 + HEADER_BYTES;
        assert_eq!(&bytes[name..name + 7], b"bin/sh\0");
        assert_eq!(&bytes[(name + 7).next_multiple_of(4)..][..5], b"hello");
        assert!(bytes.windows(11).any(|window| window == b"TRAILER!!!\0"));
    }
}
