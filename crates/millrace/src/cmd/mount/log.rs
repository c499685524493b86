//! Directs the messages of the process that serves a mount.

use crate::error_printing::hinted;
use anyhow::anyhow;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;

/// The socket of the system's log (syslog(3)).
const SYSTEM_LOG: &str = "/dev/log";

/// Directs messages to a file, to the system's log, or to stderr.
pub(super) fn to(file: Option<&Path>, is_background: bool) -> anyhow::Result<()> {
    let filter = || tracing_subscriber::EnvFilter::try_from_env("MILLRACE_LOG").unwrap_or_else(|_| "info".into());
    let builder = tracing_subscriber::fmt().with_env_filter(filter()).with_ansi(false).log_internal_errors(false);
    match file {
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path).map_err(|error| {
                let hint = "name a file in a directory that exists and that this user may write";
                hinted(anyhow!(error).context(format!("open the log {}", path.display())), hint)
            })?;
            builder.with_writer(Arc::new(file)).init();
        }
        None if is_background => builder.without_time().with_writer(SystemLog::connect).init(),
        None => builder.with_writer(io::stderr).init(),
    }
    Ok(())
}

/// Writes to the system's log. `None` if the host has no such log.
struct SystemLog(Option<UnixDatagram>);

impl SystemLog {
    fn connect() -> Self {
        let socket = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.connect(SYSTEM_LOG).map(|()| socket)
        });
        Self(socket.ok())
    }
}

impl Write for SystemLog {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        /// Facility daemon, severity notice (RFC 3164 4.1.1).
        const PRIORITY: u32 = 3 << 3 | 5;
        if let Some(socket) = &self.0 {
            let head = format!("<{PRIORITY}>millrace[{}]: ", std::process::id());
            // The socket does not block: a message is lost if the log is full.
            let _ = socket.send(&[head.as_bytes(), text.trim_ascii()].concat());
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
