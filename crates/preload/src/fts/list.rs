//! The entries of a directory for a walk of fts(3), and what each of them is.

use std::ffi::CStr;

use super::entry::{FOLLOWED, NOT_ENTERED, Node, ROOT_LEVEL, info};
use super::walk::{LOGICAL, NOCHDIR, NOSTAT, PHYSICAL, SEEDOT, Walk, chain, close_directory, go_to, open_directory};
use crate::attributes::{fstat, lstat, stat};
use crate::outcome::{errno, set_errno};
use crate::streams::{closedir, dirfd, opendir, readdir};
use libc::{DIR, c_char, c_int, c_ushort};

/// What the entries of a directory are for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Want {
    /// The walk goes on with them.
    Read,
    /// fts_children.
    Children,
    /// fts_children of names only.
    Names,
}

fn stat_of(path: *const c_char, follow: bool) -> Result<libc::stat, c_int> {
    // SAFETY: struct stat is plain integers; zero is valid.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    let call = if follow { stat::hook } else { lstat::hook };
    // SAFETY: a path of the walk with its NUL, and room for the answer.
    if unsafe { call(path, &raw mut found) } == 0 { Ok(found) } else { Err(errno()) }
}

/// The next name and its type.
fn next_name(stream: *mut DIR) -> Option<(Vec<u8>, u8)> {
    // SAFETY: an open stream; the entry is valid until the next call.
    unsafe {
        set_errno(0);
        let entry = readdir::hook(stream);
        if entry.is_null() {
            return None;
        }
        Some((CStr::from_ptr((&raw const (*entry).d_name).cast()).to_bytes().to_vec(), (*entry).d_type))
    }
}

impl Walk {
    /// The entries of the current directory; none: `failure` says why. For `Want::Read` the process is in it then.
    pub(super) fn list(&mut self, want: Want) -> Option<Node> {
        let mut node = self.current?;
        // SAFETY: the path of an entry, with its NUL.
        let stream = unsafe { opendir::hook(node.accpath) };
        self.failure = errno();
        if stream.is_null() {
            if want == Want::Read {
                (node.info, node.errno) = (info::UNREADABLE, self.failure);
            }
            return None;
        }
        let entered = match want {
            Want::Names => Ok(()),
            // SAFETY: an open stream.
            _ => self.enter(node, Ok(unsafe { dirfd::hook(stream) })),
        };
        if let (Err(errno), Want::Read) = (entered, want) {
            (node.errno, node.flags) = (errno, node.flags | NOT_ENTERED);
        }
        let mut nodes = Vec::new();
        let ended = self.entries(node, stream, (want, entered), &mut nodes);
        // SAFETY: an open stream, used no more.
        unsafe { closedir::hook(stream) };
        self.path_buffer[usize::from(node.pathlen)] = 0;
        let goes_back = want == Want::Children || (want == Want::Read && nodes.is_empty());
        let ended = ended.and_then(|()| if goes_back && entered.is_ok() { self.leave(node) } else { Ok(()) });
        if let Err(errno) = ended {
            nodes.into_iter().for_each(Node::free);
            node.info = info::ERROR;
            self.stop(errno);
            return None;
        }
        if nodes.is_empty() && want == Want::Read {
            node.info = info::DIRECTORY_AFTER;
        }
        self.failure = 0;
        self.sort(&mut nodes);
        let mut first = None;
        chain(&nodes, &mut first);
        first
    }

    /// An entry for each name of a directory.
    fn entries(
        &mut self,
        above: Node,
        stream: *mut DIR,
        (want, entered): (Want, Result<(), c_int>),
        nodes: &mut Vec<Node>,
    ) -> Result<(), c_int> {
        let start = self.name_place(above);
        while let Some((name, kind)) = next_name(stream) {
            if !self.has(SEEDOT) && (name == b"." || name == b"..") {
                continue;
            }
            let mut node = self.entry(&name)?;
            nodes.push(node);
            (node.parent, node.level) = (Some(above), above.level + 1);
            node.pathlen = c_ushort::try_from(start + name.len()).map_err(|_| libc::ENAMETOOLONG)?;
            let is_known = self.has(NOSTAT) && self.has(PHYSICAL) && !matches!(kind, libc::DT_UNKNOWN | libc::DT_DIR);
            if let Err(errno) = entered {
                node.accpath = above.accpath;
                (node.info, node.errno) = (info::NO_STAT, errno);
                continue;
            }
            node.accpath = if self.has(NOCHDIR) { node.path } else { node.name_pointer() };
            node.info = if want == Want::Names || is_known {
                info::NO_STAT_WANTED
            } else {
                if self.has(NOCHDIR) {
                    self.write_name(start, &name);
                }
                self.look(node, false)
            };
        }
        Ok(())
    }

    /// What an entry is. Fills in what stat(2) says of it.
    pub(super) fn look(&self, mut node: Node, follow: bool) -> c_ushort {
        let follow = follow || self.has(LOGICAL);
        let found = match stat_of(node.accpath, follow) {
            Ok(found) => found,
            Err(errno) => {
                if follow && let Ok(link) = stat_of(node.accpath, false) {
                    node.keep_stat(link);
                    return info::DANGLING;
                }
                node.errno = errno;
                // SAFETY: struct stat is plain integers; zero is valid.
                node.keep_stat(unsafe { std::mem::zeroed() });
                return info::NO_STAT;
            }
        };
        node.keep_stat(found);
        match found.st_mode & libc::S_IFMT {
            libc::S_IFDIR => {
                (node.dev, node.ino, node.nlink) = (found.st_dev, found.st_ino, found.st_nlink);
                if matches!(node.name(), b"." | b"..") {
                    return info::DOT;
                }
                let mut above = node.parent;
                while let Some(one) = above.filter(|one| one.level >= ROOT_LEVEL) {
                    if (one.ino, one.dev) == (node.ino, node.dev) {
                        node.cycle = Some(one);
                        return info::CYCLE;
                    }
                    above = one.parent;
                }
                info::DIRECTORY
            }
            libc::S_IFLNK => info::LINK,
            libc::S_IFREG => info::FILE,
            _ => info::OTHER,
        }
    }

    /// Takes a link for what it leads to.
    pub(super) fn follow(&self, mut node: Node) {
        node.info = self.look(node, true);
        if node.info == info::DIRECTORY && !self.has(NOCHDIR) {
            match open_directory(c".") {
                Ok(fd) => (node.way_back, node.flags) = (fd, node.flags | FOLLOWED),
                Err(errno) => (node.errno, node.info) = (errno, info::ERROR),
            }
        }
    }

    /// Goes to the directory of an entry, by a descriptor or a path, if it is still that one: else ENOENT.
    pub(super) fn enter(&self, node: Node, way: Result<c_int, *const c_char>) -> Result<(), c_int> {
        if self.has(NOCHDIR) {
            return Ok(());
        }
        let fd = match way {
            Ok(fd) => fd,
            // SAFETY: a path with its NUL.
            Err(path) => open_directory(unsafe { CStr::from_ptr(path) })?,
        };
        // SAFETY: struct stat is plain integers; zero is valid.
        let mut found: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: a descriptor, and room for the answer.
        let entered = match unsafe { fstat::hook(fd, &raw mut found) } {
            0 if (found.st_dev, found.st_ino) == (node.dev, node.ino) => go_to(fd),
            0 => Err(libc::ENOENT),
            _ => Err(errno()),
        };
        if way.is_err() {
            close_directory(fd);
        }
        entered
    }
}
