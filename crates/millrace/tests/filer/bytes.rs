//! Bytes that are not RPC, and damaged RPC. The filer answers, refuses or closes the connection,
//! and continues to serve.

use crate::support::Scratch;
use crate::support::filer::Filer;
use crate::support::wire::{Wire, place, write_args};
use nfs_proto::limits::RECORD_BYTES_MAX;
use nfs_proto::mount3::{DirPath, MountArgs};
use nfs_proto::nfs3::{
    CommitArgs, CookieVerifier, CreateArgs, CreateHow, CreateVerifier, ObjectArgs, Procedure, ReadArgs, ReadDirPlusArgs,
    RenameArgs, SetAttr, SetAttrArgs, StableHow,
};
use nfs_proto::record::LAST_FRAGMENT;
use sim::{Rng, sweep};
use std::io::{Read, Write};
use std::time::Duration;

/// A valid call of a random kind.
fn some_call(wire: &mut Wire, rng: &mut Rng) -> Vec<u8> {
    let root = nfs_proto::nfs3::FileHandle::new(&rng.bytes(36)).unwrap();
    let set = SetAttr { mode: Some(0o644), size: Some(5), ..SetAttr::default() };
    let data = rng.bytes(300);
    let names =
        ReadDirPlusArgs { dir: root, cookie: 0, cookie_verifier: CookieVerifier::default(), dir_count: 512, max_count: 4096 };
    match rng.below(9) {
        0 => wire.nfs_record(Procedure::GetAttr, &ObjectArgs { object: root }),
        1 => wire.nfs_record(Procedure::SetAttr, &SetAttrArgs { object: root, new_attributes: set, guard: None }),
        2 => wire.nfs_record(Procedure::Write, &write_args(root, rng.bits(), &data, StableHow::FileSync)),
        3 => wire.nfs_record(
            Procedure::Create,
            &CreateArgs { place: place(root, "x"), how: CreateHow::Exclusive(CreateVerifier([7; 8])) },
        ),
        4 => wire.nfs_record(Procedure::Rename, &RenameArgs { from: place(root, "a"), to: place(root, "b") }),
        5 => wire.nfs_record(Procedure::Read, &ReadArgs { file: root, offset: rng.bits(), count: rng.bits() as u32 }),
        6 => wire.nfs_record(Procedure::ReadDirPlus, &names),
        7 => wire.nfs_record(Procedure::Commit, &CommitArgs { file: root, offset: rng.bits(), count: 1 }),
        _ => wire.record(nfs_proto::mount3::PROGRAM, 3, 1, &MountArgs { path: DirPath(b"/vol") }),
    }
}

/// Damages a record: bits, length words, cut or extended bodies. Most of the time, the record mark
/// is corrected afterwards.
fn damage(record: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        let words = record.len() / 4;
        let at = rng.index(words) * 4;
        match rng.below(5) {
            0 => record[at + 3] ^= 1 << rng.below(8),
            1 => record[at..at + 4].copy_from_slice(&[0xff; 4]),
            2 => record[at..at + 4].copy_from_slice(&(rng.below(2000) as u32).to_be_bytes()),
            3 => record.truncate(at.max(8)),
            _ => {
                let words = 1 + rng.index(64);
                record.extend(rng.bytes(4 * words));
            }
        }
    }
    if rng.chance(9, 10) {
        let mark = (record.len() - 4) as u32 | LAST_FRAGMENT;
        record[..4].copy_from_slice(&mark.to_be_bytes());
    }
}

#[test]
fn damaged_calls_leave_the_filer_serving() {
    let scratch = Scratch::new("bytes");
    let filer = Filer::start(&scratch, &[]);
    std::fs::write(filer.export().join("f"), b"untouched").unwrap();
    let mut good = Wire::connect(filer.port);
    let root = good.root();
    sweep(60, |_seed, mut rng| {
        let mut wire = Wire::connect(filer.port);
        let mut stream = Vec::new();
        for _ in 0..20 {
            let mut record = some_call(&mut wire, &mut rng);
            damage(&mut record, &mut rng);
            stream.extend(record);
        }
        // The filer may close the connection in the middle, which is also a valid reaction.
        for piece in stream.chunks(1 + rng.index(4000)) {
            if wire.stream.write_all(piece).is_err() {
                break;
            }
        }
        let _ = wire.stream.shutdown(std::net::Shutdown::Write);
        let mut answers = Vec::new();
        match wire.stream.read_to_end(&mut answers) {
            Ok(_) => {}
            Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "the filer neither answers nor hangs up"),
        }
        assert!(good.lookup(root, "f").is_ok(), "the filer serves others meanwhile");
    });
    assert_eq!(std::fs::read(filer.export().join("f")).unwrap(), b"untouched");
}

#[test]
fn random_handles_in_sound_calls_are_refused_one_by_one() {
    let scratch = Scratch::new("handles");
    let filer = Filer::start(&scratch, &[]);
    sweep(20, |_seed, mut rng| {
        let mut wire = Wire::connect(filer.port);
        for _ in 0..50 {
            let record = some_call(&mut wire, &mut rng);
            wire.send(&record);
            assert_eq!(wire.receive().header().xid.0, wire.xid);
        }
    });
    assert!(std::fs::read_dir(filer.export()).unwrap().next().is_none(), "nothing was made");
}

#[test]
fn a_record_over_the_limit_or_of_endless_fragments_ends_the_connection() {
    let scratch = Scratch::new("records");
    let filer = Filer::start(&scratch, &[]);
    let too_long = (RECORD_BYTES_MAX as u32 + 1) | LAST_FRAGMENT;
    for bytes in [too_long.to_be_bytes().to_vec(), vec![0; 4096], vec![0xff; 64], b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
        let mut wire = Wire::connect(filer.port);
        wire.send(&bytes);
        let mut rest = Vec::new();
        let ended = wire.stream.read_to_end(&mut rest);
        assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
        assert!(rest.is_empty());
    }
    assert!(Wire::connect(filer.port).mount("/vol").is_ok());
}

#[test]
fn calls_in_single_bytes_and_in_fragments_are_understood() {
    let scratch = Scratch::new("pieces");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let call = wire.nfs_record(Procedure::PathConf, &ObjectArgs { object: root });
    for byte in &call {
        wire.send(&[*byte]);
    }
    let whole = wire.receive().0;
    let mut fragments = Vec::new();
    let pieces: Vec<&[u8]> = call[4..].chunks(7).collect();
    for (index, piece) in pieces.iter().enumerate() {
        let last = if index + 1 == pieces.len() { LAST_FRAGMENT } else { 0 };
        fragments.extend((piece.len() as u32 | last).to_be_bytes());
        fragments.extend(*piece);
    }
    wire.send(&fragments);
    assert_eq!(wire.receive().0, whole);
}

/// The client calls and never reads. It must not increase the filer's memory or delay others.
#[test]
fn a_client_that_takes_no_replies_costs_only_itself() {
    let scratch = Scratch::new("slow");
    let filer = Filer::start(&scratch, &[]);
    std::fs::write(filer.export().join("f"), vec![1; 1 << 20]).unwrap();
    let mut slow = Wire::connect(filer.port);
    let root = slow.root();
    let file = slow.lookup(root, "f").unwrap().object;
    slow.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut sent = 0;
    while sent < 20_000 {
        let call = slow.nfs_record(Procedure::Read, &ReadArgs { file, offset: 0, count: 1 << 20 });
        if slow.stream.write_all(&call).is_err() {
            break;
        }
        sent += 1;
    }
    let mut other = Wire::connect(filer.port);
    assert!(other.lookup(root, "f").is_ok());
    let resident = filer.resident();
    assert!(resident < 64 << 20, "{resident} bytes resident after {sent} unread replies");
}
