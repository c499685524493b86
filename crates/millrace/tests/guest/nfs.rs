//! The kernel's NFS client, version 3 over TCP, on the filer of this host.

use crate::booted::{can_boot, facts_of};
use crate::support::Scratch;
use crate::support::filer::Filer;

#[test]
fn the_kernels_nfs_client_keeps_every_verified_block_over_a_killed_filer_and_a_cut_path() {
    if !can_boot(&["mount.nfs", "fio"]) {
        return;
    }
    let scratch = Scratch::new("guest-nfs");
    let mut filer = Filer::start(&scratch, &[]);
    let facts = facts_of("nfs.sh", 2, &[filer.port.to_string()], |wish| {
        assert_eq!(wish, "restart the filer");
        filer.kill();
        filer.restart();
    });
    assert_eq!(facts["mounted"], "1");
    let tree = "b:regular_file:6:2 fifo:fifo:0:1 hard:regular_file:6:2 long:regular_file:1048576:1 soft:symbolic_link:1:1";
    assert_eq!(facts["tree"].trim_end(), tree);
    assert_eq!(facts["content"], "hello");
    assert_eq!((&*facts["restart"], &*facts["cut"], &*facts["again"]), ("verified", "verified", "verified"));
    assert!(filer.calls("READ") > 0, "another mount has nothing in its cache");
    assert!(!filer.export().join("d").exists() && filer.export().join("cut.0.0").exists());
}
