//! Programs of open-iscsi and multipath-tools.

use super::error::KernelError;
use super::waiting::{Waiting, until};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// How much of a program's output is read: `iscsiadm` writes some lines.
const SAID_BYTES_MAX: usize = 16 << 10;

/// How a program ended.
pub(super) struct Ended {
    /// `None` if a signal ended it.
    pub(super) code: Option<i32>,
    /// What it printed, on stdout and stderr.
    pub(super) said: String,
}

/// Runs a program to its end, or ends it if it takes longer than the limit. No secret may be among the words, because every user
/// of the host can see them.
///
/// The program has a process group of its own: Ctrl-C reaches only this process, which then undoes what was done.
pub(super) fn run(
    program: &'static str,
    words: &[impl AsRef<str>],
    limit: Duration,
    waiting: &dyn Waiting,
) -> Result<Ended, KernelError> {
    let fault = |source| KernelError::Program { program, source };
    // The output goes to a file and not to a pipe, because a daemon that the program starts may
    // keep its end of a pipe open.
    let said = memfd_create("said", MemfdFlags::CLOEXEC).map_err(|errno| fault(errno.into()))?;
    let said = File::from(said);
    let mut command = Command::new(program);
    command.args(words.iter().map(AsRef::<str>::as_ref)).current_dir("/").process_group(0).stdin(Stdio::null());
    command.stdout(said.try_clone().map_err(fault)?).stderr(said.try_clone().map_err(fault)?);
    let mut child = command.spawn().map_err(fault)?;
    let status: ExitStatus = match until(program, limit, waiting, || child.try_wait().transpose()) {
        Ok(Some(status)) => status.map_err(fault)?,
        late => {
            // If the program has ended meanwhile, this does nothing.
            let _ = child.kill();
            let _ = child.wait();
            let seconds = limit.as_secs();
            return Err(late.err().unwrap_or_else(|| KernelError::Late { program, arguments: joined(words), seconds }));
        }
    };
    let mut bytes = vec![0; SAID_BYTES_MAX];
    let count = said.read_at(&mut bytes, 0).map_err(fault)?;
    bytes.truncate(count);
    Ok(Ended { code: status.code(), said: in_a_line(&String::from_utf8_lossy(&bytes)) })
}

/// As [`run`], for a program that must succeed. Returns what it printed.
pub(super) fn expect(
    program: &'static str,
    words: &[impl AsRef<str>],
    limit: Duration,
    waiting: &dyn Waiting,
) -> Result<String, KernelError> {
    let ended = run(program, words, limit, waiting)?;
    if ended.code == Some(0) { Ok(ended.said) } else { Err(failed(program, words, ended)) }
}

/// The error of a program that did not succeed.
pub(super) fn failed(program: &'static str, words: &[impl AsRef<str>], ended: Ended) -> KernelError {
    let said = match ended.code {
        _ if !ended.said.is_empty() => ended.said,
        Some(code) => format!("exit code {code}"),
        None => "ended by a signal".to_owned(),
    };
    KernelError::Failed { program, arguments: joined(words), said }
}

fn joined(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::<str>::as_ref).collect();
    words.join(" ")
}

fn in_a_line(said: &str) -> String {
    said.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::waiting::Nobody;
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn what_a_program_says_is_read_to_its_end_and_its_code_is_told() {
        let ended = run("sh", &["-c", "echo one; echo two >&2; exit 21"], LIMIT, &Nobody).unwrap();
        assert_eq!((ended.code, ended.said.as_str()), (Some(21), "one; two"));
        assert_eq!(expect("sh", &["-c", "echo ' fine '"], LIMIT, &Nobody).unwrap(), "fine");
        let error = expect("sh", &["-c", "exit 3"], LIMIT, &Nobody).unwrap_err();
        assert_eq!(error.to_string(), "sh -c exit 3: exit code 3");
    }

    #[test]
    fn a_daemon_that_keeps_its_output_open_is_not_waited_for() {
        let began = std::time::Instant::now();
        assert_eq!(expect("sh", &["-c", "sleep 20 & echo started"], LIMIT, &Nobody).unwrap(), "started");
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let error = run("sleep", &["1000"], Duration::from_millis(50), &Nobody).err().unwrap();
        assert!(error.to_string().starts_with("sleep 1000: did not end within"), "{error}");
        assert!(matches!(run("no-such-program", &["x"], LIMIT, &Nobody), Err(KernelError::Program { .. })));
    }
}
