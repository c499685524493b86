//! splice, posix_fallocate, FIFOs and sockets on a mount: the results must be those on local disk.
//! Then everyday programs use them.

use super::libc::same_as_local;
use crate::support::world::World;
use crate::support::{find_program, keepers, millrace, skip, succeed};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

fn same(section: &str) {
    same_as_local("specials", section, |_, _| "/none".into());
}

#[test]
fn splice_moves_waits_and_refuses_as_on_local_disk() {
    same("splice");
}

#[test]
fn what_splice_could_not_write_stays_in_the_pipe() {
    same("lost");
}

#[test]
fn posix_fallocate_grows_fills_holes_and_keeps_bytes_as_on_local_disk() {
    same("fallocate");
}

#[test]
fn a_fifo_is_opened_renamed_replaced_and_removed_as_on_local_disk() {
    same("fifo");
}

#[test]
fn a_stream_socket_is_bound_reached_and_removed_as_on_local_disk() {
    same("stream");
}

#[test]
fn datagrams_show_the_paths_that_programs_bound_as_on_local_disk() {
    same("datagram");
}

/// A new runtime directory whose name has this many letters.
fn runtime(letters: usize) -> tempfile::TempDir {
    let made = tempfile::Builder::new().prefix(&"r".repeat(letters)).tempdir_in("/dev/shm").unwrap();
    std::fs::set_permissions(made.path(), PermissionsExt::from_mode(0o700)).unwrap();
    made
}

/// The host's FIFOs and sockets that represent those of the mount, in the runtime directories below `root`.
fn stand_ins(root: &std::path::Path) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| {
        let name = crate::support::world::name_of(path);
        name.starts_with("fifo-") || name.starts_with("sock-")
    };
    crate::support::world::walk(root).into_iter().filter(is_one).collect()
}

#[test]
fn shells_and_copying_programs_use_fifos_and_leave_nothing() {
    let world = World::new("fifos");
    let root = runtime(1);
    let said = succeed(world.exec("/bin/sh").env("MILLRACE_RUNTIME_DIR", root.path()).args([
        "-euc",
        "cd /db; mkdir a; mkfifo -m 640 a/p; (echo through > a/p) & cat < a/p; wait
         cp -a a b; tar -cf t.tar a; mkdir c; tar -xf t.tar -C c
         stat -c '%F %a' a/p b/p c/a/p; test -p b/p
         (echo again > c/a/p) & cat c/a/p; wait
         rm -r a b c",
    ]));
    assert_eq!(said, format!("through\n{}again\n", "fifo 640\n".repeat(3)));
    assert_eq!(stand_ins(root.path()), Vec::<PathBuf>::new());
    let Some(rsync) = find_program("rsync") else { return skip("no rsync") };
    let copied = succeed(
        world
            .exec("/bin/sh")
            .args(["-euc", "cd /db; mkfifo p; \"$0\" -a --include=p --exclude='*' /db/ /db/copy/; stat -c %F copy/p"])
            .arg(rsync),
    );
    assert_eq!(copied, "fifo\n");
}

const LONG_PATHS: &str = r#"
import os, socket
listener = socket.socket(socket.AF_UNIX); listener.bind("s"); listener.listen(1)
client = socket.socket(socket.AF_UNIX); client.bind("c"); client.connect("/db/s")
served, peer = listener.accept()
assert (peer, client.getpeername(), served.getsockname(), listener.getsockname()) == ("c", "s", "s", "s")
served.send(b"told"); assert client.recv(9) == b"told"
os.unlink("s"); os.unlink("c")
print("met")
"#;

#[test]
fn a_runtime_directory_whose_path_no_address_has_room_for_serves_sockets() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let world = World::new("long-runtime");
    let root = runtime(90);
    let mut exec = world.exec("/bin/sh");
    exec.env("MILLRACE_RUNTIME_DIR", root.path()).args(["-euc", "cd /db; exec \"$0\" -c \"$1\""]);
    assert_eq!(succeed(exec.arg(python).arg(LONG_PATHS)), "met\n");
    assert_eq!(stand_ins(root.path()), Vec::<PathBuf>::new());
}

#[test]
fn what_stands_for_a_fifo_that_another_host_removed_goes_with_the_segment() {
    let world = World::new("fifo-removed");
    let root = runtime(1);
    succeed(world.exec("/bin/sh").env("MILLRACE_RUNTIME_DIR", root.path()).args(["-euc", "mkfifo /db/p; : <> /db/p"]));
    assert_eq!(stand_ins(root.path()).len(), 1);
    std::fs::remove_file(world.filer.export().join("p")).unwrap();
    keepers::end(world.filer.port);
    let mut tidy = millrace();
    succeed(tidy.env("MILLRACE_RUNTIME_DIR", root.path()).args(["nfs", "counters", "--remove-dead"]));
    assert_eq!(stand_ins(root.path()), Vec::<PathBuf>::new());
}
