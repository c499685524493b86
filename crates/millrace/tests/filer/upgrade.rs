//! What other versions of Millrace stored. The filer reads and keeps the records of an older
//! version. It refuses those of a newer one by name, and changes nothing. (For the shared segment
//! with another layout, see a row of docs/errors.md, and `segment::attach`.)
//!
//! The fixtures in `records/` are of the oldest version that wrote each form. That version measured
//! `first-slice.json`. The filer's file is the first that was shipped, with free ports and a
//! scratch directory. The key in the volume's records was made for this test.

use crate::support::configured::{Configured, serve};
use crate::support::filer::Filer;
use crate::support::{Scratch, millrace, succeed, text};
use std::path::Path;
use std::process::{Command, Output};

const RECORD: &str = include_str!("../records/first-slice.json");
const FILER: &str = include_str!("../records/filer-first.toml");
const STATE: &str = include_str!("../records/volume-state-of-five-lines");
const NEWER_STATE: &str = include_str!("../records/volume-state-of-version-2");

/// Asserts that the command ended with code 2 and printed all these parts.
fn refused(output: &Output, parts: &[&str]) {
    let said = text(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
}

fn line<'a>(record: &'a str, name: &str) -> &'a str {
    record.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {record}"))
}

#[test]
fn volume_record_of_an_older_version_is_served_and_keeps_identity_key_and_epoch() {
    let scratch = Scratch::new("upgrade-state");
    let file = scratch.folder("state").join("volume-state");
    std::fs::write(&file, STATE).unwrap();
    let mut filer = Filer::start(&scratch, &[]);
    std::fs::write(filer.export().join("file"), "there before").unwrap();
    let before = succeed(millrace().args(["nfs", "cat", &filer.url.replace("/vol", "/vol/file")]));
    assert_eq!(before, "there before");
    assert_eq!(filer.stop(), Some(0));
    let now = std::fs::read_to_string(&file).unwrap();
    for name in ["millrace-volume-state 1", "id ", "key ", "loss-epoch "] {
        assert_eq!(line(&now, name), line(STATE, name));
    }
    assert_eq!(line(&now, "stop "), "stop clean");
    // Another restart, by the version that wrote the newer form, keeps the verifier's boot.
    filer.restart();
    assert_eq!(line(&std::fs::read_to_string(&file).unwrap(), "verifier-boot "), line(&now, "verifier-boot "));
}

#[test]
fn volume_record_of_a_newer_version_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new("downgrade-state");
    let (export, state) = (scratch.folder("export"), scratch.folder("state"));
    let file = state.join("volume-state");
    std::fs::write(&file, NEWER_STATE).unwrap();
    let output = millrace().arg("serve").arg(&export).args(["--listen", "0", "--state"]).arg(&state).output().unwrap();
    refused(&output, &[file.to_str().unwrap(), "version 2", "version 1"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), NEWER_STATE);
    assert!(export.read_dir().unwrap().next().is_none());
}

#[test]
fn first_configuration_of_the_filer_is_served_as_it_is() {
    let scratch = Scratch::new("upgrade-config");
    let (file, here) = (scratch.path().join("filer.toml"), scratch.path().to_str().unwrap());
    std::fs::write(scratch.folder("data").join("file"), "served").unwrap();
    std::fs::write(&file, FILER.replace("DIR", here)).unwrap();
    let filer = Configured::spawn(file.clone(), serve(&file));
    let url = format!("nfs://127.0.0.1:{0}/data/file?nfsport={0}&mountport={0}", filer.port(0));
    assert_eq!(succeed(millrace().args(["nfs", "cat", &url])), "served");
}

#[test]
fn configuration_of_a_newer_version_is_refused_by_the_key_and_nothing_is_made() {
    let scratch = Scratch::new("downgrade-config");
    let file = scratch.path().join("filer.toml");
    scratch.folder("data");
    let newer =
        FILER.replace("DIR", scratch.path().to_str().unwrap()).replace("squash = \"root\"", "squash = \"root\"\nmirrors = 2");
    std::fs::write(&file, &newer).unwrap();
    refused(&serve(&file).output().unwrap(), &[file.to_str().unwrap(), ":15: ", "mirrors"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), newer);
    assert!(!scratch.path().join("state").exists() && !scratch.path().join("admin.sock").exists());
}

/// A comparison's directory with this record.
fn results(scratch: &Scratch, name: &str, record: &str) -> std::path::PathBuf {
    let folder = scratch.folder(name);
    std::fs::write(folder.join("results.json"), record).unwrap();
    folder
}

fn reading(command: &str, folders: &[&Path]) -> Command {
    let mut reading = millrace();
    reading.arg(command).args(folders);
    reading
}

#[test]
fn first_record_of_a_comparison_is_rendered_and_compared_with_one_that_has_later_fields() {
    let scratch = Scratch::new("upgrade-results");
    let later = RECORD.replacen("\"schema\": 1,", "\"schema\": 1,\n  \"weather\": {\"outside\": \"rain\"},", 1);
    assert_ne!(later, RECORD);
    let (first, later) = (results(&scratch, "first", RECORD), results(&scratch, "later", &later));
    for folder in [&first, &later] {
        succeed(&mut reading("report", &[folder]));
        assert!(std::fs::read_to_string(folder.join("report.html")).unwrap().contains("Direct NFS did 71 %"));
    }
    succeed(&mut reading("diff", &[&first, &later]));
    assert_eq!(std::fs::read_to_string(first.join("results.json")).unwrap(), RECORD, "reading changed the record");
}

#[test]
fn record_of_a_newer_schema_is_refused_by_its_number_and_nothing_is_written() {
    let scratch = Scratch::new("downgrade-results");
    let first = results(&scratch, "first", RECORD);
    let newer = results(&scratch, "newer", &RECORD.replacen("\"schema\": 1,", "\"schema\": 2,", 1));
    refused(&reading("report", &[&newer]).output().unwrap(), &["schema 2", "hint: ", "schema 1"]);
    refused(&reading("diff", &[&first, &newer]).output().unwrap(), &["schema 2"]);
    refused(&reading("predict", &[&newer]).args(["--users", "9"]).output().unwrap(), &["schema 2"]);
    refused(&reading("shapes", &[&newer]).output().unwrap(), &["schema 2"]);
    assert_eq!(newer.read_dir().unwrap().count(), 1);
}

#[test]
fn plan_of_a_newer_schema_is_refused_by_its_number() {
    let scratch = Scratch::new("downgrade-plan");
    let plan = scratch.path().join("plan.toml");
    std::fs::write(&plan, "schema = 2\n").unwrap();
    let output = millrace().args(["compare", "--dry-run"]).arg(&plan).output().unwrap();
    refused(&output, &["schema 2", "schema 1"]);
}
