//! Local files on a modelled medium. libc does the real work first. Then the caller sleeps until
//! the medium would be done.
//!
//! `millrace exec --local-medium` gives a medium to a directory of this host. The kernel knows
//! which descriptors lead below it (fstat and /proc/self/fd, cached by inode), so dup, fork and
//! exec need no support. The model's state is a shared file in memory, which every process of the
//! directory maps: atomic words and no locks, so that a killed process leaves nothing unfinished.

use crate::messages::warn;
use crate::outcome::{Errno, Failure, Out, Timed};
use crate::raw;
use libc::{c_int, off_t};
use media::{Kind, Medium, Operation, Profile};
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Maximum number of local media of one process. A path is compared with each of them.
const MEDIA_MAX: usize = 8;
/// Maximum number of descriptors whose inode is cached, as in `table`. The memory is only reserved.
const DESCRIPTORS_MAX: usize = 1 << 20;
/// The environment variable. Each line is `DIRECTORY`, `STATE FILE` and `MEDIUM`, separated by tabs.
pub(crate) const VARIABLE: &CStr = c"MILLRACE_LOCAL_MEDIUM";

/// A directory that is on a medium.
struct Local {
    directory: Vec<u8>, // no slash at its end, no symbolic link in it
    model: Option<(Medium, &'static [AtomicU64])>,
}

static MEDIA: [OnceLock<Local>; MEDIA_MAX] = [const { OnceLock::new() }; MEDIA_MAX];
static ANY: AtomicBool = AtomicBool::new(false);
/// For each descriptor: its inode when it was last checked (upper 56 bits, scrambled) and the
/// result (lowest byte): [`ELSEWHERE`], or [`FIRST`] plus the number of a medium.
static KNOWN: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

const ELSEWHERE: u64 = 1;
const FIRST: u64 = 2;

/// Whether this process has local media.
#[inline]
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Relaxed)
}

/// Reads the environment. Called once, by the constructor.
pub(crate) fn parse(value: &[u8]) {
    let Some(known) = raw::map(DESCRIPTORS_MAX * size_of::<AtomicU64>()) else {
        warn(format_args!("no memory for local media; none is active"));
        return;
    };
    KNOWN.store(known.cast(), Ordering::Release);
    let mut slots = MEDIA.iter();
    for line in value.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Some(slot) = slots.next() else {
            warn(format_args!("more than {MEDIA_MAX} local media; the rest is not active"));
            break;
        };
        let Some(local) = Local::parse(line) else {
            warn(format_args!("{}: no line of a local medium; not active", String::from_utf8_lossy(line)));
            continue;
        };
        if slot.set(local).is_ok() {
            ANY.store(true, Ordering::Release);
        }
    }
    if any() {
        raw::wake_on_time();
    }
}

impl Local {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b'\t');
        let (directory, state, medium) = (words.next()?, words.next()?, words.next()?);
        let medium = Medium::new(Profile::parse(std::str::from_utf8(medium).ok()?).ok()?);
        let state = map_state(state, medium.words());
        if let Err(errno) = state {
            // Every operation below the directory will fail, because results without their delay
            // would be taken for real.
            warn(format_args!("cannot share the state of the medium of {}: errno {errno}", String::from_utf8_lossy(directory)));
        }
        if let Ok(state) = state {
            medium.begin(state);
        }
        Some(Self { directory: directory.to_vec(), model: state.ok().map(|state| (medium, state)) })
    }
}

/// Maps a state file that `millrace exec` made. It stays mapped as long as the process lives.
fn map_state(path: &[u8], words: usize) -> Result<&'static [AtomicU64], Errno> {
    let path = [path, b"\0"].concat();
    let path = CStr::from_bytes_with_nul(&path).map_err(|_| libc::EINVAL)?;
    let fd = raw::open(path, libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW, 0)?;
    let mapped = raw::fstat(fd).and_then(|stat| {
        let bytes = words * size_of::<AtomicU64>();
        // With a file that is too short, the first store would end the process.
        if stat.st_size < bytes as i64 { Err(libc::EINVAL) } else { raw::map_shared(fd, bytes) }
    });
    let _ = raw::close(fd);
    // SAFETY: the mapping is page-aligned, has these bytes and is never unmapped; atomics are valid
    // with any value that other processes write.
    mapped.map(|at| unsafe { std::slice::from_raw_parts(at.cast::<AtomicU64>(), words) })
}

/// The request of a call for a local file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Reads bytes.
    Read,
    /// Writes bytes, which are stable only if the description requires it.
    Write,
    /// Writes bytes, which must be stable.
    StableWrite,
    /// fsync or fdatasync.
    Flush,
}

/// The outcome of a call that is not for a mount. `out` is the outcome according to the mounts.
pub(crate) fn instead(out: Out, fd: c_int, ask: Ask, at: Option<off_t>) -> Out {
    if out != Out::Pass || !any() {
        return out;
    }
    let came_ns = raw::monotonic_ns();
    let Ok(stat) = raw::fstat(fd) else { return out };
    let directory = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
    if !(stat.st_mode & libc::S_IFMT == libc::S_IFREG || directory && ask == Ask::Flush) {
        return out;
    }
    let Some((index, local)) = medium_of(fd, &stat) else { return out };
    if local.model.is_none() {
        return Out::Errno(libc::EIO);
    }
    let kind = match ask {
        Ask::Read => Kind::Read,
        Ask::Write if !is_stable(fd) => Kind::Buffered,
        Ask::Write | Ask::StableWrite => Kind::Write,
        Ask::Flush if directory => Kind::Metadata,
        Ask::Flush => Kind::Flush,
    };
    Out::Timed(Timed { index, fd, file: stat.st_ino, kind, at, came_ns })
}

/// Whether `fd` is a file below a local medium.
pub(crate) fn has(fd: c_int) -> bool {
    any() && raw::fstat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG && medium_of(fd, &stat).is_some())
}

/// Whether a write through this description waits for the medium. This asks the kernel each time,
/// because the number may belong to another open of the same file by now.
fn is_stable(fd: c_int) -> bool {
    raw::status_flags(fd).is_ok_and(|flags| flags & (libc::O_DSYNC | libc::O_DIRECT) != 0)
}

/// The medium that a descriptor's file is on, and its number.
fn medium_of(fd: c_int, stat: &libc::stat) -> Option<(usize, &'static Local)> {
    let table = KNOWN.load(Ordering::Acquire);
    let slot = usize::try_from(fd).ok().filter(|fd| *fd < DESCRIPTORS_MAX && !table.is_null())?;
    // SAFETY: the table has DESCRIPTORS_MAX zeroed words and is never unmapped.
    let slot = unsafe { &*table.add(slot) };
    let inode = (stat.st_dev ^ stat.st_ino.rotate_left(20)).wrapping_mul(0x9e37_79b9_7f4a_7c15) & !0xff;
    let known = slot.load(Ordering::Relaxed);
    let what = if known & !0xff == inode && known & 0xff != 0 {
        known & 0xff
    } else {
        let what = by_path(fd);
        slot.store(inode | what, Ordering::Relaxed);
        what
    };
    let index = usize::try_from(what.checked_sub(FIRST)?).ok()?;
    MEDIA.get(index)?.get().map(|local| (index, local))
}

/// The cached result for a descriptor, from the kernel's path for it. A removed file keeps its path.
fn by_path(fd: c_int) -> u64 {
    let mut buffer = [0u8; libc::PATH_MAX as usize];
    let Ok(path) = raw::fd_path(fd, &mut buffer) else { return ELSEWHERE };
    let below =
        |local: &Local| path.strip_prefix(local.directory.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/');
    let index = MEDIA.iter().position(|local| local.get().is_some_and(below));
    index.map_or(ELSEWHERE, |index| index as u64 + FIRST)
}

impl Timed {
    /// Called after libc's call. Submits the work that was done, and sleeps until it is due. Does
    /// not change errno.
    pub(crate) fn wait<R: Failure>(self, answer: &R) {
        let Some(bytes) = answer.count() else { return };
        let of_data = matches!(self.kind, Kind::Read | Kind::Buffered | Kind::Write);
        if of_data && bytes == 0 {
            return; // a read at the end of the file does not use the medium
        }
        let Some((medium, state)) = MEDIA.get(self.index).and_then(OnceLock::get).and_then(|local| local.model.as_ref()) else {
            return;
        };
        let offset = match self.at {
            Some(at) => at as u64,
            // The call moved the offset to the end of its bytes.
            None if of_data => raw::lseek(self.fd, 0, libc::SEEK_CUR).map_or(0, |end| (end as u64).saturating_sub(bytes)),
            None => 0,
        };
        let operation = Operation { kind: self.kind, file: self.file, offset, bytes };
        let due_ns = medium.submit(state, self.came_ns, operation, medium.draw(state));
        if due_ns > self.came_ns {
            raw::sleep_until(due_ns);
        }
    }
}
