//! The processes of a mount's keeper: finds and starts them.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Mount;
use crate::segment::runtime_dir::{FILE_MODE, RuntimeDir};
use crate::segment::runtime_root::{VARIABLE, runtime_root};
use crate::segment::{SegmentError, local};
use crate::sys::detached;
use crate::sys::fd::Fd;
use crate::sys::internal_fd::InternalFd;
use crate::sys::local_file::{CPath, Errno, flock, is_executable, open, stat};
use crate::sys::process::pid_namespace;

/// Name of the lock that the keeper holds.
pub(super) const KEEPER: &str = "keeper";
/// Name of the lock that the standby holds, which waits to replace the keeper. Each PID namespace has its own, because all
/// processes of a namespace end together.
pub(super) const STANDBY: &str = "keeper-standby";
/// Name of the lock that the keepers of a PID namespace, including standbys, hold shared.
pub(super) const HERE: &str = "keeper-here";
/// Name of the lock that each attached process holds shared.
const USERS: &str = "users";

/// Environment variables that a keeper inherits. They determine the segment's directory, the numbers of users, and the
/// maximum age of unstable data.
const INHERITED: [&str; 4] = [VARIABLE, "XDG_RUNTIME_DIR", crate::user_namespace::VARIABLE, "MILLRACE_DIRTY_EXPIRE_MS"];

/// The command that runs a keeper: `millrace keeper --mount …`.
#[derive(Debug)]
pub struct KeeperProgram {
    program: CString,
    arguments: [CString; 4],
    environment: Vec<CString>,
}

impl KeeperProgram {
    /// The command that runs `binary` as the keeper of `mount`, which has the form `/PATH=nfs://…`. Reads the environment now.
    /// `None` if one of the values contains a NUL.
    #[must_use]
    pub fn new(binary: &OsStr, mount: &[u8]) -> Option<Self> {
        let text = |bytes: &[u8]| CString::new(bytes).ok();
        let variable = |name: &&str| {
            let value = std::env::var_os(name)?;
            text(&[name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        Some(Self {
            program: text(binary.as_bytes())?,
            arguments: [text(b"millrace")?, text(b"keeper")?, text(b"--mount")?, text(mount)?],
            environment: INHERITED.iter().filter_map(variable).collect(),
        })
    }

    /// The same keeper for a mount below this runtime directory, such as that of a group. `None` if its path contains a NUL.
    #[must_use]
    pub fn with_runtime_root(mut self, runtime: &Path) -> Option<Self> {
        if runtime != runtime_root() {
            let variable = [VARIABLE.as_bytes(), b"="].concat();
            self.environment.retain(|entry| !entry.as_bytes().starts_with(&variable));
            self.environment.push(CString::new([&variable, runtime.as_os_str().as_bytes()].concat()).ok()?);
        }
        Some(self)
    }

    /// Starts the keeper, not as a child of this process, and does not wait for it. Returns false
    /// if that failed.
    #[must_use]
    pub fn start(&self) -> bool {
        is_executable(&CPath::new(self.program.as_bytes()))
            && detached::start(&self.program, &self.arguments, &self.environment).is_ok()
    }
}

impl Mount {
    /// Whether a keeper serves this mount, and a keeper or standby of this PID namespace will serve it after the others
    /// have ended. A keeper that is ending does not count once this process is attached.
    #[must_use]
    pub fn has_keeper(&self) -> bool {
        let directory = self.segment.directory();
        // If the state of a lock is unknown, assume that it is held: no program depends on its
        // keeper.
        let is_free = |name: &str, kind| matches!(attempt(directory, name, kind), Ok(Some(_)));
        !is_free(KEEPER, libc::LOCK_SH) && !is_free(&of_namespace(HERE), libc::LOCK_EX)
    }
}

/// Marks this process as a user of the mount, until it ends or calls exec. Waits while a keeper is ending. `None` if the
/// directory was removed meanwhile.
pub(super) fn be_user(directory: &RuntimeDir) -> Result<Option<InternalFd>, SegmentError> {
    let fd = open(&directory.lock_path(USERS), libc::O_RDWR | libc::O_CREAT, FILE_MODE).map_err(local("open a lock"))?;
    flock(&fd, libc::LOCK_SH).map_err(local("take the lock"))?;
    let is_there = stat(&fd).map_err(local("examine a lock"))?.is_named;
    Ok(is_there.then(|| InternalFd::moved_up(fd)))
}

/// The name of a lock that each PID namespace has for itself. It is `name` on the host itself, or if the namespace is
/// unknown.
fn of_namespace(name: &str) -> String {
    pid_namespace().map_or_else(|| name.to_owned(), |namespace| format!("{name}-{namespace:x}"))
}

/// The lock of a keeper, held until dropped. Creates no file in a directory that was removed.
#[derive(Debug)]
pub(super) struct Place {
    lock: Fd,
    here: Option<Fd>,
}

impl Place {
    /// Becomes the keeper, and returns whether another one had to end first. `None` if another process already waits.
    pub(super) fn take(directory: &RuntimeDir) -> Result<Option<(Self, bool)>, Errno> {
        let here = open(&directory.lock_path(&of_namespace(HERE)), libc::O_RDWR | libc::O_CREAT, FILE_MODE)?;
        flock(&here, libc::LOCK_SH)?;
        if let Some(mut place) = attempt(directory, KEEPER, libc::LOCK_EX)? {
            place.here = Some(here);
            return Ok(Some((place, false)));
        }
        let Some(waiting) = attempt(directory, &of_namespace(STANDBY), libc::LOCK_EX)? else { return Ok(None) };
        let lock = open(&directory.lock_path(KEEPER), libc::O_RDWR, 0)?;
        flock(&lock, libc::LOCK_EX)?;
        drop(waiting);
        Ok(Some((Self { lock, here: Some(here) }, true)))
    }

    /// Whether a process of this PID namespace waits to be the keeper.
    pub(super) fn has_standby(directory: &RuntimeDir) -> bool {
        !matches!(attempt(directory, &of_namespace(STANDBY), libc::LOCK_SH), Ok(Some(_)))
    }

    /// Prevents processes from attaching, if no process is attached.
    pub(super) fn without_users(directory: &RuntimeDir) -> Option<Self> {
        attempt(directory, USERS, libc::LOCK_EX).ok().flatten()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // An explicit unlock, because a child that was forked meanwhile shares the open file and would keep the lock.
        let _ = flock(&self.lock, libc::LOCK_UN);
        self.here.as_ref().map(|here| flock(here, libc::LOCK_UN));
    }
}

/// While this is held, no process uses the mount, no keeper serves it, and neither can begin.
#[derive(Debug)]
pub(super) struct Alone {
    // Dropped in this order: a process that attaches meanwhile waits for the last one and then finds the others free.
    _standby: Place,
    _keeper: Place,
    _users: Place,
}

impl Alone {
    /// `None` if a process uses or serves the mount.
    pub(super) fn take(directory: &RuntimeDir) -> Result<Option<Self>, SegmentError> {
        let attempt = |name: &str| attempt(directory, name, libc::LOCK_EX).map_err(local("take the lock"));
        let Some(users) = attempt(USERS)? else { return Ok(None) };
        let Some(keeper) = attempt(KEEPER)? else { return Ok(None) };
        Ok(attempt(&of_namespace(STANDBY))?.map(|standby| Self { _standby: standby, _keeper: keeper, _users: users }))
    }
}

pub(super) fn attempt(directory: &RuntimeDir, name: &str, kind: i32) -> Result<Option<Place>, Errno> {
    let fd = open(&directory.lock_path(name), libc::O_RDWR | libc::O_CREAT, FILE_MODE)?;
    match flock(&fd, kind | libc::LOCK_NB) {
        Ok(()) => Ok(Some(Place { lock: fd, here: None })),
        Err(Errno(libc::EWOULDBLOCK)) => Ok(None),
        Err(errno) => Err(errno),
    }
}
