//! A filer that its operator stops loses nothing, and its clients can see that: the write verifier
//! stays the same, whatever boot of the host follows. A filer that goes down with its host may have
//! lost data.

use crate::batches::FilerHere;
use crate::support::Scratch;
use crate::support::filer::Filer;
use crate::support::wire::{Wire, place};
use nfs_proto::nfs3::{
    CommitArgs, CommitResult, CreateResult, FileHandle, GetAttrResult, MkDirArgs, NfsStatus, ObjectArgs, Procedure, SetAttr,
    StableHow, WriteVerifier,
};
use volume::faults::FaultSpec;

const BEFORE: [&str; 2] = ["--boot-id", "11111111-2222-3333-4444-555555555555"];
const AFTER: [&str; 2] = ["--boot-id", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"];

/// A filer with a file whose data is not committed, and the verifier of the write.
fn written(scratch: &Scratch, options: &[&str]) -> (Filer, FileHandle, WriteVerifier) {
    let filer = Filer::start(scratch, &[&BEFORE[..], options].concat());
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let file = wire.create(root, "f");
    let verifier = wire.write(file, 0, &[7; 65_536], StableHow::Unstable).verifier;
    (filer, file, verifier)
}

fn commit(filer: &Filer, file: FileHandle) -> Result<WriteVerifier, NfsStatus> {
    let args = CommitArgs { file, offset: 0, count: 0 };
    let reply = Wire::connect(filer.port).nfs(Procedure::Commit, &args);
    reply.results::<CommitResult>().map(|ok| ok.verifier).map_err(|failure| failure.status)
}

#[test]
fn a_filer_that_was_stopped_keeps_its_verifier_over_a_reboot_of_the_host() {
    let scratch = Scratch::new("stopped");
    let (mut filer, file, verifier) = written(&scratch, &[]);
    for boot in [AFTER, BEFORE, AFTER] {
        assert_eq!(filer.stop(), Some(0));
        filer.restart_with(&boot);
        assert_eq!(commit(&filer, file), Ok(verifier));
    }
    filer.kill();
    filer.restart();
    assert_eq!(commit(&filer, file), Ok(verifier), "killed, and the host runs on");
}

#[test]
fn a_filer_that_was_killed_keeps_its_verifier_in_another_mount_namespace() {
    if !rustix::process::geteuid().is_root() {
        return sim::skip_unsupported("mount namespaces need root");
    }
    let scratch = Scratch::new("namespace");
    let (mut filer, file, verifier) = written(&scratch, &[]);
    filer.kill();
    filer.restart_by(&["unshare", "--mount"]);
    assert_eq!(commit(&filer, file), Ok(verifier));
}

#[test]
fn a_filer_that_was_killed_has_another_verifier_after_a_reboot_of_the_host() {
    let scratch = Scratch::new("killed");
    let (mut filer, file, verifier) = written(&scratch, &[]);
    assert_eq!(filer.stop(), Some(0));
    filer.restart_with(&BEFORE);
    filer.kill();
    filer.restart_with(&AFTER);
    let after = commit(&filer, file).unwrap();
    assert_ne!(after, verifier, "that of an earlier clean stop must not stand");
    filer.kill();
    filer.restart_with(&BEFORE);
    assert!(![after, verifier].contains(&commit(&filer, file).unwrap()), "nor come back");
}

#[test]
fn a_filer_that_lost_power_or_failed_to_flush_when_it_was_stopped_has_another_verifier() {
    let scratch = Scratch::new("lost");
    let (mut filer, file, verifier) = written(&scratch, &["--loss-layer"]);
    assert_eq!(filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
    assert_eq!(filer.stop(), Some(0));
    filer.restart_with(&AFTER);
    let after_cut = commit(&filer, file).unwrap();
    assert_ne!(after_cut, verifier);
    assert_eq!(filer.admin(r#"{"op":"fault-add","fault":{"kind":"eio","on":["flush"]}}"#)["ok"], true);
    assert_eq!(filer.stop(), Some(1), "the last flush failed");
    filer.restart_with(&BEFORE);
    assert_ne!(commit(&filer, file).unwrap(), after_cut);
}

#[test]
fn a_filer_that_stops_answers_calls_in_progress_though_the_client_has_not_acknowledged_an_earlier_reply() {
    let filer = FilerHere::new(volume::Options::default());
    let mut wire = Wire::connect(filer.port);
    // After some calls, the client's TCP delays acknowledgements.
    let root = (0..8).map(|_| wire.root()).next_back().unwrap();
    filer.volume.set_fault(FaultSpec::parse("slow-flush,delay_ms=200").unwrap()).unwrap();
    let args = MkDirArgs { place: place(root, "made"), attributes: SetAttr::default() };
    let mut calls = wire.nfs_record(Procedure::MkDir, &args);
    calls.extend(wire.nfs_record(Procedure::GetAttr, &ObjectArgs { object: root }));
    wire.send(&calls);
    wire.receive().results::<GetAttrResult>().unwrap();
    filer.server.stop();
    wire.receive().results::<CreateResult>().unwrap();
}
