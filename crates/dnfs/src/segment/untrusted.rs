//! Why a process does not use a runtime directory.

use std::fmt::{Display, Formatter};
use std::path::PathBuf;

/// A directory that this process does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untrusted {
    /// The runtime directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: Distrust,
}

/// Why a directory is not used. Uids are those of the mounts' user namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// The directory belongs to another user, with this uid.
    Owner(u32),
    /// The directory is shared by the group with this gid, and this user is not a member.
    NotMember(u32),
    /// The path is not that of a directory. The uid is that of its owner.
    NotDirectory(u32),
    /// The path is that of a symbolic link. The uid is that of its owner.
    Link(u32),
    /// The directory's mode lets other users enter it.
    Mode(u32),
    /// The directory is the default one, which is for one user, and has the mode of a shared one.
    SharedByDefault,
    /// Another user can replace the directory: a directory or link above it belongs to that uid.
    AboveOwner(PathBuf, u32),
    /// Other users can replace the directory: a directory above it has this mode.
    AboveMode(PathBuf, u32),
    /// The directory is not shared by the group with this gid.
    NotOfGroup(u32),
    /// The directory of a group does not exist, and this user is not root. Members would not trust a directory of one of them.
    GroupsMissing,
    /// The path is relative, too long, or `/`.
    Path,
}

impl Untrusted {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self.why {
            Distrust::Owner(_) | Distrust::NotMember(_) | Distrust::NotOfGroup(_) => {
                "name a directory of this user: MILLRACE_RUNTIME_DIR=/dev/shm/NAME. Users who share a mount, and programs that change their \
                 user, need `millrace exec --group GROUP`, run first by root, with a group that all of them are in"
            }
            Distrust::Mode(_) | Distrust::SharedByDefault => {
                "give it to its user alone (chmod 700), or name another that may be made: MILLRACE_RUNTIME_DIR=/dev/shm/NAME"
            }
            Distrust::AboveOwner(..) | Distrust::AboveMode(..) => {
                "name a directory in /dev/shm, or in another that only root and this user can write, or that has the sticky bit: \
                 MILLRACE_RUNTIME_DIR=/dev/shm/NAME"
            }
            Distrust::GroupsMissing => {
                "run `millrace exec --group GROUP … -- true` once as root, after each boot: members trust a directory of root only"
            }
            Distrust::NotDirectory(_) | Distrust::Link(_) | Distrust::Path => {
                "name a directory by its whole path; it is made if missing: MILLRACE_RUNTIME_DIR=/dev/shm/NAME"
            }
        }
    }
}

impl Display for Untrusted {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        self.write(to, |uid| format!("uid {uid}"))
    }
}

impl Untrusted {
    /// The message, with the names that the caller has for users.
    #[must_use]
    pub fn with_names(&self, name: impl Fn(u32) -> String) -> String {
        let mut text = String::new();
        let _ = self.write(&mut text, name); // writing to a string cannot fail
        text
    }

    fn write(&self, to: &mut impl std::fmt::Write, name: impl Fn(u32) -> String) -> std::fmt::Result {
        write!(to, "the runtime directory {} ", self.path.display())?;
        match &self.why {
            Distrust::Owner(uid) => write!(to, "belongs to another user, {}", name(*uid)),
            Distrust::NotMember(gid) => write!(to, "is shared by the members of group {gid}, and this user is not one"),
            Distrust::NotDirectory(uid) => write!(to, "is not a directory; it belongs to {}", name(*uid)),
            Distrust::Link(uid) => write!(to, "is a symbolic link; it belongs to {}", name(*uid)),
            Distrust::Mode(mode) => {
                write!(to, "has mode {mode:04o}: others may enter it; the mode must be 0700, or 2770 for the users of a group")
            }
            Distrust::SharedByDefault => {
                write!(to, "has mode 2770, and the default directory is for one user: its mode must be 0700")
            }
            Distrust::AboveOwner(above, uid) => {
                write!(to, "can be replaced by another user: {} belongs to {}", above.display(), name(*uid))
            }
            Distrust::AboveMode(above, mode) => {
                write!(to, "can be replaced by other users: {} has mode {mode:04o}", above.display())
            }
            Distrust::NotOfGroup(gid) => {
                write!(to, "is not the one of group {gid}: it has another group, or its mode is not 2770")
            }
            Distrust::GroupsMissing => write!(to, "does not exist, and only root can make it for the group"),
            Distrust::Path => write!(to, "cannot be used: its path is relative, too long, or /"),
        }
    }
}
