//! Reasons why a process can use no mount: it has no memory for the tables, or it does not see the
//! runtime directory that the other processes share.

use crate::outcome::Errno;
use crate::raw;
use std::ffi::{CStr, CString};
use std::fmt::{Display, Formatter};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The runtime directory that `millrace exec` found: `DEVICE:INODE:PATH`.
pub(crate) const VARIABLE: &CStr = c"MILLRACE_RUNTIME_ID";

/// The reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no address space for the tables, or for the memory of a mount.
    AddressSpace,
    /// Another file system covers the runtime directory, for example in a mount namespace with a
    /// /dev/shm of its own.
    Covered,
    /// The process has called chroot(2), after which the mount's path names another object.
    NewRoot,
}

impl Refusal {
    /// The error of each call on the mounts.
    pub(crate) const fn errno(self) -> Errno {
        match self {
            Self::AddressSpace => libc::ENOMEM,
            Self::Covered => libc::EIO,
            Self::NewRoot => libc::ENOENT,
        }
    }
}

impl Display for Refusal {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        match (self, FOUND.get()) {
            (Self::Covered, Some(found)) => write!(
                out,
                "the runtime directory {} is not the one that `millrace exec` found: another file system covers it in this mount namespace, it was \
                 removed (`millrace nfs give-up --force` does that), or the root directory is another one; make it visible here (bwrap --bind), or run `millrace exec` inside the namespace",
                found.path.to_string_lossy()
            ),
            (Self::NewRoot, _) => {
                out.write_str("this process has changed its root directory; what it has open of the mount goes on working")
            }
            _ => out.write_str(
                "this process has too little address space for the memory of a mount: raise RLIMIT_AS (ulimit -v) or RLIMIT_DATA (ulimit -d) by 200 MiB",
            ),
        }
    }
}

/// The runtime directory that `millrace exec` found.
#[derive(Debug)]
struct RuntimeDirectory {
    device: u64,
    inode: u64,
    path: CString,
}

/// Bytes of address space that an attachment needs: 40 MiB of shared state, and a reserve for the program.
const ATTACH_BYTES: usize = 48 << 20;
/// Bytes of private memory that an attachment needs, and a reserve for the program. Without it, a
/// failed allocation of this library would end the program.
const ATTACH_OWN_BYTES: usize = 4 << 20;

static FOUND: OnceLock<RuntimeDirectory> = OnceLock::new();
static REFUSED: OnceLock<Refusal> = OnceLock::new();
static HAS_NEW_ROOT: AtomicBool = AtomicBool::new(false);

/// Refuses all use of mounts from now on.
pub(crate) fn set(refusal: Refusal) {
    let _ = REFUSED.set(refusal);
}

/// Reads the variable. `root` is the runtime directory of this process. Returns the device of the
/// runtime directory if another file system covers it, because inherited descriptors of mounts are
/// on that device. Called once, by the constructor.
pub(crate) fn learn(value: &[u8], root: &[u8]) -> Option<u64> {
    let mut parts = value.splitn(3, |byte| *byte == b':');
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
    let (device, inode) = (number()?, number()?);
    // With another path, the user has a runtime directory of its own, or the program was started
    // with another one.
    let path = parts.next().filter(|path| *path == root)?;
    let _ = FOUND.set(RuntimeDirectory { device, inode, path: CString::new(path).ok()? });
    (of_now() == Some(Refusal::Covered)).then_some(device)
}

/// The current reason why no mount can be used. The program may have covered the runtime directory
/// since it started.
pub(crate) fn of_now() -> Option<Refusal> {
    if let Some(found) = FOUND.get().filter(|_| REFUSED.get().is_none()) {
        let seen = raw::stat(&found.path, true);
        if seen.is_ok_and(|seen| (seen.st_dev, seen.st_ino) == (found.device, found.inode)) {
            return None;
        }
        set(if HAS_NEW_ROOT.load(Ordering::Relaxed) { Refusal::NewRoot } else { Refusal::Covered });
    }
    REFUSED.get().copied()
}

/// Refuses an attachment for which there is not enough address space.
pub(crate) fn of_attach() -> Option<Refusal> {
    let has_room = |bytes, protection| {
        raw::map_protected(bytes, protection).is_some_and(|room| {
            // SAFETY: exactly the mapping that was just made, whose address no other code has.
            unsafe { raw::unmap(room, bytes) };
            true
        })
    };
    // RLIMIT_DATA counts only writable memory.
    let enough = has_room(ATTACH_BYTES, libc::PROT_NONE) && has_room(ATTACH_OWN_BYTES, libc::PROT_READ | libc::PROT_WRITE);
    (!enough).then_some(Refusal::AddressSpace)
}

/// Notes that this process has called chroot(2).
pub(crate) fn note_new_root() {
    HAS_NEW_ROOT.store(true, Ordering::Relaxed);
}

/// Whether the reason is that this process does not see the runtime directory.
pub(crate) fn is_covered() -> bool {
    REFUSED.get() == Some(&Refusal::Covered)
}

/// Whether the path of a descriptor on the runtime directory's device is that of a placeholder:
/// `…/IDENTITY/p/SLOT.GENERATION`, or `…/IDENTITY/d/RANDOM/d`. The part before these depends on the
/// mount namespace.
pub(crate) fn is_placeholder(path: &[u8]) -> bool {
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let mut parts = path.rsplit(|byte| *byte == b'/');
    let (Some(last), Some(above)) = (parts.next(), parts.next()) else { return false };
    let is_identity = |part: Option<&[u8]>| part.is_some_and(|part| part.len() == 16 && part.iter().all(u8::is_ascii_hexdigit));
    match above {
        b"p" => last.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') && is_identity(parts.next()),
        above => last == b"d" && is_identity(Some(above)) && parts.next() == Some(b"d") && is_identity(parts.next()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_known_by_the_end_of_their_path_alone() {
        for path in ["/dev/shm/millrace-0/18b88809fd908f86/p/17.1", "/millrace-0/18b88809fd908f86/p/17.1 (deleted)"] {
            assert!(is_placeholder(path.as_bytes()), "{path}");
        }
        assert!(is_placeholder(b"/18b88809fd908f86/d/0123456789abcdef/d (deleted)"));
        for path in ["/dev/shm/x/p/17.1", "/run/postgresql", "/", "", "/18b88809fd908f86/p/x", "/18b88809fd908f86/d", "/p/1.1"] {
            assert!(!is_placeholder(path.as_bytes()), "{path}");
        }
    }
}
