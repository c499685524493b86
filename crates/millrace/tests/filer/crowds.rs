//! More connections than the filer accepts, all of which call: which of them it accepts, and the
//! limit on their memory.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::support::configured::Configured;
use crate::support::wire::Wire;
use crate::support::{Scratch, has_descriptors};
use filer::limits::{BUFFER_BYTES_MAX, CONNECTIONS_MAX, OTHERS_RESERVED, STRANGERS_MAX};
use nfs_proto::nfs3::{Procedure, StableHow};
use nfs_proto::record::LAST_FRAGMENT;

/// A filer on both loopbacks, with one volume for these clients.
fn serving(scratch: &Scratch, clients: &str) -> Configured {
    scratch.folder("vol");
    let volume = format!("[[volume]]\nname = \"vol\"\ndir = \"DIR/vol\"\nsquash = \"none\"\nclients = [{clients}]\n");
    Configured::start(scratch, &format!("metrics = \"127.0.0.1:0\"\n{volume}"))
}

fn connect(address: &str, port: u16) -> Wire {
    let stream = TcpStream::connect((address, port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    Wire { stream, xid: 1, uid: 0, gid: 0, groups: Vec::new() }
}

/// Opens this number of connections from 127.0.0.1, each of which calls NULL at once. Returns those
/// that got a reply.
fn callers(filer: &Configured, count: usize) -> Vec<Wire> {
    let call = |_| {
        let mut wire = connect("127.0.0.1", filer.port(0));
        let record = wire.nfs_record(Procedure::Null, &());
        let answered = wire.stream.write_all(&record).and_then(|()| wire.try_receive());
        answered.is_ok().then_some(wire)
    };
    (0..count).filter_map(call).collect()
}

#[test]
fn clients_that_no_rule_names_keep_nobody_out_who_is_named() {
    let scratch = Scratch::new("strangers");
    let filer = serving(&scratch, "\"::1\"");
    let strangers = callers(&filer, 500);
    assert_eq!(strangers.len(), STRANGERS_MAX, "they are answered, so that they are told");
    let mut named: Vec<Wire> = (0..10).map(|_| connect("::1", filer.port(1))).collect();
    for wire in &mut named {
        assert!(wire.mount("/vol").is_ok());
    }
    assert!(filer.figure("millrace_connections") <= STRANGERS_MAX + named.len());
}

#[test]
#[ignore = "nightly: twelve thousand connections, ten seconds"]
fn one_address_keeps_no_other_out_though_all_its_connections_call() {
    // The filer starts with the limit of this process. Its volumes may use half of it.
    if !has_descriptors(3 * CONNECTIONS_MAX as u64) {
        return;
    }
    let scratch = Scratch::new("one-address");
    let filer = serving(&scratch, "\"*\"");
    let of_one = callers(&filer, CONNECTIONS_MAX + 50);
    assert_eq!(of_one.len(), CONNECTIONS_MAX - OTHERS_RESERVED);
    assert!(connect("::1", filer.port(1)).mount("/vol").is_ok());
}

#[test]
fn records_that_were_begun_hold_no_more_memory_than_all_may_and_others_are_served() {
    if !has_descriptors(3000) {
        return;
    }
    let scratch = Scratch::new("begun");
    let filer = serving(&scratch, "\"*\"");
    let mut other = connect("::1", filer.port(1));
    let root = other.root();
    let file = other.create(root, "f");
    let begun = [&((1_u32 << 20) | LAST_FRAGMENT).to_be_bytes()[..], &[0; 1000]].concat();
    let begin = |_| {
        let mut wire = connect("127.0.0.1", filer.port(0));
        let record = wire.nfs_record(Procedure::Null, &());
        // Each connection has called once, so that none must be closed for another.
        wire.stream.write_all(&record).and_then(|()| wire.try_receive().map(drop)).unwrap();
        wire.stream.write_all(&begun).map(|()| wire)
    };
    let mut crowd: Vec<_> = (0..900).map(begin).collect();
    for wire in crowd.iter_mut().flatten() {
        let _ = wire.stream.write_all(&[0; 1000]); // connections that the filer has closed accept nothing
    }
    let held = filer.figure("millrace_buffer_bytes");
    println!("900 records of a MiB begun: buffers of {} MiB", held >> 20);
    assert!(held <= BUFFER_BYTES_MAX, "{held} bytes");
    let data = vec![7; 1 << 20];
    assert_eq!(other.write(file, 0, &data, StableHow::Unstable).count, 1 << 20, "a large write, while all memory is taken");
    assert!(filer.figure("millrace_buffer_bytes") <= BUFFER_BYTES_MAX);
    drop(crowd);
}
