//! The files and directories that the commands of docs/errors.md name.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::rules::SWAPPINESS;
use crate::support::{Scratch, find_program, is_root, preload_library, succeed};

/// The user that runs two filers. [`NOBODY`] runs no filer.
pub(crate) const DAEMON: u32 = 1;
const NOBODY: u32 = 65534;

/// Creates the files and directories that rows name.
pub(crate) fn make_files(scratch: &Scratch) {
    let here = scratch.path();
    let write = |name: &str, bytes: &[u8]| std::fs::write(here.join(name), bytes).unwrap();
    for folder in
        ["bin", "alone", "empty", "full", "vol/base", "squashed", "readonly", "small", "closed", "above/secure", "state"]
    {
        scratch.folder(folder);
    }
    for folder in ["runtime", "unreadable", "shm"] {
        private(scratch, folder);
    }
    let program = Path::new(env!("CARGO_BIN_EXE_millrace"));
    for (from, to) in [(program, "bin/millrace"), (program, "alone/millrace"), (&preload_library(), "bin/libmillrace_preload.so")]
    {
        let to = here.join(to);
        // Other users need these files, and may not reach the directory of the build.
        std::fs::hard_link(from, &to).or_else(|_| std::fs::copy(from, &to).map(|_| ())).unwrap();
    }
    write("full/dump.sql", b"x");
    write("dump.sql", b"select 1;\n");
    write("large.sql", &vec![7; 3 << 20]);
    write("vol/notes", b"notes\n");
    write("vol/private", b"x");
    std::fs::set_permissions(here.join("vol/private"), PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::set_permissions(here.join("squashed"), PermissionsExt::from_mode(0o700)).unwrap();
    write("waivers.toml", b"waivers = 3\n");
    write("site.toml", b"[site\nrac = true");
    write("results.json", b"{\"schema\": 1}");
    write("plan.toml", b"schema = 1\n[load]\nwarehuoses = 3\n");
    let plan = include_str!("../../../../../plans/compare.toml");
    write("client.toml", format!("{plan}\n[tuning.deep.iscsi]\nclient = \"libiscsi\"\n").as_bytes());
    scratch.folder("rules/test");
    // The host in `host` violates this rule.
    write("rules/test/rule.toml", SWAPPINESS.as_bytes());
    for folder in ["host/etc", "host/proc/sys/vm", "host/proc/self"] {
        scratch.folder(folder);
    }
    write("host/etc/os-release", b"ID=debian\nVERSION_ID=\"12\"\n");
    write("host/proc/sys/vm/swappiness", b"60\n");
    make_programs(here);
}

/// A program without a dynamic loader; and for tests as root a set-uid program and directories of
/// another user.
fn make_programs(here: &Path) {
    std::fs::write(here.join("main.c"), b"int main(void) { return 0; }\n").unwrap();
    if find_program("cc").is_some() {
        succeed(Command::new("cc").args(["-static", "-o", "static", "main.c"]).current_dir(here));
    }
    if is_root() {
        for folder in ["of-nobody", "of-nobody-state"] {
            std::fs::create_dir(here.join(folder)).unwrap();
            chown(here.join(folder), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let program = here.join("setuid");
        std::fs::copy(find_program("true").unwrap(), &program).unwrap();
        chown(&program, Some(DAEMON), None).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    }
}

/// A directory that only its owner may use.
pub(crate) fn private(scratch: &Scratch, name: &str) -> PathBuf {
    let folder = scratch.folder(name);
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    folder
}

/// The part of the filer's configuration with its certificate and volumes.
pub(crate) fn volumes() -> String {
    let volume_in =
        |dir: &str, name: &str, rest: &str| format!("[[volume]]\nname = \"{name}\"\ndir = \"DIR/{dir}\"\nclients = [{rest}\n");
    let volume = |name: &str, rest: &str| volume_in(name, name, rest);
    [
        "tls_cert = \"DIR/pki/filer.pem\"\ntls_key = \"DIR/pki/filer.key\"\n".to_owned(),
        volume("vol", "\"*\"]\nsquash = \"none\""),
        volume("squashed", "\"*\"]"),
        volume("readonly", "\"*\"]\nsquash = \"none\"\naccess = \"ro\""),
        volume("small", "\"*\"]\nsquash = \"none\"\nquota = \"1MiB\""),
        volume("closed", "\"192.0.2.7\"]"),
        volume_in("above/secure", "secure", "\"*\"]\nsquash = \"none\"\ntls = \"required\""),
    ]
    .concat()
}

/// Copies of the filer's configuration, each with one error.
pub(crate) fn spoil_configurations(here: &Path) {
    let text = std::fs::read_to_string(here.join("filer.toml")).unwrap();
    for (name, from, to) in [
        ("unknown-key", "quota = ", "qouta = "),
        ("bad-quota", "1MiB", "1 gig"),
        ("bad-access", "\"ro\"", "\"readonly\""),
        ("number-quota", "quota = \"1MiB\"", "quota = 5"),
        ("no-list", "[\"192.0.2.7\"]", "\"192.0.2.7\""),
        ("unknown-client", "192.0.2.7", "no-such-host.invalid"),
        ("no-directory", "/closed\"", "/missing\""),
        ("nested", "/closed\"", "/vol/base\""),
        ("same-name", "name = \"closed\"", "name = \"vol\""),
        ("no-equals", "access = ", "access "),
        ("no-volume", "[[volume]]", "[[volumes]]"),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(here.join(format!("{name}.toml")), text.replace(from, to)).unwrap();
    }
}
