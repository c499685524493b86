//! Ten thousand idle iSCSI sessions take little memory, and many busy ones get equal shares.

use std::time::{Duration, Instant};

use crate::support::configured::Configured;
use crate::support::process::memory;
use crate::support::scsi::{Client, Who, cdb16};
use crate::support::{Scratch, has_descriptors, millrace, shares, succeed};
use iscsi_proto::initiator::Transfer;

const IQN: &str = "iqn.2026-11.com.example.filer:vol";
const LUN: u16 = 0;
/// Time in which the filer pings each session.
const PINGED: Duration = Duration::from_secs(45);

/// A filer with a LUN whose first MiB is written, and `sessions` sessions.
fn serving(scratch: &Scratch, sessions: usize) -> Option<(Configured, Vec<Client>)> {
    // Other tests of this process need descriptors too.
    if !has_descriptors(sessions as u64 + 4096) {
        return None;
    }
    scratch.folder("vol");
    let iscsi = "[iscsi]\nlisten = [\"127.0.0.1:0\"]\niqn = \"iqn.2026-11.com.example.filer\"\n";
    let volume = "[[volume]]\nname = \"vol\"\ndir = \"DIR/vol\"\nclients = [\"*\"]\n";
    let filer = Configured::start(scratch, &format!("{iscsi}{volume}"));
    succeed(millrace().args(["lun", "create", "vol/db", "--size", "64MiB", "--admin"]).arg(&filer.admin));
    let portal = filer.ready["portals"][0].as_str().unwrap().parse().unwrap();
    let mut clients: Vec<Client> = Vec::with_capacity(sessions);
    for number in 0..sessions {
        clients.push(Client::ready(portal, IQN, &Who::named(&format!("iqn.2026-11.test:host{number}")), LUN));
        if number % 1000 == 999 {
            clients.iter_mut().for_each(|client| assert!(client.answer_pings(), "the filer ended a session"));
        }
    }
    assert!(clients[0].write(LUN, 0, &[7; 1 << 20], true).unwrap().is_good());
    Some((filer, clients))
}

#[test]
#[ignore = "nightly: ten thousand sessions, a minute and a half"]
fn ten_thousand_idle_sessions_take_160_mib_and_are_answered_at_once() {
    let scratch = Scratch::new("ten-thousand-sessions");
    let Some((filer, mut clients)) = serving(&scratch, 10_000) else { return };
    let (begun, mut resident) = (Instant::now(), 0);
    while begun.elapsed() < PINGED {
        for client in &mut clients {
            assert!(client.answer_pings(), "the filer ended a session");
        }
        resident = resident.max(memory(filer.pid(), "VmRSS:") >> 20);
        std::thread::sleep(Duration::from_millis(20)); // the initiators only answer pings
    }
    let mut slowest = Duration::ZERO;
    for client in clients.iter_mut().step_by(37) {
        let begun = Instant::now();
        assert!(client.read(LUN, 0, 8).unwrap().is_good());
        slowest = slowest.max(begun.elapsed());
    }
    println!("10,000 idle sessions: RSS {resident} MiB at most; slowest first READ {slowest:?}");
    assert!(resident <= 160, "{resident} MiB");
    assert!(slowest < shares::BRIEF, "{slowest:?}");
}

#[test]
#[ignore = "nightly: a thousand busy sessions, ten seconds"]
fn a_thousand_busy_sessions_get_equal_shares() {
    let scratch = Scratch::new("busy-sessions");
    let Some((_filer, mut clients)) = serving(&scratch, 1000) else { return };
    let read = |client: &mut Client| {
        client.send(LUN, &cdb16(0x88, false, 0, 8), Transfer::Read(4096)).unwrap();
    };
    shares::assert_equal(shares::BRIEF, &mut clients, read, |client| client.poll_ended().is_some());
}

#[test]
#[ignore = "nightly: a thousand busy sessions, ten seconds"]
fn a_thousand_sessions_that_write_durably_to_one_lun_get_equal_shares() {
    let scratch = Scratch::new("writing-sessions");
    let Some((_filer, clients)) = serving(&scratch, 1000) else { return };
    let mut clients: Vec<(u64, Client)> = (0..).zip(clients).collect();
    let write = |(number, client): &mut (u64, Client)| {
        client.send(LUN, &cdb16(0x8a, true, *number * 8, 1), Transfer::Write(&[7; 512])).unwrap();
    };
    // The filer writes a record of each new initiator to the disk before it answers its first
    // write, all within the second that does not count.
    let limit = Duration::from_secs(5); // a slow disk
    shares::assert_equal(limit, &mut clients, write, |(_, client)| client.poll_ended().is_some());
}
