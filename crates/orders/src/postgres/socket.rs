//! A Unix socket that wakes only its reader.
//!
//! The kernel notifies the writing side of a Unix socket each time the peer reads from it. A
//! stream registered for both directions would wake the driver once more for every statement, only
//! to report that it can write, which is nearly always the case. Here the writing side is registered
//! only while it is full.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Error, NoTls};

/// Bytes of one read: the response of the largest order, and another one.
const READ_BYTES: usize = 4096;

/// Connects without TLS. A task of the current runtime drives the socket.
///
/// Uses this module's socket only if the host is a directory of Unix sockets and the connection succeeds. In all other cases,
/// the library connects and reports its errors.
pub(super) async fn connect(config: &Config) -> Result<Client, Error> {
    if let Some(path) = only_socket(config)
        && let Ok(socket) = Socket::connect(&path).await
    {
        let (client, connection) = config.connect_raw(socket, NoTls).await?;
        // The task ends with the connection; pending requests receive the error that ended it.
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

/// A connected socket, driven by the runtime on which it was created.
pub(super) struct Socket {
    stream: AsyncFd<UnixStream>,
    /// The same socket, registered for writing while it is full.
    full: Option<AsyncFd<UnixStream>>,
    /// Buffer of one read. The reader's own buffer would have to be cleared before reading into it, which costs more
    /// than copying the response, which is usually short.
    taken: Box<[u8; READ_BYTES]>,
}

impl Socket {
    /// Connects to the socket file at `path`.
    pub(super) async fn connect(path: &Path) -> io::Result<Self> {
        let stream = tokio::net::UnixStream::connect(path).await?.into_std()?;
        Ok(Self { stream: registered(stream, Interest::READABLE)?, full: None, taken: Box::new([0; READ_BYTES]) })
    }

    /// Waits until a full socket accepts bytes again.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let full = match &mut self.full {
            Some(full) => full,
            none => none.insert(registered(self.stream.get_ref().try_clone()?, Interest::WRITABLE)?),
        };
        // Space freed from here on wakes the task again; space freed before is found by the next attempt.
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
                    // A short read emptied the socket, so the next read need not try first.
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

    /// Far more bytes than a socket buffers, in a pattern that reveals a lost or moved byte.
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
        // The peer responds only after it has received everything, so the sender's socket must have been full.
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
