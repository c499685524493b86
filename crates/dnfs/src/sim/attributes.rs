//! The attribute record of a file under kills and stops.

use std::rc::Rc;

use super::{Faults, Host, World, new_file};
use crate::segment::{AttrRecord, FileRef};

struct Client {
    host: Rc<Host>,
    file: FileRef,
    server: Rc<core::cell::Cell<u64>>,
}

/// Attributes after this many changes at the server: all parts follow from the number.
fn version(number: u64) -> AttrRecord {
    let part = number as u32;
    AttrRecord { mode: part, nlink: part, uid: part, gid: part, used: number, atime: number, mtime: number, ctime: number }
}

#[test]
fn a_reader_finds_the_attributes_of_one_reply_and_never_older_ones_than_it_saw() {
    let mut kills = 0;
    ::sim::sweep(300, |seed, _| {
        let mut world = World::new(seed);
        let server = Rc::new(core::cell::Cell::new(1));
        let (host, file) = world.outside(|| {
            let host = Rc::new(Host::new());
            let file = new_file(0, version(1));
            let (file, _) = host.segment.find_or_insert(&file).unwrap();
            (host, file)
        });
        let own = |_| Client { host: Rc::clone(&host), file, server: Rc::clone(&server) };
        world.run(4, Faults { kill: 1_000, stop: 1_000 }, &own, |me: &Client| {
            let slot = me.host.segment.slot(me.file).unwrap();
            let mut seen = 0;
            for _ in 0..12 {
                let moment = slot.attr_moment();
                // The server executes SETATTR; its reply travels for a while.
                me.server.set(me.server.get() + 1);
                let reply = version(me.server.get());
                crate::sys::clock::give_way();
                slot.attr_apply(me.file.generation, reply, moment);
                if let Some(record) = slot.attr_record() {
                    assert_eq!(record, version(record.ctime), "parts of two replies");
                    assert!(record.ctime >= seen, "{} after {seen}", record.ctime);
                    assert!(record.ctime <= me.server.get());
                    seen = record.ctime;
                }
            }
        });
        kills += world.kills;
    });
    assert!(kills > 0);
}
