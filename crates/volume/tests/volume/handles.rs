//! A handle names one object for life, and nobody can make one up.

use crate::common::{Scratch, content, make_dir, make_file, retry_busy};
use volume::{Error, Volume};

#[test]
fn handle_survives_reopen_of_the_volume() {
    let scratch = Scratch::new();
    let (file, dir, root, verifier) = {
        let volume = scratch.open();
        let sub = make_dir(&volume, &volume.root(), "sub");
        let node = make_file(&volume, &sub, "a", b"hello");
        (volume.handle(&node), volume.handle(&sub), volume.handle(&volume.root()), volume.verifier())
    };
    assert!(file.as_bytes().len() <= 56);
    let volume = scratch.open();
    let node = retry_busy(|| volume.resolve(file.as_bytes())).unwrap();
    assert_eq!(content(&volume, &node).unwrap(), b"hello");
    assert_eq!(volume.handle(&node), file, "one object, one handle");
    assert_eq!(retry_busy(|| volume.resolve(dir.as_bytes())).map(|n| n.kind()), Ok(volume::Kind::Directory));
    assert_eq!(volume.resolve(root.as_bytes()), Ok(volume.root()));
    assert_eq!(volume.verifier(), verifier, "nothing was lost, the verifier stays");
}

#[test]
fn handle_survives_rename_and_reopen() {
    let scratch = Scratch::new();
    let handle = {
        let volume = scratch.open();
        let (from, to) = (make_dir(&volume, &volume.root(), "from"), make_dir(&volume, &volume.root(), "to"));
        let node = make_file(&volume, &from, "a", b"moved");
        let handle = volume.handle(&node);
        volume.rename(&from, b"a", &to, b"b").unwrap();
        assert_eq!(content(&volume, &retry_busy(|| volume.resolve(handle.as_bytes())).unwrap()).unwrap(), b"moved");
        let (found, _) = volume.lookup(&to, b"b").unwrap();
        assert_eq!(volume.handle(&found), handle);
        handle
    };
    let volume = scratch.open();
    assert_eq!(content(&volume, &retry_busy(|| volume.resolve(handle.as_bytes())).unwrap()).unwrap(), b"moved");
}

#[test]
fn handle_survives_removal_of_the_first_of_two_links() {
    let scratch = Scratch::new();
    let handle = {
        let volume = scratch.open();
        let root = volume.root();
        let node = make_file(&volume, &root, "first", b"linked");
        assert_eq!(volume.link(&node, &root, b"second").unwrap().0.nlink, 2);
        volume.remove(&root, b"first").unwrap();
        let handle = volume.handle(&node);
        assert_eq!(content(&volume, &retry_busy(|| volume.resolve(handle.as_bytes())).unwrap()).unwrap(), b"linked");
        handle
    };
    let volume = scratch.open();
    let node = retry_busy(|| volume.resolve(handle.as_bytes())).unwrap();
    assert_eq!(content(&volume, &node).unwrap(), b"linked");
    assert_eq!(volume.attr(&node).unwrap().nlink, 1);
}

#[test]
fn forged_handles_are_refused() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let handle = volume.handle(&make_file(&volume, &volume.root(), "a", b"x"));
    for bit in 0..handle.as_bytes().len() * 8 {
        let mut forged = handle.as_bytes().to_vec();
        forged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(volume.resolve(&forged), Err(Error::BadHandle), "bit {bit}");
    }
    assert_eq!(volume.resolve(&[]), Err(Error::BadHandle));
    let other = Scratch::new();
    assert_eq!(other.open().resolve(handle.as_bytes()), Err(Error::BadHandle), "handles of another volume");
}

#[test]
fn recycled_inode_is_stale() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    let node = make_file(&volume, &root, "old", b"old");
    let (handle, fileid) = (volume.handle(&node), node.fileid());
    volume.remove(&root, b"old").unwrap();
    drop(node);
    // ext4 gives the number out again at once; other hosts may not, then a removed object is tested.
    let mut made = Vec::new();
    let mut recycled = false;
    for n in 0..50 {
        let new = make_file(&volume, &root, &format!("new{n}"), b"someone else's data");
        recycled |= new.fileid() == fileid;
        made.push(new);
        if recycled {
            break;
        }
    }
    println!("inode number given out again: {recycled}");
    match retry_busy(|| volume.resolve(handle.as_bytes())) {
        Err(error) => assert_eq!(error, Error::Stale),
        Ok(node) => assert_eq!(content(&volume, &node), Err(Error::Stale)),
    }
    drop(volume);
    let volume = scratch.open();
    assert_eq!(retry_busy(|| volume.resolve(handle.as_bytes())), Err(Error::Stale));
}

#[test]
fn removed_objects_are_stale_for_every_call() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    let file = make_file(&volume, &root, "f", b"data");
    let dir = make_dir(&volume, &root, "d");
    volume.remove(&root, b"f").unwrap();
    volume.rmdir(&root, b"d").unwrap();
    assert_eq!(retry_busy(|| volume.attr(&file)), Err(Error::Stale));
    assert_eq!(retry_busy(|| volume.read(&file, 0, &mut [0; 4])), Err(Error::Stale));
    assert_eq!(retry_busy(|| volume.write(&file, 0, b"x", volume::Stability::Unstable)), Err(Error::Stale));
    assert_eq!(retry_busy(|| volume.commit(&file)), Err(Error::Stale));
    assert_eq!(retry_busy(|| volume.attr(&dir)), Err(Error::Stale));
    assert_eq!(retry_busy(|| volume.lookup(&dir, b"x")), Err(Error::Stale));
    assert_eq!(volume.read_dir(&dir, 0, &mut |_| true), Err(Error::Stale));
}

#[test]
fn changes_on_the_host_give_the_right_object_or_stale() {
    let scratch = Scratch::new();
    let volume = scratch.open();
    let root = volume.root();
    let a = make_file(&volume, &root, "a", b"content of a");
    let b = make_file(&volume, &root, "b", b"content of b");
    let host = scratch.dir();
    // The names change places behind the volume's back.
    std::fs::rename(host.join("a"), host.join("x")).unwrap();
    std::fs::rename(host.join("b"), host.join("a")).unwrap();
    std::fs::rename(host.join("x"), host.join("b")).unwrap();
    assert_eq!(content(&volume, &a).unwrap(), b"content of a");
    assert_eq!(content(&volume, &b).unwrap(), b"content of b");
    assert_eq!(volume.lookup(&root, b"a").unwrap().0, b);
    // One goes, and a new file takes its name.
    std::fs::remove_file(host.join("b")).unwrap();
    std::fs::write(host.join("b"), b"a stranger").unwrap();
    assert_eq!(retry_busy(|| volume.attr(&a)), Err(Error::Stale));
    let (stranger, _) = volume.lookup(&root, b"b").unwrap();
    assert_eq!(content(&volume, &stranger).unwrap(), b"a stranger");
}

#[test]
fn state_directory_inside_the_volume_is_refused_and_not_made() {
    let scratch = Scratch::new();
    let mut config = scratch.config(None);
    config.state_dir = scratch.dir().join("deep/state");
    assert!(matches!(Volume::open(config), Err(volume::OpenError::StateInside { .. })));
    assert!(!scratch.dir().join("deep").exists());
}

#[test]
fn second_server_of_one_volume_is_refused() {
    let scratch = Scratch::new();
    let _volume = scratch.open();
    assert!(matches!(Volume::open(scratch.config(None)), Err(volume::OpenError::InUse { .. })));
}

#[test]
fn memory_stays_bounded_over_more_files_than_it_holds() {
    let scratch = Scratch::in_memory();
    let volume = scratch.open();
    let root = volume.root();
    // Made on the host: this is about finding, not about making them durable.
    let count = 70_000;
    for n in 0..count {
        std::fs::write(scratch.dir().join(format!("f{n}")), n.to_string()).unwrap();
    }
    let handles: Vec<_> =
        (0..count).map(|n| volume.handle(&volume.lookup(&root, format!("f{n}").as_bytes()).unwrap().0)).collect();
    for (n, handle) in handles.iter().enumerate() {
        let node = retry_busy(|| volume.resolve(handle.as_bytes())).unwrap();
        let mut bytes = [0; 8];
        let (got, eof) = volume.read(&node, 0, &mut bytes).unwrap();
        assert_eq!((&bytes[..got], eof), (n.to_string().as_bytes(), true));
    }
    let (nodes, descriptors) = volume.in_memory();
    assert!(nodes <= 65_536 && descriptors <= 32_768, "{nodes} nodes, {descriptors} descriptors");
}
