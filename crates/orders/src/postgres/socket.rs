//! A Unix socket that wakes its reader only.
//!
//! The kernel tells the writing side of a Unix socket each time the peer takes something out of it. A
//! stream registered for both directions would wake the driver once more for every statement, just to
//! see that it may write, which it nearly always may: here the writing side is registered only while
//! it is full.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Error, NoTls};

/// Bytes read at once: the answer of the largest order, and another.
const READ_BYTES: usize = 4096;

/// Connects without TLS; the socket is driven by a task of the current runtime.
///
/// Only where the host is a directory of Unix sockets the connection is one of this module; all else, and all that
/// fails, is left to the library and its errors.
pub(super) async fn connect(config: &Config) -> Result<Client, Error> {
    if let Some(path) = only_socket(config)
        && let Ok(socket) = Socket::connect(&path).await
    {
        let (client, connection) = config.connect_raw(socket, NoTls).await?;
        // The task ends with the connection; what ended it reaches the pending requests.
        tokio::spawn(connection);
        return Ok(client);
    }
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn only_socket(config: &Config) -> Option<PathBuf> {
    let [Host::Unix(directory)] = config.get_hosts() else { return None };
    let plain = config.get_hostaddrs().is_empty() && config.get_target_session_attrs() == TargetSessionAttrs::Any;
    let port = config.get_ports().first().copied().unwrap_or(5432);
    plain.then(|| directory.join(format!(".s.PGSQL.{port}")))
}

/// A connected socket, driven by the runtime it was made on.
pub(super) struct Socket {
    stream: AsyncFd<UnixStream>,
    /// The same socket while it takes no more bytes.
    full: Option<AsyncFd<UnixStream>>,
    /// What one read took. The reader's own buffer has to be cleared before it is read into, which costs more
    /// than copying the answer, mostly short, into it.
    taken: Box<[u8; READ_BYTES]>,
}

impl Socket {
    /// Connects to the socket file at `path`.
    pub(super) async fn connect(path: &Path) -> io::Result<Self> {
        let stream = tokio::net::UnixStream::connect(path).await?.into_std()?;
        Ok(Self { stream: registered(stream, Interest::READABLE)?, full: None, taken: Box::new([0; READ_BYTES]) })
    }

    /// Waits until a full socket takes bytes again.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let full = match &mut self.full {
            Some(full) => full,
            none => none.insert(registered(self.stream.get_ref().try_clone()?, Interest::WRITABLE)?),
        };
        // What is freed from here on wakes again; what was freed before, the next attempt finds.
        ready!(full.poll_write_ready(cx))?.clear_ready();
        Poll::Ready(Ok(()))
    }
}

fn registered(stream: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    #[expect(deprecated, reason = "unsound only for types that do not own their descriptor; the new form is unsafe")]
    AsyncFd::with_interest(stream, interest)
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let wanted = buf.remaining().min(READ_BYTES);
        let Self { stream, taken, .. } = &mut *self;
        loop {
            let mut guard = ready!(stream.poll_read_ready(cx))?;
            match guard.try_io(|stream| stream.get_ref().read(&mut taken[..wanted])) {
                Ok(Ok(count)) => {
                    // A short read took everything there was: the next one need not try first.
                    if 0 < count && count < wanted {
                        guard.clear_ready();
                    }
                    buf.put_slice(&taken[..count]);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_not_ready) => {}
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.stream.get_ref().write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.poll_room(cx))?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => {
                    self.full = None;
                    return Poll::Ready(outcome);
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.get_ref().shutdown(std::net::Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Far more than a socket holds, in a pattern that shows a byte lost or moved.
    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|index| (index * 31 % 251) as u8).collect()
    }

    #[tokio::test]
    async fn bytes_pass_both_ways_through_a_socket_that_fills_up_and_its_end_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let sent = pattern(3_000_000);
        let expected = sent.clone();
        // The peer answers with what it was sent, after it has all of it: the sender must have filled up.
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut taken = vec![0; expected.len()];
            stream.read_exact(&mut taken).unwrap();
            assert!(taken == expected, "bytes were lost or moved");
            stream.write_all(&taken).unwrap();
        });
        let mut socket = Socket::connect(&path).await.unwrap();
        socket.write_all(&sent).await.unwrap();
        assert!(socket.full.is_none());
        let mut answered = Vec::new();
        socket.read_to_end(&mut answered).await.unwrap();
        assert!(answered == sent, "bytes were lost or moved");
        peer.join().unwrap();
        assert!(Socket::connect(&folder.path().join("nowhere")).await.is_err());
    }
}
