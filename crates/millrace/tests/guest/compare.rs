//! `millrace compare --guest`: the kernel's clients, Millrace's and the local disk in one guest;
//! and what a killed comparison leaves.

use crate::booted::{cache, can_boot, facts_in};
use crate::support::compare::{Place, postgres_is_here};
use crate::support::text;
use results::compare::PathStatus;

/// The record's warning about the figures of a guest: one label if the guest's CPU is emulated,
/// another if KVM runs it.
const LABELS: [&str; 2] =
    ["emulated CPU: compare shapes and counts only", "virtual machine: not comparable with this host's own figures"];

#[test]
#[ignore = "nightly: a database is loaded and measured five times by an emulated processor, twenty minutes"]
fn the_kernels_clients_are_measured_and_proved_in_a_guest_whose_record_says_that_it_was_one() {
    if !postgres_is_here() || !can_boot(&["mount.nfs", "mkfs.ext4", "iscsid", "multipathd"]) {
        return;
    }
    let place = Place::new();
    let kernel = cache().display().to_string();
    let arguments = ["--guest", "--guest-cache", &kernel, "--paths", "local,dnfs,knfs,iscsi,fc", "--quick"];
    let mut command = place.compare(&arguments);
    command.args(["--warehouses", "1", "--users", "4", "--seconds", "60"]);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let all = text(&output);
    assert_eq!(output.status.code(), Some(0), "{all}");
    place.assert_nothing_left(pid);

    let record = place.record();
    let label = record.environment.guest.as_deref().unwrap();
    assert!(LABELS.contains(&label) && record.valid, "{label}: {}", record.verdict);
    let page = std::fs::read_to_string(place.out().join("report.html")).unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(record.verdict.contains(label) && printed.contains(label) && page.contains(label), "{printed}");
    assert_eq!(record.not_a_result[0], label);

    for path in &record.paths {
        assert_eq!(path.status, PathStatus::Measured, "{path:?}");
        assert!(!path.proof.as_ref().unwrap().has_failed() && path.checks.as_ref().unwrap().passed == 12, "{path:?}");
    }
    let find = |name: &str| record.paths.iter().find(|path| path.name == name).unwrap();
    for (name, client) in [("iscsi", "open-iscsi"), ("fc", "software-fcoe")] {
        let (path, run) = (find(name), &find(name).runs[0]);
        assert_eq!(path.client.as_deref(), Some(client));
        let carried = path.proof.as_ref().unwrap().carried.as_ref().unwrap();
        assert!(&*carried.source == "diskstats" && carried.written_bytes > 1 << 16, "{carried:?}");
        assert_eq!(carried.server_written_bytes.is_some(), name == "iscsi");
        assert!(run.slot_use.as_ref().unwrap().slots == 64 && run.wire.is_some(), "two paths of 32 commands: {run:?}");
    }
    assert!(page.contains("never ranked against iSCSI"));
    let knfs = find("knfs");
    let (run, proof) = (&knfs.runs[0], knfs.proof.as_ref().unwrap());
    let carried = proof.carried.as_ref().unwrap();
    assert_eq!((proof.kind.as_str(), &*carried.source), ("mount_reads", "mountstats"));
    assert!(carried.written_bytes > 1 << 16 && carried.server_written_bytes.is_some(), "{carried:?}");
    assert!(run.client["WRITE"].calls > 0 && run.filer["WRITE"].calls > 0, "{:?}", run.client);
    assert!(run.slot_use.as_ref().unwrap().slots > 0 && run.wire.is_some(), "{run:?}");
}

#[test]
#[ignore = "nightly: a database is loaded and measured by an emulated processor, minutes"]
fn one_volume_is_mounted_by_two_addresses_and_tables_are_read_by_both() {
    if !postgres_is_here() || !can_boot(&["mount.nfs", "mkfs.ext4"]) {
        return;
    }
    let place = Place::new();
    let kernel = cache().display().to_string();
    let arguments = ["--guest", "--guest-cache", &kernel, "--paths", "knfs", "--layout", "mounts=2", "--quick"];
    let mut command = place.compare(&arguments);
    let output = command.args(["--warehouses", "1", "--users", "4", "--seconds", "30"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let record = place.record();
    let [path] = record.paths.as_slice() else { panic!("{:?}", record.paths) };
    assert!(path.proof.as_ref().unwrap().passed && path.checks.as_ref().unwrap().passed == 12, "{path:?}");
    assert_eq!(path.layout_name.as_deref(), Some("mounts=2"));
    let run = &path.runs[0];
    assert_eq!(run.read_bytes_by_volume.len(), 2, "{run:?}");
    assert!(run.read_bytes_by_volume.values().all(|bytes| *bytes > 1 << 20), "{run:?}");
}

#[test]
#[ignore = "nightly: a database is loaded and measured five times by an emulated processor, twenty minutes"]
fn without_the_option_all_paths_are_measured_by_a_kernel_that_has_the_clients() {
    if !postgres_is_here() || !can_boot(&["mount.nfs", "mkfs.ext4", "iscsid", "multipathd"]) {
        return;
    }
    let place = Place::new();
    let (program, out) = (env!("CARGO_BIN_EXE_millrace").to_owned(), place.out().display().to_string());
    std::fs::create_dir_all(place.out()).unwrap();
    let options = ["--timeout", "90m", "--memory", "6GiB", "--share", &out];
    let words = "--quick --warehouses 1 --users 4 --seconds 60".split(' ').map(str::to_owned);
    let arguments: Vec<String> = [program, out.clone()].into_iter().chain(words).collect();
    let facts = facts_in(&options, "native.sh", &arguments, |wish| panic!("{wish}"));
    assert_eq!(["left", "sessions", "mounts"].map(|name| facts[name].trim()), ["lost+found", "0", "0"]);

    let record = place.record();
    assert!(record.valid && record.environment.guest.is_some(), "{}", record.verdict);
    let measured: Vec<&str> =
        record.paths.iter().filter(|path| path.status == PathStatus::Measured).map(|path| path.name.as_str()).collect();
    assert_eq!(measured, ["local", "dnfs", "knfs", "iscsi", "fc"], "{:?}", record.paths);
    for path in &record.paths {
        assert!(path.proof.as_ref().unwrap().passed && path.checks.as_ref().unwrap().passed == 12, "{path:?}");
    }
    let clients = ["iscsi", "fc"].map(|name| record.paths.iter().find(|path| path.name == name).unwrap().client.clone());
    assert_eq!(clients, [Some("open-iscsi".to_owned()), None], "the device of fc was named");
}

#[test]
#[ignore = "nightly: a database is loaded and measured twice by an emulated processor, ten minutes"]
fn the_export_of_another_server_is_measured_by_version_3_and_by_version_4_1() {
    if !postgres_is_here() || !can_boot(&["mount.nfs", "mkfs.ext4", "ganesha.nfsd", "rpcbind"]) {
        return;
    }
    let place = Place::new();
    let (program, out) = (env!("CARGO_BIN_EXE_millrace").to_owned(), place.out().display().to_string());
    std::fs::create_dir_all(place.out()).unwrap();
    let options = ["--timeout", "60m", "--memory", "6GiB", "--share", &out];
    let words = "--quick --warehouses 1 --users 4 --seconds 30".split(' ').map(str::to_owned);
    let arguments: Vec<String> = [program, out.clone()].into_iter().chain(words).collect();
    let facts = facts_in(&options, "ganesha.sh", &arguments, |wish| panic!("{wish}"));
    assert_eq!((facts["versions"].trim(), &*facts["left"]), ("vers=3 vers=4.1", "0"));
    let record = place.record();
    assert!(record.valid && record.paths.len() == 2, "{}", record.verdict);
    for path in &record.paths {
        assert_eq!(path.status, PathStatus::Measured, "{path:?}");
        assert!(path.proof.as_ref().unwrap().passed && path.checks.as_ref().unwrap().passed == 12, "{path:?}");
    }
}

#[test]
#[ignore = "nightly: boots a guest for one to three minutes"]
fn what_a_killed_comparison_left_logged_in_is_taken_away_by_the_next_one_and_nothing_of_the_users() {
    if !postgres_is_here() || !can_boot(&["mkfs.ext4", "iscsid", "multipathd"]) {
        return;
    }
    let program = env!("CARGO_BIN_EXE_millrace").to_owned();
    let facts = facts_in(&["--timeout", "10m", "--memory", "3GiB"], "leftovers.sh", &[program], |wish| panic!("{wish}"));
    assert_eq!(&*facts["paths"], "2", "it was mounted over both portals");
    assert_eq!((&*facts["left"], facts["nodes"].trim()), ("none", "192.0.2.1:3260,1 iqn.2026-11.test:other"));
}
