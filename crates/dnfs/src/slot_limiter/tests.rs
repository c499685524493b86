//! Processes that share a slot limiter, and die with what they hold.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::Arc;
use std::time::Duration;

use super::{KeptConnections, Members, SlotLimiter};
use crate::activity::SlotUse;
use crate::file::FileKind;
use crate::limits::{KEPT_CONNECTIONS_MAX, KEPT_CONNECTIONS_MIN};
use crate::process::this_process;
use crate::segment::tests::fresh_segment;
use crate::segment::tests::tempdir::TempDir;
use crate::segment::{AttrRecord, NewFile, Segment};
use crate::sys::clock;
use crate::sys::clock::sleep;
use crate::sys::clock::{give_way, monotonic_ns};
use crate::sys::local_file::{CPath, Errno};
use crate::sys::random::random;
use crate::sys::shm::tests::{Bystander, Child};
use std::os::unix::ffi::OsStrExt as _;

fn limiter(limit: usize) -> (TempDir, Segment, SlotLimiter) {
    let (place, segment) = fresh_segment();
    let members = Members::shared(segment.memory(), segment.directory().lock_path("members"));
    (place, segment, SlotLimiter::new(Arc::new(members), limit))
}

fn spin(ns: u64) {
    let until = monotonic_ns() + ns;
    while monotonic_ns() < until {
        core::hint::spin_loop();
    }
}

/// Waits until the child stores this value in a spare word of the segment.
fn await_word(segment: &Segment, value: u32) {
    while segment.header().reserved_namespace.load(SeqCst) != value {
        give_way();
    }
}

#[test]
fn never_more_calls_than_the_limit_over_all_processes_and_all_are_served() {
    let (_place, segment, limiter) = limiter(3);
    let inside = &segment.header().reserved_namespace;
    let children: Vec<_> = (0..6)
        .map(|number| {
            let limiter = &limiter;
            Child::run(move || {
                for turn in 0..300u64 {
                    let permit = limiter.acquire(1 + (turn + number) as usize % 4);
                    let count = permit.count() as u32;
                    assert!(inside.fetch_add(count, SeqCst) + count <= 3);
                    spin(turn % 7 * 10_000);
                    inside.fetch_sub(count, SeqCst);
                }
            })
        })
        .collect();
    assert!(children.into_iter().all(Child::succeeded));
    let use_ = SlotUse::of(limiter.table());
    assert_eq!((use_.limit, use_.most, use_.beyond, use_.reclaimed), (3, 3, 0, 0));
    assert!(use_.waits > 0 && use_.wait_ns > 0 && use_.held_ns > 0 && use_.calls >= 6 * 300, "{use_:?}");
}

#[test]
fn slots_of_a_killed_process_are_taken_back() {
    let (_place, segment, limiter) = limiter(2);
    let holder = Child::run(|| {
        let _held = limiter.acquire(2);
        segment.header().reserved_namespace.store(1, SeqCst);
        sleep(Duration::from_millis(60_000));
    });
    await_word(&segment, 1);
    assert!(limiter.try_acquire(1).is_none());
    holder.kill();
    assert!(!holder.succeeded());
    let begun = monotonic_ns();
    assert_eq!(limiter.acquire(2).count(), 2);
    assert!(monotonic_ns() - begun < 1_000_000_000, "waited too long for the dead");
    assert_eq!(limiter.table().reclaimed.load(Relaxed), 2);
}

#[test]
fn processes_killed_at_any_instruction_leave_every_slot_to_be_had() {
    let (_place, _segment, limiter) = limiter(4);
    let mut seed = random() | 1;
    println!("seed {seed}");
    for _ in 0..60 {
        let hammer = || loop {
            let _held = limiter.acquire(2);
            spin(2_000);
        };
        let children: Vec<_> = (0..3).map(|_| Child::run(hammer)).collect();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        spin((seed >> 33) % 3_000_000);
        children.iter().for_each(Child::kill);
        assert!(children.into_iter().all(|child| !child.succeeded()), "a child ended by itself: it panicked");
        let mut held = vec![limiter.acquire(1)];
        // One search may find only a part of what a dead process held.
        let until = monotonic_ns() + 5_000_000_000;
        while held.len() < 4 {
            assert!(monotonic_ns() < until, "a slot was lost");
            match limiter.try_acquire(1) {
                Some(one) => held.push(one),
                None => limiter.reclaim_slots(),
            }
        }
    }
}

#[test]
fn a_call_inside_a_call_of_the_same_thread_is_let_through() {
    let (_place, _segment, limiter) = limiter(1);
    let outer = limiter.acquire(1);
    let handler = super::begin_call();
    let inner = limiter.acquire(1);
    assert_eq!((inner.count(), limiter.table().beyond.load(Relaxed)), (1, 1));
    drop(inner);
    drop(handler);
    assert!(limiter.try_acquire(1).is_none(), "the outer call still has its slot");
    drop(outer);
    assert!(limiter.try_acquire(1).is_some());
}

#[test]
fn child_that_comes_out_of_a_fork_inside_a_call_leaves_the_slot_to_its_parent() {
    let (_place, segment, limiter) = limiter(1);
    this_process().watch_forks();
    let held = std::cell::RefCell::new(Some(limiter.acquire(1)));
    // The child has a copy of `held`, as after a fork in a signal handler inside a call.
    let child = Child::run(|| {
        drop(held.take());
        segment.header().reserved_namespace.store(1, SeqCst);
        let own = limiter.acquire(1);
        assert_eq!(own.count(), 1);
    });
    await_word(&segment, 1);
    sleep(Duration::from_millis(60)); // three checks
    assert!(limiter.try_acquire(1).is_none(), "the child gave its parent's slot away");
    drop(held.take());
    assert!(child.succeeded());
}

#[test]
fn waiting_for_a_slot_takes_hardly_any_processor_time() {
    // A paused virtual processor counts as processor time of the process on it: one quiet wait of several is proof.
    assert!((0..5).any(|_| wait_for_a_slot_is_asleep()), "a waiter used a quarter of a processor each time");
}

fn wait_for_a_slot_is_asleep() -> bool {
    let (_place, segment, limiter) = limiter(1);
    let permit = limiter.acquire(1);
    let child = Child::run(|| {
        let (before, began) = (clock::cpu_time(), std::time::Instant::now());
        segment.header().reserved_namespace.store(1, SeqCst);
        drop(limiter.acquire(1));
        assert!(clock::cpu_time() - before < began.elapsed() / 4);
    });
    await_word(&segment, 1);
    sleep(Duration::from_millis(500));
    drop(permit);
    child.succeeded()
}

#[test]
fn limit_of_a_process_alone_holds_among_its_threads_and_anew_in_a_child() {
    let limiter = SlotLimiter::alone(2).unwrap();
    let inside = core::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let _held = limiter.acquire(1);
                    assert!(inside.fetch_add(1, SeqCst) < 2);
                    give_way();
                    inside.fetch_sub(1, SeqCst);
                }
            });
        }
    });
    let _held = limiter.acquire(2);
    this_process().watch_forks();
    assert!(Child::run(|| assert_eq!(limiter.acquire(2).count(), 2)).succeeded());
}

#[test]
fn a_liveness_lock_that_cannot_be_had_is_an_error_and_not_a_mount_without_a_limit() {
    let (place, segment, _limiter) = limiter(1);
    // A directory cannot be opened for writing.
    let members = Members::shared(segment.memory(), CPath::new(place.path().as_bytes()));
    assert_eq!(members.join(), Err(Errno(libc::EISDIR)));
    assert_eq!(members.owner(), None);
}

#[test]
fn a_file_has_one_writer_at_a_time_and_readers_between_them() {
    let (_place, segment, limiter) = limiter(1);
    let attr = AttrRecord::default();
    let file = NewFile {
        handle: b"file",
        kind: FileKind::Regular,
        fsid: 1,
        fileid: 1,
        rdev: 0,
        size: 0,
        attr,
        checked_ms: 0,
        created: true,
    };
    let (found, _) = segment.find_or_insert(&file).unwrap();
    let slot = segment.slot(found).unwrap();
    let members = &limiter.members;
    let inside = &segment.header().reserved_namespace;
    let children: Vec<_> = (0..4)
        .map(|_| {
            Child::run(|| {
                for _ in 0..300 {
                    let guard = members.lock_for_writing(slot);
                    assert!(guard.is_some());
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    assert!(members.lock_for_writing(slot).is_none(), "a write inside a write would wait for itself");
                    members.wait_for_writer(slot); // a read does not wait for itself either
                    inside.fetch_sub(1, SeqCst);
                    drop(guard);
                    members.wait_for_writer(slot);
                }
            })
        })
        .collect();
    assert!(children.into_iter().all(Child::succeeded));
    let holder = Child::run(|| {
        let _writing = members.lock_for_writing(slot);
        inside.store(7, SeqCst);
        sleep(Duration::from_millis(60_000));
    });
    await_word(&segment, 7);
    holder.kill();
    assert!(!holder.succeeded());
    members.wait_for_writer(slot);
    assert!(members.lock_for_writing(slot).is_some());
    assert!(limiter.table().writer_waits.load(Relaxed) > 0);
}

#[test]
fn a_signal_handler_inside_a_call_waits_for_a_writer_that_needs_its_slot_until_the_writer_takes_it() {
    let (_place, segment, limiter) = limiter(1);
    let attr = AttrRecord::default();
    let file = NewFile {
        handle: b"file",
        kind: FileKind::Regular,
        fsid: 1,
        fileid: 1,
        rdev: 0,
        size: 0,
        attr,
        checked_ms: 0,
        created: true,
    };
    let (found, _) = segment.find_or_insert(&file).unwrap();
    let slot = segment.slot(found).unwrap();
    let held = limiter.acquire(1);
    let writer = Child::run(|| {
        let _writing = limiter.members.lock_for_writing(slot);
        segment.header().reserved_namespace.store(1, SeqCst);
        drop(limiter.acquire(1));
    });
    await_word(&segment, 1);
    let handler = super::begin_call();
    limiter.members.wait_for_writer(slot);
    assert!(limiter.members.lock_for_writing(slot).is_some());
    drop(handler);
    drop(held);
    assert!(writer.succeeded());
}

#[test]
fn slots_of_a_killed_process_are_taken_back_though_a_child_that_knows_of_nothing_lives_on() {
    let (_place, segment, limiter) = limiter(1);
    let holder = Child::run(|| {
        let _held = limiter.acquire(1);
        segment.header().reserved_namespace.store(Bystander::fork().leave() as u32, SeqCst);
        sleep(Duration::from_millis(60_000));
    });
    while segment.header().reserved_namespace.load(SeqCst) == 0 {
        give_way();
    }
    let _bystander = Bystander(segment.header().reserved_namespace.load(SeqCst) as i32);
    assert!(limiter.try_acquire(1).is_none());
    holder.kill();
    assert!(!holder.succeeded());
    let until = monotonic_ns() + 5_000_000_000;
    while limiter.try_acquire(1).is_none() {
        assert!(monotonic_ns() < until, "the child keeps its dead parent alive");
        limiter.reclaim_slots();
    }
}

#[test]
fn two_mounts_of_one_segment_in_a_process_are_one_member_as_long_as_one_of_them_lasts() {
    let (_place, segment, limiter) = limiter(1);
    let path = || segment.directory().lock_path("members");
    let second = Members::shared(segment.memory(), path());
    let owner = limiter.members.owner().unwrap();
    assert_eq!(second.owner(), Some(owner));
    let is_gone = || {
        let gone = Child::run(|| assert!(Members::shared(segment.memory(), path()).is_known_gone(owner)));
        gone.succeeded()
    };
    drop(second);
    assert!(!is_gone(), "the lock ended with the first of its users");
    drop(limiter);
    assert!(is_gone());
}

#[test]
fn no_more_connections_stay_open_than_there_are_places_and_those_of_dead_processes_are_free_again() {
    let (_place, segment, limiter) = limiter(1);
    let kept = KeptConnections::new(Arc::clone(&limiter.members));
    let (inside, ends) = (&segment.header().reserved_namespace, &segment.header().structure_busy);
    let child = Child::run(|| {
        let places: Vec<_> = (0..KEPT_CONNECTIONS_MAX - 1).map(|_| kept.take().unwrap()).collect();
        inside.store(1, SeqCst);
        while ends.load(SeqCst) == 0 {
            give_way();
        }
        std::mem::forget(places); // as SIGKILL leaves them
    });
    await_word(&segment, 1);
    let mine = kept.take().unwrap();
    assert!(kept.take().is_none(), "all places are taken by the living");
    ends.store(1, SeqCst);
    assert!(child.succeeded());
    ends.store(0, SeqCst);
    let another = KeptConnections::new(Arc::clone(&limiter.members)); // it has not searched for dead processes within the last second
    let rest: Vec<_> = (0..KEPT_CONNECTIONS_MAX - 1).map(|_| another.take().unwrap()).collect();
    assert!(another.take().is_none());
    drop(rest);
    assert!(kept.allows(&mine));
}

#[test]
fn after_a_refusal_fewer_connections_stay_open() {
    let (_place, _segment, limiter) = limiter(1);
    let kept = KeptConnections::new(Arc::clone(&limiter.members));
    let places: Vec<_> = (0..16).map(|_| kept.take().unwrap()).collect();
    kept.refused();
    assert_eq!(places.iter().filter(|place| kept.allows(place)).count(), 12);
    assert!(kept.take().is_none());
    drop(places);
    kept.refused();
    assert_eq!(std::iter::from_fn(|| kept.take()).take(100).collect::<Vec<_>>().len(), KEPT_CONNECTIONS_MIN);
}
