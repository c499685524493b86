//! The mounts of this process. They are parsed at the start and attached when a path first leads to one.

use crate::attach_lock::AttachLock;
use crate::credentials::{self, KNOWN_MAX};
use crate::keeper;
use crate::messages::warn;
use crate::outcome::{Errno, Out};
use crate::raw;
use crate::refusal::{self, Refusal};
use dnfs::mount::{KeeperProgram, Mount, MountSpec};
use std::ffi::{CStr, OsStr};
use std::hash::Hasher;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Maximum number of mounts of one process. Each is a line of an environment variable, and each
/// path is compared with all of them.
pub(crate) const MOUNTS_MAX: usize = 8;
/// Mode of the placeholder of a directory. All users may enter it: it is empty, and the server
/// decides about the directory that it represents.
pub(crate) const DIRECTORY_PLACEHOLDER_MODE: u32 = 0o555;
/// The environment variable. Each line is `PATH=URL`.
pub(crate) const VARIABLE: &CStr = c"MILLRACE_MOUNTS";

/// A mount, attached or not.
pub(crate) struct Mounted {
    /// Its index in the list of mounts.
    pub(crate) index: usize,
    spec: MountSpec,
    keeper: Option<KeeperProgram>,
    /// The mount for each of the process' credentials, by their number. Null until these
    /// credentials use it. A mount is never freed, because threads and open descriptors may use one
    /// whose volume was replaced.
    views: [AtomicPtr<Mount>; KNOWN_MAX],
    attaching: AttachLock,
    refused: AtomicBool, // and the reason was printed
}

static MOUNTS: [OnceLock<Mounted>; MOUNTS_MAX] = [const { OnceLock::new() }; MOUNTS_MAX];
static ANY: AtomicBool = AtomicBool::new(false);
static CAREFUL: AtomicBool = AtomicBool::new(false);
static ROOT: OnceLock<Vec<u8>> = OnceLock::new();
static ROOT_DEVICE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Whether this process has mounts.
#[inline]
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Whether a mount's local path exists on this host, so that a local call could use it by mistake.
pub(crate) fn careful() -> bool {
    CAREFUL.load(Ordering::Relaxed)
}

/// Refuses a descriptor of a mount, or the working directory, if this process does not see the
/// mount's runtime directory.
///
/// # Errors
/// EIO, with a line on stderr.
pub(crate) fn refuse_hidden(path: &[u8]) -> Result<(), Out> {
    match refusal::is_covered() && refusal::is_placeholder(path) {
        true => Err(refused(Refusal::Covered)),
        false => Ok(()),
    }
}

/// As [`refuse_hidden`], for a path that cannot be read because /proc is not mounted.
///
/// # Errors
/// EIO, with a line on stderr, if the attributes are those of a placeholder.
pub(crate) fn refuse_nameless(stat: &libc::stat) -> Result<(), Out> {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    let mode = stat.st_mode & 0o777;
    // The placeholder of a file has no search permission; that of a directory is removed.
    if mode & 0o111 != 0 && (mode != DIRECTORY_PLACEHOLDER_MODE || stat.st_nlink != 0) {
        return Ok(());
    }
    if refusal::is_covered() {
        return Err(refused(Refusal::Covered));
    }
    if !REPORTED.swap(true, Ordering::Relaxed) {
        warn(format_args!(
            "/proc is not mounted: files and directories of a mount that this program inherited are not recognized (EIO); mount it"
        ));
    }
    Err(Out::Errno(libc::EIO))
}

/// Refuses a call before it changes something at the server, if the program has covered the runtime
/// directory since it attached the mount and the call will need that directory. Costs one stat(2).
///
/// # Errors
/// EIO, with a line on stderr.
pub(crate) fn refuse_covered() -> Result<(), Out> {
    refusal::of_now().map_or(Ok(()), |refusal| Err(refused(refusal)))
}

/// The outcome of a call that failed in the runtime directory with this errno: EIO, with a line on stderr, if the program has
/// covered that directory since it attached the mount.
pub(crate) fn failed_in_runtime(errno: Errno) -> Out {
    refusal::of_now().map_or(Out::Errno(errno), refused)
}

fn refused(refusal: Refusal) -> Out {
    all().for_each(|mounted| mounted.warn_refused(&refusal));
    Out::Errno(refusal.errno())
}

/// All mounts.
pub(crate) fn all() -> impl Iterator<Item = &'static Mounted> {
    MOUNTS.iter().filter_map(OnceLock::get)
}

/// A mount by its number.
pub(crate) fn by_index(index: usize) -> Option<&'static Mounted> {
    MOUNTS.get(index)?.get()
}

/// Reads the environment: the mounts, and the binary of their keepers. Called once, by the
/// constructor. Uses no network.
pub(crate) fn parse(value: &[u8], keeper: Option<&[u8]>, runtime: Option<&[u8]>) {
    let mut index = 0;
    for line in value.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        let spec = match MountSpec::parse(line) {
            Ok(spec) => spec,
            Err(error) => {
                warn(format_args!("{}: {error}; this mount is not active", String::from_utf8_lossy(line)));
                continue;
            }
        };
        let Some(slot) = MOUNTS.get(index) else {
            warn(format_args!("more than {MOUNTS_MAX} mounts; the rest is not active"));
            break;
        };
        let mut local = spec.local_path.clone();
        local.push(0);
        let shadowed = CStr::from_bytes_with_nul(&local).is_ok_and(|path| raw::stat(path, false).is_ok());
        CAREFUL.fetch_or(shadowed, Ordering::Relaxed);
        let keeper = keeper.and_then(|binary| KeeperProgram::new(OsStr::from_bytes(binary), line));
        let mounted = Mounted {
            index,
            spec,
            keeper,
            views: [const { AtomicPtr::new(std::ptr::null_mut()) }; KNOWN_MAX],
            attaching: AttachLock::new(),
            refused: AtomicBool::new(false),
        };
        if slot.set(mounted).is_ok() {
            index += 1;
        }
    }
    if index > 0 {
        let _ = ROOT.set(dnfs::mount::runtime_root().into_os_string().as_encoded_bytes().to_vec());
        learn_root_device();
        if let Some(device) = runtime.and_then(|runtime| refusal::learn(runtime, root()?)) {
            ROOT_DEVICE.store(device, Ordering::Relaxed);
        }
        ANY.store(true, Ordering::Release);
    }
}

/// Stores the device of the runtime directory, or of the nearest directory above it that exists.
fn learn_root_device() {
    let Some(root) = ROOT.get() else { return };
    let mut path = root.clone();
    loop {
        path.push(0);
        if let Some(stat) = CStr::from_bytes_with_nul(&path).ok().and_then(|p| raw::stat(p, true).ok()) {
            ROOT_DEVICE.store(stat.st_dev, Ordering::Relaxed);
            return;
        }
        path.pop();
        match path.iter().rposition(|b| *b == b'/') {
            Some(slash) if slash > 0 => path.truncate(slash),
            _ => return,
        }
    }
}

/// Whether this device may contain placeholders.
#[inline]
pub(crate) fn is_runtime_device(device: u64) -> bool {
    ROOT_DEVICE.load(Ordering::Relaxed) == device
}

/// The directory that contains the mounts' runtime directories.
pub(crate) fn root() -> Option<&'static [u8]> {
    ROOT.get().map(Vec::as_slice)
}

/// Whether an absolute path of the host is in the runtime directory of this user.
pub(crate) fn is_below_root(path: &[u8]) -> bool {
    ROOT.get().and_then(|root| path.strip_prefix(root.as_slice())).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// The mount whose runtime directory contains this absolute path of the host, and the rest of the
/// path without a slash at its beginning.
pub(crate) fn below_runtime(path: &[u8]) -> Option<(&'static Mounted, &[u8])> {
    if !is_below_root(path) {
        return None;
    }
    all().find_map(|mounted| {
        let mount = mounted.attach().ok()?;
        let rest = path.strip_prefix(mount.runtime_dir().as_os_str().as_bytes())?;
        rest.strip_prefix(b"/").or_else(|| rest.is_empty().then_some(rest)).map(|rest| (mounted, rest))
    })
}

impl Mounted {
    /// The local path: absolute, without a slash at its end.
    pub(crate) fn local_path(&self) -> &[u8] {
        &self.spec.local_path
    }

    /// Converts a path below the mount's root to the path that the program sees.
    pub(crate) fn path_of(&self, below: &[u8]) -> Vec<u8> {
        let (local, below) = (self.local_path(), below.strip_prefix(b"/").unwrap_or(below));
        if below.is_empty() { local.to_vec() } else { [local, b"/", below].concat() }
    }

    /// The URL of the mount.
    pub(crate) fn url(&self) -> String {
        self.spec.url.to_string()
    }

    /// The mount with any of the process' credentials, if it is attached.
    pub(crate) fn attached(&self) -> Option<&Mount> {
        self.views().next()
    }

    /// The mount with the credentials of this number, if this process has used it with them.
    pub(crate) fn attached_as(&self, number: usize) -> Option<&Mount> {
        self.views.get(number).and_then(of_view)
    }

    /// Number of the credentials to which this mount belongs.
    pub(crate) fn number_of(&self, mount: &Mount) -> usize {
        let is_it = |view: &AtomicPtr<Mount>| std::ptr::eq(view.load(Ordering::Acquire), mount);
        self.views.iter().position(is_it).unwrap_or(credentials::FIRST)
    }

    /// Whether this thread attaches the mount now.
    pub(crate) fn is_attaching(&self) -> bool {
        self.attaching.is_own()
    }

    fn views(&self) -> impl Iterator<Item = &'static Mount> {
        self.views.iter().filter_map(of_view)
    }

    /// The mount for the current credentials of the process. Attaches it if it is not attached, or
    /// if the server now exports another volume. Descriptors of the old volume match no slot of the
    /// new mount, so their calls fail with ESTALE.
    ///
    /// # Errors
    /// The server's refusal, whose reason is printed on stderr; EDEADLK for a signal handler that
    /// interrupted its own thread during the attachment.
    pub(crate) fn attach(&self) -> Result<&Mount, Out> {
        self.attach_as(credentials::current()?)
    }

    /// As [`Self::attach`], for the credentials of this number.
    ///
    /// # Errors
    /// Those of [`Self::attach`].
    pub(crate) fn attach_as(&self, number: usize) -> Result<&Mount, Out> {
        let (Some(view), Some(who)) = (self.views.get(number), credentials::known(number)) else {
            return Err(Out::Errno(libc::EACCES));
        };
        if let Some(mount) = of_view(view).filter(|mount| !mount.is_retired()) {
            return Ok(mount);
        }
        if let Some(refusal) = refusal::of_now().or_else(refusal::of_attach) {
            self.warn_refused(&refusal);
            return Err(Out::Errno(refusal.errno()));
        }
        let _guard = self.attaching.lock()?;
        if let Some(mount) = of_view(view).filter(|mount| !mount.is_retired()) {
            return Ok(mount);
        }
        if let Some(replaced) = of_view(view) {
            replaced.report_replaced();
        }
        let attached = match self.views().find(|mount| !mount.is_retired()) {
            Some(other) => other.with_credentials(who),
            None => Mount::attach(&self.spec, who).inspect(|mount| keeper::ensure(self.keeper.as_ref(), mount)),
        };
        match attached {
            Ok(mount) => {
                let mount = Box::leak(Box::new(mount));
                view.store(mount, Ordering::Release);
                Ok(mount)
            }
            Err(error) => {
                let hint = error.hints().into_iter().next().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
                self.warn_refused(&format_args!("{error}{hint}"));
                Err(Out::Errno(error.errno())) // the log has the error with a hint
            }
        }
    }

    /// Prints once why this mount cannot be used.
    fn warn_refused(&self, cause: &dyn std::fmt::Display) {
        if !self.refused.swap(true, Ordering::Relaxed) {
            let path = OsStr::from_bytes(&self.spec.local_path).to_string_lossy();
            warn(format_args!("cannot mount {} at {path}: {cause}", self.spec.url));
        }
    }

    /// A number for the local path. A child finds the mount of an inherited directory by it.
    pub(crate) fn tag(&self) -> u32 {
        let mut hash = fnv::FnvHasher::default();
        hash.write(&self.spec.local_path);
        hash.finish() as u32
    }

    /// The device number that `stat` returns for a file system of the server. The mounted file system and each one nested in it
    /// have their own numbers, the same in every process.
    pub(crate) fn device(&self, fsid: u64) -> u64 {
        let mut hash = fnv::FnvHasher::default();
        let mount = self.attached();
        // All paths into one file system must get the same number, so it is derived from the name
        // of the mount's segment.
        let segment = mount.and_then(|mount| mount.runtime_dir().file_name());
        hash.write(segment.map_or(self.spec.local_path.as_slice(), OsStrExt::as_bytes));
        let nested = mount.is_some_and(|mount| mount.fsid() != fsid);
        if nested {
            hash.write_u64(fsid);
        }
        // There may be thousands of nested file systems, so their numbers have 32 bits.
        let minor = if nested { (hash.finish() >> 32) as u32 } else { (hash.finish() >> 40) as u32 & 0xf_ffff };
        libc::makedev(0x6d7, minor)
    }
}

/// The mount of a view. `None` before it is attached.
#[inline]
fn of_view(view: &AtomicPtr<Mount>) -> Option<&'static Mount> {
    // SAFETY: null, or a mount that `attach_as` leaked.
    unsafe { view.load(Ordering::Acquire).as_ref() }
}

/// Called in the child of a fork, which must not use the parent's sockets.
pub(crate) fn after_fork_child() {
    for mounted in all() {
        mounted.views().for_each(Mount::after_fork_child);
    }
}

/// Called before this process changes its root directory.
pub(crate) fn before_new_root() {
    all().filter_map(Mounted::attached).for_each(Mount::before_new_root);
}

/// Called before a child is created that shares this memory. With `files_too`, it also shares the
/// descriptors.
pub(crate) fn before_sharing_memory(files_too: bool) {
    if any() {
        dnfs::expect_sharing(files_too);
        all().filter_map(Mounted::attached).for_each(Mount::before_sharing_memory);
    }
}
