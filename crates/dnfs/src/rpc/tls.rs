//! TLS of a connection (RFC 9289): asked for in the clear, hands shaken, records sealed and opened in memory of its own.
//!
//! Shaking hands allocates; after it nothing does but the change of a key, once in millions of records. The keys go with the
//! connection: a child after fork forgets them without a word on the wire and shakes hands for itself.

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};

use nfs_proto::record::{self, LAST_FRAGMENT};
use nfs_proto::rpc::{CallHeader, OpaqueAuth, RPC_VERSION, ReplyStatus, Xid, encode_call, offers_tls};
use rpc_tls::{ClientTls, Identity, Incoming, PeerName, Pem, RecordFault, Sealer, Taken, Wire};

use crate::error::{Error, ProtocolError};
use crate::limits::{HANDSHAKE_MS, PEM_BYTES_MAX, PROBE_REPLY_BYTES_MAX, RECEIVE_BYTES_MAX, SEALED_BYTES};
use crate::options::TransportSecurity;
use crate::rpc::service::{Fault, Link, Patience};
use crate::sys::files;
use crate::sys::socket::{self, Region, Socket};
use crate::url::NfsUrl;

/// How the connections of one link are to be made secret.
#[derive(Clone, Debug)]
pub(crate) struct Secrecy {
    tls: ClientTls,
    name: PeerName,
}

impl Secrecy {
    /// What the URL asks for on its way to one of its hosts: reads the certificates. None without TLS.
    ///
    /// # Errors
    /// [`Error::TlsFile`] and [`Error::Certificates`], which name the file.
    pub(crate) fn of(url: &NfsUrl, host: &str) -> Result<Option<Self>, Error> {
        let options = &url.options;
        let (Some(trusted), true) = (&options.trusted, options.security != TransportSecurity::None) else { return Ok(None) };
        let certificates = |path: &String| read(path).map(|(bytes, _)| Pem { path: path.clone(), bytes });
        let trusted = certificates(trusted)?;
        let identity = match (&options.certificate, &options.key) {
            (Some(certificate), Some(path)) => {
                let (bytes, mode) = read(path)?;
                Some(Identity { certificate: certificates(certificate)?, key: Pem::secret(path.clone(), bytes, mode)? })
            }
            _ => None,
        };
        let tls = ClientTls::new(&trusted, identity.as_ref(), now)?;
        Ok(Some(Self { tls, name: PeerName::new(host)? }))
    }
}

fn read(path: &str) -> Result<(Vec<u8>, u32), Error> {
    files::read(path, PEM_BYTES_MAX).map_err(|source| Error::TlsFile { path: path.to_owned(), source })
}

fn now() -> Option<Duration> {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()
}

/// TLS of one connection. What is asked of it is asked of the socket by the same words: see [`Socket`].
#[derive(Debug)]
pub(crate) struct Tls {
    sealer: Sealer,
    incoming: Incoming<Region>,
    sealed: Region,
    unsent: Range<usize>, // of it
    taken: usize,         // bytes of the caller's that are in there
}

impl Tls {
    /// Asks for TLS and shakes hands, on a connection on which nothing was said yet.
    pub(crate) fn start(socket: &Socket, link: &Link, secrecy: &Secrecy) -> Result<Self, Fault> {
        let mut hands = Hands { socket, until: Instant::now() + Duration::from_millis(HANDSHAKE_MS) };
        ask(&mut hands, link)?;
        let session = secrecy.tls.handshake(&secrecy.name, &mut hands).map_err(Fault::Tls)?;
        let map =
            |bytes| Region::map(bytes).map_err(|source| Fault::Fatal(Error::Local { action: "map a buffer for TLS", source }));
        Ok(Self {
            sealer: session.sealer,
            incoming: Incoming::new(session.opener, map(RECEIVE_BYTES_MAX)?, &session.early),
            sealed: map(SEALED_BYTES)?,
            unsent: 0..0,
            taken: 0,
        })
    }

    /// Seals what it can and sends all of that. After an error the same bytes are to be offered again: they are sealed
    /// already, and only their rest is sent.
    pub(crate) fn send(&mut self, socket: &Socket, segments: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.unsent.is_empty() {
            let done = self.sealer.seal(segments, &mut self.sealed).map_err(io::Error::other)?;
            (self.unsent, self.taken) = (0..done.sealed, done.plain);
        }
        while !self.unsent.is_empty() {
            let rest = self.sealed.get(self.unsent.clone()).unwrap_or_default();
            self.unsent.start += socket.send(&[IoSlice::new(rest)])?;
        }
        Ok(self.taken)
    }

    /// Receives what is there.
    pub(crate) fn receive(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive_by(socket, |incoming| incoming.take(buffer))
    }

    /// The same into several buffers.
    pub(crate) fn receive_scattered(&mut self, socket: &Socket, segments: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.receive_by(socket, |incoming| incoming.take_scattered(segments))
    }

    fn receive_by(
        &mut self,
        socket: &Socket,
        mut take: impl FnMut(&mut Incoming<Region>) -> Result<Taken, RecordFault>,
    ) -> io::Result<usize> {
        loop {
            match take(&mut self.incoming).map_err(io::Error::other)? {
                Taken::Bytes(bytes) => return Ok(bytes),
                Taken::Closed => return Ok(0),
                Taken::None => {}
            }
            match socket.receive(self.incoming.room())? {
                0 => return Ok(0),
                bytes => self.incoming.received(bytes),
            }
        }
    }
}

/// The probe: NULL with AUTH_TLS, in the clear. Nothing behind its answer is read: the handshake finds what does not belong.
fn ask(hands: &mut Hands<'_>, link: &Link) -> Result<(), Fault> {
    let xid = Xid(socket::random_u64() as u32);
    let (program, version) = (link.program.number, link.program.version);
    let (credential, verifier) = (OpaqueAuth::TLS, OpaqueAuth::NONE);
    let header = CallHeader { xid, rpc_version: RPC_VERSION, program, version, procedure: 0, credential, verifier };
    let mut call = Vec::new();
    encode_call(&header, &(), &mut call);
    hands.send(&call).map_err(Fault::Connect)?;
    let mut mark = [0; record::MARK_BYTES];
    hands.fill(&mut mark).map_err(Fault::Connect)?;
    let bytes = (u32::from_be_bytes(mark) & !LAST_FRAGMENT) as usize;
    if u32::from_be_bytes(mark) & LAST_FRAGMENT == 0 || bytes > PROBE_REPLY_BYTES_MAX {
        return Err(ProtocolError::Missing("an answer to the question for TLS").into());
    }
    let mut reply = vec![0; bytes];
    hands.fill(&mut reply).map_err(Fault::Connect)?;
    let (header, offered) = offers_tls(&reply)?;
    match header.status {
        _ if header.xid != xid => Err(ProtocolError::Stray.into()),
        ReplyStatus::Success if offered => Ok(()),
        // While mounting, a program that is not there is looked for elsewhere.
        status @ (ReplyStatus::ProgramUnavailable | ReplyStatus::ProgramMismatch { .. })
            if link.patience == Patience::Mounting =>
        {
            Err(Fault::Fatal(Error::Refused { server: link.server, status }))
        }
        _ => Err(Fault::NoTls),
    }
}

/// What a handshake goes over, with an end to its time.
struct Hands<'s> {
    socket: &'s Socket,
    until: Instant,
}

impl Hands<'_> {
    /// Receives so many bytes and not one more.
    fn fill(&mut self, mut room: &mut [u8]) -> io::Result<()> {
        while !room.is_empty() {
            let bytes = self.receive(room)?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            room = room.get_mut(bytes..).unwrap_or_default();
        }
        Ok(())
    }

    /// The socket's calls come back after a second at most, and after a signal. A peer that sends a byte now and then gets no
    /// more time by it.
    fn insist(&self, mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        while Instant::now() < self.until {
            match attempt() {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                other => return other,
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Wire for Hands<'_> {
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = self.insist(|| self.socket.send(&[IoSlice::new(bytes)]))?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.insist(|| self.socket.receive(room))
    }
}
