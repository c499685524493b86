//! TLS between Millrace and OpenSSL, in programs that fork, and across restarts of the filer.

use crate::support::filer::Filer;
use crate::support::tls::Pki;
use crate::support::wire::Wire;
use crate::support::{Scratch, find_program, millrace, preload_library, skip, succeed, text};
use dnfs::file::CreateMode;
use dnfs::{Cause, Client, Credentials, Error, Event, FileHandle, NfsUrl, SetAttributes, Stability};
use nfs_proto::nfs3::{self, StableHow};
use nfs_proto::rpc::{CallHeader, OpaqueAuth, RPC_VERSION, Xid, encode_call, encode_starttls, offers_tls};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// A program. Dropping it kills the process.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Copies bytes up to the end of the input, then calls `end`.
fn relay(mut from: impl Read + Send + 'static, mut to: impl Write + Send + 'static, end: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if to.write_all(&buffer[..count]).and_then(|()| to.flush()).is_err() {
                break;
            }
        }
        end();
    });
}

/// Copies in both directions between two sockets.
fn join(a: &TcpStream, b: &TcpStream) {
    for (from, to) in [(a, b), (b, a)] {
        let (from, to, ended) = (from.try_clone().unwrap(), to.try_clone().unwrap(), to.try_clone().unwrap());
        relay(from, to, move || drop(ended.shutdown(Shutdown::Write)));
    }
}

fn read_record(stream: &mut TcpStream) -> Vec<u8> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut body = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut body).unwrap();
    body
}

/// Listens. Each connection is forwarded to a connection to `port` on which TLS has been requested.
fn asking(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let mut far = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let (program, version) = (nfs3::PROGRAM, nfs3::VERSION);
            let (credential, verifier) = (OpaqueAuth::TLS, OpaqueAuth::NONE);
            let header =
                CallHeader { xid: Xid(1), rpc_version: RPC_VERSION, program, version, procedure: 0, credential, verifier };
            let mut call = Vec::new();
            encode_call(&header, &(), &mut call);
            far.write_all(&call).unwrap();
            assert!(offers_tls(&read_record(&mut far)).unwrap().1);
            join(&near, &far);
        }
    });
    own
}

#[test]
fn openssl_as_a_client_reads_and_writes_through_the_filer() {
    let Some(openssl) = find_program("openssl") else {
        skip("openssl is not installed");
        return;
    };
    let scratch = Scratch::new("tls-s-client");
    let pki = Pki::new(&scratch);
    let filer = pki.filer(&scratch, "mutual");
    let relay_port = asking(filer.port);
    for cipher in ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"] {
        let mut command = Command::new(&openssl);
        command.args(["s_client", "-quiet", "-tls1_3", "-ciphersuites", cipher, "-alpn", "sunrpc", "-verify_return_error"]);
        command.args(["-verify_ip", "127.0.0.1", "-connect", &format!("127.0.0.1:{relay_port}"), "-CAfile", &pki.path("ca.pem")]);
        command.args(["-cert", &pki.path("client.pem"), "-key", &pki.path("client.key")]);
        let mut client = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        // Millrace's codec is at one end of a socket pair, the program at the other.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut wire = Wire::connect(listener.local_addr().unwrap().port());
        let near = listener.accept().unwrap().0;
        relay(near.try_clone().unwrap(), client.0.stdin.take().unwrap(), || ());
        relay(client.0.stdout.take().unwrap(), near, || ());
        let root = wire.root();
        let file = wire.create(root, cipher);
        for (at, data) in [(0, vec![7; 100]), (100, vec![8; 300_000])] {
            let done = wire.write(file, at, &data, StableHow::FileSync);
            assert_eq!(done.count as usize, data.len());
        }
        let written = std::fs::read(filer.export().join(cipher)).unwrap();
        assert_eq!(written, [vec![7; 100], vec![8; 300_000]].concat(), "{cipher}");
    }
}

/// A server that offers TLS and leaves the rest to `openssl s_server`, which passes the decrypted
/// bytes to a filer.
fn openssl_server(openssl: &std::path::Path, pki: &Pki, cipher: &str, filer: &Filer) -> (u16, Running) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(openssl);
    command.args(["s_server", "-quiet", "-tls1_3", "-ciphersuites", cipher, "-alpn", "sunrpc", "-accept", &free.to_string()]);
    command.args(["-cert", &pki.path("filer.pem"), "-key", &pki.path("filer.key")]);
    command.args(["-CAfile", &pki.path("ca.pem"), "-Verify", "1", "-verify_return_error"]);
    let mut server = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let plain = TcpStream::connect(("127.0.0.1", filer.port)).unwrap();
    relay(plain.try_clone().unwrap(), server.0.stdin.take().unwrap(), || ());
    relay(server.0.stdout.take().unwrap(), plain, || ());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut near in listener.incoming().map_while(Result::ok) {
            let call = read_record(&mut near);
            let mut reply = Vec::new();
            encode_starttls(Xid(u32::from_be_bytes(*call.first_chunk().unwrap())), &mut reply);
            near.write_all(&reply).unwrap();
            let far = crate::support::await_until("openssl to listen", Duration::from_secs(20), || {
                TcpStream::connect(("127.0.0.1", free)).ok()
            });
            join(&near, &far);
        }
    });
    (port, server)
}

#[test]
fn our_client_reads_and_writes_through_openssl_as_a_server() {
    let Some(openssl) = find_program("openssl") else {
        skip("openssl is not installed");
        return;
    };
    let scratch = Scratch::new("tls-s-server");
    let pki = Pki::new(&scratch);
    let filer = Filer::start(&scratch, &[]);
    let root = FileHandle::new(Wire::connect(filer.port).root().as_bytes()).unwrap();
    for cipher in ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"] {
        let (port, server) = openssl_server(&openssl, &pki, cipher, &filer);
        // The mount exists already, because openssl serves one connection at a time.
        let url: NfsUrl = format!("nfs://127.0.0.1:{port}/vol?channels=1{}", pki.mutual()).parse().unwrap();
        let server_address = ([127, 0, 0, 1], port).into();
        let parts = dnfs::MountParts {
            server: server_address,
            addresses: dnfs::AddressSet::default(),
            root,
            rtmax: 1 << 20,
            wtmax: 1 << 20,
            wtpref: 1 << 20,
            dtpref: 8192,
            fsid: 1,
            host: 0,
        };
        let client = Client::from_parts(parts, &url, &Credentials::of_process()).unwrap();
        let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        let file = client.create(&root, cipher.as_bytes(), CreateMode::Guarded(set)).unwrap().0.unwrap();
        let data = sim::Rng::new(3).bytes(700_000);
        client.write(&file, 0, &[IoSlice::new(&data)], Stability::FileSync).unwrap();
        assert!(std::fs::read(filer.export().join(cipher)).unwrap() == data, "{cipher}");
        let mut back = vec![0; data.len()];
        client.read(&file, 0, &mut [IoSliceMut::new(&mut back)]).unwrap();
        assert!(back == data, "{cipher}");
        drop(server);
    }
}

#[test]
fn a_mount_under_tls_outlives_the_filer_and_never_falls_back_to_plain() {
    let scratch = Scratch::new("tls-restart");
    let pki = Pki::new(&scratch);
    let mut filer = pki.filer(&scratch, "allowed");
    std::fs::write(filer.export().join("data"), "before").unwrap();
    let url: NfsUrl = (filer.url.clone() + &pki.tls()).parse().unwrap();
    let client = Client::mount(&url, &Credentials::of_process()).unwrap();
    let root = client.parts().root;
    let size = |client: &Client| client.lookup(&root, b"data").map(|(_, attributes)| attributes.unwrap().size);
    assert_eq!(size(&client).unwrap(), 6);
    filer.kill();
    filer.restart();
    std::fs::write(filer.export().join("data"), "afterwards").unwrap();
    assert_eq!(size(&client).unwrap(), 10);
    assert!(client.counters().reconnects >= 1);
    // The same port without TLS. The client waits for TLS, does not use the port, and reports that.
    static EVENTS: Mutex<Vec<Event>> = Mutex::new(Vec::new());
    dnfs::report_to(|event| EVENTS.lock().unwrap().push(event));
    let soft: NfsUrl = (filer.url.clone() + &pki.tls() + "&soft&timeo=60&retrans=0").parse().unwrap();
    let soft = Client::from_parts(client.parts(), &soft, &Credentials::of_process()).unwrap();
    assert_eq!(size(&soft).unwrap(), 10);
    filer.kill();
    let plain = Filer::start_on(&scratch, filer.port, &[]);
    assert!(matches!(size(&soft), Err(Error::TimedOut { .. })));
    assert_eq!(plain.calls("LOOKUP"), 0);
    let events = EVENTS.lock().unwrap();
    let [Event::NotResponding { server, cause: Cause::NoTls, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(*server, soft.parts().server);
}

#[test]
fn programs_that_fork_work_under_tls() {
    let scratch = Scratch::new("tls-exec");
    let pki = Pki::new(&scratch);
    let filer = pki.filer(&scratch, "mutual");
    let script = "cd /db && head -c 300000 /dev/zero > a && (cat a > b; wc -c < b) & wait; cd /db; \
                  for i in 1 2 3 4 5; do (echo $i >> log; cat a a > c.$i) & done; wait; cat log | sort | tr -d '\\n'";
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "60"]).arg(millrace().get_program()).env("MILLRACE_PRELOAD", preload_library());
    command.env("LC_ALL", "C").current_dir("/").args(["exec", "--mount", &format!("/db={}{}", filer.url, pki.mutual())]);
    let said = succeed(command.args(["--", "/bin/sh", "-c", script]));
    assert_eq!(said.replace('\n', "").trim(), "30000012345", "{said}");
    for copy in 1..=5 {
        assert_eq!(std::fs::read(filer.export().join(format!("c.{copy}"))).unwrap(), vec![0; 600_000]);
    }
    let refused = millrace()
        .args(["exec", "--mount", &format!("/db={}{}", filer.url, pki.tls()), "--", "/bin/true"])
        .env("MILLRACE_PRELOAD", preload_library())
        .output()
        .unwrap();
    assert!(!refused.status.success() && text(&refused).contains("xprtsec=mtls"), "{}", text(&refused));
}
