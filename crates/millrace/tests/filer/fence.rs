//! A WRITE is still in transit on a dead connection when its client resends it elsewhere and then
//! writes newer data. The old WRITE must never overwrite that data. NFS version 3 does not
//! guarantee this; ATTACH and FENCE do (`nfs_proto::channel1`).

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

/// The secret of the mount in these tests.
const SECRET: u64 = 0x5ec2e7;

/// Attaches channel 1 of a process of the mount, after a query for the number of the filer's run.
pub(crate) fn attach(wire: &mut Wire, process: u64, generation: u32) -> ChannelStatus {
    attach_with(wire, SECRET, process, generation)
}

fn attach_with(wire: &mut Wire, secret: u64, process: u64, generation: u32) -> ChannelStatus {
    let root = wire.root();
    let args = AttachArgs { instance: 0, process, channel: 1, generation, secret, root };
    let first = ask(wire, Channel::Attach, &args);
    assert_eq!(first.status, ChannelStatus::OtherInstance);
    ask(wire, Channel::Attach, &AttachArgs { instance: first.instance, ..args }).status
}

fn fence(wire: &mut Wire, process: u64) -> ChannelStatus {
    let instance = ask(wire, Channel::Fence, &FenceArgs { instance: 0, process }).instance;
    ask(wire, Channel::Fence, &FenceArgs { instance, process }).status
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

/// The calls are inside the filer: in its socket, in its buffers, or with its workers.
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
        // The old connection reads all its replies, so no call of it can be in progress afterwards.
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
    assert_eq!(attach(&mut heir, 10, 1), ChannelStatus::Ok);
    assert_eq!(fence(&mut heir, 9), ChannelStatus::Ok);
    heir.write(file, 0, &[2; 8192], StableHow::FileSync);
    lanes[0].release();
    await_until("the dead process' connection to end", LIMIT, || lanes[0].ended().then_some(()));
    assert_eq!(content(&filer), [2; 8192]);
    assert_eq!(attach(&mut Wire::connect(filer.port), 9, 2), ChannelStatus::Fenced, "a late connection of the dead process");
    assert_eq!(fence(&mut heir, 9), ChannelStatus::Ok, "a second fence changes nothing");
}

#[test]
fn only_a_process_with_the_secret_of_the_mount_can_fence_a_process() {
    let scratch = Scratch::new("fence-secret");
    let filer = Filer::start(&scratch, &[]);
    let mut victim = Wire::connect(filer.port);
    assert_eq!(attach(&mut victim, 9, 1), ChannelStatus::Ok);
    let root = victim.root();
    // An attacker that has recorded the traffic, or guessed, knows the number of the process.
    assert_eq!(fence(&mut Wire::connect(filer.port), 9), ChannelStatus::Denied, "a connection without a channel");
    for (secret, process) in [(0, 10), (SECRET + 1, 11)] {
        let mut stranger = Wire::connect(filer.port);
        assert_eq!(attach_with(&mut stranger, secret, process, 1), ChannelStatus::Ok);
        assert_eq!(fence(&mut stranger, 9), ChannelStatus::Denied, "secret {secret}");
        // A stranger cannot take over the channel either.
        assert_eq!(attach_with(&mut Wire::connect(filer.port), secret, 9, 2), ChannelStatus::Ok);
    }
    assert!(victim.getattr(root).is_ok());
    assert_eq!(attach(&mut Wire::connect(filer.port), 9, 2), ChannelStatus::Ok);
}

#[test]
fn a_channel_is_attached_only_with_a_valid_handle_of_an_export_that_the_client_may_use() {
    let scratch = Scratch::new("fence-export");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let mut forged = wire.root().as_bytes().to_vec();
    *forged.last_mut().unwrap() ^= 1;
    let root = FileHandle::new(&forged).unwrap();
    let args = AttachArgs { instance: 0, process: 3, channel: 1, generation: 1, secret: SECRET, root };
    assert_eq!(ask(&mut wire, Channel::Attach, &args).status, ChannelStatus::Denied);
}

#[test]
fn bytes_meant_for_an_earlier_run_of_the_filer_attach_nothing() {
    let scratch = Scratch::new("fence-run");
    let mut filer = Filer::start(&scratch, &[]);
    let root = Wire::connect(filer.port).root();
    let args = AttachArgs { instance: 0, process: 3, channel: 1, generation: 1, secret: SECRET, root };
    let before = ask(&mut Wire::connect(filer.port), Channel::Attach, &args).instance;
    filer.kill();
    filer.restart();
    let late = ask(&mut Wire::connect(filer.port), Channel::Attach, &AttachArgs { instance: before, ..args });
    assert_eq!(late.status, ChannelStatus::OtherInstance);
    assert_ne!(late.instance, before);
}

/// The client itself: its route holds back a write. The client gives the connection up, resends the
/// call on another one, and continues. What the route delivers later has no effect.
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
    let done = write(2); // held back, given up after a second, resent
    assert_eq!((done.bytes, client.counters().resends, client.counters().reconnects), (8192, 1, 1));
    let held = lanes.iter().find(|lane| lane.stored() > 0).unwrap();
    assert!(held.stored() > 8192 && held.client_left());
    write(3);
    client.commit(&file).unwrap();
    held.release();
    await_until("the old connection to end", LIMIT, || held.ended().then_some(()));
    assert_eq!(content(&filer), [3; 8192]);
}
