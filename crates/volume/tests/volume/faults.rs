//! Faults on demand do what they say, to what they name, and nothing else; a failed flush stays failed.

use std::time::{Duration, Instant};

use crate::common::{Scratch, content, make_dir, make_file, owner};
use volume::faults::{FaultSpec, SetError};
use volume::{CreateHow, Error, SetAttr, Stability, Volume};

fn set(volume: &Volume, text: &str) -> u64 {
    volume.set_fault(FaultSpec::parse(text).unwrap()).unwrap()
}

fn injected(volume: &Volume) -> u64 {
    volume.faults().report().injected
}

#[test]
fn an_error_on_a_range_of_one_file_leaves_all_else_alone() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let dir = make_dir(&volume, &volume.root(), "d");
    let (bad, good) = (make_file(&volume, &dir, "bad", &[1; 16_384]), make_file(&volume, &dir, "good", &[2; 16_384]));
    set(&volume, "eio,on=read+write,path=d/bad,offset=8192,length=4096");
    let mut buf = [0; 4096];
    assert_eq!(volume.read(&bad, 8192, &mut buf), Err(Error::Io(libc::EIO)));
    assert_eq!(volume.read_with_attr(&bad, 8000, &mut buf).map(drop), Err(Error::Io(libc::EIO)));
    assert_eq!(volume.read_with_attr_now(&bad, 8000, &mut buf).map(drop), Err(Error::Io(libc::EIO)));
    assert_eq!(volume.read(&bad, 12_288, &mut buf), Ok((4096, true)));
    assert_eq!(volume.read(&good, 8192, &mut buf), Ok((4096, false)));
    for stable in [Stability::Unstable, Stability::FileSync] {
        assert_eq!(volume.write(&bad, 9000, b"x", stable), Err(Error::Io(libc::EIO)));
        assert_eq!(volume.write(&bad, 0, &[1; 8192], stable), Ok(8192));
    }
    assert_eq!((injected(&volume), volume.is_poisoned()), (5, false), "what failed was not begun: nothing is in doubt");
    volume.faults().clear(None);
    assert_eq!(content(&volume, &bad).unwrap(), [1; 16_384]);
    let lost = volume.set_fault(FaultSpec::parse("eio,path=d/nobody").unwrap());
    assert_eq!(lost, Err(SetError::Path { path: "d/nobody".into(), source: Error::NoEntry }));
}

#[test]
fn a_full_store_on_demand_refuses_and_poisons_nothing() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    let file = make_file(&volume, &root, "f", b"kept");
    set(&volume, "enospc,on=write+change,times=4");
    assert_eq!(volume.write(&file, 0, b"x", Stability::FileSync), Err(Error::NoSpace));
    assert_eq!(volume.write(&file, 0, b"x", Stability::Unstable), Err(Error::NoSpace));
    let made = volume.create(&root, b"g", CreateHow::Guarded(SetAttr::default()), owner());
    assert_eq!(made.map(drop), Err(Error::NoSpace));
    assert_eq!(volume.rename(&root, b"f", &root, b"g"), Err(Error::NoSpace));
    assert!(!volume.is_poisoned());
    assert_eq!(crate::common::names(&volume, &root), [".", "..", "f"]);
    assert_eq!(volume.write(&file, 0, b"room", Stability::FileSync), Ok(4), "four times were asked for");
}

#[test]
fn a_failed_flush_on_demand_moves_the_verifier_and_poisons_until_reopened() {
    for (text, act) in [
        ("eio,on=flush,times=1", act_commit as fn(&Volume) -> Result<(), Error>),
        ("eio,on=flush,times=1", act_stable_write),
        ("eio,on=flush,times=1", act_mkdir),
    ] {
        let scratch = Scratch::new();
        let volume = scratch.open();
        let file = make_file(&volume, &volume.root(), "f", b"kept");
        let (verifier, epoch) = (volume.verifier(), volume.loss_epoch());
        set(&volume, text);
        assert!(act(&volume).is_err());
        assert!(volume.is_poisoned() && volume.loss_epoch() == epoch + 1);
        assert_ne!(volume.verifier(), verifier, "clients must send again what they hold");
        volume.faults().clear(None);
        for act in [act_commit, act_stable_write, act_mkdir] {
            assert_eq!(act(&volume), Err(Error::Poisoned), "clearing the fault does not bring the data back");
        }
        assert_eq!(content(&volume, &file).unwrap()[..1], *b"k", "reading goes on");
        let verifier = volume.verifier();
        drop((file, volume));
        let volume = scratch.open();
        assert_eq!(volume.verifier(), verifier);
        assert!(!volume.is_poisoned() && volume.faults().report().faults.is_empty());
        act_commit(&volume).unwrap();
    }
}

#[test]
fn a_flush_that_fails_for_lack_of_space_changes_the_verifier_and_leaves_the_volume_in_service() {
    for act in [act_commit as fn(&Volume) -> Result<(), Error>, act_mkdir] {
        let scratch = Scratch::new();
        let volume = scratch.open();
        make_file(&volume, &volume.root(), "f", b"kept");
        let (verifier, epoch) = (volume.verifier(), volume.loss_epoch());
        set(&volume, "enospc,on=flush,times=1");
        assert_eq!(act(&volume), Err(Error::NoSpace));
        assert!(!volume.is_poisoned() && volume.loss_epoch() == epoch + 1);
        let moved = volume.verifier();
        assert_ne!(moved, verifier, "clients must resend their data");
        for act in [act_commit, act_stable_write] {
            act(&volume).unwrap();
        }
        assert_eq!(volume.verifier(), moved);
        drop(volume);
        assert_eq!(scratch.open().verifier(), moved);
    }
}

#[test]
fn the_loss_epoch_of_a_device_changes_with_a_loss_of_its_own_file_and_not_of_another() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let (own, other) = (make_file(&volume, &volume.root(), "lun", &[0; 4096]), make_file(&volume, &volume.root(), "f", b"kept"));
    let device = volume.open_device(&own, 512).unwrap();
    let epoch = device.loss_epoch();
    set(&volume, "enospc,on=flush,times=1");
    assert_eq!(act_commit(&volume), Err(Error::NoSpace));
    assert_eq!((volume.loss_epoch(), device.loss_epoch()), (epoch + 1, epoch), "a loss of another file");
    volume.write(&other, 0, b"more", Stability::FileSync).unwrap();
    device.write(0, &[1; 512], volume::Durable::OnFlush).unwrap();
    set(&volume, "enospc,on=flush,times=1");
    assert_eq!(device.flush(), Err(Error::NoSpace.into()));
    assert_eq!((volume.loss_epoch(), device.loss_epoch()), (epoch + 2, epoch + 2));
    device.flush().unwrap();
    drop(device);
    let device = volume.open_device(&own, 512).unwrap();
    assert_eq!(device.loss_epoch(), epoch + 2);
}

fn act_commit(volume: &Volume) -> Result<(), Error> {
    let (file, _) = volume.lookup(&volume.root(), b"f")?;
    volume.write(&file, 4, b"unstable", Stability::Unstable)?;
    volume.commit(&file)
}

fn act_stable_write(volume: &Volume) -> Result<(), Error> {
    let (file, _) = volume.lookup(&volume.root(), b"f")?;
    volume.write(&file, 4, b"stable", Stability::FileSync).map(drop)
}

fn act_mkdir(volume: &Volume) -> Result<(), Error> {
    volume.mkdir(&volume.root(), b"d", &SetAttr::default(), owner()).map(drop)
}

#[test]
fn a_torn_write_leaves_whole_sectors_and_says_so_unless_it_lies() {
    sim::sweep(64, |seed, mut rng| {
        let scratch = Scratch::in_memory();
        let volume = scratch.open();
        let (old, new) = (vec![1; 16_384], vec![2; 8192]);
        let file = make_file(&volume, &volume.root(), "f", &old);
        let silent = rng.chance(1, 2);
        set(&volume, &format!("torn-write,seed={seed},silent={}", if silent { "yes" } else { "no" }));
        let at = rng.below(8192);
        let stable = if rng.chance(1, 2) { Stability::FileSync } else { Stability::Unstable };
        let written = volume.write(&file, at, &new, stable);
        assert_eq!(written, if silent { Ok(8192) } else { Err(Error::Io(libc::EIO)) });
        let got = content(&volume, &file).unwrap();
        assert_eq!(got.len(), old.len());
        for sector in got.chunks(512).enumerate().flat_map(|(n, sector)| {
            // The first and the last sector may be touched in part.
            let (from, to) = ((at as usize).clamp(n * 512, n * 512 + 512), (at as usize + 8192).clamp(n * 512, n * 512 + 512));
            let (touched, rest) = (&sector[from - n * 512..to - n * 512], &sector[..from - n * 512]);
            assert!(rest.iter().all(|byte| *byte == 1));
            (!touched.is_empty()).then(|| touched.to_vec())
        }) {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is torn");
        }
        assert!(got.contains(&1) && got[at as usize..at as usize + 8192].contains(&1), "all of it arrived");
        assert!(got.contains(&2), "nothing of it arrived");
        let told = volume.faults().report().injections.remove(0);
        assert!(told.detail.contains("sectors arrived"), "{told:?}");
        volume.faults().clear(None);
    });
}

#[test]
fn a_flipped_bit_is_in_the_answer_and_not_in_the_file() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let file = make_file(&volume, &volume.root(), "f", &[0; 8192]);
    set(&volume, "bit-flip,times=1,seed=3");
    let mut buf = [0; 8192];
    volume.read(&file, 0, &mut buf).unwrap();
    assert_eq!(buf.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    let at = buf.iter().position(|byte| *byte != 0).unwrap();
    let told = volume.faults().report().injections.remove(0);
    assert_eq!(told.detail, format!("bit {} of the byte at {at}", buf[at].trailing_zeros()));
    assert_eq!(content(&volume, &file).unwrap(), [0; 8192]);
    assert_eq!(std::fs::read(scratch.dir().join("f")).unwrap(), [0; 8192]);
}

#[test]
fn a_slow_flush_takes_its_time_and_is_shared_like_any_other() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let file = make_file(&volume, &volume.root(), "f", b"");
    set(&volume, "slow-flush,delay_ms=40");
    let begun = Instant::now();
    volume.write(&file, 0, b"x", Stability::Unstable).unwrap();
    assert_eq!(injected(&volume), 0, "an unstable write flushes nothing");
    volume.commit(&file).unwrap();
    volume.write(&file, 0, b"x", Stability::DataSync).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(80));
    assert_eq!(injected(&volume), 2);
}

#[test]
fn a_power_cut_after_a_failed_flush_takes_back_what_was_not_flushed() {
    let scratch = Scratch::new();
    let volume = scratch.open_lossy(0);
    let file = make_file(&volume, &volume.root(), "f", b"old");
    volume.write(&file, 0, b"NEW", Stability::Unstable).unwrap();
    set(&volume, "eio,on=flush,times=1");
    assert_eq!(volume.commit(&file), Err(Error::Io(libc::EIO)));
    assert_eq!(volume.commit(&file), Err(Error::Poisoned));
    volume.power_cut().unwrap();
    assert_eq!(std::fs::read(scratch.dir().join("f")).unwrap(), b"old");
}
