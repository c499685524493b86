//! Access checks: pure functions of caller, attributes and request.
//!
//! The filer checks access itself, because the host allows a privileged process everything. The
//! rules are those of POSIX mode bits and ACLs (acl(5)). NFSv3 has no OPEN (RFC 1813 4.4), so there
//! are two differences: the owner of a file may always read and write its data, and a caller who
//! may execute a file may read it.

use nfs_proto::rpc::{AuthSys, Groups};
use volume::{Acl, Attr, Error, Kind, SetAttr, SetTime, Subject};

use crate::nfs::policy::{Rights, Squash};

/// The right to read, as a bit of a class in a mode.
pub(crate) const READ: u32 = 4;
/// The right to write.
pub(crate) const WRITE: u32 = 2;
/// The right to execute a file, or to look up names of a directory.
pub(crate) const EXECUTE: u32 = 1;

/// The mode bits of the group class. If the object has an ACL, they are its mask.
const GROUP_CLASS: u32 = 0o070;

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

/// The identity of a caller, after squashing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Groups,
}

impl Caller {
    /// The identity under which a call is executed: that of its credential, squashed as the client's rights require.
    #[must_use]
    pub fn of(identity: Option<&AuthSys<'_>>, rights: &Rights) -> Self {
        let (anonymous_uid, anonymous_gid) = (rights.anonymous_uid, rights.anonymous_gid);
        let AuthSys { uid, gid, gids: groups, .. } = match identity {
            Some(identity) if rights.squash != Squash::All => *identity,
            _ => return Self { uid: anonymous_uid, gid: anonymous_gid, groups: Groups::default() },
        };
        // No user has an id of all ones. To the kernel it means "do not change the owner", and the owner would be the filer.
        let is_squashed = |id: u32| id == u32::MAX || id == 0 && rights.squash != Squash::None;
        let squash = |id: u32, anonymous| if is_squashed(id) { anonymous } else { id };
        let mut squashed = [0; nfs_proto::limits::GROUPS_MAX];
        let count = groups.as_slice().len();
        for (slot, group) in squashed.iter_mut().zip(groups.as_slice()) {
            *slot = squash(*group, anonymous_gid);
        }
        Self {
            uid: squash(uid, anonymous_uid),
            gid: squash(gid, anonymous_gid),
            groups: Groups::new(squashed.get(..count).unwrap_or_default()),
        }
    }

    /// Whether the caller is in this group.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.as_slice().contains(&gid)
    }

    const fn is_root(&self) -> bool {
        self.uid == 0
    }

    const fn owns(&self, object: &Attr) -> bool {
        self.uid == object.uid
    }

    /// Whether the mode bits, or the ACL, grant all rights of `want`. As in the kernel, the ACL is
    /// checked only if the mode grants the group class anything.
    fn permitted(&self, object: &Subject<'_>, want: u32) -> bool {
        if self.is_root() {
            // Root may do everything, but executes a file only if some class may execute it.
            return want & EXECUTE == 0 || object.kind == Kind::Directory || object.mode & 0o111 != 0;
        }
        let gives = |shift: u32| (object.mode >> shift) & want == want;
        if self.owns(object) {
            return gives(6);
        }
        let may_depend_on_acl = object.mode & GROUP_CLASS != 0 && (gives(3) || gives(0));
        match if may_depend_on_acl { object.acl() } else { Ok(None) } {
            Ok(Some(acl)) => self.permitted_by(&acl, object.gid, want).unwrap_or_else(|| gives(0)),
            Ok(None) if self.in_group(object.gid) => gives(3),
            Ok(None) => gives(0),
            Err(_) => false,
        }
    }

    /// Whether an ACL grants all rights of `want` to a caller other than the owner. `None` if no
    /// entry names the caller or one of its groups.
    fn permitted_by(&self, acl: &Acl, gid: u32, want: u32) -> Option<bool> {
        let gives = |rights: u32| rights & acl.mask & want == want;
        if let Some((_, rights)) = acl.users.iter().find(|(uid, _)| *uid == self.uid) {
            return Some(gives(*rights));
        }
        let entries = acl.groups.iter().copied().chain([(gid, acl.group)]);
        // One entry must grant all rights of `want`.
        let own = entries.filter(|(gid, _)| self.in_group(*gid)).map(|(_, rights)| gives(rights));
        own.reduce(|one, other| one || other)
    }

    /// Whether the caller may read the data of a file.
    #[must_use]
    pub fn may_read(&self, file: &Subject<'_>) -> bool {
        self.owns(file) || self.permitted(file, READ) || self.permitted(file, EXECUTE)
    }

    /// Whether the caller may write, extend or cut the data of a file.
    #[must_use]
    pub fn may_write(&self, file: &Subject<'_>) -> bool {
        self.owns(file) || self.permitted(file, WRITE)
    }

    /// Whether the caller may look up names of a directory.
    #[must_use]
    pub fn may_search(&self, dir: &Subject<'_>) -> bool {
        self.permitted(dir, EXECUTE)
    }

    /// Whether the caller may list a directory.
    #[must_use]
    pub fn may_list(&self, dir: &Subject<'_>) -> bool {
        self.permitted(dir, READ)
    }

    /// Whether the caller may add names to a directory.
    #[must_use]
    pub fn may_add(&self, dir: &Subject<'_>) -> bool {
        self.permitted(dir, WRITE | EXECUTE)
    }

    /// Whether the caller may remove the name of `victim` from a directory. In a sticky directory
    /// it must own the directory or `victim`.
    #[must_use]
    pub fn may_remove(&self, dir: &Subject<'_>, victim: &Attr) -> bool {
        let bound = dir.mode & STICKY != 0 && !self.is_root() && !self.owns(dir) && !self.owns(victim);
        self.may_add(dir) && !bound
    }

    /// Whether the caller may move a directory to another parent, which rewrites its `..`.
    #[must_use]
    pub fn may_move(&self, object: &Subject<'_>, other_parent: bool) -> bool {
        !other_parent || object.kind != Kind::Directory || self.permitted(object, WRITE)
    }

    /// Whether the mode bits or the ACL grant all these rights. The owner has no extra rights here,
    /// because a client decides about `open` by this.
    #[must_use]
    pub fn is_granted(&self, object: &Subject<'_>, rights: u32) -> bool {
        self.permitted(object, rights)
    }

    /// The attributes to set for a request: those of the request, with set-id bits cleared where POSIX requires it.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] for what only the owner or root may do, [`Error::Access`] if write
    /// permission is missing.
    pub fn settable(&self, object: &Subject<'_>, wanted: &SetAttr) -> Result<SetAttr, Error> {
        let owner = self.is_root() || self.owns(object);
        let mut set = *wanted;
        let keeps_uid = |uid| self.owns(object) && uid == object.uid;
        if set.uid.is_some_and(|uid| !(self.is_root() || keeps_uid(uid))) {
            return Err(Error::NotPermitted);
        }
        let may_have_gid = |gid| self.owns(object) && (gid == object.gid || self.in_group(gid));
        if set.gid.is_some_and(|gid| !(self.is_root() || may_have_gid(gid))) {
            return Err(Error::NotPermitted);
        }
        if (set.mode.is_some() || sets_client_time(&set)) && !owner {
            return Err(Error::NotPermitted);
        }
        let sets_time = set.atime != SetTime::DontChange || set.mtime != SetTime::DontChange;
        if (set.size.is_some() || sets_time) && !self.may_write(object) && !self.is_root() {
            return Err(Error::Access);
        }
        if let Some(mode) = &mut set.mode {
            let gid = set.gid.unwrap_or(object.gid);
            *mode &= 0o7777;
            // The kernel's server does the same (setattr_prepare, nfsd_sanitize_attrs). Without a
            // mode the host clears the bits itself when the owner changes.
            if !self.is_root() && !self.in_group(gid) {
                *mode &= !SET_GID;
            }
            if object.kind != Kind::Directory && (set.uid.is_some() || set.gid.is_some()) {
                *mode = without_set_id(*mode);
            }
        }
        Ok(set)
    }
}

/// Whether a file has bits that a write by a user other than root clears. A program that others
/// have written may not run as its owner.
pub(crate) const fn has_set_id(file: &Attr) -> bool {
    file.mode & (SET_UID | SET_GID) != 0
}

fn sets_client_time(set: &SetAttr) -> bool {
    matches!(set.atime, SetTime::Client(_)) || matches!(set.mtime, SetTime::Client(_))
}

/// The mode without set-user-id, and without set-group-id if the group may execute.
const fn without_set_id(mode: u32) -> u32 {
    if mode & 0o010 == 0 { mode & !SET_UID } else { mode & !(SET_UID | SET_GID) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs::policy::NOBODY;
    use nfs_proto::rpc::MachineName;
    use volume::Time;

    fn attr(kind: Kind, mode: u32, uid: u32, gid: u32) -> Attr {
        let time = Time { sec: 0, nsec: 0 };
        let (atime, mtime, ctime) = (time, time, time);
        Attr { kind, mode, nlink: 1, uid, gid, size: 0, used: 0, rdev: (0, 0), fsid: 1, fileid: 2, atime, mtime, ctime }
    }

    fn object(kind: Kind, mode: u32, uid: u32, gid: u32) -> Subject<'static> {
        Subject::with_acl(attr(kind, mode, uid, gid), None)
    }

    fn user(uid: u32, gid: u32, groups: &[u32]) -> Caller {
        Caller { uid, gid, groups: Groups::new(groups) }
    }

    /// Every mode of one class against every right: only the class that the caller falls into counts.
    #[test]
    fn each_class_is_judged_by_its_own_three_bits() {
        let callers = [
            (user(1, 9, &[]), 6),
            (user(2, 5, &[]), 3),
            (user(2, 9, &[7, 5]), 3),
            (user(2, 9, &[]), 0),
            (Caller::of(None, &Rights::default()), 0),
        ];
        for (caller, shift) in callers {
            for mode in 0..0o1000 {
                let file = object(Kind::File, mode, 1, 5);
                let dir = object(Kind::Directory, mode, 1, 5);
                let bits = (mode >> shift) & 7;
                let owner = caller.uid == 1;
                assert_eq!(caller.may_read(&file), owner || bits & 5 != 0, "{caller:?} {mode:o}");
                assert_eq!(caller.may_write(&file), owner || bits & 2 != 0, "{caller:?} {mode:o}");
                assert_eq!(caller.may_search(&dir), bits & 1 != 0);
                assert_eq!(caller.may_list(&dir), bits & 4 != 0);
                assert_eq!(caller.may_add(&dir), bits & 3 == 3);
            }
        }
    }

    /// Compares every ACL of one named user and one named group with the algorithm of acl(5).
    #[test]
    fn the_first_entry_of_an_acl_that_names_the_caller_decides_together_with_the_mask() {
        for bits in 0..1_u32 << 15 {
            let [user_rights, group, named, mask, others] =
                [bits & 7, bits >> 3 & 7, bits >> 6 & 7, bits >> 9 & 7, bits >> 12 & 7];
            let acl = Acl { group, users: vec![(3, user_rights)], groups: vec![(7, named)], mask };
            let dir = Subject::with_acl(attr(Kind::Directory, mask << 3 | others, 1, 5), Some(&acl));
            // If the mode grants the group class nothing, the kernel does not check the ACL.
            let is = |caller: Caller, rights: u32| {
                let rights = if mask == 0 && !caller.in_group(5) { others } else { rights };
                assert_eq!(caller.may_list(&dir), rights & READ != 0, "{caller:?} {acl:?} {others}");
                assert_eq!(caller.may_search(&dir), rights & EXECUTE != 0, "{caller:?} {acl:?} {others}");
            };
            is(user(3, 5, &[7]), user_rights & mask);
            is(user(3, 9, &[7]), user_rights & mask);
            is(user(9, 5, &[]), group & mask);
            is(user(9, 9, &[7]), named & mask);
            is(user(9, 9, &[8]), others);
            let both = user(9, 5, &[7]);
            let one_gives = [group, named].iter().any(|rights| rights & mask & 3 == 3);
            assert!(mask == 0 || both.may_add(&dir) == one_gives, "one entry must grant both rights: {acl:?}");
        }
        let acl = Acl { group: 0, users: vec![(1, 0)], groups: vec![], mask: 7 };
        let file = Subject::with_acl(attr(Kind::File, 0o670, 1, 5), Some(&acl));
        assert!(user(1, 1, &[]).may_write(&file), "for the owner, only the mode counts");
        assert!(user(0, 0, &[]).may_write(&file));
    }

    #[test]
    fn rights_are_granted_by_the_mode_bits_without_the_owners_override() {
        let caller = user(1, 1, &[]);
        assert!(!caller.is_granted(&object(Kind::File, 0o000, 1, 1), READ));
        assert!(caller.is_granted(&object(Kind::Directory, 0o500, 1, 1), READ | EXECUTE));
        assert!(!caller.is_granted(&object(Kind::Directory, 0o500, 1, 1), WRITE | EXECUTE));
        assert!(!user(0, 0, &[]).is_granted(&object(Kind::File, 0o600, 1, 1), EXECUTE));
    }

    #[test]
    fn squashing_takes_away_roots_identity_or_everybodys_or_nobodys() {
        let of = |uid, gids: &[u32], squash| {
            let name = MachineName(b"c");
            let identity = AuthSys { stamp: 0, machine_name: name, uid, gid: uid, gids: Groups::new(gids) };
            let rights = Rights { squash, anonymous_uid: 70, anonymous_gid: 71, ..Rights::default() };
            Caller::of(Some(&identity), &rights)
        };
        assert_eq!(of(0, &[0, 7], Squash::Root), user(70, 71, &[71, 7]));
        assert_eq!(of(5, &[0, 7], Squash::Root), user(5, 5, &[71, 7]));
        assert_eq!(of(0, &[0, 7], Squash::None), user(0, 0, &[0, 7]));
        assert_eq!(of(5, &[0, 7], Squash::All), user(70, 71, &[]));
        for squash in [Squash::Root, Squash::None] {
            assert_eq!(of(u32::MAX, &[u32::MAX, 7], squash), user(70, 71, &[71, 7]), "no user's and no group's number");
        }
    }

    #[test]
    fn who_does_not_say_who_he_is_is_anonymous_whatever_is_squashed() {
        for squash in [Squash::Root, Squash::All, Squash::None] {
            let rights = Rights { squash, anonymous_uid: 70, anonymous_gid: 71, ..Rights::default() };
            assert_eq!(Caller::of(None, &rights), user(70, 71, &[]));
        }
        assert_eq!(Caller::of(None, &Rights::default()), user(NOBODY, NOBODY, &[]));
    }

    #[test]
    fn a_sticky_directory_keeps_others_from_removing() {
        let dir = object(Kind::Directory, 0o1777, 1, 1);
        let victim = object(Kind::File, 0o666, 2, 2);
        assert!(user(1, 1, &[]).may_remove(&dir, &victim), "owner of the directory");
        assert!(user(2, 2, &[]).may_remove(&dir, &victim), "owner of the file");
        assert!(user(0, 0, &[]).may_remove(&dir, &victim), "root");
        assert!(!user(3, 3, &[]).may_remove(&dir, &victim), "somebody else");
        assert!(user(3, 3, &[]).may_remove(&Subject::with_acl(Attr { mode: 0o777, ..*dir }, None), &victim), "not sticky");
    }

    #[test]
    fn moving_a_directory_elsewhere_needs_the_right_to_write_it() {
        let moved = object(Kind::Directory, 0o755, 1, 1);
        assert!(!user(2, 2, &[]).may_move(&moved, true));
        assert!(user(2, 2, &[]).may_move(&moved, false));
        assert!(user(1, 1, &[]).may_move(&moved, true));
        assert!(user(2, 2, &[]).may_move(&object(Kind::File, 0o600, 1, 1), true));
    }

    #[test]
    fn only_root_gives_away_and_only_the_owner_sets_mode_and_times() {
        let file = object(Kind::File, 0o644, 1, 1);
        let nothing = SetAttr::default();
        let at = SetTime::Client(Time { sec: 5, nsec: 0 });
        let (root, owner, other) = (user(0, 0, &[]), user(1, 1, &[4]), user(2, 1, &[]));
        let chown = SetAttr { uid: Some(9), ..nothing };
        assert!(root.settable(&file, &chown).is_ok());
        assert_eq!(owner.settable(&file, &chown), Err(Error::NotPermitted));
        assert!(owner.settable(&file, &SetAttr { uid: Some(1), ..nothing }).is_ok());
        assert!(owner.settable(&file, &SetAttr { gid: Some(4), ..nothing }).is_ok());
        assert_eq!(owner.settable(&file, &SetAttr { gid: Some(5), ..nothing }), Err(Error::NotPermitted));
        for set in
            [SetAttr { mode: Some(0o600), ..nothing }, SetAttr { mtime: at, ..nothing }, SetAttr { gid: Some(1), ..nothing }]
        {
            assert!(owner.settable(&file, &set).is_ok());
            assert_eq!(other.settable(&file, &set), Err(Error::NotPermitted));
        }
        for set in [SetAttr { size: Some(0), ..nothing }, SetAttr { mtime: SetTime::ServerTime, ..nothing }] {
            assert_eq!(other.settable(&file, &set), Err(Error::Access));
            assert!(other.settable(&object(Kind::File, 0o664, 1, 1), &set).is_ok());
            assert!(owner.settable(&object(Kind::File, 0o444, 1, 1), &set).is_ok());
        }
    }

    #[test]
    fn a_mode_that_is_set_has_the_set_id_bits_its_setter_may_give() {
        let mode = |caller: Caller, kind, set: SetAttr| caller.settable(&object(kind, 0o6755, 1, 1), &set).unwrap().mode;
        let chmod = |bits| SetAttr { mode: Some(bits), ..SetAttr::default() };
        let (root, member, other) = (user(0, 0, &[]), user(1, 3, &[1]), user(1, 3, &[]));
        for kind in [Kind::File, Kind::Directory] {
            assert_eq!(mode(member, kind, chmod(0o2755)), Some(0o2755));
            assert_eq!(mode(root, kind, chmod(0o2755)), Some(0o2755));
            assert_eq!(mode(other, kind, chmod(0o6755)), Some(0o4755), "not in the group of the object");
            assert_eq!(mode(other, kind, chmod(0o2644)), Some(0o644), "nor where its members may not run it");
        }
        let given = SetAttr { uid: Some(9), ..chmod(0o6755) };
        assert_eq!(mode(root, Kind::File, given), Some(0o755), "a new owner's programs are not set-user-id");
        assert_eq!(mode(root, Kind::File, SetAttr { mode: Some(0o2644), ..given }), Some(0o2644));
        assert_eq!(mode(root, Kind::Directory, given), Some(0o6755));
    }
}
