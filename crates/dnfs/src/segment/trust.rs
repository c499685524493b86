//! Decides whether this process may use a runtime directory: by its owner, its mode, and whether another user can put another
//! directory in its place (docs/design/012-users.md).
//!
//! A user who can write in a runtime directory can read and change what its users write. So the directory must belong to this
//! user, or to root if the user named it and a group shares it. The same holds for each directory and each symbolic link on the
//! way to it.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use super::error::{SegmentError, local};
use super::untrusted::{Distrust, Untrusted};
use crate::sys::local_file::{CPath, Errno, Owner, open, read_link, stat};
use crate::sys::process::{effective_gid, effective_uid, groups, pid_namespace};
use crate::user_namespace::{UNNAMED, hides_root};

/// Permissions of a directory that a group shares, and of what is made in it.
pub(super) const GROUP_RIGHTS: u32 = 0o770;
/// Number of symbolic links that the kernel follows in one path (path_resolution(7)).
const LINKS_MAX: usize = 40;
const ROOT: u32 = 0;

/// The owner of a directory, and who may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// Its owner's uid, which is part of the identity of what lies below.
    pub(crate) owner: u32,
    /// The members of its group may use it too.
    pub(crate) is_shared: bool,
    /// Its group.
    pub(crate) group: u32,
}

impl Sharing {
    /// The owner and sharing of the directory at `path`. Fails unless this process may trust it. `is_named`: the user named
    /// it, so a group may share it.
    pub(super) fn of_trusted(path: &Path, is_named: bool) -> Result<Self, SegmentError> {
        let refused = |why| SegmentError::Directory(Untrusted { path: path.to_owned(), why }.into());
        // The path has no slash at its end, because a slash would follow a link.
        let path: &Path = &path.components().collect::<PathBuf>();
        if !path.is_absolute() || path.file_name().is_none() {
            return Err(refused(Distrust::Path));
        }
        let found = examine(path).map_err(local("open the runtime directory"))?;
        let me = effective_uid();
        let sharing = accepted(&found, me, is_named).map_err(refused)?;
        let team = sharing.is_shared.then_some(sharing.group);
        match check_way(path, me, team) {
            Ok(()) => Ok(sharing),
            Err(Way::Unsafe(why)) => Err(refused(why)),
            Err(Way::Kernel(errno)) => Err(local("open the runtime directory")(errno)),
        }
    }

    /// The owner and sharing of the directory at `path`, if it exists. Does not check whether it may be trusted.
    pub(crate) fn seen(path: &Path) -> Option<Self> {
        let found = examine(path).ok()?;
        Some(Self { owner: found.uid, is_shared: is_shared(&found), group: found.gid })
    }
}

/// Whether the group may do everything and others nothing.
const fn is_shared(found: &Owner) -> bool {
    found.mode & 0o7777 == libc::S_ISGID | GROUP_RIGHTS
}

/// Examines a path. A symbolic link at its end is not followed.
fn examine(path: &Path) -> Result<Owner, Errno> {
    stat(&open(&CPath::new(path.as_os_str().as_bytes()), libc::O_PATH, 0)?)
}

fn kind(found: &Owner) -> u32 {
    found.mode & libc::S_IFMT
}

/// Whether the directory itself may be used by this user.
fn accepted(found: &Owner, me: u32, is_named: bool) -> Result<Sharing, Distrust> {
    match kind(found) {
        libc::S_IFDIR => {}
        libc::S_IFLNK => return Err(Distrust::Link(found.uid)),
        _ => return Err(Distrust::NotDirectory(found.uid)),
    }
    let is_mine = found.uid == me;
    let is_shared = is_shared(found);
    let is_roots = is_named && is_shared && is_root(found.uid);
    if !(is_mine || is_roots) {
        return Err(Distrust::Owner(found.uid));
    }
    match (is_shared, found.mode & 0o077) {
        (true, _) if !is_named => Err(Distrust::SharedByDefault),
        (true, _) if !is_mine && !is_member(found.gid) => Err(Distrust::NotMember(found.gid)),
        (false, 1..) => Err(Distrust::Mode(found.mode & 0o7777)),
        _ => Ok(Sharing { owner: found.uid, is_shared, group: found.gid }),
    }
}

fn is_member(gid: u32) -> bool {
    gid == effective_gid() || groups().contains(&gid)
}

/// Whether `uid` is root, also if root has no uid in this user namespace.
fn is_root(uid: u32) -> bool {
    uid == ROOT || uid == UNNAMED && hides_root()
}

/// Why a path is refused.
enum Way {
    Unsafe(Distrust),
    Kernel(Errno),
}

/// Checks that only root, this user and the members of the group that shares the directory can make `path` lead elsewhere.
fn check_way(path: &Path, me: u32, team: Option<u32>) -> Result<(), Way> {
    let parts = |path: &Path| -> Vec<PathBuf> {
        let named = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
        named.map(|part| PathBuf::from(part.as_os_str())).rev().collect()
    };
    let mut left = parts(path);
    left.remove(0); // the directory itself
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    check_above(&at, &examine(&at).map_err(Way::Kernel)?, me, team)?;
    while let Some(next) = left.pop() {
        if next.as_os_str() == ".." {
            at.pop();
            continue;
        }
        let below = at.join(&next);
        let found = examine(&below).map_err(Way::Kernel)?;
        if kind(&found) != libc::S_IFLNK {
            check_above(&below, &found, me, team)?;
            at = below;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Way::Kernel(Errno(libc::ELOOP)));
        }
        if found.uid != me && !is_root(found.uid) {
            return Err(Way::Unsafe(Distrust::AboveOwner(below, found.uid)));
        }
        let target = read_link(&CPath::new(below.as_os_str().as_bytes())).map_err(Way::Kernel)?;
        let target = PathBuf::from(std::ffi::OsString::from_vec(target));
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        left.extend(parts(&target));
    }
    Ok(())
}

/// Checks that others cannot rename what root and this user have in a directory.
fn check_above(path: &Path, found: &Owner, me: u32, team: Option<u32>) -> Result<(), Way> {
    if found.uid != me && !is_root(found.uid) {
        return Err(Way::Unsafe(Distrust::AboveOwner(path.to_owned(), found.uid)));
    }
    let writers = found.mode & if team == Some(found.gid) { 0o002 } else { 0o022 };
    let is_sticky = found.mode & libc::S_ISVTX != 0;
    if writers == 0 || is_sticky || is_memory_of_pod(path) {
        return Ok(());
    }
    Err(Way::Unsafe(Distrust::AboveMode(path.to_owned(), found.mode & 0o7777)))
}

/// Kubernetes mounts a volume of memory with mode 0777 and without the sticky bit, and no user in the pod can change that.
fn is_memory_of_pod(path: &Path) -> bool {
    path == Path::new("/dev/shm") && pid_namespace().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::tempdir::TempDir;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const ME: u32 = 1001;
    /// A group that the test's process is not in.
    const GROUP: u32 = 4_000_000;

    fn found(kind: u32, mode: u32, uid: u32) -> Owner {
        Owner { mode: kind | mode, uid, gid: GROUP, size: 0, is_named: true }
    }

    #[test]
    fn a_directory_is_used_by_who_made_it_and_by_nobody_else() {
        let of = |mode, uid, is_named| accepted(&found(libc::S_IFDIR, mode, uid), ME, is_named);
        let mine = Ok(Sharing { owner: ME, is_shared: false, group: GROUP });
        assert_eq!((of(0o700, ME, false), of(0o2700, ME, true)), (mine.clone(), mine));
        for other in [0, 1002] {
            assert_eq!(of(0o700, other, true), Err(Distrust::Owner(other)));
            assert_eq!(of(0o2770, other, false), Err(Distrust::Owner(other)), "a default directory of a fellow member");
        }
        assert_eq!(of(0o2770, 1002, true), Err(Distrust::Owner(1002)), "named, of a fellow member");
        assert_eq!(of(0o2770, 0, true), Err(Distrust::NotMember(GROUP)));
        assert_eq!(of(0o2770, ME, true), Ok(Sharing { owner: ME, is_shared: true, group: GROUP }));
        assert_eq!(of(0o2770, ME, false), Err(Distrust::SharedByDefault));
        assert_eq!(of(0o755, ME, true), Err(Distrust::Mode(0o755)));
        assert_eq!(accepted(&found(libc::S_IFDIR, 0o2770, 1002), ROOT, true), Err(Distrust::Owner(1002)), "root follows nobody");
        assert_eq!(accepted(&found(libc::S_IFLNK, 0o777, 1002), ME, true), Err(Distrust::Link(1002)));
        assert_eq!(accepted(&found(libc::S_IFREG, 0o600, ME), ME, true), Err(Distrust::NotDirectory(ME)));
    }

    #[test]
    fn a_directory_that_others_can_replace_is_refused_also_below_a_link() {
        let place = TempDir::new();
        let at = |name: &str| Path::new(place.path()).join(name);
        let mode = |name: &str, mode| std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
        for name in ["open", "open/run", "sticky", "sticky/run", "closed", "closed/run"] {
            std::fs::create_dir(at(name)).unwrap();
            mode(name, 0o700);
        }
        mode("open", 0o777);
        mode("sticky", 0o1777);
        symlink("open", at("to-open")).unwrap();
        symlink(at("closed"), at("to-closed")).unwrap();
        let of = |name: &str| Sharing::of_trusted(&at(name), true);
        for name in ["closed/run", "sticky/run", "to-closed/run"] {
            assert!(of(name).is_ok(), "{name}: {:?}", of(name));
        }
        for name in ["open/run", "to-open/run", "open/../closed/run"] {
            let Err(SegmentError::Directory(refused)) = of(name) else { panic!("{name}") };
            assert_eq!(refused.why, Distrust::AboveMode(at("open"), 0o777), "{name}");
        }
        symlink(at("closed/run"), at("run")).unwrap();
        assert!(matches!(of("run"), Err(SegmentError::Directory(refused)) if matches!(refused.why, Distrust::Link(_))));
    }
}
