//! Errors of mounting and unmounting.

use std::io;
use std::path::PathBuf;

/// Why a directory cannot be mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The path does not exist.
    #[error("no such directory {0}")]
    Missing(PathBuf),
    /// The path is not that of a directory.
    #[error("{0} is not a directory")]
    NotDirectory(PathBuf),
    /// The directory is not empty, and the mount would hide its content.
    #[error("the directory {0} is not empty")]
    NotEmpty(PathBuf),
    /// A live process of Millrace serves a mount there.
    #[error("{directory} is a mount of {source_text} already")]
    Mounted {
        /// The directory.
        directory: PathBuf,
        /// The source of the mount in mountinfo.
        source_text: String,
    },
    /// The directory is not a mount of Millrace.
    #[error("{0} is not a mount of millrace")]
    NotMounted(PathBuf),
    /// Another user made it, and only that user and root may unmount it.
    #[error("{directory} is a mount that the user with uid {uid} made")]
    OfAnother {
        /// The directory.
        directory: PathBuf,
        /// The user that mounted it.
        uid: String,
    },
    /// The mount is in use.
    #[error("{0} is in use: a program has a file of it open, or its working directory there")]
    Busy(PathBuf),
    /// The directory could not be examined.
    #[error("inspect {path}: {source}")]
    Look {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// /dev/fuse cannot be opened.
    #[error("open /dev/fuse: {0}")]
    Device(#[source] io::Error),
    /// mount(2) refused.
    #[error("the kernel refuses to mount at {directory}: {source}")]
    Refused {
        /// The directory.
        directory: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The set-uid program with which users other than root mount is missing.
    #[error("there is no fusermount3 in PATH, which mounts for users other than root")]
    NoProgram,
    /// fusermount3 failed.
    #[error("fusermount3 for {directory}: {message}")]
    Program {
        /// The directory.
        directory: PathBuf,
        /// What it printed.
        message: String,
    },
    /// The kernel's FUSE lacks a required feature.
    #[error("the kernel's FUSE lacks record locks or requests of more than a page: it is of version {major}.{minor}")]
    Kernel {
        /// Major version of the protocol.
        major: u32,
        /// Minor version of the protocol.
        minor: u32,
    },
    /// /proc cannot be read.
    #[error("read /proc/self/status, which has the groups of callers: {0}")]
    Proc(#[source] io::Error),
    /// /proc belongs to another PID namespace than the process ids in requests.
    #[error("/proc is that of another PID namespace: the groups of the programs that use the mount cannot be read")]
    ForeignProc,
    /// The device failed.
    #[error("read requests from /dev/fuse: {0}")]
    Requests(#[source] io::Error),
    /// A thread could not be started.
    #[error("start a thread: {0}")]
    Thread(#[source] io::Error),
}

const DEVICE_HINT: &str = "chmod 0666 /dev/fuse, as most systems have it; in a container, allow the device";

impl MountError {
    /// What the user can do about it, if there is a hint.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing(directory) => format!("mkdir -p {}", directory.display()),
            Self::NotDirectory(_) | Self::NotEmpty(_) => "mount at an empty directory: what is in it would be hidden".into(),
            Self::Mounted { directory, .. } => {
                format!("`millrace unmount {}` first, or mount at another directory", directory.display())
            }
            Self::NotMounted(_) => "`findmnt -t fuse.millrace` lists the mounts of millrace".into(),
            Self::OfAnother { directory, .. } => {
                format!("unmount it as that user or as root: millrace unmount {}", directory.display())
            }
            Self::Busy(directory) => {
                format!(
                    "`fuser -vm {0}` names the programs; `millrace unmount --lazy {0}` unmounts it once they end",
                    directory.display()
                )
            }
            Self::Proc(_) => "mount -t proc proc /proc".into(),
            Self::ForeignProc => {
                "mount outside of this PID namespace, or mount a /proc of its own first: `unshare --pid --fork --mount-proc`"
                    .into()
            }
            Self::Device(source) => match source.kind() {
                io::ErrorKind::NotFound => "modprobe fuse; in a container, give it the device /dev/fuse".into(),
                _ => DEVICE_HINT.into(),
            },
            Self::Refused { .. } => "root needs CAP_SYS_ADMIN to mount: in a container, add it, or mount on the host".into(),
            Self::NoProgram => "install the package fuse3, or run it as root".into(),
            Self::Program { message, .. } if message.contains("user_allow_other") => {
                "add a line `user_allow_other` to /etc/fuse.conf, or leave out --allow-other".into()
            }
            Self::Program { message, .. } if message.contains("/dev/fuse") => DEVICE_HINT.into(),
            Self::Program { directory, message } if message.contains("no write access") => {
                format!("mount at a directory that this user owns, or as root: chown USER {}", directory.display())
            }
            Self::Program { .. } | Self::Look { .. } | Self::Requests(_) | Self::Thread(_) => return None,
            Self::Kernel { .. } => "Linux 4.20 or newer is needed".into(),
        })
    }
}
