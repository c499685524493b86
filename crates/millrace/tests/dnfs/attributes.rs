//! Attributes of a file after writes of this host, compared with those on the server's host.

use crate::mounted::{MAKE, Mounted, open};
use std::os::unix::fs::MetadataExt;

#[test]
fn times_and_space_after_a_stable_write_are_those_of_the_server() {
    let mounted = Mounted::new("attr-stable", &[]);
    let file = open(&mounted.mount, "f", &MAKE);
    let path = mounted.filer.export().join("f");
    for block in 0..20u64 {
        for stable in [true, false] {
            let offset = block * 16_384 + u64::from(stable) * 8192;
            if stable {
                file.write_stable(offset, &[1; 8192])
            } else {
                file.write(offset, &[1; 8192])
            }
            if !stable {
                file.sync().unwrap(); // before this, the host may not have allocated blocks
            }
            let (seen, host) = (mounted.mount.attr(file.file).unwrap(), std::fs::metadata(&path).unwrap());
            let times = |seconds, nanoseconds| (seconds, nanoseconds);
            let what = format!("block {block}, stable {stable}");
            let mtime = times(seen.mtime.seconds, i64::from(seen.mtime.nanoseconds));
            assert_eq!(mtime, times(host.mtime(), host.mtime_nsec()), "{what}: mtime");
            assert_eq!(seen.used, host.blocks() * 512, "{what}: space");
            assert_eq!(seen.size, host.len(), "{what}: size");
        }
    }
}
