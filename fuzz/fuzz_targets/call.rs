//! Calls of all programs: decoded as what their header says they are.
#![no_main]

#[path = "../../crates/nfs-proto/tests/every/mod.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod every;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    if let Ok((kind, _, body)) = every::call_parts(record) {
        let _ = every::check(kind, body);
    }
});
