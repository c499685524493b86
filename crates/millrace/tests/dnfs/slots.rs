//! More files than the shared segment has slots for. Closed ones make room, whether written or not.

use crate::mounted::{MAKE, Mounted, READ_WRITE, at, open, try_open};
use crate::support::{find_program, millrace, preload_library, skip, succeed};
use dnfs::mount::OpenHow;
use dnfs::{Error, FsError};
use std::process::Command;

/// Number of slots for the tests: as many as get memory in one step.
const LEFT: u32 = 256;
const FILES: u32 = 2 * LEFT;
const READ: OpenHow = OpenHow { write: false, ..READ_WRITE };

fn mounted(label: &str, filer_options: &[&str], mount_options: &str) -> Mounted {
    let mounted = Mounted::with_query(label, filer_options, mount_options);
    mounted.mount.leave_slots(LEFT);
    mounted
}

/// Makes files on the server's host.
fn make_files(mounted: &Mounted) -> impl Iterator<Item = String> {
    for number in 0..FILES {
        std::fs::write(mounted.filer.export().join(number.to_string()), b"there before").unwrap();
    }
    (0..FILES).map(|number| number.to_string())
}

#[test]
fn more_files_than_slots_can_be_read_one_after_the_other() {
    let mounted = mounted("slots-read", &[], "");
    let names = make_files(&mounted);
    let kept = open(&mounted.mount, "7", &READ);
    for name in names {
        drop(open(&mounted.mount, &name, &READ_WRITE));
    }
    assert_eq!(kept.read(0, 100), b"there before");
    kept.mount.flush(kept.file, std::iter::empty()).unwrap();
    assert_eq!(mounted.filer.calls("COMMIT"), 0, "nothing was written here");
    kept.sync().unwrap();
    assert_eq!(mounted.filer.calls("COMMIT"), 1, "it may have been before the segment was made");
}

#[test]
fn more_files_than_slots_can_be_written_and_left_without_a_sync() {
    let mounted = mounted("slots-written", &[], "");
    let kept = open(&mounted.mount, "kept", &MAKE);
    kept.write(0, b"open");
    for number in 0..FILES {
        open(&mounted.mount, &number.to_string(), &MAKE).write(0, b"written");
    }
    let commits = mounted.filer.calls("COMMIT");
    assert!((1..u64::from(FILES)).contains(&commits), "{commits}: for what needs a slot, not for all");
    for number in 0..FILES {
        mounted.mount.unlink(&at(&mounted.mount, &number.to_string())).unwrap();
    }
    assert!(mounted.mount.sync_all().is_ok());
    assert_eq!(mounted.host_names(), ["kept"]);
}

#[test]
fn files_that_another_host_removed_before_they_were_committed_keep_no_slot() {
    let mounted = mounted("slots-gone", &[], "");
    for number in 0..FILES {
        open(&mounted.mount, &number.to_string(), &MAKE).write(0, b"written");
        std::fs::remove_file(mounted.filer.export().join(number.to_string())).unwrap();
    }
}

#[test]
fn slots_of_lost_writes_are_kept_until_somebody_was_told() {
    let mounted = mounted("slots-lost", &["--loss-layer"], "&retain=0");
    let files: Vec<String> = (0..LEFT).map(|number| number.to_string()).collect();
    for name in &files {
        open(&mounted.mount, name, &MAKE).write(0, b"written");
    }
    mounted.power_cut();
    assert!(try_open(&mounted.mount, "one more", &MAKE).is_err());
    let lost = open(&mounted.mount, "0", &READ_WRITE);
    assert!(matches!(lost.sync(), Err(Error::Fs(FsError::WritesLost))));
    drop(lost);
    drop(open(&mounted.mount, "one more", &MAKE));
}

/// A million files, half of which are written: `make nightly`.
#[test]
#[ignore = "nightly: a million files take an hour"]
fn a_million_files_opened_and_closed_by_one_process_work() {
    let Some(python) = find_program("python3") else { return skip("no python3") };
    let mounted = Mounted::new("slots-million", &["--durability", "battery"]);
    let script = r#"
import os, sys
for number in range(int(sys.argv[1])):
    if number % 1000 == 0: os.mkdir(f"/db/{number // 1000}")
    fd = os.open(f"/db/{number // 1000}/{number}", os.O_RDWR | os.O_CREAT)
    if number % 2: os.write(fd, b"data")
    os.close(fd)
for number in range(0, int(sys.argv[1]), 7):
    fd = os.open(f"/db/{number // 1000}/{number}", os.O_RDONLY)
    assert os.read(fd, 10) == (b"data" if number % 2 else b""), number
    os.close(fd)
"#;
    for close in ["commit", "nothing"] {
        let mut command = Command::new(millrace().get_program());
        command.env("MILLRACE_PRELOAD", preload_library()).current_dir("/");
        command.args(["exec", "--mount", &format!("/db={}&close={close}", mounted.filer.url), "--"]);
        succeed(command.arg(&python).args([
            "-c",
            script,
            &crate::support::environment_number("MILLRACE_FILES").unwrap_or(1_000_000).to_string(),
        ]));
        succeed(Command::new("find").arg(mounted.filer.export()).args(["-mindepth", "1", "-delete"]));
    }
}
