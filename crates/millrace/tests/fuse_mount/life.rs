//! Mounting, unmounting, and what happens between them.

use crate::mounted::{Mounted, is_alive, is_mounted};
use crate::support::{await_until, find_program, millrace, skip_unsupported, succeed, text};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_killed_process_means_enotconn_and_the_same_command_mounts_again() {
    let Some(mut mounted) = Mounted::new("fuse-killed") else { return };
    fs::write(mounted.path("f"), "before").unwrap();
    let mut open = File::create(mounted.path("g")).unwrap();
    open.write_all(b"not committed").unwrap();
    mounted.kill();
    let refused = fs::read(mounted.path("f")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(107), "ENOTCONN");
    assert_eq!(open.write(b"x").unwrap_err().raw_os_error(), Some(107), "ENOTCONN");
    drop(open);
    mounted.mount("", &[]);
    assert_eq!(fs::read_to_string(mounted.path("f")).unwrap(), "before");
    assert_eq!(fs::read_to_string(mounted.path("g")).unwrap(), "not committed");
    assert!(mounted.unmount().status.success());
    assert!(!is_mounted(&mounted.directory), "the dead mount is gone, too");
}

#[test]
fn a_mount_in_use_is_kept_and_unmounting_leaves_nothing() {
    let Some(mounted) = Mounted::new("fuse-unmount") else { return };
    let open = File::create(mounted.path("f")).unwrap();
    let refused = mounted.unmount();
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("in use") && text(&refused).contains("--lazy"), "{}", text(&refused));
    assert!(is_alive(mounted.pid));
    drop(open);
    let done = mounted.unmount();
    assert!(done.status.success(), "{}", text(&done));
    assert!(!is_mounted(&mounted.directory) && !is_alive(mounted.pid));
    assert_eq!(fs::read_dir(&mounted.directory).unwrap().count(), 0);
    assert_eq!(mounted.unmount().status.code(), Some(2), "there is none");
}

#[test]
fn sigterm_unmounts_and_who_has_a_file_open_goes_on() {
    let Some(mounted) = Mounted::new("fuse-sigterm") else { return };
    let mut open = File::create(mounted.path("f")).unwrap();
    succeed(Command::new("kill").args(["-TERM", &mounted.pid.to_string()]));
    await_until("the mount to go", Duration::from_secs(30), || (!is_mounted(&mounted.directory)).then_some(()));
    open.write_all(b"to the end").unwrap();
    open.sync_all().unwrap();
    drop(open);
    await_until("the process to end", Duration::from_secs(30), || (!is_alive(mounted.pid)).then_some(()));
    assert_eq!(mounted.world.exported("f"), b"to the end");
}

#[test]
fn what_cannot_be_mounted_is_named_with_its_cause_and_fix() {
    let Some(mounted) = Mounted::new("fuse-wrong") else { return };
    let scratch = mounted.world.scratch.path();
    let (file, absent, full, free) =
        (scratch.join("file"), scratch.join("absent"), scratch.join("export"), mounted.world.scratch.folder("free"));
    fs::write(&file, "").unwrap();
    fs::write(full.join("x"), "").unwrap();
    let url = mounted.filer().url.as_str();
    let cases: [(&str, &Path, &str, &str); 6] = [
        (url, &file, "is not a directory", "an empty directory"),
        (url, &absent, "no such directory", "mkdir -p"),
        (url, &full, "is not empty", "an empty directory"),
        (url, &mounted.directory, "already", "millrace unmount"),
        ("http://filer/vol", &free, "does not begin with nfs://", "nfs://HOST"),
        ("nfs://127.0.0.1:1/vol?nfsport=1&mountport=1", &free, "Connection refused", "port 1"),
    ];
    for (url, directory, cause, fix) in cases {
        let output = millrace().args(["mount", url]).arg(directory).output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("millrace: cannot ") && said.contains(cause) && said.contains(fix), "{said}");
        assert!(!is_mounted(&free), "{said}");
    }
    let mut nobody = Command::new(find_program("setpriv").unwrap());
    nobody.args(["--reuid", "4001", "--regid", "4001", "--clear-groups"]).arg(millrace().get_program());
    let runtime = runtime_of(4001);
    nobody.args(["mount", url]).arg(&free).env("PATH", "/nowhere").env("MILLRACE_RUNTIME_DIR", runtime.path());
    // The directory belongs to that user, so that only the program is missing.
    std::os::unix::fs::chown(&free, Some(4001), Some(4001)).unwrap();
    let said = text(&nobody.output().unwrap());
    assert!(said.contains("fusermount3") && said.contains("package fuse3"), "{said}");
}

#[test]
fn a_refused_mount_is_not_listed_among_the_paths_of_the_export() {
    let Some(mounted) = Mounted::new("fuse-refused") else { return };
    let refused = mounted.world.scratch.folder("refused");
    // Root without the right to mount, and a user who does not own the directory.
    for (uid, options) in [(0, ["--bounding-set", "-sys_admin"]), (4001, ["--regid", "4001"])] {
        let runtime = runtime_of(uid);
        let run = |arguments: &[&str]| {
            let mut command = Command::new(find_program("setpriv").unwrap());
            command.args(["--reuid", &uid.to_string(), "--clear-groups"]).args(options).arg(millrace().get_program());
            command.args(arguments).env("MILLRACE_RUNTIME_DIR", runtime.path()).current_dir("/").output().unwrap()
        };
        let said = run(&["mount", &mounted.filer().url, refused.to_str().unwrap()]);
        assert_eq!(said.status.code(), Some(2), "{}", text(&said));
        let counters = run(&["nfs", "counters", "--all", "--json"]);
        let mounts: serde_json::Value = serde_json::from_slice(&counters.stdout).unwrap();
        assert_eq!((mounts[0]["server"].is_string(), &mounts[0]["paths"]), (true, &serde_json::json!([])), "{mounts}");
        // The keeper ends by itself. Then its directory can be removed.
        await_until("the keeper to end", Duration::from_secs(30), || {
            text(&run(&["nfs", "counters", "--remove-dead"])).contains("removed").then_some(())
        });
    }
}

#[test]
fn a_mount_in_the_foreground_ends_when_it_is_unmounted() {
    let Some(mounted) = Mounted::new("fuse-foreground") else { return };
    let directory = mounted.world.scratch.folder("second");
    let mut command = millrace();
    command
        .env_remove("MILLRACE_RUNTIME_DIR") // a run of all tests sets it
        .args(["mount", "--foreground", "--group", "4908", &mounted.filer().url])
        .arg(&directory)
        .stdout(std::process::Stdio::null());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    await_until("the mount", Duration::from_secs(20), || is_mounted(&directory).then_some(()));
    fs::write(directory.join("f"), "x").unwrap();
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"x");
    assert!(Path::new("/dev/shm/millrace-group-4908").is_dir(), "the group's state");
    succeed(millrace().arg("unmount").arg(&directory));
    assert!(child.wait().unwrap().success());
    let _ = fs::remove_dir_all("/dev/shm/millrace-group-4908");
}

#[test]
fn another_user_mounts_for_itself() {
    let Some(mounted) = Mounted::new("fuse-user") else { return };
    let open_to_all = fs::metadata("/dev/fuse").unwrap().permissions().mode() & 0o006 == 0o006;
    if find_program("fusermount3").is_none() || !open_to_all {
        return skip_unsupported("no fusermount3, or a /dev/fuse that only root may open");
    }
    let directory = mounted.world.scratch.folder("own");
    std::os::unix::fs::chown(&directory, Some(65534), Some(65534)).unwrap();
    mounted.shell("chmod 777 .");
    let runtime = runtime_of(65534);
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.env("MILLRACE_RUNTIME_DIR", runtime.path());
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).args(arguments).current_dir("/");
        command.output().unwrap()
    };
    let binary = millrace().get_program().to_str().unwrap().to_owned();
    let path = directory.to_str().unwrap();
    let done = as_nobody(&[&binary, "mount", &mounted.filer().url, path]);
    assert!(done.status.success(), "{}", text(&done));
    let file = format!("{path}/f");
    assert!(as_nobody(&["touch", &file]).status.success());
    assert_eq!(fs::metadata(mounted.path("f")).unwrap().uid(), 65534);
    assert_eq!(fs::read_dir(&directory).unwrap_err().kind(), std::io::ErrorKind::PermissionDenied, "not even for root");
    let done = as_nobody(&[&binary, "unmount", path]);
    assert!(done.status.success() && !is_mounted(&directory), "{}", text(&done));
}

/// A runtime directory in memory that belongs to this user.
fn runtime_of(user: u32) -> tempfile::TempDir {
    let runtime = tempfile::Builder::new().prefix("millrace-test-").tempdir_in("/dev/shm").unwrap();
    std::os::unix::fs::chown(runtime.path(), Some(user), Some(user)).unwrap();
    fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o700)).unwrap();
    runtime
}
