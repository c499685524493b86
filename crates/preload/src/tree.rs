//! ftw(3) and nftw(3) over a tree of a mount, as glibc walks one. glibc's functions open
//! directories inside libc, where they would find empty placeholders.

use crate::attributes::{lstat, stat};
use crate::ffi;
use crate::hook::hooks;
use crate::names::{chdir, fchdir};
use crate::outcome::{Out, errno, kept, set_errno};
use crate::paths::{self, Target};
use crate::streams::{closedir, dirfd, opendir, readdir};
use libc::{DIR, c_char, c_int};
use std::collections::HashSet;
use std::ffi::{CStr, CString};

/// `struct FTW`.
#[repr(C)]
pub(crate) struct Place {
    base: c_int,
    level: c_int,
}

type Visit = unsafe extern "C" fn(*const c_char, *const libc::stat, c_int, *mut Place) -> c_int;

const FTW_PHYS: c_int = 1;
const FTW_MOUNT: c_int = 2;
const FTW_CHDIR: c_int = 4;
const FTW_DEPTH: c_int = 8;
const FTW_ACTIONRETVAL: c_int = 16;

/// Results of the program's function with FTW_ACTIONRETVAL. Any other nonzero result ends the walk.
const FTW_SKIP_SUBTREE: c_int = 2;
const FTW_SKIP_SIBLINGS: c_int = 3;

/// The kind of an object, with the numbers that programs see.
#[derive(Clone, Copy)]
enum Kind {
    File = 0,
    Directory = 1,
    Unreadable = 2,
    NoStat = 3,
    Link = 4,
    DirectoryAfter = 5,
    Dangling = 6,
}

impl Kind {
    fn of(stat: &libc::stat) -> Self {
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => Self::Directory,
            libc::S_IFLNK => Self::Link,
            _ => Self::File,
        }
    }

    /// The number for ftw, which has only four kinds.
    fn for_ftw(self) -> c_int {
        match self {
            Self::Link => Self::File as c_int,
            Self::DirectoryAfter => Self::Directory as c_int,
            Self::Dangling => Self::NoStat as c_int,
            other => other as c_int,
        }
    }
}

/// A walk in progress.
struct Walk {
    visit: Visit,
    flags: c_int,
    plain: bool, // ftw
    path: Vec<u8>,
    base: usize,
    level: c_int,
    device: u64,
    seen: HashSet<(u64, u64)>,
}

fn stat_of(path: &CStr, follow: bool) -> Result<libc::stat, c_int> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let call = if follow { stat::hook } else { lstat::hook };
    // SAFETY: the path ends with a NUL, and `found` has room for the answer.
    if unsafe { call(path.as_ptr(), found.as_mut_ptr()) } != 0 {
        return Err(errno());
    }
    // SAFETY: the call filled it; zeroes would also be a valid value.
    Ok(unsafe { found.assume_init() })
}

impl Walk {
    fn has(&self, flag: c_int) -> bool {
        self.flags & flag != 0
    }

    /// A name by which the object can be reached from the current directory.
    fn name(&self) -> CString {
        let from = if self.has(FTW_CHDIR) { self.base } else { 0 };
        let name = self.path.get(from..).filter(|name| !name.is_empty()).unwrap_or(b".");
        CString::new(name).unwrap_or_default()
    }

    fn tell(&self, stat: &libc::stat, kind: Kind) -> c_int {
        let path = CString::new(self.path.clone()).unwrap_or_default();
        let mut place = Place { base: self.base as c_int, level: self.level };
        let kind = if self.plain { kind.for_ftw() } else { kind as c_int };
        // SAFETY: the program's function gets the arguments of nftw(3). A function for ftw takes
        // only the first three.
        unsafe { (self.visit)(path.as_ptr(), stat, kind, &raw mut place) }
    }

    /// Visits the first object. The error is an errno.
    fn begin(&mut self) -> Result<c_int, c_int> {
        let name = self.name();
        let answer = match stat_of(&name, !self.has(FTW_PHYS)) {
            Ok(stat) if Kind::of(&stat) as c_int == Kind::Directory as c_int => {
                self.device = stat.st_dev;
                self.seen.insert((stat.st_dev, stat.st_ino));
                self.directory(&stat)?
            }
            Ok(stat) => self.tell(&stat, Kind::of(&stat)),
            Err(libc::ENOENT) if !self.has(FTW_PHYS) => match stat_of(&name, false) {
                Ok(stat) => self.tell(&stat, Kind::Dangling),
                Err(errno) => return Err(errno),
            },
            Err(errno) => return Err(errno),
        };
        let skips = self.has(FTW_ACTIONRETVAL) && matches!(answer, FTW_SKIP_SUBTREE | FTW_SKIP_SIBLINGS);
        Ok(if skips { 0 } else { answer })
    }

    fn object(&mut self) -> Result<c_int, c_int> {
        let name = self.name();
        // SAFETY: struct stat is plain integers; zero is valid.
        let nothing = || unsafe { std::mem::zeroed() };
        let (stat, kind) = match stat_of(&name, !self.has(FTW_PHYS)) {
            Ok(stat) => (stat, Kind::of(&stat)),
            Err(libc::EACCES | libc::ENOENT) => match stat_of(&name, false) {
                Ok(stat) if matches!(Kind::of(&stat), Kind::Link) => (stat, Kind::Dangling),
                Ok(stat) => (stat, Kind::NoStat),
                Err(_) => (nothing(), Kind::NoStat),
            },
            Err(errno) => return Err(errno),
        };
        if self.has(FTW_MOUNT) && !matches!(kind, Kind::NoStat) && stat.st_dev != self.device {
            return Ok(0);
        }
        let answer = match kind {
            Kind::Directory if self.has(FTW_PHYS) || self.seen.insert((stat.st_dev, stat.st_ino)) => self.directory(&stat)?,
            Kind::Directory => 0,
            _ => self.tell(&stat, kind),
        };
        let skips = self.has(FTW_ACTIONRETVAL) && answer == FTW_SKIP_SUBTREE;
        Ok(if skips { 0 } else { answer })
    }

    fn directory(&mut self, stat: &libc::stat) -> Result<c_int, c_int> {
        // SAFETY: the path ends with a NUL; the stream is closed once below.
        let stream = unsafe { opendir::hook(self.name().as_ptr()) };
        if stream.is_null() {
            return match errno() {
                libc::EACCES => Ok(self.tell(stat, Kind::Unreadable)),
                errno => Err(errno),
            };
        }
        let answer = self.inside(stat, stream);
        // SAFETY: the stream is open, and no code uses it afterwards.
        unsafe { closedir::hook(stream) };
        answer
    }

    fn inside(&mut self, stat: &libc::stat, stream: *mut DIR) -> Result<c_int, c_int> {
        if !self.has(FTW_DEPTH) {
            let answer = self.tell(stat, Kind::Directory);
            if answer != 0 {
                return Ok(answer);
            }
        }
        self.enter(stream)?;
        let (length, base) = (self.path.len(), self.base);
        if self.path.last() != Some(&b'/') {
            self.path.push(b'/');
        }
        self.base = self.path.len();
        self.level += 1;
        let mut answer = 0;
        while answer == 0 {
            let Some(name) = next_name(stream)? else { break };
            self.path.truncate(self.base);
            self.path.extend_from_slice(&name);
            answer = self.object()?;
            self.enter(stream)?; // back from a directory below
        }
        if self.has(FTW_ACTIONRETVAL) && answer == FTW_SKIP_SIBLINGS {
            answer = 0;
        }
        self.path.truncate(length);
        self.base = base;
        self.level -= 1;
        if answer == 0 && self.has(FTW_DEPTH) {
            answer = self.tell(stat, Kind::DirectoryAfter);
        }
        Ok(answer)
    }

    fn enter(&self, stream: *mut DIR) -> Result<(), c_int> {
        // SAFETY: the stream is open.
        if self.has(FTW_CHDIR) && unsafe { fchdir::hook(dirfd::hook(stream)) } != 0 {
            return Err(errno());
        }
        Ok(())
    }
}

/// The next name other than `.` and `..`.
fn next_name(stream: *mut DIR) -> Result<Option<Vec<u8>>, c_int> {
    loop {
        set_errno(0);
        // SAFETY: the stream is open.
        let entry = unsafe { readdir::hook(stream) };
        if entry.is_null() {
            return if errno() == 0 { Ok(None) } else { Err(errno()) };
        }
        // SAFETY: readdir returned the entry, which is valid until the next call.
        let name = unsafe { CStr::from_ptr((&raw const (*entry).d_name).cast()) }.to_bytes();
        if name != b"." && name != b".." {
            return Ok(Some(name.to_vec()));
        }
    }
}

/// # Safety
/// `path` is NULL or a C string; `visit` is a function as [`Visit`].
unsafe fn walk(path: *const c_char, visit: Option<Visit>, flags: c_int, plain: bool) -> Result<c_int, Out> {
    // SAFETY: `path` is NULL or a C string by the caller's promise.
    let bytes = unsafe {
        if !crate::mounts::any() {
            return Err(Out::Pass);
        }
        match paths::target_linked(libc::AT_FDCWD, path, flags & FTW_PHYS == 0) {
            Ok(Target::Local(_)) => return Err(Out::Pass),
            Ok(Target::At(..)) => ffi::path(path)?,
            Err(out) => return Err(out),
        }
    };
    let known = FTW_PHYS | FTW_MOUNT | FTW_CHDIR | FTW_DEPTH | FTW_ACTIONRETVAL;
    let (Some(visit), 0) = (visit, flags & !known) else { return Err(Out::Errno(libc::EINVAL)) };
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(1, |last| last + 1);
    let path = bytes[..end].to_vec();
    let base = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let mut walk = Walk { visit, flags, plain, path, base, level: 0, device: 0, seen: HashSet::new() };
    if !walk.has(FTW_CHDIR) {
        return walk.begin().map_err(Out::Errno);
    }
    // SAFETY: the paths end with a NUL, and the stream is open until it is closed once.
    unsafe {
        let here = kept(opendir::hook(c".".as_ptr()))?;
        let parent = CString::new(&walk.path[..base.saturating_sub(1).max(usize::from(base > 0))]).unwrap_or_default();
        let moved = if base == 0 { Ok(0) } else { kept(chdir::hook(parent.as_ptr())) };
        let answer = moved.and_then(|_| walk.begin().map_err(Out::Errno));
        fchdir::hook(dirfd::hook(here));
        closedir::hook(here);
        answer
    }
}

hooks! {
    /// ftw(3).
    fn ftw(path: *const c_char, visit: Option<Visit>, _descriptors: c_int) -> c_int { walk(path, visit, 0, true) }
    /// ftw(3).
    fn ftw64(path: *const c_char, visit: Option<Visit>, _descriptors: c_int) -> c_int { walk(path, visit, 0, true) }
    /// nftw(3).
    fn nftw(path: *const c_char, visit: Option<Visit>, _descriptors: c_int, flags: c_int) -> c_int { walk(path, visit, flags, false) }
    /// nftw(3).
    fn nftw64(path: *const c_char, visit: Option<Visit>, _descriptors: c_int, flags: c_int) -> c_int { walk(path, visit, flags, false) }
}
