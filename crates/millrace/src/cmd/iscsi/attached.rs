//! The LUNs that are attached on this host: a directory for each LUN, below `/run/millrace-iscsi`,
//! or below `iscsi` in MILLRACE_RUNTIME_DIR.
//!
//! `attach` writes `attachment.json`. The process that serves the LUN writes `daemon.json` and the
//! log `log`, holds a lock on `lock` while it lives, and mounts its FUSE file system at `fuse`. A
//! LUN that open-iscsi attached has no process of Millrace: `attachment.json` has its sessions.

use super::kernel_record::Kernel;
use crate::error_printing::refusal;
use anyhow::Context as _;
use initiator::IscsiUrl;
use initiator::attach::{Activity, BlockDevice, FILE, LoopDevice};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::Hasher as _;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The version of `attachment.json`.
const SCHEMA: u32 = 1;

/// A directory of one LUN that is attached, or was.
pub(super) struct Attached {
    pub(super) directory: PathBuf,
    pub(super) record: Record,
}

/// The content of `attachment.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    schema: u32,
    /// Without secrets.
    pub(super) url: String,
    /// Vendor, product and designator.
    pub(super) lun: String,
    pub(super) bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) physical_block_bytes: u32,
    pub(super) read_only: bool,
    /// Such as /dev/loop3; `None` before it exists.
    pub(super) device: Option<String>,
    pub(super) mount: Option<PathBuf>,
    /// Equal for all LUNs that are mounted as one file system; `None` for a LUN by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) volume: Option<String>,
    /// The reason for choosing the client; `None` in a record of an older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client_reason: Option<String>,
    /// Set if open-iscsi attached it; `None` for Millrace's own initiator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kernel: Option<Kernel>,
}

/// The content of `daemon.json`. The daemon writes it about once a second if it changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Daemon {
    pub(super) pid: u32,
    pub(super) paths: Vec<PathStatus>,
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) commands_under_way_max: usize,
}

/// A path to the LUN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PathStatus {
    pub(super) portal: String,
    /// down, starting, up, draining
    pub(super) state: String,
    /// Failures while the path was used, and failed attempts to bring it up again.
    pub(super) failures: u64,
    /// Times that the path went down after it had been up; 0 from a process of an older version.
    #[serde(default)]
    pub(super) downs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_error: Option<String>,
}

impl Daemon {
    pub(super) fn of(device: &initiator::Device, activity: Activity) -> Self {
        let paths = device.paths().into_iter().map(|path| PathStatus {
            portal: path.portal,
            state: format!("{:?}", path.state).to_lowercase(),
            failures: path.failures,
            downs: path.downs,
            last_error: path.last_error,
        });
        Self {
            pid: std::process::id(),
            paths: paths.collect(),
            requests: activity.requests,
            failed: activity.failed,
            commands_under_way_max: activity.commands_under_way_max,
        }
    }
}

/// The directory of all attachments. It is not below /run/millrace, which is the filer's: systemd
/// removes that directory when the filer stops.
pub(super) fn root() -> PathBuf {
    let runtime = std::env::var_os("MILLRACE_RUNTIME_DIR");
    let root = runtime.map_or_else(|| PathBuf::from("/run/millrace-iscsi"), |runtime| Path::new(&runtime).join("iscsi"));
    // The kernel shows mounts, and the files of loop devices, by absolute paths.
    std::path::absolute(&root).unwrap_or(root)
}

/// All attachments, in the order of their URLs.
pub(super) fn all() -> anyhow::Result<Vec<Attached>> {
    let root = root();
    let entries = match fs::read_dir(&root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let what = format!("list the attached LUNs in {}: permission denied", root.display());
            return Err(refusal(what, "run it as root: only root attaches LUNs"));
        }
        entries => entries.with_context(|| format!("list {}", root.display()))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let directory = entry.with_context(|| format!("list {}", root.display()))?.path();
        if directory.is_dir() {
            found.push(Attached::read(directory));
        }
    }
    found.sort_by(|a, b| a.record.url.cmp(&b.record.url));
    Ok(found)
}

/// Locks the directory of all attachments, while sessions that LUNs share are made or ended. The
/// directory exists: a LUN is attached or being attached.
pub(super) fn lock_all() -> anyhow::Result<File> {
    let root = root();
    let phrase = || format!("lock {}", root.display());
    loop {
        let directory = File::open(&root).with_context(phrase)?;
        directory.lock().with_context(phrase)?;
        let (held, there) = (directory.metadata().with_context(phrase)?, fs::metadata(&root).with_context(phrase)?);
        // The directory is removed with the last LUN and made again for the next one, so the locked
        // directory may be the old one.
        if (held.dev(), held.ino()) == (there.dev(), there.ino()) {
            return Ok(directory);
        }
    }
}

/// As [`all`]. `None` for a user that may not read the directory: only root may.
pub(super) fn all_visible() -> anyhow::Result<Option<Vec<Attached>>> {
    match fs::read_dir(root()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        _ => all().map(Some),
    }
}

/// The mount point of the FUSE file system of a LUN that is attached by this URL.
pub(super) fn fuse_of(url: &str) -> PathBuf {
    root().join(name_of(url)).join("fuse")
}

impl Record {
    pub(super) fn new(url: String) -> Self {
        Self {
            schema: SCHEMA,
            url,
            lun: String::new(),
            bytes: 0,
            block_bytes: 0,
            physical_block_bytes: 0,
            read_only: false,
            device: None,
            mount: None,
            volume: None,
            client_reason: None,
            kernel: None,
        }
    }
}

impl Attached {
    /// Makes the directory of a LUN. Only one `attach` of a URL succeeds in this. `volume` is set
    /// if several LUNs become one file system; `reason` says why this client was chosen.
    pub(super) fn create(url: &IscsiUrl, volume: Option<String>, reason: &str) -> anyhow::Result<Self> {
        let text = url.to_string();
        let directory = root().join(name_of(&text));
        if let Some(runtime) = root().parent() {
            fs::create_dir_all(runtime).with_context(|| format!("create {}", runtime.display()))?;
        }
        let create = |directory: &Path| DirBuilder::new().mode(0o700).create(directory);
        match create(&root()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.with_context(|| format!("create {}", root().display()))?,
        }
        match create(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let hint =
                    format!("`millrace iscsi list` shows it; `millrace iscsi detach {text}` ends it, or cleans up after it");
                return Err(refusal(format!("attach {text}: it is already attached"), hint));
            }
            made => made.with_context(|| format!("create {}", directory.display()))?,
        }
        let attached = Self { directory, record: Record { volume, client_reason: Some(reason.to_owned()), ..Record::new(text) } };
        create(&attached.fuse()).with_context(|| format!("create {}", attached.fuse().display()))?;
        attached.save()?;
        Ok(attached)
    }

    fn read(directory: PathBuf) -> Self {
        let read = fs::read(directory.join("attachment.json")).ok();
        let record: Option<Record> = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        // A directory without a record still needs to be cleaned up.
        let record = record.unwrap_or_else(|| Record::new(format!("(unknown: {})", directory.display())));
        Self { directory, record }
    }

    /// The mount point of its FUSE file system.
    pub(super) fn fuse(&self) -> PathBuf {
        self.directory.join("fuse")
    }

    /// The mount point of a new file system until it is complete.
    pub(super) fn new_root(&self) -> PathBuf {
        self.directory.join("root")
    }

    /// The file of the LUN in the FUSE file system.
    pub(super) fn file(&self) -> PathBuf {
        self.fuse().join(FILE)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    pub(super) fn save(&self) -> anyhow::Result<()> {
        write_whole(&self.directory.join("attachment.json"), &serde_json::to_vec(&self.record)?)
    }

    pub(super) fn save_daemon(directory: &Path, daemon: &Daemon) -> anyhow::Result<()> {
        write_whole(&directory.join("daemon.json"), &serde_json::to_vec(daemon)?)
    }

    pub(super) fn daemon(&self) -> Option<Daemon> {
        serde_json::from_slice(&fs::read(self.directory.join("daemon.json")).ok()?).ok()
    }

    /// The initiator that attached it.
    pub(super) const fn client(&self) -> &'static str {
        if self.record.kernel.is_some() { "open-iscsi" } else { "millrace" }
    }

    /// The kind of its block device.
    pub(super) fn kind(&self) -> &'static str {
        self.record.kernel.as_ref().map_or("fuse-loop", Kernel::kind)
    }

    /// The process that serves it, null with open-iscsi, and its paths.
    pub(super) fn pid_and_paths(&self) -> (Value, Value) {
        if let Some(kernel) = &self.record.kernel {
            return (Value::Null, json!(kernel.paths()));
        }
        let daemon = self.daemon().unwrap_or_default();
        (daemon.pid.into(), json!(daemon.paths))
    }

    /// Takes the lock that the daemon holds while it lives.
    pub(super) fn lock(directory: &Path) -> anyhow::Result<File> {
        let path = directory.join("lock");
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = file.with_context(|| format!("open {}", path.display()))?;
        // This waits: a process that checks whether the lock is held has it for a moment.
        file.lock().with_context(|| format!("lock {}", path.display()))?;
        Ok(file)
    }

    /// Whether the process or device that it depends on exists: its daemon, or a disk of the kernel.
    pub(super) fn is_alive(&self) -> bool {
        self.record.kernel.as_ref().map_or_else(|| self.is_served(), Kernel::is_alive)
    }

    /// Whether its daemon lives.
    pub(super) fn is_served(&self) -> bool {
        let Ok(file) = File::open(self.directory.join("lock")) else { return false };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }

    /// Its block devices. With open-iscsi there is at most one; otherwise these are all loop
    /// devices on its file.
    pub(super) fn devices(&self) -> anyhow::Result<Vec<BlockDevice>> {
        if let Some(kernel) = &self.record.kernel {
            return Ok(kernel.device().map(BlockDevice::Kernel).into_iter().collect());
        }
        let devices = LoopDevice::of_file(&self.file()).context("look for its loop device")?;
        Ok(devices.into_iter().map(BlockDevice::Loop).collect())
    }

    /// Removes the directory. The caller has unmounted everything in it.
    pub(super) fn remove(&self) -> anyhow::Result<()> {
        let phrase = || format!("remove {}", self.directory.display());
        // rmdir refuses a mount point, so files of a mounted file system are never removed.
        for place in [self.fuse(), self.new_root()] {
            match fs::remove_dir(place) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).with_context(phrase),
                _ => {}
            }
        }
        fs::remove_dir_all(&self.directory).with_context(phrase)?;
        // This fails, harmlessly, if other LUNs are attached or the user keeps files there.
        let _ = fs::remove_dir(root());
        Ok(())
    }
}

/// A short name made from URLs. It names the directory of a LUN, and identifies the LUNs of a volume.
pub(super) fn name_of(urls: &str) -> String {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(urls.as_bytes());
    format!("{:016x}", hasher.finish())
}

/// Replaces a file, so that a reader sees the old content or the new.
fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let phrase = || format!("write {}", path.display());
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new).with_context(phrase)?;
    file.write_all(bytes).with_context(phrase)?;
    fs::rename(&new, path).with_context(phrase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lun_by_itself_is_recorded_as_before_there_were_volumes() {
        let before = r#"{"schema":1,"url":"iscsi://h/iqn.2026-11.org.example:v/0","lun":"","bytes":0,"block_bytes":0,"#
            .to_owned()
            + r#""physical_block_bytes":0,"read_only":false,"device":null,"mount":null}"#;
        let record: Record = serde_json::from_str(&before).unwrap();
        assert_eq!(record.volume, None);
        assert_eq!(serde_json::to_string(&record).unwrap(), before);
    }
}
