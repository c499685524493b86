//! The kernel's NFS client, version 3 over TCP, on the filer of this host.

use crate::booted::{can_boot, facts_of};
use crate::support::Scratch;
use crate::support::configured::Configured;
use crate::support::filer::Filer;
use crate::support::mounted::Mounted;

/// Time limit until a lock is refused. The call itself takes 0.03 to 0.2 s; starting flock in an
/// emulated guest on a busy host takes longer. After 3 s the kernel would ask a second time for the
/// port of the lock service.
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
    // Without an answer the kernel repeats its question for the port of the lock service endlessly,
    // and flock does not return.
    for lock in ["first_lock", "second_lock"] {
        assert!(facts[lock].ends_with("No locks available"), "{}", facts[lock]);
        let took: u64 = facts[&format!("{lock}_ms")].parse().unwrap();
        assert!(took < LOCK_MS_MAX, "{lock} took {took} ms");
    }
    assert!(filer.calls("READ") > 0, "another mount has nothing in its cache");
    assert!(!filer.export().join("d").exists() && filer.export().join("cut.0.0").exists());
}

#[test]
#[ignore = "nightly: a minute"]
fn on_an_exclusive_volume_the_kernels_client_keeps_the_names_of_a_directory_over_its_own_changes() {
    if !can_boot(&["mount.nfs"]) {
        return;
    }
    let scratches = ["guest-exclusive", "guest-shared"].map(Scratch::new);
    let filers = [Filer::start(&scratches[0], &["--exclusive"]), Filer::start(&scratches[1], &[])];
    let facts = facts_of("names.sh", 1, &filers.each_ref().map(|filer| filer.port.to_string()), |_| {});
    let calls = |what: &str| facts[what].parse::<u32>().unwrap();
    for (work, creates, made) in [("names", 40, "CREATE"), ("copy_tree", 80, "CREATE"), ("remove_tree", 80, "REMOVE")] {
        for volume in ["exclusive", "shared"] {
            assert_eq!(calls(&format!("{volume}.{work}.{made}")), creates, "{facts:?}");
        }
    }
    // The client asks again for a few names: those that it does not know yet, and those whose time
    // in the cache is over.
    let asked_again = |of: &str| calls(&format!("{of}.LOOKUP")) + calls(&format!("{of}.ACCESS"));
    assert!(asked_again("exclusive.names") <= 20 && asked_again("shared.names") >= 400, "{facts:?}");
    assert!(asked_again("exclusive.copy_tree") <= 20 && asked_again("shared.copy_tree") >= 80, "{facts:?}");
    assert!(asked_again("exclusive.remove_tree") <= 20 && asked_again("shared.remove_tree") >= 80, "{facts:?}");
}

#[test]
#[ignore = "nightly: half a minute"]
fn the_kernels_client_mounts_the_file_systems_inside_a_volume_with_crossmnt_apart() {
    if !can_boot(&["mount.nfs"]) {
        return;
    }
    let scratch = Scratch::new("guest-crossing");
    scratch.folder("vol");
    let Some(_one) = Mounted::tmpfs(scratch.path().join("vol/one"), 16) else { return };
    let _two = Mounted::tmpfs(scratch.path().join("vol/two"), 32).unwrap();
    let volume = "[[volume]]\nname = \"vol\"\ndir = \"DIR/vol\"\nclients = [\"*\"]\nsquash = \"none\"\ncrossmnt = true\n";
    let filer = Configured::start(&scratch, volume);
    let facts = facts_of("crossing.sh", 1, &[filer.port(0).to_string()], |_| {});
    let fact = |name: &str| facts[name].trim_end();
    assert_eq!([fact("before"), fact("listed"), fact("mounts")], ["1", "one two", "3"]);
    // The files of both file systems have the same inode number on different devices.
    assert_eq!([fact("devices"), fact("numbers"), fact("mebibytes")], ["3", "1", "16 32"]);
    assert!(fact("link").ends_with("Invalid cross-device link"), "{}", fact("link"));
    assert_eq!([fact("content"), fact("left")], ["of two of one", "0"]);
}
