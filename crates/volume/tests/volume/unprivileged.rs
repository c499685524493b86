//! Without CAP_DAC_READ_SEARCH objects are found by name and checked; handles hold all the same.

use std::os::unix::fs::MetadataExt;

use crate::common::{USER, content, owner, retry_busy, without_privilege};
use volume::{CreateHow, Error, SetAttr, Stability, Volume};

fn me() -> volume::Owner {
    let uid = if owner().uid == 0 { USER } else { owner().uid };
    volume::Owner { uid, gid: if owner().uid == 0 { USER } else { owner().gid } }
}

fn file(volume: &Volume, dir: &volume::Node, name: &str, bytes: &[u8]) -> volume::Node {
    let (node, _) = volume.create(dir, name.as_bytes(), CreateHow::Guarded(SetAttr::default()), me()).unwrap();
    volume.write(&node, 0, bytes, Stability::FileSync).unwrap();
    node
}

fn dir(volume: &Volume, above: &volume::Node, name: &str) -> volume::Node {
    volume.mkdir(above, name.as_bytes(), &SetAttr::default(), me()).unwrap().0
}

#[test]
fn handles_hold_over_restart_by_hint_and_walk() {
    without_privilege(|scratch| {
        let (deep, top, moved) = {
            let volume = scratch.open();
            let a = dir(&volume, &volume.root(), "a");
            let b = dir(&volume, &a, "b");
            let deep = file(&volume, &b, "deep", b"deep content");
            let top = file(&volume, &volume.root(), "top", b"top content");
            let moved = file(&volume, &b, "old-name", b"moved content");
            let handles = (volume.handle(&deep), volume.handle(&top), volume.handle(&moved));
            volume.rename(&b, b"old-name", &volume.root(), b"new-name").unwrap();
            assert_eq!(content(&volume, &volume.resolve(handles.2.as_bytes()).unwrap()).unwrap(), b"moved content");
            handles
        };
        let volume = scratch.open();
        let resolve = |handle: &volume::Handle| retry_busy(|| volume.resolve(handle.as_bytes()));
        assert_eq!(volume.resolve(deep.as_bytes()), Err(Error::Busy), "never STALE before the walk has ended");
        assert_eq!(content(&volume, &resolve(&deep).unwrap()).unwrap(), b"deep content");
        assert_eq!(content(&volume, &resolve(&top).unwrap()).unwrap(), b"top content");
        assert_eq!(content(&volume, &resolve(&moved).unwrap()).unwrap(), b"moved content");
        // The parent of an object found by walk is known, up to the root.
        let (found, _) = volume.lookup(&volume.root(), b"a").unwrap();
        assert_eq!(volume.lookup(&found, b"..").unwrap().0, volume.root());
    });
}

#[test]
fn removed_object_is_stale_once_the_walk_has_ended() {
    without_privilege(|scratch| {
        let handle = {
            let volume = scratch.open();
            let node = file(&volume, &volume.root(), "gone", b"x");
            let handle = volume.handle(&node);
            volume.remove(&volume.root(), b"gone").unwrap();
            assert_eq!(volume.attr(&node), Err(Error::Stale));
            handle
        };
        let volume = scratch.open();
        assert_eq!(retry_busy(|| volume.resolve(handle.as_bytes())), Err(Error::Stale));
        assert_eq!(volume.resolve(handle.as_bytes()), Err(Error::Stale), "without a second walk");
    });
}

#[test]
fn renames_on_the_host_are_followed_and_strangers_refused() {
    without_privilege(|scratch| {
        let host = scratch.dir();
        let volume = scratch.open();
        let sub = dir(&volume, &volume.root(), "sub");
        let node = file(&volume, &sub, "a", b"mine");
        let handle = volume.handle(&node);
        drop((volume, sub, node));
        let volume = scratch.open();
        let (sub, _) = volume.lookup(&volume.root(), b"sub").unwrap();
        let (node, _) = volume.lookup(&sub, b"a").unwrap();
        // Not opened yet: only its place is known.
        std::fs::rename(host.join("sub/a"), host.join("elsewhere")).unwrap();
        std::fs::write(host.join("sub/a"), "a stranger").unwrap();
        assert_eq!(retry_busy(|| content(&volume, &node)).unwrap(), b"mine");
        assert_eq!(volume.resolve(handle.as_bytes()), Ok(node.clone()));
        drop(node);
        std::fs::remove_file(host.join("elsewhere")).unwrap();
        let gone = retry_busy(|| volume.resolve(handle.as_bytes()).and_then(|node| volume.attr(&node)));
        assert_eq!(gone, Err(Error::Stale));
    });
}

#[test]
fn second_link_serves_when_the_first_name_is_removed() {
    without_privilege(|scratch| {
        let volume = scratch.open();
        let sub = dir(&volume, &volume.root(), "sub");
        let node = file(&volume, &sub, "one", b"linked");
        volume.link(&node, &volume.root(), b"two").unwrap();
        volume.remove(&sub, b"one").unwrap();
        let handle = volume.handle(&node);
        assert_eq!(retry_busy(|| content(&volume, &node)).unwrap(), b"linked");
        drop((node, sub, volume));
        let volume = scratch.open();
        let node = retry_busy(|| volume.resolve(handle.as_bytes())).unwrap();
        assert_eq!(content(&volume, &node).unwrap(), b"linked");
    });
}

#[test]
fn objects_belong_to_the_own_user_or_are_refused() {
    without_privilege(|scratch| {
        let volume = scratch.open();
        let root = volume.root();
        let other = volume::Owner { uid: me().uid - 1, gid: me().gid };
        let set = SetAttr::default();
        assert_eq!(volume.create(&root, b"f", CreateHow::Guarded(set), other).map(drop), Err(Error::NotPermitted));
        assert_eq!(volume.mkdir(&root, b"d", &set, other).map(drop), Err(Error::NotPermitted));
        assert_eq!(volume.symlink(&root, b"l", b"x", &set, other).map(drop), Err(Error::NotPermitted));
        assert_eq!(std::fs::read_dir(scratch.dir()).unwrap().count(), 0, "nothing half-made stays");
        let node = file(&volume, &root, "mine", b"x");
        assert_eq!(std::fs::metadata(scratch.dir().join("mine")).unwrap().uid(), me().uid);
        let give_away = SetAttr { uid: Some(0), ..set };
        assert_eq!(volume.set_attr(&node, &give_away, None), Err(Error::NotPermitted));
    });
}

#[test]
fn read_only_file_can_be_read_and_refuses_writes() {
    without_privilege(|scratch| {
        let volume = scratch.open();
        let root = volume.root();
        let node = file(&volume, &root, "r", b"fixed");
        volume.set_attr(&node, &SetAttr { mode: Some(0o400), ..SetAttr::default() }, None).unwrap();
        drop((node, root, volume));
        let volume = scratch.open();
        let (node, _) = volume.lookup(&volume.root(), b"r").unwrap();
        assert_eq!(content(&volume, &node).unwrap(), b"fixed");
        assert_eq!(volume.write(&node, 0, b"x", Stability::Unstable), Err(Error::Access));
    });
}
