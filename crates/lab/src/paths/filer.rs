//! A filer of the comparison: `millrace serve` as a child process, and its admin socket.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use results::filer_stats::FilerStats;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::LabError;
use crate::host::interrupt;
use crate::host::process::{Launch, Process, describe};
use crate::limits::{ADMIN_REPLY_BYTES_MAX, FILER_START_MAX, FILER_STOP_MAX, REPLY_MAX};
use crate::paths::filer_loss::FilerLoss;

/// A running filer.
pub(super) struct Filer {
    process: Process,
    ready: Ready,
}

/// The order to start a filer.
pub(super) struct FilerOrder<'a> {
    pub(super) directory: &'a Path,
    pub(super) state: &'a Path,
    pub(super) log: PathBuf,
    /// Loopback addresses at which it serves NFS: 127.0.0.1 and the following ones.
    pub(super) addresses: u32,
    /// Modelled medium that causes its delays.
    pub(super) medium: Option<&'a str>,
    /// Further options of the command.
    pub(super) options: &'a [String],
}

/// First line of `millrace serve --json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Ready {
    nfs: String,
    /// Addresses at which it serves NFS.
    listen: Vec<SocketAddr>,
    /// Its export by the name of its volume.
    volumes: BTreeMap<String, String>,
    admin: PathBuf,
    #[serde(flatten)]
    others: serde_json::Map<String, serde_json::Value>,
}

impl Filer {
    /// Starts it on a free port of each loopback address and waits until it is ready.
    pub(super) fn start(program: &Path, order: FilerOrder<'_>) -> Result<Self, LabError> {
        let mut command = Command::new(program);
        command.arg("serve").arg(order.directory).args(["--json", "--state"]).arg(order.state);
        command.arg("--admin").arg(order.state.join("admin.sock")).args(order.options).current_dir("/");
        for number in 1..=order.addresses {
            command.arg("--listen").arg(format!("127.0.0.{number}:0"));
        }
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
    pub(super) fn url(&self) -> &str {
        &self.ready.nfs
    }

    /// Addresses and ports at which it serves NFS and MOUNT, in the order of the addresses.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.ready.listen
    }

    /// Pid of the filer.
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// An error if it has ended.
    pub(super) fn expect_alive(&mut self) -> Result<(), LabError> {
        let Some(status) = self.process.poll() else { return Ok(()) };
        let (url, pid, admin) = (&self.ready.nfs, self.pid(), self.ready.admin.display());
        let url = url.split_once('?').map_or(url.as_str(), |(url, _)| url);
        let loss = FilerLoss::new(format!("{url} (process {pid}, admin socket {admin})"), describe(status));
        Err(LabError::filer_lost(FilerLoss { log: self.process.log_end(), ..loss }))
    }

    /// Name of its volume.
    pub(super) fn volume(&self) -> &str {
        self.ready.volumes.keys().next().map_or("", String::as_str)
    }

    /// Another value that it reported when it was ready, such as the address of a service; `None` without one of this form.
    pub(super) fn reported<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        T::deserialize(self.ready.others.get(name)?).ok()
    }

    /// Its counters since its start.
    pub(super) fn stats(&self) -> Result<FilerStats, LabError> {
        const WHAT: &str = "stats";
        let reply = self.ask(WHAT, &json!({"op": "stats"}))?;
        serde_json::from_value(reply).map_err(|error| LabError::Filer { what: WHAT, detail: error.to_string() })
    }

    /// Sends a request to its admin socket; `what` names the request in an error.
    pub(super) fn ask(&self, what: &'static str, request: &Value) -> Result<Value, LabError> {
        let refused = |detail: String| LabError::Filer { what, detail };
        let ask = || -> std::io::Result<String> {
            let mut stream = UnixStream::connect(&self.ready.admin)?;
            stream.set_read_timeout(Some(REPLY_MAX))?;
            stream.set_write_timeout(Some(REPLY_MAX))?;
            writeln!(stream, "{request}")?;
            let mut line = String::new();
            BufReader::new(stream.take(ADMIN_REPLY_BYTES_MAX)).read_line(&mut line)?;
            Ok(line)
        };
        let line = ask().map_err(|error| refused(error.to_string()))?;
        parse_reply(&line).map_err(refused)
    }

    /// Stops it cleanly: drain, flush, exit code 0.
    pub(super) fn stop(self) -> Result<(), LabError> {
        self.process.stop(libc::SIGTERM, FILER_STOP_MAX)
    }
}

fn parse_reply(line: &str) -> Result<Value, String> {
    let reply: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    if reply["ok"] != true {
        return Err(reply["error"].as_str().unwrap_or("it refused without a reason").to_owned());
    }
    Ok(reply)
}

/// Receives the first line. A thread discards the rest so that the writer never blocks.
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
    use crate::paths::medium;

    #[test]
    fn stats_reply_gives_calls_and_bytes() {
        let line = r#"{"ok":true,"pid":7,"uptime_s":1.5,"connections":2,"verifier":"00","loss_epoch":1,
            "procedures":{"READ":{"calls":3,"errors":0,"bytes":24576},"MOUNT":{"calls":1,"errors":0,"bytes":0}},"flushes":0}"#;
        let stats: FilerStats = serde_json::from_value(parse_reply(line).unwrap()).unwrap();
        let read = stats.procedures["READ"];
        assert_eq!((read.calls, read.bytes), (3, 24_576));
        assert_eq!((stats.connections, medium::of_filer(&stats)), (2, None));
    }

    #[test]
    fn refusal_is_an_error_with_the_reason() {
        assert_eq!(parse_reply(r#"{"ok":false,"error":"unknown op"}"#).unwrap_err(), "unknown op");
        assert!(parse_reply("{").is_err());
    }
}
