//! Replies: header, then results as those of each procedure; the first two bytes choose program and procedure.
#![no_main]

#[path = "../../crates/nfs-proto/tests/every/mod.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod every;

use every::{Kind, check, reply_parts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let [program, procedure, record @ ..] = bytes else { return };
    let programs = [nfs_proto::nfs3::PROGRAM, nfs_proto::mount3::PROGRAM, nfs_proto::portmap2::PROGRAM];
    let kind = Kind { program: programs[usize::from(*program) % 3], procedure: u32::from(*procedure) % 22, is_reply: true };
    if let Ok((_, results)) = reply_parts(record) {
        let _ = check(kind, results);
    }
    let _ = check(kind, record);
});
