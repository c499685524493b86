//! What the cache modes and the battery do to data, to promises and to the flushes made for them.

use std::os::unix::fs::FileExt;
use std::sync::Barrier;

use crate::common::{Scratch, content, make_file};
use volume::{CacheMode, Config, CreateHow, Durability, LossConfig, OpenError, Options, SetAttr, Stability, Volume};

const PAGE: usize = 4096;

fn open(scratch: &Scratch, cache: CacheMode, durability: Durability) -> Volume {
    Volume::open(Config { options: Options { cache, durability, ..Options::default() }, ..scratch.config(None) }).unwrap()
}

/// A file of that many pages, each full of its number from 1, on disk.
fn pages(volume: &Volume, name: &str, count: u8) -> volume::Node {
    let bytes: Vec<u8> = (1..=count).flat_map(|page| [page; PAGE]).collect();
    make_file(volume, &volume.root(), name, &bytes)
}

#[test]
fn every_mode_reads_what_every_sort_of_write_wrote() {
    for cache in [CacheMode::Cached, CacheMode::WriteAround, CacheMode::Direct, CacheMode::DropBehind] {
        let scratch = Scratch::new();
        let volume = open(&scratch, cache, Durability::Sync);
        let node = pages(&volume, "f", 8);
        let mut model: Vec<u8> = content(&volume, &node).unwrap();
        let sorts = [Stability::FileSync, Stability::Unstable, Stability::DataSync];
        // Aligned, unaligned, over the end, behind it.
        let places = [(0, 2 * PAGE), (PAGE + 100, 5000), (3 * PAGE, PAGE), (7 * PAGE, 2 * PAGE), (12 * PAGE, PAGE), (4, 9)];
        for (n, (sort, (at, len))) in sorts.iter().cycle().zip(places.iter().cycle()).take(60).enumerate() {
            let data = vec![n as u8 + 100; *len];
            assert_eq!(volume.write(&node, *at as u64, &data, *sort), Ok(*len), "{cache} {n}");
            model.resize(model.len().max(at + len), 0);
            model[*at..at + len].copy_from_slice(&data);
            if n % 7 == 0 {
                volume.commit(&node).unwrap();
            }
            assert!(content(&volume, &node).unwrap() == model, "{cache} {n}: {sort:?} of {len} at {at}");
            let mut page = [0; PAGE];
            assert_eq!(volume.read(&node, *at as u64 / PAGE as u64 * PAGE as u64, &mut page).unwrap().0, PAGE);
            assert!(page[..] == model[at / PAGE * PAGE..][..PAGE], "{cache} {n}: an aligned read");
        }
        assert_eq!(volume.loss_epoch(), open_epoch(&scratch, volume), "{cache}: no flush failed");
    }
}

/// The epoch of a fresh opening: 1 if nothing was ever lost.
fn open_epoch(scratch: &Scratch, volume: Volume) -> u64 {
    drop(volume);
    scratch.open().loss_epoch()
}

#[test]
fn direct_writes_begin_only_while_nothing_of_the_file_is_dirty() {
    for (cache, reads_direct) in [(CacheMode::Direct, 1), (CacheMode::WriteAround, 0)] {
        direct_writes_begin_only_while_clean(cache, reads_direct);
    }
}

fn direct_writes_begin_only_while_clean(cache: CacheMode, reads_direct: u64) {
    let scratch = Scratch::new();
    let volume = open(&scratch, cache, Durability::Sync);
    let node = pages(&volume, "f", 4);
    let direct = |offset: usize, len: usize| {
        let before = volume.counters().direct_writes;
        assert_eq!(volume.write(&node, offset as u64, &vec![7; len], Stability::FileSync), Ok(len));
        volume.counters().direct_writes - before
    };
    if direct(0, PAGE) == 0 {
        return sim::skip_unsupported(&format!("no direct writes in {}", scratch.dir().display()));
    }
    assert_eq!(direct(512, 512), 0, "not aligned");
    assert_eq!(direct(3 * PAGE, 2 * PAGE), 0, "beyond the end");
    assert_eq!(direct(3 * PAGE, 2 * PAGE), 1, "the file is longer now");
    volume.write(&node, 100, b"dirty", Stability::Unstable).unwrap();
    assert_eq!(direct(2 * PAGE, PAGE), 0, "a page waits for its flush");
    volume.commit(&node).unwrap();
    assert_eq!(direct(2 * PAGE, PAGE), 1);
    volume.set_attr(&node, &SetAttr { size: Some(64 * PAGE as u64), ..SetAttr::default() }, None).unwrap();
    assert_eq!(direct(PAGE, PAGE), 0, "the file has a hole");
    let mut page = [0; PAGE];
    let before = volume.counters().direct_reads;
    assert_eq!(volume.read(&node, 0, &mut page), Ok((PAGE, false)));
    assert_eq!(&page[98..108], b"\x07\x07dirty\x07\x07\x07", "both sorts are in it");
    assert_eq!(volume.counters().direct_reads, before + reads_direct);
}

#[test]
fn threads_that_mix_all_sorts_on_the_same_pages_meet_no_error() {
    for cache in [CacheMode::WriteAround, CacheMode::Direct, CacheMode::DropBehind] {
        let scratch = Scratch::new();
        let volume = open(&scratch, cache, Durability::Sync);
        let node = pages(&volume, "f", 16);
        let threads = 4;
        let barrier = Barrier::new(threads);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (volume, node, barrier) = (&volume, &node, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for n in 0..60_usize {
                        let at = (n * 7 + thread * 3) % 14;
                        let data = vec![n as u8; 2 * PAGE];
                        let sort = [Stability::FileSync, Stability::DataSync, Stability::Unstable][(n + thread) % 3];
                        // Half of them shifted by half a page.
                        let shift = if n % 4 < 2 { 0 } else { PAGE / 2 };
                        volume.write(node, (at * PAGE + shift) as u64, &data[shift..], sort).unwrap();
                        let mut page = vec![0; PAGE];
                        volume.read(node, (at * PAGE) as u64, &mut page).unwrap();
                        if n % 10 == thread {
                            volume.commit(node).unwrap();
                        }
                    }
                });
            }
        });
        volume.commit(&node).unwrap();
        assert!(!volume.is_poisoned());
        // What the host's own fsync says: a false alarm of the kernel would stand here.
        std::fs::OpenOptions::new().write(true).open(scratch.dir().join("f")).unwrap().sync_all().unwrap();
    }
}

#[test]
fn deferred_writes_share_one_flush() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let (a, b) = (pages(&volume, "a", 8), pages(&volume, "b", 8));
    let before = volume.counters();
    let begun: Vec<_> = (0..16_u8)
        .map(|n| {
            let node = if n % 2 == 0 { &a } else { &b };
            let sort = if n == 6 { Stability::FileSync } else { Stability::DataSync };
            volume.write_deferred(node, u64::from(n / 2) * PAGE as u64, &[n; PAGE], sort).unwrap()
        })
        .collect();
    assert!(begun.iter().all(|(written, _)| *written == PAGE));
    assert_eq!(volume.counters().flushes, before.flushes, "none yet");
    let deferred: Vec<_> = begun.into_iter().map(|(_, deferred)| deferred.unwrap()).collect();
    assert!(volume::flush_deferred(&deferred).iter().all(Result::is_ok));
    let after = volume.counters();
    assert_eq!(after.flushes - before.flushes, 2, "one for each file");
    assert_eq!((after.stable_writes - before.stable_writes, after.shared_flushes - before.shared_flushes), (16, 14));
    for n in 0..8_u8 {
        let (on_a, on_b) = (content(&volume, &a).unwrap(), content(&volume, &b).unwrap());
        assert_eq!((on_a[usize::from(n) * PAGE], on_b[usize::from(n) * PAGE]), (2 * n, 2 * n + 1));
    }
    // Settled: a commit finds nothing to do.
    volume.commit(&a).unwrap();
    assert_eq!(volume.counters().flushes, after.flushes);
}

#[test]
fn a_flush_is_not_shared_with_much_unstable_data() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let node = pages(&volume, "a", 8);
    volume.write(&node, 0, &vec![1; 2 << 20], Stability::Unstable).unwrap();
    let (_, deferred) = volume.write_deferred(&node, PAGE as u64, &[2; PAGE], Stability::DataSync).unwrap();
    assert!(deferred.is_none(), "durable by itself");
    volume.commit(&node).unwrap();
    let (_, deferred) = volume.write_deferred(&node, PAGE as u64, &[2; PAGE], Stability::DataSync).unwrap();
    assert!(volume::flush_deferred(&[deferred.unwrap()])[0].is_ok());
}

#[test]
fn battery_answers_without_a_flush_and_stops_with_one() {
    let scratch = Scratch::new();
    let volume = open(&scratch, CacheMode::Cached, Durability::Battery);
    let root = volume.root();
    let node = make_file(&volume, &root, "a", b"held by the host");
    volume.write(&node, 0, b"HELD", Stability::Unstable).unwrap();
    volume.commit(&node).unwrap();
    volume.set_attr(&node, &SetAttr { mode: Some(0o600), ..SetAttr::default() }, None).unwrap();
    volume.rename(&root, b"a", &root, b"b").unwrap();
    volume.create(&root, b"c", CreateHow::Exclusive(*b"12345678"), crate::common::owner()).unwrap();
    volume.remove(&root, b"c").unwrap();
    assert_eq!((volume.counters().flushes, volume.counters().stable_writes), (0, 1));
    volume.flush_all().unwrap();
    assert_eq!(volume.counters().flushes, 1, "a clean stop leaves nothing to a battery");
    assert_eq!(std::fs::read(scratch.dir().join("b")).unwrap(), b"HELD by the host");
}

#[test]
fn battery_and_loss_layer_exclude_each_other() {
    let scratch = Scratch::new();
    let options = Options { durability: Durability::Battery, ..Options::default() };
    let config = Config { options, loss: Some(LossConfig { seed: 0 }), ..scratch.config(None) };
    let error = Volume::open(config).err().expect("refused");
    assert!(matches!(error, OpenError::BatteryLoses), "{error}");
}

#[test]
fn what_was_not_promised_is_lost_past_the_cache_too() {
    let scratch = Scratch::new();
    let config = scratch.config(Some(0));
    let options = Options { cache: CacheMode::Direct, ..Options::default() };
    let volume = Volume::open(Config { options, ..config }).unwrap();
    let node = pages(&volume, "f", 4);
    volume.write(&node, 0, &[9; 2 * PAGE], Stability::FileSync).unwrap();
    volume.write(&node, PAGE as u64, &[8; 2 * PAGE], Stability::Unstable).unwrap();
    let verifier = volume.verifier();
    volume.power_cut().unwrap();
    assert_ne!(volume.verifier(), verifier);
    let (node, _) = volume.lookup(&volume.root(), b"f").unwrap();
    let found: Vec<u8> = content(&volume, &node).unwrap().chunks(PAGE).map(|page| page[0]).collect();
    assert_eq!(found, [9, 9, 3, 4]);
    volume.write(&node, 0, &[6; PAGE], Stability::FileSync).unwrap();
    assert_eq!(content(&volume, &node).unwrap()[0], 6);
}

#[test]
fn answers_to_stable_writes_tell_the_times_only_where_that_is_free_or_wanted() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let node = pages(&volume, "f", 1);
    let write = || {
        volume.write(&node, 0, &[1; PAGE], Stability::FileSync).unwrap();
        volume.attr_after_stable_write(&node)
    };
    let on_host = || std::fs::metadata(scratch.dir().join("f")).unwrap().modified().unwrap();
    if write().is_none() {
        // A client that asks behind each answer is told soon.
        let told = (0..10).find(|_| {
            volume.attr_asked(&node);
            write().is_some()
        });
        assert!(told.is_some_and(|after| after < 6), "{told:?}");
    }
    let told = write().expect("wanted now");
    let modified = on_host().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!((told.mtime.sec, told.mtime.nsec), (modified.as_secs() as i64, modified.subsec_nanos()));
    let untimed = volume.attr_untimed(&node).unwrap();
    assert_eq!((untimed.size, untimed.mode, untimed.uid), (told.size, told.mode, told.uid));
    assert_eq!(untimed.mtime, volume::Time::default());
}

#[test]
fn a_host_change_of_the_file_is_seen_past_the_cache() {
    let scratch = Scratch::new();
    let volume = open(&scratch, CacheMode::Direct, Durability::Sync);
    let node = pages(&volume, "f", 2);
    volume.write(&node, 0, &[5; PAGE], Stability::FileSync).unwrap();
    let host = std::fs::OpenOptions::new().read(true).write(true).open(scratch.dir().join("f")).unwrap();
    host.write_at(&[6; PAGE], 0).unwrap();
    let mut page = [0; PAGE];
    volume.read(&node, 0, &mut page).unwrap();
    assert_eq!(page[0], 6);
    volume.write(&node, 0, &[7; PAGE], Stability::FileSync).unwrap();
    host.read_at(&mut page, 0).unwrap();
    assert_eq!(page[0], 7);
}
