//! Unpredictable numbers.

use super::clock::monotonic_ns;
use super::process::process_id;
use rustix::rand::{GetRandomFlags, getrandom};

/// Eight bytes nobody can guess, so that no two processes or lives of one share xids.
pub(crate) fn random() -> u64 {
    let mut bytes = [0u8; 8];
    match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // A kernel without it: time and process tell two lives apart well enough.
        _ => monotonic_ns() ^ u64::from(process_id()) << 32,
    }
}
