//! No secret leaves the program: no capture, output format of an audit, plan of changes or error
//! message contains a planted secret.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::secret_corpus::{MARK, files};
use crate::support::{Scratch, may_make_namespaces, millrace, text};

fn plant(root: &Path) {
    for (path, text) in files() {
        let at = root.join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    }
}

#[track_caller]
fn none_in(what: &str, said: &str) {
    let found = said.lines().find(|line| line.contains(MARK));
    assert!(found.is_none(), "{what} prints {found:?}");
}

#[test]
fn no_form_of_an_audit_of_a_tree_with_secrets_shows_one() {
    let scratch = Scratch::new("secrets-tree");
    let root = scratch.path().join("root");
    plant(&root);
    for more in [&["--json"][..], &["-v", "--passed"], &["--format", "sarif"], &["--format", "junit"], &["--format", "html"]] {
        let output = millrace().args(["audit", "--facts"]).arg(&root).args(more).output().unwrap();
        let said = text(&output);
        none_in(&more.join(" "), &said);
        assert!(said.contains("mount"), "the audit says nothing of the host: {said}");
    }
}

/// In a mount namespace of its own, the planted files cover those of this host.
#[test]
fn a_collection_and_an_audit_of_the_host_itself_show_no_secret() {
    if !may_make_namespaces() {
        return;
    }
    let scratch = Scratch::new("secrets-live");
    let root = scratch.path().join("root");
    plant(&root);
    let script = format!(
        "cd {scratch}; mkdir etc; mount -t tmpfs etc etc; cp -a /etc/. etc/ 2>/dev/null || :; cp -a --remove-destination root/etc/. etc/; mount --bind etc /etc
         mount --bind root/proc/cmdline /proc/cmdline
         {millrace} collect --out cap >/dev/null
         {millrace} audit --json >audit.json || [ $? = 1 ]
         {millrace} tune plan >plan.txt 2>&1 || :",
        scratch = scratch.path().display(),
        millrace = millrace().get_program().display(),
    );
    let done = Command::new("unshare").args(["--mount", "sh", "-euc", &script]).output().unwrap();
    assert!(done.status.success(), "{}", text(&done));
    for name in ["audit.json", "plan.txt"] {
        none_in(name, &fs::read_to_string(scratch.path().join(name)).unwrap());
    }
    let found = Command::new("grep").args(["-ra", MARK]).arg(scratch.path().join("cap")).output().unwrap();
    none_in("the capture", &text(&found));
    let fstab = fs::read_to_string(scratch.path().join("cap/files/etc/fstab")).unwrap();
    assert!(fstab.contains("//nas/a /mnt/a cifs username=[redacted],password=[redacted] 0 0"), "{fstab}");
}

#[test]
fn no_error_message_shows_a_secret_of_a_connection_string() {
    let secrets = [MARK.to_owned(), format!("a/{MARK}"), format!("a?{MARK}"), format!("a@{MARK}"), format!("a#{MARK}")];
    let strings = |secret: &str| {
        [
            format!("mysql://u:{secret}@127.0.0.1:1/"),
            format!("mysql:/u:{secret}@127.0.0.1:1/"),
            format!("postgresql://u:{secret}@127.0.0.1:1/x?connect_timeout=1"),
            format!("postgresql//u:{secret}@127.0.0.1:1/x"),
            format!("host=127.0.0.1 port=1 password='{secret}' connect_timeout=1 sslmodee=x"),
            format!("host=127.0.0.1 port=1 password='{secret} connect_timeout=1"),
        ]
    };
    let shows_none = |command: &[&str], secret: &String| {
        let output = millrace().args(command).arg(secret).output().unwrap();
        none_in(&format!("{} {secret}", command.join(" ")), &text(&output));
    };
    for dsn in secrets.iter().flat_map(|secret| strings(secret)) {
        // `orders check` does not accept the string as an argument, and its message quotes it.
        shows_none(&["audit", "--db"], &dsn);
        shows_none(&["orders", "check"], &dsn);
    }
    for url in secrets.iter().map(|secret| format!("iscsi://u%{secret}@127.0.0.1:1/iqn.2026-11.x:y/0")) {
        for command in [&["iscsi", "discover"][..], &["iscsi", "attach"], &["audit", "--db"], &["nfs", "ls"]] {
            shows_none(command, &url);
        }
    }
}
