//! Unpredictable numbers.

use super::raw::{clock_ns, process_id};
use rustix::rand::{GetRandomFlags, getrandom};

/// Eight unpredictable bytes, so that no two processes, or runs of one, share xids.
pub(crate) fn random() -> u64 {
    #[cfg(test)]
    if let Some(drawn) = super::simulated::random() {
        return drawn;
    }
    let mut bytes = [0u8; 8];
    match getrandom(&mut bytes[..], GetRandomFlags::empty()) {
        Ok(8) => u64::from_ne_bytes(bytes),
        // If the kernel has no such call, time and process are different enough.
        _ => clock_ns(libc::CLOCK_MONOTONIC) ^ u64::from(process_id()) << 32,
    }
}
