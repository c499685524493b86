//! Which restarts the write verifier stands over: those in which nothing can have been lost.

use std::time::Duration;

use crate::common::{Scratch, content, make_file};
use volume::faults::FaultSpec;
use volume::{Config, Error, LossConfig, Options, Stability, Volume};

const BEFORE: &str = "11111111-2222-3333-4444-555555555555";
const AFTER: &str = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";

/// Opens the volume as if the host ran under this boot.
fn open(scratch: &Scratch, boot: &str) -> Volume {
    let options = Options { boot_id: Some(boot.parse().unwrap()), ..Options::default() };
    Volume::open(Config { options, loss: Some(LossConfig { seed: 0 }), ..scratch.config(None) }).unwrap()
}

/// A volume with data that nobody has committed, and its verifier.
fn written(scratch: &Scratch) -> (Volume, [u8; 8]) {
    let volume = open(scratch, BEFORE);
    let node = make_file(&volume, &volume.root(), "f", b"");
    volume.write(&node, 0, b"uncommitted", Stability::Unstable).unwrap();
    let verifier = volume.verifier();
    (volume, verifier)
}

#[test]
fn the_verifier_stands_over_a_reboot_behind_a_clean_stop() {
    let scratch = Scratch::new();
    let (volume, verifier) = written(&scratch);
    assert_eq!(volume.close(Duration::ZERO), Ok(true));
    drop(volume);
    let again = open(&scratch, AFTER);
    assert_eq!(again.verifier(), verifier);
    let (node, _) = again.lookup(&again.root(), b"f").unwrap();
    assert_eq!(content(&again, &node).unwrap(), b"uncommitted");
}

#[test]
fn the_verifier_changes_when_the_host_went_down_under_a_running_filer() {
    let scratch = Scratch::new();
    let (volume, verifier) = written(&scratch);
    drop(volume);
    assert_ne!(open(&scratch, AFTER).verifier(), verifier);
}

#[test]
fn a_clean_stop_counts_for_one_start_only() {
    let scratch = Scratch::new();
    let (volume, verifier) = written(&scratch);
    volume.close(Duration::ZERO).unwrap();
    drop(volume);
    // Killed before it answered anything.
    drop(open(&scratch, AFTER));
    let record = std::fs::read_to_string(scratch.base.path().join("state/volume-state")).unwrap();
    assert!(!record.contains("clean"), "{record}");
    assert_eq!(open(&scratch, AFTER).verifier(), verifier, "the page cache is still there");
    assert_ne!(open(&scratch, BEFORE).verifier(), verifier);
}

#[test]
fn a_power_cut_changes_the_verifier_and_a_clean_stop_behind_it_keeps_the_new_one() {
    let scratch = Scratch::new();
    let (volume, verifier) = written(&scratch);
    volume.power_cut().unwrap();
    let after_cut = volume.verifier();
    assert_ne!(after_cut, verifier);
    volume.close(Duration::ZERO).unwrap();
    drop(volume);
    assert_eq!(open(&scratch, AFTER).verifier(), after_cut);
}

#[test]
fn a_flush_that_fails_at_the_stop_changes_the_verifier() {
    let scratch = Scratch::new();
    let (volume, verifier) = written(&scratch);
    volume.set_fault(FaultSpec::parse("eio,on=flush,times=1").unwrap()).unwrap();
    assert_eq!(volume.close(Duration::ZERO), Err(Error::Io(libc::EIO)));
    assert_eq!(volume.close(Duration::ZERO), Err(Error::Busy), "nothing is changed any more");
    drop(volume);
    for boot in [BEFORE, AFTER] {
        let again = open(&scratch, boot);
        assert_ne!(again.verifier(), verifier, "{boot}");
    }
}

#[test]
fn nothing_is_written_once_a_volume_is_closed() {
    let scratch = Scratch::new();
    let (volume, _) = written(&scratch);
    let held = volume.quiesce(Duration::ZERO).unwrap();
    assert_eq!(volume.close(Duration::ZERO), Err(Error::Busy), "another caller's quiesce would end");
    drop(held);
    volume.close(Duration::ZERO).unwrap();
    assert!(volume.is_quiesced());
    assert!(volume.attr(&volume.root()).is_ok(), "reads go on");
}

#[test]
fn a_volume_taken_out_of_service_is_closed_when_its_last_user_is_gone() {
    for (asked, taken_back, stands) in [(true, false, true), (true, true, false), (false, false, false)] {
        let scratch = Scratch::new();
        let (volume, verifier) = written(&scratch);
        let last_user = volume.clone();
        volume.close_when_unused(asked);
        drop(volume);
        let (node, _) = last_user.lookup(&last_user.root(), b"f").unwrap();
        last_user.write(&node, 0, b"later", Stability::Unstable).unwrap();
        if taken_back {
            last_user.close_when_unused(false);
        }
        drop((node, last_user));
        assert_eq!(open(&scratch, AFTER).verifier() == verifier, stands, "{asked} {taken_back}");
    }
}
