//! Restores the loaded state before every run: by shared extents if the store supports them,
//! else by a copy.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::host::interrupt;
use crate::limits::{COPY_CHUNK_BYTES, TREE_ENTRIES_MAX};
use crate::sys::{self, User};

/// How a state is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Files share extents with the kept state until written.
    Reflink,
    /// Bytes are copied.
    Copy,
}

impl Method {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reflink => "reflink",
            Self::Copy => "copy",
        }
    }

    /// The method that the store below `directory` supports, found with a probe file.
    pub(crate) fn of_store(directory: &Path) -> Self {
        let (from, to) = (directory.join(".reflink-from"), directory.join(".reflink-to"));
        let probe = || -> std::io::Result<()> {
            let mut source = File::options().read(true).write(true).create_new(true).open(&from)?;
            source.write_all(&[7; 4096])?;
            sys::reflink(&source, &File::options().write(true).create_new(true).open(&to)?)
        };
        let found = if probe().is_ok() { Self::Reflink } else { Self::Copy };
        for path in [from, to] {
            let _ = fs::remove_file(path);
        }
        found
    }
}

/// Size of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TreeSize {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// Copies the tree `from` to `to` (which must not exist) for `user`, with its permissions but without the
/// top-level name `leave_out`, and calls `progress` with the bytes copied.
///
/// Durability: the copy is on the device when it returns (the complete file system was
/// synced), so that no run writes its own starting state.
pub(crate) fn restore(
    from: &Path,
    to: &Path,
    leave_out: Option<&str>,
    method: Method,
    user: &User,
    progress: &mut dyn FnMut(u64),
) -> Result<TreeSize, LabError> {
    let mut size = TreeSize::default();
    let mut buffer = vec![0; COPY_CHUNK_BYTES];
    let mut waiting: Vec<(PathBuf, PathBuf)> = vec![(from.to_owned(), to.to_owned())];
    let mut entries = 0;
    while let Some((source, target)) = waiting.pop() {
        entries += 1;
        if entries > TREE_ENTRIES_MAX {
            let error = std::io::Error::other("more entries than a database has");
            return Err(LabError::file("restore", from)(error));
        }
        let facts = fs::symlink_metadata(&source).map_err(LabError::file("inspect", &source))?;
        if facts.is_dir() {
            crate::placement::workdir::make_directory(&target, facts.mode() & 0o7777)?;
            for entry in fs::read_dir(&source).map_err(LabError::file("list", &source))? {
                let name = entry.map_err(LabError::file("list", &source))?.file_name();
                if source == from && leave_out.is_some_and(|left| name == left) {
                    continue;
                }
                waiting.push((source.join(&name), target.join(&name)));
            }
        } else if facts.is_file() {
            copy_file(&source, &target, method, &mut buffer, &mut |bytes| {
                size.bytes += bytes;
                progress(size.bytes);
            })?;
            fs::set_permissions(&target, fs::Permissions::from_mode(facts.mode() & 0o7777))
                .map_err(LabError::file("set permissions of", &target))?;
            size.files += 1;
        } else {
            // Links lead to tablespaces, which are elsewhere in every placement; sockets and the like are skipped too.
            continue;
        }
        std::os::unix::fs::lchown(&target, Some(user.uid), Some(user.gid))
            .map_err(LabError::file("change the owner of", &target))?;
    }
    sync(to)?;
    Ok(size)
}

/// Writes all data of the store that contains `directory` to its device.
pub(crate) fn sync(directory: &Path) -> Result<(), LabError> {
    File::open(directory)
        .and_then(|open| sys::sync_file_system(&open))
        .map_err(LabError::file("sync the file system of", directory))
}

/// Size of a tree in files and bytes, without entries that disappear meanwhile.
pub(crate) fn tree_size(root: &Path) -> TreeSize {
    let mut size = TreeSize::default();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let Ok(entries) = fs::read_dir(path) else { continue };
        for entry in entries.flatten() {
            match entry.metadata() {
                Ok(facts) if facts.is_dir() => waiting.push(entry.path()),
                Ok(facts) => {
                    size.files += 1;
                    size.bytes += facts.len();
                }
                Err(_) => {}
            }
        }
    }
    size
}

fn copy_file(
    source: &Path,
    target: &Path,
    method: Method,
    buffer: &mut [u8],
    progress: &mut dyn FnMut(u64),
) -> Result<(), LabError> {
    let mut from = File::open(source).map_err(LabError::file("open", source))?;
    let mut to = File::options().write(true).create_new(true).open(target).map_err(LabError::file("create", target))?;
    interrupt::check()?;
    if method == Method::Reflink {
        sys::reflink(&from, &to).map_err(LabError::file("share extents with", target))?;
        let bytes = from.metadata().map_err(LabError::file("inspect", source))?.len();
        progress(bytes);
        return Ok(());
    }
    loop {
        interrupt::check()?;
        let count = from.read(buffer).map_err(LabError::file("read", source))?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..count]).map_err(LabError::file("write", target))?;
        progress(count as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_tree_has_the_same_bytes_modes_and_size() {
        let base = tempfile::tempdir().unwrap();
        let from = base.path().join("from");
        fs::create_dir_all(from.join("base/1")).unwrap();
        fs::set_permissions(&from, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(from.join("base/1/2600"), vec![5; 3 * COPY_CHUNK_BYTES / 2]).unwrap();
        fs::write(from.join("PG_VERSION"), "15\n").unwrap();
        fs::set_permissions(from.join("PG_VERSION"), fs::Permissions::from_mode(0o600)).unwrap();
        let user = sys::user_by_uid(sys::effective_uid()).unwrap();
        let method = Method::of_store(base.path());
        let to = base.path().join("to");
        let mut last = 0;
        let size = restore(&from, &to, None, method, &user, &mut |bytes| last = bytes).unwrap();
        assert_eq!(size, tree_size(&from));
        assert_eq!(size, tree_size(&to));
        assert_eq!(last, size.bytes);
        assert_eq!(fs::read(to.join("base/1/2600")).unwrap().len(), 3 * COPY_CHUNK_BYTES / 2);
        assert_eq!(fs::metadata(&to).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(to.join("PG_VERSION")).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn existing_target_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let from = base.path().join("from");
        fs::create_dir(&from).unwrap();
        let user = sys::user_by_uid(sys::effective_uid()).unwrap();
        let outcome = restore(&from, base.path(), None, Method::Copy, &user, &mut |_| ());
        assert!(outcome.is_err());
    }
}
