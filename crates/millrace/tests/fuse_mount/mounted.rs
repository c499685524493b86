//! A mounted export.

use crate::support::filer::Filer;
use crate::support::world::World;
use crate::support::{await_until, is_root, millrace, skip_unsupported, succeed, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// A filer, its export mounted, and programs under `millrace exec` beside it; all gone when dropped.
pub(crate) struct Mounted {
    pub(crate) world: World,
    pub(crate) directory: PathBuf,
    /// The process that serves it.
    pub(crate) pid: u32,
}

impl Mounted {
    /// None, which is said, where this host has no FUSE.
    pub(crate) fn new(label: &str) -> Option<Self> {
        Self::served(label, "", &[])
    }

    /// Of a filer with more options.
    pub(crate) fn of(label: &str, filer: &[&str], options: &str) -> Option<Self> {
        Self::made(label, filer, options, &[])
    }

    /// With options of the URL, and of `millrace mount`.
    pub(crate) fn served(label: &str, options: &str, arguments: &[&str]) -> Option<Self> {
        Self::made(label, &[], options, arguments)
    }

    fn made(label: &str, filer: &[&str], options: &str, arguments: &[&str]) -> Option<Self> {
        if !has_fuse() {
            return None;
        }
        let mut mounted = Self::unmounted(World::served(label, filer));
        mounted.mount(options, arguments);
        Some(mounted)
    }

    /// Of a world whose filer is mounted by this URL.
    pub(crate) fn by_url(world: World, url: &str) -> Self {
        let mut mounted = Self::unmounted(world);
        mounted.mount_url(url, &[]);
        mounted
    }

    fn unmounted(world: World) -> Self {
        let directory = world.scratch.folder("mnt");
        Self { world, directory, pid: 0 }
    }

    /// Mounts it, again after its process was killed.
    pub(crate) fn mount(&mut self, options: &str, arguments: &[&str]) {
        self.mount_url(&format!("{}{options}", self.world.filer.url), arguments);
    }

    fn mount_url(&mut self, url: &str, arguments: &[&str]) {
        let output = millrace().args(["mount", "--json"]).args(arguments).arg(url).arg(&self.directory).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(said["mounted"].as_str(), self.directory.to_str());
        self.pid = u32::try_from(said["pid"].as_u64().unwrap()).unwrap();
    }

    pub(crate) const fn filer(&self) -> &Filer {
        &self.world.filer
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// What a shell prints that runs in the mount; it must succeed.
    pub(crate) fn shell(&self, script: &str) -> String {
        succeed(&mut self.shell_command(script))
    }

    /// Whether the kernel maps files that are opened past the page cache; says so if not.
    pub(crate) fn maps_files(&self) -> bool {
        const TRY: &str = "import mmap; f = open('mapped', 'w+b'); f.truncate(4096); mmap.mmap(f.fileno(), 4096)";
        let maps = self.shell(&format!("python3 -c \"{TRY}\" 2>/dev/null && echo yes; rm -f mapped")) == "yes\n";
        if !maps {
            skip_unsupported("this kernel maps no files opened past the page cache (Linux 6.6 does)");
        }
        maps
    }

    /// A shell in the mount that a time limit ends.
    pub(crate) fn shell_command(&self, script: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", "90", "sh", "-euc", script]).current_dir(&self.directory).env("LC_ALL", "C");
        command
    }

    pub(crate) fn unmount(&self) -> Output {
        millrace().arg("unmount").arg(&self.directory).output().unwrap()
    }

    /// SIGKILL to the process that serves it.
    pub(crate) fn kill(&self) {
        succeed(Command::new("kill").args(["-KILL", &self.pid.to_string()]));
        let gone = || (!is_alive(self.pid)).then_some(());
        await_until("the process that serves the mount to end", Duration::from_secs(10), gone);
    }
}

/// Whether this host has FUSE for these tests; says so if not.
pub(crate) fn has_fuse() -> bool {
    let has = is_root() && Path::new("/dev/fuse").exists();
    if !has {
        skip_unsupported("no root or /dev/fuse");
    }
    has
}

/// Whether a process runs; one that nobody has waited for yet does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    crate::support::keepers::stat(pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z"))
}

/// Whether something is mounted at a directory.
pub(crate) fn is_mounted(directory: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().any(|line| line.split(' ').nth(4) == directory.to_str())
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Without waiting for anything: a test that failed may have left its filer dead.
        while is_mounted(&self.directory) {
            let done = millrace().args(["unmount", "--lazy"]).arg(&self.directory).output().unwrap();
            if !done.status.success() {
                break;
            }
        }
        let _ = Command::new("kill").args(["-KILL", &self.pid.to_string()]).output();
    }
}
