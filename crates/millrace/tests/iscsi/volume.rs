//! A LUN is a part of its volume: the volume's faults, medium model and counters apply to it, and
//! the volume's files stay usable.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::attached::Host;
use crate::support::scsi::{Client, Who, cdb16};
use crate::support::target::Target;
use crate::support::{Scratch, await_until, find_program, millrace, skip, succeed, text};
use iscsi_proto::initiator::Transfer;
use iscsi_proto::pdu::TaskFunction;
use sim::Rng;

const HOST: &str = "iqn.2026-11.test:host";

fn ready(target: &Target, lun: u16) -> Client {
    Client::ready(target.portal(0), &target.iqn(), &Who::named(HOST), lun)
}

#[test]
fn faults_of_the_volume_are_sense_data_and_a_failed_flush_stops_writes_for_good() {
    let scratch = Scratch::new("iscsi-faults");
    let target = Target::start(&scratch, &[]);
    let lun = target.create("db", "1MiB", &[]);
    let mut client = ready(&target, lun);
    target.volume(&["fault", "add", "eio,on=read,times=1"]);
    assert_eq!(client.read(lun, 0, 1).unwrap().sense_code(), (3, 0x11, 0), "UNRECOVERED READ ERROR");
    assert!(client.read(lun, 0, 1).unwrap().is_good());
    target.volume(&["fault", "add", "enospc,on=write,times=1"]);
    assert_eq!(client.write(lun, 0, &[1; 512], false).unwrap().sense_code(), (7, 0x27, 7), "SPACE ALLOCATION FAILED");
    assert!(client.write(lun, 0, &[1; 512], false).unwrap().is_good());
    target.volume(&["fault", "add", "eio,on=flush,times=1"]);
    let failed = client.write(lun, 0, &[2; 512], true).unwrap();
    assert_eq!(failed.sense_code().0, 3, "MEDIUM ERROR: {failed:?}");
    for _ in 0..3 {
        assert!(!client.write(lun, 1, &[3; 512], false).unwrap().is_good(), "nothing durable can be promised");
    }
    client.take_attentions(lun);
    assert!(client.read(lun, 0, 1).unwrap().is_good(), "reads go on");
}

#[test]
fn faults_of_the_wire_lose_delay_and_reset_commands_and_the_filer_goes_on() {
    let scratch = Scratch::new("iscsi-wire-faults");
    let target = Target::start(&scratch, &[]);
    let lun = target.create("db", "1MiB", &[]);
    let mut client = ready(&target, lun);
    target.volume(&["fault", "add", "delay-reply,on=SCSI-READ,delay_ms=200,times=1"]);
    let begun = Instant::now();
    assert!(client.read(lun, 0, 1).unwrap().is_good());
    assert!(begun.elapsed() >= Duration::from_millis(190), "{:?}", begun.elapsed());
    // The answer to this write is lost. The write was executed, and after its end an abort finds no task.
    target.volume(&["fault", "add", "drop-reply,on=SCSI-WRITE,times=1"]);
    let lost = client.send(lun, &cdb16(0x8a, false, 5, 1), Transfer::Write(&[5; 512])).unwrap();
    // The write and the read are open at the same time, and have no order.
    await_until("the write", Duration::from_secs(20), || (client.read(lun, 5, 1).unwrap().data == [5; 512]).then_some(()));
    await_until("no such task", Duration::from_secs(20), || {
        (client.manage(TaskFunction::AbortTask, lun, Some(lost)).unwrap() == 1).then_some(())
    });
    target.volume(&["fault", "add", "reset-call,on=SCSI-FLUSH,times=1"]);
    assert!(client.flush(lun).is_err());
    assert!(ready(&target, lun).read(lun, 5, 1).unwrap().is_good());
    let refused =
        millrace().args(["volume", "fault", "add", "drop-reply,on=SCSI-NOTHING", "--admin"]).arg(&target.admin).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn a_task_that_is_aborted_while_it_waits_for_the_medium_is_not_answered_and_the_abort_is() {
    let scratch = Scratch::new("iscsi-abort");
    let target = Target::start(&scratch, &[]);
    let lun = target.create("db", "1MiB", &[]);
    let mut client = ready(&target, lun);
    target.volume(&["fault", "add", "slow-flush,delay_ms=300,times=1"]);
    let slow = client.send(lun, &cdb16(0x8a, true, 0, 1), Transfer::Write(&[1; 512])).unwrap();
    let behind = client.send(lun, &cdb16(0x88, false, 9, 1), Transfer::Read(512)).unwrap();
    let response = client.manage(TaskFunction::AbortTask, lun, Some(slow)).unwrap();
    assert!(response <= 1, "done, or it had ended before: {response}");
    let _ = behind;
    for function in [TaskFunction::LogicalUnitReset, TaskFunction::TargetWarmReset] {
        assert_eq!(client.manage(function, lun, None).unwrap(), 0);
        assert_eq!(client.take_attentions(lun), [(6, 0x29, 0x03)], "BUS DEVICE RESET FUNCTION OCCURRED");
    }
    assert!(client.write(lun, 0, &[2; 512], true).unwrap().is_good());
}

#[test]
fn commands_take_as_long_as_on_the_modelled_medium_and_overlap_there() {
    let scratch = Scratch::new("iscsi-medium");
    let target = Target::start(&scratch, &["--medium", "service_ms=40,spindles=4"]);
    let lun = target.create("db", "4MiB", &[]);
    let mut client = ready(&target, lun);
    let begun = Instant::now();
    assert!(client.read(lun, 0, 16).unwrap().is_good());
    assert!(begun.elapsed() >= Duration::from_millis(20), "{:?}", begun.elapsed());
    // Serially the reads would take at least 2560 ms; overlapped they take a third. A busy host may
    // delay one attempt.
    let mut overlap = || {
        let begun = Instant::now();
        for nth in 0..64 {
            client.send(lun, &cdb16(0x88, false, nth * 120, 1), Transfer::Read(512)).unwrap();
        }
        let mut ended = 0;
        while ended < 64 {
            ended += client.next_ended(&|_| None).unwrap().len();
        }
        begun.elapsed() < Duration::from_millis(2560)
    };
    assert!((0..5).any(|_| overlap()));
}

#[test]
fn files_and_luns_of_one_volume_do_not_disturb_each_other() {
    let scratch = Scratch::new("iscsi-and-nfs");
    let target = Target::start(&scratch, &[]);
    let lun = target.create("db", "16MiB", &[]);
    let mut rng = Rng::new(3);
    std::thread::scope(|scope| {
        let files = scope.spawn(|| {
            let (address, query) = target.nfs().split_once('?').unwrap();
            for round in 0..4 {
                let source = scratch.path().join(format!("source{round}"));
                let bytes = Rng::new(round).bytes(4 << 20);
                std::fs::write(&source, &bytes).unwrap();
                let to = format!("{address}/copy{round}?{query}");
                succeed(millrace().args(["nfs", "cp"]).arg(&source).arg(&to));
                assert!(std::fs::read(target.export().join(format!("copy{round}"))).unwrap() == bytes, "round {round}");
            }
        });
        let mut client = ready(&target, lun);
        let mut known = vec![0; 16 << 20];
        let mut round = 0;
        while round < 40 || !files.is_finished() {
            let (lba, blocks) = (rng.below(32_000), 1 + rng.index(200));
            let data = rng.bytes(blocks * 512);
            assert!(client.write(lun, lba, &data, round % 4 == 0).unwrap().is_good());
            let start = lba as usize * 512;
            known[start..start + data.len()].copy_from_slice(&data);
            round += 1;
        }
        files.join().unwrap();
        for lba in (0..32_768).step_by(512) {
            let start = lba as usize * 512;
            assert!(client.read(lun, lba, 512).unwrap().data == known[start..start + 512 * 512], "at {lba}");
        }
    });
}

#[test]
fn fio_verifies_a_file_by_direct_nfs_and_a_lun_of_the_same_volume_at_the_same_time() {
    let scratch = Scratch::new("iscsi-and-nfs-fio");
    let Some(host) = Host::new(&scratch) else { return };
    if find_program("fio").is_none() {
        return skip("fio is not installed");
    }
    let target = Target::start(&scratch, &[]);
    let url = target.url(0, target.create("db", "64MiB", &[]));
    let attached = host.attach(&[&url]);
    let fio = |command: &mut Command, place: &str| {
        command.args([
            "--name=verified",
            "--rw=randrw",
            "--bs=4k-64k",
            "--size=48m",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
        ]);
        command.args(["--loops=2", place]).current_dir(scratch.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut on_lun = Command::new("fio");
    on_lun.args(["--direct=1", "--ioengine=libaio", "--iodepth=16"]);
    let mut on_file = millrace();
    on_file.args(["exec", "--mount", &format!("/millrace-fio={}", target.nfs()), "--", "fio", "--ioengine=psync", "--fsync=32"]);
    on_file.env("MILLRACE_RUNTIME_DIR", scratch.path().join("runtime-of-nfs"));
    let on_lun = fio(&mut on_lun, &format!("--filename={}", attached["device"].as_str().unwrap()));
    let on_file = fio(&mut on_file, "--directory=/millrace-fio");
    for (what, child) in [("LUN", on_lun), ("file", on_file)] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && text(&output).contains("err= 0"), "{what}: {}", text(&output));
    }
    host.detach(&url);
    assert_eq!(host.left(), Vec::<String>::new());
}

#[test]
fn metrics_count_commands_by_lun_and_by_initiator() {
    let scratch = Scratch::new("iscsi-metrics");
    let target = Target::start(&scratch, &["--metrics", "0"]);
    let lun = target.create("db", "1MiB", &[]);
    let mut client = ready(&target, lun);
    assert!(client.write(lun, 0, &[1; 4096], false).unwrap().is_good());
    (0..3).for_each(|_| assert!(client.read(lun, 0, 8).unwrap().is_good()));
    assert!(client.flush(lun).unwrap().is_good());
    let endpoint = target.ready["metrics"].as_str().unwrap().strip_prefix("http://").unwrap();
    let (address, path) = endpoint.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    for line in [
        "millrace_iscsi_sessions 1",
        "millrace_lun_size_bytes{lun=\"vol/db\"} 1048576",
        "millrace_lun_commands_total{lun=\"vol/db\",operation=\"read\"} 3",
        "millrace_lun_bytes_total{lun=\"vol/db\",operation=\"read\"} 12288",
        "millrace_lun_bytes_total{lun=\"vol/db\",operation=\"write\"} 4096",
        "millrace_lun_commands_total{lun=\"vol/db\",operation=\"flush\"} 1",
        "millrace_initiator_bytes_total{lun=\"vol/db\",initiator=\"iqn.2026-11.test:host\"} 16384",
    ] {
        assert!(page.lines().any(|found| found == line), "no {line}: {page}");
    }
    let listed = target.listed("db");
    assert_eq!(listed["sessions"][0]["initiator"], HOST);
    assert!(listed["commands"].as_u64().unwrap() >= 5, "{listed}");
}
