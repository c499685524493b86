//! A mounted export.

use crate::support::filer::Filer;
pub(crate) use crate::support::fuse::{has_fuse, is_mounted};
use crate::support::world::World;
use crate::support::{await_until, fuse, millrace, skip_unsupported, succeed};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

/// A filer, its mounted export, and programs under `millrace exec` with the same export. Dropping
/// it ends and removes all of them.
pub(crate) struct Mounted {
    pub(crate) world: World,
    pub(crate) directory: PathBuf,
    /// The process that serves the mount.
    pub(crate) pid: u32,
}

impl Mounted {
    /// `None`, with a message, if this host has no FUSE.
    pub(crate) fn new(label: &str) -> Option<Self> {
        Self::served(label, "", &[])
    }

    /// As [`Self::new`], with these options of the filer and of the URL.
    pub(crate) fn of(label: &str, filer: &[&str], options: &str) -> Option<Self> {
        Self::made(label, filer, options, &[])
    }

    /// As [`Self::new`], with these options of the URL and arguments of `millrace mount`.
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

    /// Mounts an export by this URL.
    pub(crate) fn by_url(world: World, url: &str) -> Self {
        let mut mounted = Self::unmounted(world);
        mounted.mount_url(url, &[]);
        mounted
    }

    fn unmounted(world: World) -> Self {
        let directory = world.scratch.folder("mnt");
        Self { world, directory, pid: 0 }
    }

    /// Mounts the filer's export, the first time or after its process was killed.
    pub(crate) fn mount(&mut self, options: &str, arguments: &[&str]) {
        self.mount_url(&format!("{}{options}", self.world.filer.url), arguments);
    }

    fn mount_url(&mut self, url: &str, arguments: &[&str]) {
        self.pid = fuse::mount(millrace(), arguments, url, &self.directory);
    }

    pub(crate) const fn filer(&self) -> &Filer {
        &self.world.filer
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Runs a script in the mount, which must succeed, and returns its output.
    pub(crate) fn shell(&self, script: &str) -> String {
        succeed(&mut self.shell_command(script))
    }

    /// Whether the kernel maps files that are opened past the page cache. Prints a message if not.
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

    /// Sends SIGKILL to the process that serves the mount, and waits for its end.
    pub(crate) fn kill(&self) {
        succeed(Command::new("kill").args(["-KILL", &self.pid.to_string()]));
        let gone = || (!is_alive(self.pid)).then_some(());
        await_until("the process that serves the mount to end", Duration::from_secs(30), gone);
    }
}

/// Whether a process runs. A zombie does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    crate::support::keepers::stat(pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z"))
}

impl Drop for Mounted {
    fn drop(&mut self) {
        fuse::end(&self.directory, self.pid);
    }
}
