//! More processes on a mount than it has places for members. Writes of the other processes are
//! stable when they return, and no call is refused.

use crate::support::world::World;
use crate::support::{find_program, may_make_namespaces, skip, succeed};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

/// A program that prints a line when it is ready, and ends after it has read one.
struct Waiting {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

impl Waiting {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut waiting = Self { child, input, output };
        assert_eq!(waiting.line(), "ready");
        waiting
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn finish(mut self) {
        self.input.take().unwrap().write_all(b"\n").unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A mount that programs under [`Crowd::python`] use, and processes that occupy all places.
struct Crowd {
    world: World,
    runtime: tempfile::TempDir,
}

impl Crowd {
    fn new(label: &str) -> Option<Self> {
        if find_program("python3").is_none() {
            skip("no python3");
            return None;
        }
        let runtime = tempfile::Builder::new().prefix("millrace-test-").tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(runtime.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Some(Self { world: World::served(label, &["--loss-layer"]), runtime })
    }

    fn python(&self, script: &str) -> Command {
        let mut command = self.world.exec("python3");
        command.env("MILLRACE_RUNTIME_DIR", self.runtime.path()).args(["-c", script]);
        command
    }

    /// Occupies all free places.
    fn fill(&self) -> Waiting {
        const FILL: &str = r#"
import fcntl, glob, sys
file, = (open(path, "r+b") for path in glob.glob(sys.argv[1] + "/**/members*.lock", recursive=True))
taken = 0
for place in range(1020):
    try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place); taken += 1
    except OSError: pass
assert taken > 1000, taken
print("ready", flush=True); sys.stdin.readline()
"#;
        let mut command = Command::new("python3");
        command.args(["-c", FILL]).arg(self.runtime.path());
        Waiting::start(command)
    }
}

#[test]
fn what_a_process_without_a_place_writes_is_stable_and_nothing_older_is_brought_back_over_it() {
    let Some(crowd) = Crowd::new("crowded") else { return };
    let member = Waiting::start(crowd.python(
        r#"
import os, sys
shared = os.open("/db/shared", os.O_RDWR | os.O_CREAT); os.write(shared, b"a" * 65536)
log = os.open("/db/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in range(50): os.write(log, b"a line of a member\n")
cut = os.open("/db/cut", os.O_RDWR | os.O_CREAT); os.write(cut, b"c" * 65536)
print("ready", flush=True); sys.stdin.readline()
for fd in shared, log, cut: os.fsync(fd)
"#,
    ));
    let crowding = crowd.fill();
    let outsider = r#"
import os
log = open("/db/log").read(); print(log.count("member"))
shared = os.open("/db/shared", os.O_RDWR)
print(os.pwrite(shared, b"b" * 8192, 4096), os.pread(shared, 2, 12287))
log = os.open("/db/log", os.O_WRONLY | os.O_APPEND)
print(sum(os.write(log, b"one of another\n") for number in range(20)), os.stat("/db/log").st_size)
os.truncate("/db/cut", 10); os.utime("/db/cut", (1000000000, 1000000000)); os.chmod("/db/cut", 0o640)
with open("/db/new", "w") as file: file.write("new")
os.rename("/db/new", "/db/newer"); os.fsync(shared); os.mkdir("/db/d"); os.rmdir("/db/d")
with open("/db/unsynced", "wb", buffering=0) as file: file.write(b"u" * 10000); os._exit(0)
"#;
    let out = crate::support::succeed(&mut crowd.python(outsider));
    assert_eq!(out, "50\n8192 b'ba'\n300 1250\n");
    assert_eq!(crowd.world.filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
    member.finish();
    drop(crowding);
    let shared = crowd.world.exported("shared");
    assert!(shared.len() == 65536 && shared[4096..12288].iter().all(|byte| *byte == b'b'), "written over");
    assert!(shared[..4096].iter().chain(&shared[12288..]).all(|byte| *byte == b'a'));
    let log = String::from_utf8(crowd.world.exported("log")).unwrap();
    assert_eq!((log.matches("a line of a member\n").count(), log.matches("one of another\n").count()), (50, 20));
    assert_eq!((crowd.world.exported("cut"), crowd.world.exported("newer")), (b"c".repeat(10), b"new".to_vec()));
    assert_eq!(crowd.world.exported("unsynced"), [b'u'; 10_000]);
}

#[test]
fn appends_of_processes_with_and_without_a_place_never_overlap() {
    let Some(crowd) = Crowd::new("crowded-appends") else { return };
    const APPEND: &str = r#"
import os, sys
log = os.open("/db/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
own = os.open("/db/own-" + sys.argv[1], os.O_WRONLY | os.O_CREAT); os.write(own, b"x" * 9000)
print("ready", flush=True); sys.stdin.readline()
for number in range(100): os.write(log, b"%s %d\n" % (sys.argv[1].encode(), number))
"#;
    let start = |number: u32| {
        let mut command = crowd.python(APPEND);
        command.arg(number.to_string());
        Waiting::start(command)
    };
    let members = [start(0), start(1)];
    let crowding = crowd.fill();
    let mut all: Vec<_> = members.into_iter().chain((2..6).map(start)).collect();
    for waiting in &mut all {
        waiting.input.as_mut().unwrap().write_all(b"\n").unwrap();
    }
    for mut waiting in all {
        assert!(waiting.child.wait().unwrap().success());
    }
    drop(crowding);
    let log = String::from_utf8(crowd.world.exported("log")).unwrap();
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    let mut expected: Vec<String> = (0..6).flat_map(|number| (0..100).map(move |line| format!("{number} {line}"))).collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

/// A file system in memory has a limit on its number of files and directories (nr_inodes). In
/// containers it may be small.
#[test]
fn more_files_than_the_runtime_directory_has_room_for_are_read_and_made() {
    if !may_make_namespaces() {
        return;
    }
    let world = World::new("crowded-inodes");
    for number in 0..400 {
        std::fs::write(world.filer.export().join(format!("f{number:03}")), "text").unwrap();
    }
    let memory = world.scratch.folder("memory");
    let namespace = format!("mount -t tmpfs -o nr_inodes=200,mode=700 none {}; exec \"$@\"", memory.display());
    let exec = world.exec("/bin/sh");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", &namespace, "sh"]).arg(exec.get_program()).args(exec.get_args());
    command.envs(exec.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir("/");
    command.env("MILLRACE_RUNTIME_DIR", memory.join("runtime"));
    let script = "cat /db/f* | wc -c; for n in 1 2 3; do for f in /db/f???; do echo more > $f-$n; done; done; cat /db/*-? | wc -l; mkdir /db/d; cd /db/d; pwd; ls /db | wc -l";
    assert_eq!(succeed(command.args(["-euc", script])), "1600\n1200\n/db/d\n1601\n");
}
