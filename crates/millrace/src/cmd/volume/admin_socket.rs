//! Sends one request to a running filer over its admin socket. A filer that does not answer is
//! reported within seconds. While a filer works on a long request, the command waits.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde_json::Value;

use crate::error_printing::refusal;

/// How long a filer may be silent before the command checks whether it answers at all, and the time
/// limit of this check. The filer answers the check in a separate thread, also while it works on
/// another request.
const SILENCE: Duration = Duration::from_secs(3);
/// The request of this check. Filers of every version refuse it, and the refusal shows that they answer.
const ANYBODY: &str = "{\"op\":\"ping\"}\n";

/// Sends one line, and returns the line that comes back.
pub(super) fn ask(admin: &Path, request: &Value) -> anyhow::Result<String> {
    let shown = admin.display();
    let mut stream = UnixStream::connect(admin).map_err(|error| not_reached(admin, &error))?;
    let talked = || format!("talk to the filer at {shown}");
    stream.set_read_timeout(Some(SILENCE)).and_then(|()| stream.set_write_timeout(Some(SILENCE))).with_context(talked)?;
    if let Err(error) = writeln!(stream, "{request}") {
        return Err(if is_timeout(error.kind()) { silent(admin, &stream) } else { anyhow!(error).context(talked()) });
    }
    let mut line = Vec::new();
    let mut lines = BufReader::new(&stream);
    loop {
        match lines.read_until(b'\n', &mut line) {
            Ok(_) => break,
            // The bytes received so far stay in `line`.
            Err(error) if is_timeout(error.kind()) && answers(admin) => {}
            Err(error) if is_timeout(error.kind()) => return Err(silent(admin, &stream)),
            Err(error) => return Err(anyhow!(error).context(talked())),
        }
    }
    if line.is_empty() {
        return Err(anyhow!("the filer closed the connection without a reply")).with_context(talked);
    }
    String::from_utf8(line).with_context(talked)
}

/// The error if no filer answers at this path.
fn not_reached(admin: &Path, error: &std::io::Error) -> anyhow::Error {
    let shown = admin.display();
    let found = admin.metadata().ok();
    let is_socket = found.as_ref().is_some_and(|found| found.file_type().is_socket());
    match (error.kind(), found) {
        (ErrorKind::PermissionDenied, _) => refusal(
            format!("reach a filer at {shown}: {error}"),
            "run it as the user who runs that filer, or as root: no other user may use the socket",
        ),
        (ErrorKind::ConnectionRefused, Some(_)) if is_socket => refusal(
            format!("reach a filer at {shown}: {error}"),
            "the filer that made this socket has ended, or is still starting: start `millrace serve` again, or wait",
        ),
        (_, Some(found)) if !is_socket => {
            let kind = if found.is_dir() { "a directory" } else { "not a socket" };
            let hint = "name the admin socket: `millrace serve --json` prints its path, which is admin.sock in its state directory by default";
            refusal(format!("reach a filer at {shown}: it is {kind}"), hint)
        }
        _ => refusal(
            format!("reach a filer at {shown}: {error}"),
            "start `millrace serve` first; with --json its first line names the admin socket",
        ),
    }
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Whether the filer answers anything at all: a line, or a closed connection.
fn answers(admin: &Path) -> bool {
    let asked = || {
        let mut stream = UnixStream::connect(admin)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        stream.write_all(ANYBODY.as_bytes())?;
        BufReader::new(stream).read_line(&mut String::new())
    };
    asked().map_or_else(|error| !is_timeout(error.kind()), |_| true)
}

/// The error for a filer that runs and does not answer.
fn silent(admin: &Path, stream: &UnixStream) -> anyhow::Error {
    let pid = rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.pid.as_raw_nonzero().get());
    let of = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
    let phrase = format!("reach the filer at {}{of}: it does not answer", admin.display());
    let status = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok()).unwrap_or_default();
    let is_stopped = status.lines().any(|line| line.starts_with("State:\tT") || line.starts_with("State:\tt"));
    let hint = match pid {
        Some(pid) if is_stopped => format!("it is stopped: `kill -CONT {pid}` continues it; a debugger may hold it"),
        Some(pid) => format!("what it waits for: cat /proc/{pid}/stack, and the disk below its directory"),
        None => "what it waits for is in /proc/PID/stack".to_owned(),
    };
    refusal(phrase, hint)
}
