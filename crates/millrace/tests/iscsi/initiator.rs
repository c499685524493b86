//! Millrace's initiator with Millrace's target: what a program on a LUN is promised when portals,
//! connections and the filer fail.

use std::time::{Duration, Instant};

use crate::support::lun_load::{BLOCK, Load, block, next, write};
use crate::support::proxy::Proxy;
use crate::support::target::Target;
use crate::support::{Scratch, await_until, millrace, text};
use initiator::{Blocking, Command, Completion, Device, Failure, IscsiUrl, Options, PathState, discover};
use serde_json::Value;

/// The URL of a LUN at these ports of this host.
fn url(target: &Target, ports: &[u16], lun: u16) -> IscsiUrl {
    let portals: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    format!("iscsi://{}/{}/{lun}", portals.join(","), target.iqn()).parse().unwrap()
}

fn open(target: &Target, ports: &[u16], lun: u16) -> Device {
    Device::open(&url(target, ports, lun), Options::for_portals(ports.len())).unwrap()
}

#[test]
fn both_portals_are_used_and_what_was_written_is_read() {
    let scratch = Scratch::new("initiator-both");
    let target = Target::with_portals(&scratch, 2, &[]);
    let lun = target.create("db", "16MiB", &[]);
    let ports = [target.portal(0).port(), target.portal(1).port()];
    let mut device = open(&target, &ports, lun);
    assert_eq!((device.geometry().bytes(), device.geometry().write_cache), (16 << 20, false));
    let mut load = Load::new(256, 7);
    load.run(&mut device, 32, |load, _| load.done >= 2_000);
    load.check(&mut device);
    let paths = device.paths();
    assert!(paths.iter().all(|path| path.state == PathState::Up && path.completed > 500), "{paths:?}");
    device.close();
    let found = discover(&url(&target, &ports, lun), &Options::for_portals(1)).unwrap();
    assert_eq!((found.len(), found[0].target.as_str()), (1, target.iqn().as_str()));
    assert_eq!(found[0].addresses.len(), 2, "{found:?}");
}

#[test]
fn large_and_unaligned_transfers_are_split_or_refused_and_zeroes_are_written() {
    let scratch = Scratch::new("initiator-large");
    let target = Target::start(&scratch, &[]);
    let lun = target.create("db", "16MiB", &[]);
    let mut lun = Blocking::open(&url(&target, &[target.portal(0).port()], lun), Options::for_portals(1)).unwrap();
    let data: Vec<u8> = (0..5 << 20).map(|at: u32| (at / 7) as u8).collect();
    lun.write(512, &data, true).unwrap();
    assert!(lun.read(512, data.len()).unwrap() == data);
    lun.run(vec![Command::WriteZeroes { offset: 4096, bytes: 1 << 20, unmap: false }]).unwrap();
    assert_eq!(lun.read(4096, 1 << 20).unwrap(), vec![0; 1 << 20]);
    lun.run(vec![Command::Unmap { offset: 0, bytes: 4096 }]).unwrap();
    lun.flush().unwrap();
    assert_eq!(lun.read(0, 4096).unwrap(), vec![0; 4096], "unmapped blocks of this target are zeroes");
    assert_eq!(lun.write(100, &[1; 512], false), Err(Failure::Invalid), "not at a block");
    assert_eq!(lun.read(16 << 20, 512), Err(Failure::Invalid), "behind the end");
    lun.close();
}

#[test]
fn a_portal_cut_under_load_stalls_for_less_than_two_seconds_and_comes_back_into_use() {
    let scratch = Scratch::new("initiator-cut");
    let target = Target::with_portals(&scratch, 2, &[]);
    let lun = target.create("db", "16MiB", &[]);
    let proxy = Proxy::start(target.portal(0).port());
    let mut device = open(&target, &[proxy.port, target.portal(1).port()], lun);
    let mut load = Load::new(256, 7);
    load.run(&mut device, 16, |load, _| load.done >= 300);
    // A busy host may add a second of its own. If one cut of three is as short as promised, the
    // initiator works.
    let mut lanes = Vec::new();
    let mut stalls = Vec::new();
    for cut in 1..=3 {
        lanes.extend(proxy.hold());
        let before = load.done;
        load.longest = Duration::ZERO;
        load.run(&mut device, 16, |load, device| load.done >= before + 300 && device.paths()[0].failures >= cut);
        stalls.push(load.longest);
        if load.longest < Duration::from_secs(2) {
            break;
        }
        await_until("the path to come back", Duration::from_secs(30), || {
            device.turn(Some(Duration::from_millis(50)), None).unwrap();
            (device.paths()[0].state == PathState::Up).then_some(())
        });
    }
    assert!(stalls.iter().any(|stall| *stall < Duration::from_secs(2)), "no write ended for {stalls:?}");
    // The proxy forwards new connections, so the path is used again.
    let used = device.paths()[0].completed;
    load.run(&mut device, 16, |_, device| device.paths()[0].completed > used + 100);
    lanes.iter().for_each(|lane| lane.release());
    load.check(&mut device);
}

#[test]
fn a_write_that_a_dead_path_still_holds_does_not_come_behind_a_later_one() {
    let scratch = Scratch::new("initiator-fence");
    let target = Target::with_portals(&scratch, 2, &[]);
    let lun = target.create("db", "1MiB", &[]);
    let proxy = Proxy::start(target.portal(0).port());
    let mut device = open(&target, &[proxy.port, target.portal(1).port()], lun);
    let lanes = proxy.hold();
    // The initiator takes the first of two idle paths. The proxy holds this write, and the
    // initiator sends it again on the second path.
    device.submit(0, write(0, 1));
    assert_eq!(next(&mut device).result, Ok(()));
    assert!(lanes.iter().any(|lane| lane.stored() > BLOCK), "the first path never had it");
    device.submit(0, write(0, 2));
    assert_eq!(next(&mut device).result, Ok(()));
    for lane in &lanes {
        lane.release();
        await_until("the old connection to end", Duration::from_secs(30), || lane.ended().then_some(()));
    }
    device.submit(0, Command::Read { offset: 0, buffer: vec![0; BLOCK] });
    let Completion { command: Command::Read { buffer, .. }, .. } = next(&mut device) else { panic!("not a read") };
    assert!(buffer == block(0, 2), "version {} came back", buffer[8]);
}

#[test]
fn a_filer_that_is_killed_under_load_and_comes_back_costs_time_and_no_write() {
    let scratch = Scratch::new("initiator-kill");
    let mut target = Target::with_portals(&scratch, 2, &[]);
    let lun = target.create("db", "16MiB", &[]);
    let mut device = open(&target, &[target.portal(0).port(), target.portal(1).port()], lun);
    let mut load = Load::new(256, 7);
    for round in 1..=3 {
        let before = load.done;
        load.run(&mut device, 16, |load, _| load.done >= before + 200);
        // The filer is killed while writes are open, and the load then waits for them.
        load.keep_under_way(&mut device, 16);
        target.kill();
        target.restart();
        let before = load.done;
        load.run(&mut device, 16, |load, _| load.done >= before + 50);
        assert!(device.paths().iter().any(|path| path.failures >= round), "{:?}", device.paths());
    }
    load.check(&mut device);
}

#[test]
fn a_store_that_takes_longer_than_a_silent_path_may_costs_no_path() {
    let scratch = Scratch::new("initiator-slow");
    let target = Target::with_portals(&scratch, 2, &[]);
    let lun = target.create("db", "16MiB", &[]);
    let mut device = open(&target, &[target.portal(0).port(), target.portal(1).port()], lun);
    target.volume(&["fault", "add", "slow-flush,delay_ms=2500"]);
    // First a lone write, which the connection's own thread executes; then more data than a
    // connection accepts at once.
    for (depth, bytes) in [(1, BLOCK), (12, 1 << 20)] {
        for nth in 0..depth {
            device.submit(nth, Command::Write { offset: nth << 20, data: vec![7; bytes], fua: false });
        }
        (0..depth).for_each(|_| assert_eq!(next(&mut device).result, Ok(())));
    }
    let failures: Vec<u64> = device.paths().iter().map(|path| path.failures).collect();
    assert_eq!(failures, [0, 0], "{:?}", device.paths());
}

#[test]
fn without_a_path_commands_fail_when_their_time_is_over_and_the_device_goes_on_after_it() {
    let scratch = Scratch::new("initiator-away");
    let mut target = Target::start(&scratch, &[]);
    let lun = target.create("db", "1MiB", &[]);
    let options = Options { replacement_timeout: Duration::from_millis(700), ..Options::for_portals(1) };
    let mut device = Device::open(&url(&target, &[target.portal(0).port()], lun), options).unwrap();
    target.kill();
    let begun = Instant::now();
    device.submit(1, write(0, 1));
    device.submit(2, Command::Read { offset: 0, buffer: vec![0; BLOCK] });
    let results = [next(&mut device).result, next(&mut device).result];
    assert_eq!(results, [Err(Failure::NoPath); 2]);
    assert!(begun.elapsed() >= Duration::from_millis(700));
    target.restart();
    await_until("the path to come back", Duration::from_secs(30), || {
        device.turn(Some(Duration::from_millis(100)), None).unwrap();
        (device.paths()[0].state == PathState::Up).then_some(())
    });
    device.submit(3, write(0, 2));
    assert_eq!(next(&mut device).result, Ok(()));
}

#[test]
fn a_power_cut_ends_a_device_that_keeps_nothing_with_writes_in_its_cache_and_no_other() {
    let scratch = Scratch::new("initiator-loss");
    let target = Target::start(&scratch, &["--loss-layer"]);
    let (cached, flushed) =
        (target.create("cached", "1MiB", &["--write-cache"]), target.create("flushed", "1MiB", &["--write-cache"]));
    let port = [target.portal(0).port()];
    let keeps_nothing = Options { retained_bytes_max: 0, ..Options::for_portals(1) };
    let mut devices = [cached, flushed].map(|lun| Device::open(&url(&target, &port, lun), keeps_nothing.clone()).unwrap());
    for device in &mut devices {
        assert!(device.geometry().write_cache);
        device.submit(0, write(0, 1));
        assert_eq!(next(device).result, Ok(()));
    }
    devices[1].submit(0, Command::Flush);
    assert_eq!(next(&mut devices[1]).result, Ok(()));
    target.volume(&["power-cut"]);
    let read = |device: &mut Device| {
        device.submit(0, Command::Read { offset: 0, buffer: vec![0; BLOCK] });
        next(device)
    };
    let [lost, whole] = &mut devices;
    let Completion { command: Command::Read { buffer, .. }, result, .. } = read(whole) else { panic!("not a read") };
    assert!(result == Ok(()) && buffer == block(0, 1), "{result:?}");
    assert_eq!(read(lost).result, Err(Failure::Lost));
    lost.submit(0, Command::Flush);
    assert_eq!(next(lost).result, Err(Failure::Lost), "for good");
}

#[test]
fn a_lun_that_grows_is_seen_to_grow() {
    let scratch = Scratch::new("initiator-resize");
    let target = Target::start(&scratch, &[]);
    let lun = target.create("db", "1MiB", &[]);
    let mut device = open(&target, &[target.portal(0).port()], lun);
    target.order(&["resize", "vol/db", "2MiB"]);
    await_until("the new size", Duration::from_secs(30), || {
        device.submit(0, Command::Read { offset: 0, buffer: vec![0; 512] });
        assert_eq!(next(&mut device).result, Ok(()));
        (device.geometry().bytes() == 2 << 20).then_some(())
    });
}

#[test]
fn what_is_not_there_or_not_allowed_is_named() {
    let scratch = Scratch::new("initiator-refused");
    let target = Target::start(&scratch, &[]);
    let (db, other) =
        (target.create("db", "1MiB", &[]), target.create("other", "1MiB", &["--initiator", "iqn.2026-11.test:other"]));
    let port = target.portal(0).port();
    let says = |url: &str, what: &str| {
        let error = Device::open(&url.parse().unwrap(), Options::for_portals(1)).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|error| error.contains(what)), "{url}: {error:?}");
    };
    says(&format!("iscsi://127.0.0.1:{port}/iqn.2026-11.test:nothing/0"), "target not found");
    says(&target.url(0, 77), "no such LUN, or not mapped");
    says(&target.url(0, other), "no such LUN, or not mapped");
    says(&format!("iscsi://127.0.0.1:{port}"), "names no LUN");
    says(&format!("iscsi://127.0.0.1:1/{}/{db}", target.iqn()), "cannot be reached: Connection refused");
}

#[test]
fn the_commands_discover_and_bench_show_what_they_found() {
    let scratch = Scratch::new("initiator-commands");
    let target = Target::with_portals(&scratch, 2, &[]);
    let lun = target.create("db", "16MiB", &[]);
    let portal = format!("iscsi://{}", target.portal(0));
    let output = millrace().args(["iscsi", "discover", "--json", &portal]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!((&found[0]["target"], found[0]["portals"].as_array().unwrap().len()), (&Value::from(target.iqn()), 2));
    let both = url(&target, &[target.portal(0).port(), target.portal(1).port()], lun).to_string();
    let bench = |options: &[&str]| millrace().args(["iscsi", "bench", &both, "--seconds", "0.3"]).args(options).output().unwrap();
    let output = bench(&["--depth", "8", "--json"]);
    let record: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert!(record["iops"].as_f64().unwrap() > 0.0 && record["paths"][1]["completed"].as_u64().unwrap() > 0, "{record}");
    let output = bench(&["--rw", "randwrite"]);
    assert!(output.status.code() == Some(2) && text(&output).contains("--overwrite"), "{}", text(&output));
    let output = bench(&["--rw", "randwrite", "--overwrite", "--fua"]);
    assert!(output.status.success() && text(&output).contains("randwrite 8192 bytes"), "{}", text(&output));
    let wrong = format!("{portal}/iqn.2026-11.test:nothing/0");
    let output = millrace().args(["iscsi", "bench", &wrong]).output().unwrap();
    assert!(output.status.code() == Some(1) && text(&output).contains("iscsi discover"), "{}", text(&output));
}
