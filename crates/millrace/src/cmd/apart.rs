//! Mounts of other users on this host, which share nothing with this user's mounts.

use super::runtime;
use crate::error_printing::refusal;
use dnfs::mount::mounted_apart;
use dnfs::{MountParts, NfsUrl};
use std::path::Path;

/// Warns of other users who have the same file system mounted separately, without shared locks, sizes and unstable data. Fails
/// while a program of one of them holds file locks, unless `force`.
pub(super) fn report_apart(url: &NfsUrl, parts: &MountParts, runtime_root: &Path, force: bool) -> anyhow::Result<()> {
    let users = mounted_apart(parts, runtime_root);
    for apart in &users {
        let user = runtime::named(apart.uid);
        if apart.holds_locks && !force {
            let what = format!(
                "mount {url}: {user} has this export mounted separately and holds file locks that this mount would not respect"
            );
            let hint = "run all programs with --group GROUP, a group that their users are in, or end the other programs first; --force mounts anyway";
            return Err(refusal(what, hint));
        }
        eprintln!(
            "millrace: warning: {url}: {user} has this export mounted separately: file locks are not shared with it. Harmless for reading"
        );
    }
    if !users.is_empty() {
        eprintln!(
            "hint: to share them, run all programs with --group GROUP, a group that their users are in; containers need one /dev/shm for that"
        );
    }
    Ok(())
}
