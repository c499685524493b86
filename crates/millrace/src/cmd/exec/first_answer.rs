//! The first mount of an export. With `--wait` it is retried until a server that is away at start
//! answers.

use std::fmt::{Display, Formatter};
use std::io::ErrorKind;
use std::str::FromStr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use dnfs::{Client, Credentials, Error, FsError, NfsUrl};

use crate::cmd::values::time;
use crate::error_printing::{refusal, text};

/// How long a mount is retried while no server listens, because a filer that was just started is
/// not ready at once.
const LISTEN_WAIT: Duration = Duration::from_secs(2);
const LISTEN_PAUSE: Duration = Duration::from_millis(50);
/// The pause between two attempts under `--wait`.
const PAUSE: Duration = Duration::from_millis(250);
/// After this time a line names what the command waits for, and again after each [`REPEAT`].
const QUIET: Duration = Duration::from_secs(2);
const REPEAT: Duration = Duration::from_secs(60);

/// The time of `--wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    For(Duration),
    Forever,
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "forever" => Ok(Self::Forever),
            _ => time(text).map(Self::For).map_err(|error| format!("{error}, or forever")),
        }
    }
}

impl Display for Wait {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::For(time) => write!(to, "{}s", time.as_secs()),
            Self::Forever => write!(to, "forever"),
        }
    }
}

/// Mounts the export once. Without `wait`, tries again for two seconds if the server refuses connections.
pub(super) fn mount_once(url: &NfsUrl, who: &Credentials, wait: Option<Wait>) -> anyhow::Result<Client> {
    match wait {
        Some(wait) => mount_within(url, who, wait),
        None => mount_soon(url, who),
    }
}

fn mount_soon(url: &NfsUrl, who: &Credentials) -> anyhow::Result<Client> {
    let end = Instant::now() + LISTEN_WAIT;
    loop {
        let mounted = Client::mount(url, who);
        let is_silent = match &mounted {
            Err(Error::Connect { source, .. }) => source.kind() == ErrorKind::ConnectionRefused,
            // The server began to listen between two attempts.
            Err(Error::NoMountService { .. }) => true,
            _ => false,
        };
        if !is_silent {
            return Ok(mounted?);
        }
        if Instant::now() >= end {
            return mounted.with_context(|| late(Wait::For(LISTEN_WAIT)));
        }
        std::thread::sleep(LISTEN_PAUSE);
    }
}

/// A thread makes the attempts, since one may take longer than the time of `--wait`.
fn mount_within(url: &NfsUrl, who: &Credentials, wait: Wait) -> anyhow::Result<Client> {
    let (sender, attempts) = channel();
    let (asked, asker) = (url.clone(), who.clone());
    std::thread::spawn(move || {
        loop {
            let mounted = Client::mount(&asked, &asker);
            let is_last = !matches!(&mounted, Err(error) if may_end(error));
            if sender.send(mounted).is_err() || is_last {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    });
    let begin = Instant::now();
    let (mut last, mut printed): (Option<anyhow::Error>, Option<Instant>) = (None, None);
    loop {
        let until_line = printed.map_or(begin + QUIET, |printed| printed + REPEAT);
        let end = match wait {
            Wait::For(time) => begin.checked_add(time).unwrap_or(until_line),
            Wait::Forever => until_line,
        };
        match attempts.recv_timeout(until_line.min(end).saturating_duration_since(Instant::now())) {
            Ok(Err(error)) if may_end(&error) => last = Some(anyhow::Error::new(error)),
            Ok(mounted) => return Ok(mounted?),
            Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("the thread that asks the server has ended")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        if matches!(wait, Wait::For(_)) && now >= end {
            return Err(last.unwrap_or_else(|| silent(url)).context(late(wait)));
        }
        if now >= until_line {
            let cause = last.as_ref().map_or_else(|| "no answer yet".to_owned(), text);
            eprintln!("millrace: waiting for {url}: {cause}");
            printed = Some(now);
        }
    }
}

/// The error if no attempt has ended yet.
fn silent(url: &NfsUrl) -> anyhow::Error {
    let hint = "the server does not run, is still starting, or is stopped or overloaded: check it there, then the route and the firewall";
    refusal(format!("no answer from {}, port {}", url.servers.join(", "), url.nfs_port()), hint)
}

fn late(wait: Wait) -> String {
    format!("the server did not serve it within {wait}")
}

/// Whether an error may come from a server that is away or does not serve its exports yet.
fn may_end(error: &Error) -> bool {
    match error {
        // Missing rights and missing address families of this host do not change.
        Error::Connect { source, .. } => !matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported),
        Error::UnknownHost { .. } | Error::TimedOut { .. } | Error::NoMountService { .. } | Error::Mount { .. } => true,
        Error::Fs(error) => {
            matches!(error, FsError::Stale | FsError::BadHandle | FsError::Delayed | FsError::Io | FsError::ServerFault)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!("30s".parse(), Ok(Wait::For(Duration::from_secs(30))));
        assert_eq!("5m".parse::<Wait>().unwrap().to_string(), "300s");
        assert_eq!("forever".parse::<Wait>().unwrap().to_string(), "forever");
        assert_eq!("30".parse::<Wait>().unwrap_err(), "write 30s or 30m, or forever");
    }
}
