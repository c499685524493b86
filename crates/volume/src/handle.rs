//! File handles of clients, with a MAC so that they cannot be forged.
//!
//! ```text
//! byte 0        1            2                      3     4..12    12..20        20..20+n      last 8
//! version (2)   kernel type  kind * 32 + kernel n   tag   file id  parent hint   kernel bytes  MAC
//! ```
//! All handles of a volume have the same tag. A server of several volumes tries the volumes with this tag first; only the MAC
//! decides. Handles of version 1 (kernel length n in byte 2, kind in byte 3, no tag) are still accepted, but no longer made.
//!
//! Numbers are little endian. The MAC is SipHash-2-4 with the volume's key over all bytes before it.
//! The parent hint is the inode number of a directory that the object was found in. It is zero if the host opens
//! objects by handle, so that an object then always has the same handle.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::limits::{HANDLE_BYTES_MAX, HANDLE_FRAME_BYTES, KERNEL_HANDLE_BYTES_MAX};
use crate::sys::KernelHandle;
use crate::types::Kind;

const VERSION: u8 = 2;
const VERSION_UNTAGGED: u8 = 1;
/// The kind is in byte 2 from this bit on. The five bits below hold a length up to 31.
const KIND_SHIFT: u32 = 5;
const _: () = assert!(KERNEL_HANDLE_BYTES_MAX < 1 << KIND_SHIFT && (Kind::Fifo as u8) < 8);
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
    /// The bytes that a client gets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The content of a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) identity: KernelHandle,
    pub(crate) kind: Kind,
    pub(crate) fileid: u64,
    /// Inode number of a directory that it was once in. Zero if the handle has no hint.
    pub(crate) parent_hint: u64,
}

/// The volume's tag in a handle, without a check of the MAC. `None` for a handle of another version, which has no
/// tag.
#[must_use]
pub fn handle_tag(handle: &[u8]) -> Option<u8> {
    match handle {
        [VERSION, _, _, tag, ..] => Some(*tag),
        _ => None,
    }
}

/// Key of the handle MAC, and the volume's tag.
#[derive(Clone)]
pub(crate) struct HandleKey {
    mac: SipHasher24,
    tag: u8,
}

impl HandleKey {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        Self { mac: SipHasher24::new_with_key(key), tag: keyed_hash(key, &[b"tag"]) as u8 }
    }

    fn mac(&self, bytes: &[u8]) -> u64 {
        self.mac.hash(bytes)
    }

    /// The tag of all handles made with this key.
    pub(crate) const fn tag(&self) -> u8 {
        self.tag
    }

    /// The part of a handle that the MAC covers. `None` if its length or its MAC is wrong.
    fn signed<'a>(&self, handle: &'a [u8]) -> Option<&'a [u8]> {
        if handle.len() > HANDLE_BYTES_MAX || handle.len() < HEAD + MAC {
            return None;
        }
        let (body, mac) = handle.split_at(handle.len() - MAC);
        (self.mac(body) == u64::from_le_bytes(mac.try_into().ok()?)).then_some(body)
    }

    /// Whether the handle was made with this key.
    pub(crate) fn made(&self, handle: &[u8]) -> bool {
        self.signed(handle).is_some()
    }

    pub(crate) fn encode(&self, named: &Named) -> Handle {
        let len = usize::from(named.identity.len);
        let mut bytes = [0; HANDLE_BYTES_MAX];
        bytes[0] = VERSION;
        bytes[1] = named.identity.kind;
        bytes[2] = ((named.kind as u8) << KIND_SHIFT) | named.identity.len;
        bytes[3] = self.tag;
        bytes[4..12].copy_from_slice(&named.fileid.to_le_bytes());
        bytes[12..20].copy_from_slice(&named.parent_hint.to_le_bytes());
        bytes[HEAD..HEAD + len].copy_from_slice(&named.identity.bytes[..len]);
        let mac = self.mac(&bytes[..HEAD + len]);
        bytes[HEAD + len..HEAD + len + MAC].copy_from_slice(&mac.to_le_bytes());
        Handle { len: (HEAD + len + MAC) as u8, bytes }
    }

    /// Decodes a handle. `None` if its form or its MAC is wrong.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Option<Named> {
        let body = self.signed(bytes)?;
        let kernel = body.get(HEAD..)?;
        let (kind, length) = match body[0] {
            VERSION => (body[2] >> KIND_SHIFT, body[2] & ((1 << KIND_SHIFT) - 1)),
            VERSION_UNTAGGED => (body[3], body[2]),
            _ => return None,
        };
        if usize::from(length) != kernel.len() || kernel.len() > KERNEL_HANDLE_BYTES_MAX {
            return None;
        }
        let mut identity = KernelHandle { kind: body[1], len: length, bytes: [0; KERNEL_HANDLE_BYTES_MAX] };
        identity.bytes[..kernel.len()].copy_from_slice(kernel);
        Some(Named {
            identity,
            kind: Kind::of_number(kind)?,
            fileid: u64::from_le_bytes(body[4..12].try_into().ok()?),
            parent_hint: u64::from_le_bytes(body[12..20].try_into().ok()?),
        })
    }
}

/// Keyed 64-bit hash of several parts.
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

    /// A handle of version 1.
    fn untagged(key: &HandleKey, named: &Named) -> Vec<u8> {
        let kernel = &named.identity.bytes[..usize::from(named.identity.len)];
        let head = [VERSION_UNTAGGED, named.identity.kind, named.identity.len, named.kind as u8];
        let mut bytes = [&head[..], &named.fileid.to_le_bytes(), &named.parent_hint.to_le_bytes(), kernel].concat();
        bytes.extend_from_slice(&key.mac(&bytes).to_le_bytes());
        bytes
    }

    #[test]
    fn a_handle_of_version_1_is_still_read() {
        let key = HandleKey::new(&[3; 16]);
        let old = untagged(&key, &named());
        assert_eq!(key.decode(&old), Some(named()));
        assert_eq!(handle_tag(&old), None);
        assert!(key.made(&old) && !HandleKey::new(&[4; 16]).made(&old));
    }

    #[test]
    fn all_handles_of_a_volume_carry_its_tag() {
        let (one, other) = (HandleKey::new(&[3; 16]), HandleKey::new(&[4; 16]));
        assert_ne!(one.tag(), other.tag(), "these two keys differ in it");
        for kind in [Kind::File, Kind::Directory, Kind::Fifo] {
            let handle = one.encode(&Named { kind, ..named() });
            assert_eq!(handle_tag(handle.as_bytes()), Some(one.tag()));
            assert_eq!(one.decode(handle.as_bytes()), Some(Named { kind, ..named() }));
        }
        assert_eq!(handle_tag(&[]), None);
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
