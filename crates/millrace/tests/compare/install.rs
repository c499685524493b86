//! `compare --install`: what it asks, what it calls, and what it restores. apt-get is a script of
//! this test, in a mount namespace where PostgreSQL is not installed: the test does not check the
//! package manager.

use crate::support::{Scratch, find_program, is_root, may_make_namespaces, skip, text};
use std::process::{Command, Output};

/// Hides PostgreSQL, mounts an empty /etc/postgresql-common and /usr/sbin for this test only, and
/// runs the rest of its arguments.
const BARE_HOST: &str = r#"set -e
tools=$1; shift
for place in /usr/lib/postgresql /usr/sbin /etc/postgresql-common; do [ -d "$place" ] && mount -t tmpfs none "$place"; done
mkdir -p /etc/postgresql-common
echo 'ssl = on' > /etc/postgresql-common/createcluster.conf
PATH=$tools:/usr/bin:/bin
status=0
"$@" || status=$?
cat /etc/postgresql-common/createcluster.conf
ls /usr/sbin
exit $status
"#;

/// Records its arguments and the state of the host at that time. It "installs" PostgreSQL by
/// unmounting what hides it.
const APT_GET: &str = r#"#!/bin/sh
case "$*" in
*install*postgresql-common) echo "common $(ls /usr/sbin)" >> "$TOLD" ;;
*install*postgresql) echo "server $(grep -c '^create_main_cluster = false' /etc/postgresql-common/createcluster.conf)" >> "$TOLD"; umount /usr/lib/postgresql ;;
*) echo "other $*" >> "$TOLD"; exit 1 ;;
esac
"#;

struct Host {
    scratch: Scratch,
}

impl Host {
    /// `None`, with a message, without root or namespaces, or if this host has no PostgreSQL that
    /// can be hidden.
    fn new() -> Option<Self> {
        if !is_root() || !may_make_namespaces() {
            crate::support::skip_unsupported("only root may hide PostgreSQL in a mount namespace");
            return None;
        }
        if !std::path::Path::new("/usr/lib/postgresql").is_dir() || std::path::Path::new("/usr/bin/initdb").exists() {
            skip("no PostgreSQL below /usr/lib/postgresql alone");
            return None;
        }
        let scratch = Scratch::new("install");
        let tool = scratch.folder("tools").join("apt-get");
        std::fs::write(&tool, APT_GET).unwrap();
        std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        Some(Self { scratch })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", BARE_HOST, "sh"]).arg(self.scratch.path().join("tools"));
        command.arg(env!("CARGO_BIN_EXE_millrace")).args(["compare", "--quick", "--paths", "fc", "--out"]);
        command.arg(self.scratch.path().join("out")).args(arguments).env("TOLD", self.told_file());
        command
    }

    fn compare(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(std::process::Stdio::null()).output().unwrap()
    }

    /// The same on a terminal, where the user types `typed`.
    fn compare_on_terminal(&self, typed: &str) -> String {
        let inner = self.command(&["--install"]);
        let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"));
        let words: Vec<String> = std::iter::once(inner.get_program()).chain(inner.get_args()).map(quoted).collect();
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--echo", "never", "--command", &words.join(" "), "/dev/null"]);
        script.env("TOLD", self.told_file()).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = script.spawn().unwrap();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), typed.as_bytes()).unwrap();
        text(&child.wait_with_output().unwrap())
    }

    fn told_file(&self) -> std::path::PathBuf {
        self.scratch.path().join("told")
    }

    fn told(&self) -> String {
        std::fs::read_to_string(self.told_file()).unwrap_or_default()
    }
}

#[test]
fn what_is_missing_is_named_and_nothing_is_installed_unless_somebody_agrees() {
    let Some(host) = Host::new() else { return };
    let plain = host.compare(&[]);
    assert_eq!(plain.status.code(), Some(2));
    assert!(text(&plain).contains("hint: millrace compare --install asks and installs it"), "{}", text(&plain));
    let unasked = host.compare(&["--install"]);
    assert_eq!(unasked.status.code(), Some(2));
    for part in ["missing: postgresql", "cannot install postgresql", "hint: there is no terminal to ask on: use --install --yes"]
    {
        assert!(text(&unasked).contains(part), "{}", text(&unasked));
    }
    if find_program("script").is_some() {
        let refused = host.compare_on_terminal("n\n");
        assert!(refused.contains("Install postgresql? [y/N]") && refused.contains("nothing was installed"), "{refused}");
    }
    assert_eq!(host.told(), "", "apt-get was not called");
}

#[test]
fn agreed_to_it_installs_without_a_main_cluster_goes_on_and_puts_the_settings_back() {
    let Some(host) = Host::new() else { return };
    let output = host.compare(&["--install", "--yes"]);
    let said = text(&output);
    assert!(said.contains("install: installing with apt-get: postgresql"), "{said}");
    assert!(said.contains("measure any of the paths asked for: fc"), "the comparison went on: {said}");
    assert_eq!(host.told(), "common policy-rc.d\nserver 1\n", "{said}");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(stdout.starts_with("ssl = on\n") && !stdout.contains("create_main_cluster"), "{stdout}");
    assert!(!stdout.contains("policy-rc.d"), "{stdout}");
    if find_program("script").is_some() {
        let agreed = host.compare_on_terminal("y\n");
        assert!(agreed.contains("Install postgresql? [y/N]") && agreed.contains("measure any of the paths"), "{agreed}");
    }
}
