//! Millrace's mounts in the mount table.

use host::mount_table::{self, Mount};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The type of Millrace's mounts.
pub(crate) const KIND: &str = "fuse.millrace";

/// Whether a mount is one of Millrace.
pub(crate) fn is_millrace(mount: &Mount) -> bool {
    mount.kind == KIND
}

/// The topmost mount at a directory, if there is one.
pub(crate) fn mounted_at(directory: &Path) -> Option<Mount> {
    last_at(mount_table::read().unwrap_or_default(), directory)
}

fn last_at(table: Vec<Mount>, directory: &Path) -> Option<Mount> {
    table.into_iter().rfind(|mount| mount.directory == directory)
}

/// The uid that a FUSE mount was made for.
pub(crate) fn mounting_user(mount: &Mount) -> Option<&str> {
    mount.file_system_options.split(',').find_map(|option| option.strip_prefix("user_id="))
}

/// A process in another mount namespace that has a mount of this file system, if one is found.
pub(crate) fn mounted_elsewhere(device: &str) -> Option<u32> {
    let is_there = |table: &[Mount]| table.iter().any(|mount| is_millrace(mount) && mount.device == device);
    mount_table::of_other_namespaces().find_map(|(pid, table)| is_there(&table).then_some(pid))
}

/// A directory's path without links. Also works if the mount there does not answer.
///
/// # Errors
/// Those of resolving its parent.
pub fn resolved(directory: &Path) -> std::io::Result<PathBuf> {
    let absolute = std::path::absolute(directory)?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else { return Ok(absolute) };
    // The mount table has paths without links. A mounted directory must not be examined, because its server may not answer.
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
        let at = |directory: &str, lines: usize| {
            let table = TABLE.split_inclusive(|byte| *byte == b'\n').take(lines).flatten().copied().collect::<Vec<u8>>();
            last_at(mount_table::parse(&table), Path::new(directory))
        };
        assert_eq!(at("/srv/a b", 4).unwrap().kind, "tmpfs");
        let below = at("/srv/a b", 2).unwrap();
        assert!(is_millrace(&below), "{below:?}");
        assert_eq!(mounting_user(&below), Some("0"));
        assert_eq!((below.source.as_str(), below.device.as_str()), ("nfs://filer/vol", "0:44"));
        assert!(!is_millrace(&at("/srv/c", 4).unwrap()));
        assert_eq!(at("/srv", 4), None);
    }

    #[test]
    fn a_path_is_resolved_by_its_parent() {
        let scratch = std::env::temp_dir().canonicalize().unwrap();
        assert_eq!(resolved(&scratch.join("./absent")).unwrap(), scratch.join("absent"));
        assert!(resolved(&scratch.join("absent/below")).is_err());
        assert_eq!(resolved(Path::new("/")).unwrap(), Path::new("/"));
    }
}
