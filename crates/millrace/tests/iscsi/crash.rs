//! No acknowledged write to a LUN is lost when the filer is killed, its power is cut, or the
//! program that wrote ends.

use std::time::Duration;

use crate::support::lun_load::{BLOCK, Load, block, next, write};
use crate::support::target::Target;
use crate::support::{Scratch, await_until, seeds};
use initiator::{Command, Completion, Device, IscsiUrl, Options};
use serde_json::Value;

/// Number of ends for each seed.
const ENDS: usize = 5;
const DEPTH: usize = 16;

#[test]
fn every_acknowledged_write_is_there_after_kills_and_power_cuts_with_and_without_the_program_that_wrote() {
    // 2 in make test, 100 in make nightly.
    for seed in seeds(|count| if count > 2 { 5 * count } else { count }) {
        println!("seed {seed}");
        one_seed(seed);
    }
}

#[test]
fn what_is_in_a_lun_s_write_cache_is_written_again_after_power_cuts_while_its_writer_lives() {
    for seed in seeds(|count| if count > 2 { 5 * count } else { count }) {
        println!("seed {seed}");
        let scratch = Scratch::new("iscsi-cache");
        let mut target = Target::with_portals(&scratch, 2, &["--loss-layer"]);
        let url: IscsiUrl = target.url_of_all(target.create("db", "4MiB", &["--write-cache"])).parse().unwrap();
        // The limit for kept writes is small, so that the initiator also sends flushes of its own.
        let options = Options { retained_bytes_max: 512 << 10, ..Options::for_portals(2) };
        let mut device = Device::open(&url, options).unwrap();
        let mut load = Load::new(128, seed);
        for _ in 0..ENDS {
            let enough = load.done + 20 + load.rng.index(100) as u64;
            load.run(&mut device, DEPTH, |load, _| load.done >= enough);
            load.keep_under_way(&mut device, DEPTH);
            for _ in 0..=load.rng.index(2) {
                target.volume(&["power-cut"]);
            }
            if load.rng.index(2) == 0 {
                target.kill();
                target.restart();
            }
        }
        load.run(&mut device, DEPTH, |_, _| true);
        load.check(&mut device);
    }
}

fn one_seed(seed: u64) {
    let scratch = Scratch::new("iscsi-crash");
    let mut target = Target::with_portals(&scratch, 2, &["--loss-layer"]);
    let lun = target.create("db", "4MiB", &[]);
    let url: IscsiUrl = target.url_of_all(lun).parse().unwrap();
    let of_use = Some("the program that writes".to_owned());
    let open = || Device::open(&url, Options { of_use: of_use.clone(), ..Options::for_portals(2) }).unwrap();
    let mut device = open();
    let mut load = Load::new(128, seed);
    for _ in 0..ENDS {
        let enough = load.done + 20 + load.rng.index(100) as u64;
        load.run(&mut device, DEPTH, |load, _| load.done >= enough);
        load.keep_under_way(&mut device, DEPTH);
        let program_ends = load.rng.index(2) == 0;
        match load.rng.index(3) {
            0 => {
                target.kill();
                target.restart();
            }
            1 => {
                target.volume(&["power-cut"]);
            }
            // The filer continues: only the program may end.
            _ => {}
        }
        if program_ends {
            // Without a logout, as when a process is killed.
            drop(device);
            device = open();
            load.settle(&mut device);
        }
    }
    let enough = load.done + 20;
    load.run(&mut device, DEPTH, |load, _| load.done >= enough);
    load.check(&mut device);
}

#[test]
fn a_write_that_a_dead_program_left_on_its_way_does_not_come_behind_those_of_the_one_after_it() {
    let scratch = Scratch::new("iscsi-former");
    let target = Target::start(&scratch, &[]);
    let lun = target.create("db", "4MiB", &[]);
    let url: IscsiUrl = target.url(0, lun).parse().unwrap();
    let of_use = Some("the program that writes".to_owned());
    let open = || Device::open(&url, Options { of_use: of_use.clone(), ..Options::for_portals(1) }).unwrap();
    // The connection's own thread executes a lone write, and so it reads the next write late.
    target.volume(&["fault", "add", "slow-flush,delay_ms=400,times=1"]);
    let mut device = open();
    device.submit(0, write(0, 1));
    device.turn(None, None).unwrap();
    let list = || serde_json::from_str::<Value>(&target.volume(&["fault", "list", "--json"])).unwrap();
    await_until("the flush to begin", Duration::from_secs(20), || (list()["report"]["injected"] == 1).then_some(()));
    device.submit(1, write(1, 1));
    device.turn(None, None).unwrap();
    drop(device);
    let mut device = open();
    device.submit(0, write(1, 2));
    assert_eq!(next(&mut device).result, Ok(()));
    let sessions = || target.listed("db")["sessions"].as_array().unwrap().len();
    await_until("the dead program's session to end", Duration::from_secs(20), || (sessions() == 1).then_some(()));
    device.submit(0, Command::Read { offset: BLOCK as u64, buffer: vec![0; BLOCK] });
    let Completion { command: Command::Read { buffer, .. }, result: Ok(()), .. } = next(&mut device) else { panic!("no read") };
    assert!(buffer == block(1, 2), "what the dead program wrote last");
}
