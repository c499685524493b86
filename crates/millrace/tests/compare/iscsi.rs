//! `millrace compare` on LUNs: figures and proof, and no LUN stays attached, however a comparison ends.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::attached::take_away;
use crate::support::compare::{Place, postgres_is_here};
use crate::support::postgres::as_database_user;
use crate::support::{Scratch, await_until, find_program, millrace, skip, skip_unsupported, succeed, text};
use results::compare::PathStatus;

/// Whether this host can attach LUNs. Prints a message if not.
fn luns_are_here() -> bool {
    let output = millrace().arg("doctor").output().unwrap();
    let line = text(&output).lines().find(|line| line.contains("iscsi")).unwrap().to_owned();
    let here = line.starts_with("ok");
    if !here {
        skip_unsupported(&line);
    }
    here
}

/// Whether this host can make and mount btrfs. Prints a message if not.
fn btrfs_is_here() -> bool {
    let _ = Command::new("modprobe").args(["-q", "btrfs"]).status();
    if !std::fs::read_to_string("/proc/filesystems").unwrap().contains("\tbtrfs") {
        skip_unsupported("this kernel has no btrfs");
        return false;
    }
    let here = find_program("mkfs.btrfs").is_some();
    if !here {
        skip("mkfs.btrfs is not installed");
    }
    here
}

/// The mounts below the place, and the loop devices on files there.
fn attached(place: &Place) -> Vec<String> {
    let work = place.work().display().to_string();
    let lines = |text: String| text.lines().filter(|line| line.contains(&work)).map(str::to_owned).collect::<Vec<_>>();
    let loops = Command::new("losetup").arg("--all").output().unwrap();
    [lines(std::fs::read_to_string("/proc/mounts").unwrap()), lines(String::from_utf8_lossy(&loops.stdout).into_owned())].concat()
}

/// A place. Dropping it detaches its LUNs first, so that the removal of its files waits for no LUN
/// whose filer has ended.
struct Attaching(Place);

impl Drop for Attaching {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.0.work()).into_iter().flatten().flatten() {
            take_away(&entry.path().join("attached"));
        }
    }
}

/// Starts a long comparison and sends it a signal while it measures. Returns its pid and exit code.
fn signalled(place: &Place, signal: &str) -> (u32, Option<i32>) {
    let arguments = ["--paths", "iscsi", "--quick", "--seconds", "600", "--budget", "1h"];
    let mut child = place.compare(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.contains("measuring 600 s")), "never came to measuring");
    assert_eq!(attached(place).len(), 3, "the FUSE file system, its loop device, and ext4 on it: {:?}", attached(place));
    succeed(Command::new("kill").args([signal, &pid.to_string()]));
    std::thread::spawn(move || lines.for_each(drop));
    let status = await_until("compare to end", Duration::from_secs(120), || child.try_wait().unwrap());
    (pid, status.code())
}

#[test]
#[ignore = "nightly: two comparisons, a minute and a half"]
fn luns_are_measured_and_those_that_a_killed_comparison_left_are_taken_away_first() {
    if !postgres_is_here() || !luns_are_here() {
        return;
    }
    let attaching = Attaching(Place::new());
    let place = &attaching.0;
    assert_eq!(signalled(place, "-KILL").1, None);
    assert!(!attached(place).is_empty(), "nobody has cleaned up yet");
    std::fs::remove_dir_all(place.out()).unwrap();

    let mut child = place.compare(&["--paths", "iscsi", "--quick", "--users", "2", "--tuning", "untuned,tuned"]);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let all = text(&output);
    assert_eq!(output.status.code(), Some(0), "{all}");
    assert!(all.contains("left by a comparison that was killed"), "{all}");
    assert_eq!(attached(place), Vec::<String>::new());
    place.assert_nothing_left(pid);

    let record = place.record();
    assert!(
        record.valid && record.verdict.contains("iscsi/fuse-loop") && !record.verdict.contains("iSCSI"),
        "{}",
        record.verdict
    );
    assert!(record.notes.iter().any(|note| note.contains("millrace iscsi bench measures the protocol")), "{:?}", record.notes);
    assert_eq!(record.tunings["tuned"]["iscsi.depth"], "128");
    for path in &record.paths {
        let (run, proof, checks) = (&path.runs[0], path.proof.as_ref().unwrap(), path.checks.as_ref().unwrap());
        assert!(!proof.has_failed() && proof.database_read_bytes > 1 << 20, "{proof:?}");
        // The target counts the reads of the path, from before the driver connected. Reads from its
        // page cache are not in this count.
        assert_eq!(proof.kind.as_str(), "target_reads");
        assert!(proof.path_read_bytes >= run.filer["SCSI-READ"].bytes, "{proof:?} {:?}", run.filer);
        let carried_all = proof.path_read_bytes as f64 >= 0.95 * proof.database_read_bytes as f64;
        assert_eq!((proof.passed, proof.not_proven.is_none()), (carried_all, carried_all), "{proof:?}");
        let traffic = path.traffic.as_ref().unwrap();
        assert_eq!((traffic.source.as_str(), traffic.read_bytes), ("filer", run.filer["SCSI-READ"].bytes));
        assert!(traffic.log_flush_ms > Some(0.0), "{traffic:?}");
        assert_eq!((checks.passed, checks.failed), (12, 0), "{checks:?}");
        for command in ["SCSI-READ", "SCSI-WRITE", "SCSI-FLUSH"] {
            assert!(run.filer[command].calls > 0, "{command}: {:?}", run.filer);
        }
        assert!(run.cpu["database"].user_s > 0.0 && run.cpu["filer"].user_s > 0.0, "{:?}", run.cpu);
        assert_eq!(run.durability.as_ref().unwrap().as_str(), "sync");
    }
}

#[test]
#[ignore = "nightly: half a minute, and another cluster"]
fn ctrl_c_while_measuring_leaves_nothing_attached() {
    if !postgres_is_here() || !luns_are_here() {
        return;
    }
    let attaching = Attaching(Place::new());
    let place = &attaching.0;
    let (pid, code) = signalled(place, "-INT");
    assert_eq!(code, Some(130));
    assert_eq!(attached(place), Vec::<String>::new());
    place.assert_nothing_left(pid);
}

#[test]
fn without_root_luns_are_not_measured_and_doctor_says_what_to_do() {
    let scratch = Scratch::new("compare-unprivileged");
    // The database's user may not search the directory of the build.
    let program = scratch.path().join("millrace");
    std::fs::copy(millrace().get_program(), &program).unwrap();
    succeed(Command::new("chmod").args(["-R", "a+rX"]).arg(scratch.path()));
    let output = as_database_user(&program).arg("doctor").output().unwrap();
    let all = text(&output);
    let line = all.lines().find(|line| line.contains("iscsi/fuse-loop")).unwrap_or_else(|| panic!("{all}"));
    assert!(line.starts_with("NO ") && line.contains("needs root; run it as root"), "{line}");
}

#[test]
#[ignore = "nightly: a comparison with a cluster of its own, half a minute"]
fn a_file_system_over_two_luns_is_measured_on_path_iscsi_and_skipped_on_others() {
    if !postgres_is_here() || !luns_are_here() || !btrfs_is_here() {
        return;
    }
    let attaching = Attaching(Place::new());
    let place = &attaching.0;
    let mut child =
        place.compare(&["--paths", "local,iscsi", "--layout", "luns=2", "--quick", "--users", "2", "--warehouses", "1"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.contains("measuring ")), "never came to measuring");
    let running = attached(place);
    assert_eq!(running.len(), 5, "two FUSE file systems, their loop devices, and btrfs on both: {running:?}");
    assert_eq!(running.iter().filter(|line| line.contains(" btrfs rw")).count(), 1, "{running:?}");
    let rest: Vec<String> = lines.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}\n{}", text(&output), rest.join("\n"));
    assert_eq!(attached(place), Vec::<String>::new());
    place.assert_nothing_left(pid);

    let record = place.record();
    assert!(record.valid && record.verdict.contains("iscsi/fuse-loop (btrfs over 2 LUNs)"), "{}", record.verdict);
    let [local, luns] = &record.paths[..] else { panic!("{:?}", record.paths) };
    assert_eq!((local.status, local.reason.as_deref()), (PathStatus::Skipped, Some("layout luns=N is of path iscsi")));
    assert!(luns.layout.as_ref().unwrap().contains("btrfs over 2 LUNs"), "{:?}", luns.layout);
    assert!(!luns.proof.as_ref().unwrap().has_failed() && luns.checks.as_ref().unwrap().passed == 12, "{luns:?}");
    let page = std::fs::read_to_string(place.out().join("report.html")).unwrap();
    assert!(page.contains("btrfs over 2 LUNs, loop device"));
}
