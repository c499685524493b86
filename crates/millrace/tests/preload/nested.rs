//! File systems nested in an export. Programs see each as a separate file system. NFS-Ganesha
//! exports such file systems, and so does Millrace's filer with `crossmnt`.

use crate::support::configured::Configured;
use crate::support::ganesha::Ganesha;
use crate::support::mounted::Mounted;
use crate::support::{Scratch, find_program, millrace, preload_library, skip, succeed};
use std::path::PathBuf;
use std::process::Command;

/// Runs [`SCRIPT`] on a mount of this export. Returns its output.
fn run(mut command: Command, url: &str) -> String {
    let runtime = Scratch::new("nested-runtime");
    std::fs::set_permissions(runtime.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", runtime.path());
    command.env("LC_ALL", "C").current_dir("/");
    command.args(["exec", "--mount", &format!("/db={url}"), "--", "python3", "-c", SCRIPT]);
    succeed(&mut command)
}

const SCRIPT: &str = r#"
import os, subprocess
def make(name, text):
    with open("/db/" + name, "w") as file: file.write(text)
def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()
def refused(call, *names):
    try: call(*("/db/" + name for name in names)); return "done"
    except OSError as error: return os.strerror(error.errno)
make("one/f", "first"); make("two/f", "second"); make("f", "root")
os.link("/db/one/f", "/db/one/g"); os.link("/db/two/f", "/db/two/g")
files = [os.stat("/db/" + name) for name in (".", "f", "one", "one/f", "two", "two/f")]
print("numbers are equal", files[3].st_ino == files[5].st_ino)
print("devices", [[file.st_dev for file in files].index(file.st_dev) for file in files])
fds = [os.open("/db/" + name, os.O_RDONLY) for name in ("one/f", "two/f", "one", "two")]
print("by descriptor", [os.fstat(fd).st_dev for fd in fds] == [files[n].st_dev for n in (3, 5, 2, 4)])
print("in another process", run("stat", "-c", "%d", "/db/one/f") == str(files[3].st_dev))
os.chdir("/db/one"); print("up", os.stat("..").st_dev == files[0].st_dev, os.getcwd()); os.chdir("/")
print(run("cp", "/db/one/f", "/db/two/copied"), open("/db/two/copied").read())
print(run("sh", "-c", "cd /db && tar cf - one two | tar tvf - | grep -c ' link to '"))
print(sorted(run("find", "/db", "-xdev").split()))
print(refused(os.rename, "one/f", "two/h"), "|", refused(os.link, "one/f", "two/h"))
print(run("mv", "/db/one/f", "/db/two/moved"), open("/db/two/moved").read(), os.path.exists("/db/one/f"))
sizes = [os.statvfs("/db/" + name).f_blocks * 4096 >> 20 for name in ("one", "two/g", ".")]
print("space", sizes[:2], sizes[2] != 64, os.fstatvfs(fds[1]).f_blocks * 4096 >> 20, os.fstatvfs(fds[2]).f_blocks * 4096 >> 20)
"#;

/// The output of the script if the nested file systems are separate: two of 64 MiB in memory, whose
/// files have the same inode numbers.
const APART: &str = "numbers are equal True\ndevices [0, 0, 2, 2, 4, 4]\nby descriptor True\nin another process True\n\
                     up True /db/one\n first\n2\n['/db', '/db/f', '/db/one', '/db/two']\n\
                     Invalid cross-device link | Invalid cross-device link\n first False\nspace [64, 64] True 64 64\n";

fn has_python() -> bool {
    let found = find_program("python3").is_some();
    if !found {
        skip("no python3");
    }
    found
}

#[test]
fn file_systems_nested_in_an_export_have_different_devices() {
    if !has_python() {
        return;
    }
    let Some(ganesha) = Ganesha::start_with("nested", "Squash = No_Root_Squash;", &["one", "two"]) else { return };
    assert_eq!(run(ganesha.inside(&PathBuf::from(millrace().get_program())), &ganesha.url()), APART);
}

#[test]
fn file_systems_inside_a_volume_with_crossmnt_have_different_devices() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("nested-filer");
    scratch.folder("open");
    let Some(_one) = Mounted::tmpfs(scratch.path().join("open/one"), 64) else { return };
    let _two = Mounted::tmpfs(scratch.path().join("open/two"), 64).unwrap();
    let volume = "[[volume]]\nname = \"open\"\ndir = \"DIR/open\"\nclients = [\"*\"]\nsquash = \"none\"\ncrossmnt = true\n";
    let filer = Configured::start(&scratch, volume);
    assert_eq!(run(millrace(), filer.ready["nfs"].as_str().unwrap()), APART);
}
