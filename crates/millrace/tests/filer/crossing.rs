//! File systems that are mounted inside a volume with `crossmnt`. Clients see each as a separate
//! file system, with the rules of the volume.

use crate::support::configured::{Configured, serve, write};
use crate::support::mounted::Mounted;
use crate::support::wire::{Wire, place};
use crate::support::{Scratch, find_program, millrace, succeed, text};
use nfs_proto::nfs3::{
    CommitArgs, CommitResult, CookieVerifier, EntryPlus, Fattr, FileHandle, FsStatResult, LinkArgs, LinkResult, NfsStatus,
    ObjectArgs, Procedure, ReadDirPlusArgs, ReadDirPlusResult, RenameArgs, RenameResult, StableHow, WriteVerifier,
};
use std::path::PathBuf;
use std::process::Command;

const VOLUME: &str = "[[volume]]\nname = \"open\"\ndir = \"DIR/open\"\nclients = [\"*\"]\nsquash = \"none\"\ncrossmnt = true\n";

fn image(scratch: &Scratch) -> PathBuf {
    let image = scratch.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    succeed(Command::new("mkfs.ext4").arg("-q").arg(&image));
    image
}

fn look_up(wire: &mut Wire, dir: FileHandle, name: &str) -> (FileHandle, Fattr) {
    let found = wire.lookup(dir, name).unwrap_or_else(|error| panic!("{name}: {:?}", error.status));
    (found.object, found.attributes.unwrap())
}

fn total_bytes(wire: &mut Wire, object: FileHandle) -> u64 {
    wire.nfs(Procedure::FsStat, &ObjectArgs { object }).results::<FsStatResult>().unwrap().total_bytes
}

fn commit(wire: &mut Wire, file: FileHandle) -> WriteVerifier {
    let args = CommitArgs { file, offset: 0, count: 0 };
    wire.nfs(Procedure::Commit, &args).results::<CommitResult>().unwrap().verifier
}

#[test]
fn file_systems_inside_a_volume_with_crossmnt_are_separate_from_it_and_from_each_other() {
    let scratch = Scratch::new("crossmnt");
    scratch.folder("open");
    let open = scratch.path().join("open");
    let mut mounted = Vec::new();
    for (dir, content) in [("", ""), ("one", "one"), ("t w o", "t w o"), ("one/deeper", "one/deeper")] {
        if !dir.is_empty() {
            let Some(file_system) = Mounted::tmpfs(open.join(dir), 8) else { return };
            mounted.push(file_system);
        }
        std::fs::write(open.join(dir).join("file"), content).unwrap();
    }
    let filer = Configured::start(&scratch, VOLUME);
    let mut wire = Wire::connect(filer.port(0));
    let root = wire.mount("/open").unwrap();
    let (one, one_attr) = look_up(&mut wire, root, "one");
    let (deeper, deeper_attr) = look_up(&mut wire, one, "deeper");
    let (two, two_attr) = look_up(&mut wire, root, "t w o");
    let root_attr = wire.getattr(root).unwrap().attributes;
    let all = [root_attr, one_attr, deeper_attr, two_attr];
    for (nth, attr) in all.iter().enumerate() {
        assert!(all[..nth].iter().all(|other| other.fsid != attr.fsid), "{all:?}");
    }
    let files = [root, one, deeper, two].map(|dir| look_up(&mut wire, dir, "file"));
    for ((file, attr), (dir_attr, size)) in files.iter().zip(all.iter().zip([0, 3, 10, 5])) {
        assert_eq!((attr.fsid, attr.size), (dir_attr.fsid, size));
        assert_eq!(wire.getattr(*file).unwrap().attributes.fileid, attr.fileid);
    }
    // Two files with the same number on two file systems are different files.
    assert_eq!(files[1].1.fileid, files[3].1.fileid);
    assert_ne!(files[1].0, files[3].0);
    assert_eq!([one, two].map(|dir| total_bytes(&mut wire, dir)), [8 << 20; 2]);
    assert!(total_bytes(&mut wire, root) != 8 << 20);
    // The parent of a mounted root is in the outer file system.
    for (dir, above) in [(one, root), (deeper, one), (two, root), (root, root)] {
        assert_eq!(look_up(&mut wire, dir, "..").0, above);
    }
    assert_eq!(wire.mount("/open/one/deeper"), Ok(deeper));
    // A listing has the attributes of the mounted roots.
    let listed = entries(&mut wire, root);
    let entry = |name: &str| listed.iter().find(|(of, ..)| of == name).unwrap().clone();
    assert_eq!((entry("one").1, entry("t w o").1), (Some((one, one_attr.fsid)), Some((two, two_attr.fsid))));
    // RENAME and LINK do not cross file systems.
    let args = RenameArgs { from: place(one, "file"), to: place(two, "moved") };
    assert_eq!(wire.nfs(Procedure::Rename, &args).results::<RenameResult>().unwrap_err().status, NfsStatus::XDev);
    let args = LinkArgs { file: files[0].0, link: place(one, "link") };
    assert_eq!(wire.nfs(Procedure::Link, &args).results::<LinkResult>().unwrap_err().status, NfsStatus::XDev);
}

/// The names in a directory, with the handle and the file system of each.
fn entries(wire: &mut Wire, dir: FileHandle) -> Vec<(String, Option<(FileHandle, u64)>)> {
    let args = ReadDirPlusArgs { dir, cookie: 0, cookie_verifier: CookieVerifier::default(), dir_count: 4096, max_count: 16384 };
    let reply = wire.nfs(Procedure::ReadDirPlus, &args);
    let listed = reply.results::<ReadDirPlusResult<'_>>().unwrap();
    let entry = |entry: EntryPlus<'_>| {
        let name = String::from_utf8_lossy(entry.name.0).into_owned();
        (name, entry.handle.zip(entry.attributes.map(|attr| attr.fsid)))
    };
    listed.entries.iter().map(entry).collect()
}

#[test]
fn after_a_remount_a_file_system_inside_has_the_same_handles_and_another_verifier_and_another_file_system_has_other_handles() {
    let scratch = Scratch::new("crossmnt-remount");
    scratch.folder("open");
    let at = scratch.path().join("open/inside");
    let image = image(&scratch);
    let Some(mounted) = Mounted::image(&image, at.clone()) else { return };
    let mut filer = Configured::start(&scratch, VOLUME);
    let mut wire = Wire::connect(filer.port(0));
    let root = wire.mount("/open").unwrap();
    let (inside, attr) = look_up(&mut wire, root, "inside");
    let file = wire.create(inside, "file");
    let outer = wire.create(root, "outer");
    let [before, of_outer] = [file, outer].map(|file| wire.write(file, 0, b"data", StableHow::Unstable).verifier);
    assert_eq!(before, of_outer, "a client has one verifier for its mount");
    assert_eq!([file, outer].map(|file| commit(&mut wire, file)), [before; 2]);
    let restart = |filer: &mut Configured| {
        filer.signal("KILL");
        filer.ended();
    };
    restart(&mut filer);
    filer = Configured::start(&scratch, VOLUME);
    wire = Wire::connect(filer.port(0));
    assert_eq!(wire.getattr(file).unwrap().attributes.fsid, attr.fsid);
    assert_eq!([file, outer].map(|file| commit(&mut wire, file)), [before; 2], "the page cache is still there");
    restart(&mut filer);
    mounted.end();
    let mounted = Mounted::image(&image, at.clone()).unwrap();
    filer = Configured::start(&scratch, VOLUME);
    wire = Wire::connect(filer.port(0));
    assert_eq!(look_up(&mut wire, root, "inside").0, inside);
    assert_eq!(wire.getattr(file).unwrap().attributes.fsid, attr.fsid);
    let after = commit(&mut wire, file);
    assert_ne!(after, before, "the page cache ended with the mount");
    assert_eq!(commit(&mut wire, outer), after);
    restart(&mut filer);
    mounted.end();
    // The new file system has the same type and size, so that its first objects have the same numbers.
    succeed(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
    let _mounted = Mounted::image(&image, at).unwrap();
    filer = Configured::start(&scratch, VOLUME);
    wire = Wire::connect(filer.port(0));
    for handle in [inside, file] {
        assert_eq!(wire.getattr(handle).unwrap_err().status, NfsStatus::BadHandle);
    }
    let (other, other_attr) = look_up(&mut wire, root, "inside");
    assert!(other != inside && other_attr.fsid != attr.fsid && other_attr.fileid == attr.fileid);
    restart(&mut filer);
}

#[test]
fn a_reload_serves_exactly_the_file_systems_that_are_mounted_then() {
    let scratch = Scratch::new("crossmnt-reload");
    scratch.folder("open");
    std::fs::create_dir(scratch.path().join("open/inside")).unwrap();
    let at = scratch.path().join("open/inside");
    let filer = Configured::spawn(write(&scratch, VOLUME), serve(&scratch.path().join("filer.toml")));
    let mut wire = Wire::connect(filer.port(0));
    let root = wire.mount("/open").unwrap();
    let (below, _) = look_up(&mut wire, root, "inside");
    let Some(first) = Mounted::tmpfs(at.clone(), 8) else { return };
    assert_eq!(wire.lookup(root, "inside").unwrap_err().status, NfsStatus::XDev, "refused until the reload");
    filer.order(&["reload"]);
    let (inside, _) = look_up(&mut wire, root, "inside");
    assert_ne!(inside, below);
    let file = wire.create(inside, "file");
    filer.edit(|text| text + "cache = \"dropbehind\"\n"); // effective from the next start on
    filer.order(&["reload"]);
    assert!(wire.getattr(file).is_ok());
    drop(first); // lazily, because the filer has it open
    let second = Mounted::tmpfs(at, 8).unwrap();
    filer.order(&["reload"]);
    assert_ne!(look_up(&mut wire, root, "inside").0, inside);
    for handle in [inside, file] {
        assert_eq!(wire.getattr(handle).unwrap_err().status, NfsStatus::BadHandle);
    }
    drop(second);
    filer.order(&["reload"]);
    for handle in [inside, file] {
        assert_eq!(wire.getattr(handle).unwrap_err().status, NfsStatus::BadHandle);
    }
    assert_ne!(below, inside);
}

/// Removes the state of all file systems that were served inside the volume.
fn forget(scratch: &Scratch) {
    for state in std::fs::read_dir(scratch.path().join("state/open/inside")).unwrap() {
        let _ = std::fs::remove_file(state.unwrap().path().join("at"));
    }
}

#[test]
fn a_file_system_that_is_not_mounted_any_more_is_not_replaced_by_the_directory_below_it() {
    let scratch = Scratch::new("crossmnt-gone");
    scratch.folder("open");
    let at = scratch.path().join("open/dir/inside");
    let Some(mounted) = Mounted::tmpfs(at.clone(), 8) else { return };
    let start = || {
        let (file, log) = (write(&scratch, VOLUME), scratch.path().join("log"));
        let mut command = serve(&file);
        command.stderr(std::fs::File::create(log).unwrap());
        Configured::spawn(file, command)
    };
    let warned = || std::fs::read_to_string(scratch.path().join("log")).unwrap().contains("is not mounted");
    let filer = start();
    let mut wire = Wire::connect(filer.port(0));
    let root = wire.mount("/open").unwrap();
    let (dir, _) = look_up(&mut wire, root, "dir");
    let (inside, _) = look_up(&mut wire, dir, "inside");
    assert!(!warned());
    drop(mounted); // lazily, because the filer has it open
    let refused = |wire: &mut Wire| assert_eq!(wire.lookup(dir, "inside").unwrap_err().status, NfsStatus::XDev);
    refused(&mut wire);
    assert!(warned());
    filer.order(&["reload"]);
    refused(&mut wire);
    assert_eq!(wire.mount("/open/dir/inside"), Err(nfs_proto::mount3::MountStatus::NotSupp));
    assert_eq!(entries(&mut wire, dir).into_iter().find(|(name, _)| name == "inside").unwrap().1, None);
    drop(filer);
    let filer = start();
    assert!(warned());
    wire = Wire::connect(filer.port(0));
    refused(&mut wire);
    // The filer serves a new file system there.
    let mounted = Mounted::tmpfs(at, 8).unwrap();
    filer.order(&["reload"]);
    assert_ne!(look_up(&mut wire, dir, "inside").0, inside);
    drop(mounted);
    filer.order(&["reload"]);
    refused(&mut wire);
    // The administrator declares that both are gone for good.
    forget(&scratch);
    filer.order(&["reload"]);
    let (below, _) = look_up(&mut wire, dir, "inside");
    wire.create(below, "file");
}

#[test]
fn a_directory_is_served_once_whatever_bind_mount_leads_to_it() {
    let scratch = Scratch::new("crossmnt-same");
    let [open, other, _] = ["open", "other", "other/below"].map(|dir| scratch.folder(dir));
    let Some(_inside) = Mounted::bind(&other, open.join("inside")) else { return };
    let second = VOLUME.replace("open", "other");
    let filer = Configured::start(&scratch, &format!("{VOLUME}{second}"));
    let listed = || filer.order(&["list"]);
    assert!(!listed().contains("open:inside"), "{}", listed());
    // The filer already serves the volume when the mount appears.
    let _late = Mounted::bind(&other, open.join("late")).unwrap();
    filer.order(&["reload"]);
    assert!(!listed().contains("open:late"), "{}", listed());
    // A file system that is mounted inside two volumes.
    let _one = Mounted::tmpfs(open.join("one"), 8).unwrap();
    let _again = Mounted::bind(&open.join("one"), other.join("again")).unwrap();
    filer.order(&["reload"]);
    assert!(listed().contains("open:one") && !listed().contains("other:again"), "{}", listed());
    // `millrace volume create` with the directory itself, with one below it, and with one above it.
    for (name, dir) in [("equal", other.clone()), ("below", other.join("below")), ("above", scratch.path().to_path_buf())] {
        let bound = scratch.path().with_extension(name);
        let _bound = Mounted::bind(&dir, bound.clone()).unwrap();
        let created = filer.volume(&["create", name, "--dir", bound.to_str().unwrap(), "--clients", "*"]);
        assert!(!created.status.success() && text(&created).contains("bind mount"), "{name}: {}", text(&created));
        drop(_bound);
        std::fs::remove_dir(bound).unwrap();
    }
    drop(filer);
    // Two volumes of one configuration.
    let file = write(&scratch, &format!("{VOLUME}{}", VOLUME.replace("open", "late").replace("DIR/late", "DIR/bound")));
    let _bound = Mounted::bind(&open, scratch.path().join("bound")).unwrap();
    let refused = serve(&file).output().unwrap();
    assert!(!refused.status.success() && text(&refused).contains("bind mount"), "{}", text(&refused));
}

#[test]
fn a_second_mount_of_a_served_file_system_leads_to_it_and_a_mount_of_the_volumes_own_is_refused() {
    let scratch = Scratch::new("crossmnt-binds");
    scratch.folder("open");
    let open = scratch.path().join("open");
    let Some(_one) = Mounted::tmpfs(open.join("one"), 8) else { return };
    let below = Mounted::bind(&open.join("one"), open.join("again")).unwrap();
    let inner = Mounted::bind(&open.join("one"), open.join("again/loop")).unwrap();
    let _own = Mounted::bind(&open, open.join("own")).unwrap();
    // A directory of the same file system that is not in the volume.
    let _bound = Mounted::bind(&scratch.folder("elsewhere"), open.join("bound")).unwrap();
    let filer = Configured::start(&scratch, VOLUME);
    let mut wire = Wire::connect(filer.port(0));
    let root = wire.mount("/open").unwrap();
    // The mount whose name comes first belongs to the volume.
    let (again, _) = look_up(&mut wire, root, "again");
    let (one, _) = look_up(&mut wire, root, "one");
    assert_eq!(one, again);
    for (dir, name) in [(one, "loop"), (root, "own")] {
        assert_eq!(wire.lookup(dir, name).unwrap_err().status, NfsStatus::XDev, "{name}");
    }
    let (bound, bound_attr) = look_up(&mut wire, root, "bound");
    assert_ne!(bound_attr.fsid, wire.getattr(root).unwrap().attributes.fsid);
    assert_eq!(look_up(&mut wire, bound, "..").0, root);
    drop(filer);
    inner.end();
    below.end();
    let filer = Configured::start(&scratch, VOLUME);
    let mut wire = Wire::connect(filer.port(0));
    assert_eq!(look_up(&mut wire, root, "one").0, one, "the handle depends on the file system, not on its place");
}

#[test]
fn subvolumes_and_snapshots_inside_a_volume_are_separate_file_systems() {
    if find_program("mkfs.btrfs").is_none() {
        return sim::skip("btrfs-progs are not installed");
    }
    let scratch = Scratch::new("crossmnt-subvolumes");
    let image = scratch.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
    succeed(Command::new("mkfs.btrfs").arg("-q").arg(&image));
    let Some(_mounted) = Mounted::image(&image, scratch.path().join("disk")) else { return };
    let open = scratch.path().join("disk/a/open");
    std::fs::create_dir_all(open.join("dir")).unwrap();
    let btrfs = |arguments: &[&str], paths: &[&str]| {
        let paths = paths.iter().map(|path| open.join(path));
        succeed(Command::new("btrfs").arg("subvolume").args(arguments).args(paths));
    };
    btrfs(&["create"], &["dir/sub"]);
    btrfs(&["create"], &["dir/sub/deeper"]);
    btrfs(&["create"], &["../outside"]);
    std::fs::write(open.join("dir/sub/file"), "before").unwrap();
    btrfs(&["snapshot", "-r"], &["dir/sub", "snap"]);
    std::fs::write(open.join("dir/sub/file"), "changed").unwrap();
    let volume = VOLUME.replace("DIR/open", "DIR/disk/a/open") + "quota = \"1GiB\"\n";
    let filer = Configured::start(&scratch, &volume);
    let shown: serde_json::Value = serde_json::from_str(&filer.order(&["show", "open", "--json"])).unwrap();
    assert!(shown.to_string().contains("\"used_bytes\":0,"), "files of subvolumes are not counted: {shown}");
    let mut wire = Wire::connect(filer.port(0));
    let root = wire.mount("/open").unwrap();
    let (dir, dir_attr) = look_up(&mut wire, root, "dir");
    let (sub, sub_attr) = look_up(&mut wire, dir, "sub");
    let (deeper, deeper_attr) = look_up(&mut wire, sub, "deeper");
    let (snap, snap_attr) = look_up(&mut wire, root, "snap");
    let fsids = [dir_attr, sub_attr, deeper_attr, snap_attr].map(|attr| attr.fsid);
    assert!((1..4).all(|nth| !fsids[..nth].contains(&fsids[nth])), "{fsids:?}");
    let ((file, file_attr), (old, old_attr)) = (look_up(&mut wire, sub, "file"), look_up(&mut wire, snap, "file"));
    assert_eq!((file_attr.fileid, file_attr.size, old_attr.size), (old_attr.fileid, 7, 6));
    assert_ne!(file, old);
    for (below, above) in [(sub, dir), (deeper, sub), (snap, root)] {
        assert_eq!(look_up(&mut wire, below, "..").0, above);
    }
    let refused = wire.try_write(old, 0, b"new", StableHow::FileSync).unwrap_err().status;
    assert!(matches!(refused, NfsStatus::RoFs | NfsStatus::Acces), "{refused:?}");
    wire.write(file, 0, b"new", StableHow::FileSync);
    let url = filer.ready["nfs"].as_str().unwrap().replacen("/open", "/open/dir/sub", 1);
    let listed = millrace().args(["nfs", "ls", &url]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "deeper\nfile\n", "{}", text(&listed));
}
