//! Processes that share a segment, and die at any instruction.

use crate::sys::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::tests::fresh_segment;
use super::verifiers::tests::first;
use super::*;
use crate::file::FileKind;
use crate::sys::random::random;
use crate::sys::shm::tests::{Bystander, Child};

fn file(handle: &[u8]) -> NewFile<'_> {
    let attr = AttrRecord { mode: 0o600, nlink: 1, ..AttrRecord::default() };
    NewFile { handle, kind: FileKind::Regular, fsid: 1, fileid: 7, rdev: 0, size: 0, attr, checked_ms: 0, created: true }
}

/// Opens, writes, syncs, truncates, unlinks and closes files at random, as far as the segment is concerned.
fn hammer(segment: &Segment, mut seed: u64) {
    loop {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let handle = (seed % 40).to_le_bytes();
        let Ok((found, _)) = segment.find_or_insert(&file(&handle)) else { panic!("segment not usable") };
        let Some(held) = segment.pin(found).unwrap() else { continue };
        let Some(slot) = segment.slot(found) else { continue };
        assert_eq!(slot.handle_bytes(), handle, "slot stands for another file");
        let sent = segment.verifiers().newest();
        slot.write_starts();
        let moment = slot.size_moment();
        if let Some(_alone) = segment.members().try_lock_for_writing(slot) {
            let _ = slot.size_grew(slot.size.load(SeqCst) + 16, moment);
        }
        slot.write_answered(segment.verifiers(), first(seed >> 58), &sent).unwrap();
        let attr = AttrRecord { mode: (seed % 512) as u32, ctime: seed, used: seed % 512, ..AttrRecord::default() };
        slot.attr_apply(found.generation, attr, slot.attr_moment());
        if let Some(found) = slot.attr_record()
            && found.ctime != 0
        {
            assert_eq!(u64::from(found.mode), found.used, "torn record was believed");
        }
        if let Some(ticket) = slot.commit_starts(segment.verifiers()) {
            slot.commit_answered(segment.verifiers(), first(seed >> 58), &ticket).unwrap();
        }
        if seed & 3 == 0 {
            segment.change_namespace(|| ()).unwrap();
        }
        if seed & 7 == 0 {
            segment.silly_begin(found, b"parent", b".nfs1").unwrap();
            segment.silly_done(found);
        }
        drop(held);
        if seed & 1 == 0
            && let Ok(Some(unopened)) = segment.if_unopened(found)
        {
            segment.release(found, &unopened).unwrap();
        }
    }
}

#[test]
fn process_killed_at_any_instruction_leaves_the_segment_usable() {
    let (_place, segment) = fresh_segment();
    let mut seed = random() | 1;
    println!("seed {seed}");
    for _ in 0..150 {
        let children: Vec<_> = (0..3).map(|number| Child::run(|| hammer(&segment, seed.wrapping_add(number) | 1))).collect();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let until = crate::sys::clock::monotonic_ns() + seed % 3_000_000;
        while crate::sys::clock::monotonic_ns() < until {
            std::hint::spin_loop();
        }
        children.iter().for_each(Child::kill);
        for child in children {
            assert!(!child.succeeded(), "a child ended before it was killed: it panicked");
        }
        let (live, free, faults) = segment.audit();
        assert_eq!(faults, Vec::<String>::new());
        assert_eq!(live + free, segment.header().high_water.load(SeqCst), "a slot was lost");
        segment.repair_namespace();
        assert!(segment.namespace_generation().is_some());
    }
    for number in 0..40u64 {
        let handle = number.to_le_bytes();
        let (found, _) = segment.find_or_insert(&file(&handle)).unwrap();
        assert_eq!(segment.slot(found).unwrap().handle_bytes(), handle);
        let unopened = segment.if_unopened(found).unwrap().expect("the kernel closed what the killed had open");
        segment.release(found, &unopened).unwrap();
    }
    assert_eq!(segment.audit().0, 0);
    assert_eq!(segment.header().silly_count.load(SeqCst), 0);
}

#[test]
fn size_another_process_extended_is_seen_at_once() {
    let (_place, segment) = fresh_segment();
    let (found, _) = segment.find_or_insert(&file(b"one")).unwrap();
    let child = Child::run(|| {
        let segment = Segment::attach(segment.directory(), 1).unwrap().unwrap();
        let (same, made) = segment.find_or_insert(&file(b"one")).unwrap();
        assert!(!made && same == found);
        let slot = segment.slot(same).unwrap();
        assert!(slot.size_grew(8192, slot.size_moment()));
    });
    assert!(child.succeeded());
    assert_eq!(segment.slot(found).unwrap().size_known(), Some(8192));
}

#[test]
fn processes_that_open_one_file_at_once_get_one_slot() {
    let (_place, segment) = fresh_segment();
    for round in 0..50u32 {
        let children: Vec<_> = (0..4)
            .map(|_| {
                Child::run(|| {
                    let (found, _) = segment.find_or_insert(&file(&round.to_le_bytes())).unwrap();
                    assert_eq!(segment.find(&round.to_le_bytes()), Some(found));
                })
            })
            .collect();
        assert!(children.into_iter().all(Child::succeeded));
    }
    assert_eq!(segment.audit(), (50, 0, vec![]));
}

#[test]
fn appends_of_eight_processes_never_overlap() {
    const COUNT: u64 = 2000;
    let (_place, segment) = fresh_segment();
    let (found, _) = segment.find_or_insert(&file(b"log")).unwrap();
    let children: Vec<_> = (0..8)
        .map(|_| {
            Child::run(|| {
                let slot = segment.slot(found).unwrap();
                for _ in 0..COUNT {
                    let _alone = segment.members().lock_for_writing(slot).unwrap();
                    let moment = slot.size_moment();
                    assert!(slot.size_grew(moment.size() + 10, moment));
                }
            })
        })
        .collect();
    assert!(children.into_iter().all(Child::succeeded));
    assert_eq!(segment.slot(found).unwrap().size_known(), Some(8 * COUNT * 10));
}

#[test]
fn loss_found_by_one_process_is_told_to_a_description_of_another_once() {
    let (_place, segment) = fresh_segment();
    let (found, _) = segment.find_or_insert(&file(b"data")).unwrap();
    let slot = segment.slot(found).unwrap();
    let cursor = AtomicU32::new(slot.error_sample());
    let write = |verifier| {
        let sent = segment.verifiers().newest();
        slot.write_starts();
        slot.write_answered(segment.verifiers(), first(verifier), &sent).unwrap();
    };
    assert!(Child::run(|| write(1)).succeeded());
    assert!(Child::run(|| write(2)).succeeded());
    assert!(slot.error_check(&cursor));
    assert!(!slot.error_check(&cursor));
    assert!(Child::run(|| assert!(!slot.error_check(&AtomicU32::new(slot.error_sample())))).succeeded());
}

#[test]
fn rename_of_a_killed_process_does_not_leave_stale_directory_handles_valid() {
    let (_place, segment) = fresh_segment();
    let before = segment.namespace_generation();
    let child = Child::run(|| {
        let _ = segment.change_namespace(|| {
            segment.header().reserved_namespace.store(1, Relaxed);
            loop {
                crate::sys::clock::give_way();
            }
        });
    });
    while segment.header().reserved_namespace.load(Relaxed) == 0 {
        crate::sys::clock::give_way();
    }
    assert_eq!(segment.namespace_generation(), None);
    segment.repair_namespace();
    assert_eq!(segment.namespace_generation(), None, "the change is still under way");
    child.kill();
    assert!(!child.succeeded());
    segment.repair_namespace();
    assert!(segment.namespace_generation().is_some_and(|after| Some(after) > before));
}

#[test]
fn locks_of_a_killed_process_are_free_though_a_child_that_knows_of_nothing_lives_on() {
    let (_place, segment) = fresh_segment();
    let word = &segment.header().reserved_namespace;
    let holder = Child::run(|| {
        let _name = segment.lock_name(b"directory", b"name").unwrap();
        let _ = segment.change_namespace(|| {
            let _structure = segment.lock_structure();
            word.store(Bystander::fork().leave() as u32, SeqCst);
            loop {
                crate::sys::clock::give_way();
            }
        });
    });
    while word.load(SeqCst) == 0 {
        crate::sys::clock::give_way();
    }
    let _bystander = Bystander(word.load(SeqCst) as i32);
    holder.kill();
    assert!(!holder.succeeded());
    let taker = Child::run(|| {
        drop(segment.lock_name(b"directory", b"name").unwrap());
        segment.change_namespace(|| drop(segment.lock_structure().unwrap())).unwrap();
        word.store(0, SeqCst);
    });
    let until = crate::sys::clock::monotonic_ns() + 5_000_000_000;
    while word.load(SeqCst) != 0 && crate::sys::clock::monotonic_ns() < until {
        crate::sys::clock::give_way();
    }
    taker.kill();
    taker.succeeded();
    assert_eq!(word.load(SeqCst), 0, "the child keeps the locks of its dead parent");
}
