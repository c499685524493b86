//! The kernel's NFS client, version 3 over TCP, on the filer of this host.

use crate::booted::{can_boot, facts_of};
use crate::support::Scratch;
use crate::support::filer::Filer;

/// Longest time until a lock is refused. The call itself takes 0.03 to 0.2 s; starting flock in an emulated guest on a busy host takes
/// longer. After 3 s the kernel would ask a second time where the service is.
const LOCK_MS_MAX: u64 = 3000;

#[test]
fn the_kernels_nfs_client_keeps_verified_blocks_over_a_killed_filer_and_a_cut_path_and_is_refused_locks() {
    if !can_boot(&["mount.nfs", "rpc.statd", "rpcbind", "fio", "ip"]) {
        return;
    }
    let scratch = Scratch::new("guest-nfs");
    let mut filer = Filer::start(&scratch, &[]);
    let arguments = [filer.port.to_string(), env!("CARGO_BIN_EXE_millrace").to_owned()];
    let facts = facts_of("nfs.sh", 2, &arguments, |wish| {
        assert_eq!(wish, "restart the filer");
        filer.kill();
        filer.restart();
    });
    assert_eq!(facts["mounted"], "1");
    let tree = "b:regular_file:6:2 fifo:fifo:0:1 hard:regular_file:6:2 long:regular_file:1048576:1 soft:symbolic_link:1:1";
    assert_eq!(facts["tree"].trim_end(), tree);
    assert_eq!(facts["content"], "hello");
    assert_eq!((&*facts["restart"], &*facts["cut"], &*facts["again"]), ("verified", "verified", "verified"));
    // Without an answer the kernel asks for ever where the lock service is, and flock does not return.
    for lock in ["first_lock", "second_lock"] {
        assert!(facts[lock].ends_with("No locks available"), "{}", facts[lock]);
        let took: u64 = facts[&format!("{lock}_ms")].parse().unwrap();
        assert!(took < LOCK_MS_MAX, "{lock} took {took} ms");
    }
    assert!(filer.calls("READ") > 0, "another mount has nothing in its cache");
    assert!(!filer.export().join("d").exists() && filer.export().join("cut.0.0").exists());
}
