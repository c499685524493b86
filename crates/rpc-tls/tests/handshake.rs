//! Handshakes over a pipe of bytes, and records after them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use rpc_tls::limits::{PLAIN_BYTES_MAX, RECORD_BYTES_MAX, SEAL_BYTES_MIN};
use rpc_tls::{
    ClientTls, Identity, Incoming, Lifetime, PeerName, Pem, RecordFault, Sealer, ServerTls, Session, SetupError, Taken, TlsFault,
    Wire,
};
use sim::authority::{Authority, Issued, Valid};

/// One end of a pipe that hands on at most `piece` bytes at a time.
struct End {
    to: Sender<Vec<u8>>,
    from: Receiver<Vec<u8>>,
    rest: Vec<u8>,
    piece: usize,
    damage: Damage,
    sent: usize,
    patience: Duration,
}

/// What somebody on the way does to the bytes of one end.
#[derive(Clone, Debug)]
enum Damage {
    None,
    /// Changes the byte at this place by that.
    Change(usize, u8),
    /// Puts a record of his own in front of what begins at this place or behind it.
    Insert(usize, Vec<u8>),
}

impl Wire for End {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (mut bytes, start) = (bytes.to_vec(), self.sent);
        self.sent += bytes.len();
        match &mut self.damage {
            Damage::Change(at, by) if (start..self.sent).contains(at) => bytes[*at - start] ^= *by,
            Damage::Insert(at, record) if start >= *at => bytes = [std::mem::take(record), bytes].concat(),
            _ => {}
        }
        self.to.send(bytes).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            // A length that somebody changed has one end wait for what the other never sends.
            let silent =
                |error| if error == RecvTimeoutError::Timeout { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Vec::new()) };
            let came: io::Result<_> = self.from.recv_timeout(self.patience).or_else(silent);
            self.rest = came?;
        }
        let count = self.rest.len().min(room.len()).min(self.piece);
        room[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}

fn pipe(piece: usize) -> (End, End) {
    let ((a, from_a), (b, from_b)) = (channel(), channel());
    let end =
        |to, from| End { to, from, rest: Vec::new(), piece, damage: Damage::None, sent: 0, patience: Duration::from_secs(30) };
    (end(a, from_b), end(b, from_a))
}

fn now() -> Option<Duration> {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()
}

fn pem(path: &str, text: &str) -> Pem {
    Pem { path: path.into(), bytes: text.as_bytes().to_vec() }
}

fn identity(issued: &Issued) -> Identity {
    Identity { certificate: pem("cert.pem", &issued.certificate), key: pem("key.pem", &issued.key) }
}

/// Both ends of a handshake.
fn shake(
    client: &ClientTls,
    name: &str,
    server: &ServerTls,
    piece: usize,
) -> (Result<Session, TlsFault>, Result<Session, TlsFault>) {
    shake_by(client, name, server, pipe(piece))
}

fn shake_by(
    client: &ClientTls,
    name: &str,
    server: &ServerTls,
    (mut here, mut there): (End, End),
) -> (Result<Session, TlsFault>, Result<Session, TlsFault>) {
    let (server, name) = (server.clone(), PeerName::new(name).unwrap());
    let accepting = std::thread::spawn(move || server.handshake(&mut there));
    let connected = client.handshake(&name, &mut here);
    drop(here);
    (connected, accepting.join().unwrap())
}

fn pair() -> (Session, Session) {
    let authority = Authority::new();
    let server = ServerTls::new(&identity(&authority.issue(&["filer"], Valid::Now)), None, now).unwrap();
    let client = ClientTls::new(&pem("ca.pem", &authority.certificate()), None, now).unwrap();
    let (client, server) = shake(&client, "filer", &server, usize::MAX);
    (client.unwrap(), server.unwrap())
}

fn sealed(sealer: &mut Sealer, mut data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !data.is_empty() {
        let mut out = vec![0; Sealer::room_for(data.len())];
        let done = sealer.seal(&[data], &mut out).unwrap();
        bytes.extend_from_slice(&out[..done.sealed]);
        data = &data[done.plain..];
    }
    bytes
}

fn incoming(session: Session) -> Incoming<Vec<u8>> {
    Incoming::new(session.opener, vec![0; RECORD_BYTES_MAX], &session.early)
}

/// Feeds `bytes` in pieces and takes all data.
fn opened(incoming: &mut Incoming<Vec<u8>>, mut bytes: &[u8], piece: usize) -> Result<Vec<u8>, RecordFault> {
    let mut data = Vec::new();
    loop {
        let mut part = [0; 1000];
        match incoming.take(&mut part)? {
            Taken::Bytes(count) => data.extend_from_slice(&part[..count]),
            Taken::Closed => return Ok(data),
            Taken::None if bytes.is_empty() => return Ok(data),
            Taken::None => {
                let room = incoming.room();
                let count = bytes.len().min(piece).min(room.len());
                room[..count].copy_from_slice(&bytes[..count]);
                incoming.received(count);
                bytes = &bytes[count..];
            }
        }
    }
}

#[test]
fn both_ends_agree_however_the_handshake_is_cut() {
    let authority = Authority::new();
    let server = ServerTls::new(&identity(&authority.issue(&["filer", "127.0.0.1"], Valid::Now)), None, now).unwrap();
    let client = ClientTls::new(&pem("ca.pem", &authority.certificate()), None, now).unwrap();
    for piece in [1, 3, 64, usize::MAX] {
        for name in ["filer", "127.0.0.1"] {
            let (mut client, server) = match shake(&client, name, &server, piece) {
                (Ok(client), Ok(server)) => (client, server),
                other => panic!("{other:?}"),
            };
            assert!(client.certified && !server.certified);
            let bytes = sealed(&mut client.sealer, b"hello");
            assert_eq!(opened(&mut incoming(server), &bytes, piece).unwrap(), b"hello");
        }
    }
}

#[test]
fn a_client_that_shows_a_trusted_certificate_is_certified() {
    let authority = Authority::new();
    let trusted = pem("ca.pem", &authority.certificate());
    let server = ServerTls::new(&identity(&authority.issue(&["filer"], Valid::Now)), Some(&trusted), now).unwrap();
    let mine = identity(&authority.issue(&["client"], Valid::Now));
    let client = ClientTls::new(&trusted, Some(&mine), now).unwrap();
    assert!(server.certifies_clients() && shake(&client, "filer", &server, 100).1.unwrap().certified);
    let bare = ClientTls::new(&trusted, None, now).unwrap();
    assert!(!shake(&bare, "filer", &server, 100).1.unwrap().certified);
    let foreign = identity(&Authority::new().issue(&["client"], Valid::Now));
    let foreign = ClientTls::new(&trusted, Some(&foreign), now).unwrap();
    let (told, refused) = shake(&foreign, "filer", &server, 100);
    assert!(refused.unwrap_err().hint().unwrap().contains("signed by no authority"));
    assert!(told.is_ok(), "the client is told by a record behind its handshake");
}

#[test]
fn servers_that_are_foreign_expired_or_another_host_are_not_believed() {
    let (authority, other) = (Authority::new(), Authority::new());
    let client = ClientTls::new(&pem("ca.pem", &authority.certificate()), None, now).unwrap();
    let cases = [
        (other.issue(&["filer"], Valid::Now), "filer", "signed by no authority"),
        (authority.issue(&["filer"], Valid::Once), "filer", "expired"),
        (authority.issue(&["other"], Valid::Now), "filer", "subjectAltName"),
        (authority.issue(&["filer"], Valid::Now), "10.0.0.1", "subjectAltName"),
    ];
    for (issued, name, hint) in cases {
        let server = ServerTls::new(&identity(&issued), None, now).unwrap();
        let (client, server) = shake(&client, name, &server, 1000);
        assert!(client.unwrap_err().hint().unwrap().contains(hint), "{hint}");
        assert!(matches!(server.unwrap_err(), TlsFault::Handshake(rustls::Error::AlertReceived(_))), "{hint}");
    }
}

#[test]
fn a_server_knows_for_how_long_its_own_certificate_is_valid() {
    let authority = Authority::new();
    let at = |valid| {
        let server = ServerTls::new(&identity(&authority.issue(&["filer"], valid)), None, now).unwrap();
        server.validity().unwrap().at(now().unwrap())
    };
    assert_eq!([at(Valid::Now), at(Valid::Once)], [Lifetime::Valid, Lifetime::Ended]);
}

#[test]
fn without_a_clock_nobody_is_believed() {
    let authority = Authority::new();
    let server = ServerTls::new(&identity(&authority.issue(&["filer"], Valid::Now)), None, now).unwrap();
    let client = ClientTls::new(&pem("ca.pem", &authority.certificate()), None, || None).unwrap();
    assert!(shake(&client, "filer", &server, 1000).0.is_err());
}

#[test]
fn a_handshake_cut_off_or_in_the_clear_ends_with_an_error() {
    let authority = Authority::new();
    let server = ServerTls::new(&identity(&authority.issue(&["filer"], Valid::Now)), None, now).unwrap();
    let (mut here, mut there) = pipe(usize::MAX);
    here.send(&[22, 3, 1, 1, 0, 1]).unwrap();
    drop(here);
    assert!(matches!(server.handshake(&mut there), Err(TlsFault::Wire(_))));
    let (mut here, mut there) = pipe(usize::MAX);
    here.send(&[0x80, 0, 0, 40, 1, 2, 3, 4]).unwrap();
    assert!(matches!(server.handshake(&mut there), Err(TlsFault::Record(RecordFault::NotTls(0x80)))));
    let (mut here, mut there) = pipe(usize::MAX);
    here.send(&[22, 3, 1, 0xff, 0xff]).unwrap();
    assert!(matches!(server.handshake(&mut there), Err(TlsFault::Record(RecordFault::TooLong(_)))));
}

#[test]
fn a_handshake_that_somebody_meddles_with_carries_nothing_but_what_was_said() {
    let authority = Authority::new();
    let (one, two) = (authority.issue(&["filer"], Valid::Now), authority.issue(&["client"], Valid::Now));
    let trusted = pem("ca.pem", &authority.certificate());
    let server = ServerTls::new(&identity(&one), Some(&trusted), now).unwrap();
    let client = ClientTls::new(&trusted, Some(&identity(&two)), now).unwrap();
    let (mut refused, mut tried) = (0, 0);
    sim::sweep(200, |seed, mut random| {
        tried += 1;
        let (mut here, mut there) = pipe(random.index(3000) + 1);
        (here.patience, there.patience) = (Duration::from_millis(500), Duration::from_millis(500));
        let damage = match random.index(3) {
            0 => {
                let bytes = random.index(40);
                let head = [20 + random.index(4) as u8, 3, 3, 0, bytes as u8];
                Damage::Insert(random.index(1000), [&head[..], &random.bytes(bytes)].concat())
            }
            _ => Damage::Change(random.index(1400), random.index(255) as u8 + 1),
        };
        let end = if random.chance(1, 2) { &mut here } else { &mut there };
        end.damage = damage.clone();
        let (Ok(mut client), Ok(server)) = shake_by(&client, "filer", &server, (here, there)) else {
            refused += 1;
            return;
        };
        // Some bytes say nothing: the version outside of a record is one that nobody reads (RFC 8446 5.1).
        let bytes = sealed(&mut client.sealer, b"a call");
        if let Ok(data) = opened(&mut incoming(server), &bytes, 100) {
            assert_eq!(data, b"a call", "seed {seed}: {damage:?}");
        }
    });
    assert!(tried < 100 || refused > tried / 5, "{refused} of {tried} were noticed");
}

#[test]
fn data_of_every_length_survives_every_cut() {
    let (mut client, server) = pair();
    let mut incoming = incoming(server);
    let mut data = sim::Rng::new(7).bytes(40_000);
    for length in [1, 2, 999, 1000, 1001, PLAIN_BYTES_MAX - 1, PLAIN_BYTES_MAX, PLAIN_BYTES_MAX + 1, 40_000] {
        for piece in [1, 7, 5000, usize::MAX] {
            data[0] ^= 1;
            let bytes = sealed(&mut client.sealer, &data[..length]);
            assert_eq!(opened(&mut incoming, &bytes, piece).unwrap(), &data[..length], "{length} in pieces of {piece}");
            assert!(incoming.is_empty());
        }
    }
}

#[test]
fn parts_are_sealed_as_far_as_there_is_room_and_scattered_as_they_come() {
    let (mut client, server) = pair();
    let mut incoming = incoming(server);
    let parts: [&[u8]; 4] = [b"head", b"", &[7; 30_000], b"pad"];
    let mut out = vec![0; 20_000];
    let first = client.sealer.seal(&parts, &mut out).unwrap();
    assert!(first.plain < 30_007 && first.plain > 19_000 && first.sealed <= out.len());
    let got = opened(&mut incoming, &out[..first.sealed], usize::MAX).unwrap();
    assert_eq!(got, &parts.concat()[..first.plain]);
    let bytes = sealed(&mut client.sealer, b"abcdefgh");
    incoming.room()[..bytes.len()].copy_from_slice(&bytes);
    incoming.received(bytes.len());
    let (mut a, mut b, mut c) = ([0; 3], [0; 0], [0; 10]);
    let mut scattered = [io::IoSliceMut::new(&mut a), io::IoSliceMut::new(&mut b), io::IoSliceMut::new(&mut c)];
    assert_eq!(incoming.take_scattered(&mut scattered), Ok(Taken::Bytes(8)));
    assert_eq!((&a, &c[..5]), (b"abc", &b"defgh"[..]));
}

#[test]
fn a_changed_repeated_or_lost_record_is_noticed() {
    let (mut client, server) = pair();
    let first = sealed(&mut client.sealer, b"first");
    let second = sealed(&mut client.sealer, b"second");
    let mut changed = first.clone();
    changed[6] ^= 1;
    assert_eq!(opened(&mut incoming(server), &changed, 100), Err(RecordFault::Forged));
    let (mut client, server) = pair();
    let third = sealed(&mut client.sealer, b"third");
    let mut receiving = incoming(server);
    assert_eq!(opened(&mut receiving, &third, 100).unwrap(), b"third");
    assert_eq!(opened(&mut receiving, &third, 100), Err(RecordFault::Forged));
    let (_, server) = pair();
    assert_eq!(opened(&mut incoming(server), &second, 100), Err(RecordFault::Forged));
}

#[test]
fn plain_text_and_long_records_are_refused_by_their_head() {
    for (bytes, fault) in [
        (&[0x80, 0, 0, 40, 0, 0][..], RecordFault::NotTls(0x80)),
        (&[22, 3, 3, 0, 4, 0][..], RecordFault::NotTls(22)),
        (&[23, 3, 3, 0xff, 0xff][..], RecordFault::TooLong(0xffff)),
        (&[23, 3, 3, 0, 3, 1, 2, 3][..], RecordFault::Forged),
    ] {
        let (_, server) = pair();
        assert_eq!(opened(&mut incoming(server), bytes, 100), Err(fault));
    }
}

#[test]
fn a_closed_side_sends_no_more() {
    let (mut client, server) = pair();
    let mut bytes = sealed(&mut client.sealer, b"last");
    bytes.extend(client.sealer.close().unwrap());
    let mut incoming = incoming(server);
    assert_eq!(opened(&mut incoming, &bytes, 10).unwrap(), b"last");
    assert_eq!(incoming.take(&mut [0; 10]), Ok(Taken::Closed));
}

#[test]
fn keys_change_on_the_way_without_a_byte_lost() {
    let (client, server) = pair();
    let (mut client, mut server) = (client, server);
    client.sealer.change_keys_after(3);
    server.sealer.change_keys_after(2);
    let (mut to_client, mut to_server) = (client.sealer, server.sealer);
    let mut at_server = Incoming::new(server.opener, vec![0; RECORD_BYTES_MAX], &[]);
    let mut at_client = Incoming::new(client.opener, vec![0; RECORD_BYTES_MAX], &[]);
    for round in 0..100u8 {
        let bytes = sealed(&mut to_client, &[round; 40_000]);
        assert_eq!(opened(&mut at_server, &bytes, 4000).unwrap(), [round; 40_000]);
        let bytes = sealed(&mut to_server, &[round, 1]);
        assert_eq!(opened(&mut at_client, &bytes, 4000).unwrap(), [round, 1]);
    }
    assert!(to_client.seal(&[&[1u8; 100][..]], &mut [0; SEAL_BYTES_MIN]).unwrap().plain > 0);
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_remedy() {
    let authority = Authority::new();
    let (one, two) = (authority.issue(&["a"], Valid::Now), authority.issue(&["a"], Valid::Now));
    let trusted = pem("ca.pem", &authority.certificate());
    let with = |certificate: &str, key: &str| {
        let identity = Identity { certificate: pem("cert.pem", certificate), key: pem("key.pem", key) };
        ServerTls::new(&identity, Some(&trusted), now).unwrap_err()
    };
    assert_eq!(with("nothing", &one.key), SetupError::NoCertificate { path: "cert.pem".into() });
    assert_eq!(with(&one.certificate, "nothing"), SetupError::NoKey { path: "key.pem".into() });
    assert_eq!(with(&one.certificate, &two.key), SetupError::NotAPair { certificate: "cert.pem".into(), key: "key.pem".into() });
    let broken = one.certificate.replace('M', "*");
    assert!(matches!(with(&broken, &one.key), SetupError::Pem { path, .. } if path == "cert.pem"));
    for (mode, kept) in [(0o100600, true), (0o100640, true), (0o100644, false), (0o100602, false)] {
        let secret = Pem::secret("key.pem".into(), one.key.clone().into(), mode);
        assert_eq!(secret.is_ok(), kept, "{mode:o}");
        assert!(secret.is_ok_and(|pem| !format!("{pem:?}").contains("PRIVATE")) == kept, "{mode:o}");
    }
    let nobody = ClientTls::new(&pem("ca.pem", ""), None, now).unwrap_err();
    assert!(nobody.to_string().contains("ca.pem") && nobody.hint().is_some());
    assert!(matches!(PeerName::new("no host"), Err(SetupError::Name { .. })));
}
