//! Mounts and unmounts: by mount(2) as root, otherwise by fusermount3.

use crate::device::Device;
use crate::error::MountError;
use crate::limits::PROBE_MS;
use crate::mount_table::{KIND, is_millrace, mounted_at, mounted_elsewhere, mounting_user};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The set-uid program of the package fuse3.
const PROGRAM: &str = "fusermount3";

/// Options of a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountHow {
    /// Other users may use it. Only for a mount by another user than root: a mount by root always serves all users.
    pub allow_other: bool,
    /// All changes are refused (EROFS).
    pub read_only: bool,
    /// Programs on it cannot be executed.
    pub no_exec: bool,
}

/// Whether a mount of this URL is at a directory, and its process is alive.
#[must_use]
pub fn is_mounted(directory: &Path, url: &dnfs::NfsUrl) -> bool {
    mounted_at(directory).is_some_and(|entry| is_millrace(&entry) && entry.source == url.to_string()) && !is_dead(directory)
}

/// Checks that a directory can be mounted. First removes mounts whose process was killed, and returns whether there
/// were any. `directory` is as [`crate::resolved`] returns it.
///
/// # Errors
/// [`MountError::Mounted`], or why it is not an empty directory.
pub fn prepare(directory: &Path) -> Result<bool, MountError> {
    let mut cleaned = false;
    while let Some(entry) = mounted_at(directory).filter(is_millrace) {
        if !is_dead(directory) {
            return Err(MountError::Mounted { directory: directory.to_owned(), source_text: entry.source });
        }
        unmount_any(directory, true)?;
        cleaned = true;
    }
    let look = |source| MountError::Look { path: directory.to_owned(), source };
    let found = directory.symlink_metadata().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::Missing(directory.to_owned()),
        _ => look(error),
    })?;
    if !found.is_dir() {
        return Err(MountError::NotDirectory(directory.to_owned()));
    }
    if directory.read_dir().map_err(look)?.next().is_some() {
        return Err(MountError::NotEmpty(directory.to_owned()));
    }
    Ok(cleaned)
}

/// Whether the process that served a mount has ended (ENOTCONN). A process that waits for its server has not.
fn is_dead(directory: &Path) -> bool {
    let (sender, receiver) = std::sync::mpsc::channel();
    let directory = directory.to_owned();
    // The check runs in a separate thread, because it may wait for a server.
    std::thread::spawn(move || {
        let error = directory.metadata().err().and_then(|error| error.raw_os_error());
        let _ = sender.send(error == Some(Errno::NOTCONN.raw_os_error()));
    });
    receiver.recv_timeout(Duration::from_millis(PROBE_MS)).unwrap_or(false)
}

/// A file system that was unmounted at a directory.
#[derive(Debug)]
pub struct Unmounted {
    device: String,
}

/// Unmounts a mount of Millrace. With `lazy` also one that is in use, which then ends when its last user ends.
///
/// # Errors
/// [`MountError::NotMounted`], [`MountError::OfAnother`], [`MountError::Busy`], the error of the kernel or of fusermount3.
pub fn unmount(directory: &Path, lazy: bool) -> Result<Unmounted, MountError> {
    let Some(entry) = mounted_at(directory).filter(is_millrace) else {
        return Err(MountError::NotMounted(directory.to_owned()));
    };
    let me = rustix::process::geteuid();
    if let Some(uid) = mounting_user(&entry).filter(|uid| !me.is_root() && *uid != me.as_raw().to_string()) {
        return Err(MountError::OfAnother { directory: directory.to_owned(), uid: uid.to_owned() });
    }
    unmount_any(directory, lazy)?;
    Ok(Unmounted { device: entry.device })
}

impl Unmounted {
    /// Whether the process `pid` still serves the file system.
    #[must_use]
    pub fn is_served_by(&self, pid: u32) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let name = thread_name(&self.device);
        let mut names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        names.any(|found| found.trim_end() == name)
    }

    /// A process in another mount namespace that still has the file system mounted, such as a container that was started after
    /// the mount.
    #[must_use]
    pub fn mounted_elsewhere(&self) -> Option<u32> {
        mounted_elsewhere(&self.device)
    }
}

/// Name of a thread of the process that serves a file system, by which other processes find that process. At most 15 bytes, as
/// the kernel requires.
pub(crate) fn thread_name(device: &str) -> String {
    format!("fuse {device}")
}

fn unmount_any(directory: &Path, lazy: bool) -> Result<(), MountError> {
    if rustix::process::geteuid().is_root() {
        let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() } | UnmountFlags::NOFOLLOW;
        return match rustix::mount::unmount(directory, flags) {
            Ok(()) => Ok(()),
            Err(Errno::BUSY) => Err(MountError::Busy(directory.to_owned())),
            Err(Errno::INVAL) => Err(MountError::NotMounted(directory.to_owned())),
            Err(error) => Err(MountError::Refused { directory: directory.to_owned(), source: error.into() }),
        };
    }
    let mut command = Command::new(PROGRAM);
    command.args(if lazy { &["-u", "-z"][..] } else { &["-u"] }).arg("--").arg(directory).stdin(Stdio::null());
    let output = command.output().map_err(no_program)?;
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.success() {
        true => Ok(()),
        false if message.contains("busy") => Err(MountError::Busy(directory.to_owned())),
        false => Err(MountError::Program { directory: directory.to_owned(), message }),
    }
}

/// Mounts. `source` is the source in mount tables.
///
/// # Errors
/// [`MountError::Device`], [`MountError::Refused`], [`MountError::NoProgram`], [`MountError::Program`].
pub(crate) fn mount(directory: &Path, source: &str, how: MountHow) -> Result<Device, MountError> {
    let device = if rustix::process::geteuid().is_root() {
        mount_as_root(directory, source, how)?
    } else {
        mount_by_program(directory, source, how)?
    };
    Ok(Device::new(device))
}

/// Mounts for all users. Each call to the server has the credentials of its caller.
fn mount_as_root(directory: &Path, source: &str, how: MountHow) -> Result<OwnedFd, MountError> {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/fuse", flags, rustix::fs::Mode::empty());
    let device = device.map_err(|error| MountError::Device(error.into()))?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
    let options = CString::new(options).unwrap_or_default();
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, how.read_only);
    flags.set(MountFlags::NOEXEC, how.no_exec);
    match rustix::mount::mount(source, directory, KIND, flags, options.as_c_str()) {
        Ok(()) => Ok(device),
        Err(error) => Err(MountError::Refused { directory: directory.to_owned(), source: error.into() }),
    }
}

/// Mounts by fusermount3, which sends the device over the socket named in its environment.
fn mount_by_program(directory: &Path, source: &str, how: MountHow) -> Result<OwnedFd, MountError> {
    let (ours, its) = UnixStream::pair().map_err(MountError::Device)?;
    let source = source.replace('\\', "\\\\").replace(',', "\\,");
    let asked = [(how.allow_other, ",allow_other"), (how.read_only, ",ro"), (how.no_exec, ",noexec")];
    let other: String = asked.into_iter().filter_map(|(is_asked, option)| is_asked.then_some(option)).collect();
    let mut command = Command::new(PROGRAM);
    command.arg("-o").arg(format!("fsname={source},subtype=millrace,nosuid,nodev{other}")).arg("--").arg(directory);
    let output = command.env("_FUSE_COMMFD", "0").stdin(Stdio::from(OwnedFd::from(its))).output().map_err(no_program)?;
    drop(command); // with its end of the socket
    let refused = |message: &str| MountError::Program { directory: directory.to_owned(), message: message.to_owned() };
    if !output.status.success() {
        return Err(refused(String::from_utf8_lossy(&output.stderr).trim()));
    }
    received(&ours).map_err(|error| MountError::Device(error.into()))?.ok_or_else(|| refused("it sent no device"))
}

fn received(socket: &UnixStream) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(socket.as_fd(), &mut data, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.flatten().next())
}

fn no_program(error: io::Error) -> MountError {
    if error.kind() == io::ErrorKind::NotFound { MountError::NoProgram } else { MountError::Device(error) }
}
