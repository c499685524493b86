//! TLS (RFC 9289): each client gets what the rule of the export allows. The clients are Millrace's,
//! libnfs, and bytes of the tests.

use crate::support::configured::Configured;
use crate::support::filer::Filer;
use crate::support::tls::Pki;
use crate::support::wire::{Reply, Wire};
use crate::support::{Scratch, find_program, millrace, skip, succeed, text};
use nfs_proto::mount3::MountStatus;
use nfs_proto::nfs3::{self, ObjectArgs, Procedure};
use nfs_proto::rpc::{
    AuthStat, CallHeader, OpaqueAuth, RPC_VERSION, ReplyHeader, ReplyStatus, Xid, encode_call, encode_starttls, offers_tls,
};
use nfs_proto::xdr::{Decode, Reader};
use sim::authority::Valid;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn nfs(arguments: &[&str]) -> Output {
    millrace().arg("nfs").args(arguments).output().unwrap()
}

/// Runs `millrace nfs ls` on the export. The error is the output of a refused command.
fn ls(filer: &Filer, security: &str) -> Result<String, String> {
    let output = nfs(&["ls", &(filer.url.clone() + security)]);
    if output.status.success() { Ok(text(&output)) } else { Err(text(&output)) }
}

#[test]
fn each_rule_gives_each_client_what_it_says() {
    let scratch = Scratch::new("tls-rules");
    let pki = Pki::new(&scratch);
    let libnfs = find_program("nfs-ls");
    for (rule, plain, tls, mutual) in [
        ("off", true, false, false),
        ("allowed", true, true, true),
        ("required", false, true, true),
        ("mutual", false, false, true),
    ] {
        let filer = pki.filer(&scratch, rule);
        std::fs::write(filer.export().join("seen"), "x").unwrap();
        for (security, served) in [(String::new(), plain), (pki.tls(), tls), (pki.mutual(), mutual)] {
            let listed = ls(&filer, &security);
            assert_eq!(listed.as_deref().is_ok_and(|names| names.contains("seen")), served, "{rule} {security}: {listed:?}");
            let said = listed.err().unwrap_or_default();
            assert!(served || (said.contains("MNT3ERR_ACCES") && said.contains("xprtsec=mtls")), "{rule} {security}: {said}");
        }
        if let Some(program) = &libnfs {
            let url = format!("nfs://127.0.0.1/vol/?version=3&nfsport={0}&mountport={0}", filer.port);
            let output = Command::new(program).arg(url).output().unwrap();
            assert_eq!(output.status.success() && text(&output).contains("seen"), plain, "{rule}: {}", text(&output));
        }
    }
    if libnfs.is_none() {
        skip("libnfs tools are not installed (libnfs-utils)");
    }
}

#[test]
fn a_handle_got_elsewhere_opens_nothing_in_the_clear() {
    let scratch = Scratch::new("tls-handle");
    let pki = Pki::new(&scratch);
    let open = Filer::start(&scratch, &[]);
    let root = Wire::connect(open.port).root();
    drop(open);
    for rule in ["required", "mutual"] {
        let filer = pki.filer(&scratch, rule);
        let mut wire = Wire::connect(filer.port);
        assert_eq!(wire.nfs(Procedure::Null, &()).status(), ReplyStatus::Success);
        assert_eq!(wire.mount("/vol"), Err(MountStatus::Acces));
        for procedure in [Procedure::GetAttr, Procedure::FsInfo, Procedure::ReadLink] {
            let status = wire.nfs(procedure, &ObjectArgs { object: root }).status();
            assert_eq!(status, ReplyStatus::AuthError(AuthStat::TooWeak), "{rule} {procedure:?}");
        }
    }
}

#[test]
fn files_go_both_ways_under_tls_byte_for_byte() {
    let scratch = Scratch::new("tls-cp");
    let pki = Pki::new(&scratch);
    let filer = pki.filer(&scratch, "required");
    let bytes = sim::Rng::new(1).bytes((5 << 20) + 12_345);
    let (local, back) = (scratch.path().join("local"), scratch.path().join("back"));
    std::fs::write(&local, &bytes).unwrap();
    let (local, back) = (local.to_str().unwrap(), back.to_str().unwrap());
    let (location, query) = filer.url.split_once('?').unwrap();
    for options in ["", "&rsize=4096&wsize=4096", "&rsize=65536&wsize=32768&slots=3", "&stable=always&wsize=8192"] {
        let url = format!("{location}/copy?{query}{}{options}", pki.tls());
        succeed(millrace().args(["nfs", "cp", local, &url]));
        assert!(std::fs::read(filer.export().join("copy")).unwrap() == bytes, "{options}");
        succeed(millrace().args(["nfs", "cp", &url, back]));
        assert!(std::fs::read(back).unwrap() == bytes, "{options}");
    }
}

#[test]
fn a_server_that_is_not_who_it_should_be_is_refused_with_cause_and_fix() {
    let scratch = Scratch::new("tls-server");
    let (pki, other) = (Pki::new(&scratch), Pki::named(&scratch, "other"));
    pki.issue("old", &["127.0.0.1"], Valid::Once);
    pki.issue("elsewhere", &["filer.example"], Valid::Now);
    for (options, parts) in [
        (other.serve("allowed", "filer"), ["signed by no authority", "no TLS with 127.0.0.1"]),
        (pki.serve("allowed", "old"), ["expired", "no TLS with 127.0.0.1"]),
        (pki.serve("allowed", "elsewhere"), ["subjectAltName", "not valid for name"]),
        (Vec::new(), ["offers no TLS", "--tls-cert"]),
    ] {
        let filer = Filer::start(&scratch, &options.iter().map(String::as_str).collect::<Vec<_>>());
        let said = ls(&filer, &pki.tls()).unwrap_err();
        assert!(parts.iter().all(|part| said.contains(part)), "{parts:?} in {said}");
    }
}

#[test]
fn a_client_whose_certificate_is_not_believed_is_told_so() {
    let scratch = Scratch::new("tls-client");
    let (pki, other) = (Pki::new(&scratch), Pki::named(&scratch, "other"));
    let filer = pki.filer(&scratch, "mutual");
    pki.issue("old", &["client"], Valid::Once);
    let with = |certificate: &str, key: &str| format!("&xprtsec=mtls&cacert={}&cert={certificate}&key={key}", pki.path("ca.pem"));
    for security in [with(&other.path("client.pem"), &other.path("client.key")), with(&pki.path("old.pem"), &pki.path("old.key"))]
    {
        let said = ls(&filer, &security).unwrap_err();
        assert!(said.contains("the peer ended TLS") && said.contains("does not trust our certificate"), "{said}");
    }
    assert!(ls(&filer, &pki.mutual()).is_ok());
}

#[test]
fn files_and_options_that_cannot_be_used_are_named_with_the_remedy() {
    let scratch = Scratch::new("tls-files");
    let pki = Pki::new(&scratch);
    let filer = pki.filer(&scratch, "allowed");
    let (ca, key) = (pki.path("ca.pem"), pki.path("client.key"));
    for (security, parts) in [
        ("&xprtsec=tls".to_owned(), ["without cacert", "cacert=/PATH"]),
        (format!("&cacert={ca}"), ["without TLS", "xprtsec=tls"]),
        (format!("&xprtsec=mtls&cacert={ca}"), ["without cert and key", "cert=/PATH&key=/PATH"]),
        (format!("&xprtsec=tls&cacert={ca}&cert={ca}&key={key}"), ["with xprtsec=tls", "xprtsec=mtls"]),
        ("&xprtsec=tls&cacert=ca.pem".to_owned(), ["cacert=ca.pem", "absolute path"]),
        ("&xprtsec=on".to_owned(), ["xprtsec=on", "none, tls or mtls"]),
        ("&xprtsec=tls&cacert=/none.pem".to_owned(), ["/none.pem", "check the path"]),
        (format!("&xprtsec=tls&cacert={key}"), ["client.key holds no certificate", "BEGIN CERTIFICATE"]),
        (format!("&xprtsec=mtls&cacert={ca}&cert={ca}&key={key}"), ["not that of the first certificate", "openssl x509 -pubkey"]),
    ] {
        let said = ls(&filer, &security).unwrap_err();
        assert!(parts.iter().all(|part| said.contains(part)), "{parts:?} in {said}");
    }
    let serve = |options: &[&str]| {
        let mut command = millrace();
        command.arg("serve").arg(scratch.folder("unserved")).args(["--listen", "127.0.0.1:0", "--state"]);
        let output = command.arg(scratch.folder("unserved-state")).args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        text(&output)
    };
    let (certificate, key) = (pki.path("filer.pem"), pki.path("filer.key"));
    assert!(serve(&["--tls", "required"]).contains("--tls-cert FILE"));
    assert!(serve(&["--tls", "mutual", "--tls-cert", &certificate, "--tls-key", &key]).contains("--tls-client-ca FILE"));
    assert!(serve(&["--tls-cert", &certificate, "--tls-key", &pki.path("client.key")]).contains("not that of the first"));
    assert!(serve(&["--tls-cert", "/none.pem", "--tls-key", &key]).contains("read /none.pem"));
    for name in ["client", "filer"] {
        pki.open_key(name, 0o644);
    }
    let said = ls(&filer, &pki.mutual()).unwrap_err();
    assert!(
        said.contains("client.key is open to every user") && said.contains("(mode 0644)") && said.contains("chmod o-rwx"),
        "{said}"
    );
    assert!(serve(&["--tls-cert", &certificate, "--tls-key", &key]).contains("filer.key is open to every user"));
    assert!(serve(&["--tls", "on"]).contains("off, allowed, required, mutual"));
}

/// Two volumes, one without TLS and one for clients with a certificate. The keys for TLS come before them.
const TWO: &str = r#"tls_cert = "DIR/pki/filer.pem"
tls_key = "DIR/pki/filer.key"
tls_client_ca = "DIR/pki/ca.pem"

[[volume]]
name = "open"
dir = "DIR/open"
clients = ["127.0.0.1"]
tls = "off"

[[volume]]
name = "closed"
dir = "DIR/closed"
clients = ["127.0.0.1"]
squash = "none"
tls = "mutual"
"#;

#[test]
fn each_volume_has_its_rule_and_a_reload_brings_others_and_other_certificates() {
    let scratch = Scratch::new("tls-volumes");
    let pki = Pki::new(&scratch);
    for folder in ["open", "closed"] {
        std::fs::write(scratch.folder(folder).join("seen"), "x").unwrap();
    }
    let filer = Configured::start(&scratch, TWO);
    let port = filer.port(0);
    let list = |volume: &str, security: &str| {
        let url = format!("nfs://127.0.0.1/{volume}?nfsport={port}&mountport={port}{security}");
        let output = nfs(&["ls", &url]);
        if output.status.success() { Ok(text(&output)) } else { Err(text(&output)) }
    };
    for (volume, security, served) in [
        ("open", String::new(), true),
        ("open", pki.tls(), false),
        ("open", pki.mutual(), false),
        ("closed", String::new(), false),
        ("closed", pki.tls(), false),
        ("closed", pki.mutual(), true),
    ] {
        let listed = list(volume, &security);
        assert_eq!(listed.is_ok(), served, "{volume} {security}: {listed:?}");
    }
    // An existing connection is judged again, by its handle.
    let mut wire = Wire::connect(port);
    assert_eq!(wire.mount("/closed"), Err(MountStatus::Acces));
    filer.edit(|text| text.replace("\"mutual\"", "\"allowed\""));
    filer.order(&["reload"]);
    let root = wire.mount("/closed").unwrap();
    assert!(wire.getattr(root).is_ok());
    filer.edit(|text| text.replace("\"allowed\"", "\"required\""));
    filer.order(&["reload"]);
    let args = ObjectArgs { object: root };
    assert_eq!(wire.nfs(Procedure::GetAttr, &args).status(), ReplyStatus::AuthError(AuthStat::TooWeak));
    // Certificates of another authority under the same names. They apply to new connections.
    let url: dnfs::NfsUrl =
        format!("nfs://127.0.0.1/closed?nfsport={port}&mountport={port}&channels=1{}", pki.tls()).parse().unwrap();
    let before = dnfs::Client::mount(&url, &dnfs::Credentials::of_process()).unwrap();
    let root = before.parts().root;
    before.getattr(&root).unwrap();
    let other = Pki::named(&scratch, "other");
    for file in ["filer.pem", "filer.key", "ca.pem"] {
        std::fs::copy(other.path(file), scratch.path().join("pki").join(file)).unwrap();
    }
    filer.order(&["reload"]);
    before.getattr(&root).unwrap();
    assert_eq!(before.counters().reconnects, 0);
    assert!(list("closed", &other.mutual()).is_ok());
    // An invalid key: nothing changes.
    std::fs::write(scratch.path().join("pki/filer.key"), "none").unwrap();
    let refused = text(&filer.volume(&["reload"]));
    assert!(refused.contains("filer.key holds no private key"), "{refused}");
    assert!(list("closed", &other.tls()).is_ok());
}

/// A record that asks for TLS, with this procedure.
pub(crate) fn probe(procedure: u32) -> Vec<u8> {
    let (credential, verifier) = (OpaqueAuth::TLS, OpaqueAuth::NONE);
    let (program, version) = (nfs3::PROGRAM, nfs3::VERSION);
    let header = CallHeader { xid: Xid(77), rpc_version: RPC_VERSION, program, version, procedure, credential, verifier };
    let mut record = Vec::new();
    encode_call(&header, &(), &mut record);
    record
}

fn is_closed(stream: &mut TcpStream) -> bool {
    // The filer has ended or reset the connection, possibly after an alert.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).is_ok() && rest.first().is_none_or(|&first| first == 21) || rest.is_empty()
}

#[test]
fn tls_is_offered_only_where_no_reply_in_the_clear_can_follow() {
    let scratch = Scratch::new("tls-offer");
    let pki = Pki::new(&scratch);
    let refusal = ReplyStatus::AuthError(AuthStat::BadCred);
    let filer = pki.filer(&scratch, "allowed");
    let ask = |wire: &mut Wire, procedure| -> Reply {
        wire.send(&probe(procedure));
        wire.receive()
    };
    let offer = ask(&mut Wire::connect(filer.port), 0);
    assert_eq!(offers_tls(&offer.0), Ok((ReplyHeader { xid: Xid(77), status: ReplyStatus::Success }, true)));
    // With another procedure; after a call that did something; after NULL, which did nothing.
    assert_eq!(ask(&mut Wire::connect(filer.port), 1).status(), refusal);
    let mut used = Wire::connect(filer.port);
    used.root();
    assert_eq!(ask(&mut used, 0).status(), refusal);
    let mut fresh = Wire::connect(filer.port);
    fresh.nfs(Procedure::Null, &());
    assert!(offers_tls(&ask(&mut fresh, 0).0).unwrap().1);
    drop(filer);
    let without = Filer::start(&scratch, &[]);
    assert_eq!(ask(&mut Wire::connect(without.port), 0).status(), refusal);
}

#[test]
fn plain_text_after_starttls_and_handshakes_cut_off_end_the_connection_and_nothing_else() {
    let scratch = Scratch::new("tls-bytes");
    let pki = Pki::new(&scratch);
    let filer = pki.filer(&scratch, "allowed");
    let null = Wire::connect(filer.port).record(nfs3::PROGRAM, nfs3::VERSION, 0, &());
    // A call in one segment with the question: the filer answers neither.
    let mut wire = Wire::connect(filer.port);
    wire.send(&[probe(0), null.clone()].concat());
    assert!(is_closed(&mut wire.stream));
    // Other bytes instead of a handshake, and beginnings of a handshake.
    let hello = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
    let long = [22, 3, 1, 0xff, 0xff];
    let sealed = [23, 3, 3, 0, 20, 1, 2, 3];
    for bytes in [&null[..], &hello, &long, &sealed, &[0; 600], b"GET / HTTP/1.1\r\n\r\n"] {
        for cut in [1, bytes.len() / 2, bytes.len()] {
            let mut wire = Wire::connect(filer.port);
            wire.send(&probe(0));
            assert!(offers_tls(&wire.receive().0).unwrap().1);
            wire.send(&bytes[..cut]);
            wire.stream.shutdown(std::net::Shutdown::Write).unwrap();
            assert!(is_closed(&mut wire.stream), "{bytes:?} up to {cut}");
        }
    }
    assert!(ls(&filer, &pki.tls()).is_ok() && ls(&filer, "").is_ok());
}

#[test]
fn a_handshake_that_does_not_come_on_is_ended_also_byte_by_byte_and_holds_up_nobody() {
    let scratch = Scratch::new("tls-slow");
    let pki = Pki::new(&scratch);
    let filer = pki.filer(&scratch, "allowed");
    let begun = Instant::now();
    let peers = [&[][..], &[22, 3, 1, 1, 252, 1, 0, 1, 248, 3, 3]].map(|hello: &'static [u8]| {
        let mut wire = Wire::connect(filer.port);
        wire.send(&probe(0));
        assert!(offers_tls(&wire.receive().0).unwrap().1);
        std::thread::spawn(move || {
            let stream = &mut wire.stream;
            stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let mut left = hello.iter().chain(std::iter::repeat(&0));
            while matches!(stream.read(&mut [0; 64]), Err(error) if error.kind() == ErrorKind::WouldBlock) {
                assert!(begun.elapsed() < Duration::from_secs(60), "still there");
                if !hello.is_empty() {
                    let _ = stream.write_all(&[*left.next().unwrap()]);
                }
            }
        })
    });
    assert!(ls(&filer, &pki.tls()).is_ok() && ls(&filer, "").is_ok());
    for peer in peers {
        peer.join().unwrap();
    }
    assert!(begun.elapsed() > Duration::from_secs(5), "time enough for a far peer");
}

/// What a server does after its offer of TLS.
type After = fn(TcpStream);

/// Starts a server that accepts the question for TLS and then calls `then`.
fn pretender(then: After) -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut call = [0; 44];
        stream.read_exact(&mut call).unwrap();
        let header = CallHeader::decode(&mut Reader::new(&call[4..])).unwrap();
        assert_eq!((header.procedure, header.credential), (0, OpaqueAuth::TLS));
        let mut reply = Vec::new();
        encode_starttls(header.xid, &mut reply);
        stream.write_all(&reply).unwrap();
        then(stream);
    });
    (port, serving)
}

#[test]
fn a_client_takes_nothing_in_the_clear_for_an_answer_under_tls() {
    let scratch = Scratch::new("tls-pretender");
    let pki = Pki::new(&scratch);
    let cases: [(After, &str); 3] = [
        (|mut stream| stream.write_all(&[0x80, 0, 0, 24, 0, 0, 0, 1]).unwrap(), "not a TLS record"),
        (|stream| drop(stream), "in the middle of the TLS handshake"),
        (
            |mut stream| {
                stream.read_exact(&mut [0; 100]).unwrap();
                stream.write_all(&[22, 3, 3, 0, 100, 2]).unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let _ = stream.read_to_end(&mut Vec::new());
            },
            "in the middle of the TLS handshake",
        ),
    ];
    for (then, part) in cases {
        let (port, serving) = pretender(then);
        let url = format!("nfs://127.0.0.1/vol?nfsport={port}&mountport={port}{}", pki.tls());
        let output = nfs(&["ls", &url]);
        assert!(!output.status.success() && text(&output).contains(part), "{part} in {}", text(&output));
        serving.join().unwrap();
    }
}
