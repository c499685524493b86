//! What a program says of its reads and writes to come: answered as by the kernel, and followed where it helps.

use crate::support::world::World;
use crate::support::{find_program, skip, succeed};

/// `call` of libc's functions with errno, `admin` of the filer, and a file each on the mount and on a local file system.
const SCRIPT: &str = r#"
import ctypes, errno, json, os, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def call(name, fd, *numbers):
    arguments = [ctypes.c_long(n) for n in numbers[:2]] + [ctypes.c_int(n) for n in numbers[2:]]
    done = getattr(libc, name)(fd, *arguments)
    return errno.errorcode.get(ctypes.get_errno() if done == -1 else done, done)
def admin(request):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(sys.argv[1]); s.sendall(request + b"\n")
        return json.loads(s.makefile().readline())
def calls(procedure): return admin(b'{"op":"stats"}')["procedures"][procedure]["calls"]
def until(fact):
    end = time.monotonic() + 30
    while not fact(): assert time.monotonic() < end, "waited for 30 s"
"#;

/// What a script prints that is run on a mount; `argv[1]` is the admin socket, `argv[2]` a local folder.
fn python(world: &World, options: &str, script: &str) -> Option<String> {
    let Some(python) = find_program("python3") else {
        skip("no python3");
        return None;
    };
    let mut command = world.exec_with(options, python.to_str().unwrap());
    command.args(["-c", &format!("{SCRIPT}{script}")]).arg(&world.filer.admin).arg(world.scratch.path());
    Some(succeed(&mut command))
}

#[test]
fn hints_are_refused_as_the_kernel_refuses_them() {
    let world = World::new("hints-refused");
    let script = r#"
def answers(path):
    file = os.open(path + "/file", os.O_RDWR | os.O_CREAT); os.write(file, b"x" * 100)
    out = os.open(path + "/file", os.O_WRONLY)
    said = []
    for fd in [file, out, os.pipe()[0], 999, -1]:
        for start, length in [(0, 0), (0, 100), (50, 1 << 40), (-1, 5), (5, -1), (1 << 62, 1 << 62), (1 << 62, (1 << 62) - 1)]:
            said += [call("sync_file_range", fd, start, length, flags) for flags in [0, 1, 2, 3, 4, 6, 7, 8, 9]]
            said += [call("posix_fadvise", fd, start, length, advice) for advice in [0, 1, 2, 3, 4, 5, 6, -1, 99]]
            said.append(call("readahead", fd, start, length))
    return said
mount, local = answers("/db"), answers(sys.argv[2])
print([(n, m, l) for n, (m, l) in enumerate(zip(mount, local)) if m != l], len(mount))"#;
    let Some(out) = python(&world, "", script) else { return };
    assert_eq!(out, "[] 665\n");
}

#[test]
fn sync_file_range_starts_a_commit_and_waits_for_it_when_it_is_told_to() {
    let world = World::new("hints-sync-range");
    let script = r#"
fd = os.open("/db/file", os.O_RDWR | os.O_CREAT)
os.write(fd, b"x" * 8192)
until(lambda: call("sync_file_range", fd, 0, 0, 2) == 0 and calls("COMMIT") == 1)
print(call("sync_file_range", fd, 0, 0, 4))
os.fsync(fd); print(calls("COMMIT"))
os.write(fd, b"y" * 8192)
print(call("sync_file_range", fd, 0, 0, 7), calls("COMMIT"))
os.fsync(fd); print(calls("COMMIT"))"#;
    let Some(out) = python(&world, "", script) else { return };
    assert_eq!(out, "0\n1\n0 2\n2\n");
}
