//! Copies from a disk of this host into a mount, which the library sends while it reads them. They
//! are complete for all lengths, and retained like all written data.

use crate::support::filer::Filer;
use crate::support::{Scratch, find_program, millrace, preload_library, skip, succeed};
use std::process::Command;

/// Runs a Python script on a mount of a filer that can lose its power, and returns its output.
/// `argv` is the filer's admin socket, a local folder and the exported folder.
fn on_a_mount(label: &str, options: &str, script: &str) -> Option<String> {
    let Some(python) = find_program("python3") else {
        skip("no python3");
        return None;
    };
    let scratch = Scratch::new(label);
    let filer = Filer::start(&scratch, &["--loss-layer"]);
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "90"]).arg(millrace().get_program()).env("MILLRACE_PRELOAD", preload_library()).current_dir("/");
    command.args(["exec", "--mount", &format!("/db={}{options}", filer.url), "--"]).arg(python);
    command.arg("-c").arg(format!("{COMMON}{script}")).args([&filer.admin, &scratch.folder("local"), filer.export()]);
    Some(succeed(&mut command))
}

const COMMON: &str = r#"
import json, os, random, signal, socket, sys
admin, local, served = sys.argv[1:]
def power_cut():
    at = socket.socket(socket.AF_UNIX); at.connect(admin); at.sendall(b'{"op":"power-cut"}\n')
    assert json.loads(at.makefile().readline())["ok"]
whole = random.Random(1).randbytes((3 << 20) + 12345)
open(local + "/whole", "wb").write(whole)
def content(name):
    with open(served + "/" + name, "rb") as file: return file.read()
"#;

const LENGTHS: &str = r#"
random.seed(1)
K = 1 << 10
def copy_at(source, target, count):
    done = 0
    while done < count:
        got = os.copy_file_range(source, target, count - done, 5 + done, 3 + done)
        if got == 0: break
        done += got
    assert os.lseek(source, 0, 1) == os.lseek(target, 0, 1) == 0
    return done
def copy_here(call):
    def copy(source, target, count):
        os.lseek(source, 5, 0); os.lseek(target, 3, 0)
        done = 0
        while done < count:
            got = call(source, target, count - done)
            assert os.lseek(source, 0, 1) == 5 + done + got and os.lseek(target, 0, 1) == 3 + done + got
            if got == 0: break
            done += got
        return done
    return copy
ways = {"at": copy_at, "here": copy_here(lambda s, t, n: os.copy_file_range(s, t, n)),
        "sendfile": copy_here(lambda s, t, n: os.sendfile(t, s, None, n))}
for length in [0, 1, 128 * K, 256 * K + 6, 300 * K, 300 * K + 1, K * K - 1, K * K, K * K + 5, 2 * K * K + 77, len(whole)]:
    with open(local + "/source", "wb") as file: file.write(whole[:length]); file.flush(); os.fsync(file.fileno())
    for way, copy in ways.items():
        for count in [1 << 40, 300 * K + 33]:
            source, target = os.open(local + "/source", os.O_RDONLY), os.open("/db/target", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if random.random() < 0.5: os.posix_fadvise(source, 0, 0, os.POSIX_FADV_DONTNEED)  # a disk is to be waited for
            expected = whole[5:length][:count]
            assert copy(source, target, count) == len(expected), (length, way, count)
            if random.random() < 0.5: power_cut()
            os.close(source); os.close(target)
            power_cut()
            found = content("target")
            assert found == (b"\0\0\0" + expected if expected else b""), (length, way, count, len(found))
print("whole")
"#;

#[test]
fn copies_of_any_length_are_whole_and_survive_power_cuts() {
    for options in ["", "&wsize=100000", "&retain=1MiB", "&retain=0&stable=always", "&slots=1"] {
        if let Some(said) = on_a_mount("copies", options, LENGTHS) {
            assert_eq!(said, "whole\n", "{options}");
        }
    }
}

const CHANGING: &str = r#"
child = os.fork()
if child == 0:
    while True:
        with open(local + "/whole", "r+b") as file:
            file.truncate(random.randrange(1 << 20, len(whole)))
            file.seek(0); file.write(whole)
try:
    short = 0
    for turn in range(3000):
        if turn >= 60 and short: break
        source, target = os.open(local + "/whole", os.O_RDONLY), os.open("/db/target", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        done = os.sendfile(target, source, None, 1 << 30)
        assert os.lseek(source, 0, 1) == os.lseek(target, 0, 1) == done
        if random.random() < 0.5: power_cut()
        os.close(source); os.close(target)
        power_cut()
        found = content("target")
        # A read of a local file beside one who truncates and extends it may bring zeros: the kernel's own doing.
        assert len(found) == done and found[:1 << 20] == whole[:1 << 20], (done, len(found))
        assert found == whole[:done] or all(there in (0, read) for there, read in zip(found, whole)), done
        short += done < len(whole)
finally:
    os.kill(child, signal.SIGKILL)
print("short" if short else "never short")
"#;

#[test]
fn of_a_source_that_becomes_shorter_what_was_read_is_written_and_counted() {
    if let Some(said) = on_a_mount("copies-cut", "", CHANGING) {
        assert_eq!(said, "short\n");
    }
}
