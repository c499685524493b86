//! Idle connections have no thread, and are served when they call again. Many busy connections get
//! equal shares.

use std::io::Read;
use std::time::{Duration, Instant};

use crate::support::filer::Filer;
use crate::support::wire::Wire;
use crate::support::{Scratch, await_until, has_descriptors, shares};
use nfs_proto::nfs3::Procedure;

/// Number of threads that serve a connection.
pub(super) fn serving(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.unwrap().path().join("comm"));
    tasks.map(name).filter(|name| name.as_ref().is_ok_and(|name| name.trim_end() == "connection")).count()
}

fn call(wire: &mut Wire) -> Duration {
    let begun = Instant::now();
    let record = wire.nfs_record(Procedure::Null, &());
    wire.send(&record);
    wire.receive();
    begun.elapsed()
}

#[test]
fn an_idle_connection_gives_up_its_thread_and_is_served_when_it_calls_again() {
    let scratch = Scratch::new("parked");
    let filer = Filer::start(&scratch, &[]);
    let mut wires: Vec<Wire> = (0..20).map(|_| Wire::connect(filer.port)).collect();
    for _ in 0..2 {
        for wire in &mut wires {
            let root = wire.root();
            assert!(wire.getattr(root).is_ok());
        }
        await_until("idle connections to be parked", Duration::from_secs(20), || (serving(filer.pid()) == 0).then_some(()));
    }
}

#[test]
fn the_end_of_a_parked_connection_is_noticed() {
    let scratch = Scratch::new("parked-end");
    let filer = Filer::start(&scratch, &[]);
    let connections = || filer.admin(r#"{"op":"stats"}"#)["connections"].as_u64().unwrap();
    let wires: Vec<Wire> = (0..20).map(|_| Wire::connect(filer.port)).collect();
    await_until("connections", Duration::from_secs(20), || (connections() == 20).then_some(()));
    wires.into_iter().for_each(Wire::reset);
    await_until("their end", Duration::from_secs(20), || (connections() == 0).then_some(()));
}

#[test]
fn more_busy_connections_of_one_client_than_it_has_threads_are_all_served() {
    const CONNECTIONS: usize = 1200;
    if !has_descriptors(2 * CONNECTIONS as u64) {
        return;
    }
    let scratch = Scratch::new("busy-all");
    let filer = Filer::start(&scratch, &[]);
    let mut wires: Vec<Wire> = (0..CONNECTIONS).map(|_| Wire::connect(filer.port)).collect();
    let record = wires.first_mut().map(|wire| wire.nfs_record(Procedure::Null, &())).unwrap();
    for wire in &mut wires {
        wire.stream.set_nonblocking(true).unwrap();
        wire.send(&record);
    }
    // Connections that got a reply call again at once, until all have got one.
    let (mut answers, mut answer) = (vec![0; CONNECTIONS], [0; 100]);
    await_until("an answer on each busy connection", Duration::from_secs(60), || {
        for (wire, answers) in wires.iter_mut().zip(&mut answers) {
            if wire.stream.read(&mut answer).is_ok() {
                *answers += 1;
                wire.send(&record);
            }
        }
        answers.iter().all(|answers| *answers > 1).then_some(())
    });
}

#[test]
#[ignore = "nightly: ten thousand connections, fifteen seconds"]
fn ten_thousand_idle_connections_take_160_mib_and_are_answered_at_once() {
    if !has_descriptors(20_000) {
        return;
    }
    let scratch = Scratch::new("ten-thousand");
    let filer = Filer::start(&scratch, &[]);
    let mut wires: Vec<Wire> = (0..10_000).map(|_| Wire::connect(filer.port)).collect();
    for wire in &mut wires {
        call(wire);
    }
    await_until("idle connections to be parked", Duration::from_secs(60), || (serving(filer.pid()) == 0).then_some(()));
    let resident = filer.resident() >> 20;
    let slowest = wires.iter_mut().step_by(37).map(call).max().unwrap();
    println!("10,000 idle connections: RSS {resident} MiB; slowest first call {slowest:?}");
    assert!(resident <= 160, "{resident} MiB");
    assert!(slowest < shares::BRIEF, "{slowest:?}");
}

#[test]
#[ignore = "nightly: a thousand busy connections, ten seconds"]
fn a_thousand_busy_connections_get_equal_shares() {
    if !has_descriptors(2000) {
        return;
    }
    let scratch = Scratch::new("busy");
    let filer = Filer::start(&scratch, &[]);
    let mut wires: Vec<Wire> = (0..1000).map(|_| Wire::connect(filer.port)).collect();
    let record = wires.first_mut().map(|wire| wire.nfs_record(Procedure::Null, &())).unwrap();
    for wire in &mut wires {
        wire.stream.set_nonblocking(true).unwrap();
    }
    let mut answer = [0; 100];
    shares::assert_equal(shares::BRIEF, &mut wires, |wire| wire.send(&record), |wire| wire.stream.read(&mut answer).is_ok());
}
