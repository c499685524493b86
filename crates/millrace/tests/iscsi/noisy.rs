//! One tenant and a noisy one, which has its own volume and LUN on the same filer. The tenant's
//! calls get no error, no call takes long, and the rate of calls falls only a little.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::configured::Configured;
use crate::support::scsi::{Client, Who, cdb16};
use crate::support::wire::Wire;
use crate::support::{Scratch, descriptors_up_to, millrace, succeed};
use iscsi_proto::initiator::Transfer;
use iscsi_proto::pdu::TaskFunction;
use nfs_proto::nfs3::{CommitArgs, CommitResult, FileHandle, Procedure, StableHow};

const IQN: &str = "iqn.2026-11.com.example.filer";
const LUN: u16 = 0;
const FILES: usize = 10_000;

/// A filer with the volumes `noisy` and `tenant` and a LUN with a write cache on each, on the IPv4 and the IPv6 loopback address.
fn serving(scratch: &Scratch) -> Configured {
    let volume = |name: &str| {
        scratch.folder(name);
        format!("[[volume]]\nname = \"{name}\"\ndir = \"DIR/{name}\"\nsquash = \"none\"\nclients = [\"127.0.0.1\", \"::1\"]\n")
    };
    let iscsi = format!("[iscsi]\nlisten = [\"127.0.0.1:0\", \"[::1]:0\"]\niqn = \"{IQN}\"\n");
    let filer = Configured::start(scratch, &format!("{iscsi}{}{}", volume("noisy"), volume("tenant")));
    for name in ["noisy/db", "tenant/db"] {
        let create = ["lun", "create", name, "--size", "16MiB", "--write-cache", "--admin"];
        succeed(millrace().args(create).arg(&filer.admin));
    }
    filer
}

/// The addresses that a host uses: the noisy one connects to 127.0.0.1, the tenant to ::1.
#[derive(Clone, Copy)]
struct Ports {
    nfs: SocketAddr,
    iscsi: SocketAddr,
}

impl Ports {
    fn of(filer: &Configured, nth: usize) -> Self {
        let address = |key: &str| filer.ready[key][nth].as_str().unwrap().parse().unwrap();
        Self { nfs: address("listen"), iscsi: address("portals") }
    }

    fn wire(self) -> Wire {
        let stream = TcpStream::connect(self.nfs).unwrap();
        stream.set_nodelay(true).unwrap();
        Wire::over(stream)
    }

    fn initiator(self, volume: &str, name: &str) -> Client {
        Client::ready(self.iscsi, &format!("{IQN}:{volume}"), &Who::named(&format!("iqn.2026-11.test:{name}")), LUN)
    }
}

/// Results of the tenant's measurement.
#[derive(Debug)]
struct Seen {
    calls_per_second: f64,
    slowest: Duration,
}

/// Calls of the tenant, one at a time: stable writes, commits that must return the verifier of the
/// write before, and writes, flushes and reads of the LUN.
fn work(wire: &mut Wire, file: FileHandle, lun: &mut Client, time: Duration) -> Seen {
    let (begun, mut calls, mut slowest) = (Instant::now(), 0, Duration::ZERO);
    let mut call = |run: &mut dyn FnMut()| {
        let sent = Instant::now();
        run();
        slowest = slowest.max(sent.elapsed());
        calls += 1;
    };
    while begun.elapsed() < time {
        call(&mut || assert_eq!(wire.write(file, 0, &[1; 4096], StableHow::FileSync).count, 4096));
        let mut verifier = None;
        call(&mut || verifier = Some(wire.write(file, 4096, &[2; 4096], StableHow::Unstable).verifier));
        call(&mut || {
            let reply = wire.nfs(Procedure::Commit, &CommitArgs { file, offset: 0, count: 0 });
            assert_eq!(reply.results::<CommitResult>().ok().map(|ok| ok.verifier), verifier);
        });
        call(&mut || assert!(lun.write(LUN, 8, &[3; 4096], false).unwrap().is_good()));
        call(&mut || assert!(lun.flush(LUN).unwrap().is_good()));
        call(&mut || assert!(lun.read(LUN, 0, 8).unwrap().is_good()));
    }
    Seen { calls_per_second: f64::from(calls) / begun.elapsed().as_secs_f64(), slowest }
}

/// Sends stable writes that the host refuses, to a file with unstable data.
fn moves_verifiers(ports: Ports, stop: &AtomicBool) {
    let mut wire = ports.wire();
    let root = wire.mount("/noisy").unwrap();
    let file = wire.create(root, "mover");
    while !stop.load(Ordering::Relaxed) {
        wire.write(file, 0, b"unstable", StableHow::Unstable);
        assert!(wire.try_write(file, 1 << 50, b"x", StableHow::FileSync).is_err());
    }
}

fn resets_targets(ports: Ports, stop: &AtomicBool) {
    let mut client = ports.initiator("noisy", "resetter");
    while !stop.load(Ordering::Relaxed) {
        for function in [TaskFunction::TargetWarmReset, TaskFunction::LogicalUnitReset] {
            client.manage(function, LUN, None).unwrap();
        }
        client.take_attentions(LUN);
    }
}

fn begins_logins(ports: Ports, stop: &AtomicBool) {
    let mut open = std::collections::VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        if let Ok(mut stream) = TcpStream::connect(ports.iscsi) {
            let _ = stream.write_all(&[0x43, 0x87, 0, 0, 0, 0, 1, 0]); // half a login request
            open.push_back(stream);
        }
        if open.len() > 500 {
            open.pop_front();
        }
    }
}

fn sends_no_data(ports: Ports, stop: &AtomicBool) {
    let data = vec![7; 1 << 20];
    let mut sessions: Vec<Client> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if sessions.len() >= 16 {
            sessions.remove(0);
        }
        let mut client = ports.initiator("noisy", &format!("silent{}", sessions.len()));
        while client.window() > 0 && client.send(LUN, &cdb16(0x8a, false, 0, 2048), Transfer::Write(&data)).is_ok() {}
        sessions.push(client);
    }
}

/// Reads ten thousand files of its volume repeatedly.
fn reads_many_files(ports: Ports, stop: &AtomicBool) {
    let mut wire = ports.wire();
    let root = wire.mount("/noisy").unwrap();
    let names: Vec<String> = (0..FILES).map(|number| format!("f{number}")).collect();
    for name in names.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let found = wire.lookup(root, name).unwrap();
        let read = nfs_proto::nfs3::ReadArgs { file: found.object, offset: 0, count: 512 };
        assert!(wire.nfs(Procedure::Read, &read).results::<nfs_proto::nfs3::ReadResult<'_>>().is_ok());
    }
}

type Noise = fn(Ports, &AtomicBool);

#[test]
#[ignore = "nightly: half a minute of noise, timed"]
fn no_noise_of_another_tenant_delays_a_call_by_100_ms_or_takes_more_than_three_fifths_of_the_rate() {
    descriptors_up_to(4096);
    let kinds: [(&str, Noise); 5] = [
        ("refused stable writes", moves_verifiers),
        ("target and LUN resets", resets_targets),
        ("half-open logins", begins_logins),
        ("writes whose data never comes", sends_no_data),
        ("reads of 10,000 files", reads_many_files),
    ];
    let scratch = Scratch::new("noisy");
    let filer = serving(&scratch);
    (0..FILES).for_each(|number| std::fs::write(scratch.path().join(format!("noisy/f{number}")), [1; 512]).unwrap());
    let (noisy, tenant) = (Ports::of(&filer, 0), Ports::of(&filer, 1));
    let mut wire = tenant.wire();
    let root = wire.mount("/tenant").unwrap();
    let file = wire.create(root, "f");
    let mut lun = tenant.initiator("tenant", "tenant");
    let (time, mut failed) = (Duration::from_secs(3), Vec::new());
    work(&mut wire, file, &mut lun, time / 3);
    for (name, noise) in kinds {
        let alone = work(&mut wire, file, &mut lun, time);
        let stop = AtomicBool::new(false);
        let beside = std::thread::scope(|scope| {
            let noise = scope.spawn(|| noise(noisy, &stop));
            let beside = work(&mut wire, file, &mut lun, time);
            stop.store(true, Ordering::Relaxed);
            noise.join().unwrap();
            beside
        });
        let share = beside.calls_per_second / alone.calls_per_second;
        println!(
            "{name}: {:.0} calls/s of {:.0} alone ({share:.2}), slowest {:?} of {:?}",
            beside.calls_per_second, alone.calls_per_second, beside.slowest, alone.slowest
        );
        if beside.slowest > alone.slowest + Duration::from_millis(100) || share < 0.4 {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
