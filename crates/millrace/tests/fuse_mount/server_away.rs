//! A server that stops answering while programs use the mount.

use crate::mounted::{Mounted, is_alive, is_mounted};
use crate::support::filer::Filer;
use crate::support::{Scratch, await_until, find_program, skip, succeed, text};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Until its stdin ends, writes blocks that contain their number, with an fsync after each 16th.
/// Then it prints how many.
const WRITER: &str = r#"
import os, select, sys
f = os.open("f", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
number = 0
while not select.select([0], [], [], 0)[0]:
    os.pwrite(f, number.to_bytes(8, "little") * 1024, number * 8192)
    if number % 16 == 0: os.fsync(f)
    number += 1
os.close(f)
print(number)
"#;

#[test]
fn writes_go_on_over_restarts_of_the_filer_and_each_is_there() {
    let Some(mut mounted) = Mounted::new("fuse-restarts") else { return };
    // The writer is a process of its own. If this test had the file open for writing, the filer
    // that it starts would close its copy of the descriptor, and that close would wait for the
    // filer.
    let mut writer = Command::new("python3");
    writer.args(["-c", WRITER]).current_dir(&mounted.directory);
    let mut writer = writer.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let path = mounted.filer().export().join("f");
    let written = || path.metadata().map_or(0, |found| found.len() / 8192);
    for _ in 0..4 {
        let before = written();
        await_until("fifty writes", Duration::from_secs(60), || (written() > before + 50).then_some(()));
        mounted.world.filer.kill();
        mounted.world.filer.restart();
    }
    drop(writer.stdin.take());
    let output = writer.wait_with_output().unwrap();
    assert!(output.status.success());
    let found = mounted.world.exported("f");
    for (number, block) in (0u64..).zip(found.chunks(8192)) {
        assert_eq!(block, number.to_le_bytes().repeat(1024), "block {number}");
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), (found.len() / 8192).to_string());
}

#[test]
fn who_waits_for_the_server_can_be_killed_and_others_go_on_when_it_is_back() {
    let Some(mut mounted) = Mounted::new("fuse-kill-waiting") else { return };
    std::fs::write(mounted.path("f"), "content").unwrap();
    mounted.world.filer.kill();
    // More programs than the mount serves at the same time, so that some wait for a thread.
    let mut children: Vec<_> =
        (0..80).map(|_| Command::new("cat").arg(mounted.path("f")).stdout(Stdio::piped()).spawn().unwrap()).collect();
    let patient = children.pop().unwrap();
    for child in &children {
        let waits = || {
            std::fs::read_to_string(format!("/proc/{}/wchan", child.id()))
                .is_ok_and(|place| place.contains("fuse") || place == "request_wait_answer")
                .then_some(())
        };
        await_until("a program to wait for the mount", Duration::from_secs(20), waits);
    }
    let begun = Instant::now();
    for child in &mut children {
        child.kill().unwrap();
    }
    for mut child in children {
        assert!(!child.wait().unwrap().success());
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // A program that was stopped and continued still waits.
    succeed(Command::new("kill").args(["-STOP", &patient.id().to_string()]));
    succeed(Command::new("kill").args(["-CONT", &patient.id().to_string()]));
    mounted.world.filer.restart();
    assert_eq!(patient.wait_with_output().unwrap().stdout, b"content");
    File::create(mounted.path("g")).unwrap().write_all(b"after").unwrap();
    assert_eq!(mounted.world.exported("g"), b"after");
}

#[test]
#[ignore = "nightly: fio by each engine, twenty seconds"]
fn fio_verifies_what_it_wrote_by_each_engine() {
    let Some(mounted) = Mounted::new("fuse-fio") else { return };
    let Some(fio) = find_program("fio") else { return skip("no fio") };
    for engine in ["psync", "libaio"] {
        let mut command = Command::new(&fio);
        command.args(["--name=verify", "--size=64m", "--bs=8k", "--rw=randrw", "--iodepth=8", "--direct=1", "--fsync=64"]);
        command.args([
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            "--time_based",
            "--runtime=10",
            "--output-format=terse",
        ]);
        command.arg(format!("--ioengine={engine}")).arg(format!("--filename=fio.{engine}")).current_dir(&mounted.directory);
        succeed(&mut command);
    }
}

#[test]
fn a_mount_is_taken_away_while_its_server_is_away() {
    let Some(mut mounted) = Mounted::new("fuse-unmount-away") else { return };
    std::fs::write(mounted.path("f"), "x").unwrap();
    mounted.world.filer.kill();
    let done = mounted.unmount();
    assert!(done.status.success(), "{}", text(&done));
    assert!(!is_mounted(&mounted.directory) && !is_alive(mounted.pid));
}

#[test]
fn another_volume_under_the_path_is_reached_by_name_and_open_files_of_the_old_one_are_stale() {
    let Some(mut mounted) = Mounted::new("fuse-replaced") else { return };
    std::fs::write(mounted.path("f"), "old").unwrap();
    let mut held = File::open(mounted.path("f")).unwrap();
    mounted.world.filer.kill();
    let other = Scratch::new("fuse-replacement");
    std::fs::write(other.folder("export").join("f"), "new").unwrap();
    let _filer = Filer::start_on(&other, mounted.filer().port, &[]);
    assert_eq!(std::fs::read(mounted.path("f")).unwrap(), b"new");
    let refused = held.read(&mut [0; 3]).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::STALE.raw_os_error()));
    std::fs::write(mounted.path("g"), "made").unwrap();
    let stored = other.path().join("export/g");
    assert_eq!(std::fs::read(&stored).unwrap(), b"made");
    assert_eq!(inode(&mounted.path("g")), inode(&stored), "as before: the files of the root's file system keep their numbers");
}

fn inode(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap())
}
