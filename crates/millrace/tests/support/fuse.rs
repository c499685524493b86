//! An export that is mounted by FUSE.

use super::{is_root, millrace, skip_unsupported, text};
use std::path::Path;
use std::process::Command;

/// Whether this host has FUSE for these tests. Prints a message if not.
pub fn has_fuse() -> bool {
    let has = is_root() && Path::new("/dev/fuse").exists();
    if !has {
        skip_unsupported("no root or /dev/fuse");
    }
    has
}

/// Mounts a URL at a directory by the command, which is `millrace`. Returns the process that serves
/// the mount.
pub fn mount(mut millrace: Command, arguments: &[&str], url: &str, directory: &Path) -> u32 {
    if arguments.contains(&"--group") {
        millrace.env_remove("MILLRACE_RUNTIME_DIR"); // a run of all tests sets it
    }
    let output = millrace.args(["mount", "--json"]).args(arguments).arg(url).arg(directory).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["mounted"].as_str(), directory.to_str());
    u32::try_from(said["pid"].as_u64().unwrap()).unwrap()
}

/// Whether a file system is mounted at a directory.
pub fn is_mounted(directory: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().any(|line| line.split(' ').nth(4) == directory.to_str())
}

/// Unmounts the file system at a directory, and ends the process that serves it, without any wait,
/// because a failed test may have left its filer dead.
pub fn end(directory: &Path, pid: u32) {
    while is_mounted(directory) {
        let done = millrace().args(["unmount", "--lazy"]).arg(directory).output().unwrap();
        if !done.status.success() {
            break;
        }
    }
    // 0, which names this test's process group, means that the mount had failed.
    if pid != 0 {
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output();
    }
}
