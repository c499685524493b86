//! Times, modes and owners that a program sets stay as set: the data written before is stable at
//! the server by then, and the client does not send it again after a restart of the server.

use crate::support::filer::Filer;
use crate::support::ganesha::Ganesha;
use crate::support::{Scratch, find_program, is_root, millrace, preload_library, skip, succeed};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const USER: u32 = 4001;
const YEAR_2001: i64 = 1_000_000_000;

/// Writes a file for each way to set attributes, prints `ready`, and closes the files after a line.
/// A file's name says what it must have.
const WAYS: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
then = (1_000_000_000, 1_000_000_000)
class Timeval(ctypes.Structure): _fields_ = [("s", ctypes.c_long), ("u", ctypes.c_long)]
def utimes(path): assert libc.utimes(path.encode(), (Timeval * 2)(Timeval(then[0], 0), Timeval(then[0], 0))) == 0
ways = {
    "times-utimensat": lambda path, fd: os.utime(path, then),
    "times-futimens": lambda path, fd: os.utime(fd, then),
    "times-utimes": lambda path, fd: utimes(path),
    "times-truncated": lambda path, fd: (os.ftruncate(fd, 300_000), os.utime(fd, then)),
    "times-mode": lambda path, fd: (os.utime(fd, then), os.chmod(path, 0o640), os.fchown(fd, os.getuid(), os.getgid())),
    "set-id-chmod": lambda path, fd: os.chmod(path, 0o6755),
    "set-id-fchmod": lambda path, fd: os.fchmod(fd, 0o6755),
}
files = []
for name, way in ways.items():
    path = "/db/d/" + name
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
    for _ in range(3): os.write(fd, b"A" * 100_000)
    os.write(fd, b"small"); os.pwrite(fd, b"small", 300_005)
    way(path, fd)
    files.append(fd)
print("ready", flush=True)
sys.stdin.readline()
for fd in files: os.fsync(fd); os.close(fd)
"#;

/// Runs [`WAYS`] with a restart of the server before the files are closed, and checks the export then.
fn stay(mut command: Command, export: &Path, restart: impl FnOnce()) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    restart();
    program.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(program.wait().unwrap().success());
    let mut count = 0;
    for entry in std::fs::read_dir(export.join("d")).unwrap().flatten() {
        let (name, found) = (entry.file_name().into_string().unwrap(), entry.metadata().unwrap());
        let bytes = std::fs::read(entry.path()).unwrap();
        let size = if name == "times-truncated" { 300_000 } else { 300_010 };
        assert!(bytes.len() == size && bytes[..300_000].iter().all(|byte| *byte == b'A'), "{name}: {} bytes", bytes.len());
        match name.split_once('-').unwrap().0 {
            "times" => assert_eq!(found.mtime(), YEAR_2001, "{name}"),
            _ => assert_eq!(found.mode() & 0o7777, 0o6755, "{name}"),
        }
        count += 1;
    }
    assert_eq!(count, 7);
}

/// `millrace exec … python3 -c SCRIPT` as a user whose writes clear set-ID bits.
fn as_user(mut setpriv: Command, runtime: &Scratch, url: &str, script: &str) -> Command {
    let id = USER.to_string();
    setpriv.args(["--reuid", &id, "--regid", &id, "--clear-groups", "timeout", "-k", "5", "90"]).arg(millrace().get_program());
    setpriv.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", runtime.path()).current_dir("/");
    setpriv.args(["exec", "--mount", &format!("/db={url}"), "--", "/usr/bin/python3", "-c", script]);
    setpriv
}

fn runtime_of_user(label: &str) -> Scratch {
    let runtime = Scratch::new(label);
    std::fs::set_permissions(runtime.path(), PermissionsExt::from_mode(0o700)).unwrap();
    chown(runtime.path(), Some(USER), Some(USER)).unwrap();
    runtime
}

fn folder_of_user(export: &Path) {
    std::fs::create_dir(export.join("d")).unwrap();
    chown(export.join("d"), Some(USER), Some(USER)).unwrap();
}

fn may_try() -> bool {
    let may = is_root() && Path::new("/usr/bin/python3").is_file();
    if !may {
        skip("only root can be another user, and that needs /usr/bin/python3");
    }
    may
}

#[test]
fn times_and_modes_stay_as_set_when_the_server_loses_its_power() {
    for query in ["", "&close=nothing"] {
        if !may_try() {
            return;
        }
        let (scratch, runtime) = (Scratch::new("set-power"), runtime_of_user("set-power-runtime"));
        let filer = Filer::start(&scratch, &["--loss-layer"]);
        folder_of_user(filer.export());
        let command = as_user(Command::new("setpriv"), &runtime, &format!("{}{query}", filer.url), WAYS);
        stay(command, filer.export(), || assert_eq!(filer.admin(r#"{"op":"power-cut"}"#)["ok"], true));
    }
}

#[test]
fn times_and_modes_stay_as_set_when_ganesha_is_restarted() {
    let Some(mut ganesha) = Some(()).filter(|()| may_try()).and_then(|()| Ganesha::start("set-ganesha")) else { return };
    let (runtime, export) = (runtime_of_user("set-ganesha-runtime"), ganesha.export());
    folder_of_user(&export);
    let command = as_user(ganesha.inside(&PathBuf::from("setpriv")), &runtime, &ganesha.url(), WAYS);
    stay(command, &export, || ganesha.restart());
}

#[test]
fn setting_attributes_commits_what_is_retained_of_that_file_and_nothing_else() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let world = crate::support::world::World::new("set-cost");
    let script = r#"
import json, os, socket, sys
def commits():
    admin = socket.socket(socket.AF_UNIX); admin.connect(sys.argv[1]); admin.sendall(b'{"op":"stats"}\n')
    return json.loads(admin.makefile().readline())["procedures"]["COMMIT"]["calls"]
def cost(name, act):
    before = commits(); act(); print(name, commits() - before)
def made(name, stable=0): return os.open("/db/" + name, os.O_CREAT | os.O_RDWR | stable)
f, other = made("f"), made("other")
os.write(other, b"x" * 10_000)
cost("empty", lambda: (os.utime(f), os.fchmod(f, 0o600)))
os.write(f, b"x" * 10_000)
cost("size", lambda: os.ftruncate(f, 5_000))
cost("written", lambda: (os.utime(f), os.fchmod(f, 0o640), os.fchown(f, 0, 1), os.close(f)))
g = made("g", os.O_DSYNC); os.write(g, b"x" * 10_000)
cost("stable", lambda: (os.utime(g), os.close(g)))
cost("other", lambda: os.close(other))
"#;
    let out = succeed(world.exec(python.to_str().unwrap()).args(["-c", script]).arg(&world.filer.admin));
    assert_eq!(out, "empty 0\nsize 0\nwritten 1\nstable 0\nother 1\n");
}
