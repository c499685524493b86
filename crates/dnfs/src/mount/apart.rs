//! Who else has an export mounted on this host without sharing its state: other users, containers that do not see each other's
//! memory. Each keeper has a name in the abstract socket namespace (unix(7)), which everybody in its network namespace can list and
//! which ends with it. The name promises nothing: it serves a warning.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

use super::attach::identity_of;
use crate::url::NfsUrl;

const PREFIX: &str = "millrace-mount";
/// In place of an owner: one export has one number on the host, whoever mounts it.
const ANYBODY: u32 = u32::MAX;

/// A keeper's name, until dropped.
#[derive(Debug)]
pub(super) struct Announcement {
    _name: UnixDatagram,
}

impl Announcement {
    /// Of this user's mount whose state lies below `runtime_root`; none when a keeper that is ending still has the name.
    pub(super) fn make(url: &NfsUrl, runtime_root: &Path, uid: u32) -> Option<Self> {
        let name = format!("{PREFIX}/{:016x}/{}/{uid}", identity_of(url, ANYBODY), place_of(runtime_root)?);
        let address = SocketAddr::from_abstract_name(name).ok()?;
        Some(Self { _name: UnixDatagram::bind_addr(&address).ok()? })
    }
}

/// The users, each once, who have this export mounted now, by this network namespace, with their state elsewhere than below
/// `runtime_root`: neither locks nor sizes are common with theirs.
#[must_use]
pub fn mounted_apart(url: &NfsUrl, runtime_root: &Path) -> Vec<u32> {
    let here = place_of(runtime_root).unwrap_or_default();
    let sockets = std::fs::read("/proc/net/unix").unwrap_or_default();
    let mut users = apart(&String::from_utf8_lossy(&sockets), identity_of(url, ANYBODY), &here);
    users.sort_unstable();
    users.dedup();
    users
}

fn apart(sockets: &str, export: u64, here: &str) -> Vec<u32> {
    let prefix = format!("@{PREFIX}/{export:016x}/");
    let names = sockets.lines().filter_map(|line| line.rsplit(' ').next()?.strip_prefix(&prefix));
    names
        .filter_map(|name| name.split_once('/'))
        .filter(|(place, _)| *place != here)
        .filter_map(|(_, uid)| uid.parse().ok())
        .collect()
}

/// What tells one directory of the host from another, seen from any container.
fn place_of(directory: &Path) -> Option<String> {
    let found = std::fs::metadata(directory).ok()?;
    Some(format!("{:x}:{:x}", found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::tempdir::TempDir;

    #[test]
    fn names_of_another_place_and_of_the_same_export_count_and_no_others() {
        let sockets = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00000000 0002 01 12 @millrace-mount/00000000000000aa/1a:2/1000
0000000000000000: 00000002 00000000 00000000 0002 01 13 @millrace-mount/00000000000000aa/1a:3/1001
0000000000000000: 00000002 00000000 00000000 0002 01 14 @millrace-mount/00000000000000ab/1a:4/1002
0000000000000000: 00000002 00000000 00000000 0002 01 15 @millrace-mount/00000000000000aa/nonsense
0000000000000000: 00000002 00000000 00000000 0002 01 16 /run/millrace-mount/00000000000000aa/1a:5/1003
";
        assert_eq!(apart(sockets, 0xaa, "1a:2"), [1001]);
        assert_eq!(apart(sockets, 0xaa, ""), [1000, 1001]);
    }

    #[test]
    fn a_name_is_listed_as_long_as_it_is_held() {
        let directories = (TempDir::new(), TempDir::new());
        let (one, two) = (Path::new(directories.0.path()), Path::new(directories.1.path()));
        let url: NfsUrl = format!("nfs://127.0.0.1/{}", std::process::id()).parse().unwrap();
        let held = Announcement::make(&url, one, 7).unwrap();
        assert_eq!(mounted_apart(&url, two), [7]);
        assert_eq!(mounted_apart(&url, one), [0; 0], "it is this one");
        assert_eq!(mounted_apart(&url, &one.join("none")), [7]);
        drop(held);
        assert_eq!(mounted_apart(&url, two), [0; 0]);
    }
}
