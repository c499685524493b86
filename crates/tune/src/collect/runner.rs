//! Runs commands that only read. Their time and output are limited, their input is empty, and no
//! shell is used.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use host::Unpoisoned;

use super::limits::{ASKED_TIME_MAX, COMMAND_TIME_MAX, COMMANDS_AT_A_TIME, ERROR_BYTES_MAX, FILE_BYTES_MAX};

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    /// The command ended: exit code, standard output, and the line of its standard error that names
    /// the cause.
    Ended(i32, Vec<u8>, String),
    /// The command could not be run or did not end in time, for this reason.
    Not(String),
}

/// Runs commands. Tests replace it by recorded outputs.
pub trait Runner: Sync {
    /// Runs a program with its arguments. `line` has the program first.
    fn run(&self, line: &[&str]) -> Ran;

    /// Runs a program as this user and group, with only LC_ALL in its environment. If the output
    /// reports that something was not permitted, the result is [`Ran::Not`].
    fn run_as(&self, line: &[&str], _user: (u32, u32)) -> Ran {
        self.run(line)
    }
}

/// Runs programs of this host, each with a minimal environment.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostRunner;

impl Runner for HostRunner {
    fn run(&self, line: &[&str]) -> Ran {
        let Some((program, arguments)) = line.split_first() else { return Ran::Not("no command".to_owned()) };
        let mut command = Command::new(program);
        // The environment has only PATH and LC_ALL. PATH also gets the folders of system programs,
        // which an ordinary user's PATH lacks.
        let path = format!("{}:/usr/sbin:/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_default());
        command.args(arguments).env_clear().env("PATH", &path).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => wait(child, COMMAND_TIME_MAX),
            Err(fault) if is_missing(program, &path, &fault) => Ran::Not("there is no such command".to_owned()),
            Err(fault) => Ran::Not(fault.to_string()),
        }
    }

    fn run_as(&self, line: &[&str], (uid, gid): (u32, u32)) -> Ran {
        let Some((program, arguments)) = line.split_first() else { return Ran::Not("no command".to_owned()) };
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("LC_ALL", "C").current_dir("/").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if fs::metadata("/proc/self").is_ok_and(|own| own.uid() != uid) {
            command.uid(uid).gid(gid);
        }
        let ran = match command.spawn() {
            Ok(child) => wait(child, ASKED_TIME_MAX),
            Err(fault) => Ran::Not(fault.to_string()),
        };
        match ran {
            Ran::Ended(_, output, complaint) if is_denied(&output) || is_denied(complaint.as_bytes()) => {
                Ran::Not(DENIED.to_owned())
            }
            ran => ran,
        }
    }
}

/// Words of a line, after its time, in which a database's program reports an error.
pub(super) const ERRORS: &[&str] = &["[ERROR]", "ERROR:", "error:", "FATAL", "Fatal error"];

/// The words with which MariaDB reports that it uses another value instead.
pub(super) const ADJUSTED: &str = "adjusted to";

/// Whether a program that could not be started is in no directory of a search path. execvp(3) reports EACCES for a missing program if this user
/// may not search one of the directories.
fn is_missing(program: &str, path: &str, fault: &std::io::Error) -> bool {
    let is_there = |directory: std::path::PathBuf| fs::symlink_metadata(directory.join(program)).is_ok();
    match fault.kind() {
        std::io::ErrorKind::NotFound => true,
        std::io::ErrorKind::PermissionDenied => !program.contains('/') && !std::env::split_paths(path).any(is_there),
        _ => false,
    }
}

fn is_denied(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).to_ascii_lowercase().contains(DENIED)
}

/// The words, in any case, with which a program reports that it could not read a part of its
/// configuration.
pub(super) const DENIED: &str = "permission denied";

/// Runs nothing and reports every command as absent. For root folders other than this host's.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRunner;

impl Runner for NoRunner {
    fn run(&self, _line: &[&str]) -> Ran {
        Ran::Not("commands are not run for another root folder".to_owned())
    }
}

/// Reads the output of a child until it ends. Kills the child after `time_max`.
fn wait(mut child: Child, time_max: Duration) -> Ran {
    let begin = Instant::now();
    let output = child.stdout.take().map(|pipe| drain(pipe, FILE_BYTES_MAX + 1));
    let complaints = child.stderr.take().map(|pipe| drain(pipe, ERROR_BYTES_MAX));
    let mut texts = [output, complaints].into_iter().map(|pipe| {
        let left = time_max.saturating_sub(begin.elapsed());
        pipe.and_then(|pipe| pipe.recv_timeout(left).ok())
    });
    let (output, complaints) = (texts.next().flatten(), texts.next().flatten());
    let left = if output.is_some() { time_max.saturating_sub(begin.elapsed()) } else { Duration::ZERO };
    let status = host::poll(left, Duration::from_millis(1), || child.try_wait());
    let (Ok(Some(status)), Some(output)) = (status, output) else {
        // Both calls fail only if the child ended in the meantime.
        let _ = child.kill();
        let _ = child.wait();
        return Ran::Not(format!("it did not end within {} ms", time_max.as_millis()));
    };
    let complaint = complaint(&String::from_utf8_lossy(&complaints.unwrap_or_default()));
    Ran::Ended(status.code().unwrap_or(-1), output, complaint)
}

/// The line of standard error that names the cause. A program may print warnings before it.
fn complaint(complaints: &str) -> String {
    let is_error = |line: &&str| ERRORS.iter().any(|word| line.contains(word));
    let denied = complaints.lines().find(|line| is_denied(line.as_bytes())).or_else(|| complaints.lines().find(is_error));
    let denied = denied.or_else(|| complaints.lines().find(|line| line.contains(ADJUSTED)));
    // The last line of multipath is the error that ended it.
    let timed = || complaints.lines().filter_map(without_time).next_back();
    let line = denied.or_else(timed).or_else(|| complaints.lines().next()).unwrap_or_default();
    without_time(line).unwrap_or(line).trim().to_owned()
}

/// A line of multipath-tools without its time: `5162.557909 | cannot get kernel dm version`.
fn without_time(line: &str) -> Option<&str> {
    let (time, rest) = line.split_once(" | ")?;
    let is_time = time.contains('.') && time.bytes().all(|letter| letter.is_ascii_digit() || letter == b'.');
    is_time.then_some(rest)
}

/// Reads a pipe on its own thread. Keeps at most `bytes_max` bytes and drops the rest.
fn drain(mut pipe: impl Read + Send + 'static, bytes_max: usize) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        let mut piece = [0; 16 << 10];
        loop {
            match pipe.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => {
                    let room = bytes_max.saturating_sub(kept.len());
                    kept.extend_from_slice(&piece[..count.min(room)]);
                }
                Err(fault) if fault.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // There is no receiver any more if the time was up.
        let _ = sender.send(kept);
    });
    receiver
}

/// Runs several commands at the same time. The results are in the order of the commands.
pub fn run_all(runner: &dyn Runner, lines: &[Vec<String>]) -> Vec<Ran> {
    run_each(lines, &|words| runner.run(words))
}

/// As [`run_all`], with a function that runs a command.
pub(super) fn run_each(lines: &[Vec<String>], run: &(dyn Fn(&[&str]) -> Ran + Sync)) -> Vec<Ran> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Ran>> = lines.iter().map(|_| Mutex::new(Ran::Not("not run".to_owned()))).collect();
    thread::scope(|scope| {
        for _ in 0..COMMANDS_AT_A_TIME.min(lines.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(line), Some(place)) = (lines.get(index), results.get(index)) else { return };
                    let words: Vec<&str> = line.iter().map(String::as_str).collect();
                    *place.lock().unpoisoned() = run(&words);
                }
            });
        }
    });
    results.into_iter().map(|ran| ran.into_inner().unpoisoned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gives_code_output_and_complaint() {
        let ran = HostRunner.run(&["sh", "-c", "echo out; echo bad >&2; exit 3"]);
        assert_eq!(ran, Ran::Ended(3, b"out\n".to_vec(), "bad".to_owned()));
        assert!(matches!(HostRunner.run(&["no-such-command-at-all"]), Ran::Not(reason) if reason.contains("no such command")));
    }

    #[test]
    fn a_program_that_is_nowhere_is_missing_also_if_a_directory_of_path_may_not_be_searched() {
        let denied = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert!(is_missing("no-such-command-at-all", "/root:/usr/bin:/bin", &denied()));
        assert!(!is_missing("sh", "/root:/usr/bin:/bin", &denied()));
        assert!(!is_missing("/no/such", "/bin", &denied()));
        assert!(is_missing("/no/such", "/bin", &std::io::Error::from(std::io::ErrorKind::NotFound)));
    }

    #[test]
    fn of_multipath_the_last_line_is_the_complaint_and_it_has_no_time() {
        let lines = "5162.557909 | can't set open fds limit to 1048576/1048576\nCheck that device-mapper is available.\n\
                     5162.558000 | cannot get kernel dm version\n";
        assert_eq!(complaint(lines), "cannot get kernel dm version");
        let denied = "1.2 | couldn't open '/etc/multipath/conf.d': Permission denied\n1.3 | other\n";
        assert_eq!(complaint(denied), "couldn't open '/etc/multipath/conf.d': Permission denied");
        assert_eq!(complaint("a | b\nc\n"), "a | b");
    }

    #[test]
    fn a_command_that_does_not_end_is_killed() {
        let child = Command::new("sleep").arg("600").stdout(Stdio::piped()).spawn().unwrap();
        assert!(matches!(wait(child, Duration::from_millis(30)), Ran::Not(_)));
    }

    #[test]
    fn output_beyond_the_limit_is_dropped_and_the_command_still_ends() {
        let ran = HostRunner.run(&["sh", "-c", "dd if=/dev/zero bs=65536 count=200 2>/dev/null"]);
        assert!(matches!(ran, Ran::Ended(0, output, _) if output.len() == FILE_BYTES_MAX + 1));
    }
}
