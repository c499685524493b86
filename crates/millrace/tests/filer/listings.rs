//! Listings of large directories: their cost, and other calls, which must not wait for them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::Scratch;
use crate::support::filer::Filer;
use crate::support::process::{TICKS, ticks};
use crate::support::wire::{Wire, place};
use nfs_proto::nfs3::{
    CookieVerifier, CreateHow, FileHandle, ObjectArgs, Procedure, ReadDirPlusArgs, ReadDirPlusResult, SetAttr, WccResult,
};

/// Creates `files` files on the host.
fn fill(dir: &Path, files: usize) {
    std::fs::create_dir(dir).unwrap();
    for number in 0..files {
        std::fs::File::create(dir.join(format!("file{number:07}"))).unwrap();
    }
}

fn listing(dir: FileHandle, cookie: u64, cookie_verifier: CookieVerifier) -> ReadDirPlusArgs {
    ReadDirPlusArgs { dir, cookie, cookie_verifier, dir_count: 1 << 20, max_count: 1 << 20 }
}

#[test]
fn a_call_does_not_wait_for_the_listing_that_its_connection_sent_before_it() {
    let scratch = Scratch::new("listing-first");
    let filer = Filer::start(&scratch, &[]);
    fill(&filer.export().join("many"), 4000);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let dir = wire.lookup(root, "many").unwrap().object;
    let mut overtaken = 0;
    for _ in 0..20 {
        // After these calls, the filer treats the client as one that waits for each reply.
        for _ in 0..20 {
            wire.getattr(root).unwrap();
        }
        let list = wire.nfs_record(Procedure::ReadDirPlus, &listing(dir, 0, CookieVerifier::default()));
        wire.send(&list);
        let get = wire.nfs_record(Procedure::GetAttr, &ObjectArgs { object: root });
        wire.send(&get);
        let first = wire.receive().header().xid.0;
        wire.receive();
        overtaken += u32::from(first == wire.xid);
    }
    assert!(overtaken >= 10, "{overtaken} of 20");
}

/// Lists a complete directory. Returns the number of names, the filer's processor time in ticks,
/// and the time of the slowest call.
fn list(filer: &Filer, wire: &mut Wire, dir: FileHandle) -> (usize, u64, Duration) {
    let (begun, mut slowest, mut names) = (ticks(filer.pid()), Duration::ZERO, 0);
    let (mut cookie, mut verifier) = (0, CookieVerifier::default());
    loop {
        let called = Instant::now();
        let reply = wire.nfs(Procedure::ReadDirPlus, &listing(dir, cookie, verifier));
        slowest = slowest.max(called.elapsed());
        let ok = reply.results::<ReadDirPlusResult<'_>>().unwrap();
        for entry in ok.entries.iter() {
            (cookie, names) = (entry.cookie, names + 1);
            assert!(entry.attributes.is_some() && entry.handle.is_some());
        }
        verifier = ok.cookie_verifier;
        if ok.entries.eof() {
            return (names, ticks(filer.pid()) - begun, slowest);
        }
    }
}

/// The times of another client's slowest calls while `run` runs. The client makes one call at a time.
fn slowest_beside(port: u16, dir: FileHandle, run: impl FnOnce()) -> [(Procedure, Duration); 4] {
    let is_over = AtomicBool::new(false);
    let calls = || {
        let mut wire = Wire::connect(port);
        let root = wire.root();
        let mut slowest =
            [Procedure::GetAttr, Procedure::Lookup, Procedure::Create, Procedure::Remove].map(|of| (of, Duration::ZERO));
        while !is_over.load(Ordering::Relaxed) {
            for (procedure, slowest) in &mut slowest {
                let called = Instant::now();
                match procedure {
                    Procedure::GetAttr => drop(wire.getattr(root).unwrap()),
                    Procedure::Lookup => drop(wire.lookup(dir, "file0000007").unwrap()),
                    Procedure::Create => drop(wire.create_with(dir, "new", CreateHow::Unchecked(SetAttr::default())).unwrap()),
                    _ => drop(wire.nfs(Procedure::Remove, &place(dir, "new")).results::<WccResult>().unwrap()),
                }
                *slowest = called.elapsed().max(*slowest);
            }
        }
        slowest
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(calls);
        run();
        is_over.store(true, Ordering::Relaxed);
        other.join().unwrap()
    })
}

#[test]
#[ignore = "nightly: a directory of a million names, minutes"]
fn a_name_of_a_million_costs_ten_microseconds_and_no_other_call_is_delayed_by_100_ms() {
    let scratch = Scratch::new("million-names");
    let filer = Filer::start(&scratch, &[]);
    let files = std::env::var("MILLRACE_SCALE_FILES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    fill(&filer.export().join("many"), files);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    let dir = wire.lookup(root, "many").unwrap().object;
    for _ in 0..2 {
        let (names, ticks, slowest) = list(&filer, &mut wire, dir);
        let cost = Duration::from_millis(ticks * 1000 / TICKS) / names as u32;
        println!("READDIRPLUS alone: {names} names, {cost:?} of filer processor time each, slowest call {slowest:?}");
        assert!(names >= files + 2);
        assert!(cfg!(debug_assertions) || cost <= Duration::from_micros(10), "{cost:?}");
    }
    let alone = slowest_beside(filer.port, dir, || std::thread::sleep(Duration::from_secs(5))); // the duration of the measurement
    let beside = slowest_beside(filer.port, dir, || {
        list(&filer, &mut wire, dir);
    });
    println!("slowest calls of another client: {alone:?} alone, {beside:?} beside a listing");
    for ((_, alone), (procedure, beside)) in alone.into_iter().zip(beside) {
        assert!(beside < alone + Duration::from_millis(100), "{procedure:?}: {alone:?} alone, {beside:?} beside a listing");
    }
}
