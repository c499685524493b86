//! The offset that processes share through one open description.

use crate::support::any_server::AnyServer;
use crate::support::world::World;
use crate::support::{find_program, skip, succeed, text};
use std::process::Command;

fn python(world: &World, script: &str) -> Option<Command> {
    let Some(python) = find_program("python3") else {
        skip("no python3");
        return None;
    };
    let mut command = world.exec(python.to_str().unwrap());
    command.args(["-c", script]);
    Some(command)
}

/// The child reads while the filer is stopped (SIGSTOP), and is killed when it waits. The parent
/// reads after SIGCONT. The child may read once a file exists. It polls for that file without
/// sleeping, so that it sleeps only in the read.
const KILLED: &str = r#"
import os, signal, subprocess, sys, time
filer, how, may_read = int(sys.argv[1]), sys.argv[2], sys.argv[3]
fd = os.open("/db/f", os.O_RDONLY)
os.dup2(fd, 0)
said, says = os.pipe()
code = """
import os, sys
os.write(says, b"ready")
while not os.path.exists(may_read): pass
os.readv(0, [bytearray(1000), bytearray(64000)])
os._exit(1)
"""
if how == "fork":
    child = os.fork()
    if child == 0: exec(code)
else:
    child = subprocess.Popen([sys.executable, "-c", f"says, may_read = {says}, {may_read!r}\n{code}"], pass_fds=[says]).pid
os.read(said, 5)
os.kill(filer, signal.SIGSTOP)
try:
    def state(task): return open(f"/proc/{filer}/task/{task}/stat").read().rsplit(") ")[1][0]
    while any(state(task) != "T" for task in os.listdir(f"/proc/{filer}/task")): time.sleep(0.001)
    open(may_read, "w").close()
    def waits(): return open(f"/proc/{child}/stat").read().split(") ")[1][0] == "S"
    end = time.monotonic() + 20
    while not waits() and time.monotonic() < end: time.sleep(0.005)
    print(os.lseek(fd, 0, os.SEEK_CUR))
    os.kill(child, signal.SIGKILL)
    print(os.waitpid(child, 0)[1])
    print(os.lseek(fd, 0, os.SEEK_CUR))
finally: os.kill(filer, signal.SIGCONT)
print(os.read(fd, 5))
"#;

#[test]
fn a_killed_reader_leaves_the_offset_that_it_shares_where_it_was() {
    let world = World::new("offsets-killed");
    std::fs::write(world.filer.export().join("f"), "first".repeat(20_000)).unwrap();
    for how in ["fork", "inherited"] {
        let Some(mut command) = python(&world, KILLED) else { return };
        let may_read = world.scratch.path().join(how);
        let output = command.args([&world.filer.pid().to_string(), how]).arg(may_read).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n9\n0\nb'first'\n", "{how}: {}", text(&output));
    }
}

/// Readers that share one open description, some by `fork` and some by exec, read each record once.
const SHARED: &str = r#"
import os, subprocess, sys
fd = os.open("/db/records", os.O_RDONLY)
def take(fd, to):
    while record := os.read(fd, 1000):
        os.write(to, record[:8])
taken, takes = os.pipe()
os.set_inheritable(takes, True)
children = []
for n in range(3):
    child = os.fork()
    if child == 0:
        os.close(taken)
        take(fd, takes)
        os._exit(0)
    children.append(child)
code = """
import os, sys
while record := os.read(0, 1000): os.write(int(sys.argv[1]), record[:8])
"""
others = [subprocess.Popen([sys.executable, "-c", code, str(takes)], stdin=fd, pass_fds=[takes]) for n in range(2)]
os.close(takes)
found = b""
while piece := os.read(taken, 65536): found += piece
for child in children: os.waitpid(child, 0)
for other in others: other.wait()
records = sorted(found[at:at + 8] for at in range(0, len(found), 8))
print(records == [b"%08d" % n for n in range(1500)], len(records), os.lseek(fd, 0, os.SEEK_CUR))
"#;

#[test]
fn readers_that_share_an_offset_take_each_byte_once() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let records: String = (0..1500).map(|n| format!("{n:08}{}", ".".repeat(992))).collect();
    let servers = [Some(AnyServer::filer("offsets-shared")), AnyServer::ganesha("offsets-shared-ganesha")];
    for server in servers.into_iter().flatten() {
        std::fs::write(server.export.join("records"), &records).unwrap();
        assert_eq!(succeed(server.exec("python3").args(["-c", SHARED])), "True 1500 1500000\n", "{}", server.url);
    }
}

/// A child writes to the file whose offset it shares with its parent, and is killed at a random
/// moment. Then the parent writes. With `how` = `copy` the child copies a file of this host.
const KILLED_WRITERS: &str = r#"
import os, random, signal, sys, time
source, wrong = sys.argv[1], []
with open(source, "wb") as file: file.write(b"a" * (4 << 20))
def write(how, fd):
    if how == "copy":
        file = os.open(source, os.O_RDONLY)
        while True:
            if os.copy_file_range(file, fd, 1 << 20) == 0: os.lseek(file, 0, os.SEEK_SET)
    block = b"a" * 65536
    while True:
        if how == "write": os.write(fd, block)
        elif how == "small": os.write(fd, block[:700])
        else: os.writev(fd, [block] * 4)
for how in ["write", "small", "vector", "copy"] * 2:
    fd = os.open("/db/" + how, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    child = os.fork()
    if child == 0: write(how, fd)
    while os.stat("/db/" + how).st_size < 100_000: time.sleep(0.001)
    time.sleep(random.random() / 50)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.write(fd, b"end")
    os.close(fd)
    with open("/db/" + how, "rb") as file: found = file.read()
    if found != b"a" * (len(found) - 3) + b"end": wrong.append((how, found.count(b"\0"), found[-3:]))
# A hole that the program wants stays.
fd = os.open("/db/sparse", os.O_CREAT | os.O_WRONLY)
os.lseek(fd, 5000, os.SEEK_SET)
child = os.fork()
if child == 0:
    os.write(fd, b"a" * 1000)
    os._exit(0)
os.waitpid(child, 0)
os.write(fd, b"end")
os.close(fd)
with open("/db/sparse", "rb") as file: wrong += [] if file.read() == bytes(5000) + b"a" * 1000 + b"end" else ["sparse"]
print(wrong)
"#;

#[test]
fn a_killed_writer_leaves_no_zeros_in_a_file_whose_offset_it_shares() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let servers = [Some(AnyServer::filer("offsets-writers")), AnyServer::ganesha("offsets-writers-ganesha")];
    for server in servers.into_iter().flatten() {
        let local = crate::support::Scratch::new("offsets-source");
        let source = local.path().join("source");
        assert_eq!(succeed(server.exec("python3").args(["-c", KILLED_WRITERS]).arg(source)), "[]\n", "{}", server.url);
    }
}
