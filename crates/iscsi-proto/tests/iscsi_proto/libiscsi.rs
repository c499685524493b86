//! The tools of libiscsi against a target over TCP: discovery, CHAP both ways, digests, reads.
//!
//! A disk in memory stands behind the target and knows the few commands that these tools send.

use crate::pair::{CHALLENGE, SENSE, name};
use iscsi_proto::chap::{Algorithm, Credential};
use iscsi_proto::login::{LoginStatus, Name};
use iscsi_proto::pdu::{Framed, Lun};
use iscsi_proto::target::{self, Access, Authentication, Event, Host, Opening, Outcome, Tsih};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;

const BLOCKS: u64 = 32_768;
const TARGET: &str = "iqn.2026-01.example:disk";
const GUARDED: &str = "iqn.2026-01.example:guarded";

struct Server {
    port: u16,
}

impl Host for Server {
    fn access(&self, _initiator: &Name, target: Option<&Name>) -> Result<Access, LoginStatus> {
        let credential = |name: &str, secret: &str| Credential::new(name, secret.as_bytes()).unwrap();
        let authentication = match target.map(Name::as_str) {
            Some(GUARDED) => Authentication::Chap {
                accepted: vec![credential("alice", "alicesecret12")],
                algorithms: Algorithm::ALL.to_vec(),
                own: Some(credential("target", "targetsecret1")),
            },
            Some(TARGET) | None => Authentication::None,
            Some(_) => return Err(LoginStatus::NOT_FOUND),
        };
        Ok(Access { portal_group_tag: 1, alias: None, authentication })
    }

    fn open(&self, _opening: &Opening) -> Result<Tsih, LoginStatus> {
        Ok(Tsih(1))
    }

    fn targets(&self, _initiator: &Name, visit: &mut dyn FnMut(&Name, &[String])) {
        let addresses = [format!("127.0.0.1:{},1", self.port)];
        [TARGET, GUARDED].iter().for_each(|target| visit(&name(target), &addresses));
    }

    fn data_out_bytes(&self, _lun: Lun, _cdb: &[u8]) -> u64 {
        0
    }
}

impl Server {
    /// Serves connections until the test ends; its port.
    fn start() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Arc::new(Self { port });
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let server = Arc::clone(&server);
                std::thread::spawn(move || server.serve(stream.unwrap()));
            }
        });
        port
    }

    fn serve(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let (mut receiver, replies, mut sender) = target::connect(target::Settings::default(), CHALLENGE);
        let (mut received, mut buffer, mut out) = (Vec::new(), vec![0; 256 << 10], Vec::new());
        loop {
            let bytes = stream.read(&mut buffer).unwrap_or(0);
            if bytes == 0 {
                return;
            }
            received.extend_from_slice(&buffer[..bytes]);
            let mut at = 0;
            let mut ended = false;
            while let Framed::Whole { bytes } = receiver.frame(&received[at..]).unwrap() {
                match receiver.receive(&received[at..at + bytes], self, &mut out).unwrap() {
                    Event::Command(command) => execute(&replies, command, &mut out),
                    Event::End(_) => ended = true,
                    Event::Nothing | Event::LoggedIn => {}
                    Event::TaskManagement(management) => replies.task_management(&mut out, &management, management.answer),
                }
                at += bytes;
            }
            received.drain(..at);
            sender.stamp(&mut out);
            if stream.write_all(&out).is_err() || ended {
                return;
            }
            out.clear();
        }
    }
}

/// INQUIRY, READ CAPACITY, READ and TEST UNIT READY.
fn execute(replies: &target::Replies, command: target::Command<'_>, out: &mut Vec<u8>) {
    let cdb = command.cdb.as_slice();
    let begun = replies.begin(out);
    let start = out.len();
    let mut status = 0;
    match cdb[0] {
        0x00 => {}
        0x12 => {
            out.extend([0, 0, 5, 2, 31, 0, 0, 2]);
            out.extend(b"MILLRACETEST DISK       0001");
        }
        0x25 => out.extend([(BLOCKS as u32 - 1).to_be_bytes(), 512_u32.to_be_bytes()].concat()),
        0x9e => {
            out.extend([&(BLOCKS - 1).to_be_bytes()[..], &512_u32.to_be_bytes()].concat());
            out.resize(start + 32, 0);
        }
        0x28 => out.resize(start + usize::from(u16::from_be_bytes(*cdb[7..].first_chunk().unwrap())) * 512, 7),
        0x88 => out.resize(start + u32::from_be_bytes(*cdb[10..].first_chunk().unwrap()) as usize * 512, 7),
        _ => status = 2,
    }
    let transfer_bytes = (out.len() - start) as u64;
    let sense: &[u8] = if status == 0 { &[] } else { &SENSE };
    replies.finish(out, begun, command.task, &Outcome { status, sense, transfer_bytes });
}

/// Output of a tool and whether it succeeded; none where it is not installed.
fn run(tool: &str, arguments: &[&str]) -> Option<(bool, String)> {
    match Command::new(tool).args(arguments).output() {
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
        }
        Err(_) => {
            sim::skip(&format!("{tool} is not installed (libiscsi-bin)"));
            None
        }
    }
}

#[test]
fn iscsi_ls_finds_the_targets() {
    let port = Server::start();
    let Some((good, text)) = run("iscsi-ls", &[&format!("iscsi://127.0.0.1:{port}")]) else { return };
    assert!(good, "{text}");
    for target in [TARGET, GUARDED] {
        assert!(text.contains(&format!("Target:{target} Portal:127.0.0.1:{port},1")), "{text}");
    }
}

#[test]
fn iscsi_inq_logs_in_with_and_without_chap_and_digests() {
    let port = Server::start();
    let at = format!("127.0.0.1:{port}");
    let good = [
        format!("iscsi://{at}/{TARGET}/0"),
        format!("iscsi://{at}/{TARGET}/0?header_digest=crc32c"),
        format!("iscsi://alice%alicesecret12@{at}/{GUARDED}/0"),
        format!("iscsi://alice%alicesecret12@{at}/{GUARDED}/0?target_user=target&target_password=targetsecret1"),
    ];
    for url in good {
        let Some((good, text)) = run("iscsi-inq", &[&url]) else { return };
        assert!(good && text.contains("Vendor:MILLRACE"), "{url}: {text}");
    }
    let bad = [
        (format!("iscsi://{at}/{GUARDED}/0"), "Authentication failure"),
        (format!("iscsi://alice%alicesecret13@{at}/{GUARDED}/0"), "Authentication failure"),
        (format!("iscsi://{at}/iqn.2026-01.example:none/0"), "Target not found"),
    ];
    for (url, reason) in bad {
        let Some((good, text)) = run("iscsi-inq", &[&url]) else { return };
        assert!(!good && text.contains(reason), "{url}: {text}");
    }
}

#[test]
fn iscsi_perf_reads_with_many_commands_under_way() {
    let port = Server::start();
    for options in ["", "?header_digest=crc32c"] {
        let url = format!("iscsi://127.0.0.1:{port}/{TARGET}/0{options}");
        let Some((good, text)) = run("iscsi-perf", &["-t", "1", "-m", "32", "-b", "16", "-r", &url]) else { return };
        println!("{}", text.replace('\r', "\n"));
        assert!(good && text.contains("finished"), "{text}");
    }
}
