//! A walk of fts(3): the next entry, and the working directory of the process during the walk.

use std::ffi::CStr;

use super::entry::{ABOVE_ROOTS, Entry, FOLLOWED, NOT_ENTERED, Node, ROOT_LEVEL, info, instruction};
use crate::close::close;
use crate::names::fchdir;
use crate::open::open;
use crate::outcome::errno;
use libc::{c_char, c_int, c_ushort, c_void, dev_t};

pub(super) const COMFOLLOW: c_int = 0x1;
pub(super) const LOGICAL: c_int = 0x2;
pub(super) const NOCHDIR: c_int = 0x4;
pub(super) const NOSTAT: c_int = 0x8;
pub(super) const PHYSICAL: c_int = 0x10;
pub(super) const SEEDOT: c_int = 0x20;
const XDEV: c_int = 0x40;
/// The options that programs may give.
pub(super) const KNOWN: c_int = 0xff;
/// Internal option of libc: the current children have only names.
pub(super) const NAMEONLY: c_int = 0x100;
/// Internal option of libc: no more entries are returned.
const STOP: c_int = 0x200;
/// Marks a walk of this library; libc has no such option.
pub(super) const OURS: c_int = 0x4000_0000;

/// Bytes for a path. An entry stores the length of its path in 16 bits.
const PATH_ROOM: usize = c_ushort::MAX as usize + 2;

/// The program's function that compares entries, as qsort(3) requires it.
pub(crate) type Order = Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>;

/// The purpose of listing a directory's entries.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Want {
    /// fts_read: the walk continues with them.
    Read,
    /// fts_children.
    Children,
    /// fts_children for names only.
    Names,
}

/// `FTS`, followed by private fields.
#[repr(C)]
pub(crate) struct Walk {
    pub(super) current: Option<Node>,
    child: Option<Node>,
    array: *mut c_void, // not used
    dev: dev_t,
    path: *mut c_char,
    rfd: c_int,
    pathlen: c_int,
    nitems: c_int, // not used
    order: Order,
    pub(super) options: c_int,
    pub(super) path_buffer: Vec<u8>,
    /// The errno of the last listing of a directory, 0 if it succeeded.
    pub(super) failure: c_int,
}

pub(super) fn open_directory(path: &CStr) -> Result<c_int, c_int> {
    // SAFETY: the path ends with a NUL.
    let fd = unsafe { open::hook(path.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC, 0) };
    if fd < 0 { Err(errno()) } else { Ok(fd) }
}

pub(super) fn close_directory(fd: c_int) {
    // SAFETY: no pointers are passed, and the walk does not use this descriptor any more.
    unsafe { close::hook(fd) };
}

pub(super) fn go_to(fd: c_int) -> Result<(), c_int> {
    // SAFETY: no pointers are passed.
    if unsafe { fchdir::hook(fd) } == 0 { Ok(()) } else { Err(errno()) }
}

impl Walk {
    /// Makes a walk of these roots. It is before the first of them.
    pub(super) fn begin(roots: &[&[u8]], options: c_int, order: Order) -> Result<Box<Self>, c_int> {
        let options = options | OURS | if options & LOGICAL != 0 { NOCHDIR } else { 0 };
        let mut path_buffer = vec![0; PATH_ROOM];
        let path = path_buffer.as_mut_ptr().cast();
        let mut walk = Box::new(Self {
            current: None,
            child: None,
            array: std::ptr::null_mut(),
            dev: 0,
            path,
            rfd: -1,
            pathlen: PATH_ROOM as c_int,
            nitems: 0,
            order,
            options,
            path_buffer,
            failure: 0,
        });
        let above = walk.entry(b"")?;
        above.level.set(ABOVE_ROOTS);
        walk.current = Some(above); // so that it is freed in any case
        let beginning = walk.entry(b"")?;
        beginning.info.set(info::BEGINNING);
        beginning.parent.set(Some(above));
        walk.current = Some(beginning);
        let mut nodes = Vec::new();
        for name in roots {
            let made = if name.is_empty() { Err(libc::ENOENT) } else { walk.entry(name) };
            let node = made.inspect_err(|_| beginning.link.set(chain(&nodes)))?;
            node.parent.set(Some(above));
            node.accpath.set(node.name_pointer());
            node.info.set(walk.look(node, walk.has(COMFOLLOW)));
            if node.info.get() == info::DOT {
                node.info.set(info::DIRECTORY); // the program named it as a root
            }
            nodes.push(node);
        }
        walk.sort(&mut nodes);
        beginning.link.set(chain(&nodes));
        if !walk.has(NOCHDIR) {
            match open_directory(c".") {
                Ok(fd) => walk.rfd = fd,
                Err(_) => walk.options |= NOCHDIR,
            }
        }
        Ok(walk)
    }

    /// The next entry. The error is an errno, or 0 at the end.
    pub(super) fn read(&mut self) -> Result<Node, c_int> {
        let node = self.current.ok_or(0)?;
        if self.has(STOP) {
            return Err(self.failure);
        }
        let wanted = node.instruction.replace(instruction::NONE);
        match (wanted, node.info.get()) {
            (instruction::AGAIN, _) => {
                node.info.set(self.look(node, false));
                Ok(node)
            }
            (instruction::FOLLOW, info::LINK | info::DANGLING) => {
                self.follow(node);
                Ok(node)
            }
            (_, info::DIRECTORY) if wanted == instruction::LEAVE_OUT || (self.has(XDEV) && node.dev.get() != self.dev) => {
                self.drop_children();
                node.info.set(info::DIRECTORY_AFTER);
                Ok(node)
            }
            (_, info::DIRECTORY) => self.descend(node),
            _ => self.go_on(node),
        }
    }

    /// Enters a directory. Returns its first entry, or the directory again if it is empty.
    fn descend(&mut self, node: Node) -> Result<Node, c_int> {
        if self.has(NAMEONLY) {
            self.options &= !NAMEONLY;
            self.drop_children();
        }
        if self.child.is_none() {
            self.child = self.list(Want::Read);
        } else if let Err(errno) = self.enter(node, Err(node.accpath.get())) {
            node.errno.set(errno);
            node.flags.set(node.flags.get() | NOT_ENTERED);
            let mut each = self.child;
            while let Some(child) = each {
                child.accpath.set(node.accpath.get());
                each = child.link.get();
            }
        }
        match self.child.take() {
            Some(first) => Ok(self.arrive(first)),
            None if self.has(STOP) => Err(self.failure),
            None => Ok(node),
        }
    }

    /// Returns the entry after a finished one.
    fn go_on(&mut self, mut node: Node) -> Result<Node, c_int> {
        while let Some(next) = node.link.get() {
            self.end(node);
            node = next;
            self.current = Some(next);
            if next.level.get() == ROOT_LEVEL {
                self.go_back(self.rfd)?;
                self.load(next);
                return Ok(next);
            }
            match next.instruction.replace(instruction::NONE) {
                instruction::LEAVE_OUT => continue,
                instruction::FOLLOW => self.follow(next),
                _ => {}
            }
            return Ok(self.arrive(next));
        }
        let Some(up) = node.parent.get() else { return Err(0) };
        self.end(node);
        if up.level.get() == ABOVE_ROOTS {
            self.end(up);
            self.current = None;
            return Err(0);
        }
        self.current = Some(up);
        self.path_buffer[usize::from(up.pathlen.get())] = 0;
        self.leave(up)?;
        up.info.set(if up.errno.get() != 0 { info::ERROR } else { info::DIRECTORY_AFTER });
        Ok(up)
    }

    /// Changes from a directory to the one that contains its name.
    pub(super) fn leave(&mut self, node: Node) -> Result<(), c_int> {
        if node.level.get() == ROOT_LEVEL {
            self.go_back(self.rfd)
        } else if node.flags.get() & FOLLOWED != 0 {
            self.go_back(node.way_back.get())
        } else if node.flags.get() & NOT_ENTERED != 0 {
            Ok(())
        } else {
            let above = node.parent.get().ok_or(0)?;
            self.enter(above, Err(c"..".as_ptr())).map_err(|errno| self.stop(errno))
        }
    }

    /// Returns the first entry of the current directory, with the others linked to it. The error is
    /// an errno, or 0 if there are none.
    pub(super) fn children(&mut self, only_names: bool) -> Result<Node, c_int> {
        let node = self.current.filter(|_| !self.has(STOP)).ok_or(0)?;
        match node.info.get() {
            info::BEGINNING => return node.link.get().ok_or(0),
            info::DIRECTORY => {}
            _ => return Err(0),
        }
        self.drop_children();
        let want = if only_names { Want::Names } else { Want::Children };
        if only_names {
            self.options |= NAMEONLY;
        }
        // SAFETY: the entry's path ends with a NUL, so it has a first byte.
        let from_root = unsafe { *node.accpath.get() } == b'/' as c_char;
        if node.level.get() != ROOT_LEVEL || from_root || self.has(NOCHDIR) {
            self.child = self.list(want);
        } else {
            let here = open_directory(c".")?;
            self.child = self.list(want);
            let back = go_to(here);
            close_directory(here);
            back?;
        }
        self.child.ok_or(self.failure)
    }

    fn go_back(&mut self, fd: c_int) -> Result<(), c_int> {
        if self.has(NOCHDIR) { Ok(()) } else { go_to(fd).map_err(|errno| self.stop(errno)) }
    }

    /// Ends the walk: it returns no more entries.
    pub(super) fn stop(&mut self, errno: c_int) -> c_int {
        self.options |= STOP;
        self.failure = errno;
        errno
    }

    /// Writes the path of a root to the buffer, and makes its last component its name.
    fn load(&mut self, root: Node) {
        self.write_name(0, root.name());
        root.pathlen.set(root.namelen.get());
        let last = root.name().iter().rposition(|byte| *byte == b'/');
        if let Some(slash) = last.filter(|slash| *slash != 0 || root.namelen.get() > 1) {
            root.cut_name(slash + 1);
        }
        root.accpath.set(self.path);
        root.path.set(self.path);
        self.dev = root.dev.get();
    }

    /// Writes the path of an entry to the buffer. The walk returns this entry next.
    fn arrive(&mut self, node: Node) -> Node {
        if let Some(above) = node.parent.get() {
            let start = self.name_place(above);
            self.write_name(start, node.name());
        }
        self.current = Some(node);
        node
    }

    /// Offset in the buffer at which names of a directory begin.
    pub(super) fn name_place(&self, directory: Node) -> usize {
        let length = usize::from(directory.pathlen.get());
        if self.path_buffer[length.saturating_sub(1)] == b'/' { length } else { length + 1 }
    }

    pub(super) fn write_name(&mut self, start: usize, name: &[u8]) {
        if start > 0 {
            self.path_buffer[start - 1] = b'/';
        }
        let end = (start + name.len()).min(PATH_ROOM - 1);
        self.path_buffer[start..end].copy_from_slice(&name[..end - start]);
        self.path_buffer[end] = 0;
    }

    pub(super) fn has(&self, option: c_int) -> bool {
        self.options & option != 0
    }

    pub(super) fn entry(&self, name: &[u8]) -> Result<Node, c_int> {
        Node::new(name, self.path, !self.has(NOSTAT))
    }

    pub(super) fn sort(&self, nodes: &mut [Node]) {
        if self.order.is_some() {
            // SAFETY: the array contains pointers to entries, and the program's function compares
            // two elements of such an array.
            unsafe { libc::qsort(nodes.as_mut_ptr().cast(), nodes.len(), size_of::<*mut Entry>(), self.order) };
        }
    }

    fn drop_children(&mut self) {
        let mut each = self.child.take();
        while let Some(node) = each {
            each = node.link.get();
            self.end(node);
        }
    }

    fn end(&self, node: Node) {
        if node.flags.get() & FOLLOWED != 0 {
            close_directory(node.way_back.get());
        }
        // SAFETY: callers have removed the entry from the walk.
        unsafe { node.free() };
    }

    /// Changes back to the directory in which the walk began.
    pub(super) fn close(self) -> Result<(), c_int> {
        if self.rfd < 0 { Ok(()) } else { go_to(self.rfd) }
    }
}

impl Drop for Walk {
    /// Frees all remaining entries: on each level the current one and those after it.
    fn drop(&mut self) {
        self.drop_children();
        let mut each = self.current.take();
        while let Some(node) = each {
            each = node.link.get().or(node.parent.get());
            self.end(node);
        }
        if self.rfd >= 0 {
            close_directory(self.rfd);
        }
    }
}

/// Links each entry to the next one. Returns the first.
pub(super) fn chain(nodes: &[Node]) -> Option<Node> {
    for pair in nodes.windows(2) {
        let node = pair[0];
        node.link.set(Some(pair[1]));
    }
    nodes.first().copied()
}
