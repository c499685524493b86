//! What `millrace guest run` promises for any command: its output, its exit code, its time limit,
//! and that nothing is left.

use crate::booted::{can_boot, guest, kernel};
use crate::support::{Scratch, await_until, succeed, text};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time limit of a boot on a busy host.
const BOOT_MAX: Duration = Duration::from_secs(100);

/// `millrace guest run` that puts its temporary files into this scratch folder.
fn run(scratch: &Scratch) -> Command {
    let mut command = guest("run");
    command.env("TMPDIR", scratch.path());
    command
}

/// The temporary files of guest runs in this scratch folder.
fn left_in(scratch: &Scratch) -> Vec<PathBuf> {
    let entries = fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("millrace-guest-")).collect()
}

/// The QEMU processes: those whose arguments name these temporary files.
fn processes_of(scratch: &Scratch) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cmdline"));
    let lines = entries.filter_map(|file| Some(String::from_utf8_lossy(&fs::read(file).ok()?).replace('\0', " ")));
    let files = scratch.path().join("millrace-guest-").display().to_string();
    lines.filter(|line| line.contains(&files)).collect()
}

/// A guest whose command has started and does not end.
fn endless(scratch: &Scratch) -> Child {
    let mut child = run(scratch).args(["--", "sh", "-c", "echo up; exec sleep 1000"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    child
}

#[test]
fn a_command_has_its_output_input_exit_code_and_shared_directory_and_the_host_stays_as_it_was() {
    if !can_boot(&[]) {
        return;
    }
    let scratch = Scratch::new("guest-life");
    let share = scratch.folder("share");
    let script = "cat; echo error >&2; uname -r >kernel; ip -4 -o addr | tr -s ' ' | cut -d' ' -f2,4; id -u; \
                  head -c 300000 /dev/zero | tr '\\0' x; touch /millrace-was-here; sleep 1000 & exit 7";
    let mut command = run(&scratch);
    command.args(["--nics", "2", "--stdin", "--share"]).arg(&share).args(["--", "sh", "-c", script]).current_dir(&share);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from the host\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error\n");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let before = "from the host\nlo 127.0.0.1/8\neth0 10.0.2.15/24\neth1 10.0.3.15/24\n0\n";
    assert_eq!(&stdout[..before.len()], before);
    assert_eq!(stdout[before.len()..].len(), 300_000, "every byte before the exit code has come");
    assert_eq!(fs::read_to_string(share.join("kernel")).unwrap().trim(), kernel());
    assert!(!Path::new("/millrace-was-here").exists(), "what the guest wrote to its root is gone");
    assert_eq!((left_in(&scratch), processes_of(&scratch)), (vec![], vec![]));
}

#[test]
#[ignore = "nightly: two boots of a guest"]
fn a_guest_that_does_not_boot_or_takes_too_long_is_told_with_its_console_and_leaves_nothing() {
    if !can_boot(&[]) {
        return;
    }
    let scratch = Scratch::new("guest-fails");
    let output = run(&scratch).args(["--append", "rdinit=/missing", "--", "true"]).output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.starts_with("millrace: cannot boot the guest") && said.contains("Kernel panic"), "{said}");
    assert!(said.contains("console.log"), "where the whole console is: {said}");
    let output = run(&scratch).args(["--timeout", "1s", "--", "true"]).output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(124), "{said}");
    assert!(
        said.contains("the time limit of 1 s was reached") && said.contains("hint: raise the limit with --timeout"),
        "{said}"
    );
    assert_eq!((left_in(&scratch), processes_of(&scratch)), (vec![], vec![]));
}

#[test]
#[ignore = "nightly: two boots of a guest"]
fn the_guest_ends_with_the_process_that_runs_it_by_a_signal_too() {
    if !can_boot(&[]) {
        return;
    }
    let scratch = Scratch::new("guest-signals");
    let mut child = endless(&scratch);
    assert_eq!(processes_of(&scratch).len(), 1, "QEMU");
    succeed(Command::new("kill").args(["-INT", &child.id().to_string()]));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!((left_in(&scratch), processes_of(&scratch)), (vec![], vec![]), "after SIGINT");

    let mut child = endless(&scratch);
    child.kill().unwrap();
    child.wait().unwrap();
    await_until("QEMU to end", BOOT_MAX, || processes_of(&scratch).is_empty().then_some(()));
    assert_eq!(left_in(&scratch).len(), 1, "SIGKILL leaves the directory");
    let output = run(&scratch).args(["--timeout", "1s", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(124), "{}", text(&output));
    assert_eq!(left_in(&scratch), [] as [PathBuf; 0], "the next run removes it");
}

#[test]
#[ignore = "nightly: a boot of a guest"]
fn a_reader_that_goes_away_ends_the_guest() {
    if !can_boot(&[]) {
        return;
    }
    let scratch = Scratch::new("guest-pipe");
    let mut child = run(&scratch).args(["--", "yes"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 2]).unwrap();
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(141));
    assert_eq!((left_in(&scratch), processes_of(&scratch)), (vec![], vec![]));
}
