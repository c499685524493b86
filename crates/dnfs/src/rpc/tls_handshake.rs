//! Starts TLS on a connection: the AUTH_TLS probe in the clear (RFC 9289 4.1), then the handshake. Both allocate.

use super::fault::Fault;
use super::route::{RetryPolicy, Route};
use super::tls::TlsStream;
use super::tls_config::TlsConfig;
use crate::error::{Error, ProtocolError};
use crate::limits::{HANDSHAKE_MS, PROBE_REPLY_BYTES_MAX, RECEIVE_BYTES_MAX, SEALED_BYTES};
use crate::sys::random::random;
use crate::sys::region::Region;
use crate::sys::socket::Socket;
use nfs_proto::record::{self, LAST_FRAGMENT};
use nfs_proto::rpc::{CallHeader, OpaqueAuth, RPC_VERSION, ReplyStatus, Xid, encode_call, offers_tls};
use rpc_tls::{Incoming, Wire};
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

/// Probes for TLS and makes the handshake, on a connection on which nothing was sent yet.
pub(super) fn start(socket: &Socket, route: &Route, config: &TlsConfig) -> Result<TlsStream, Fault> {
    let mut wire = HandshakeSocket { socket, until: Instant::now() + Duration::from_millis(HANDSHAKE_MS) };
    probe(&mut wire, route)?;
    let session = config.tls.handshake(&config.name, &mut wire).map_err(Fault::Tls)?;
    let map = |bytes| Region::map(bytes).map_err(|source| Fault::Fatal(Error::Local { action: "map a buffer for TLS", source }));
    let incoming = Incoming::new(session.opener, map(RECEIVE_BYTES_MAX)?, &session.early);
    Ok(TlsStream::new(session.sealer, incoming, map(SEALED_BYTES)?))
}

/// The probe: NULL with AUTH_TLS, in the clear. Reads nothing after its reply; the handshake rejects unexpected bytes.
fn probe(wire: &mut HandshakeSocket<'_>, route: &Route) -> Result<(), Fault> {
    let xid = Xid(random() as u32);
    let (program, version) = (route.program.number, route.program.version);
    let (credential, verifier) = (OpaqueAuth::TLS, OpaqueAuth::NONE);
    let header = CallHeader { xid, rpc_version: RPC_VERSION, program, version, procedure: 0, credential, verifier };
    let mut call = Vec::new();
    encode_call(&header, &(), &mut call);
    wire.send(&call).map_err(Fault::Connect)?;
    let mut mark = [0; record::MARK_BYTES];
    wire.fill(&mut mark).map_err(Fault::Connect)?;
    let bytes = (u32::from_be_bytes(mark) & !LAST_FRAGMENT) as usize;
    if u32::from_be_bytes(mark) & LAST_FRAGMENT == 0 || bytes > PROBE_REPLY_BYTES_MAX {
        return Err(ProtocolError::Missing("an answer to the AUTH_TLS probe").into());
    }
    let mut reply = vec![0; bytes];
    wire.fill(&mut reply).map_err(Fault::Connect)?;
    let (header, offered) = offers_tls(&reply)?;
    match header.status {
        _ if header.xid != xid => Err(ProtocolError::UnexpectedReply.into()),
        ReplyStatus::Success if offered => Ok(()),
        // While mounting, a missing program is searched for at another port.
        status @ (ReplyStatus::ProgramUnavailable | ReplyStatus::ProgramMismatch { .. })
            if route.retry_policy == RetryPolicy::Mounting =>
        {
            Err(Fault::Fatal(Error::Refused { server: route.server(), status }))
        }
        _ => Err(Fault::NoTls),
    }
}

/// The socket during a handshake, with a deadline.
struct HandshakeSocket<'s> {
    socket: &'s Socket,
    until: Instant,
}

impl HandshakeSocket<'_> {
    /// Fills the buffer and receives no further byte.
    fn fill(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let bytes = self.receive(buffer)?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = buffer.get_mut(bytes..).unwrap_or_default();
        }
        Ok(())
    }

    /// Repeats `attempt` until it succeeds or the deadline passes. The socket's calls return after 250 ms at most, and after a
    /// signal. A peer that sends a byte now and then does not extend the deadline.
    fn until_deadline(&self, mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        while Instant::now() < self.until {
            match attempt() {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                other => return other,
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Wire for HandshakeSocket<'_> {
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = self.until_deadline(|| self.socket.send(&[IoSlice::new(bytes)]))?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.until_deadline(|| self.socket.receive(buffer))
    }
}
