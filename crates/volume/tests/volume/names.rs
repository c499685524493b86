//! Names: creating, exclusive replay, listing, moving, refusing what leads out.

use std::collections::HashSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::common::{Scratch, content, make_dir, make_file, names, owner};
use volume::{CreateHow, Error, Kind, NodeKind, Owner, SetAttr, SetTime, Stability, Time};

#[test]
fn exclusive_create_is_recognised_until_setattr_and_over_reopen() {
    let scratch = Scratch::new();
    for verifier in [[0; 8], [255; 8], [0x80, 0, 0, 0, 0x7f, 255, 255, 255], *b"\x12\x34\x56\x78\x9a\xbc\xde\xf0"] {
        let volume = scratch.open();
        let root = volume.root();
        let how = CreateHow::Exclusive(verifier);
        let (node, _) = volume.create(&root, b"x", how, owner()).unwrap();
        assert_eq!(volume.create(&root, b"x", how, owner()).unwrap().0, node);
        // A reader must not spoil it.
        assert_eq!(volume.read(&node, 0, &mut [0; 8]), Ok((0, true)));
        assert_eq!(volume.create(&root, b"x", how, owner()).unwrap().0, node);
        for bit in 0..64 {
            let mut other = verifier;
            other[bit / 8] ^= 1 << (bit % 8);
            let replay = volume.create(&root, b"x", CreateHow::Exclusive(other), owner());
            assert_eq!(replay.map(drop), Err(Error::Exists), "all 64 bits count, bit {bit}");
        }
        drop((node, root, volume));
        let volume = scratch.open();
        let root = volume.root();
        let (node, _) = volume.create(&root, b"x", how, owner()).expect("replay after restart");
        let set = SetAttr { mode: Some(0o600), atime: SetTime::ServerTime, mtime: SetTime::ServerTime, ..SetAttr::default() };
        volume.set_attr(&node, &set, None).unwrap();
        assert_eq!(volume.create(&root, b"x", how, owner()).map(drop), Err(Error::Exists));
        volume.remove(&root, b"x").unwrap();
    }
}

#[test]
fn create_sets_what_was_asked_and_keeps_what_exists() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    let set = SetAttr { mode: Some(0o1750), size: Some(5000), ..SetAttr::default() };
    let (node, attr) = volume.create(&root, b"a", CreateHow::Guarded(set), owner()).unwrap();
    assert_eq!((attr.kind, attr.mode, attr.size, attr.nlink), (Kind::File, 0o1750, 5000, 1));
    assert_eq!(content(&volume, &node).unwrap(), vec![0; 5000]);
    assert_eq!(volume.create(&root, b"a", CreateHow::Guarded(set), owner()).map(drop), Err(Error::Exists));
    volume.write(&node, 0, b"kept", Stability::Unstable).unwrap();
    let again = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    let (same, attr) = volume.create(&root, b"a", CreateHow::Unchecked(again), owner()).unwrap();
    assert_eq!((same == node, attr.mode, attr.size), (true, 0o1750, 5000));
    let cut = SetAttr { size: Some(0), ..SetAttr::default() };
    assert_eq!(volume.create(&root, b"a", CreateHow::Unchecked(cut), owner()).unwrap().1.size, 0);
    make_dir(&volume, &root, "d");
    assert_eq!(volume.create(&root, b"d", CreateHow::Unchecked(cut), owner()).map(drop), Err(Error::Exists));
    let host = std::fs::metadata(scratch.dir().join("a")).unwrap();
    assert_eq!(host.permissions().mode() & 0o7777, 0o1750);
}

#[test]
fn new_objects_belong_to_their_owner() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    if owner().uid != 0 {
        let other = Owner { uid: owner().uid + 1, gid: owner().gid };
        let made = volume.create(&root, b"a", CreateHow::Guarded(SetAttr::default()), other);
        assert_eq!(made.map(drop), Err(Error::NotPermitted));
        assert_eq!(names(&volume, &root), [".", ".."], "nothing half-made stays");
        return;
    }
    let database = Owner { uid: 7001, gid: 7002 };
    let set = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    volume.create(&root, b"f", CreateHow::Exclusive([9; 8]), database).unwrap();
    let (dir, _) = volume.mkdir(&root, b"d", &set, database).unwrap();
    volume.symlink(&root, b"l", b"d/x", &SetAttr::default(), database).unwrap();
    volume.mknod(&root, b"p", NodeKind::Fifo, (0, 0), &set, database).unwrap();
    for name in ["f", "d", "l", "p"] {
        let host = std::fs::symlink_metadata(scratch.dir().join(name)).unwrap();
        assert_eq!((host.uid(), host.gid()), (7001, 7002), "{name}");
    }
    assert_eq!(std::fs::metadata(scratch.dir().join("d")).unwrap().mode() & 0o7777, 0o700);
    // A set-group-id directory hands its group and its bit down.
    volume.set_attr(&dir, &SetAttr { mode: Some(0o2770), ..SetAttr::default() }, None).unwrap();
    let stranger = Owner { uid: 7003, gid: 7004 };
    let (_, file) = volume.create(&dir, b"f", CreateHow::Guarded(set), stranger).unwrap();
    let (_, sub) = volume.mkdir(&dir, b"s", &set, stranger).unwrap();
    assert_eq!((file.uid, file.gid, sub.gid, sub.mode), (7003, 7002, 7002, 0o2700));
}

#[test]
fn listing_cookies_hold_while_entries_come_and_go() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    for n in 0..400 {
        std::fs::write(scratch.dir().join(format!("stay{n}")), "").unwrap();
        std::fs::write(scratch.dir().join(format!("go{n}")), "").unwrap();
    }
    let (mut cookie, mut round, mut seen, mut eof) = (0, 0, Vec::new(), false);
    while !eof {
        let mut left = 7;
        eof = volume
            .read_dir(&root, cookie, &mut |entry| {
                seen.push(String::from_utf8(entry.name.to_vec()).unwrap());
                cookie = entry.cookie;
                left -= 1;
                left > 0
            })
            .unwrap();
        let _ = std::fs::remove_file(scratch.dir().join(format!("go{round}")));
        std::fs::write(scratch.dir().join(format!("new{round}")), "").unwrap();
        round += 1;
        assert!(round < 1000, "the listing must end");
    }
    let unique: HashSet<_> = seen.iter().collect();
    assert_eq!(unique.len(), seen.len(), "no name twice");
    for n in 0..400 {
        assert!(unique.contains(&format!("stay{n}")), "stay{n} was there all the time");
    }
    assert!(unique.contains(&".".to_owned()) && unique.contains(&"..".to_owned()));
    assert_eq!(volume.read_dir(&root, u64::MAX, &mut |_| true), Err(Error::Invalid));
}

#[test]
fn rename_replaces_and_refuses_as_the_kinds_want() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    let a = make_file(&volume, &root, "a", b"a");
    let b = make_file(&volume, &root, "b", b"b");
    volume.rename(&root, b"a", &root, b"b").unwrap();
    assert_eq!((volume.lookup(&root, b"b").unwrap().0, volume.attr(&b)), (a.clone(), Err(Error::Stale)));
    let full = make_dir(&volume, &root, "full");
    make_file(&volume, &full, "x", b"");
    make_dir(&volume, &root, "empty");
    assert_eq!(volume.rename(&root, b"empty", &root, b"full"), Err(Error::NotEmpty));
    assert_eq!(volume.rename(&root, b"b", &root, b"empty"), Err(Error::IsDirectory));
    assert_eq!(volume.rename(&root, b"empty", &root, b"b"), Err(Error::NotDirectory));
    assert_eq!(volume.rename(&root, b"full", &full, b"inside"), Err(Error::Invalid));
    assert_eq!(volume.rename(&root, b"none", &root, b"z"), Err(Error::NoEntry));
    volume.rename(&root, b"full", &root, b"empty").unwrap();
    assert_eq!(volume.lookup(&root, b"empty").unwrap().0, full);
    // Two names of one object: both stay.
    volume.link(&a, &root, b"b2").unwrap();
    volume.rename(&root, b"b", &root, b"b2").unwrap();
    assert_eq!(names(&volume, &root), [".", "..", "b", "b2", "empty"]);
    assert_eq!(volume.remove(&root, b"empty"), Err(Error::IsDirectory));
    assert_eq!(volume.rmdir(&root, b"empty"), Err(Error::NotEmpty));
    assert_eq!(volume.rmdir(&root, b"b"), Err(Error::NotDirectory));
}

#[test]
fn nothing_leads_out_of_the_volume() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    std::fs::write(scratch.base.path().join("secret"), "secret").unwrap();
    assert_eq!(volume.lookup(&root, b"..").unwrap().0, root);
    let sub = make_dir(&volume, &root, "sub");
    let deep = make_dir(&volume, &sub, "deep");
    assert_eq!(volume.lookup(&deep, b"..").unwrap().0, sub);
    assert_eq!(volume.lookup(&sub, b"..").unwrap().0, root);
    let (link, _) = volume.symlink(&root, b"out", b"../secret", &SetAttr::default(), owner()).unwrap();
    assert_eq!(volume.lookup(&root, b"out").unwrap().0.kind(), Kind::Symlink);
    assert_eq!(volume.read_link(&link).unwrap(), b"../secret");
    assert_eq!(volume.read(&link, 0, &mut [0; 9]), Err(Error::Invalid));
    assert_eq!(volume.lookup(&link, b"x"), Err(Error::NotDirectory));
    for name in [b"".as_slice(), b"a/b", b"/", b"../secret", b"a\0b"] {
        assert_eq!(volume.lookup(&root, name), Err(Error::Invalid), "{name:?}");
    }
    assert_eq!(volume.lookup(&root, &[b'n'; 256]), Err(Error::NameTooLong));
    for name in [b".".as_slice(), b".."] {
        assert_eq!(volume.mkdir(&sub, name, &SetAttr::default(), owner()).map(drop), Err(Error::Exists));
        assert_eq!(volume.rmdir(&sub, name), Err(Error::Invalid));
    }
    // The host moves a directory out while a client holds it: no way up from there.
    std::fs::rename(scratch.dir().join("sub"), scratch.base.path().join("moved")).unwrap();
    assert_eq!(volume.lookup(&sub, b".."), Err(Error::Stale));
}

#[test]
fn set_attr_obeys_its_guard() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let node = make_file(&volume, &volume.root(), "a", b"0123456789");
    let now = volume.attr(&node).unwrap();
    let cut = SetAttr { size: Some(4), ..SetAttr::default() };
    let wrong = Time { sec: now.ctime.sec - 1, nsec: now.ctime.nsec };
    assert_eq!(volume.set_attr(&node, &cut, Some(wrong)), Err(Error::NotSync));
    assert_eq!(volume.attr(&node).unwrap().size, 10);
    let times = SetAttr {
        mtime: SetTime::Client(Time { sec: 1_000_000, nsec: 123_456_789 }),
        atime: SetTime::Client(Time { sec: 2_000_000, nsec: 1 }),
        mode: Some(0o640),
        ..cut
    };
    let after = volume.set_attr(&node, &times, Some(now.ctime)).unwrap();
    assert_eq!((after.size, after.mode), (4, 0o640));
    // An ext4 with small inodes keeps whole seconds.
    assert!([0, 123_456_789].contains(&after.mtime.nsec));
    assert_eq!((after.mtime.sec, after.atime.sec), (1_000_000, 2_000_000));
    let root = volume.root();
    assert_eq!(volume.set_attr(&root, &cut, None), Err(Error::IsDirectory));
    let huge = SetAttr { size: Some(u64::MAX), ..SetAttr::default() };
    assert_eq!(volume.set_attr(&node, &huge, None), Err(Error::TooBig));
}

#[test]
fn pipes_and_sockets_are_made_and_never_opened() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    let set = SetAttr { mode: Some(0o622), ..SetAttr::default() };
    for (name, kind, of) in [("p", NodeKind::Fifo, Kind::Fifo), ("s", NodeKind::Socket, Kind::Socket)] {
        let (node, attr) = volume.mknod(&root, name.as_bytes(), kind, (0, 0), &set, owner()).unwrap();
        assert_eq!((attr.kind, attr.mode), (of, 0o622));
        // A read of a pipe would wait for ever.
        assert_eq!(volume.read(&node, 0, &mut [0; 1]), Err(Error::Invalid));
        assert_eq!(volume.write(&node, 0, b"x", Stability::Unstable), Err(Error::Invalid));
        volume.set_attr(&node, &SetAttr { mode: Some(0o600), ..SetAttr::default() }, None).unwrap();
        assert_eq!(volume.attr(&node).unwrap().mode, 0o600);
        volume.remove(&root, name.as_bytes()).unwrap();
    }
}

#[test]
fn directory_is_never_found_before_it_has_its_owner_and_mode() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    let set = SetAttr { mode: Some(0o750), ..SetAttr::default() };
    let names: Vec<Vec<u8>> = (0..300).map(|number| format!("d{number}").into_bytes()).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| names.iter().for_each(|name| drop(volume.mkdir(&root, name, &set, owner()).unwrap())));
        for name in &names {
            let attr = loop {
                match volume.lookup(&root, name) {
                    Ok((_, attr)) => break attr,
                    Err(error) => assert_eq!(error, Error::NoEntry),
                }
            };
            assert_eq!((attr.uid, attr.mode), (owner().uid, 0o750));
        }
    });
}
