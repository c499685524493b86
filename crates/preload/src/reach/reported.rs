//! Each program and cause is reported once in a tree of processes. A file in the runtime directory
//! lists the reports. Without that file, each is reported once in a process.

use super::program::{Cause, Found};
use crate::raw;
use crate::raw::programs::{lock_whole, read_at, session, set_length, write_at};
use std::ffi::CString;
use std::hash::Hasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of lines in a tree, because a script may run a hundred such programs.
const LINES_MAX: usize = 8;
/// Maximum number of entries of the file. When it is full, the older half is removed.
const ENTRIES_MAX: usize = 128;
/// Bytes of an entry: the tree, and the hash of program and cause.
const ENTRY_BYTES: usize = 16;
const MODE: libc::mode_t = 0o660;

struct Place {
    tree: u64,
    directory: CString,
    file: CString,
}

static PLACE: OnceLock<Place> = OnceLock::new();
/// The hashes of this process' reports.
static REPORTED: [AtomicU64; LINES_MAX] = [const { AtomicU64::new(0) }; LINES_MAX];

/// Stores the path of the file and the identity of the tree: the variable's value, or the session without it.
pub(super) fn learn(setting: Option<&[u8]>, root: Option<&[u8]>) {
    let text = |end: &[u8]| root.and_then(|root| CString::new([root, end].concat()).ok());
    let (Some(directory), Some(file)) = (text(b""), text(b"/unreached")) else { return };
    let session = session().to_ne_bytes();
    let _ = PLACE.set(Place { tree: hash(setting.unwrap_or(&session)), directory, file });
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hash = fnv::FnvHasher::default();
    hash.write(bytes);
    hash.finish()
}

/// Whether this is the first report of the program and cause in this tree. Notes the report.
pub(super) fn is_first(found: &Found, cause: Cause) -> bool {
    let mut name = [0; 17];
    name[..8].copy_from_slice(&found.device.to_ne_bytes());
    name[8..16].copy_from_slice(&found.inode.to_ne_bytes());
    name[16] = cause as u8;
    is_first_line(&name)
}

/// As [`is_first`], for another kind of line, which `name` identifies.
pub(crate) fn is_first_line(name: &[u8]) -> bool {
    let what = hash(name).max(1);
    is_first_here(what) && PLACE.get().is_none_or(|place| is_first_of_tree(place, what).unwrap_or(true))
}

fn is_first_here(what: u64) -> bool {
    for reported in &REPORTED {
        match reported.compare_exchange(0, what, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(there) if there == what => return false,
            Err(_) => {}
        }
    }
    false
}

/// As [`is_first_line`], by the tree's file. `None` if that cannot be used: another user's
/// directory may contain anything under its name.
fn is_first_of_tree(place: &Place, what: u64) -> Option<bool> {
    let found = raw::stat(&place.directory, false).ok()?;
    if found.st_mode & libc::S_IFMT != libc::S_IFDIR || ![0, raw::geteuid()].contains(&found.st_uid) {
        return None;
    }
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    let fd = raw::open(&place.file, flags, MODE).ok()?;
    let answer = look_up(fd, place, what);
    let _ = raw::close(fd); // releases the lock
    answer
}

fn look_up(fd: libc::c_int, place: &Place, what: u64) -> Option<bool> {
    lock_whole(fd).ok()?;
    let mut bytes = [0; ENTRIES_MAX * ENTRY_BYTES];
    let got = read_at(fd, 0, &mut bytes).ok()?;
    let mut lines = 0;
    for entry in bytes[..got].chunks_exact(ENTRY_BYTES) {
        let (tree, line) = entry.split_at(ENTRY_BYTES / 2);
        if tree == place.tree.to_ne_bytes() {
            if line == what.to_ne_bytes() {
                return Some(false);
            }
            lines += 1;
        }
    }
    if lines >= LINES_MAX {
        return Some(false);
    }
    let whole = got / ENTRY_BYTES;
    let mut at = whole * ENTRY_BYTES;
    if whole == ENTRIES_MAX {
        at /= 2;
        write_at(fd, 0, &bytes[at..]).ok()?;
        set_length(fd, at).ok()?;
    }
    let mut entry = [0; ENTRY_BYTES];
    entry[..8].copy_from_slice(&place.tree.to_ne_bytes());
    entry[8..].copy_from_slice(&what.to_ne_bytes());
    write_at(fd, at as i64, &entry).ok()?;
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered_when_the_file_is_full() {
        let path = std::env::temp_dir().join(format!("millrace-unreached-{}", std::process::id()));
        let file = CString::new(path.to_str().unwrap()).unwrap();
        let place = |tree| Place { tree, directory: c"/tmp".into(), file: file.clone() };
        for number in 0..ENTRIES_MAX as u64 {
            assert_eq!(is_first_of_tree(&place(number), 7), Some(true));
            assert_eq!(is_first_of_tree(&place(number), 7), Some(false));
        }
        assert_eq!(is_first_of_tree(&place(0), 7), Some(false));
        assert_eq!(is_first_of_tree(&place(1000), 7), Some(true), "the older half goes");
        assert_eq!(is_first_of_tree(&place(0), 7), Some(true));
        for number in ENTRIES_MAX as u64 / 2..ENTRIES_MAX as u64 {
            assert_eq!(is_first_of_tree(&place(number), 7), Some(false), "{number}");
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), (ENTRIES_MAX as u64 / 2 + 2) * ENTRY_BYTES as u64);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_process_tree_gets_eight_lines_at_most() {
        let path = std::env::temp_dir().join(format!("millrace-unreached-tree-{}", std::process::id()));
        let place = Place { tree: 1, directory: c"/tmp".into(), file: CString::new(path.to_str().unwrap()).unwrap() };
        let lines = (0..20).filter(|what| is_first_of_tree(&place, *what) == Some(true)).count();
        assert_eq!(lines, LINES_MAX);
        std::fs::remove_file(path).unwrap();
    }
}
