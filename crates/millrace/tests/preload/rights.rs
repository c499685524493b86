//! Rights: where mode bits grant access, the library trusts them without a call. Where they deny,
//! the server decides.

use crate::support::configured::Configured;
use crate::support::ganesha::Ganesha;
use crate::support::private_files::{CALLER, OWNER, RIGHTS, lay_out};
use crate::support::{Scratch, is_root, keepers, millrace, preload_library, skip, succeed};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

const WAYS: [&str; 12] = [
    "read",
    "write",
    "append",
    "truncate",
    "O_TRUNC",
    "access",
    "faccessat",
    "access to execute",
    "execute",
    "list",
    "enter",
    "create in",
];

/// The output of [`RIGHTS`] if every operation has this outcome.
fn all(outcome: &str) -> String {
    WAYS.iter().map(|way| format!("{way} {outcome}\n")).collect()
}

/// A configured filer, and programs of an unprivileged user on it.
struct World {
    filer: Configured,
    scratch: Scratch,
    runtime: tempfile::TempDir,
}

impl World {
    /// `None`, with a message, if this host cannot run it.
    fn new(label: &str, squash: &str) -> Option<Self> {
        if !may_try() {
            return None;
        }
        let scratch = Scratch::new(label);
        lay_out(&scratch.folder("vol"));
        let rest = format!(
            "admin = \"DIR/admin.sock\"\n[[volume]]\nname = \"vol\"\ndir = \"DIR/vol\"\nclients = [\"127.0.0.1\"]\n{squash}\n"
        );
        Some(Self { filer: Configured::start(&scratch, &rest), scratch, runtime: runtime_of_caller() })
    }

    fn python(&self, script: &str) -> String {
        let url = format!("nfs://127.0.0.1:{}/vol", self.filer.port(0));
        succeed(&mut as_caller(Command::new("setpriv"), &self.runtime, &url, script))
    }

    fn accesses(&self) -> u64 {
        let stats: serde_json::Value = serde_json::from_str(&self.filer.order(&["stats", "--json"])).unwrap();
        stats["procedures"]["ACCESS"]["calls"].as_u64().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        keepers::end(self.filer.port(0));
    }
}

fn may_try() -> bool {
    if !is_root() || !Path::new("/usr/bin/python3").is_file() {
        skip("only root can be other users, and they need /usr/bin/python3");
        return false;
    }
    true
}

fn runtime_of_caller() -> tempfile::TempDir {
    let runtime = tempfile::Builder::new().prefix("millrace-test-").tempdir_in("/dev/shm").unwrap();
    std::fs::set_permissions(runtime.path(), PermissionsExt::from_mode(0o700)).unwrap();
    chown(runtime.path(), Some(CALLER), Some(CALLER)).unwrap();
    runtime
}

/// `millrace exec … python3 -c SCRIPT /db` as the caller. `setpriv` is the command of that program,
/// in any namespace.
fn as_caller(mut setpriv: Command, runtime: &tempfile::TempDir, url: &str, script: &str) -> Command {
    let id = CALLER.to_string();
    setpriv.args(["--reuid", &id, "--regid", &id, "--clear-groups", "timeout", "-k", "5", "90"]).arg(millrace().get_program());
    setpriv.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", runtime.path()).current_dir("/");
    setpriv.args(["exec", "--mount", &format!("/db={url}"), "--", "/usr/bin/python3", "-c", script, "/db"]);
    setpriv
}

const ALL_ARE_OWNER: &str = "squash = \"all\"\nanonymous_uid = 4002\nanonymous_gid = 4002";

#[test]
fn what_the_server_grants_is_granted_though_the_mode_bits_deny_it() {
    let Some(world) = World::new("rights-granted", ALL_ARE_OWNER) else { return };
    assert_eq!(world.python(RIGHTS), all("ok"));
}

#[test]
fn what_mode_bits_and_server_deny_is_denied() {
    let Some(world) = World::new("rights-denied", "squash = \"none\"") else { return };
    assert_eq!(world.python(RIGHTS), all("Permission denied"));
    assert_eq!(std::fs::read(world.scratch.path().join("vol/f")).unwrap(), b"text");
}

/// The output of a script on Ganesha with these options of the export. `None`, with a message, if
/// this host cannot run it.
fn on_ganesha(label: &str, options: &str, script: &str) -> Option<String> {
    let ganesha = Some(()).filter(|()| may_try()).and_then(|()| Ganesha::start_with(label, options, &[]))?;
    lay_out(&ganesha.export());
    let setpriv = ganesha.inside(&PathBuf::from("setpriv"));
    Some(succeed(&mut as_caller(setpriv, &runtime_of_caller(), &ganesha.url(), script)))
}

const GANESHA_ALL_ARE_OWNER: &str = "Squash = All_Squash; Anonymous_Uid = 4002; Anonymous_Gid = 4002;";
const GANESHA_NONE_IS: &str = "Squash = No_Root_Squash;";

#[test]
fn what_ganesha_grants_is_granted_though_the_mode_bits_deny_it() {
    let Some(said) = on_ganesha("rights-ganesha", GANESHA_ALL_ARE_OWNER, RIGHTS) else { return };
    assert_eq!(said, all("ok"));
}

#[test]
fn what_mode_bits_and_ganesha_deny_is_denied() {
    let Some(said) = on_ganesha("rights-ganesha-denied", GANESHA_NONE_IS, RIGHTS) else { return };
    assert_eq!(said, all("Permission denied"));
}

/// Creates files whose owner has no rights, uses them, and opens them again.
const MADE: &str = r#"
import os
for mode in 0o444, 0:
    for flags in 0, os.O_EXCL:
        name = f"/db/new-{mode}-{flags}"
        fd = os.open(name, os.O_RDWR | os.O_CREAT | flags, mode)
        os.write(fd, b"text"); os.fsync(fd); print(os.pread(fd, 9, 0).decode()); os.close(fd)
        try: os.open(name, os.O_RDWR); print("opened again")
        except PermissionError: print("denied")
"#;
const USED_AND_DENIED: &str = "text\ndenied\n";

#[test]
fn a_file_is_open_as_asked_for_whoever_has_just_made_it_whatever_its_mode() {
    for squash in ["squash = \"none\"", ALL_ARE_OWNER] {
        let Some(world) = World::new("rights-made", squash) else { return };
        assert_eq!(world.python(MADE), USED_AND_DENIED.repeat(4), "{squash}");
    }
}

#[test]
fn a_file_on_ganesha_is_open_as_asked_for_whoever_has_just_made_it_whatever_its_mode() {
    for options in [GANESHA_NONE_IS, GANESHA_ALL_ARE_OWNER] {
        let Some(said) = on_ganesha("rights-ganesha-made", options, MADE) else { return };
        assert_eq!(said, USED_AND_DENIED.repeat(4), "{options}");
    }
}

#[test]
fn rights_that_the_mode_bits_grant_cost_no_call() {
    let Some(world) = World::new("rights-cost", "squash = \"none\"") else { return };
    let script = r#"
import os
os.mkdir("/db/d"); os.chdir("/db/d")
fd = os.open("f", os.O_RDWR | os.O_CREAT, 0o644); os.write(fd, b"x"); os.close(fd)
for flags in os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC: os.close(os.open("f", flags))
assert os.access("f", os.R_OK | os.W_OK) and os.access(".", os.X_OK) and os.listdir("/db/d") == ["f"]
os.truncate("f", 9); os.chdir("/db"); os.link("d/f", "g")
"#;
    world.python(script);
    assert_eq!(world.accesses(), 0);
}

/// This program has another effective user than its real one: access(2) checks the real user.
#[test]
fn access_is_that_of_the_real_user_and_faccessat_that_of_the_effective_one() {
    let Some(world) = World::new("rights-real", "squash = \"none\"") else { return };
    let url = format!("nfs://127.0.0.1:{}/vol", world.filer.port(0));
    let runtime = tempfile::Builder::new().prefix("millrace-test-").tempdir_in("/dev/shm").unwrap();
    crate::support::share_with_group(runtime.path(), OWNER);
    let script = format!(
        "import os\nos.setresgid({CALLER}, {OWNER}, {OWNER}); os.setresuid({CALLER}, {OWNER}, {OWNER})\n\
         print(os.access('/db/f', os.W_OK), os.access('/db/f', os.W_OK, effective_ids=True))"
    );
    let mut command = millrace();
    command.env("MILLRACE_PRELOAD", preload_library()).env("MILLRACE_RUNTIME_DIR", runtime.path()).current_dir("/");
    command.args(["exec", "--mount", &format!("/db={url}"), "--", "/usr/bin/python3", "-c", &script]);
    assert_eq!(succeed(&mut command), "False True\n");
}
