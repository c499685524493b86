//! A process in a user namespace below the mount's. Servers get the user ids of the mount's
//! namespace, and the process gets those of its own, as with a kernel's client. The results must be
//! those on local disk.

use crate::support::filer::Filer;
use crate::support::{Scratch, is_root, millrace, preload_library, skip, succeed, text};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

const ALICE: u32 = 4001;

/// A filer, and a user with a runtime directory of her own.
struct World {
    filer: Filer,
    runtime: tempfile::TempDir,
    scratch: Scratch,
}

impl World {
    /// `None`, with a message, if this host cannot run the test.
    fn new(label: &str) -> Option<Self> {
        if !is_root() {
            skip("only root can become another user");
            return None;
        }
        let made = by_alice().args(["unshare", "--user", "--map-root-user", "true"]).output();
        if !made.is_ok_and(|made| made.status.success()) {
            skip("this host makes no user namespace for an unprivileged user, or has no unshare");
            return None;
        }
        let scratch = Scratch::new(label);
        let filer = Filer::start(&scratch, &[]);
        std::fs::set_permissions(filer.export(), PermissionsExt::from_mode(0o777)).unwrap();
        let runtime = tempfile::Builder::new().prefix("millrace-test-").tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(runtime.path(), PermissionsExt::from_mode(0o700)).unwrap();
        chown(runtime.path(), Some(ALICE), Some(ALICE)).unwrap();
        Some(Self { filer, runtime, scratch })
    }

    /// `/bin/sh -c script` as this user, over Direct NFS.
    fn shell(&self, script: &str) -> Command {
        let mut command = by_alice();
        command.arg(millrace().get_program());
        command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", self.runtime.path()).current_dir("/");
        command.args(["exec", "--mount", &format!("/db={}", self.filer.url), "--", "/bin/sh", "-c", script]);
        command
    }

    /// Asserts that a script prints the same in a local folder and in a folder of a mount.
    fn same_as_local(&self, script: &str) {
        let local = self.scratch.folder("local");
        chown(&local, Some(ALICE), Some(ALICE)).unwrap();
        let mut here = by_alice();
        let here = succeed(here.args(["/bin/sh", "-c", script]).current_dir(local));
        let there = succeed(&mut self.shell(&format!("mkdir /db/t; cd /db/t; {script}")));
        assert_eq!(there, here);
    }
}

fn by_alice() -> Command {
    let mut command = Command::new("setpriv");
    let id = ALICE.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    command
}

fn owner_of(path: &Path) -> (u32, u32) {
    let found = std::fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid())
}

#[test]
fn root_of_a_user_namespace_is_the_user_it_stands_for() {
    let Some(world) = World::new("namespace-root") else { return };
    world.same_as_local(
        "exec 2>&1; umask 022; echo before > before; unshare --user --map-root-user sh -c '
            id -u; echo hi > f; mkdir -p x/y; cat f before; (cd x && echo deep > y/g && ls -n y | cut -d\" \" -f3,4)
            chown 0:0 f && stat -c %u:%g:%a . f before x; chown 5:5 f; chgrp 7 f; test -w before && test -O before && echo mine'
         stat -c %u:%g:%a . f x x/y/g; cat x/y/g; rm -r x; ls",
    );
    let export = world.filer.export();
    assert_eq!(owner_of(&export.join("t/f")), (ALICE, ALICE), "at the server it is the user's");
}

#[test]
fn a_directory_of_a_mount_that_the_process_does_not_reach_takes_no_file() {
    let Some(world) = World::new("namespace-stranger") else { return };
    // A namespace without a map has no user ids. So the script works as another user with another mount.
    let script = "mkdir /db/t; cd /db/t; exec unshare --user sh -c 'echo lost > lost; mkdir lost.d; cat /db/t/lost'";
    let ended = world.shell(script).output().unwrap();
    assert!(!ended.status.success(), "{}", text(&ended));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(
        said.matches("is the placeholder of a directory of a mount that this process does not reach").count(),
        2,
        "sh and mkdir: {said}"
    );
    let found = Command::new("find").arg(world.runtime.path()).args(["-name", "lost*"]).output().unwrap();
    assert!(found.stdout.is_empty(), "{}", text(&found));
}

#[test]
fn a_dot_needs_the_right_to_search_as_on_local_disk() {
    let Some(world) = World::new("dots") else { return };
    world.same_as_local(
        "exec 2>&1; export LC_ALL=C; mkdir -p readable/in searchable/in; chmod 444 readable; chmod 111 searchable
         for name in . ./ readable readable/ readable/. readable/./ readable/./in readable/in searchable/. searchable/in/. searchable/in; do
            echo $name; stat -c %F $name; done
         echo */.; rmdir readable/.; chmod 755 readable/.; chmod 755 readable; echo */.",
    );
}
