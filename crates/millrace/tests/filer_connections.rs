//! Connections as clients and others make them: calls that overlap, reads that wait for the store, peers that stall.

#![allow(clippy::unwrap_used, clippy::result_large_err, reason = "a panic is a test's verdict; results are those of the wire")]

mod support;

use nfs_proto::nfs3::{FileHandle, ObjectArgs, Procedure, ReadArgs, ReadResult};
use std::path::Path;
use std::process::Command;
use support::filer::Filer;
use support::wire::Wire;
use support::{Scratch, succeed};

/// Has the kernel forget the content of a file; false where it has nowhere else to keep it.
fn drop_from_memory(path: &Path) -> bool {
    if succeed(Command::new("stat").args(["-f", "-c", "%T"]).arg(path)).starts_with("tmpfs") {
        return false;
    }
    std::fs::File::open(path).unwrap().sync_all().unwrap();
    succeed(Command::new("dd").args([&format!("if={}", path.display()), "iflag=nocache", "count=0", "status=none"]));
    true
}

fn read_call(wire: &mut Wire, file: FileHandle, offset: u64, count: u32) -> Vec<u8> {
    wire.nfs_record(Procedure::Read, &ReadArgs { file, offset, count })
}

#[test]
fn a_read_that_waits_for_the_store_does_not_hold_up_the_calls_behind_it() {
    const READ: usize = 64 << 10;
    const READS: usize = 8;
    let scratch = Scratch::new("cold");
    let filer = Filer::start(&scratch, &[]);
    let path = filer.export().join("f");
    let content: Vec<u8> = (0..64 * READ).map(|index| (index / 4096) as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.lookup(root, "f").unwrap().object;
    let at = |part: usize| part * 8 * READ;
    // Whether the last of the reads or the call behind it is answered first is a race that the call has to win sometimes; it
    // never would if it had to wait.
    for _ in 0..100 {
        if !drop_from_memory(&path) {
            println!("SKIP: the scratch directory is in memory, where nothing is cold");
            return;
        }
        let first = wire.xid + 1;
        let reads = |part: usize| read_call(&mut wire, file, at(part) as u64, READ as u32);
        let mut calls: Vec<u8> = (0..READS).flat_map(reads).collect();
        calls.extend(wire.nfs_record(Procedure::GetAttr, &ObjectArgs { object: file }));
        wire.send(&calls);
        let order: Vec<usize> = (0..=READS)
            .map(|_| {
                let reply = wire.receive();
                let number = (reply.header().xid.0 - first) as usize;
                if number < READS {
                    let data = reply.results::<ReadResult<'_>>().unwrap().data.0.to_vec();
                    assert!(data == content[at(number)..][..READ], "the data of read {number}");
                }
                number
            })
            .collect();
        if order[READS] != READS {
            assert!(filer.admin(r#"{"op":"stats"}"#)["cold_reads"].as_u64().unwrap() > 0);
            return;
        }
    }
    panic!("the call behind the reads always waited for them");
}
