//! One initiator next to others: connection places, half-open logins, and memory for data that does
//! not arrive.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::support::configured::Configured;
use crate::support::process::memory;
use crate::support::scsi::{Client, Who, cdb16};
use crate::support::wire::Wire;
use crate::support::{Scratch, await_until, millrace, succeed};
use filer::limits::{COMMAND_BYTES_PER_CLIENT_MAX, ISCSI_HALF_OPEN_MAX, STRANGERS_MAX};
use iscsi_proto::initiator::Transfer;
use nfs_proto::nfs3::Procedure;

const IQN: &str = "iqn.2026-11.com.example.filer:vol";
const LUN: u16 = 0;

/// A filer with a LUN, portals on the IPv4 and the IPv6 loopback address, and `keys` in `[iscsi]`.
/// The rule of its volume names no address of this host.
fn serving(scratch: &Scratch, keys: &str) -> Configured {
    scratch.folder("vol");
    let iscsi = format!("[iscsi]\nlisten = [\"127.0.0.1:0\", \"[::1]:0\"]\niqn = \"iqn.2026-11.com.example.filer\"\n{keys}");
    let volume = "[[volume]]\nname = \"vol\"\ndir = \"DIR/vol\"\nclients = [\"192.0.2.1\"]\n";
    let filer = Configured::start(scratch, &format!("metrics = \"127.0.0.1:0\"\n{iscsi}{volume}"));
    let create = ["lun", "create", "vol/db", "--size", "64MiB", "--admin"];
    succeed(millrace().args(create).arg(&filer.admin));
    filer
}

fn portal(filer: &Configured, nth: usize) -> SocketAddr {
    filer.ready["portals"][nth].as_str().unwrap().parse().unwrap()
}

fn host(number: usize) -> Who {
    Who::named(&format!("iqn.2026-11.test:host{number}"))
}

#[test]
fn neither_export_rules_nor_nfs_clients_take_places_of_initiators() {
    let scratch = Scratch::new("iscsi-places");
    let filer = serving(&scratch, "");
    let mut callers: Vec<Wire> = (0..STRANGERS_MAX).map(|_| Wire::connect(filer.port(0))).collect();
    for caller in &mut callers {
        let record = caller.nfs_record(Procedure::Null, &());
        caller.send(&record);
        caller.receive();
    }
    let count = ISCSI_HALF_OPEN_MAX + 20;
    let mut sessions: Vec<_> = (0..count).map(|number| Client::ready(portal(&filer, 0), IQN, &host(number), LUN)).collect();
    for session in &mut sessions {
        assert!(session.read(LUN, 0, 1).unwrap().is_good());
    }
}

#[test]
fn only_clients_of_the_iscsi_section_can_connect_and_a_reload_changes_them() {
    let scratch = Scratch::new("iscsi-clients");
    let filer = serving(&scratch, "clients = [\"::1\"]\n");
    assert!(Client::login(portal(&filer, 0), IQN, &host(0)).is_err());
    let mut named = Client::ready(portal(&filer, 1), IQN, &host(1), LUN);
    filer.edit(|text| text.replace("clients = [\"::1\"]", "clients = [\"127.0.0.0/8\"]"));
    filer.order(&["reload"]);
    assert!(Client::login(portal(&filer, 0), IQN, &host(0)).is_ok());
    assert!(Client::login(portal(&filer, 1), IQN, &host(2)).is_err());
    assert!(named.read(LUN, 0, 1).unwrap().is_good(), "a session that is logged in stays");
}

#[test]
fn half_open_logins_of_one_address_do_not_end_a_login_of_another() {
    let scratch = Scratch::new("iscsi-half-open-address");
    let filer = serving(&scratch, "");
    let mut other = TcpStream::connect(portal(&filer, 1)).unwrap();
    // Half a login request.
    other.write_all(&[0x43, 0x87, 0, 0, 0, 0, 1, 0]).unwrap();
    let many: Vec<_> = (0..3 * ISCSI_HALF_OPEN_MAX).map(|_| TcpStream::connect(portal(&filer, 0)).unwrap()).collect();
    let is_open = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    await_until("the oldest connections to be closed", Duration::from_secs(30), || {
        (many.iter().filter(|stream| is_open(stream)).count() <= ISCSI_HALF_OPEN_MAX / 2).then_some(())
    });
    assert!(is_open(&other), "the login that began before them remains");
    let mut fresh = Client::ready(portal(&filer, 1), IQN, &host(1), LUN);
    assert!(fresh.read(LUN, 0, 1).unwrap().is_good());
}

#[test]
fn commands_whose_data_does_not_arrive_take_bounded_memory_and_other_clients_can_write() {
    let scratch = Scratch::new("iscsi-memory");
    let filer = serving(&scratch, "");
    let mut victim = Client::ready(portal(&filer, 1), IQN, &host(99), LUN);
    let data = vec![7; 1 << 20];
    let mut noisy: Vec<Client> = (0..8).map(|number| Client::ready(portal(&filer, 0), IQN, &host(number), LUN)).collect();
    for client in &mut noisy {
        // Each command brings its first burst. The data of its R2T never arrives.
        while client.window() > 0 {
            client.send(LUN, &cdb16(0x8a, false, 0, 2048), Transfer::Write(&data)).unwrap();
        }
    }
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let begun = Instant::now();
        assert!(victim.write(LUN, 2048, &data, false).unwrap().is_good(), "a write of another client");
        slowest = slowest.max(begun.elapsed());
    }
    let held = filer.figure("millrace_buffer_bytes");
    println!("eight sessions of an address hold {} MiB; slowest write of 1 MiB beside them {slowest:?}", held >> 20);
    assert!(held <= COMMAND_BYTES_PER_CLIENT_MAX + (8 << 20), "{held} bytes");
    let resident = memory(filer.pid(), "RssAnon:") as usize;
    assert!(resident <= COMMAND_BYTES_PER_CLIENT_MAX + (64 << 20), "{resident} bytes");
    // The sessions continue. Commands end while little memory is left for the address.
    let enough = COMMAND_BYTES_PER_CLIENT_MAX / 2 - (8 << 20);
    await_until("memory to be freed", Duration::from_secs(20), || (filer.figure("millrace_buffer_bytes") < enough).then_some(()));
    for client in &noisy {
        let mut stream = client.stream();
        stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut answers = vec![0; 64 << 10];
        let end = loop {
            match stream.read(&mut answers) {
                Ok(0) => panic!("the session ended"),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(end.kind(), ErrorKind::WouldBlock);
    }
}
