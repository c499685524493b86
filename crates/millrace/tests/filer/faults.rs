//! Faults that an operator sets on a running filer and that a client meets. Each does what it
//! should at the right place, is counted, and ends when it is cleared. Also a copy of a volume as a
//! power cut would leave it.

use crate::support::filer::Filer;
use crate::support::wire::{Wire, place};
use crate::support::{Scratch, millrace, text};
use nfs_proto::nfs3::{
    CommitArgs, CommitResult, CreateArgs, CreateHow, CreateResult, FileHandle, NfsStatus, ObjectArgs, Procedure, ReadArgs,
    ReadResult, SetAttr, StableHow, WccResult,
};
use nfs_proto::rpc::Xid;
use std::process::Output;
use std::time::{Duration, Instant};

/// Runs `millrace volume …` on this filer.
fn volume(filer: &Filer, arguments: &[&str]) -> Output {
    millrace().arg("volume").args(arguments).arg("--admin").arg(&filer.admin).output().unwrap()
}

pub(crate) fn add(filer: &Filer, fault: &str) {
    let output = volume(filer, &["fault", "add", fault]);
    assert!(output.status.success(), "{fault}: {}", text(&output));
}

fn report(filer: &Filer) -> serde_json::Value {
    filer.admin(r#"{"op":"fault-list"}"#)["report"].take()
}

fn clear(filer: &Filer) {
    assert!(volume(filer, &["fault", "clear"]).status.success());
}

fn guarded<'a>(root: FileHandle, name: &'a str) -> CreateArgs<'a> {
    CreateArgs { place: place(root, name), how: CreateHow::Guarded(SetAttr::default()) }
}

fn commit(wire: &mut Wire, file: FileHandle) -> CommitResult {
    wire.nfs(Procedure::Commit, &CommitArgs { file, offset: 0, count: 0 }).results()
}

#[test]
fn a_lost_answer_is_given_again_and_the_call_not_done_again() {
    let scratch = Scratch::new("fault-drop");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    wire.create(root, "gone");
    add(&filer, "drop-reply,on=remove,times=1");
    let remove = wire.nfs_record(Procedure::Remove, &place(root, "gone"));
    wire.send(&remove);
    crate::support::await_until("the name to go", Duration::from_secs(30), || {
        (!filer.export().join("gone").exists()).then_some(())
    });
    // The next reply is that of the call after the lost one.
    assert_eq!(wire.lookup(root, "gone").unwrap_err().status, NfsStatus::NoEnt);
    wire.send(&remove);
    assert!(wire.receive().results::<WccResult>().is_ok(), "removed once, so it says yes again");
    let report = report(&filer);
    let (matched, injected) = (&report["faults"][0]["matched"], &report["faults"][0]["injected"]);
    assert_eq!((matched, injected, &report["injections"][0]["on"]), (&2.into(), &1.into(), &"REMOVE".into()), "{report}");
}

#[test]
fn an_answer_that_comes_twice_is_the_same_twice() {
    let scratch = Scratch::new("fault-twice");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    add(&filer, "duplicate-reply,on=GETATTR");
    let first = wire.nfs(Procedure::GetAttr, &ObjectArgs { object: root });
    assert_eq!(wire.receive().0, first.0);
    clear(&filer);
    assert!(wire.getattr(root).is_ok(), "and then no more");
}

#[test]
fn a_reset_loses_the_call_or_only_its_answer_as_told() {
    let scratch = Scratch::new("fault-reset");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    for (fault, done) in [("reset-call,on=CREATE,times=1", false), ("reset-reply,on=CREATE,times=1", true)] {
        add(&filer, fault);
        let name = if done { "done" } else { "not-done" };
        let mut wire = Wire::connect(filer.port);
        let record = wire.nfs_record(Procedure::Create, &guarded(root, name));
        wire.send(&record);
        let error = wire.try_receive().map(drop).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{fault}: {error}");
        assert_eq!(filer.export().join(name).exists(), done, "{fault}");
        let mut again = Wire::connect(filer.port);
        again.send(&record);
        assert!(again.receive().results::<CreateResult>().is_ok(), "{fault}: sent again it is answered, and done once");
    }
    // Other calls do not meet the fault.
    assert!(wire.getattr(root).is_ok());
}

#[test]
fn a_delayed_answer_is_overtaken_and_a_slow_server_is_not() {
    let scratch = Scratch::new("fault-slow");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    wire.write(file, 0, b"data", StableHow::FileSync);
    let read = ReadArgs { file, offset: 0, count: 4 };
    add(&filer, "delay-reply,on=READ,delay_ms=300,times=1");
    let begun = Instant::now();
    let (first, second) =
        (wire.nfs_record(Procedure::Read, &read), wire.nfs_record(Procedure::GetAttr, &ObjectArgs { object: root }));
    wire.send(&[first, second].concat());
    let xid = wire.xid;
    assert_eq!(wire.receive().header().xid, Xid(xid));
    let late = wire.receive();
    assert_eq!((late.header().xid, late.results::<ReadResult<'_>>().unwrap().data.0), (Xid(xid - 1), &b"data"[..]));
    assert!(begun.elapsed() >= Duration::from_millis(299), "{:?}", begun.elapsed());
    clear(&filer);
    add(&filer, "slow,on=READ,delay_ms=100");
    let begun = Instant::now();
    wire.nfs(Procedure::Read, &read);
    assert!(begun.elapsed() >= Duration::from_millis(100));
    // Clearing a fault ends the wait of its calls.
    clear(&filer);
    add(&filer, "slow,on=READ,delay_ms=60000");
    let record = wire.nfs_record(Procedure::Read, &read);
    wire.send(&record);
    crate::support::await_until("the fault to be injected", Duration::from_secs(30), || {
        (report(&filer)["faults"][0]["injected"] == 1).then_some(())
    });
    clear(&filer);
    wire.receive();
    assert!(begun.elapsed() < Duration::from_secs(50));
}

#[test]
fn a_file_that_fails_fails_alone_and_a_flipped_bit_is_told() {
    let scratch = Scratch::new("fault-data");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let (bad, good) = (wire.create(root, "bad"), wire.create(root, "good"));
    for file in [bad, good] {
        wire.write(file, 0, &[0; 8192], StableHow::FileSync);
    }
    add(&filer, "eio,on=read,path=bad,offset=4096,length=4096");
    let read = |wire: &mut Wire, file, offset| {
        let reply = wire.nfs(Procedure::Read, &ReadArgs { file, offset, count: 4096 });
        reply.results::<ReadResult<'_>>().map(|ok| ok.data.0.to_vec()).map_err(|failure| failure.status)
    };
    assert_eq!(read(&mut wire, bad, 4096), Err(NfsStatus::Io));
    assert_eq!((read(&mut wire, bad, 0), read(&mut wire, good, 4096)), (Ok(vec![0; 4096]), Ok(vec![0; 4096])));
    let listed = text(&volume(&filer, &["fault", "list"]));
    assert!(listed.contains("eio,on=read,file=") && listed.contains("injected into 1 of 1"), "{listed}");
    assert_eq!(filer.admin(r#"{"op":"stats"}"#)["faults"], serde_json::json!(["eio"]), "a record says what it was made under");
    assert!(volume(&filer, &["fault", "clear", "1"]).status.success());
    add(&filer, "bit-flip,path=good,times=1");
    let flipped = read(&mut wire, good, 0).unwrap();
    assert_eq!(flipped.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    let at = flipped.iter().position(|byte| *byte != 0).unwrap();
    let detail = report(&filer)["injections"][1]["detail"].as_str().unwrap().to_owned();
    assert!(detail.ends_with(&format!("byte at {at}")), "{detail}");
    assert_eq!(read(&mut wire, good, 0), Ok(vec![0; 4096]));
}

#[test]
fn a_full_store_on_demand_is_said_so_and_over_when_cleared() {
    let scratch = Scratch::new("fault-full");
    let filer = Filer::start(&scratch, &["--fault", "enospc"]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let refused = wire.create_with(root, "f", CreateHow::Guarded(SetAttr::default()));
    assert_eq!(refused.unwrap_err().status, NfsStatus::NoSpc);
    clear(&filer);
    let file = wire.create(root, "f");
    wire.write(file, 0, b"room", StableHow::FileSync);
}

#[test]
fn a_failed_flush_is_loud_for_good_and_heals_by_a_start() {
    let scratch = Scratch::new("fault-flush");
    let mut filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    let before = wire.write(file, 0, b"not yet promised", StableHow::Unstable).verifier;
    add(&filer, "eio,on=flush,times=1");
    assert_eq!(commit(&mut wire, file).unwrap_err().status, NfsStatus::Io);
    clear(&filer);
    for round in 0..3 {
        assert!(commit(&mut wire, file).is_err(), "round {round}: no second flush may hide the first one's failure");
        assert!(wire.try_write(file, 0, b"x", StableHow::FileSync).is_err());
        assert!(wire.create_with(root, "g", CreateHow::Guarded(SetAttr::default())).is_err());
    }
    let stats = filer.admin(r#"{"op":"stats"}"#);
    assert_eq!(stats["poisoned"], true, "{stats}");
    assert!(text(&volume(&filer, &["stats"])).contains("POISONED"));
    filer.kill();
    filer.restart();
    let mut wire = Wire::connect(filer.port);
    let after = commit(&mut wire, file).unwrap().verifier;
    assert_ne!(after, before, "who has not committed must send again");
}

#[test]
fn a_power_cut_copy_is_what_a_cut_leaves_and_the_live_volume_goes_on() {
    let scratch = Scratch::new("cut-copy");
    let filer = Filer::start(&scratch, &["--loss-layer"]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    wire.write(file, 0, &[1; 8192], StableHow::FileSync);
    wire.write(file, 4096, &[2; 8192], StableHow::Unstable);
    let to = scratch.path().join("copy");
    let output = volume(&filer, &["power-cut-copy", "vol", to.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(std::fs::read(to.join("f")).unwrap(), [1; 8192]);
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 1);
    assert_eq!(std::fs::read(filer.export().join("f")).unwrap()[4096..], [2; 8192]);
    assert!(commit(&mut wire, file).is_ok(), "by the same connection");
    let refused = volume(&filer, &["power-cut-copy", "vol", to.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("is not empty; name an empty directory, or one to create"), "{}", text(&refused));
}

#[test]
fn what_is_no_fault_is_refused_with_its_reason() {
    let scratch = Scratch::new("fault-refused");
    let filer = Filer::start(&scratch, &[]);
    for (arguments, code, said) in [
        (&["fault", "add", "eoi"][..], 2, "not a kind of fault"),
        (&["fault", "add", "slow"], 2, "slow needs delay_ms"),
        (&["fault", "add", "drop-reply,on=fsync"], 1, "procedures of NFS version 3"),
        (&["fault", "add", "eio,path=nowhere"], 1, "path \"nowhere\": no such name"),
        (&["fault", "add", "eio", "--volume", "other"], 1, "the filer serves vol"),
        (&["fault", "clear", "77"], 1, "no fault has this number"),
        (&["power-cut-copy", "vol", "/nowhere/at/all"], 1, "--loss-layer"),
    ] {
        let output = volume(&filer, arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(said), "{arguments:?}: {}", text(&output));
    }
    assert_eq!(filer.admin(r#"{"op":"fault-add","fault":{"kind":"eio","rat":1}}"#)["ok"], false);
    assert_eq!(filer.admin(r#"{"op":"fault-add","falt":{"kind":"eio"}}"#)["ok"], false);
    assert!(report(&filer)["faults"].as_array().unwrap().is_empty());
    let export = scratch.folder("other");
    let mut serve = millrace();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--fault", "eoi", "--state"]);
    let output = serve.arg(scratch.folder("other-state")).arg(export).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}
