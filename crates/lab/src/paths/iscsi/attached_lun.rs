//! LUNs as block devices of this host, one or several with one mounted file system, by Millrace's initiator: `millrace iscsi attach`
//! and `detach`. Needs root.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use ::host::mount_table;
use serde::Deserialize;

use crate::error::LabError;
use crate::host::block_device::{DiskStats, parse_stats};
use crate::host::interrupt;
use crate::host::process::Launch;
use crate::host::procfs;
use crate::limits::{ATTACH_MAX, BUSY_MAX, DETACH_MAX};
use crate::sys;

/// Directory of the records of attachments, below a directory of Millrace.
const RECORDS: &str = "attached";

/// Programs that `attach` and `detach` run, in addition to the one that creates the file system.
const PROGRAMS: [&str; 4] = ["losetup", "blkid", "mount", "umount"];

/// Attaches LUNs and records them in a directory of Millrace.
#[derive(Debug, Clone)]
pub(crate) struct LunHost {
    program: PathBuf,
    records: PathBuf,
}

/// LUNs that are attached and mounted as one file system. Dropping it detaches them at once: unwritten data may be lost.
#[derive(Debug)]
pub(crate) struct AttachedLun {
    host: LunHost,
    mount: PathBuf,
    log: PathBuf,
    /// Processes that serve the LUNs to the kernel.
    pids: Vec<u32>,
    /// Files of the counters of their loop devices.
    counters: Vec<PathBuf>,
    is_attached: bool,
}

/// Output of `millrace iscsi attach --json`, for one LUN or for several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ready {
    One(Served),
    Several { luns: Vec<Served> },
}

/// One LUN in that output.
#[derive(Deserialize)]
struct Served {
    pid: u32,
    /// Its loop device: `/dev/loop3`.
    device: PathBuf,
}

/// One line of `millrace iscsi list --json`.
#[derive(Deserialize)]
struct Listed {
    pid: Option<u32>,
}

/// Missing requirements of this host for a file system on this number of LUNs, with hints; `None` if it has all.
pub(crate) fn why_not(luns: u32) -> Option<String> {
    if sys::effective_uid() != 0 {
        return Some("making a block device of a LUN needs root; run it as root".to_owned());
    }
    for (node, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        if let Err(error) = fs::OpenOptions::new().read(true).write(true).open(node) {
            return Some(format!("{node} cannot be opened ({error}); modprobe {module}, or give a container the device"));
        }
    }
    let is_missing = |program: &&str| ::host::in_path(program).is_none();
    let (make, package) = if luns > 1 { ("mkfs.btrfs", "btrfs-progs") } else { ("mkfs.ext4", "e2fsprogs") };
    if let Some(missing) = PROGRAMS.into_iter().chain([make]).find(is_missing) {
        return Some(format!("{missing} is not in PATH; install util-linux and {package}, or add /usr/sbin to PATH"));
    }
    let has_btrfs = luns < 2 || ::host::has_file_system("btrfs");
    (!has_btrfs)
        .then(|| "this kernel has no btrfs (/proc/filesystems, modprobe btrfs); take another layout than luns=N".to_owned())
}

impl LunHost {
    /// Attachments by `program`, recorded below `root`, a directory of Millrace.
    ///
    /// # Errors
    /// The directory of the records cannot be created.
    pub(crate) fn new(program: PathBuf, root: &Path) -> Result<Self, LabError> {
        let records = root.join(RECORDS);
        fs::create_dir_all(&records).map_err(LabError::file("create directory", &records))?;
        Ok(Self { program, records })
    }

    /// Attaches the LUNs at `urls` as block devices and mounts their file system at `mount`; `options` are those of
    /// `millrace iscsi attach`.
    ///
    /// # Errors
    /// An error with the output of the command. Nothing is attached.
    pub(crate) fn attach(
        &self,
        urls: &[String],
        mount: &Path,
        options: &[String],
        log: PathBuf,
    ) -> Result<AttachedLun, LabError> {
        let mut command = self.command("attach");
        command.args(["--client", "millrace", "--json", "--mount"]).arg(mount).args(options).args(urls);
        let line = Launch::new("millrace iscsi attach", command, log.clone()).output(ATTACH_MAX)?;
        let ready = serde_json::from_str(&line);
        let luns = match ready.map_err(|source| LabError::Record { program: "millrace iscsi attach", source })? {
            Ready::One(lun) => vec![lun],
            Ready::Several { luns } => luns,
        };
        let counters = |lun: &Served| Some(Path::new("/sys/block").join(lun.device.file_name()?).join("stat"));
        let attached = AttachedLun {
            host: self.clone(),
            mount: mount.to_owned(),
            log,
            pids: luns.iter().map(|lun| lun.pid).collect(),
            counters: luns.iter().filter_map(counters).collect(),
            is_attached: true,
        };
        // The counters of these devices are the proof that the files of the database are on the LUNs.
        let source = mount_source(mount)?;
        if luns.iter().any(|lun| lun.device == source) {
            return Ok(attached);
        }
        let outcome = format!("did not mount its device at {}", mount.display());
        Err(LabError::Program { program: "millrace iscsi attach".to_owned(), outcome, detail: source.display().to_string() })
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["iscsi", verb]).env("MILLRACE_RUNTIME_DIR", &self.records).current_dir("/");
        command
    }

    /// Detaches LUNs at once, without their unwritten data: `which` is the argument of `detach`. Also used after Ctrl-C.
    fn take_away(&self, pids: &[u32], which: &Path) -> Result<(), String> {
        // Without their servers, all I/O of the file systems fails; otherwise it would wait for the filer that is gone.
        for pid in pids {
            let _ = sys::signal(*pid, libc::SIGKILL);
        }
        let end = Instant::now() + BUSY_MAX;
        loop {
            let output = self.command("detach").arg(which).process_group(0).stdin(Stdio::null()).output();
            let output = output.map_err(|error| error.to_string())?;
            if output.status.success() {
                return Ok(());
            }
            // A database that waited for the filer ends with the error that it receives now. Until then it keeps the file system busy.
            if Instant::now() >= end {
                return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
            }
            std::thread::sleep(interrupt::POLL_EVERY);
        }
    }
}

impl AttachedLun {
    /// Pids of the processes that serve the LUNs to the kernel.
    pub(crate) fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// Sum of the traffic of the loop devices: what the page cache did not answer.
    pub(crate) fn stats(&self) -> Result<DiskStats, LabError> {
        let of = |file: &PathBuf| fs::read_to_string(file).map(|text| parse_stats(&text)).map_err(LabError::file("read", file));
        self.counters.iter().map(of).sum()
    }

    /// An error if a process that serves a LUN to the kernel has ended.
    pub(crate) fn expect_alive(&self) -> Result<(), LabError> {
        let zombies = procfs::own_zombies();
        if self.pids.iter().all(|pid| procfs::start_ticks(*pid).is_some() && !zombies.contains(pid)) {
            return Ok(());
        }
        let program = format!("the initiator of the LUN at {}", self.mount.display());
        Err(LabError::Program { program, outcome: "has ended".to_owned(), detail: String::new() })
    }

    /// Unmounts the file system and detaches the block devices.
    ///
    /// Durability: data written to the file system are on the LUNs and flushed when it returns.
    pub(crate) fn detach(mut self) -> Result<(), LabError> {
        let mut command = self.host.command("detach");
        command.arg(&self.mount);
        Launch::new("millrace iscsi detach", command, self.log.clone()).run(DETACH_MAX)?;
        self.is_attached = false;
        Ok(())
    }
}

impl Drop for AttachedLun {
    fn drop(&mut self) {
        if self.is_attached
            && let Err(error) = self.host.take_away(&self.pids, &self.mount)
        {
            eprintln!("millrace: cannot detach the LUN at {}: {error}", self.mount.display());
        }
    }
}

/// What is mounted at a directory; empty if nothing is.
fn mount_source(directory: &Path) -> Result<PathBuf, LabError> {
    let directory = fs::canonicalize(directory).map_err(LabError::file("find", directory))?;
    let mounts = mount_table::read().map_err(LabError::file("read", mount_table::SOURCE))?;
    let last = mounts.into_iter().rev().find(|mount| mount.directory == directory);
    Ok(last.map(|mount| PathBuf::from(mount.source)).unwrap_or_default())
}

/// Detaches what a killed comparison left attached below `root`, one of its directories. Does nothing if that belongs to another
/// user, whose records are not trusted.
///
/// # Errors
/// An error with the step that failed; something may then still be mounted there.
pub(crate) fn end_left_behind(program: &Path, root: &Path) -> Result<(), LabError> {
    let records = root.join(RECORDS);
    let is_own =
        |path: &Path| fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir() && facts.uid() == sys::effective_uid());
    if !is_own(root) || !is_own(&records) {
        return Ok(());
    }
    let host = LunHost { program: program.to_owned(), records };
    let failed = |detail: String| LabError::Program {
        program: format!("taking LUNs away that a killed comparison left below {}", root.display()),
        outcome: "failed".to_owned(),
        detail,
    };
    let listed = host.command("list").arg("--json").output().map_err(|error| failed(error.to_string()))?;
    let listed: Vec<Listed> = serde_json::from_slice(&listed.stdout).map_err(|error| failed(error.to_string()))?;
    if listed.is_empty() {
        return Ok(());
    }
    let pids: Vec<u32> = listed.iter().filter_map(|lun| lun.pid).collect();
    host.take_away(&pids, Path::new("--all")).map_err(failed)
}
