//! Limits of TLS, each with its reason.

/// Head of a record: type, version, length (RFC 8446 5.1), in bytes.
pub const RECORD_HEAD_BYTES: usize = 5;
/// What follows the data of a sealed record: its type, and the tag of the AEAD (RFC 8446 5.2), in bytes.
pub const RECORD_TAIL_BYTES: usize = 1 + 16;
/// Most data of one record (RFC 8446 5.1), in bytes.
pub const PLAIN_BYTES_MAX: usize = 1 << 14;
/// Longest body of a record, padding included (RFC 8446 5.2), in bytes.
pub const BODY_BYTES_MAX: usize = PLAIN_BYTES_MAX + 256;
/// Longest record, in bytes. No buffer for received records may be shorter.
pub const RECORD_BYTES_MAX: usize = RECORD_HEAD_BYTES + BODY_BYTES_MAX;
/// Bytes that sealing adds to the data of a record.
pub const OVERHEAD_BYTES: usize = RECORD_HEAD_BYTES + RECORD_TAIL_BYTES;
/// A sealed KeyUpdate (RFC 8446 4.6.3), in bytes. It may be sent before any record.
pub const KEY_UPDATE_BYTES: usize = OVERHEAD_BYTES + 5;
/// Shortest buffer to seal into, in bytes: a change of the key and one byte of data.
pub const SEAL_BYTES_MIN: usize = KEY_UPDATE_BYTES + OVERHEAD_BYTES + 1;

/// Records sealed with one key: a third of the 2^24.5 full records for which AES-GCM is safe (RFC 8446 5.5).
pub const RECORDS_PER_KEY: u64 = 1 << 23;
/// Most bytes of a handshake that are kept at the same time: twice the longest message that rustls accepts.
pub const HANDSHAKE_BYTES_MAX: usize = 128 * 1024;
/// Most records of one handshake. A handshake with a certificate in small records has about twenty.
pub const HANDSHAKE_RECORDS_MAX: usize = 256;

const _: () = assert!(HANDSHAKE_BYTES_MAX > 2 * RECORD_BYTES_MAX);
