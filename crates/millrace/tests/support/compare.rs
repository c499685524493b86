//! Shared by tests of `millrace compare`: a place to work in, and the check that nothing is left in it.

use super::{Scratch, millrace, skip, text};
use results::compare::Comparison;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether the processors may be kept awake. Some containers do not allow it.
pub fn may_keep_awake() -> bool {
    std::fs::OpenOptions::new().write(true).open("/dev/cpu_dma_latency").is_ok()
}

/// A directory to work in and a directory for records, for this test alone.
pub struct Place {
    scratch: Scratch,
}

impl Place {
    pub fn new() -> Self {
        let place = Self { scratch: Scratch::new("compare") };
        place.scratch.folder("work");
        place
    }

    pub fn work(&self) -> PathBuf {
        self.scratch.path().join("work")
    }

    pub fn out(&self) -> PathBuf {
        self.scratch.path().join("results").join("one")
    }

    pub fn compare(&self, arguments: &[&str]) -> Command {
        let mut command = millrace();
        command.arg("compare").args(arguments).arg("--work").arg(self.work()).arg("--out").arg(self.out());
        command
    }

    /// The stored record.
    pub fn record(&self) -> Comparison {
        serde_json::from_str(&std::fs::read_to_string(self.out().join("results.json")).unwrap()).unwrap()
    }

    /// Asserts that there is no file in the work place or in /dev/shm, and no process that names
    /// the work place.
    pub fn assert_nothing_left(&self, pid: u32) {
        let left: Vec<_> = std::fs::read_dir(self.work()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        let mark = format!("millrace-compare-{pid}-");
        let shared = std::fs::read_dir("/dev/shm").unwrap().flatten();
        let shared: Vec<_> = shared.filter(|entry| entry.file_name().to_string_lossy().contains(&mark)).collect();
        assert!(shared.is_empty(), "left behind: {shared:?}");
        let processes = processes_that_name(&self.work());
        assert!(processes.is_empty(), "still running: {processes:?}");
    }
}

fn processes_that_name(path: &Path) -> Vec<String> {
    let path = path.to_str().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        // Another test's audit of this host queries each server for its settings.
        if line.contains(path) && !line.contains("postgres -C ") {
            found.push(format!("{}: {line}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

/// Process numbers of the filers that serve below a directory.
pub fn filers_below(directory: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let serves = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<String> = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        words.get(1).is_some_and(|word| word == "serve")
            && words.get(2).is_some_and(|served| directory.to_str().is_some_and(|place| served.starts_with(place)))
    };
    pids.filter(serves).collect()
}

/// Whether there is a PostgreSQL to compare on. Prints a message if not.
pub fn postgres_is_here() -> bool {
    let output = millrace().arg("doctor").output().unwrap();
    let here = text(&output).lines().any(|line| line.starts_with("ok") && line.contains("PostgreSQL"));
    if !here {
        skip("no PostgreSQL server programs, compare can't be measured");
    }
    here
}
