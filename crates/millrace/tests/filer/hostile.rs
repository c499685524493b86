//! Malicious peers: crowds that never call, records that are too long or cut off, forged handles.
//! Meanwhile the filer serves a well-behaved client: it answers each call within seconds, and what
//! the client writes is read back.

use crate::support::behaved::Behaved;
use crate::support::filer::Filer;
use crate::support::wire::{Wire, place, write_args};
use crate::support::{Scratch, await_until, descriptors_up_to, has_descriptors, skip_unsupported};
use nfs_proto::limits::RECORD_BYTES_MAX;
use nfs_proto::nfs3::{
    AccessArgs, CommitArgs, CreateArgs, CreateHow, FileHandle, LinkArgs, MkDirArgs, NfsStatus, ObjectArgs, Procedure, ReadArgs,
    ReadDirPlusArgs, ReadResult, RenameArgs, SetAttr, SetAttrArgs, StableHow,
};
use nfs_proto::record::LAST_FRAGMENT;
use nfs_proto::rpc::ReplyStatus;
use nfs_proto::xdr::Encode;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// Longest turn of the well-behaved client. It may wait for a few others, but not for the crowd.
const TURN_MAX: Duration = Duration::from_secs(5);

#[test]
#[ignore = "nightly: ten thousand connections, fifteen seconds"]
fn ten_thousand_connections_that_never_bring_a_call_leave_it_serving() {
    const CROWD: u64 = 10_000;
    const SPARE: u64 = 200;
    let allowed = descriptors_up_to(CROWD + SPARE);
    let crowd_size = CROWD.min(allowed.saturating_sub(SPARE));
    if crowd_size < CROWD {
        skip_unsupported(&format!("a process may have {allowed} descriptors only: {crowd_size} connections of {CROWD}"));
    }
    let scratch = Scratch::new("crowd");
    let filer = Filer::start(&scratch, &[]);
    let behaved = Behaved::start(filer.port, "behaved");
    let announced = ((1_u32 << 20) | LAST_FRAGMENT).to_be_bytes();
    let mut crowd = Vec::new();
    for nth in 0..crowd_size {
        let mut stream = TcpStream::connect(("127.0.0.1", filer.port)).unwrap();
        // Sends nothing, half a mark, a mark without its record, or a part of the record.
        let sent = match nth % 4 {
            0 => Ok(()),
            1 => stream.write_all(&announced[..2]),
            2 => stream.write_all(&announced),
            _ => stream.write_all(&announced).and_then(|()| stream.write_all(&[7; 1000])),
        };
        drop(sent); // the filer may have closed the connection
        crowd.push(stream);
        if nth % 1000 == 999 {
            assert!(Wire::connect(filer.port).mount("/vol").is_ok(), "who comes behind {nth} of the crowd is let in");
        }
    }
    let bytes = filer.resident();
    println!("{crowd_size} connections without a call: {} MiB resident", bytes >> 20);
    assert!(bytes < 96 << 20, "{bytes} bytes resident");
    let worked = behaved.finish();
    assert!(worked.longest < TURN_MAX, "{worked:?}");
    drop(crowd);
    await_until("the crowd to be gone", Duration::from_secs(20), || {
        (filer.admin(r#"{"op":"stats"}"#)["connections"].as_u64()? == 0).then_some(())
    });
}

/// Sends the last bytes of a connection. Returns what the filer sent until it closed the connection.
fn answers_to(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut wire = Wire::connect(port);
    let sent = wire.stream.write_all(bytes).and_then(|()| wire.stream.shutdown(Shutdown::Write));
    let mut answers = Vec::new();
    match sent.and_then(|()| wire.stream.read_to_end(&mut answers)) {
        Ok(_) => {}
        Err(error) => assert_ne!(error.kind(), ErrorKind::WouldBlock, "the filer neither answers nor hangs up"),
    }
    answers
}

fn with_mark(body: &[u8], mark: u32) -> Vec<u8> {
    [&mark.to_be_bytes(), body].concat()
}

#[test]
fn a_call_cut_off_at_any_byte_is_not_carried_out_and_leaves_it_serving() {
    let scratch = Scratch::new("cut");
    let filer = Filer::start(&scratch, &[]);
    let behaved = Behaved::start(filer.port, "behaved");
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let set = SetAttr { mode: Some(0o755), ..SetAttr::default() };
    let call = wire.nfs_record(Procedure::MkDir, &MkDirArgs { place: place(root, "made"), attributes: set });
    for kept in 0..call.len() {
        assert_eq!(answers_to(filer.port, &call[..kept]), b"", "{kept} of {} bytes and the end", call.len());
    }
    for kept in 0..call.len() - 4 {
        let body = &call[4..4 + kept];
        let answers = answers_to(filer.port, &with_mark(body, kept as u32 | LAST_FRAGMENT));
        // The bytes are no call at all, or one to which the filer replies with an error.
        if let Some(reply) = answers.get(4..) {
            assert_ne!(
                crate::support::wire::Reply(reply.to_vec()).status(),
                ReplyStatus::Success,
                "{kept} bytes as a whole record"
            );
        }
    }
    assert!(!filer.export().join("made").exists());
    wire.send(&call);
    assert_eq!(wire.receive().status(), ReplyStatus::Success, "the whole one is carried out");
    assert!(filer.export().join("made").is_dir());
    let worked = behaved.finish();
    assert!(worked.longest < TURN_MAX, "{worked:?}");
}

#[test]
fn records_over_the_limit_end_their_connection_and_leave_it_serving() {
    let scratch = Scratch::new("oversize");
    let filer = Filer::start(&scratch, &[]);
    let behaved = Behaved::start(filer.port, "behaved");
    let limit = RECORD_BYTES_MAX;
    let of = |bytes: usize, last: u32| with_mark(&vec![0xa5; bytes], bytes as u32 | last);
    let announced = |bytes: u32| bytes.to_be_bytes().to_vec();
    let too_long = [
        announced((limit as u32 + 1) | LAST_FRAGMENT),
        announced(u32::MAX),
        of(limit, LAST_FRAGMENT), // of the longest length, and no call
        of(limit + 1, LAST_FRAGMENT),
        [of(limit, 0), of(1, LAST_FRAGMENT)].concat(),
        [of(limit / 2 + 1, 0), of(limit / 2 + 1, LAST_FRAGMENT)].concat(),
        of(1, 0).repeat(limit / 4),
        of(0, 0).repeat(limit / 4),
        of(8 * limit, LAST_FRAGMENT),
    ];
    for (nth, bytes) in too_long.iter().enumerate() {
        let before = std::time::Instant::now();
        assert_eq!(answers_to(filer.port, bytes), b"", "case {nth}");
        assert!(before.elapsed() < TURN_MAX, "case {nth}");
    }
    let worked = behaved.finish();
    assert!(worked.longest < TURN_MAX, "{worked:?}");
    assert!(filer.resident() < 64 << 20, "{} bytes resident", filer.resident());
}

/// A call of each procedure that takes a handle, with this handle.
fn calls_about(wire: &mut Wire, handle: FileHandle, root: FileHandle) -> Vec<(Procedure, Vec<u8>)> {
    let set = SetAttr { size: Some(0), mode: Some(0o777), ..SetAttr::default() };
    let object = ObjectArgs { object: handle };
    let listing =
        ReadDirPlusArgs { dir: handle, cookie: 0, cookie_verifier: Default::default(), dir_count: 512, max_count: 4096 };
    let calls: [(Procedure, &dyn Encode); 13] = [
        (Procedure::GetAttr, &object),
        (Procedure::FsStat, &object),
        (Procedure::Access, &AccessArgs { object: handle, access: 0x3f }),
        (Procedure::SetAttr, &SetAttrArgs { object: handle, new_attributes: set, guard: None }),
        (Procedure::Lookup, &place(handle, "f")),
        (Procedure::Read, &ReadArgs { file: handle, offset: 0, count: 4096 }),
        (Procedure::Write, &write_args(handle, 0, b"forged", StableHow::FileSync)),
        (Procedure::Create, &CreateArgs { place: place(handle, "forged"), how: CreateHow::Unchecked(set) }),
        (Procedure::Remove, &place(handle, "f")),
        (Procedure::Rename, &RenameArgs { from: place(root, "f"), to: place(handle, "forged") }),
        (Procedure::Link, &LinkArgs { file: handle, link: place(root, "forged") }),
        (Procedure::ReadDirPlus, &listing),
        (Procedure::Commit, &CommitArgs { file: handle, offset: 0, count: 0 }),
    ];
    calls.map(|(procedure, args)| (procedure, wire.nfs_record(procedure, args))).into()
}

/// Handles that a client can forge from valid handles of this filer and of another.
fn forgeries(good: &[FileHandle], of_another: FileHandle) -> Vec<FileHandle> {
    let mut forged = vec![of_another];
    for handle in good {
        let bytes = handle.as_bytes();
        let changed = (0..bytes.len()).map(|at| [&bytes[..at], &[bytes[at] ^ (1 << (at % 8))], &bytes[at + 1..]].concat());
        let cut = (0..bytes.len()).map(|kept| bytes[..kept].to_vec());
        let longer = [[bytes, &[0; 8]].concat()];
        // The head of one handle and the rest of another; the body of one and the MAC of another
        // filer's handle.
        let spliced = good.iter().filter(|other| *other != handle).flat_map(|other| {
            let other = other.as_bytes();
            [[&bytes[..12], &other[12..]].concat(), [&bytes[..bytes.len() - 8], &other[other.len() - 8..]].concat()]
        });
        let resealed = [[&bytes[..bytes.len() - 8], &of_another.as_bytes()[of_another.as_bytes().len() - 8..]].concat()];
        forged
            .extend(changed.chain(cut).chain(longer).chain(spliced).chain(resealed).filter_map(|bytes| FileHandle::new(&bytes)));
    }
    forged.retain(|handle| !good.contains(handle));
    forged
}

#[test]
fn forged_handles_are_refused_in_every_call_and_leave_it_serving() {
    let scratch = Scratch::new("forged");
    let (filer, elsewhere) = (Filer::start(&scratch, &[]), Scratch::new("elsewhere"));
    let other = Filer::start(&elsewhere, &[]);
    let behaved = Behaved::start(filer.port, "behaved");
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    wire.write(file, 0, b"untouched", StableHow::FileSync);
    let names = || std::fs::read_dir(filer.export()).unwrap().count();
    let before = (names(), wire.getattr(file).unwrap().attributes);
    let forged = forgeries(&[root, file], Wire::connect(other.port).root());
    assert!(forged.len() > 100, "{} forgeries", forged.len());
    for handle in &forged {
        let calls = calls_about(&mut wire, *handle, root);
        let all: Vec<u8> = calls.iter().flat_map(|(_, record)| record.clone()).collect();
        wire.send(&all);
        // Slow calls are answered in the order of their end: each xid once.
        let mut answered: Vec<u32> = Vec::new();
        for _ in &calls {
            let reply = wire.receive();
            let status = u32::from_be_bytes(reply.body()[..4].try_into().unwrap());
            assert_eq!(status, NfsStatus::BadHandle.number(), "xid {} of {handle:02x?}", reply.header().xid.0);
            answered.push(reply.header().xid.0);
        }
        answered.sort_unstable();
        let expected: Vec<u32> = (wire.xid + 1 - calls.len() as u32..=wire.xid).collect();
        assert_eq!(answered, expected);
    }
    assert_eq!((names(), wire.getattr(file).unwrap().attributes), before);
    assert_eq!(std::fs::read(filer.export().join("f")).unwrap(), b"untouched");
    let worked = behaved.finish();
    assert!(worked.longest < TURN_MAX, "{worked:?}");
}

/// The filer's memory in bytes, when it is above `least` and no longer grows.
fn memory_at_rest(filer: &Filer, least: u64) -> u64 {
    let mut last = (0, Instant::now());
    await_until("the memory to be used", Duration::from_secs(60), || {
        let now = filer.anonymous();
        if now.abs_diff(last.0) > 8 << 20 {
            last = (now, Instant::now());
        }
        (now > least && last.1.elapsed() > Duration::from_secs(2)).then_some(now)
    })
}

/// Makes a file of this size. Returns a READ of all of it.
fn large(filer: &Filer, wire: &mut Wire, bytes: u32) -> ReadArgs {
    let root = wire.root();
    let file = wire.create(root, "large");
    std::fs::write(filer.export().join("large"), vec![7; bytes as usize]).unwrap();
    ReadArgs { file, offset: 0, count: bytes }
}

#[test]
fn replies_of_a_modelled_medium_that_a_client_does_not_receive_take_little_memory() {
    let scratch = Scratch::new("unread-medium");
    let filer = Filer::start(&scratch, &["--medium", "nvme"]);
    let mut wire = Wire::connect(filer.port);
    let read = large(&filer, &mut wire, 1 << 20);
    let calls: Vec<u8> = (0..1000).flat_map(|_| wire.nfs_record(Procedure::Read, &read)).collect();
    let before = filer.anonymous();
    wire.send(&calls);
    let more = memory_at_rest(&filer, before + (3 << 20)) - before;
    assert!(more < 96 << 20, "{} MiB", more >> 20);
}

#[test]
fn a_client_that_receives_no_replies_takes_its_share_of_the_memory_and_another_reads_at_once() {
    const READERS: usize = 600;
    const REPLY: u32 = 1 << 20;
    if !has_descriptors(2 * READERS as u64 + 200) {
        return;
    }
    let scratch = Scratch::new("unread");
    let filer = Filer::start(&scratch, &[]);
    let mut other = Wire::connect_from(2, filer.port);
    let read = large(&filer, &mut other, REPLY);
    let readers: Vec<Wire> = (0..READERS)
        .map(|_| {
            let mut reader = Wire::connect(filer.port);
            let calls: Vec<u8> = (0..4).flat_map(|_| reader.nfs_record(Procedure::Read, &read)).collect();
            reader.send(&calls);
            reader
        })
        .collect();
    let bytes = memory_at_rest(&filer, 200 << 20);
    assert!(bytes < 420 << 20, "{} MiB", bytes >> 20);
    let begun = Instant::now();
    let reply = other.nfs(Procedure::Read, &read);
    assert_eq!(reply.results::<ReadResult<'_>>().unwrap().count, REPLY);
    assert!(begun.elapsed() < TURN_MAX, "{:?}", begun.elapsed());
    drop(readers);
}
