//! `millrace tune` plans and applies changes to a tree that represents a host, and reverts them
//! byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::rules::SWAPPINESS;
use crate::support::{find_program, skip};
use serde_json::Value;

/// More rules after [`SWAPPINESS`].
const MORE_RULES: &str = r#"
[[rule]]
id = "linux-test-hard"
title = "Mounts are hard"
platforms = ["linux"]
each = "mount"
when = "mount.fstype == 'nfs'"
test = "mount.hard"
severity = "high"
reason = "A soft mount tells the database of an error where waiting would have done."
sources = [{ name = "a test" }]
status = "valid"
[rule.fix]
activation = "remount"
needs = ["stop the databases on it"]
set = [{ kind = "fstab-option", key = "hard" }]
[[rule.fires]]
things.mount = [{ name = "/redo", fstype = "nfs", hard = false }]
[[rule.silent]]
things.mount = [{ name = "/redo", fstype = "nfs", hard = true }]

[[rule]]
id = "linux-test-danger"
title = "The disk is not asked"
platforms = ["linux"]
test = "sysctl.vm.swappiness == 0"
severity = "low"
reason = "It would be quicker, and wrong."
sources = [{ name = "a test" }]
status = "valid"
[rule.fix]
activation = "live"
loses_durability = true
set = [{ kind = "sysctl", key = "vm.laptop_mode", value = "1" }]
[[rule.fires]]
facts = { "sysctl.vm.swappiness" = 60 }
[[rule.silent]]
facts = { "sysctl.vm.swappiness" = 0 }
"#;

struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        host.write("root/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");
        host.write("root/etc/fstab", "# table\nfiler:/redo /redo nfs rw,soft,vers=3,rsize=262144 0 0\n");
        host.write("root/proc/mounts", "filer:/redo /redo nfs rw,soft,vers=3,rsize=262144,proto=tcp,addr=10.0.0.1 0 0\n");
        fs::create_dir_all(host.path("root/proc/self")).unwrap();
        fs::copy(host.path("root/proc/mounts"), host.path("root/proc/self/mounts")).unwrap();
        host.write("root/proc/sys/kernel/osrelease", "6.1.0\n");
        host.write("root/proc/sys/vm/swappiness", "60\n");
        host.write("root/proc/sys/vm/laptop_mode", "0\n");
        host.write("rules/test.toml", &format!("{SWAPPINESS}{MORE_RULES}"));
        fs::set_permissions(host.path("root/etc/fstab"), fs::Permissions::from_mode(0o640)).unwrap();
        host
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// `millrace tune ORDER` with this tree, its state and its rules.
    fn tune(&self, order: &str, more: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(["tune", order, "--root"]).arg(self.path("root"));
        if order != "revert" {
            command.arg("--rules").arg(self.path("rules"));
        }
        if order == "apply" || order == "revert" {
            command.arg("--state").arg(self.path("state"));
        }
        command.args(more).stdin(std::process::Stdio::null()).output().unwrap()
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Modes, names, contents, and times of files below /etc.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>, i64)> {
    let mut nodes = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            if found.is_dir() {
                folders.push(path.clone());
                nodes.insert(path, (found.mode(), Vec::new(), 0));
            } else {
                let timed = path.components().any(|part| part.as_os_str() == "etc");
                let bytes = fs::read(&path).unwrap();
                nodes.insert(path, (found.mode(), bytes, if timed { found.mtime_nsec() } else { 0 }));
            }
        }
    }
    nodes
}

#[test]
fn a_host_is_planned_changed_and_brought_back() {
    let host = Host::new();
    let before = tree(&host.path("root"));

    let plan = host.tune("plan", &[]);
    let text = out(&plan);
    assert_eq!(plan.status.code(), Some(0), "{text}{}", err(&plan));
    for line in [
        "== live: 1 change, in force at once ==",
        "steps left to you, since apply runs no command:\n  1. stop the databases on it (linux-test-hard; mount /redo)\n  \
         2. unmount the file system and mount it again (linux-test-hard; mount /redo)\n",
        "sets /proc/sys/vm/swappiness to 1",
        "+vm.swappiness = 1",
        "== remount: 1 change, in force when the file system is unmounted and mounted again ==",
        "-filer:/redo /redo nfs rw,soft,vers=3,rsize=262144 0 0",
        "+filer:/redo /redo nfs rw,hard,vers=3,rsize=262144 0 0",
        "MAY LOSE ACKNOWLEDGED DATA",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    let json: Value = serde_json::from_str(&out(&host.tune("plan", &["--json"]))).unwrap();
    assert_eq!(json["groups"][0]["activation"], "live");
    assert_eq!(json["apart"][0]["change"]["rule"], "linux-test-danger");
    assert_eq!(tree(&host.path("root")), before, "a plan changes nothing");

    let applied = host.tune("apply", &["--yes"]);
    assert_eq!(applied.status.code(), Some(4), "{}{}", out(&applied), err(&applied));
    let (shown, result) = out(&applied).split_once("live: done: ").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert_eq!(shown, text, "the plan is printed before the result");
    assert!(result.contains("`millrace tune revert` reverts it\nNOT DONE YET: 2 steps left to you:\n  1. stop the"), "{result}");
    assert_eq!(host.read("root/proc/sys/vm/swappiness"), "1\n");
    assert_eq!(host.read("root/proc/sys/vm/laptop_mode"), "0\n");
    assert!(host.read("root/etc/sysctl.d/60-millrace.conf").contains("vm.swappiness = 1\n"));
    assert!(host.read("root/etc/fstab").contains("rw,hard,"));

    let reverted = host.tune("revert", &[]);
    assert_eq!(reverted.status.code(), Some(0), "{}{}", out(&reverted), err(&reverted));
    assert!(out(&reverted).contains(" changes reverted (record: "), "{}", out(&reverted));
    assert_eq!(tree(&host.path("root")), before);
    let again = host.tune("revert", &["--all"]);
    assert!(again.status.code() == Some(0) && out(&again).contains("nothing to revert"));
}

#[test]
fn what_a_process_uses_and_what_somebody_changed_is_refused_with_code_1() {
    let host = Host::new();
    host.write("root/proc/815/comm", "postgres\n");
    host.write("root/proc/815/maps", "");
    fs::create_dir_all(host.path("root/proc/815/fd")).unwrap();
    std::os::unix::fs::symlink("/redo/pg_wal", host.path("root/proc/815/cwd")).unwrap();
    let applied = host.tune("apply", &["--yes"]);
    assert_eq!(applied.status.code(), Some(1));
    assert!(out(&applied).contains("pid 815 (postgres): /redo/pg_wal working directory"), "{}", out(&applied));

    host.write("root/etc/sysctl.d/60-millrace.conf", "theirs = 1\n");
    let reverted = host.tune("revert", &[]);
    assert_eq!(reverted.status.code(), Some(1));
    let said = err(&reverted);
    assert!(
        said.contains("changed by somebody else since: /etc/sysctl.d/60-millrace.conf") && said.contains("--force"),
        "{said}"
    );
    assert_eq!(host.tune("revert", &["--force"]).status.code(), Some(0));
    assert!(!host.path("root/etc/sysctl.d").exists());
}

#[test]
fn without_a_terminal_and_without_yes_nothing_is_asked_and_nothing_done() {
    let host = Host::new();
    let before = tree(&host.path("root"));
    let applied = host.tune("apply", &[]);
    assert_eq!(applied.status.code(), Some(2));
    assert!(err(&applied).contains("--yes"), "{}", err(&applied));
    assert_eq!(tree(&host.path("root")), before);
}

#[test]
fn json_names_the_steps_that_remain_and_the_exit_code_is_4() {
    let host = Host::new();
    let applied = host.tune("apply", &["--yes", "--json", "--rule", "linux-test-hard"]);
    assert_eq!(applied.status.code(), Some(4), "{}", err(&applied));
    let json: Value = serde_json::from_str(&out(&applied)).unwrap();
    let applied = &json["applied"];
    assert_eq!((&applied["steps_remain"], &applied["groups"][0]["outcome"]["remain"]), (&2.into(), &2.into()));
    assert_eq!(applied["groups"][0]["steps"][0]["text"], "stop the databases on it");
    assert_eq!(json["plan"]["files"][0]["path"], "/etc/fstab");
}

/// `millrace tune apply` on a terminal, to whose question `keys` are typed. The exit code, and what the terminal shows.
fn typed(host: &Host, keys: &str) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_millrace");
    let folder = host.0.path().display();
    let command = format!("{program} tune apply --root {folder}/root --rules {folder}/rules --state {folder}/state");
    let mut child =
        Command::new("python3").args(["-c", TYPES, &command, keys]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut shown = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut shown).unwrap();
    (child.wait().unwrap().code(), shown)
}

/// Runs a command on a new terminal, types the keys, one for each question, and ends with the command's code.
const TYPES: &str = "
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp('sh', ['sh', '-c', 'exec ' + sys.argv[1]])
seen, answered = '', 0
while True:
    try:
        more = os.read(terminal, 65536)
    except OSError:
        break
    if not more:
        break
    seen += more.decode()
    while seen.count('later groups: ') > answered and answered < len(sys.argv[2]):
        key = sys.argv[2][answered].encode()
        os.write(terminal, key if key == b'\\x03' else key + b'\\n')
        answered += 1
print(seen)
sys.stdout.flush()
status = os.waitpid(pid, 0)[1]
os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
";

#[test]
fn an_answer_of_no_and_ctrl_c_at_the_question_leave_nothing() {
    let Some(_) = find_program("python3") else { return skip("no python3") };
    let host = Host::new();
    let before = tree(host.0.path());
    for (keys, code, lines) in [
        ("nn", 1, &["live: declined, nothing changed", "remount: declined, nothing changed"][..]),
        ("q", 1, &["live: declined, nothing changed", "remount: declined, nothing changed"][..]),
        ("xn\n", 1, &["(1 change)? y = yes; n or Enter = no", "(1 change, 2 steps left to you)? y"][..]),
        ("\u{3}", 130, &[][..]),
    ] {
        let (ended, shown) = typed(&host, keys);
        assert_eq!(ended, Some(code), "{keys:?}: {shown}");
        for line in lines {
            assert!(shown.contains(line), "{keys:?}: {line}: {shown}");
        }
        assert_eq!(tree(host.0.path()), before, "{keys:?}: {shown}");
    }
    let (code, shown) = typed(&host, "yn");
    assert!(code == Some(1) && shown.contains("live: done: 1 file written, 1 running value set"), "{shown}");
    assert!(!shown.contains("NOT DONE YET"), "{shown}");
}

#[test]
fn a_root_without_a_host_is_refused_and_not_taken_for_one_without_findings() {
    let host = Host::new();
    fs::create_dir(host.path("empty")).unwrap();
    for name in ["empty", "missing"] {
        for order in ["plan", "apply", "revert", "explain"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
            command.args(["tune", order, "--root"]).arg(host.path(name));
            command.args(match order {
                "apply" => &["--yes"][..],
                "explain" => &["linux-swappiness"][..],
                _ => &[],
            });
            let output = command.stdin(std::process::Stdio::null()).output().unwrap();
            let said = err(&output);
            assert_eq!(output.status.code(), Some(2), "{order}: {}{said}", out(&output));
            assert!(said.contains("millrace: cannot use --root") && said.contains("no Linux host found in "), "{order}: {said}");
            assert!(said.contains("hint: name the directory that holds"), "{order}: {said}");
        }
    }
    assert!(!host.path("missing").exists() && fs::read_dir(host.path("empty")).unwrap().next().is_none());
}

#[test]
fn a_named_rule_is_done_alone_whatever_keeps_it_apart_and_an_unknown_name_is_an_error() {
    let host = Host::new();
    let applied = host.tune("apply", &["--yes", "--rule", "linux-test-danger", "--json"]);
    assert_eq!(applied.status.code(), Some(0), "{}", err(&applied));
    let json: Value = serde_json::from_str(&out(&applied)).unwrap();
    assert_eq!(json["applied"]["groups"][0]["outcome"]["kind"], "done");
    assert_eq!(json["applied"]["steps_remain"], 0);
    assert!(err(&applied).contains("DANGER"), "{}", err(&applied));
    assert_eq!(host.read("root/proc/sys/vm/laptop_mode"), "1\n");
    assert_eq!(host.read("root/proc/sys/vm/swappiness"), "60\n");

    let unknown = host.tune("plan", &["--rule", "linux-test-swapiness"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(err(&unknown).contains("did you mean linux-test-swappiness?"), "{}", err(&unknown));
}

#[test]
fn explain_says_what_the_rule_says_and_what_it_means_here() {
    let host = Host::new();
    let output = host.tune("explain", &["linux-test-hard"]);
    let text = out(&output);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    for line in [
        "Mounts are hard",
        "a test",
        "mount /redo: does not hold",
        "first stop the databases on it",
        "writes /etc/fstab",
        "2. unmount the file",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}
