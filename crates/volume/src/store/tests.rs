//! A volume with objects in two trees: its own, and another that stands for a snapshot.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::directory::Directory;
use super::{SnapshotId, Store};
use crate::error::Error;
use crate::handle::Named;
use crate::node::{Node, NodeInner};
use crate::options::Options;
use crate::types::{Kind, Stability};
use crate::volume::{Config, Volume};

const SNAPSHOT: SnapshotId = SnapshotId(7);

fn volume(dir: &Path, state_dir: &Path) -> Volume {
    let (dir, state_dir) = (dir.to_path_buf(), state_dir.to_path_buf());
    Volume::open(Config { dir, state_dir, loss: None, options: Options::default() }).unwrap()
}

/// The root of the tree at `path`, as an object of the volume.
fn root_of_snapshot(volume: &Volume, path: &Path) -> Node {
    let store: Arc<dyn Store> = Arc::new(Directory::open(path, SNAPSHOT).unwrap().unwrap());
    let root = Named { identity: *store.root_identity(), kind: Kind::Directory, fileid: store.root_stat().ino, parent_hint: 0 };
    volume.0.nodes.intern(Arc::new(NodeInner::new(store, root)))
}

fn content(volume: &Volume, node: &Node) -> String {
    let mut bytes = [0; 16];
    let (read, _) = volume.read(node, 0, &mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[test]
fn a_volume_serves_objects_of_another_tree_beside_those_of_its_own() {
    let base = tempfile::tempdir().unwrap();
    let (dir, copy) = (base.path().join("vol"), base.path().join("copy"));
    for (dir, text) in [(&dir, "now"), (&copy, "before")] {
        std::fs::create_dir_all(dir.join("below")).unwrap();
        std::fs::write(dir.join("below/file"), text).unwrap();
    }
    let volume = volume(&dir, &base.path().join("state"));
    let root = root_of_snapshot(&volume, &copy);
    let [old, new] = [&root, &volume.root()].map(|root| {
        let below = volume.lookup(root, b"below").unwrap().0;
        assert_eq!(volume.lookup(&below, b"..").unwrap().0, *root);
        assert_eq!(volume.lookup(root, b"..").unwrap().0, *root, "names never lead out");
        volume.lookup(&below, b"file").unwrap().0
    });
    assert_eq!((content(&volume, &old), content(&volume, &new)), ("before".into(), "now".into()));
    assert_eq!((old.0.store.snapshot(), new.0.store.snapshot()), (SNAPSHOT, SnapshotId::LIVE));
    let version = |node: &Node| volume.handle(node).as_bytes()[0];
    assert_eq!((version(&old), version(&new)), (3, 2));
    assert_eq!(volume.resolve(volume.handle(&new).as_bytes()), Ok(new));
}

/// Runs a program. Returns its errors as text.
fn run(program: &str, arguments: &[&Path]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A btrfs file system on a loop device, mounted at `mnt`.
struct Btrfs<'a>(&'a Path);

impl<'a> Btrfs<'a> {
    fn mount(at: &'a Path, image: &Path) -> Result<Self, String> {
        std::fs::create_dir(at).map_err(|error| error.to_string())?;
        std::fs::File::create(image).and_then(|file| file.set_len(256 << 20)).map_err(|error| error.to_string())?;
        run("mkfs.btrfs", &["-q".as_ref(), image])?;
        run("mount", &["-o".as_ref(), "loop".as_ref(), image, at]).map(|()| Self(at))
    }
}

impl Drop for Btrfs<'_> {
    fn drop(&mut self) {
        // Lazily, because a failed test may still have files of it open.
        let _ = run("umount", &["-l".as_ref(), self.0]);
    }
}

#[test]
fn a_snapshot_of_a_subvolume_is_a_tree_whose_handles_do_not_contain_its_number() {
    let base = tempfile::tempdir().unwrap();
    let (mnt, image) = (base.path().join("mnt"), base.path().join("image"));
    let _mounted = match Btrfs::mount(&mnt, &image) {
        Ok(mounted) => mounted,
        Err(reason) => return sim::skip_unsupported(&format!("no btrfs can be mounted here: {reason}")),
    };
    let (dir, copy) = (mnt.join("vol"), mnt.join("copy"));
    run("btrfs", &["subvolume".as_ref(), "create".as_ref(), &dir]).unwrap();
    std::fs::write(dir.join("file"), "before").unwrap();
    run("btrfs", &["subvolume".as_ref(), "snapshot".as_ref(), "-r".as_ref(), &dir, &copy]).unwrap();
    std::fs::write(dir.join("file"), "now").unwrap();
    let volume = volume(&dir, &base.path().join("state"));
    let root = root_of_snapshot(&volume, &copy);
    let [old, new] = [&root, &volume.root()].map(|root| volume.lookup(root, b"file").unwrap().0);
    assert_eq!((content(&volume, &old), content(&volume, &new)), ("before".into(), "now".into()));
    assert_eq!((old.fileid(), old == new), (new.fileid(), false), "one inode number, two objects");
    assert_eq!(volume.write(&old, 0, b"changed", Stability::Unstable).map(drop), Err(Error::ReadOnly));

    let (identity, store) = (old.0.identity, &old.0.store);
    assert_ne!(identity.subvolume(), new.0.identity.subvolume());
    let in_handle = store.in_handle(&identity);
    assert_eq!(in_handle, identity.without_subvolume());
    assert_eq!(in_handle, new.0.identity.without_subvolume());
    assert_eq!((in_handle.len, store.of_handle(&in_handle)), (12, identity));
    let (snapshot, named) = volume.0.handle_key.decode(volume.handle(&old).as_bytes()).unwrap();
    assert_eq!((snapshot, named.identity), (SNAPSHOT, in_handle));
    // Clients of earlier versions hold the live handle, with the number.
    let (snapshot, named) = volume.0.handle_key.decode(volume.handle(&new).as_bytes()).unwrap();
    assert_eq!((snapshot, named.identity), (SnapshotId::LIVE, new.0.identity));
}
