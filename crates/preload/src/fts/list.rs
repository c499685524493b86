//! Lists the entries of a directory for a walk of fts(3), and finds the kind of each.

use std::ffi::CStr;

use super::entry::{FOLLOWED, NOT_ENTERED, Node, ROOT_LEVEL, info};
use super::walk::{LOGICAL, NOCHDIR, NOSTAT, PHYSICAL, SEEDOT, Walk, Want, chain, close_directory, go_to, open_directory};
use crate::attributes::{fstat, lstat, stat};
use crate::outcome::{errno, set_errno};
use crate::streams::{closedir, dirfd, opendir, readdir};
use libc::{DIR, c_char, c_int, c_ushort};

fn stat_of(path: *const c_char, follow: bool) -> Result<libc::stat, c_int> {
    // SAFETY: struct stat is plain integers; zero is valid.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    let call = if follow { stat::hook } else { lstat::hook };
    // SAFETY: the walk's path ends with a NUL, and `found` has room for the answer.
    if unsafe { call(path, &raw mut found) } == 0 { Ok(found) } else { Err(errno()) }
}

/// The next name and its type.
fn next_name(stream: *mut DIR) -> Option<(Vec<u8>, u8)> {
    // SAFETY: the stream is open, and the entry is valid until the next call.
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
    /// The entries of the current directory. If `None`, `failure` has the reason. For `Want::Read`,
    /// the process is then in the directory.
    pub(super) fn list(&mut self, want: Want) -> Option<Node> {
        let node = self.current?;
        // SAFETY: the entry's path ends with a NUL.
        let stream = unsafe { opendir::hook(node.accpath.get()) };
        self.failure = errno();
        if stream.is_null() {
            if want == Want::Read {
                node.info.set(info::UNREADABLE);
                node.errno.set(self.failure);
            }
            return None;
        }
        let entered = match want {
            Want::Names => Ok(()),
            // SAFETY: the stream is open.
            _ => self.enter(node, Ok(unsafe { dirfd::hook(stream) })),
        };
        if let (Err(errno), Want::Read) = (entered, want) {
            node.errno.set(errno);
            node.flags.set(node.flags.get() | NOT_ENTERED);
        }
        let mut nodes = Vec::new();
        let ended = self.entries(node, stream, (want, entered), &mut nodes);
        // SAFETY: the stream is open, and no code uses it afterwards.
        unsafe { closedir::hook(stream) };
        self.path_buffer[usize::from(node.pathlen.get())] = 0;
        let goes_back = want == Want::Children || (want == Want::Read && nodes.is_empty());
        let ended = ended.and_then(|()| if goes_back && entered.is_ok() { self.leave(node) } else { Ok(()) });
        if let Err(errno) = ended {
            // SAFETY: the walk does not refer to these entries yet.
            nodes.into_iter().for_each(|node| unsafe { node.free() });
            node.info.set(info::ERROR);
            self.stop(errno);
            return None;
        }
        if nodes.is_empty() && want == Want::Read {
            node.info.set(info::DIRECTORY_AFTER);
        }
        self.failure = 0;
        self.sort(&mut nodes);
        chain(&nodes)
    }

    /// Makes an entry for each name of a directory.
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
            let node = self.entry(&name)?;
            nodes.push(node);
            node.parent.set(Some(above));
            node.level.set(above.level.get() + 1);
            node.pathlen.set(c_ushort::try_from(start + name.len()).map_err(|_| libc::ENAMETOOLONG)?);
            let is_known = self.has(NOSTAT) && self.has(PHYSICAL) && !matches!(kind, libc::DT_UNKNOWN | libc::DT_DIR);
            if let Err(errno) = entered {
                node.accpath.set(above.accpath.get());
                node.info.set(info::NO_STAT);
                node.errno.set(errno);
                continue;
            }
            node.accpath.set(if self.has(NOCHDIR) { node.path.get() } else { node.name_pointer() });
            if want == Want::Names || is_known {
                node.info.set(info::NO_STAT_WANTED);
                continue;
            }
            if self.has(NOCHDIR) {
                self.write_name(start, &name);
            }
            node.info.set(self.look(node, false));
        }
        Ok(())
    }

    /// Returns the kind of an entry. Stores the result of stat(2) in it.
    pub(super) fn look(&self, node: Node, follow: bool) -> c_ushort {
        let follow = follow || self.has(LOGICAL);
        let found = match stat_of(node.accpath.get(), follow) {
            Ok(found) => found,
            Err(errno) => {
                if follow && let Ok(link) = stat_of(node.accpath.get(), false) {
                    node.keep_stat(link);
                    return info::DANGLING;
                }
                node.errno.set(errno);
                // SAFETY: struct stat is plain integers; zero is valid.
                node.keep_stat(unsafe { std::mem::zeroed() });
                return info::NO_STAT;
            }
        };
        node.keep_stat(found);
        match found.st_mode & libc::S_IFMT {
            libc::S_IFDIR => {
                node.dev.set(found.st_dev);
                node.ino.set(found.st_ino);
                node.nlink.set(found.st_nlink);
                if matches!(node.name(), b"." | b"..") {
                    return info::DOT;
                }
                let mut above = node.parent.get();
                while let Some(one) = above.filter(|one| one.level.get() >= ROOT_LEVEL) {
                    if (one.ino.get(), one.dev.get()) == (node.ino.get(), node.dev.get()) {
                        node.cycle.set(Some(one));
                        return info::CYCLE;
                    }
                    above = one.parent.get();
                }
                info::DIRECTORY
            }
            libc::S_IFLNK => info::LINK,
            libc::S_IFREG => info::FILE,
            _ => info::OTHER,
        }
    }

    /// Replaces a link's attributes by those of its target.
    pub(super) fn follow(&self, node: Node) {
        node.info.set(self.look(node, true));
        if node.info.get() == info::DIRECTORY && !self.has(NOCHDIR) {
            match open_directory(c".") {
                Ok(fd) => {
                    node.way_back.set(fd);
                    node.flags.set(node.flags.get() | FOLLOWED);
                }
                Err(errno) => {
                    node.errno.set(errno);
                    node.info.set(info::ERROR);
                }
            }
        }
    }

    /// Changes to the directory of an entry, by a descriptor or a path. ENOENT if that is now
    /// another directory.
    pub(super) fn enter(&self, node: Node, way: Result<c_int, *const c_char>) -> Result<(), c_int> {
        if self.has(NOCHDIR) {
            return Ok(());
        }
        let fd = match way {
            Ok(fd) => fd,
            // SAFETY: the path ends with a NUL.
            Err(path) => open_directory(unsafe { CStr::from_ptr(path) })?,
        };
        // SAFETY: struct stat is plain integers; zero is valid.
        let mut found: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `found` has room for the answer.
        let entered = match unsafe { fstat::hook(fd, &raw mut found) } {
            0 if (found.st_dev, found.st_ino) == (node.dev.get(), node.ino.get()) => go_to(fd),
            0 => Err(libc::ENOENT),
            _ => Err(errno()),
        };
        if way.is_err() {
            close_directory(fd);
        }
        entered
    }
}
