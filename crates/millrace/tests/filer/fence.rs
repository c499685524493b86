//! A WRITE that is still on its way on a dead connection when its client sends it again elsewhere, and then writes something
//! newer: it must never land behind that. NFS version 3 does not promise it; ATTACH and FENCE do (`nfs_proto::channel1`).

use crate::support::filer::Filer;
use crate::support::proxy::Proxy;
use crate::support::wire::{Wire, write_args};
use crate::support::{Scratch, await_until};
use dnfs::file::CreateMode;
use dnfs::{Client, Credentials, NfsUrl, SetAttributes, Stability};
use nfs_proto::channel1::{self, AttachArgs, ChannelResult, ChannelStatus, FenceArgs, Procedure as Channel};
use nfs_proto::nfs3::{FileHandle, Procedure, StableHow};
use std::io::IoSlice;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);

fn content(filer: &Filer) -> Vec<u8> {
    std::fs::read(filer.export().join("f")).unwrap()
}

fn ask(wire: &mut Wire, procedure: Channel, args: &dyn nfs_proto::xdr::Encode) -> ChannelResult {
    wire.raw(channel1::PROGRAM, channel1::VERSION, procedure.number(), args).results()
}

/// Attaches the channel 1 of this process; the run of the filer is asked for.
fn attach(wire: &mut Wire, process: u64, generation: u32) -> ChannelStatus {
    let args = AttachArgs { instance: 0, process, channel: 1, generation };
    let first = ask(wire, Channel::Attach, &args);
    assert_eq!(first.status, ChannelStatus::OtherInstance);
    ask(wire, Channel::Attach, &AttachArgs { instance: first.instance, ..args }).status
}

fn write_call(wire: &mut Wire, file: FileHandle, byte: u8) -> Vec<u8> {
    wire.nfs_record(Procedure::Write, &write_args(file, 0, &[byte; 8192], StableHow::FileSync))
}

#[test]
fn a_write_held_back_lands_late_where_nobody_fences() {
    let scratch = Scratch::new("no-fence");
    let filer = Filer::start(&scratch, &[]);
    let proxy = Proxy::start(filer.port);
    let mut old = Wire::connect(proxy.port);
    let root = old.root();
    let file = old.create(root, "f");
    let lanes = proxy.hold();
    let call = write_call(&mut old, file, 1);
    old.send(&call);
    await_until("the write to be held back", LIMIT, || (lanes[0].stored() == call.len()).then_some(()));
    drop(old);
    let mut new = Wire::connect(filer.port);
    new.write(file, 0, &[1; 8192], StableHow::FileSync);
    new.write(file, 0, &[2; 8192], StableHow::FileSync);
    lanes[0].release();
    await_until("the old write to be done", LIMIT, || (content(&filer) == [1; 8192]).then_some(()));
}

#[test]
fn a_write_held_back_never_lands_behind_its_successor_of_an_attached_channel() {
    let scratch = Scratch::new("fence");
    let filer = Filer::start(&scratch, &[]);
    let proxy = Proxy::start(filer.port);
    let mut old = Wire::connect(proxy.port);
    let root = old.root();
    let file = old.create(root, "f");
    assert_eq!(attach(&mut old, 77, 1), ChannelStatus::Ok);
    let lanes = proxy.hold();
    let call = write_call(&mut old, file, 1);
    old.send(&call);
    await_until("the write to be held back", LIMIT, || (lanes[0].stored() == call.len()).then_some(()));
    let mut new = Wire::connect(filer.port);
    assert_eq!(attach(&mut new, 77, 2), ChannelStatus::Ok);
    new.write(file, 0, &[2; 8192], StableHow::FileSync);
    lanes[0].release();
    await_until("the old connection to end", LIMIT, || lanes[0].ended().then_some(()));
    assert_eq!(content(&filer), [2; 8192]);
    assert_eq!(attach(&mut Wire::connect(filer.port), 77, 1), ChannelStatus::Fenced, "an earlier connection that comes late");
    assert_eq!(attach(&mut Wire::connect(filer.port), 77, 2), ChannelStatus::Fenced, "two connections of one generation");
    assert_eq!(attach(&mut Wire::connect(filer.port), 78, 1), ChannelStatus::Ok, "another process is not concerned");
}

/// The calls are in the filer's own hands: in its socket, its buffers, with its workers.
#[test]
fn writes_that_the_filer_has_but_not_done_are_dropped_or_done_before_the_fence_is_answered() {
    let scratch = Scratch::new("fence-inside");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    for generation in 1..=40 {
        let mut old = Wire::connect(filer.port);
        assert_eq!(attach(&mut old, 5, 2 * generation - 1), ChannelStatus::Ok);
        let calls: Vec<u8> = (0..60).flat_map(|_| write_call(&mut old, file, 1)).collect();
        old.send(&calls);
        let mut new = Wire::connect(filer.port);
        assert_eq!(attach(&mut new, 5, 2 * generation), ChannelStatus::Ok);
        new.write(file, 0, &[2; 8192], StableHow::Unstable);
        // The old connection reads to its end what it gets: nothing of it can be under way then.
        while old.try_receive().is_ok() {}
        assert_eq!(content(&filer), [2; 8192], "round {generation}");
    }
}

#[test]
fn a_process_that_died_is_fenced_with_all_its_channels_and_never_served_again() {
    let scratch = Scratch::new("fence-process");
    let filer = Filer::start(&scratch, &[]);
    let proxy = Proxy::start(filer.port);
    let mut dead = Wire::connect(proxy.port);
    let root = dead.root();
    let file = dead.create(root, "f");
    assert_eq!(attach(&mut dead, 9, 1), ChannelStatus::Ok);
    let lanes = proxy.hold();
    let call = write_call(&mut dead, file, 1);
    dead.send(&call);
    await_until("the write to be held back", LIMIT, || (lanes[0].stored() == call.len()).then_some(()));
    let mut heir = Wire::connect(filer.port);
    let instance = ask(&mut heir, Channel::Fence, &FenceArgs { instance: 0, process: 9 }).instance;
    let fence = FenceArgs { instance, process: 9 };
    assert_eq!(ask(&mut heir, Channel::Fence, &fence).status, ChannelStatus::Ok);
    heir.write(file, 0, &[2; 8192], StableHow::FileSync);
    lanes[0].release();
    await_until("the dead process' connection to end", LIMIT, || lanes[0].ended().then_some(()));
    assert_eq!(content(&filer), [2; 8192]);
    assert_eq!(attach(&mut Wire::connect(filer.port), 9, 2), ChannelStatus::Fenced, "a connection of it that comes late");
    assert_eq!(ask(&mut heir, Channel::Fence, &fence).status, ChannelStatus::Ok, "again is the same");
}

#[test]
fn bytes_meant_for_an_earlier_run_of_the_filer_attach_nothing() {
    let scratch = Scratch::new("fence-run");
    let mut filer = Filer::start(&scratch, &[]);
    let args = AttachArgs { instance: 0, process: 3, channel: 1, generation: 1 };
    let before = ask(&mut Wire::connect(filer.port), Channel::Attach, &args).instance;
    filer.kill();
    filer.restart();
    let late = ask(&mut Wire::connect(filer.port), Channel::Attach, &AttachArgs { instance: before, ..args });
    assert_eq!(late.status, ChannelStatus::OtherInstance);
    assert_ne!(late.instance, before);
}

/// The client itself: its route swallows a write; it gives the connection up, sends the call again by another one, and goes
/// on. Whatever the route brings later comes to nothing.
#[test]
fn the_client_fences_its_own_dead_connection_before_it_sends_again() {
    let scratch = Scratch::new("fence-client");
    let filer = Filer::start(&scratch, &[]);
    let proxy = Proxy::start(filer.port);
    let url: NfsUrl = format!("nfs://127.0.0.1/vol?nfsport={0}&mountport={0}&timeo=10", proxy.port).parse().unwrap();
    let client = Client::mount(&url, &Credentials::of_process()).unwrap();
    let root = client.parts().root;
    let file = client.create(&root, b"f", CreateMode::Guarded(SetAttributes::default())).unwrap().0.unwrap();
    let write = |byte: u8| client.write(&file, 0, &[IoSlice::new(&[byte; 8192])], Stability::Unstable).unwrap();
    write(1);
    let lanes = proxy.hold();
    let done = write(2); // held back, given up after a second, sent again
    assert_eq!((done.bytes, client.counters().resends, client.counters().reconnects), (8192, 1, 1));
    let held = lanes.iter().find(|lane| lane.stored() > 0).unwrap();
    assert!(held.stored() > 8192 && held.client_left());
    write(3);
    client.commit(&file).unwrap();
    held.release();
    await_until("the old connection to end", LIMIT, || held.ended().then_some(()));
    assert_eq!(content(&filer), [3; 8192]);
}
