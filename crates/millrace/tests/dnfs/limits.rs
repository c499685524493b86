//! Limits for mounts, counted at the filer: the cost of one write, the outstanding calls, one
//! writer of a file.

use crate::mounted::{MAKE, Mounted, READ_WRITE, attach, open, worker_arguments};
use crate::support::{await_until, millrace, succeed};
use dnfs::mount::{Mount, Observer};
use std::time::Duration;

/// The URL with more options.
fn limited(url: &str, options: &str) -> String {
    format!("{url}{}{options}", if url.contains('?') { '&' } else { '?' })
}

/// Another mount of the same export, with these options.
fn with(mounted: &Mounted, options: &str) -> Mount {
    attach(&limited(&mounted.filer.url, options))
}

#[test]
fn one_write_of_64_kib_takes_8_or_2_or_1_calls_by_the_generation_of_the_client() {
    let mounted = Mounted::new("generations", &[]);
    for (options, calls, bytes) in [("split=8k", 8, 8192), ("rsize=32k&wsize=32k", 2, 32_768), ("rsize=1MiB", 1, 65_536)] {
        let mount = with(&mounted, options);
        let file = open(&mount, "redo", &MAKE);
        let (filer, before) = (|procedure| mounted.filer.calls(procedure), mount.activity());
        let (writes, reads) = (filer("WRITE"), filer("READ"));
        file.write(0, &vec![7; 65_536]);
        assert_eq!(filer("WRITE") - writes, calls, "{options}");
        assert_eq!(file.read(0, 65_536), vec![7; 65_536]);
        assert_eq!(filer("READ") - reads, calls, "{options}");
        let counted = mount.activity().since(&before);
        assert_eq!((counted.writes.calls, counted.writes.bytes), (calls, 65_536));
        let place = (0..).find(|place| dnfs::activity::size_of_place(*place) == bytes).unwrap();
        assert_eq!((counted.writes.sizes[place], counted.reads.sizes[place]), (calls, calls));
        assert_eq!((counted.writes.latency.count(), counted.reads.latency.count()), (1, 1));
    }
}

#[test]
fn calls_outstanding_never_pass_the_limit_whatever_the_processes_do() {
    let mounted = Mounted::new("slots", &[]);
    let mount = with(&mounted, "slots=2&split=8k");
    drop(open(&mount, "data", &MAKE));
    let workers: Vec<_> = (0..4).map(|number| mounted.worker("worker_works", &number.to_string())).collect();
    workers.into_iter().for_each(crate::mounted::Worker::finish);
    let slots = mount.activity().slots.unwrap();
    assert_eq!((slots.limit, slots.most, slots.beyond, slots.reclaimed), (2, 2, 0, 0));
    // 4 workers, 40 rounds, a write and a read of 64 KiB, of 8 calls each.
    assert!(slots.calls >= 4 * 40 * 16 && slots.waits > 0 && slots.held_ns > 0, "{slots:?}");
    let outside = Observer::at(mount.runtime_dir()).unwrap().unwrap().activity();
    assert_eq!(outside.slots.unwrap().calls, slots.calls);
    let shown = succeed(millrace().args(["nfs", "counters", "--json"]).arg(mount.runtime_dir()));
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown[0]["slots"]["most"], 2);
    assert_eq!(shown[0]["writes"]["sizes"]["8192"], 4 * 40 * 8);
    assert!(shown[0]["reads"]["p99_us"].as_f64().unwrap() >= shown[0]["reads"]["p50_us"].as_f64().unwrap());
}

fn worker_works(mounted: &Mount, argument: &str) {
    let number: u8 = argument.parse().unwrap();
    let file = open(mounted, "data", &READ_WRITE);
    let offset = u64::from(number) << 16;
    for round in 0..40 {
        let data = vec![number ^ round; 65_536];
        file.write(offset, &data);
        assert_eq!(file.read(offset, 65_536), data);
    }
    file.sync().unwrap();
}

#[test]
fn slots_and_the_file_of_a_killed_process_are_taken_back() {
    let mut mounted = Mounted::new("killed", &[]);
    let mount = with(&mounted, "slots=1&writers=one");
    let file = open(&mount, "data", &MAKE);
    file.write(0, b"first");
    // The filer stops in the middle of a call, so that the worker dies while it holds the slot and the file.
    let mut worker = mounted.worker("worker_writes_on", "");
    worker.await_ready();
    let slots = || mount.activity().slots.unwrap();
    let before = slots().calls;
    await_until("the worker to write", Duration::from_secs(30), || (slots().calls > before + 10).then_some(()));
    mounted.filer.kill();
    let mut last = 0;
    await_until("the worker to wait inside a call", Duration::from_secs(30), || {
        let now = slots();
        let waits = now.in_use == 1 && now.calls == last;
        last = now.calls;
        waits.then_some(())
    });
    worker.kill();
    mounted.filer.restart();
    file.write(0, b"after");
    assert_eq!(file.read(0, 5), b"after");
    assert_eq!((slots().reclaimed, slots().in_use), (1, 0));
}

fn worker_writes_on(mount: &Mount, _: &str) {
    let file = open(mount, "data", &READ_WRITE);
    println!("ready");
    loop {
        file.write(0, b"again");
    }
}

#[test]
fn bench_with_16_slots_has_16_calls_outstanding_and_shows_the_waits_of_the_rest() {
    let mounted = Mounted::new("bench", &[]);
    let url = limited(&mounted.filer.url.replace("/vol", "/vol/x.bench"), "slots=16");
    let mut bench = millrace();
    bench.args(["nfs", "bench", "--create", "--size", "4MiB", "--depth", "64", "--seconds", "0.3", "--json", &url]);
    let shown: serde_json::Value = serde_json::from_str(&succeed(&mut bench)).unwrap();
    let slots = &shown["slots"];
    assert_eq!((slots["limit"].as_u64(), slots["most"].as_u64()), (Some(16), Some(16)));
    let mean = slots["in_use_mean"].as_f64().unwrap();
    assert!(mean > 8.0 && mean <= 16.0, "{shown}");
}

#[test]
#[ignore = "worker: a process that other tests start"]
fn worker_process() {
    let Some([url, job, argument]) = worker_arguments() else { return };
    let limited = |options| attach(&limited(&url, options));
    match job.as_str() {
        "worker_works" => worker_works(&limited("slots=2&split=8k"), &argument),
        "worker_writes_on" => worker_writes_on(&limited("slots=1&writers=one"), &argument),
        other => panic!("no worker {other}"),
    }
}
