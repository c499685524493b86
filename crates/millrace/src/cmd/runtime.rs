//! The runtime directory of this user's mounts. Commands refuse it unless this user may trust it.

use std::path::{Path, PathBuf};

use dnfs::mount::{SegmentError, has_runtime_root, make_runtime_root, runtime_root};

use crate::error_printing::refusal;

/// The directory that the environment names, or the default one; it may be missing.
pub(super) fn existing() -> anyhow::Result<PathBuf> {
    let path = runtime_root();
    check(&path)?;
    Ok(path)
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

/// The hint for a command that found no mount, if there are mounts of groups, which it does not search.
pub(super) fn of_groups() -> Option<String> {
    let names = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut groups: Vec<_> = names.filter(|path| path.to_string_lossy().starts_with("/dev/shm/millrace-group-")).collect();
    groups.sort();
    let first = groups.first()?;
    Some(format!("the mounts of a --group are in another directory; name it: MILLRACE_RUNTIME_DIR={}", first.display()))
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
