//! A mount and programs under `millrace exec` on one host.

use crate::mounted::Mounted;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A shell under `millrace exec` that runs one line at a time and prints a line after each.
struct Beside {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Beside {
    fn start(mounted: &Mounted) -> Self {
        let mut command = mounted.world.exec("/bin/sh");
        command.args(["-c", "while read -r line; do eval \"$line\"; echo; done"]);
        let mut child: Child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    /// Returns what a command prints, in one line.
    fn does(&mut self, command: &str) -> String {
        writeln!(self.stdin, "printf '%s' \"$({{ {command} ; }} 2>&1)\"").unwrap();
        self.line()
    }

    /// Runs a command that prints nothing in the shell itself.
    fn runs(&mut self, command: &str) {
        writeln!(self.stdin, "{command}").unwrap();
        assert_eq!(self.line(), "", "{command}");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_a_program_writes_is_seen_through_the_mount_at_once_and_the_other_way_round() {
    let Some(mounted) = Mounted::new("fuse-coherence") else { return };
    let path = mounted.path("f");
    let mut here = OpenOptions::new().read(true).append(true).create(true).open(&path).unwrap();
    let mut beside = Beside::start(&mounted);
    beside.runs("exec 5>>/db/f 6</db/f");
    for round in 1..=20u64 {
        beside.runs("echo 012345678 >&5");
        let size = round * 20 - 10;
        assert_eq!(here.metadata().unwrap().len(), size, "fstat");
        assert_eq!(path.metadata().unwrap().len(), size, "stat");
        let mut bytes = [0; 10];
        assert_eq!(here.read_at(&mut bytes, size - 10).unwrap(), 10);
        assert_eq!(&bytes, b"012345678\n");
        here.write_all(b"abcdefghi\n").unwrap();
        assert_eq!(beside.does("stat -c %s /db/f"), (size + 10).to_string());
        assert_eq!(beside.does("tail -n 1 /db/f"), "abcdefghi");
    }
    beside.runs(": >/db/f");
    assert_eq!(here.metadata().unwrap().len(), 0, "truncated");
}

#[test]
fn a_file_removed_on_one_side_stays_for_who_has_it_open_on_the_other() {
    let Some(mounted) = Mounted::new("fuse-removed") else { return };
    let mut beside = Beside::start(&mounted);
    fs::write(mounted.path("theirs"), "theirs").unwrap();
    fs::write(mounted.path("ours"), "ours").unwrap();
    beside.runs("exec 5</db/theirs");
    let ours = File::open(mounted.path("ours")).unwrap();
    fs::remove_file(mounted.path("theirs")).unwrap();
    beside.runs("rm /db/ours");
    assert!(!mounted.path("ours").exists() && beside.does("ls /db").is_empty());
    assert_eq!(beside.does("cat <&5"), "theirs");
    let mut bytes = [0; 4];
    ours.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"ours");
    beside.runs("exec 5<&-");
    drop(ours);
    assert!(mounted.unmount().status.success());
    mounted.world.nothing_left_behind();
}

#[test]
fn names_made_and_moved_on_one_side_are_there_on_the_other() {
    let Some(mounted) = Mounted::new("fuse-names") else { return };
    let mut beside = Beside::start(&mounted);
    for round in 0..10 {
        beside.runs(&format!("mkdir /db/d{round}; echo {round} >/db/d{round}/f"));
        assert_eq!(fs::read_to_string(mounted.path(&format!("d{round}/f"))).unwrap(), format!("{round}\n"));
        fs::rename(mounted.path(&format!("d{round}")), mounted.path(&format!("e{round}"))).unwrap();
        assert_eq!(beside.does(&format!("cat /db/e{round}/f; ls /db/d{round} 2>/dev/null || echo gone")), format!("{round}"));
        assert_eq!(beside.line(), "gone");
    }
}

#[test]
fn users_who_share_a_group_share_the_state_of_the_mount() {
    let Some(mounted) = Mounted::served("fuse-group", "", &["--group", "4909"]) else { return };
    mounted.shell("chmod 777 .; : >f; chmod 666 f");
    let locked = File::open(mounted.path("f")).unwrap();
    locked.try_lock().unwrap();
    let mut command = Command::new("setpriv");
    let binary = crate::support::millrace().get_program().to_owned();
    command.args(["--reuid", "4001", "--regid", "4001", "--groups", "4909"]).arg(binary);
    command.env_remove("MILLRACE_RUNTIME_DIR").args([
        "exec",
        "--group",
        "4909",
        "--mount",
        &format!("/db={}", mounted.filer().url),
        "--",
    ]);
    command.args(["sh", "-c", "flock -n /db/f true || echo locked"]).current_dir("/");
    command.env("MILLRACE_PRELOAD", crate::support::preload_library());
    assert_eq!(crate::support::succeed(&mut command), "locked\n");
    drop(mounted);
    let _ = fs::remove_dir_all("/dev/shm/millrace-group-4909");
}
