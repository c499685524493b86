//! A volume of a privileged process: what it makes belongs to whom it makes it for, and set-id bits are where the host's own rules
//! would have them.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use crate::common::{Scratch, make_dir, owner};
use volume::{CreateHow, Creator, Error, Node, NodeKind, Owner, SetAttr, Stability, Volume, keeping_set_id};

const USER: Owner = Owner { uid: 1000, gid: 1000 };
const OTHER_GROUP: u32 = 2000;

/// A volume with a directory that everybody may write to, of another group, with these bits beside 0777. None without privilege.
fn shared(scratch: &Scratch, bits: u32) -> Option<(Volume, Node)> {
    if owner().uid != 0 {
        sim::skip_unsupported("not root: no objects of other users");
        return None;
    }
    let volume = scratch.open();
    let dir = make_dir(&volume, &volume.root(), "shared");
    let path = scratch.dir().join("shared");
    chown(&path, Some(0), Some(OTHER_GROUP)).unwrap();
    set_mode(&path, bits | 0o777);
    Some((volume, dir))
}

fn set_mode(path: &Path, mode: u32) {
    // A thread that has written through a volume has no CAP_FSETID left.
    keeping_set_id(|| std::fs::set_permissions(path, PermissionsExt::from_mode(mode))).unwrap();
}

fn mode(bits: u32) -> SetAttr {
    SetAttr { mode: Some(bits), ..SetAttr::default() }
}

/// The user, who is in its own group only.
fn user<'c>() -> Creator<'c> {
    Creator { in_group: &|gid| gid == USER.gid, ..USER.into() }
}

fn found(path: &Path) -> (u32, u32, u32) {
    let found = path.symlink_metadata().unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

#[test]
fn a_program_gets_the_set_group_id_bit_for_a_group_of_its_creator_only() {
    let scratch = Scratch::new();
    let Some((volume, dir)) = shared(&scratch, 0o2000) else { return };
    let member = Creator { in_group: &|_| true, ..user() };
    for (name, creator, asked, given) in [
        ("foreign", user(), 0o2755, 0o755),
        ("foreign with set-user-id", user(), 0o6755, 0o4755),
        ("foreign, no program", user(), 0o2644, 0o2644),
        ("own", member, 0o2755, 0o2755),
    ] {
        let how = CreateHow::Guarded(mode(asked));
        let (_, attr) = volume.create(&dir, name.as_bytes(), how, creator).unwrap();
        assert_eq!((attr.gid, attr.mode), (OTHER_GROUP, given), "{name}");
        let fifo = format!("{name} fifo");
        let (_, attr) = volume.mknod(&dir, fifo.as_bytes(), NodeKind::Fifo, (0, 0), &mode(asked), creator).unwrap();
        assert_eq!((attr.gid, attr.mode), (OTHER_GROUP, given), "{fifo}");
        assert_eq!(found(&scratch.dir().join("shared").join(&fifo)), (USER.uid, OTHER_GROUP, given), "{fifo}");
    }
}

#[test]
fn a_directory_has_the_set_group_id_bit_of_the_one_above_and_not_what_was_asked_for() {
    let scratch = Scratch::new();
    for (bits, gid, inherited) in [(0o2000, OTHER_GROUP, 0o2000), (0, USER.gid, 0)] {
        let scratch_dir = scratch.dir();
        let _ = std::fs::remove_dir_all(scratch_dir.join("shared"));
        let Some((volume, dir)) = shared(&scratch, bits) else { return };
        for asked in [0o755, 0o2755, 0o7770, 0o000, 0o777] {
            let name = format!("{bits:o} {asked:o}");
            let (_, attr) = volume.mkdir(&dir, name.as_bytes(), &mode(asked), user()).unwrap();
            let wanted = (USER.uid, gid, asked & 0o1777 | inherited);
            assert_eq!((attr.uid, attr.gid, attr.mode), wanted, "{name}");
            assert_eq!(found(&scratch_dir.join("shared").join(&name)), wanted, "{name}");
        }
    }
}

#[test]
fn links_pipes_and_sockets_belong_to_their_creator_and_to_the_group_that_was_named() {
    let scratch = Scratch::new();
    let Some((volume, dir)) = shared(&scratch, 0) else { return };
    let path = scratch.dir().join("shared");
    volume.symlink(&dir, b"link", b"to", &SetAttr::default(), user()).unwrap();
    assert_eq!(found(&path.join("link")), (USER.uid, USER.gid, 0o777));
    volume.mknod(&dir, b"socket", NodeKind::Socket, (0, 0), &mode(0o606), user()).unwrap();
    assert_eq!(found(&path.join("socket")), (USER.uid, USER.gid, 0o606));
    let set = SetAttr { gid: Some(3000), ..mode(0o640) };
    volume.mknod(&dir, b"pipe", NodeKind::Fifo, (0, 0), &set, user()).unwrap();
    assert_eq!(found(&path.join("pipe")), (USER.uid, 3000, 0o640));
    set_mode(&path, 0o2777);
    volume.mkdir(&dir, b"dir", &set, user()).unwrap();
    assert_eq!(found(&path.join("dir")), (USER.uid, 3000, 0o2640));
}

#[test]
fn making_something_for_a_user_leaves_the_thread_as_it_was() {
    let scratch = Scratch::new();
    let Some((volume, dir)) = shared(&scratch, 0) else { return };
    let status = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let ids = |status: &str| {
        let of_interest = |line: &&str| ["Uid", "Gid", "Cap"].iter().any(|key| line.starts_with(key));
        status.lines().filter(of_interest).map(str::to_owned).collect::<Vec<_>>()
    };
    // The first write of a thread decides on CAP_FSETID.
    let (node, _) = volume.create(&dir, b"f", CreateHow::Guarded(mode(0o644)), user()).unwrap();
    volume.write(&node, 0, b"x", Stability::Unstable).unwrap();
    let before = ids(&status());
    volume.mkdir(&dir, b"d", &mode(0o700), user()).unwrap();
    assert_eq!(volume.mkdir(&dir, b"d", &mode(0o700), user()).map(drop), Err(Error::Exists));
    volume.set_attr(&node, &mode(0o2755), None).unwrap();
    keeping_set_id(|| volume.write(&node, 0, b"x", Stability::Unstable)).unwrap();
    assert_eq!(ids(&status()), before);
}

#[test]
fn a_write_and_a_cut_clear_set_id_bits_unless_they_are_to_be_kept() {
    let scratch = Scratch::new();
    let Some((volume, dir)) = shared(&scratch, 0) else { return };
    let (node, _) = volume.create(&dir, b"f", CreateHow::Guarded(mode(0o6755)), user()).unwrap();
    let mode_now = || volume.attr(&node).unwrap().mode;
    let set = || volume.set_attr(&node, &mode(0o6755), None).unwrap();
    let cut = SetAttr { size: Some(3), ..SetAttr::default() };
    for stable in [Stability::Unstable, Stability::FileSync] {
        assert_eq!(mode_now(), 0o6755, "before");
        keeping_set_id(|| volume.write(&node, 0, b"root's", stable)).unwrap();
        assert_eq!(mode_now(), 0o6755, "kept");
        volume.write(&node, 0, b"foreign", stable).unwrap();
        assert_eq!(mode_now(), 0o755, "{stable:?}");
        set();
    }
    volume.set_attr(&node, &cut, None).unwrap();
    assert_eq!(mode_now(), 0o755, "SETATTR of the size");
    set();
    volume.create(&dir, b"f", CreateHow::Unchecked(cut), user()).unwrap();
    assert_eq!(mode_now(), 0o755, "CREATE over it");
    set();
    keeping_set_id(|| volume.create(&dir, b"f", CreateHow::Unchecked(cut), user())).unwrap();
    assert_eq!(mode_now(), 0o6755);
    volume.set_attr(&node, &SetAttr { uid: Some(5), ..SetAttr::default() }, None).unwrap();
    assert_eq!(mode_now(), 0o755, "a new owner");
}

#[test]
fn what_a_creator_may_not_take_or_add_is_left_as_it_is() {
    let scratch = Scratch::new();
    let Some((volume, dir)) = shared(&scratch, 0) else { return };
    let (node, _) = volume.create(&dir, b"f", CreateHow::Guarded(mode(0o644)), user()).unwrap();
    volume.write(&node, 0, b"content", Stability::Unstable).unwrap();
    let refused = Creator { may_add: Err(Error::Access), may_take: &|_| Err(Error::Access), ..user() };
    let cut = CreateHow::Unchecked(SetAttr { size: Some(0), ..SetAttr::default() });
    assert_eq!(volume.create(&dir, b"f", cut, refused).map(drop), Err(Error::Access));
    assert_eq!(volume.create(&dir, b"new", cut, refused).map(drop), Err(Error::Access));
    assert_eq!(volume.mkdir(&dir, b"new", &mode(0o755), refused).map(drop), Err(Error::Access));
    assert_eq!(volume.remove_if(&dir, b"f", false, &|_| Err(Error::Access)), Err(Error::Access));
    let renamed = volume.rename_if((&dir, b"f"), (&dir, b"new"), &|_| Err(Error::Access), &|_| Ok(()));
    assert_eq!(renamed, Err(Error::Access));
    assert!(volume.create(&dir, b"f", CreateHow::Unchecked(SetAttr::default()), refused).is_ok(), "taken as it is");
    assert_eq!(volume.attr(&node).unwrap().size, 7);
    assert_eq!(volume.lookup(&dir, b"new").map(drop), Err(Error::NoEntry));
}

#[test]
fn a_power_cut_takes_no_set_id_bits_that_were_durable() {
    if owner().uid != 0 {
        return sim::skip_unsupported("not root: no objects of other users");
    }
    let scratch = Scratch::new();
    let volume = scratch.open_lossy(0);
    let root = volume.root();
    let (node, _) = volume.create(&root, b"f", CreateHow::Guarded(mode(0o6755)), user()).unwrap();
    keeping_set_id(|| volume.write(&node, 0, b"durable", Stability::FileSync)).unwrap();
    keeping_set_id(|| volume.write(&node, 0, b"not yet", Stability::Unstable)).unwrap();
    volume.power_cut().unwrap();
    let (node, attr) = volume.lookup(&root, b"f").unwrap();
    assert_eq!(crate::common::content(&volume, &node).unwrap(), b"durable");
    assert_eq!(attr.mode, 0o6755);
}

#[test]
fn set_id_bits_that_were_cleared_for_a_write_do_not_come_back_with_a_power_cut() {
    if owner().uid != 0 {
        return sim::skip_unsupported("not root: no objects of other users");
    }
    let scratch = Scratch::new();
    let volume = scratch.open_lossy(0);
    let root = volume.root();
    for (asked, left) in [(0o6755, 0o755), (0o4711, 0o711), (0o1755, 0o1755)] {
        let (node, _) = volume.create(&root, b"f", CreateHow::Guarded(mode(asked)), user()).unwrap();
        volume.clear_set_id(&node).unwrap();
        volume.power_cut().unwrap();
        assert_eq!(volume.lookup(&root, b"f").unwrap().1.mode, left);
        volume.remove(&root, b"f").unwrap();
    }
}
