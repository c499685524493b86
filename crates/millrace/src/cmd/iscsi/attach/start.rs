//! Starts the daemon for `attach`, and defines the messages between the two.

use super::super::attached::{Attached, Record};
use crate::error_printing::hinted;
use anyhow::{Context as _, anyhow};
use initiator::{Device, IscsiUrl};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// After this time a line names what the command waits for.
const QUIET: Duration = Duration::from_secs(2);
/// The time limit for a LUN to become ready. Each login has its own, shorter limit.
const START: Duration = Duration::from_secs(60);

/// What the daemon must serve. The daemon reads it on stdin, because every user of the host can
/// read secrets in arguments.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) url: String,
    pub(super) initiator: Option<String>,
    /// Commands in flight on one path.
    pub(super) depth: usize,
}

impl Order {
    /// The use that the sessions of an attachment have in common. A LUN has one attachment at a
    /// time. Before a new one sends commands, the target ends the sessions that a killed one left,
    /// so that none of their writes can follow a newer write.
    pub(super) fn of_use(url: &IscsiUrl) -> Option<String> {
        url.target.as_ref().map(|(name, lun)| format!("attach {name}/{lun}"))
    }
}

/// The daemon's answer, on its stdout.
#[derive(Serialize, Deserialize)]
pub(super) enum Said {
    Ready(Ready),
    Failed {
        why: String,
        /// Whether the target answered and refused.
        refused: bool,
        /// What the user can do about it.
        hints: Vec<String>,
    },
}

/// The LUN that the daemon serves.
#[derive(Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) lun: String,
    pub(super) bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) physical_block_bytes: u32,
    pub(super) read_only: bool,
    /// What could not be done to keep the daemon running when memory is short.
    pub(super) lacking: Vec<String>,
}

impl Ready {
    /// Describes the LUN of a device that is logged in.
    pub(super) fn of(device: &Device, lacking: Vec<String>) -> Self {
        let geometry = device.geometry();
        Self {
            lun: device.identity().to_string(),
            bytes: geometry.bytes(),
            block_bytes: geometry.block_bytes,
            physical_block_bytes: geometry.physical_block_bytes.max(geometry.block_bytes),
            read_only: geometry.read_only,
            lacking,
        }
    }

    pub(super) fn write_to(&self, record: &mut Record) {
        record.lun.clone_from(&self.lun);
        (record.bytes, record.read_only) = (self.bytes, self.read_only);
        (record.block_bytes, record.physical_block_bytes) = (self.block_bytes, self.physical_block_bytes);
    }
}

/// The text of a target's refusal.
#[derive(Debug)]
pub(in super::super) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Starts the daemon of a LUN, and waits until it serves it.
pub(super) fn start_daemon(attached: &Attached, order: &Order) -> anyhow::Result<Ready> {
    let binary = std::env::current_exe().context("find this binary")?;
    let path = attached.log();
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let log = log.with_context(|| format!("open {}", path.display()))?;
    let mut command = Command::new(binary);
    command.args(["iscsi", "attach-daemon"]).arg(&attached.directory).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().context("start the process that serves the LUN")?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the daemon has already ended, its log gives the cause.
        let _ = writeln!(stdin, "{}", serde_json::to_string(order)?);
    }
    let answers = child.stdout.take().map(listen).context("receive the answer of the process that serves the LUN")?;
    let line = wait(&answers, &attached.record.url)?;
    match serde_json::from_str(&line) {
        Ok(Said::Ready(ready)) => Ok(ready),
        Ok(Said::Failed { why, refused: true, .. }) => Err(anyhow!(Refused(why))),
        Ok(Said::Failed { why, refused: false, hints }) => Err(hints.into_iter().rev().fold(anyhow!(why), hinted)),
        Err(_) => {
            let log = std::fs::read_to_string(&path).unwrap_or_default();
            let last = log.lines().last().unwrap_or("it wrote no log");
            Err(anyhow!("the process that serves the LUN ended: {last}"))
        }
    }
}

/// Reads the daemon's first line in a thread.
fn listen(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let _ = sender.send(line);
    });
    receiver
}

fn wait(answers: &Receiver<String>, url: &str) -> anyhow::Result<String> {
    let limit = Instant::now() + START;
    loop {
        match answers.recv_timeout(QUIET) {
            Ok(line) => return Ok(line),
            Err(RecvTimeoutError::Timeout) if Instant::now() < limit => eprintln!("waiting for {url}"),
            Err(_) => return Err(anyhow!("the LUN was not ready within {} s", START.as_secs())),
        }
    }
}
