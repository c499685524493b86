//! The mounts of this process' namespace, from /proc/self/mountinfo (proc_pid_mountinfo(5)).

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The type of Millrace's mounts.
pub(crate) const KIND: &str = "fuse.millrace";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub(crate) directory: PathBuf,
    /// Major and minor number of the file system, as `0:44`, independent of the mount's name.
    pub(crate) device: String,
    pub(crate) kind: Vec<u8>,
    pub(crate) source: String,
}

impl TableEntry {
    pub(crate) fn is_ours(&self) -> bool {
        self.kind == KIND.as_bytes()
    }
}

/// The topmost mount at a directory, if there is one.
pub(crate) fn mounted_at(directory: &Path) -> Option<TableEntry> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    last_at(&table, directory)
}

/// A process in another mount namespace that has a mount of this file system, if one is found.
pub(crate) fn mounted_elsewhere(device: &str) -> Option<u32> {
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let mut seen = HashSet::from([namespace("self")?]);
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let pid = pid.to_string();
        if !namespace(&pid).is_some_and(|namespace| seen.insert(namespace)) {
            return false;
        }
        let table = std::fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        entries(&table).any(|entry| entry.is_ours() && entry.device == device)
    })
}

fn last_at(table: &[u8], directory: &Path) -> Option<TableEntry> {
    entries(table).filter(|entry| entry.directory == directory).last()
}

fn entries(table: &[u8]) -> impl Iterator<Item = TableEntry> {
    table.split(|byte| *byte == b'\n').filter_map(entry)
}

/// A line: id, parent, device, root, mount point, options, optional fields, `-`, type, source, options.
fn entry(line: &[u8]) -> Option<TableEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = String::from_utf8_lossy(fields.nth(2)?).into_owned();
    let directory = PathBuf::from(OsString::from_vec(unescaped(fields.nth(1)?)));
    let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
    let (kind, source) = (behind.next()?.to_vec(), unescaped(behind.next()?));
    Some(TableEntry { directory, device, kind, source: String::from_utf8_lossy(&source).into_owned() })
}

/// Decodes blanks, tabs, line feeds and backslashes, which are `\` and three octal digits there.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, more)) = rest.split_first() {
        let digits = more.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = more.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    bytes
}

/// A directory's path without links, also if the mount there does not answer.
///
/// # Errors
/// The errors of resolving its parent.
pub fn resolved(directory: &Path) -> std::io::Result<PathBuf> {
    let absolute = std::path::absolute(directory)?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else { return Ok(absolute) };
    // Whether the last component is a link is read from its parent only: /proc/self/mountinfo has the path after it.
    let there = parent.canonicalize()?.join(name);
    if mounted_at(&there).is_some() {
        return Ok(there);
    }
    match there.symlink_metadata() {
        Ok(found) if found.is_symlink() => there.canonicalize(),
        _ if name.as_bytes() == b".." => there.canonicalize(),
        _ => Ok(there),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 1 0:20 / /proc rw,nosuid - proc proc rw\n\
        40 22 0:44 / /srv/a\\040b rw,nosuid shared:3 master:1 - fuse.millrace nfs://filer/vol rw,user_id=0\n\
        41 40 0:45 / /srv/a\\040b rw - tmpfs tmpfs rw\n\
        42 22 0:46 / /srv/c rw - fuse.sshfs host:/ rw\n";

    #[test]
    fn the_uppermost_mount_of_a_directory_is_found() {
        let found = last_at(TABLE, Path::new("/srv/a b")).unwrap();
        assert_eq!(found.kind, b"tmpfs");
        let below = last_at(&TABLE[..TABLE.len() - 90], Path::new("/srv/a b")).unwrap();
        assert!(below.is_ours(), "{below:?}");
        assert_eq!((below.source.as_str(), below.device.as_str()), ("nfs://filer/vol", "0:44"));
        assert!(!last_at(TABLE, Path::new("/srv/c")).unwrap().is_ours());
        assert_eq!(last_at(TABLE, Path::new("/srv")), None);
    }

    #[test]
    fn a_path_is_resolved_by_its_parent() {
        let scratch = std::env::temp_dir().canonicalize().unwrap();
        assert_eq!(resolved(&scratch.join("./absent")).unwrap(), scratch.join("absent"));
        assert!(resolved(&scratch.join("absent/below")).is_err());
        assert_eq!(resolved(Path::new("/")).unwrap(), Path::new("/"));
    }
}
