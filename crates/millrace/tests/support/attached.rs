//! LUNs as block devices of this host, by `millrace iscsi attach` and Millrace's own initiator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Scratch, await_until, find_program, is_root, millrace, millrace_inside, skip_unsupported, text};

/// The state of `millrace iscsi` on this host. Dropping it detaches everything.
pub struct Host {
    pub runtime: PathBuf,
    /// The process from whose network namespace LUNs are reached.
    inside: Option<u32>,
}

impl Host {
    /// `None`, with a message, if this host cannot have such block devices.
    pub fn new(scratch: &Scratch) -> Option<Self> {
        let has = |node: &str| Path::new(node).exists();
        if !is_root() || !has("/dev/fuse") || !has("/dev/loop-control") || find_program("losetup").is_none() {
            skip_unsupported("no root, /dev/fuse, loop devices or losetup");
            return None;
        }
        Some(Self { runtime: scratch.folder("runtime"), inside: None })
    }

    /// Reaches LUNs from the network namespace of this process.
    pub fn inside(mut self, pid: u32) -> Self {
        self.inside = Some(pid);
        self
    }

    pub fn iscsi(&self, arguments: &[&str]) -> Output {
        let mut command = self.inside.map_or_else(millrace, millrace_inside);
        // Always with Millrace's initiator, no matter what else this host has.
        let client: &[&str] = if arguments.first() == Some(&"attach") { &["--client", "millrace"] } else { &[] };
        command.arg("iscsi").args(arguments).args(client).env("MILLRACE_RUNTIME_DIR", &self.runtime).output().unwrap()
    }

    pub fn attach(&self, arguments: &[&str]) -> Value {
        let output = self.iscsi(&[&["attach", "--json"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a command that must fail. Returns its output and exit code.
    pub fn refused(&self, arguments: &[&str]) -> (String, Option<i32>) {
        let output = self.iscsi(arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", text(&output));
        (text(&output), output.status.code())
    }

    pub fn detach(&self, which: &str) {
        let output = self.iscsi(&["detach", which]);
        assert!(output.status.success(), "{which}: {}", text(&output));
    }

    pub fn list(&self) -> Vec<Value> {
        let output = self.iscsi(&["list", "--json"]);
        assert!(output.status.success(), "{}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What is left of anything that was attached: mounts, loop devices, state, processes. A
    /// program that has done its work may take a moment to end, so only what is still there after
    /// 10 seconds counts.
    pub fn left(&self) -> Vec<String> {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let left = self.left_now();
            if left.is_empty() || Instant::now() >= end {
                return left;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn left_now(&self) -> Vec<String> {
        let runtime = self.runtime.to_str().unwrap();
        let mut left: Vec<String> = fs::read_to_string("/proc/self/mountinfo").unwrap().lines().map(str::to_owned).collect();
        for entry in fs::read_dir("/sys/block").unwrap() {
            left.extend(fs::read_to_string(entry.unwrap().path().join("loop/backing_file")).ok());
        }
        left.extend(fs::read_dir(&self.runtime).unwrap().map(|entry| entry.unwrap().path().display().to_string()));
        for entry in fs::read_dir("/proc").unwrap() {
            left.extend(fs::read_to_string(entry.unwrap().path().join("cmdline")).ok());
        }
        left.retain(|line| line.contains(runtime));
        left
    }
}

/// A process in its own mount namespace, with a copy of all mounts. Dropping it ends the process.
pub struct MountCopy(Child);

impl MountCopy {
    pub fn make() -> Self {
        let child = Command::new("unshare").args(["--mount", "--propagation", "private", "sleep", "60"]).spawn().unwrap();
        let comm = format!("/proc/{}/comm", child.id());
        let is_there = || fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n").then_some(());
        await_until("a mount namespace", Duration::from_secs(20), is_there);
        Self(child)
    }

    /// The name of the process in the message of `detach`.
    pub fn named(&self) -> String {
        format!("in the mount namespace of process {} (sleep)", self.0.id())
    }
}

impl Drop for MountCopy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        take_away(&self.runtime);
    }
}

/// Detaches what a failed test left attached. Its filer may be dead, so this waits for no I/O.
pub fn take_away(runtime: &Path) {
    let iscsi = |arguments: &[&str]| {
        let output = millrace().arg("iscsi").args(arguments).env("MILLRACE_RUNTIME_DIR", runtime).output().unwrap();
        output.status.success().then_some(output.stdout)
    };
    let listed: Vec<Value> = iscsi(&["list", "--json"]).and_then(|list| serde_json::from_slice(&list).ok()).unwrap_or_default();
    for pid in listed.iter().filter_map(|lun| lun["pid"].as_u64()) {
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    }
    // A database that waits for its filer ends first.
    let end = Instant::now() + Duration::from_secs(30);
    while iscsi(&["detach", "--all"]).is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(200)); // the pause between tries
    }
}
