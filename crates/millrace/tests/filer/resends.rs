//! The calls that the filer treats as resends: calls of a client that cannot have the reply, but
//! never a new call of a client that has begun its xids again. A resend is answered on its own
//! connection, and is not executed again.

use crate::batches::FilerHere;
use crate::support::filer::Filer;
use crate::support::namespaces::{Namespaces, within};
use crate::support::tls::Pki;
use crate::support::wire::{Wire, place};
use crate::support::{Scratch, await_until};
use nfs_proto::nfs3::{CreateResult, FileHandle, MkDirArgs, NfsStatus, Procedure, SetAttr, WccResult};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;
use volume::faults::FaultSpec;

const LIMIT: Duration = Duration::from_secs(30);

fn mkdir(wire: &mut Wire, root: FileHandle, name: &str) -> Vec<u8> {
    wire.nfs_record(Procedure::MkDir, &MkDirArgs { place: place(root, name), attributes: SetAttr::default() })
}

fn path(filer: &FilerHere, name: &str) -> PathBuf {
    filer.scratch.folder("export").join(name)
}

fn made(wire: &mut Wire) -> Result<(), NfsStatus> {
    wire.receive().results::<CreateResult>().map(drop).map_err(|failure| failure.status)
}

/// Makes MKDIR wait for this time after it has created the directory.
fn slow_down(filer: &FilerHere, ms: u32) {
    filer.volume.set_fault(FaultSpec::parse(&format!("slow-flush,delay_ms={ms}")).unwrap()).unwrap();
}

/// Number of MKDIR calls that are done.
fn done(filer: &FilerHere) -> u64 {
    filer.server.filer().procedures()["MKDIR"].calls
}

#[test]
fn a_client_that_begins_its_xids_again_is_answered_for_its_new_calls() {
    let filer = FilerHere::new(volume::Options::default());
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let lock = mkdir(&mut wire, root, "lock");
    let mut first = Wire::connect(filer.port);
    // After some calls, the connection's TCP delays acknowledgements.
    for _ in 0..8 {
        first.root();
    }
    first.send(&lock);
    assert_eq!(made(&mut first), Ok(()));
    // While the first client is connected, and after it has closed, a call of the second client is not a resend.
    for gone in [false, true] {
        let mut second = Wire::connect(filer.port);
        second.send(&lock);
        assert_eq!(made(&mut second), Err(NfsStatus::Exist), "gone: {gone}");
        if !gone {
            first.stream.shutdown(std::net::Shutdown::Both).unwrap();
        }
    }
    std::fs::remove_dir(path(&filer, "lock")).unwrap();
    let mut third = Wire::connect(filer.port);
    third.send(&lock);
    assert_eq!(made(&mut third), Ok(()));
    assert!(path(&filer, "lock").is_dir());
    let remove = wire.nfs_record(Procedure::Remove, &place(root, "file"));
    for content in ["old", "new"] {
        std::fs::write(path(&filer, "file"), content).unwrap();
        let mut wire = Wire::connect(filer.port);
        wire.send(&remove);
        assert!(wire.receive().results::<WccResult>().is_ok());
        assert!(!path(&filer, "file").exists(), "{content}");
    }
}

#[test]
fn another_call_with_a_used_xid_on_the_same_connection_is_executed() {
    let filer = FilerHere::new(volume::Options::default());
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    for name in ["a", "b"] {
        wire.xid = 9;
        let call = mkdir(&mut wire, root, name);
        // The second copy is a resend.
        for _ in 0..2 {
            wire.send(&call);
            assert_eq!(made(&mut wire), Ok(()));
        }
        assert!(path(&filer, name).is_dir());
    }
}

#[test]
fn a_call_whose_connection_broke_before_the_reply_is_executed_once_and_its_resend_gets_the_reply() {
    let filer = FilerHere::new(volume::Options::default());
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    slow_down(&filer, 300);
    for resent_while_running in [true, false] {
        let name = if resent_while_running { "running" } else { "done" };
        let call = mkdir(&mut wire, root, name);
        let before = done(&filer);
        let mut old = Wire::connect(filer.port);
        old.send(&call);
        await_until("the call to run", LIMIT, || path(&filer, name).is_dir().then_some(()));
        old.reset();
        if !resent_while_running {
            await_until("the call to be done", LIMIT, || (done(&filer) > before).then_some(()));
        }
        let mut new = Wire::connect(filer.port);
        new.send(&call);
        assert_eq!(made(&mut new), Ok(()), "{name}");
    }
}

/// A filer whose listener is in the filer's network namespace, and a function that connects to it from the client's namespace.
fn partitioned(namespaces: &Namespaces) -> (FilerHere, impl Fn() -> Wire + '_) {
    let socket = within(Some(namespaces.filer()), || TcpListener::bind(Namespaces::address(0))).unwrap();
    let port = socket.local_addr().unwrap().port();
    let address = SocketAddr::new(Namespaces::address(0).ip(), port);
    let connect = move || Wire::over(within(Some(namespaces.client()), || TcpStream::connect(address)).unwrap());
    (FilerHere::on(socket, volume::Options::default()), connect)
}

/// Loses the reply of a call in a partition. The client resends the call from another port after `time`.
fn resend_after_a_partition_of(time: Duration) {
    let Some(namespaces) = Namespaces::linked(1) else { return };
    let (filer, connect) = partitioned(&namespaces);
    let mut old = connect();
    let root = old.root();
    slow_down(&filer, 1000);
    let call = mkdir(&mut old, root, "d");
    old.send(&call);
    await_until("the call to run", LIMIT, || path(&filer, "d").is_dir().then_some(()));
    namespaces.cut(0);
    assert_eq!(done(&filer), 0, "the reply is not sent yet");
    await_until("the call to be done", LIMIT, || (done(&filer) == 1).then_some(()));
    old.reset(); // the reset does not reach the filer
    std::thread::sleep(time);
    namespaces.mend(0);
    let mut new = connect();
    new.send(&call);
    assert_eq!(made(&mut new), Ok(()));
    // The client now has the reply, so another call with the same content is new.
    let mut other = connect();
    other.send(&call);
    assert_eq!(made(&mut other), Err(NfsStatus::Exist));
}

#[test]
fn a_call_whose_reply_a_partition_lost_is_recognised_from_another_port() {
    resend_after_a_partition_of(Duration::from_millis(500));
}

#[test]
#[ignore = "nightly: a minute and a half without a network"]
fn a_call_whose_reply_a_partition_of_90_seconds_lost_is_recognised_from_another_port() {
    resend_after_a_partition_of(Duration::from_secs(90));
}

/// A connection under TLS.
struct TlsWire {
    stream: TcpStream,
    sealer: rpc_tls::Sealer,
    incoming: rpc_tls::Incoming<Vec<u8>>,
}

impl TlsWire {
    fn connect(filer: &Filer, pki: &Pki) -> Self {
        struct Plain<'s>(&'s TcpStream);
        impl rpc_tls::Wire for Plain<'_> {
            fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
                (&mut &*self.0).write_all(bytes)
            }
            fn receive(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
                (&mut &*self.0).read(room)
            }
        }
        let mut wire = Wire::connect(filer.port);
        wire.send(&crate::tls::probe(0));
        wire.receive();
        let path = pki.path("ca.pem");
        let trusted = rpc_tls::Pem { bytes: std::fs::read(&path).unwrap(), path };
        let clock = || std::time::SystemTime::UNIX_EPOCH.elapsed().ok();
        let tls = rpc_tls::ClientTls::new(&trusted, None, clock).unwrap();
        let session = tls.handshake(&rpc_tls::PeerName::new("127.0.0.1").unwrap(), &mut Plain(&wire.stream)).unwrap();
        let incoming = rpc_tls::Incoming::new(session.opener, vec![0; 64 << 10], &session.early);
        Self { stream: wire.stream, sealer: session.sealer, incoming }
    }

    fn send(&mut self, record: &[u8]) {
        let mut sealed = vec![0; rpc_tls::Sealer::room_for(record.len())];
        let bytes = self.sealer.seal(&[record], &mut sealed).unwrap().sealed;
        self.stream.write_all(&sealed[..bytes]).unwrap();
    }

    /// The status in the next reply, after its header of 28 bytes.
    fn status(&mut self) -> u32 {
        let mut reply = [0; 4096];
        loop {
            if let rpc_tls::Taken::Bytes(bytes) = self.incoming.take(&mut reply).unwrap() {
                assert!(bytes >= 32, "a reply in one record");
                return u32::from_be_bytes(reply[28..32].try_into().unwrap());
            }
            let bytes = self.stream.read(self.incoming.room()).unwrap();
            assert!(bytes > 0, "closed");
            self.incoming.received(bytes);
        }
    }
}

#[test]
fn under_tls_a_delivered_reply_does_not_answer_a_new_call_and_a_lost_reply_is_sent_again() {
    let scratch = Scratch::new("resends-tls");
    let pki = Pki::new(&scratch);
    let filer = pki.filer(&scratch, "allowed");
    let mut plain = Wire::connect(filer.port);
    let root = plain.root();
    let call = mkdir(&mut plain, root, "lock");
    for expected in [0, NfsStatus::Exist.number(), NfsStatus::Exist.number()] {
        let mut wire = TlsWire::connect(&filer, &pki);
        wire.send(&call);
        assert_eq!(wire.status(), expected);
    }
    crate::faults::add(&filer, "slow-flush,delay_ms=300");
    let call = mkdir(&mut plain, root, "d");
    let mut old = TlsWire::connect(&filer, &pki);
    old.send(&call);
    await_until("the call to run", LIMIT, || filer.export().join("d").is_dir().then_some(()));
    Wire::over(old.stream).reset();
    await_until("the call to be done", LIMIT, || (filer.calls("MKDIR") == 4).then_some(()));
    let mut new = TlsWire::connect(&filer, &pki);
    new.send(&call);
    assert_eq!(new.status(), 0);
}
