//! The filer under test: `millrace serve` as a child, and the questions its admin socket answers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use results::compare::ProcedureCount;
use results::filer_stats::FilerStats;
use serde::Deserialize;

use crate::error::LabError;
use crate::host::interrupt;
use crate::host::process::{Launch, Process};
use crate::limits::{ADMIN_REPLY_BYTES_MAX, FILER_START_MAX, FILER_STOP_MAX, REPLY_MAX};

/// A running filer.
pub(crate) struct Filer {
    process: Process,
    ready: Ready,
}

/// What a filer shall serve, and how.
pub(crate) struct FilerOrder<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) state: &'a Path,
    pub(crate) log: PathBuf,
    /// Medium its delays come from.
    pub(crate) medium: Option<&'a str>,
    /// Further options as the command takes them.
    pub(crate) options: &'a [String],
}

/// First line of `millrace serve --json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Ready {
    nfs: String,
    admin: PathBuf,
}

impl Filer {
    /// Serves on a free loopback port and waits until it is ready.
    pub(crate) fn start(program: &Path, order: FilerOrder<'_>) -> Result<Self, LabError> {
        let mut command = Command::new(program);
        command.arg("serve").arg(order.directory).args(["--listen", "127.0.0.1:0", "--json", "--state"]).arg(order.state);
        command.arg("--admin").arg(order.state.join("admin.sock")).args(order.options).current_dir("/");
        if let Some(medium) = order.medium {
            command.args(["--medium", medium]);
        }
        let mut launch = Launch::new("the filer", command, order.log);
        launch.pipe_stdout = true;
        let mut process = launch.start()?;
        let lines = process.take_stdout().map(first_line);
        let line = interrupt::wait_for(FILER_START_MAX, || {
            let line = lines.as_ref().and_then(|lines| lines.try_recv().ok());
            if line.as_ref().is_none_or(String::is_empty) {
                process.expect_alive()?;
            }
            Ok(line)
        })?;
        let Some(line) = line else {
            let outcome = format!("was not ready within {} s", FILER_START_MAX.as_secs());
            return Err(process.failure(&outcome));
        };
        let ready = serde_json::from_str(&line).map_err(|source| LabError::Record { program: "the filer", source })?;
        Ok(Self { process, ready })
    }

    /// URL of its export.
    pub(crate) fn url(&self) -> &str {
        &self.ready.nfs
    }

    /// Pid of the filer.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// An error when it has ended.
    pub(crate) fn expect_alive(&mut self) -> Result<(), LabError> {
        self.process.expect_alive()
    }

    /// What it counted since its start.
    pub(crate) fn stats(&self) -> Result<FilerStats, LabError> {
        let refused = |detail: String| LabError::Filer { what: "stats", detail };
        let ask = || -> std::io::Result<String> {
            let mut stream = UnixStream::connect(&self.ready.admin)?;
            stream.set_read_timeout(Some(REPLY_MAX))?;
            stream.set_write_timeout(Some(REPLY_MAX))?;
            stream.write_all(b"{\"op\":\"stats\"}\n")?;
            let mut line = String::new();
            BufReader::new(stream.take(ADMIN_REPLY_BYTES_MAX)).read_line(&mut line)?;
            Ok(line)
        };
        let line = ask().map_err(|error| refused(error.to_string()))?;
        parse_stats(&line).map_err(refused)
    }

    /// Clean stop: drain, flush, exit code 0.
    pub(crate) fn stop(self) -> Result<(), LabError> {
        self.process.stop(libc::SIGTERM, FILER_STOP_MAX)
    }
}

/// What was called between two readings; procedures never called are left out.
pub(crate) fn between(
    before: &BTreeMap<String, ProcedureCount>,
    after: &BTreeMap<String, ProcedureCount>,
) -> BTreeMap<String, ProcedureCount> {
    let none = ProcedureCount::default();
    let gained = after.iter().map(|(name, now)| {
        let then = before.get(name).unwrap_or(&none);
        let calls = now.calls.saturating_sub(then.calls);
        (name.clone(), ProcedureCount { calls, bytes: now.bytes.saturating_sub(then.bytes) })
    });
    gained.filter(|(_, count)| count.calls > 0).collect()
}

/// What a filer's medium counted, as the laboratory adds it up with those of local files.
pub(crate) fn medium(stats: &FilerStats) -> Option<media::Counters> {
    stats.medium.as_ref().map(|found| media::Counters {
        reads: found.reads,
        writes: found.writes,
        flushes: found.flushes,
        cache_hits: found.cache_hits,
        busy_ns: found.busy_ns,
        waiting_max: found.waiting_max,
        queued_ns: found.queued_ns,
        read_ns: found.read_ns,
        write_ns: found.write_ns,
        flush_ns: found.flush_ns,
        nvram_full: found.nvram_full,
    })
}

fn parse_stats(line: &str) -> Result<FilerStats, String> {
    let reply: serde_json::Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if reply["ok"] != true {
        return Err(reply["error"].as_str().unwrap_or("it refused without a reason").to_owned());
    }
    serde_json::from_value(reply).map_err(|error| error.to_string())
}

/// The first line that comes, and a thread that swallows the rest so that the writer never blocks.
fn first_line(from: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(from).lines().map_while(Result::ok);
        if let Some(line) = lines.next() {
            let _ = send.send(line);
        }
        lines.for_each(drop);
    });
    receive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_reply_gives_calls_and_bytes() {
        let line = r#"{"ok":true,"pid":7,"uptime_s":1.5,"connections":2,"verifier":"00","loss_epoch":1,
            "procedures":{"READ":{"calls":3,"errors":0,"bytes":24576},"MOUNT":{"calls":1,"errors":0,"bytes":0}},"flushes":0}"#;
        let stats = parse_stats(line).unwrap();
        let read = stats.procedures["READ"];
        let counts = BTreeMap::from([("READ".to_owned(), ProcedureCount { calls: read.calls, bytes: read.bytes })]);
        assert_eq!(counts["READ"], ProcedureCount { calls: 3, bytes: 24_576 });
        assert_eq!((stats.connections, medium(&stats)), (2, None));
        let more = BTreeMap::from([("READ".to_owned(), ProcedureCount { calls: 5, bytes: 40_960 })]);
        let gained = between(&counts, &more);
        assert_eq!(gained["READ"], ProcedureCount { calls: 2, bytes: 16_384 });
        assert_eq!(gained.len(), 1);
    }

    #[test]
    fn refusal_is_an_error_with_the_reason() {
        assert_eq!(parse_stats(r#"{"ok":false,"error":"unknown op"}"#).unwrap_err(), "unknown op");
        assert!(parse_stats("{").is_err());
    }
}
