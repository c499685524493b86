//! Callers and processes in other PID and mount namespaces.

use crate::mounted::{Mounted, is_alive, is_mounted};
use crate::support::{await_until, millrace, succeed, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A mount served by a process that has its own PID and mount namespaces and its own /proc.
/// Dropping it ends all processes there.
struct Inner {
    unshare: Child,
    /// The directory of the mount, as processes outside reach it.
    seen: PathBuf,
}

impl Inner {
    fn mounted(mounted: &Mounted) -> Self {
        let directory = mounted.world.scratch.folder("inner");
        let mut unshare = Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(millrace().get_program());
        unshare.args(["mount", "--foreground", &mounted.filer().url]).arg(&directory);
        let unshare = unshare.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let seen = || {
            let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", unshare.id())).ok()?;
            let root = format!("/proc/{}/root", children.trim());
            let seen = Path::new(&root).join(directory.strip_prefix("/").unwrap());
            seen.join("f").exists().then_some(seen)
        };
        let seen = await_until("the mount of the other namespace", Duration::from_secs(20), seen);
        Self { unshare, seen }
    }

    /// A program outside the namespaces, with its working directory in the mount.
    fn outside(&self, uid: u32, groups: &str, command: &[&str]) -> Command {
        let mut outside = Command::new("setpriv");
        let (uid, groups) = (uid.to_string(), if groups.is_empty() { "--clear-groups" } else { groups });
        outside.args(["--reuid", &uid, "--regid", &uid]);
        if groups.starts_with("--") {
            outside.arg(groups)
        } else {
            outside.args(["--groups", groups])
        };
        outside.args(command).current_dir(&self.seen).env("LC_ALL", "C");
        outside
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

#[test]
fn a_mount_is_refused_where_proc_belongs_to_another_pid_namespace() {
    let Some(mounted) = Mounted::new("fuse-foreign-proc") else { return };
    let directory = mounted.world.scratch.folder("refused");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork"]).arg(millrace().get_program()).args(["mount", &mounted.filer().url]).arg(&directory);
    let said = command.output().unwrap();
    assert_eq!(said.status.code(), Some(2), "{}", text(&said));
    assert!(
        text(&said).contains("/proc is that of another PID namespace") && text(&said).contains("--mount-proc"),
        "{}",
        text(&said)
    );
    assert!(!is_mounted(&directory));
}

#[test]
fn a_caller_whose_groups_cannot_be_known_gets_no_right_that_they_would_deny() {
    let Some(mounted) = Mounted::new("fuse-outside") else { return };
    mounted.shell("echo mine >f; chown 4001:4900 f; chmod 604 f");
    let inner = Inner::mounted(&mounted);
    // The mode denies the group. A caller that may be a member of it does not get the rights of the others.
    for groups in ["4900", ""] {
        let refused = inner.outside(4002, groups, &["cat", "f"]).output().unwrap();
        assert!(text(&refused).contains("Permission denied"), "{groups}: {}", text(&refused));
    }
    assert_eq!(succeed(&mut inner.outside(0, "", &["cat", "f"])), "mine\n");
    // In the namespaces the groups of a caller are known.
    let enter = |groups: &str| {
        let mut command = Command::new("nsenter");
        let root = inner.seen.ancestors().find(|path| path.ends_with("root")).unwrap().parent().unwrap();
        command.args(["--target", root.file_name().unwrap().to_str().unwrap(), "--pid", "--mount", "setpriv", "--reuid", "4002"]);
        command.args(["--regid", "4002", "--groups", groups, "cat"]).arg(mounted.world.scratch.path().join("inner/f"));
        command.output().unwrap()
    };
    assert_eq!(enter("4901").stdout, b"mine\n");
    assert!(text(&enter("4900")).contains("Permission denied"));
}

#[test]
fn a_caller_of_another_pid_namespace_that_waits_can_be_killed() {
    let Some(mut mounted) = Mounted::new("fuse-outside-kill") else { return };
    mounted.shell("echo mine >f");
    let inner = Inner::mounted(&mounted);
    mounted.world.filer.kill();
    // The program does not get a working directory in the mount: it would enter that before the
    // test knows that it runs.
    let mut waits = Command::new("cat").arg(inner.seen.join("f")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let asleep = || {
        let place = fs::read_to_string(format!("/proc/{}/wchan", waits.id())).ok()?;
        (place.contains("fuse") || place == "request_wait_answer").then_some(())
    };
    await_until("a program to wait for the mount", Duration::from_secs(20), asleep);
    waits.kill().unwrap();
    await_until("the end of a killed program", Duration::from_secs(60), || waits.try_wait().unwrap());
    mounted.world.filer.restart();
}

#[test]
fn unmounting_beside_a_copy_of_the_mount_in_another_namespace_succeeds_at_once() {
    let Some(mut mounted) = Mounted::new("fuse-copied") else { return };
    let mut copy = Command::new("unshare").args(["--mount", "--propagation", "private", "sleep", "100"]).spawn().unwrap();
    let own = fs::read_link("/proc/self/ns/mnt").unwrap();
    let is_apart = || (fs::read_link(format!("/proc/{}/ns/mnt", copy.id())).ok()? != own).then_some(());
    await_until("a mount namespace", Duration::from_secs(20), is_apart);
    let first = mounted.pid;
    let unmount = |mounted: &Mounted| {
        let begun = Instant::now();
        let done = mounted.unmount();
        assert!(done.status.success() && !is_mounted(&mounted.directory), "{}", text(&done));
        assert!(begun.elapsed() < Duration::from_secs(15), "it waited: {:?}", begun.elapsed());
        text(&done)
    };
    assert!(unmount(&mounted).contains(&format!("process {} has a copy", copy.id())));
    assert!(is_alive(first), "it serves the copy");
    // The same directory again. Another process serves it, and unmounting waits for that process.
    mounted.mount("", &[]);
    assert_eq!(unmount(&mounted), "");
    assert!(!is_alive(mounted.pid));
    copy.kill().unwrap();
    copy.wait().unwrap();
    await_until("the first process to end", Duration::from_secs(30), || (!is_alive(first)).then_some(()));
}
