//! The layout of glibc's `<fts.h>`: an entry of a walk, which the program sees, and its memory.

use crate::outcome::Failure;
use libc::{c_char, c_int, c_long, c_short, c_ushort, c_void};
use std::cell::Cell;
use std::ops::Deref;
use std::ptr::NonNull;

/// The kind of an entry (`fts_info`).
pub(super) mod info {
    use libc::c_ushort;

    pub(crate) const DIRECTORY: c_ushort = 1;
    pub(crate) const CYCLE: c_ushort = 2;
    pub(crate) const OTHER: c_ushort = 3;
    pub(crate) const UNREADABLE: c_ushort = 4;
    pub(crate) const DOT: c_ushort = 5;
    pub(crate) const DIRECTORY_AFTER: c_ushort = 6;
    pub(crate) const ERROR: c_ushort = 7;
    pub(crate) const FILE: c_ushort = 8;
    pub(crate) const BEGINNING: c_ushort = 9;
    pub(crate) const NO_STAT: c_ushort = 10;
    pub(crate) const NO_STAT_WANTED: c_ushort = 11;
    pub(crate) const LINK: c_ushort = 12;
    pub(crate) const DANGLING: c_ushort = 13;
}

/// The program's instruction for an entry (`fts_instr`).
pub(super) mod instruction {
    use libc::c_ushort;

    pub(crate) const AGAIN: c_ushort = 1;
    pub(crate) const FOLLOW: c_ushort = 2;
    pub(crate) const NONE: c_ushort = 3;
    /// `FTS_SKIP`.
    pub(crate) const LEAVE_OUT: c_ushort = 4;
}

/// Level of the roots that the program named, and level of their parent.
pub(super) const ROOT_LEVEL: c_short = 0;
pub(super) const ABOVE_ROOTS: c_short = -1;

/// In `fts_flags`: the directory could not be entered, so there is no way back from it.
pub(super) const NOT_ENTERED: c_ushort = 1;
/// In `fts_flags`: a link that was followed. `fts_symfd` is the way back.
pub(super) const FOLLOWED: c_ushort = 2;

/// `FTSENT`.
#[repr(C)]
pub(crate) struct Entry {
    pub(super) cycle: Cell<Option<Node>>,
    pub(super) parent: Cell<Option<Node>>,
    pub(super) link: Cell<Option<Node>>,
    number: c_long,
    pointer: *mut c_void,
    pub(super) accpath: Cell<*mut c_char>,
    pub(super) path: Cell<*mut c_char>,
    pub(super) errno: Cell<c_int>,
    pub(super) way_back: Cell<c_int>, // fts_symfd
    pub(super) pathlen: Cell<c_ushort>,
    pub(super) namelen: Cell<c_ushort>,
    pub(super) ino: Cell<libc::ino_t>,
    pub(super) dev: Cell<libc::dev_t>,
    pub(super) nlink: Cell<libc::nlink_t>,
    pub(super) level: Cell<c_short>,
    pub(super) info: Cell<c_ushort>,
    pub(super) flags: Cell<c_ushort>,
    pub(super) instruction: Cell<c_ushort>,
    pub(super) stat: Cell<*mut libc::stat>,
    name: [c_char; 1], // namelen bytes and a NUL
}

/// An entry of a walk. It exists until [`Node::free`]; copies share its fields.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Node(NonNull<Entry>);

impl Deref for Node {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        // SAFETY: the entry is from `new` and lives until it is freed, after which no walk refers to it.
        unsafe { self.0.as_ref() }
    }
}

impl Node {
    /// Makes an entry with this name, in memory of malloc(3). `path` is the buffer of the walk.
    /// ENOMEM, ENAMETOOLONG.
    pub(super) fn new(name: &[u8], path: *mut c_char, with_stat: bool) -> Result<Self, c_int> {
        let namelen = c_ushort::try_from(name.len()).map_err(|_| libc::ENAMETOOLONG)?;
        let behind_name = (std::mem::offset_of!(Entry, name) + name.len() + 1).next_multiple_of(align_of::<libc::stat>());
        let bytes = behind_name + if with_stat { size_of::<libc::stat>() } else { 0 };
        // SAFETY: zeroes are a valid entry. The memory has room for an entry, for the name with its
        // NUL, and after that for a `stat`.
        let node = unsafe {
            let at = NonNull::new(libc::calloc(1, bytes.max(size_of::<Entry>())).cast::<Entry>()).ok_or(libc::ENOMEM)?;
            std::ptr::copy_nonoverlapping(name.as_ptr(), (&raw mut (*at.as_ptr()).name).cast::<u8>(), name.len());
            if with_stat {
                (*at.as_ptr()).stat.set(at.as_ptr().cast::<u8>().add(behind_name).cast());
            }
            Self(at)
        };
        node.path.set(path);
        node.namelen.set(namelen);
        node.instruction.set(instruction::NONE);
        Ok(node)
    }

    /// The name with its NUL, for the program.
    pub(super) fn name_pointer(self) -> *mut c_char {
        // SAFETY: a field of a live entry.
        unsafe { (&raw mut (*self.0.as_ptr()).name).cast() }
    }

    /// The name.
    pub(super) fn name(&self) -> &[u8] {
        // SAFETY: the entry has that many bytes, which do not change before `cut_name`.
        unsafe { std::slice::from_raw_parts(self.name_pointer().cast(), usize::from(self.namelen.get())) }
    }

    /// Removes the name's bytes before this offset.
    pub(super) fn cut_name(&self, from: usize) {
        let rest = self.name()[from..].to_vec();
        self.namelen.set(rest.len() as c_ushort);
        // SAFETY: the name becomes shorter, so it fits.
        unsafe {
            std::ptr::copy_nonoverlapping(rest.as_ptr(), self.name_pointer().cast(), rest.len());
            self.name_pointer().add(rest.len()).write(0);
        }
    }

    /// Stores the result of stat(2), if the walk needs it.
    pub(super) fn keep_stat(&self, found: libc::stat) {
        if !self.stat.get().is_null() {
            // SAFETY: the room after the name, which `new` reserved.
            unsafe { self.stat.get().write(found) };
        }
    }

    /// Frees the entry's memory.
    ///
    /// # Safety
    /// No code uses a copy of this entry again.
    pub(super) unsafe fn free(self) {
        // SAFETY: calloc allocated it, and it is freed once, by the caller's promise.
        unsafe { libc::free(self.0.as_ptr().cast()) };
    }

    /// An entry that the program passes back.
    pub(super) fn from_ptr(entry: *mut Entry) -> Option<Self> {
        NonNull::new(entry).map(Self)
    }
}

/// An entry in the form that fts_read and fts_children return.
#[repr(transparent)]
pub(crate) struct Given(Option<Node>);

impl From<Node> for Given {
    fn from(node: Node) -> Self {
        Self(Some(node))
    }
}

impl Failure for Given {
    const FAILED: Self = Self(None);

    /// Programs read `errno` instead of fts_errno, so it becomes the errno of the failed call.
    fn errno_left(&self) -> Option<c_int> {
        let failed =
            |node: &Node| matches!(node.info.get(), info::UNREADABLE | info::ERROR | info::NO_STAT) && node.errno.get() != 0;
        self.0.filter(failed).map(|node| node.errno.get())
    }
}
