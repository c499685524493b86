//! The handshake: rustls checks certificates and agrees on keys, and the caller's connection transfers the bytes.

use std::io;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedConnectionCommon, UnbufferedStatus};
use rustls::{ClientConfig, ExtractedSecrets, ServerConfig};

use crate::error::{RecordFault, TlsFault};
use crate::keys::{KeySchedule, Shared, TrafficKey};
use crate::limits::{BODY_BYTES_MAX, HANDSHAKE_BYTES_MAX, HANDSHAKE_RECORDS_MAX, RECORD_BYTES_MAX, RECORD_HEAD_BYTES};
use crate::open::Opener;
use crate::seal::Sealer;

/// The connection of a handshake. Both calls may wait, up to a time limit that the caller sets.
pub trait Wire {
    /// Sends all bytes.
    ///
    /// # Errors
    /// That of the connection, or `TimedOut`.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Receives at least one byte. Returns the number of bytes, or 0 at the end of the connection.
    ///
    /// # Errors
    /// That of the connection, or `TimedOut`.
    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize>;
}

/// A connection whose handshake is done.
#[derive(Debug)]
pub struct Session {
    /// Its sending side.
    pub sealer: Sealer,
    /// Its receiving side.
    pub opener: Opener,
    /// The bytes that were received after the handshake: the beginning of records.
    pub early: Vec<u8>,
    /// Whether the peer sent a trusted certificate. A server always does.
    pub certified: bool,
}

/// One step of rustls, as a client or a server.
type Step<D> = for<'c, 'i> fn(&'c mut UnbufferedConnectionCommon<D>, &'i mut [u8]) -> UnbufferedStatus<'c, 'i, D>;

pub(crate) fn connect(config: Arc<ClientConfig>, name: ServerName<'static>, wire: &mut impl Wire) -> Result<Session, TlsFault> {
    let mut connection = UnbufferedClientConnection::new(config, name).map_err(TlsFault::Handshake)?;
    let step: Step<ClientConnectionData> = UnbufferedConnectionCommon::<ClientConnectionData>::process_tls_records;
    let early = drive(&mut connection, step, wire)?;
    let certified = connection.peer_certificates().is_some();
    let (secrets, kernel): (_, KernelConnection<_>) =
        connection.dangerous_into_kernel_connection().map_err(TlsFault::Handshake)?;
    session(secrets, KeySchedule::Client(Box::new(kernel)), early, certified)
}

pub(crate) fn accept(config: Arc<ServerConfig>, wire: &mut impl Wire) -> Result<Session, TlsFault> {
    let mut connection = UnbufferedServerConnection::new(config).map_err(TlsFault::Handshake)?;
    let step: Step<ServerConnectionData> = UnbufferedConnectionCommon::<ServerConnectionData>::process_tls_records;
    let early = drive(&mut connection, step, wire)?;
    let certified = connection.peer_certificates().is_some();
    let (secrets, kernel): (_, KernelConnection<_>) =
        connection.dangerous_into_kernel_connection().map_err(TlsFault::Handshake)?;
    session(secrets, KeySchedule::Server(Box::new(kernel)), early, certified)
}

fn session(secrets: ExtractedSecrets, chain: KeySchedule, early: Vec<u8>, certified: bool) -> Result<Session, TlsFault> {
    let ExtractedSecrets { tx, rx } = secrets;
    let shared = Arc::new(Shared::new(chain));
    Ok(Session {
        sealer: Sealer::new(TrafficKey::new(tx)?, Arc::clone(&shared)),
        opener: Opener::new(TrafficKey::new(rx)?, shared),
        early,
        certified,
    })
}

/// Runs the handshake. Returns the bytes that were received after it.
///
/// rustls gets one record at a time, because it must not read the records after the handshake.
fn drive<D>(connection: &mut UnbufferedConnectionCommon<D>, step: Step<D>, wire: &mut impl Wire) -> Result<Vec<u8>, TlsFault> {
    let mut received = Vec::new();
    let mut given = 0; // bytes of `received` that rustls may read
    let mut records = 0;
    let mut outgoing = Vec::new();
    loop {
        let UnbufferedStatus { discard, state } = step(connection, received.get_mut(..given).unwrap_or_default());
        let mut blocked = false;
        match state {
            Ok(ConnectionState::EncodeTlsData(data)) => encode(data, &mut outgoing)?,
            Ok(ConnectionState::TransmitTlsData(transmit)) => {
                wire.send(&outgoing).map_err(TlsFault::Wire)?;
                outgoing.clear();
                transmit.done();
            }
            Ok(ConnectionState::BlockedHandshake) => blocked = true,
            Ok(ConnectionState::WriteTraffic(_)) if discard == given => {
                received.drain(..discard);
                return Ok(received);
            }
            Ok(_) => return Err(TlsFault::Unexpected("data in the middle of it")),
            Err(error) => {
                let left = received.get_mut(discard..given).unwrap_or_default();
                send_alert(connection, step, left, wire, outgoing);
                return Err(TlsFault::Handshake(error));
            }
        }
        received.drain(..discard);
        given -= discard;
        if blocked {
            records += 1;
            if records > HANDSHAKE_RECORDS_MAX {
                return Err(TlsFault::Unexpected("it has no end"));
            }
            given = next_record(&mut received, given, wire)?;
        }
    }
}

/// Receives until one more record is complete. Returns where it ends.
fn next_record(received: &mut Vec<u8>, from: usize, wire: &mut impl Wire) -> Result<usize, TlsFault> {
    loop {
        let record = received.get(from..).unwrap_or_default();
        if let Some(&first) = record.first().filter(|first| !(20..=23).contains(*first)) {
            return Err(RecordFault::NotTls(first).into());
        }
        if let Some([_, _, _, high, low]) = record.first_chunk::<RECORD_HEAD_BYTES>() {
            let body_bytes = usize::from(u16::from_be_bytes([*high, *low]));
            if body_bytes > BODY_BYTES_MAX {
                return Err(RecordFault::TooLong(body_bytes).into());
            }
            if record.len() >= RECORD_HEAD_BYTES + body_bytes {
                return Ok(from + RECORD_HEAD_BYTES + body_bytes);
            }
        }
        let end = received.len();
        if end + RECORD_BYTES_MAX > HANDSHAKE_BYTES_MAX {
            return Err(TlsFault::Unexpected("certificates without end"));
        }
        received.resize(end + RECORD_BYTES_MAX, 0);
        let count = wire.receive(received.get_mut(end..).unwrap_or_default());
        received.truncate(end + *count.as_ref().unwrap_or(&0));
        if count.map_err(TlsFault::Wire)? == 0 {
            return Err(TlsFault::Wire(io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

fn encode<D>(mut data: EncodeTlsData<'_, D>, outgoing: &mut Vec<u8>) -> Result<(), TlsFault> {
    let start = outgoing.len();
    let written = match data.encode(&mut []) {
        Ok(written) => written,
        Err(EncodeError::InsufficientSize(needed)) => {
            outgoing.resize(start + needed.required_size, 0);
            let room = outgoing.get_mut(start..).unwrap_or_default();
            data.encode(room).map_err(|_| TlsFault::Unexpected("a message that does not fit the buffer"))?
        }
        Err(EncodeError::AlreadyEncoded) => 0,
    };
    outgoing.truncate(start + written);
    Ok(())
}

/// Sends the peer an alert (RFC 8446 6) with the reason of the failure. An error is ignored, because the handshake has failed.
///
/// Makes only one step: after the alert, rustls would read the same bytes again, and would panic because it sends no second
/// alert.
fn send_alert<D>(
    connection: &mut UnbufferedConnectionCommon<D>,
    step: Step<D>,
    received: &mut [u8],
    wire: &mut impl Wire,
    mut outgoing: Vec<u8>,
) {
    if let UnbufferedStatus { state: Ok(ConnectionState::EncodeTlsData(data)), .. } = step(connection, received)
        && encode(data, &mut outgoing).is_ok()
    {
        let _ = wire.send(&outgoing);
    }
}
