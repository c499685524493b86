//! SQLite's WAL index: a file beside the database that its processes map shared and lock, and that holds nothing a crash must not lose.
//!
//! NFS cannot back a shared mapping, so the file lies in memory, in the runtime directory of the mount: processes of this host that share the mount share
//! it, and those of another host have one of their own, as on a kernel's mount. Only beside a database: another file named so is a file.

use dnfs::file::FileKind;
use dnfs::mount::{Entry, Mount, Object, Walk};
use std::ffi::CString;
use std::hash::Hasher;
use std::io::IoSliceMut;
use std::os::unix::ffi::OsStrExt;

const SUFFIX: &[u8] = b"-shm";
/// How a database begins (SQLite's "Database File Format", 1.3).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Where the file lies, if `entry` names one.
pub(crate) fn place(mount: &Mount, entry: &Entry) -> Option<CString> {
    let database = entry.path.strip_suffix(SUFFIX).filter(|_| entry.name.len() > SUFFIX.len() && !entry.must_be_directory)?;
    if entry.object.is_some_and(|object| object.attr.kind != FileKind::Regular) {
        return None;
    }
    let Ok(Walk::At(Entry { object: Some(object), .. })) = mount.walk(database, true) else { return None };
    if object.attr.kind != FileKind::Regular || !is_database(mount, &object) {
        return None;
    }
    // By the database itself: it is found under each of its names, and as long as it is the same.
    let mut hash = fnv::FnvHasher::default();
    hash.write(object.handle.as_bytes());
    let mut path = mount.runtime_dir().as_os_str().as_bytes().to_vec();
    path.extend_from_slice(format!("/wal-{:016x}", hash.finish()).as_bytes());
    CString::new(path).ok()
}

fn is_database(mount: &Mount, object: &Object) -> bool {
    let mut begin = [0; MAGIC.len()];
    let read = mount.client().read(&object.handle, 0, &mut [IoSliceMut::new(&mut begin)]);
    read.is_ok_and(|done| done.bytes == MAGIC.len()) && begin == *MAGIC
}
