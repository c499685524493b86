//! The load as child processes: `millrace orders load`, `run` and `check`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use results::compare::Checks;
use results::orders_run::OrdersRun;
use serde_json::Value;

use crate::error::LabError;
use crate::host::interrupt;
use crate::host::process::{Launch, Process, describe};
use crate::limits::{DRIVER_GRACE, SECONDS_MAX};

/// The load's program, and the database that it uses.
pub(crate) struct Orders<'a> {
    /// The `millrace` binary.
    pub(crate) program: &'a Path,
    /// DSN of the database.
    pub(crate) dsn: &'a str,
    /// Directory for logs and records.
    pub(crate) logs: &'a Path,
}

/// Order for the driver's run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunOrder {
    pub(crate) users: u32,
    pub(crate) threads: u32,
    pub(crate) seconds: u64,
    pub(crate) warmup_seconds: u64,
    pub(crate) seed: u64,
}

impl RunOrder {
    /// Arguments of `orders run` for this order, with further options of the command.
    pub(crate) fn words(self, options: &[String]) -> Vec<String> {
        let own = [
            ("-c", u64::from(self.users)),
            ("-j", u64::from(self.threads)),
            ("-T", self.seconds),
            ("--warmup", self.warmup_seconds),
            ("--seed", self.seed),
        ];
        let own = own.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_string()]);
        own.chain(["--marks", "--progress"].map(str::to_owned)).chain(options.iter().cloned()).collect()
    }
}

/// A moment that the driver reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Warm-up has ended.
    Measuring,
    /// The interval has ended.
    Measured,
}

/// A second of the load: seconds since its start, and the orders in it.
pub(crate) type Second = (u64, u64);

/// A running driver.
pub(crate) struct Driver {
    process: Process,
    lines: Receiver<String>,
    record: PathBuf,
    log: PathBuf,
    /// Completed seconds with the orders in each, and the last line about them.
    seconds: Vec<Second>,
    last_second: Second,
    written: String,
    end: Instant,
}

impl Orders<'_> {
    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(self.program);
        command.args(["orders", verb, "--db", self.dsn]).current_dir("/");
        command
    }

    /// Loads `warehouses` into the empty database; passes progress lines to `on_line`.
    pub(crate) fn load(&self, warehouses: u32, jobs: u32, on_line: &mut dyn FnMut(&str)) -> Result<(), LabError> {
        let mut command = self.command("load");
        command.args(["--warehouses", &warehouses.to_string(), "-j", &jobs.to_string()]);
        let log = self.logs.join("load.log");
        let mut launch = Launch::new("the loader", command, log.clone());
        launch.pipe_stderr = true;
        launch.stop_signal = libc::SIGKILL; // it holds nothing that needs an orderly end
        let mut process = launch.start()?;
        let lines = stderr_lines(&mut process);
        let mut written = String::new();
        loop {
            interrupt::check()?;
            match lines.recv_timeout(interrupt::POLL_EVERY) {
                Ok(line) => {
                    on_line(&line);
                    written += &line;
                    written.push('\n');
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        append(&log, &written)?;
        match process.wait(DRIVER_GRACE)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(process.failure(&describe(status))),
            None => Err(process.failure("did not end")),
        }
    }

    /// Starts one run, with further options of the command.
    pub(crate) fn start(&self, order: RunOrder, options: &[String], sequence: u32) -> Result<Driver, LabError> {
        let record = self.logs.join(format!("run-{sequence}.json"));
        let log = self.logs.join(format!("run-{sequence}.log"));
        let mut command = self.command("run");
        command.arg("--record").arg(&record).args(order.words(options));
        let mut launch = Launch::new("the driver", command, log.clone());
        launch.pipe_stderr = true;
        launch.stop_signal = libc::SIGKILL; // it holds nothing that needs an orderly end
        let mut process = launch.start()?;
        let lines = stderr_lines(&mut process);
        let planned = Duration::from_secs(order.seconds + order.warmup_seconds);
        let end = Instant::now() + planned + DRIVER_GRACE;
        Ok(Driver { process, lines, record, log, seconds: Vec::new(), last_second: (0, 0), written: String::new(), end })
    }

    /// Checks the consistency conditions after a run. A failed condition is a result, not
    /// an error. `alive` is called while it runs.
    pub(crate) fn check(&self, sequence: u32, alive: &mut dyn FnMut() -> Result<(), LabError>) -> Result<Checks, LabError> {
        let log = self.logs.join(format!("check-{sequence}.log"));
        let mut command = self.command("check");
        command.arg("--json");
        let mut launch = Launch::new("the consistency check", command, log.clone());
        launch.pipe_stdout = true;
        launch.stop_signal = libc::SIGKILL;
        let mut process = launch.start()?;
        let Some(stdout) = process.take_stdout() else { return Err(process.failure("has no output")) };
        let reader = std::thread::spawn(move || std::io::read_to_string(stdout));
        let ended = interrupt::wait_for(Duration::from_secs(3600), || {
            alive()?;
            Ok(process.poll())
        })?;
        let Some(status) = ended else {
            return Err(process.failure("did not end within an hour"));
        };
        let text = reader.join().ok().and_then(Result::ok).unwrap_or_default();
        append(&log, &text)?;
        // Exit code 1 means a failed condition, which has a record, or a check that could not be carried out.
        if !matches!(status.code(), Some(0 | 1)) || text.is_empty() {
            return Err(process.failure(&describe(status)));
        }
        let record: Value =
            serde_json::from_str(&text).map_err(|source| LabError::Record { program: "the consistency check", source })?;
        let checks = read_checks(&record);
        if (status.code() == Some(0)) == (checks.failed == 0 && checks.passed > 0) {
            Ok(checks)
        } else {
            Err(process.failure("gave an exit code that its record contradicts"))
        }
    }
}

impl Driver {
    /// Pid of the driver.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Seconds reported since the last call: seconds since the start of the load, orders in each.
    pub(crate) fn take_seconds(&mut self) -> Vec<Second> {
        std::mem::take(&mut self.seconds)
    }

    /// Processes a progress line, which covers the seconds since the previous one. Returns false for any other line.
    fn note_second(&mut self, line: &str) -> bool {
        let Some((second, orders)) = read_tick(line) else { return false };
        let (last, before) = self.last_second;
        let gone = second.saturating_sub(last);
        let each = orders.saturating_sub(before).checked_div(gone).unwrap_or(0);
        // A busy host may skip a line: then the orders are spread over its seconds.
        self.seconds.extend((last + 1..=second.min(last + SECONDS_MAX)).map(|second| (second, each)));
        self.last_second = (second, orders);
        true
    }

    /// The next mark, or `None` after `pause` or a completed second: time for a sample. The driver's other lines
    /// are kept for its log.
    pub(crate) fn next_mark(&mut self, pause: Duration) -> Result<Option<Mark>, LabError> {
        let until = Instant::now() + pause;
        loop {
            interrupt::check()?;
            if Instant::now() > self.end {
                return Err(self.failure("did not reach its next mark in time"));
            }
            let left = until.saturating_duration_since(Instant::now()).min(interrupt::POLL_EVERY);
            match self.lines.recv_timeout(left) {
                Ok(line) => match line.trim() {
                    "measuring" => return Ok(Some(Mark::Measuring)),
                    "measured" => return Ok(Some(Mark::Measured)),
                    other => {
                        self.written += other;
                        self.written.push('\n');
                        if self.note_second(other) {
                            return Ok(None);
                        }
                    }
                },
                Err(RecvTimeoutError::Timeout) if Instant::now() >= until => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let left = self.end.saturating_duration_since(Instant::now());
                    let status = self.process.wait(left)?;
                    let outcome = status.map_or_else(|| "hangs".to_owned(), describe);
                    return Err(self.failure(&format!("{outcome} before its next mark")));
                }
            }
        }
    }

    /// Waits for its end and reads its record.
    pub(crate) fn finish(mut self) -> Result<OrdersRun, LabError> {
        let left = self.end.saturating_duration_since(Instant::now());
        let status = self.process.wait(left)?;
        self.written.extend(self.lines.try_iter().map(|line| line + "\n"));
        match status {
            Some(status) if status.success() => {}
            Some(status) => return Err(self.failure(&describe(status))),
            None => return Err(self.failure("did not end in time")),
        }
        append(&self.log, &self.written)?;
        let text = std::fs::read(&self.record).map_err(LabError::file("read", &self.record))?;
        serde_json::from_slice(&text).map_err(|source| LabError::Record { program: "the driver", source })
    }

    fn failure(&self, outcome: &str) -> LabError {
        let _ = append(&self.log, &self.written);
        self.process.failure(outcome)
    }
}

/// Seconds since the start of the load, and orders until then, from a line of `orders run --progress`:
/// `progress: 12.0 s, 95.0 tps, …, 8123 orders`.
fn read_tick(line: &str) -> Option<(u64, u64)> {
    let mut parts = line.strip_prefix("progress: ")?.split(", ");
    let second: f64 = parts.next()?.strip_suffix(" s")?.parse().ok()?;
    let orders = parts.find_map(|part| part.strip_suffix(" orders"))?.parse().ok()?;
    Some((second as u64, orders))
}

/// Reads the record of `orders check --json`: each condition under `checks`.
fn read_checks(record: &Value) -> Checks {
    let list = record.get("checks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut checks = Checks::default();
    for condition in list {
        if condition.get("passed").and_then(Value::as_bool) == Some(true) {
            checks.passed += 1;
        } else {
            checks.failed += 1;
            let word = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
            let number = |field: &str| condition.get(field).and_then(Value::as_u64).unwrap_or_default();
            checks.failures.push(format!(
                "condition {} ({}) does not hold in {} places, first: {}",
                number("number"),
                word("name"),
                number("violations"),
                word("example"),
            ));
        }
    }
    checks
}

fn stderr_lines(process: &mut Process) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    if let Some(stderr) = process.take_stderr() {
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
    }
    receive
}

fn append(log: &Path, text: &str) -> Result<(), LabError> {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
        .map_err(LabError::file("write", log))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_progress_are_told_from_the_others() {
        let line = "progress: 12.1 s, 95.0 tps, lat 3.200 ms stddev 1.000, 0 failed, 8123 orders, 1 connections lost";
        assert_eq!(read_tick(line), Some((12, 8123)));
        for other in ["", "measuring", "millrace: 3 s", "progress: 12 s 8 rows", "note: fsync=off: an acknowledged order"] {
            assert_eq!(read_tick(other), None, "{other}");
        }
    }

    #[test]
    fn failed_conditions_are_counted_and_kept() {
        let record = serde_json::json!({"passed": 1, "checks": [
            {"number": 1, "passed": true},
            {"number": 2, "name": "next order", "passed": false, "violations": 3, "example": "district 4"},
        ]});
        let checks = read_checks(&record);
        assert_eq!((checks.passed, checks.failed), (1, 1));
        assert_eq!(checks.failures, ["condition 2 (next order) does not hold in 3 places, first: district 4"]);
        assert_eq!(read_checks(&serde_json::json!("rubbish")), Checks::default());
    }
}
