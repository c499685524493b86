//! The runtime directories of this user's mounts. Commands refuse them unless this user may trust them.

use std::path::{Path, PathBuf};

use dnfs::mount::{RUNTIME_DIR_VARIABLE, SegmentError, has_runtime_root, make_runtime_root, runtime_root};

use crate::error_printing::refusal;

/// The directory that holds the default runtime directories of users and groups.
const SHARED_MEMORY: &str = "/dev/shm";

/// The directories whose mounts this user sees: the one that the environment names, or else this user's own, which may be missing,
/// and those of its groups.
pub(super) fn searched() -> anyhow::Result<Vec<PathBuf>> {
    let own = runtime_root();
    check(&own)?;
    let groups =
        if std::env::var_os(RUNTIME_DIR_VARIABLE).is_some_and(|named| !named.is_empty()) { Vec::new() } else { of_groups() };
    Ok(std::iter::once(own).chain(groups).collect())
}

/// The runtime directories of this user's groups (`exec --group`). The directory of another group is not trusted.
pub(super) fn of_groups() -> Vec<PathBuf> {
    let groups = numbered("millrace-group-").into_iter().map(|(path, _)| path);
    groups.filter(|path| has_runtime_root(path).unwrap_or(false)).collect()
}

/// Entries of [`SHARED_MEMORY`] whose name is `begin` and a number, each with that number, sorted.
pub(super) fn numbered(begin: &str) -> Vec<(PathBuf, u32)> {
    let entries = std::fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten();
    let numbered = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.strip_prefix(begin)?.parse().ok()?;
        Some((entry.path(), number))
    });
    let mut found: Vec<(PathBuf, u32)> = numbered.collect();
    found.sort();
    found
}

/// Whether the directory that this user named exists. Fails if this user may not trust it.
pub(super) fn check(path: &Path) -> anyhow::Result<bool> {
    has_runtime_root(&std::path::absolute(path)?).map_err(explained)
}

/// The directory, made if missing.
pub(super) fn made(path: &Path) -> anyhow::Result<()> {
    make_runtime_root(path).map_err(explained)
}

/// The error with the owner's name, if this host knows it.
pub(super) fn explained(error: SegmentError) -> anyhow::Error {
    match error {
        SegmentError::Directory(refused) => {
            refusal(format!("use the shared memory of mounts: {}", refused.with_names(named)), refused.hint())
        }
        other => anyhow::Error::new(dnfs::Error::from(other)).context("use the shared memory of mounts"),
    }
}

/// A user by name and number.
pub(super) fn named(uid: u32) -> String {
    lab::user_name(uid).map_or_else(|| format!("uid {uid}"), |name| format!("{name} (uid {uid})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_as_this_host_names_them() {
        assert_eq!(named(0), "root (uid 0)");
        assert_eq!(named(3_999_999_999), "uid 3999999999");
    }
}
