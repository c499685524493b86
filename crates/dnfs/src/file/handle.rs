//! File handles. Only the server can interpret them.

use core::fmt;

/// Maximum bytes of a file handle, as in NFSv4 (RFC 8881 3.2, `NFS4_FHSIZE`). The codec of NFSv3 enforces its own limit
/// of 64.
pub const FILE_HANDLE_BYTES_MAX: usize = 128;

const _: () = assert!(FILE_HANDLE_BYTES_MAX.is_multiple_of(8) && FILE_HANDLE_BYTES_MAX <= u8::MAX as usize);

/// The name that a server has for an object: opaque bytes, at most [`FILE_HANDLE_BYTES_MAX`]. Equal handles name one
/// object; one object may have several handles.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle {
    length: u8,
    bytes: [u8; FILE_HANDLE_BYTES_MAX], // zero from `length` on, so that equality and hash are those of the handle
}

impl FileHandle {
    /// The handle of these bytes. `None` if there are too many.
    #[must_use]
    pub fn new(handle: &[u8]) -> Option<Self> {
        let mut bytes = [0; FILE_HANDLE_BYTES_MAX];
        bytes.get_mut(..handle.len())?.copy_from_slice(handle);
        Some(Self { length: handle.len() as u8, bytes })
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_keeps_128_bytes_and_no_more() {
        let longest = [7; FILE_HANDLE_BYTES_MAX];
        assert_eq!(FileHandle::new(&longest).unwrap().as_bytes(), longest);
        assert_eq!(FileHandle::new(&[7; FILE_HANDLE_BYTES_MAX + 1]), None);
        assert_eq!(FileHandle::new(b"").unwrap().as_bytes(), b"");
        assert_ne!(FileHandle::new(b"\0"), FileHandle::new(b""));
    }
}
