//! File handles of clients, with a MAC so that they cannot be forged.
//!
//! ```text
//! byte 0        1            2                      3     4..12    12..20        20..20+n      last 8
//! version (2)   kernel type  kind * 32 + kernel n   tag   file id  parent hint   kernel bytes  MAC
//!
//! byte 0        1            2                      3     4..8         8..16    16..24        24..24+n      last 8
//! version (3)   kernel type  kind * 32 + kernel n   tag   snapshot id  file id  parent hint   kernel bytes  MAC
//! ```
//! Objects of the live tree have handles of version 2, objects of a snapshot have handles of version 3. Clients compare handles, so the
//! live tree keeps version 2, and a handle of version 3 with snapshot id 0, which is the live tree, is refused: an object has one handle.
//! Handles of version 1 (as version 2, with kernel length n in byte 2, kind in byte 3, no tag) are still accepted, but no longer made.
//!
//! All handles of a volume have the same tag. A server of several volumes tries the volumes with this tag first; only the MAC
//! decides.
//!
//! The kernel bytes of btrfs are the inode number (8 bytes), the number of the subvolume (8) and the generation (4). Version 3 leaves out
//! the number of the subvolume ([`Store::in_handle`](crate::store::Store::in_handle)): the snapshot id says which one it is.
//!
//! Numbers are little endian. The MAC is SipHash-2-4 with the volume's key over all bytes before it.
//! The parent hint is the inode number of a directory that the object was found in. It is zero if the host opens
//! objects by handle, so that an object then always has the same handle.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::limits::{HANDLE_BYTES_MAX, HANDLE_FRAME_BYTES, KERNEL_HANDLE_BYTES_MAX};
use crate::store::SnapshotId;
use crate::sys::KernelHandle;
use crate::types::Kind;

const VERSION_UNTAGGED: u8 = 1;
const VERSION_LIVE: u8 = 2;
const VERSION_SNAPSHOT: u8 = 3;
/// The kind is in byte 2 from this bit on. The five bits below hold a length up to 31.
const KIND_SHIFT: u32 = 5;
const _: () = assert!(KERNEL_HANDLE_BYTES_MAX < 1 << KIND_SHIFT && (Kind::Fifo as u8) < 8);
/// Bytes before the file id, without a snapshot id.
const START: usize = 4;
const SNAPSHOT_ID: usize = 4;
/// File id and parent hint.
const NUMBERS: usize = 8 + 8;
const MAC: usize = 8;
const _: () = assert!(START + SNAPSHOT_ID + NUMBERS + MAC == HANDLE_FRAME_BYTES);

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

/// The volume's tag in a handle, without a check of the MAC. `None` for a handle of version 1, which has no tag, and for bytes that no
/// volume made.
#[must_use]
pub fn handle_tag(handle: &[u8]) -> Option<u8> {
    match handle {
        [VERSION_LIVE | VERSION_SNAPSHOT, _, _, tag, ..] => Some(*tag),
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
        if handle.len() > HANDLE_BYTES_MAX || handle.len() < START + NUMBERS + MAC {
            return None;
        }
        let (body, mac) = handle.split_at(handle.len() - MAC);
        (self.mac(body) == u64::from_le_bytes(mac.try_into().ok()?)).then_some(body)
    }

    /// Whether the handle was made with this key.
    pub(crate) fn made(&self, handle: &[u8]) -> bool {
        self.signed(handle).is_some()
    }

    /// The handle of an object of a snapshot, or of the live tree.
    pub(crate) fn encode(&self, snapshot: SnapshotId, named: &Named) -> Handle {
        let Named { identity: KernelHandle { kind: kernel_type, len: kernel_len, bytes: kernel }, kind, fileid, parent_hint } =
            *named;
        let (version, id) = match snapshot {
            SnapshotId::LIVE => (VERSION_LIVE, &[][..]),
            SnapshotId(id) => (VERSION_SNAPSHOT, &id.to_le_bytes()[..]),
        };
        let (mut len, mut bytes) = (0, [0; HANDLE_BYTES_MAX]);
        let mut put = |part: &[u8]| {
            bytes[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        };
        put(&[version, kernel_type, ((kind as u8) << KIND_SHIFT) | kernel_len, self.tag]);
        put(id);
        put(&fileid.to_le_bytes());
        put(&parent_hint.to_le_bytes());
        put(&kernel[..usize::from(kernel_len)]);
        let mac = self.mac(&bytes[..len]);
        bytes[len..len + MAC].copy_from_slice(&mac.to_le_bytes());
        Handle { len: (len + MAC) as u8, bytes }
    }

    /// Decodes a handle. `None` if its form or its MAC is wrong.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Option<(SnapshotId, Named)> {
        let (start, rest) = self.signed(bytes)?.split_first_chunk::<START>()?;
        let [version, kernel_type, kind, last] = *start;
        let (kind, kernel_len) = match version {
            VERSION_UNTAGGED => (last, kind),
            VERSION_LIVE | VERSION_SNAPSHOT => (kind >> KIND_SHIFT, kind & ((1 << KIND_SHIFT) - 1)),
            _ => return None,
        };
        let (snapshot, rest) = match version {
            VERSION_SNAPSHOT => {
                let (id, rest) = rest.split_first_chunk()?;
                (Some(SnapshotId(u32::from_le_bytes(*id))).filter(|id| *id != SnapshotId::LIVE)?, rest)
            }
            _ => (SnapshotId::LIVE, rest),
        };
        let (fileid, rest) = rest.split_first_chunk()?;
        let (parent_hint, kernel) = rest.split_first_chunk()?;
        if usize::from(kernel_len) != kernel.len() || kernel.len() > KERNEL_HANDLE_BYTES_MAX {
            return None;
        }
        let mut identity = KernelHandle { kind: kernel_type, len: kernel_len, bytes: [0; KERNEL_HANDLE_BYTES_MAX] };
        identity.bytes[..kernel.len()].copy_from_slice(kernel);
        let (fileid, parent_hint) = (u64::from_le_bytes(*fileid), u64::from_le_bytes(*parent_hint));
        Some((snapshot, Named { identity, kind: Kind::of_number(kind)?, fileid, parent_hint }))
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
        for snapshot in [SnapshotId::LIVE, SnapshotId(7), SnapshotId(u32::MAX)] {
            assert_eq!(key.decode(key.encode(snapshot, &named()).as_bytes()), Some((snapshot, named())));
        }
    }

    /// The handles of [`named`] in each version. They were computed by another program, as clients hold them: their bytes never change.
    const GOLDEN: [(&str, SnapshotId); 3] = [
        ("01810c014d000000000000000c0000000000000009080706050403020100fffed4548a2272aaf7c0", SnapshotId::LIVE),
        ("02812ce64d000000000000000c0000000000000009080706050403020100fffecdc06a0bf84b612d", SnapshotId::LIVE),
        ("03812ce6040506074d000000000000000c0000000000000009080706050403020100fffe49fa2d4bec207ca8", SnapshotId(0x0706_0504)),
    ];

    fn golden(number: usize) -> (Vec<u8>, SnapshotId) {
        let (digits, snapshot) = GOLDEN[number];
        let (digits, _) = digits.as_bytes().as_chunks::<2>();
        let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        (digits.iter().map(byte).collect(), snapshot)
    }

    #[test]
    fn handles_of_every_version_are_read_and_a_tree_keeps_the_version_of_its_handles() {
        let key = HandleKey::new(&[3; 16]);
        let all = [golden(0), golden(1), golden(2)];
        for (bytes, snapshot) in &all {
            assert_eq!(key.decode(bytes), Some((*snapshot, named())), "version {}", bytes[0]);
        }
        assert_eq!(key.encode(SnapshotId::LIVE, &named()).as_bytes(), all[1].0, "clients compare handles");
        assert_eq!(key.encode(all[2].1, &named()).as_bytes(), all[2].0);
    }

    #[test]
    fn an_object_of_the_live_tree_has_no_handle_with_a_snapshot_id() {
        let key = HandleKey::new(&[3; 16]);
        let (mut bytes, _) = golden(2);
        let mac = bytes.len() - MAC;
        bytes[START..START + SNAPSHOT_ID].fill(0);
        let signed = key.mac(&bytes[..mac]).to_le_bytes();
        bytes[mac..].copy_from_slice(&signed);
        assert!(key.made(&bytes));
        assert_eq!(key.decode(&bytes), None);
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
        assert_eq!(key.decode(&old), Some((SnapshotId::LIVE, named())));
        assert_eq!(handle_tag(&old), None);
        assert!(key.made(&old) && !HandleKey::new(&[4; 16]).made(&old));
    }

    #[test]
    fn all_handles_of_a_volume_carry_its_tag() {
        let (one, other) = (HandleKey::new(&[3; 16]), HandleKey::new(&[4; 16]));
        assert_ne!(one.tag(), other.tag(), "these two keys differ in it");
        for kind in [Kind::File, Kind::Directory, Kind::Fifo] {
            let handle = one.encode(SnapshotId::LIVE, &Named { kind, ..named() });
            assert_eq!(handle_tag(handle.as_bytes()), Some(one.tag()));
            assert_eq!(one.decode(handle.as_bytes()), Some((SnapshotId::LIVE, Named { kind, ..named() })));
        }
        assert_eq!(handle_tag(&[]), None);
    }

    #[test]
    fn any_changed_bit_is_refused() {
        let key = HandleKey::new(&[3; 16]);
        for handle in [SnapshotId::LIVE, SnapshotId(7)].map(|snapshot| key.encode(snapshot, &named())) {
            for bit in 0..handle.as_bytes().len() * 8 {
                let mut forged = handle.as_bytes().to_vec();
                forged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(key.decode(&forged), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn other_lengths_and_other_keys_are_refused() {
        let key = HandleKey::new(&[3; 16]);
        let handle = key.encode(SnapshotId(7), &named());
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
        assert_eq!(key.encode(SnapshotId(7), &longest).as_bytes().len(), HANDLE_BYTES_MAX);
    }
}
