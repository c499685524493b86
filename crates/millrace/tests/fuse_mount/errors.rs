//! Errors of writes that the server accepted and then lost.

use crate::mounted::Mounted;
use crate::support::{find_program, skip, succeed};
use std::process::Command;

/// Runs a Python program in the mount, and returns what it prints. The program has the path of the
/// admin socket and the functions `ask` and `told`. `None`, with a message, if there is no Python.
fn python(mounted: &Mounted, script: &str) -> Option<String> {
    const BEFORE: &str = r#"
import os, socket, sys
def ask(request):
    admin = socket.socket(socket.AF_UNIX); admin.connect(sys.argv[1]); admin.sendall(request + b"\n")
    assert b'"ok":true' in admin.recv(4096)
def told(call):
    try: call(); return "ok"
    except OSError as error: return os.strerror(error.errno)
"#;
    if find_program("python3").is_none() {
        skip("no python3");
        return None;
    }
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "90", "python3", "-c", &format!("{BEFORE}{script}")]).arg(&mounted.filer().admin);
    Some(succeed(command.current_dir(&mounted.directory)))
}

#[test]
fn close_and_fsync_tell_of_writes_that_the_server_lost() {
    let Some(mounted) = Mounted::of("fuse-lost", &["--loss-layer"], "&retain=0") else { return };
    let script = r#"
f = os.open("f", os.O_RDWR | os.O_CREAT); os.write(f, b"x" * 8192)
ask(b'{"op":"power-cut"}')
print(told(lambda: os.close(f)))
def open_and(do):
    fd = os.open("f", os.O_RDWR)
    return told(lambda: do(fd)) + ", close: " + told(lambda: os.close(fd))
print(open_and(os.fsync)); print(open_and(os.fsync))
"#;
    let Some(out) = python(&mounted, script) else { return };
    let eio = "Input/output error";
    assert_eq!(out, format!("{eio}\n{eio}, close: ok\nok, close: ok\n"));
}

#[test]
fn close_tells_that_the_server_has_no_space_for_what_was_written() {
    let Some(mounted) = Mounted::new("fuse-enospc") else { return };
    let script = r#"
f = os.open("f", os.O_WRONLY | os.O_CREAT); os.write(f, b"x" * 8192)
ask(b'{"op":"fault-add","fault":{"kind":"enospc","on":["flush"],"path":"f"}}')
print(told(lambda: os.close(f)))
"#;
    let Some(out) = python(&mounted, script) else { return };
    assert_eq!(out, "No space left on device\n");
}
