//! What close(2) promises on a mount: data that was written and closed is on stable storage, as
//! with a kernel's NFS client.

use crate::support::filer::Filer;
use crate::support::{Scratch, find_program, millrace, preload_library, skip, succeed};
use std::process::Command;
use std::time::{Duration, Instant};

/// A filer that can lose its power, and programs on it.
struct World {
    filer: Filer,
    scratch: Scratch,
}

impl World {
    fn new(label: &str) -> Self {
        let scratch = Scratch::new(label);
        Self { filer: Filer::start(&scratch, &["--loss-layer"]), scratch }
    }

    /// `millrace exec --mount /db=…OPTIONS -- PROGRAM`.
    fn exec(&self, options: &str, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "90"]).arg(millrace().get_program()).env("MILLRACE_PRELOAD", preload_library());
        command.env("LC_ALL", "C").current_dir("/");
        command.args(["exec", "--mount", &format!("/db={}{options}", self.filer.url), "--", program]);
        command
    }

    /// Runs a Python script and returns its output. `argv[1]` is the filer's admin socket. `None`,
    /// with a message, if there is no Python.
    fn python(&self, options: &str, script: &str) -> Option<String> {
        let Some(python) = find_program("python3") else {
            skip("no python3");
            return None;
        };
        let mut command = self.exec(options, python.to_str().unwrap());
        Some(succeed(command.args(["-c", script]).arg(&self.filer.admin)))
    }

    fn cut(&self) {
        let cut = self.filer.admin(r#"{"op":"power-cut"}"#);
        assert_eq!(cut["ok"], true, "{cut}");
    }

    fn commits(&self) -> u64 {
        self.filer.calls("COMMIT")
    }
}

/// Commands that write one file each with different tools.
const BY_TOOLS: &str = r#"cd /db; cp "$1" cp; cat "$1" > cat; cat "$1" > f.tmp && mv f.tmp moved; gzip -dc "$1.gz" > gzip
dd if="$1" of=dd bs=64k status=none; { while read -r line; do echo "$line"; done; } < "$1" > builtin; tee tee < "$1" > /dev/null
head -c 100 "$1" > part; tail -c +101 "$1" >> part"#;
const NAMES: [&str; 8] = ["cp", "cat", "moved", "gzip", "dd", "builtin", "tee", "part"];

fn write_by_tools(world: &World, options: &str) -> Vec<u8> {
    let original = world.scratch.path().join("original");
    let data: Vec<u8> = (0..40_000u32).flat_map(|line| format!("{line:08x}\n").into_bytes()).collect();
    std::fs::write(&original, &data).unwrap();
    succeed(Command::new("gzip").arg("-fk").arg(&original));
    succeed(world.exec(options, "/bin/sh").args(["-euc", BY_TOOLS, "sh"]).arg(&original));
    data
}

#[test]
fn what_tools_wrote_and_closed_is_whole_after_a_power_cut() {
    let world = World::new("close-tools");
    let data = write_by_tools(&world, "");
    world.cut();
    for name in NAMES {
        let found = std::fs::read(world.filer.export().join(name)).unwrap_or_default();
        assert!(found == data, "{name}: {} bytes of {}", found.len(), data.len());
    }
}

#[test]
#[ignore = "nightly: thirteen seconds"]
fn close_commits_nothing_on_a_mount_that_asks_for_that() {
    let world = World::new("close-nothing");
    let begun = Instant::now();
    write_by_tools(&world, "&close=nothing&retain=0"); // thousands of small writes fill the retained data, which is a COMMIT too
    // The keeper commits files that stay open for 30 s. On a host where a tool takes that long,
    // there are COMMITs.
    assert!(world.commits() == 0 || begun.elapsed() >= Duration::from_secs(30), "{} COMMITs", world.commits());
    world.cut();
    let empty = |name: &&str| std::fs::metadata(world.filer.export().join(name)).map_or(0, |found| found.len()) == 0;
    assert!(NAMES.iter().any(empty), "the power cut took nothing: these tests prove nothing");
}

#[test]
fn every_way_to_lose_a_descriptor_that_may_write_commits_once_and_only_what_is_dirty() {
    let world = World::new("close-ways");
    let script = r#"
import ctypes, json, os, socket, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def commits():
    admin = socket.socket(socket.AF_UNIX); admin.connect(sys.argv[1]); admin.sendall(b'{"op":"stats"}\n')
    return json.loads(admin.makefile().readline())["procedures"]["COMMIT"]["calls"]
def dirty(name, flags=os.O_RDWR):
    fd = os.open("/db/" + name, flags | os.O_CREAT); os.write(fd, b"data"); return fd
def way(name, lose):
    before = commits(); fd = dirty(name); assert commits() == before, name
    lose(fd); print(name, commits() - before)
other = os.open("/dev/null", os.O_RDONLY)
def child(fd):
    pid = os.fork()
    if pid == 0: os.close(fd); os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
def stream(fd):
    libc.fdopen.restype = ctypes.c_void_p
    assert libc.fclose(ctypes.c_void_p(libc.fdopen(fd, b"w"))) == 0
way("close", os.close)
way("dup2", lambda fd: os.dup2(other, fd))
way("dup3", lambda fd: os.dup2(other, fd, inheritable=False))
way("close_range", lambda fd: libc.close_range(fd, fd, 0))
way("closefrom", lambda fd: libc.closefrom(fd))
other = os.open("/dev/null", os.O_RDONLY)
way("fclose", stream)
way("child", child)
way("duplicate", lambda fd: os.close(os.dup(fd)))
way("clean", lambda fd: (os.close(fd), os.close(os.open("/db/clean", os.O_RDWR))))
way("synced", lambda fd: (os.fsync(fd), os.close(fd)))
way("stable", lambda fd: (os.fsync(fd), os.close(dirty("stable", os.O_WRONLY | os.O_DSYNC)), os.close(fd)))
before = commits(); fd = dirty("reader"); os.close(os.open("/db/reader", os.O_RDONLY)); print("reader", commits() - before)
sys.stdout.flush(); os._exit(0)
"#;
    let Some(out) = world.python("", script) else { return };
    let ways = ["close", "dup2", "dup3", "close_range", "closefrom", "fclose", "child", "duplicate", "clean", "synced", "stable"];
    let wanted: String = ways.iter().map(|way| format!("{way} 1\n")).collect();
    assert_eq!(out, wanted + "reader 0\n");
}

#[test]
fn sync_of_a_program_that_has_no_file_there_keeps_what_others_wrote() {
    let world = World::new("close-sync");
    let (options, data) = ("&close=nothing&retain=0", vec![7; 100_000]);
    let original = world.scratch.path().join("original");
    std::fs::write(&original, &data).unwrap();
    succeed(world.exec(options, "/bin/cp").arg(&original).arg("/db/copied"));
    succeed(&mut world.exec(options, "/bin/sync"));
    world.cut();
    assert!(std::fs::read(world.filer.export().join("copied")).unwrap_or_default() == data);
}

#[test]
fn error_that_close_returns_is_left_for_the_next_fsync_of_whoever_opens_the_file() {
    let world = World::new("close-error");
    let script = r#"
import os, socket, sys
def cut():
    admin = socket.socket(socket.AF_UNIX); admin.connect(sys.argv[1]); admin.sendall(b'{"op":"power-cut"}\n')
    assert b'"ok":true' in admin.recv(4096)
def ask(call):
    try: call(); return "ok"
    except OSError as error: return os.strerror(error.errno)
f = os.open("/db/f", os.O_RDWR | os.O_CREAT); os.write(f, b"x" * 8192); cut()
def open_and(do):
    fd = os.open("/db/f", os.O_RDWR); told = ask(lambda: do(fd))
    try: os.close(fd)
    except OSError: told += ", and at close"
    return told
print(ask(lambda: os.close(f)), ask(lambda: os.fstat(f)), sep=", ")
print(open_and(lambda fd: None))
print(open_and(os.fsync))
print(open_and(os.fsync))
"#;
    let Some(out) = world.python("&retain=0", script) else { return };
    let eio = "Input/output error";
    assert_eq!(out, format!("{eio}, Bad file descriptor\nok, and at close\n{eio}\nok\n"));
}

/// A program that closes many written files one after the other: `files` are open and written,
/// `close` closes one of them.
const MANY: &str = r#"
import json, os, socket, sys
def ask(request):
    admin = socket.socket(socket.AF_UNIX); admin.connect(sys.argv[1]); admin.sendall(request + b"\n")
    return json.loads(admin.makefile().readline())
def commits(): return ask(b'{"op":"stats"}')["procedures"]["COMMIT"]["calls"]
def dirty(name):
    fd = os.open(f"/db/{name}", os.O_RDWR | os.O_CREAT); os.write(fd, b"data"); return fd
files = [dirty(number) for number in range(40)]
readers = [os.open(f"/db/{number}", os.O_RDONLY) for number in range(40)]
def close():
    try: os.close(files.pop(0)); return "ok"
    except OSError as error: return os.strerror(error.errno)
"#;

#[test]
fn new_files_of_a_program_are_committed_beside_the_one_it_closes_and_all_once() {
    let world = World::new("close-many");
    let script = "print(*(close() and commits() for number in range(40))); sys.stdout.flush(); os._exit(0)";
    let Some(out) = world.python("&retain=0", &format!("{MANY}{script}")) else { return };
    let counts: Vec<usize> = out.split_whitespace().map(|count| count.parse().unwrap()).collect();
    // Sixteen COMMITs are in flight at a time. The first close sends them, and so does each close
    // whose file is not committed yet.
    assert_eq!(counts, (1..=40usize).map(|closed| (closed.div_ceil(16) * 16).min(40)).collect::<Vec<_>>());
    world.cut();
    for number in 0..40 {
        assert_eq!(std::fs::read(world.filer.export().join(number.to_string())).unwrap(), b"data", "{number}");
    }
}

#[test]
fn a_file_that_was_committed_before_is_committed_by_its_own_close_only() {
    let world = World::new("close-written");
    let script = "
for file in files: os.fsync(file); os.write(file, b'more')
before = commits()
for number in range(10): close(); print(commits() - before)";
    let Some(out) = world.python("&retain=0", &format!("{MANY}{script}")) else { return };
    assert_eq!(out, (1..=10).map(|count| format!("{count}\n")).collect::<String>());
}

#[test]
fn each_close_tells_of_the_loss_of_its_own_file_whoever_noticed_it() {
    let world = World::new("close-lost");
    let script = r#"
assert ask(b'{"op":"power-cut"}')["ok"]
print(*(close() for number in range(40)))
told = 0
for number in range(40):
    fd = os.open(f"/db/{number}", os.O_RDWR)
    try: os.fsync(fd)
    except OSError: told += 1
    os.close(fd)
print(told)"#;
    let Some(out) = world.python("&retain=0", &format!("{MANY}{script}")) else { return };
    assert_eq!(out, format!("{}\n40\n", ["Input/output error"; 40].join(" ")));
}

#[test]
fn syncfs_tells_of_what_was_lost_of_any_file() {
    let world = World::new("close-syncfs");
    let script = r#"
import ctypes
def syncfs():
    done = ctypes.CDLL(None, use_errno=True).syncfs(readers[0])
    return "ok" if done == 0 else os.strerror(ctypes.get_errno())
assert ask(b'{"op":"power-cut"}')["ok"]
print(syncfs())"#;
    let Some(out) = world.python("&retain=0&close=nothing", &format!("{MANY}{script}")) else { return };
    assert_eq!(out, "Input/output error\n");
}

#[test]
fn a_refused_commit_is_told_by_its_own_name_though_others_were_refused_beside_it() {
    for options in ["", "&retain=0"] {
        let world = World::new("close-refused");
        let script = r#"
assert ask(b'{"op":"fault-add","fault":{"kind":"enospc","on":["flush"],"path":"0"}}')["ok"]
print(close())"#;
        let Some(out) = world
            .python(options, &format!("{MANY}{script}; os._exit(0)").replace("print(close())", "print(close(), flush=True)"))
        else {
            return;
        };
        assert_eq!(out, "No space left on device\n", "{options}");
    }
}
