//! Child processes that cannot outlive the comparison.
//!
//! Each child has its own process group (Ctrl-C at the terminal reaches only this
//! process, which then stops the children in order), dies with this process, and writes
//! its output into a log file of the work directory. Dropping it ends its complete process tree.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::host::interrupt;
use crate::host::procfs;
use crate::limits::{KILL_AFTER, LOG_LINES_SHOWN, LOG_TAIL_BYTES};
use crate::sys::{self, User};

/// Parameters for starting a child.
pub(crate) struct Launch<'a> {
    /// Its role in the comparison, for messages: `the filer`.
    pub(crate) name: &'a str,
    /// Program and arguments.
    pub(crate) command: Command,
    /// User to run as; `None` for the current one.
    pub(crate) user: Option<&'a User>,
    /// Its standard error (and output, unless piped).
    pub(crate) log: PathBuf,
    /// Whether standard output is read through a pipe.
    pub(crate) pipe_stdout: bool,
    /// Whether standard error is read through a pipe.
    pub(crate) pipe_stderr: bool,
    /// Signal that stops it at once but allows it to clean up.
    pub(crate) stop_signal: i32,
}

/// A running child.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    stop_signal: i32,
    ended: Option<ExitStatus>,
}

impl<'a> Launch<'a> {
    /// A child without pipes, stopped by SIGTERM.
    pub(crate) fn new(name: &'a str, command: Command, log: PathBuf) -> Self {
        let stop_signal = libc::SIGTERM;
        Self { name, command, user: None, log, pipe_stdout: false, pipe_stderr: false, stop_signal }
    }

    /// Starts it. Must be called on the main thread, because the kernel ends the child when the
    /// starting thread ends.
    pub(crate) fn start(mut self) -> Result<Process, LabError> {
        let log = File::options().create(true).append(true).open(&self.log).map_err(LabError::file("open log", &self.log))?;
        let again = log.try_clone().map_err(LabError::file("open log", &self.log))?;
        self.command.stdin(Stdio::null());
        self.command.stdout(if self.pipe_stdout { Stdio::piped() } else { log.into() });
        self.command.stderr(if self.pipe_stderr { Stdio::piped() } else { again.into() });
        if let Some(user) = self.user
            && user.uid != sys::effective_uid()
        {
            self.command.uid(user.uid).gid(user.gid);
        }
        sys::bind_to_parent(&mut self.command, self.stop_signal);
        let program = self.command.get_program().to_string_lossy().into_owned();
        let child = self.command.spawn().map_err(|source| LabError::Start { program, source })?;
        Ok(Process { name: self.name.to_owned(), child, log: self.log, stop_signal: self.stop_signal, ended: None })
    }

    /// Starts it and waits for its end; an exit code other than 0 is an error with the
    /// end of its log.
    pub(crate) fn run(self, limit: Duration) -> Result<(), LabError> {
        self.start()?.succeed(limit)
    }

    /// As [`Self::run`]; what it printed.
    pub(crate) fn output(mut self, limit: Duration) -> Result<String, LabError> {
        self.pipe_stdout = true;
        let mut process = self.start()?;
        let Some(stdout) = process.take_stdout() else { return Err(process.failure("has no output")) };
        let reader = std::thread::spawn(move || std::io::read_to_string(stdout));
        process.succeed(limit)?;
        Ok(reader.join().ok().and_then(Result::ok).unwrap_or_default())
    }
}

impl Process {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    pub(crate) fn take_stderr(&mut self) -> Option<std::process::ChildStderr> {
        self.child.stderr.take()
    }

    /// The exit status, after it has ended.
    pub(crate) fn poll(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Waits for its end; `None` after `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, LabError> {
        interrupt::wait_for(limit, || Ok(self.poll()))
    }

    /// Waits for its end; an exit code other than 0 or an end after the limit is an error.
    fn succeed(&mut self, limit: Duration) -> Result<(), LabError> {
        match self.wait(limit)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.failure(&describe(status))),
            None => Err(self.failure(&format!("did not end within {} s", limit.as_secs()))),
        }
    }

    /// Asks it to stop with `signal` and waits; an exit other than 0 or too late is an error.
    pub(crate) fn stop(mut self, signal: i32, limit: Duration) -> Result<(), LabError> {
        let _ = sys::signal(self.pid(), signal);
        match self.wait(limit)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.failure(&format!("stopped badly: {}", describe(status)))),
            None => Err(self.failure(&format!("did not stop within {} s", limit.as_secs()))),
        }
    }

    /// An error about this child with the end of its log.
    pub(crate) fn failure(&self, outcome: &str) -> LabError {
        LabError::Program { program: self.name.clone(), outcome: outcome.to_owned(), detail: log_end(&self.log) }
    }

    /// The last lines of its log, each on its own line, or an empty text.
    pub(crate) fn log_end(&self) -> String {
        log_end(&self.log)
    }

    /// An error if it has ended unexpectedly.
    pub(crate) fn expect_alive(&mut self) -> Result<(), LabError> {
        match self.poll() {
            None => Ok(()),
            Some(status) => Err(self.failure(&describe(status))),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.poll().is_some() {
            return;
        }
        // Backends leave the process group (setsid), so the process tree is used instead.
        let tree = procfs::tree(self.pid());
        let _ = sys::signal(self.pid(), self.stop_signal);
        if ::host::poll(KILL_AFTER, interrupt::POLL_EVERY, || Ok::<_, ()>(self.poll())) == Ok(None) {
            for pid in tree.into_iter().chain(procfs::tree(self.pid())) {
                let _ = sys::signal(pid, libc::SIGKILL);
            }
            self.ended = self.child.wait().ok();
        }
    }
}

/// Ends all descendants of this process. Returns their number.
pub(crate) fn end_descendants() -> usize {
    let mut ended = HashSet::new();
    let end = Instant::now() + KILL_AFTER;
    loop {
        for pid in procfs::own_zombies() {
            sys::reap(pid);
        }
        let left = procfs::own_descendants();
        if left.is_empty() || Instant::now() >= end {
            return ended.len();
        }
        for pid in left {
            ended.insert(pid);
            let _ = sys::signal(pid, libc::SIGKILL);
        }
        std::thread::sleep(interrupt::POLL_EVERY);
    }
}

/// How a process ended, in words that follow its name.
pub(crate) fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// The last lines of a log, each on its own line, or an empty text.
pub(crate) fn log_end(log: &Path) -> String {
    let Ok(mut file) = File::open(log) else { return String::new() };
    let length = fs::metadata(log).map_or(0, |facts| facts.len());
    let mut bytes = Vec::new();
    if file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES))).is_err()
        || file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes).is_err()
    {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = lines.iter().skip(lines.len().saturating_sub(LOG_LINES_SHOWN));
    shown.fold(String::new(), |text, line| text + "\n    " + line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, log: &Path) -> Launch<'static> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Launch::new("the shell", command, log.to_owned())
    }

    #[test]
    fn dropping_a_process_that_ignores_sigterm_ends_its_whole_tree() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let mut launch = shell("sleep 1000 & sleep 1000 & echo ready; wait", &log);
        launch.stop_signal = libc::SIGCONT; // a child that does not listen
        let process = launch.start().unwrap();
        let tree = interrupt::wait_for(Duration::from_secs(10), || {
            let tree = procfs::tree(process.pid());
            Ok((tree.len() == 3).then_some(tree))
        });
        let tree = tree.unwrap().expect("three processes");
        drop(process);
        for pid in tree {
            let gone = interrupt::wait_for(Duration::from_secs(10), || Ok(procfs::start_ticks(pid).is_none().then_some(())));
            assert!(gone.unwrap().is_some(), "{pid} still lives");
        }
    }

    #[test]
    fn failing_program_is_reported_with_the_end_of_its_log() {
        let directory = tempfile::tempdir().unwrap();
        let launch = shell("echo the disk is on fire >&2; exit 7", &directory.path().join("log"));
        let error = launch.run(Duration::from_secs(10)).unwrap_err().to_string();
        assert!(error.contains("the shell ended with exit code 7"), "{error}");
        assert!(error.contains("\n    the disk is on fire"), "{error}");
    }

    #[test]
    fn stop_waits_for_a_clean_end() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done";
        let process = shell(script, &log).start().unwrap();
        let ready = interrupt::wait_for(Duration::from_secs(10), || Ok(log_end(&log).contains("ready").then_some(())));
        assert!(ready.unwrap().is_some());
        process.stop(libc::SIGTERM, Duration::from_secs(10)).unwrap();
        assert!(log_end(&log).ends_with("bye"));
    }
}
