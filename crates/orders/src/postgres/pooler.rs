//! Whether a session stays with this client, or a connection pooler gives each transaction another one.
//!
//! PgBouncer in transaction or statement mode shares a few server sessions between all of its clients. A setting (SET) that one
//! client leaves in such a session changes the statements of the next client, and a prepared statement is lost after the
//! transaction. The load needs both, so it refuses these modes before it sets anything.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use host::Unpoisoned;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use crate::error::OrdersError;
use crate::limits::{POOLER_ROUNDS, POOLER_WAIT_S};

/// Length of a CancelRequest message (PostgreSQL 18, 54.7), which ends with the process id and the key.
const CANCEL_REQUEST_BYTES: usize = 16;

/// How this client's sessions map to server sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sessions {
    /// The client talks to the server itself.
    Direct,
    /// A pooler is between them. It gives each client session one server session until that ends (session mode).
    Held,
    /// A pooler gives each transaction, or each statement, another server session.
    Shared,
}

/// Determines the mapping before anything is set. `another` opens a second connection, which is needed only with a pooler.
///
/// # Errors
/// The error of the first query.
pub(super) async fn sessions(
    client: &Client,
    another: impl Future<Output = Result<Client, OrdersError>>,
) -> Result<Sessions, Error> {
    let first = backend(client).await?;
    // The server announces its process id when it accepts the connection. A pooler announces a number of its own.
    if first.is_none() || first == announced(client).await {
        return Ok(Sessions::Direct);
    }
    let Ok(second) = another.await else { return Ok(Sessions::Held) };
    let wait = Duration::from_secs(POOLER_WAIT_S);
    for _ in 0..POOLER_ROUNDS {
        // A pool that assigns sessions in turn gives this transaction the next session, if it has several.
        if backend(client).await? != first {
            return Ok(Sessions::Shared);
        }
        // A pool of one session, or one that prefers the most recently used session, gives the other client the same session.
        match tokio::time::timeout(wait, backend(&second)).await {
            // The first client holds the only free session.
            Err(_) => return Ok(Sessions::Held),
            Ok(found) => {
                if found? == first {
                    return Ok(Sessions::Shared);
                }
            }
        }
    }
    Ok(Sessions::Held)
}

/// Process id of the server session that runs the query. `None` on an engine without this function.
async fn backend(client: &Client) -> Result<Option<i32>, Error> {
    // A simple query prepares no statement.
    match client.simple_query("SELECT pg_backend_pid()").await {
        Ok(messages) => Ok(messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        })),
        Err(error) if error.code() == Some(&tokio_postgres::error::SqlState::UNDEFINED_FUNCTION) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Process id that was announced when the connection was accepted (BackendKeyData). The client library shows it only in the
/// request to cancel a query, so that request is written to memory and read back.
async fn announced(client: &Client) -> Option<i32> {
    let tape = Tape::default();
    client.cancel_token().cancel_query_raw(tape.clone(), NoHandshake).await.ok()?;
    let written = tape.0.lock().unpoisoned();
    let request = written.last_chunk::<CANCEL_REQUEST_BYTES>()?;
    Some(i32::from_be_bytes(*request[8..].first_chunk()?))
}

/// A stream that stores what is written to it and accepts a request for TLS.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<u8>>>);

impl AsyncRead for Tape {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // The answer to SSLRequest: accepted.
        buffer.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tape {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unpoisoned().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl TlsStream for Tape {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// Uses the stream without a handshake: no data leaves this process.
struct NoHandshake;

impl TlsConnect<Tape> for NoHandshake {
    type Stream = Tape;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Tape>>;

    fn connect(self, stream: Tape) -> Self::Future {
        std::future::ready(Ok(stream))
    }
}
