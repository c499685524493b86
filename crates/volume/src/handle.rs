//! File handles: what a client holds, with a MAC so that it can't be forged.
//!
//! ```text
//! byte 0        1            2             3      4..12    12..20        20..20+n      last 8
//! version (1)   kernel type  kernel len n  kind   file id  parent hint   kernel bytes  MAC
//! ```
//! Numbers are little endian. The MAC is SipHash-2-4 under the volume's key over all bytes before it.
//! The parent hint (inode number of a directory the object was found in) is zero where the host opens
//! objects by identity, so that there an object has one handle for life.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::limits::{HANDLE_BYTES_MAX, HANDLE_FRAME_BYTES, KERNEL_HANDLE_BYTES_MAX};
use crate::sys::KernelHandle;
use crate::types::Kind;

const VERSION: u8 = 1;
const HEAD: usize = 20;
const MAC: usize = 8;
const _: () = assert!(HEAD + MAC == HANDLE_FRAME_BYTES);

/// An opaque file handle, at most 56 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    len: u8,
    bytes: [u8; HANDLE_BYTES_MAX],
}

impl Handle {
    /// The bytes a client is given.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a handle says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) identity: KernelHandle,
    pub(crate) kind: Kind,
    pub(crate) fileid: u64,
    /// Inode number of a directory it was once in; zero: none.
    pub(crate) parent_hint: u64,
}

/// Key of the handle MAC.
#[derive(Clone)]
pub(crate) struct HandleKey(SipHasher24);

impl HandleKey {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        Self(SipHasher24::new_with_key(key))
    }

    fn mac(&self, bytes: &[u8]) -> u64 {
        self.0.hash(bytes)
    }

    pub(crate) fn encode(&self, named: &Named) -> Handle {
        let len = usize::from(named.identity.len);
        let mut bytes = [0; HANDLE_BYTES_MAX];
        bytes[0] = VERSION;
        bytes[1] = named.identity.kind;
        bytes[2] = named.identity.len;
        bytes[3] = named.kind as u8;
        bytes[4..12].copy_from_slice(&named.fileid.to_le_bytes());
        bytes[12..20].copy_from_slice(&named.parent_hint.to_le_bytes());
        bytes[HEAD..HEAD + len].copy_from_slice(&named.identity.bytes[..len]);
        let mac = self.mac(&bytes[..HEAD + len]);
        bytes[HEAD + len..HEAD + len + MAC].copy_from_slice(&mac.to_le_bytes());
        Handle { len: (HEAD + len + MAC) as u8, bytes }
    }

    /// Reads a handle; `None` when its form or its MAC is wrong.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Option<Named> {
        if bytes.len() > HANDLE_BYTES_MAX || bytes.len() < HEAD + MAC {
            return None;
        }
        let (body, mac) = bytes.split_at(bytes.len() - MAC);
        if self.mac(body) != u64::from_le_bytes(mac.try_into().ok()?) {
            return None;
        }
        let kernel = body.get(HEAD..)?;
        if body[0] != VERSION || usize::from(body[2]) != kernel.len() || kernel.len() > KERNEL_HANDLE_BYTES_MAX {
            return None;
        }
        let mut identity = KernelHandle { kind: body[1], len: body[2], bytes: [0; KERNEL_HANDLE_BYTES_MAX] };
        identity.bytes[..kernel.len()].copy_from_slice(kernel);
        Some(Named {
            identity,
            kind: Kind::of_number(body[3])?,
            fileid: u64::from_le_bytes(body[4..12].try_into().ok()?),
            parent_hint: u64::from_le_bytes(body[12..20].try_into().ok()?),
        })
    }
}

/// Keyed 64-bit hash of several parts (the write verifier).
pub(crate) fn keyed_hash(key: &[u8; 16], parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher24::new_with_key(key);
    for part in parts {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Named {
        let mut identity = KernelHandle { kind: 0x81, len: 12, bytes: [0; KERNEL_HANDLE_BYTES_MAX] };
        identity.bytes[..12].copy_from_slice(&[9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 255, 254]);
        Named { identity, kind: Kind::File, fileid: 77, parent_hint: 12 }
    }

    #[test]
    fn handle_round_trips() {
        let key = HandleKey::new(&[3; 16]);
        assert_eq!(key.decode(key.encode(&named()).as_bytes()), Some(named()));
    }

    #[test]
    fn any_changed_bit_is_refused() {
        let key = HandleKey::new(&[3; 16]);
        let handle = key.encode(&named());
        for bit in 0..handle.as_bytes().len() * 8 {
            let mut forged = handle.as_bytes().to_vec();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.decode(&forged), None, "bit {bit}");
        }
    }

    #[test]
    fn other_lengths_and_other_keys_are_refused() {
        let key = HandleKey::new(&[3; 16]);
        let handle = key.encode(&named());
        for len in 0..handle.as_bytes().len() {
            assert_eq!(key.decode(&handle.as_bytes()[..len]), None, "{len} bytes");
        }
        assert_eq!(key.decode(&[0; 64]), None);
        assert_eq!(HandleKey::new(&[4; 16]).decode(handle.as_bytes()), None);
    }

    #[test]
    fn longest_kernel_handle_fits() {
        let key = HandleKey::new(&[0; 16]);
        let mut longest = named();
        longest.identity.len = KERNEL_HANDLE_BYTES_MAX as u8;
        assert!(key.encode(&longest).as_bytes().len() <= HANDLE_BYTES_MAX);
    }
}
