//! Bytes of other implementations: every NFSv3 procedure, MOUNT and portmap as libnfs 4.0 asked and NFS-Ganesha 4.3 and
//! rpcbind 1.2 answered. Each must be understood and written again to the byte; cut and damaged they must be refused or
//! understood, never more.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test crate: it has no callers, and a panic is its verdict"
)]

mod every;

use every::{Kind, call_parts, check, reply_parts};
use nfs_proto::nfs3::*;
use nfs_proto::xdr::decode_all;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::{HashMap, HashSet};

const TRACE: &str = include_str!("golden/libnfs4-ganesha4.hex");

struct Body {
    kind: Kind,
    bytes: Vec<u8>,
}

fn trace() -> Vec<Body> {
    let records: Vec<(bool, Vec<u8>)> = TRACE
        .lines()
        .map(|line| {
            let (direction, hex) = line.split_once(' ').unwrap();
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (direction == "reply", (0..hex.len()).step_by(2).map(byte).collect())
        })
        .collect();
    let call = |record: &Vec<u8>| call_parts(record).map(|(kind, xid, _)| (xid, kind)).unwrap();
    let calls: HashMap<u32, Kind> = records.iter().filter(|(is_reply, _)| !is_reply).map(|(_, record)| call(record)).collect();
    records
        .iter()
        .map(|(is_reply, record)| {
            let (xid, body) = if *is_reply {
                reply_parts(record).unwrap()
            } else {
                call_parts(record).map(|(_, xid, body)| (xid, body)).unwrap()
            };
            Body { kind: Kind { is_reply: *is_reply, ..calls[&xid] }, bytes: body.to_vec() }
        })
        .collect()
}

fn replies(procedure: Procedure) -> Vec<Vec<u8>> {
    let wanted = |body: &Body| {
        body.kind.is_reply && body.kind.program == nfs_proto::nfs3::PROGRAM && body.kind.procedure == procedure.number()
    };
    trace().into_iter().filter(wanted).map(|body| body.bytes).collect()
}

#[test]
fn each_call_and_reply_is_read_and_written_again_to_the_byte() {
    for (number, body) in trace().iter().enumerate() {
        check(body.kind, &body.bytes).unwrap_or_else(|error| panic!("record {number} {:?}: {error}", body.kind));
    }
}

#[test]
fn the_trace_holds_all_22_procedures_both_ways() {
    for is_reply in [false, true] {
        let seen: HashSet<u32> = trace()
            .iter()
            .filter(|body| body.kind.program == nfs_proto::nfs3::PROGRAM && body.kind.is_reply == is_reply)
            .map(|body| body.kind.procedure)
            .collect();
        assert_eq!(seen.len(), Procedure::ALL.len());
    }
}

#[test]
fn what_was_written_is_what_is_read() {
    // The trace writes "hello, NFS" at 5, "hello, " at 4 twice, then reads 9 bytes at 0, all from 3 and all from 1 MiB.
    let read: Vec<_> = replies(Procedure::Read);
    let ok = |at: usize| decode_all::<ReadResult<'_>>(&read[at]).unwrap().unwrap();
    assert_eq!((ok(0).data.0, ok(0).eof), (&b"\0\0\0\0hello"[..], false));
    assert_eq!((ok(1).data.0, ok(1).eof), (&b"\0hello,  NFS"[..], true));
    assert_eq!((ok(2).data.0, ok(2).eof), (&b""[..], true));
}

#[test]
fn stable_writes_promise_what_was_asked_and_carry_the_verifier_of_commit() {
    let write: Vec<_> = replies(Procedure::Write);
    let ok: Vec<WriteOk> = write.iter().map(|body| decode_all::<WriteResult>(body).unwrap().unwrap()).collect();
    assert_eq!((ok[0].count, ok[0].committed), (10, StableHow::Unstable));
    assert!(ok[1].committed >= StableHow::DataSync && ok[2].committed == StableHow::FileSync);
    let commit = replies(Procedure::Commit);
    assert_eq!(decode_all::<CommitResult>(&commit[0]).unwrap().unwrap().verifier, ok[0].verifier);
}

#[test]
fn refusals_keep_their_status() {
    let status = |body: &[u8]| NfsStatus::from_number(u32::from_be_bytes(*body.first_chunk().unwrap())).unwrap();
    assert_eq!(status(&replies(Procedure::Lookup)[1]), NfsStatus::NoEnt);
    assert_eq!(status(&replies(Procedure::SetAttr)[1]), NfsStatus::NotSync);
    assert_eq!(status(replies(Procedure::GetAttr).last().unwrap()), NfsStatus::BadHandle);
    assert_eq!(status(&replies(Procedure::Remove)[1]), NfsStatus::NoEnt);
}

#[test]
fn a_listing_names_what_was_made() {
    let body = &replies(Procedure::ReadDirPlus)[0];
    let ok = decode_all::<ReadDirPlusResult<'_>>(body).unwrap().unwrap();
    assert!(ok.entries.eof());
    let names: HashSet<&[u8]> = ok.entries.iter().map(|entry| entry.name.0).collect();
    for name in ["excl", "unchecked", "guarded", "dir", "soft", "pipe", "null"] {
        assert!(names.contains(name.as_bytes()), "{name} missing");
    }
}

#[test]
fn every_cut_is_refused() {
    for body in trace() {
        for cut in 0..body.bytes.len() {
            assert!(check(body.kind, &body.bytes[..cut]).is_err(), "{:?} cut at {cut} was taken for whole", body.kind);
        }
    }
}

#[test]
fn damaged_bytes_are_refused_or_read_as_what_they_say() {
    // The property itself is in `check`: what is read is written again to the byte.
    let mut random = SplitMix64::seed_from_u64(0x6d69_6c6c_7261_6365);
    let mut next = move || random.next_u64();
    let (mut refused, mut read) = (0, 0);
    for body in trace().iter().filter(|body| !body.bytes.is_empty()) {
        for _ in 0..500 {
            let mut bytes = body.bytes.clone();
            for _ in 0..=next() % 3 {
                let at = next() as usize % bytes.len();
                bytes[at] = [0, 1, 0xff, next() as u8][next() as usize % 4];
            }
            if check(body.kind, &bytes).is_ok() { read += 1 } else { refused += 1 }
        }
    }
    assert!(read > 1000 && refused > 1000, "{read} read, {refused} refused: the damage is not worth testing");
}
