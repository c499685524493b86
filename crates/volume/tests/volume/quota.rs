//! A quota is kept by every call that makes files larger, and given back by every one that makes them smaller or takes them away.

use crate::common::{Scratch, make_dir, make_file, owner};
use sim::Rng;
use volume::faults::FaultSpec;
use volume::{CreateHow, Error, QuotaUse, SetAttr, Stability, Volume};

fn used(volume: &Volume) -> u64 {
    volume.quota().unwrap().used_bytes
}

fn size(bytes: u64) -> SetAttr {
    SetAttr { size: Some(bytes), ..SetAttr::default() }
}

#[test]
fn a_write_beyond_the_quota_is_refused_whole_and_one_inside_a_file_is_not() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    let file = make_file(&volume, &root, "f", &[1; 6000]);
    volume.set_quota(Some(10_000)).unwrap();
    assert_eq!(volume.quota(), Some(QuotaUse { limit_bytes: 10_000, used_bytes: 6000 }));
    assert_eq!(volume.write(&file, 6000, &[2; 4001], Stability::FileSync), Err(Error::NoSpace));
    assert_eq!(volume.attr(&file).unwrap().size, 6000, "nothing of it was written");
    assert_eq!(volume.write(&file, 6000, &[2; 4000], Stability::Unstable), Ok(4000));
    assert_eq!(used(&volume), 10_000);
    assert_eq!(volume.write(&file, 0, &[3; 10_000], Stability::Unstable), Ok(10_000), "full, but no larger");
    assert_eq!(volume.write(&file, 20_000, &[3], Stability::Unstable), Err(Error::NoSpace), "a hole counts");
    let other = make_file(&volume, &root, "g", b"");
    assert_eq!(volume.write(&other, 0, &[1], Stability::Unstable), Err(Error::NoSpace));
    volume.set_quota(Some(5000)).unwrap();
    assert_eq!(volume.write(&file, 100, &[3; 100], Stability::FileSync), Ok(100), "below what is there, only growth stops");
    volume.set_quota(None).unwrap();
    assert_eq!((volume.write(&other, 0, &[1], Stability::Unstable), volume.quota()), (Ok(1), None));
}

#[test]
fn sizes_set_files_made_and_names_taken_away_are_counted() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    volume.set_quota(Some(10_000)).unwrap();
    let file = make_file(&volume, &root, "f", &[1; 4000]);
    volume.set_attr(&file, &size(9000), None).unwrap();
    assert_eq!((used(&volume), volume.set_attr(&file, &size(10_001), None)), (9000, Err(Error::NoSpace)));
    volume.set_attr(&file, &size(100), None).unwrap();
    assert_eq!(used(&volume), 100);
    volume.create(&root, b"g", CreateHow::Guarded(size(5000)), owner()).unwrap();
    assert_eq!(used(&volume), 5100);
    assert_eq!(volume.create(&root, b"h", CreateHow::Guarded(size(5000)), owner()).unwrap_err(), Error::NoSpace);
    assert_eq!(volume.lookup(&root, b"h").unwrap_err(), Error::NoEntry);
    volume.create(&root, b"g", CreateHow::Unchecked(size(0)), owner()).unwrap();
    assert_eq!(used(&volume), 100);
    volume.link(&file, &root, b"second").unwrap();
    volume.remove(&root, b"f").unwrap();
    assert_eq!(used(&volume), 100, "another name is left");
    let third = make_file(&volume, &root, "third", &[1; 300]);
    volume.rename(&root, b"third", &root, b"second").unwrap();
    assert_eq!(used(&volume), 300, "the last name was renamed over");
    volume.rename(&root, b"second", &root, b"second").unwrap();
    volume.remove(&root, b"second").unwrap();
    assert_eq!(used(&volume), 0);
    let _ = volume.write(&third, 0, &[1; 50], Stability::Unstable);
    assert_eq!(used(&volume), 0, "a file without a name is charged no more");
}

#[test]
fn the_room_told_is_what_the_quota_leaves() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let free = volume.fs_stat().unwrap();
    volume.set_quota(Some(10_000)).unwrap();
    make_file(&volume, &volume.root(), "f", &[1; 4000]);
    let room = volume.fs_stat().unwrap();
    assert_eq!((room.total_bytes, room.free_bytes, room.available_bytes), (10_000, 6000, 6000));
    volume.set_quota(Some(1 << 62)).unwrap();
    assert_eq!(volume.fs_stat().unwrap().total_bytes, free.total_bytes, "nor more than the store has");
}

#[test]
fn many_writers_of_one_file_stay_within_the_quota_together_and_use_all_of_it() {
    let scratch = Scratch::in_memory();
    let volume = scratch.open();
    let file = make_file(&volume, &volume.root(), "f", b"");
    volume.set_quota(Some(100_000)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (volume, file) = (&volume, &file);
            scope.spawn(move || {
                for n in 0..200 {
                    let offset = (n * 8 + thread) * 100;
                    let written = volume.write(file, offset, &[7; 100], Stability::Unstable);
                    assert_eq!(written, if offset + 100 <= 100_000 { Ok(100) } else { Err(Error::NoSpace) });
                }
            });
        }
    });
    assert_eq!((volume.attr(&file).unwrap().size, used(&volume)), (100_000, 100_000));
}

#[test]
fn many_makers_of_large_files_stay_within_the_quota_together() {
    let scratch = Scratch::in_memory();
    let volume = scratch.open();
    volume.set_quota(Some(100_000)).unwrap();
    let made: usize = std::thread::scope(|scope| {
        let make = |thread: usize| {
            let volume = &volume;
            move || {
                let name = |n: usize| format!("{thread}-{n}");
                let made = |n: &usize| {
                    volume.create(&volume.root(), name(*n).as_bytes(), CreateHow::Guarded(size(9_000)), owner()).is_ok()
                };
                (0..5).filter(made).count()
            }
        };
        let makers: Vec<_> = (0..8).map(|thread| scope.spawn(make(thread))).collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).sum()
    });
    assert!((11 * 9_000..=100_000).contains(&(made * 9_000)), "{made}");
    assert_eq!(used(&volume), made as u64 * 9_000);
}

#[test]
fn a_file_that_is_cut_while_others_write_to_it_is_charged_for_the_size_it_ends_with() {
    let scratch = Scratch::in_memory();
    let volume = scratch.open();
    let file = make_file(&volume, &volume.root(), "f", b"");
    volume.set_quota(Some(100_000)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (volume, file) = (&volume, &file);
            scope.spawn(move || {
                for n in 0..200u64 {
                    let offset = (n * 7 + thread * 13) % 100 * 1000;
                    let written = volume.write(file, offset, &[7; 1000], Stability::Unstable);
                    assert_eq!(written, Ok(1000), "nobody else takes room");
                    if thread == 0 && n % 3 == 0 {
                        volume.set_attr(file, &size(n * 50), None).unwrap();
                    }
                    assert!(used(volume) <= 100_000);
                }
            });
        }
    });
    assert_eq!(used(&volume), volume.attr(&file).unwrap().size);
}

#[test]
fn a_write_whose_flush_is_deferred_is_charged_and_one_of_nothing_is_not() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let file = make_file(&volume, &volume.root(), "f", b"");
    volume.set_quota(Some(10_000)).unwrap();
    assert!(volume.shares_flushes(), "or this shows nothing");
    let (written, deferred) = volume.write_deferred(&file, 0, &[1; 8000], Stability::FileSync).unwrap();
    assert_eq!((written, used(&volume)), (8000, 8000));
    assert_eq!(volume::flush_deferred(&[deferred.unwrap()]), [Ok(())]);
    let refused = volume.write_deferred(&file, 8000, &[1; 8000], Stability::FileSync);
    assert_eq!((refused.unwrap_err(), used(&volume)), (Error::NoSpace, 8000));
    assert_eq!(volume.write(&file, 1 << 40, &[], Stability::FileSync), Ok(0));
    assert_eq!(used(&volume), 8000);
}

#[test]
fn a_write_that_a_fault_tears_is_charged_for_what_came() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let file = make_file(&volume, &volume.root(), "f", b"");
    volume.set_quota(Some(100_000)).unwrap();
    for (seed, silent) in [(1, "yes"), (2, "no"), (3, "yes"), (4, "no")] {
        let fault = FaultSpec::parse(&format!("torn-write,seed={seed},silent={silent}")).unwrap();
        volume.set_fault(fault).unwrap();
        let _ = volume.write(&file, (seed - 1) * 16_384, &[1; 16_384], Stability::Unstable);
        volume.faults().clear(None);
        assert_eq!(used(&volume), volume.attr(&file).unwrap().size, "seed {seed}");
    }
}

#[test]
fn a_quota_counts_what_a_former_process_left_once_for_all_its_names() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let dir = make_dir(&volume, &volume.root(), "sub");
    let file = make_file(&volume, &dir, "f", &[1; 6000]);
    volume.link(&file, &volume.root(), b"again").unwrap();
    drop((file, dir, volume));
    let volume = scratch.open();
    volume.set_quota(Some(10_000)).unwrap();
    assert_eq!(used(&volume), 6000, "once, for all its names");
    let (file, _) = volume.lookup(&volume.root(), b"again").unwrap();
    assert_eq!(volume.write(&file, 6000, &[1; 4001], Stability::FileSync), Err(Error::NoSpace));
    assert_eq!(volume.write(&file, 0, &[1; 10_000], Stability::FileSync), Ok(10_000));
    volume.remove(&volume.root(), b"again").unwrap();
    assert_eq!(used(&volume), 10_000);
}

#[test]
fn whatever_is_done_the_count_is_that_of_a_fresh_walk() {
    sim::sweep(16, check_count);
}

fn check_count(seed: u64, mut rng: Rng) {
    let scratch = Scratch::in_memory();
    let volume = if seed.is_multiple_of(2) { scratch.open() } else { scratch.open_lossy(seed) };
    let root = volume.root();
    let dirs = [root.clone(), make_dir(&volume, &root, "sub")];
    volume.set_quota(Some(50_000)).unwrap();
    for _ in 0..200 {
        let (dir, other) = (&dirs[rng.below(2) as usize], &dirs[rng.below(2) as usize]);
        let (name, to) = (format!("f{}", rng.below(4)), format!("f{}", rng.below(4)));
        let bytes = rng.below(20_000);
        let file = volume.lookup(dir, name.as_bytes()).ok().map(|(file, _)| file);
        let _ = match (rng.below(7), file) {
            (0 | 1, None) => volume.create(dir, name.as_bytes(), CreateHow::Unchecked(size(bytes)), owner()).map(drop),
            (0, Some(_)) => volume.create(dir, name.as_bytes(), CreateHow::Unchecked(size(bytes)), owner()).map(drop),
            (1 | 2, Some(file)) => volume.write(&file, bytes, &[1; 3000], Stability::Unstable).map(drop),
            (3, Some(file)) => volume.set_attr(&file, &size(bytes), None).map(drop),
            (4, Some(_)) => volume.remove(dir, name.as_bytes()),
            (5, Some(_)) => volume.rename(dir, name.as_bytes(), other, to.as_bytes()),
            (6, Some(file)) => volume.link(&file, other, to.as_bytes()).map(drop),
            _ if volume.can_lose() && rng.below(20) == 0 => volume.power_cut().map(drop),
            _ => Ok(()),
        };
        assert!(used(&volume) <= 50_000, "seed {seed}");
    }
    let counted = used(&volume);
    volume.set_quota(None).unwrap();
    volume.set_quota(Some(50_000)).unwrap();
    assert_eq!(counted, used(&volume), "seed {seed}");
}
