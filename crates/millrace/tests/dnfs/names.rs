//! Names: files that are unlinked or replaced while open, paths with links, and the errors of open(2).

use crate::mounted::{MAKE, Mounted, READ_WRITE, at, at_link, attach, open, report_ready, status, try_open};
use dnfs::mount::{Mount, OpenHow, Target, Walk};
use dnfs::{Error, FileKind, FsError, SetAttributes};

fn walk_status(mounted: &Mounted, path: &str) -> Option<FsError> {
    status(mounted.mount.walk(path.as_bytes(), true))
}

#[test]
fn file_unlinked_while_another_process_has_it_open_lives_until_the_last_close() {
    let mounted = Mounted::new("unlink", &[]);
    let mount = &mounted.mount;
    let file = open(mount, "temp", &MAKE);
    file.write(0, b"still here");
    mounted.worker("worker_unlinks", "temp").finish();
    assert_eq!(walk_status(&mounted, "temp"), None);
    assert!(at(mount, "temp").object.is_none());
    assert_eq!(file.read(0, 100), b"still here");
    assert_eq!(mount.attr(file.file).unwrap().nlink, 0);
    let listed = mount.read_dir(Target::Entry(&at(mount, ""))).unwrap();
    assert!(!listed.iter().any(|item| item.name.starts_with(b".nfs")), "{listed:?}");
    assert_eq!(mounted.host_names().len(), 1);
    file.write(100, b"and writable");
    file.sync().unwrap();
    drop(open(mount, "temp", &MAKE)); // the name is free again
    drop(file);
    mounted.await_host_names(&["temp"]);
    mount.unlink(&at(mount, "temp")).unwrap();
    mounted.await_host_names(&[]);
}

fn worker_unlinks(mount: &Mount, path: &str) {
    mount.unlink(&at(mount, path)).unwrap();
}

#[test]
fn unlinked_file_of_a_killed_process_is_swept() {
    let mounted = Mounted::new("sweep", &[]);
    let mut worker = mounted.worker("worker_holds_unlinked", "temp");
    worker.await_ready();
    mounted.mount.sweep();
    assert_eq!(mounted.host_names().len(), 1, "it is still open");
    worker.kill();
    mounted.await_host_names(&[]);
}

fn worker_holds_unlinked(mount: &Mount, path: &str) {
    let file = open(mount, path, &MAKE);
    mount.unlink(&at(mount, path)).unwrap();
    report_ready();
    drop(file);
}

#[test]
fn file_renamed_over_while_open_stays_readable_and_leaves_nothing() {
    let mounted = Mounted::new("over", &[]);
    let mount = &mounted.mount;
    let (old, new) = (open(mount, "target", &MAKE), open(mount, "source", &MAKE));
    old.write(0, b"old");
    new.write(0, b"new");
    mount.rename(&at(mount, "source"), &at(mount, "target")).unwrap();
    assert_eq!(old.read(0, 10), b"old");
    assert_eq!(open(mount, "target", &READ_WRITE).read(0, 10), b"new");
    assert_eq!(mount.attr(old.file).unwrap().nlink, 0);
    assert_eq!(mount.attr(new.file).unwrap().nlink, 1);
    drop((old, new));
    mounted.await_host_names(&["target"]);
    drop(open(mount, "third", &MAKE));
    mount.rename(&at(mount, "third"), &at(mount, "target")).unwrap();
    mounted.await_host_names(&["target"]);
    assert_eq!(open(mount, "target", &READ_WRITE).read(0, 10), b"");
}

#[test]
fn directory_with_only_unlinked_open_files_can_be_removed() {
    let mounted = Mounted::new("rmdir", &[]);
    let mount = &mounted.mount;
    mount.mkdir(&at(mount, "folder"), 0o700).unwrap();
    let file = open(mount, "folder/temp", &MAKE);
    file.write(0, b"kept");
    assert_eq!(status(mount.rmdir(&at(mount, "folder"))), Some(FsError::NotEmpty));
    mount.unlink(&at(mount, "folder/temp")).unwrap();
    mount.rmdir(&at(mount, "folder")).unwrap();
    assert_eq!(file.read(0, 10), b"kept");
    drop(file);
    mounted.await_host_names(&[]);
}

#[test]
fn directory_renamed_by_another_process_is_not_found_under_its_old_name() {
    let mounted = Mounted::new("rename", &[]);
    let mount = &mounted.mount;
    for folder in ["a", "b"] {
        mount.mkdir(&at(mount, folder), 0o700).unwrap();
        let file = open(mount, &format!("{folder}/file"), &MAKE);
        file.write(0, folder.as_bytes());
    }
    assert_eq!(open(mount, "a/file", &READ_WRITE).read(0, 10), b"a");
    mounted.worker("worker_swaps_directories", "").finish();
    assert_eq!(open(mount, "a/file", &READ_WRITE).read(0, 10), b"b");
    assert_eq!(open(mount, "b/file", &READ_WRITE).read(0, 10), b"a");
    let (by_name, file) = (at(mount, "a/file").object.unwrap().attr, open(mount, "a/file", &READ_WRITE));
    assert_eq!(mount.attr(file.file).unwrap(), by_name);
    assert_eq!(walk_status(&mounted, "c/file"), Some(FsError::NotFound));
}

fn worker_swaps_directories(mount: &Mount, _: &str) {
    for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
        mount.rename(&at(mount, from), &at(mount, to)).unwrap();
    }
}

#[test]
fn directory_of_ten_thousand_names_is_listed_whole() {
    let mounted = Mounted::new("listing", &[]);
    for number in 0..10_000 {
        std::fs::write(mounted.filer.export().join(format!("file-{number:05}")), "").unwrap();
    }
    let items = mounted.mount.read_dir(Target::Entry(&at(&mounted.mount, ""))).unwrap();
    let mut names: Vec<_> = items.iter().filter(|item| item.name[0] != b'.').collect();
    names.sort_by(|one, two| one.name.cmp(&two.name));
    assert_eq!(names.len(), 10_000);
    assert!(names.iter().enumerate().all(|(number, item)| item.name == format!("file-{number:05}").into_bytes()));
    assert!(names.iter().all(|item| item.kind == Some(FileKind::Regular)));
}

#[test]
fn paths_are_walked_as_the_kernel_does() {
    let mounted = Mounted::new("walk", &[]);
    let mount = &mounted.mount;
    mount.mkdir(&at(mount, "one"), 0o700).unwrap();
    mount.mkdir(&at(mount, "one/two"), 0o700).unwrap();
    drop(open(mount, "one/file", &MAKE));
    for (name, text) in
        [("rel", "one/two"), ("one/up", "../one/file"), ("out", "/elsewhere/x"), ("loop", "loop"), ("far", "../..")]
    {
        mount.symlink(&at_link(mount, name), text.as_bytes()).unwrap();
    }
    let path_of = |path: &str| String::from_utf8(at(mount, path).path).unwrap();
    assert_eq!(path_of("one//./two/../file"), "one/file");
    assert_eq!(path_of("rel/../up"), "one/file", "dots follow the link's target");
    assert_eq!(path_of("one/two/.."), "one");
    assert_eq!(path_of(""), "");
    assert_eq!(path_of("rel/"), "one/two");
    assert_eq!(at_link(mount, "rel").object.unwrap().attr.kind, FileKind::Symlink);
    assert_eq!(mount.readlink(&at_link(mount, "rel")).unwrap(), b"one/two");
    let leaves = |path: &str| match mount.walk(path.as_bytes(), true).unwrap() {
        Walk::Leaves(path) => String::from_utf8(path).unwrap(),
        Walk::At(entry) => panic!("{entry:?}"),
    };
    assert_eq!(leaves("out/y/z"), "/elsewhere/x/y/z");
    assert_eq!(leaves("one/../../etc/passwd"), "/etc/passwd");
    assert_eq!(leaves(".."), "/");
    assert_eq!(leaves("far"), "/..");
    assert!(matches!(mount.walk(b"loop", true), Err(Error::Fs(FsError::SymlinkLoop))));
    assert!(mount.walk(b"loop", false).is_ok());
    assert_eq!(walk_status(&mounted, "one/file/"), Some(FsError::NotDirectory));
    assert_eq!(walk_status(&mounted, "one/file/x"), Some(FsError::NotDirectory));
    assert_eq!(walk_status(&mounted, "none/x"), Some(FsError::NotFound));
    assert_eq!(walk_status(&mounted, &"n".repeat(256)), Some(FsError::NameTooLong));
    assert_eq!(walk_status(&mounted, &"n/".repeat(3000)), Some(FsError::NameTooLong));
    assert!(at(mount, "none").object.is_none());
}

#[test]
fn open_answers_as_open_2_does() {
    let mounted = Mounted::new("open", &[]);
    let mount = &mounted.mount;
    mount.mkdir(&at(mount, "folder"), 0o700).unwrap();
    let exclusive = OpenHow { exclusive: true, ..MAKE };
    let fails = |path: &str, how: &OpenHow| try_open(mount, path, how).err().and_then(|error| error.fs_error());
    assert_eq!(fails("new", &READ_WRITE), Some(FsError::NotFound));
    drop(open(mount, "new", &OpenHow { mode: 0o4, ..exclusive }));
    let attr = at(mount, "new").object.unwrap().attr;
    assert_eq!(attr.mode, 0o4);
    assert!(attr.mtime.seconds > 1_700_000_000, "the verifier is not left in the times");
    assert_eq!(fails("new", &exclusive), Some(FsError::Exists));
    assert_eq!(fails("folder", &READ_WRITE), Some(FsError::IsDirectory));
    assert_eq!(fails("new", &OpenHow { directory: true, ..READ_WRITE }), Some(FsError::NotDirectory));
    let file = open(mount, "data", &MAKE);
    file.write(0, b"content");
    let truncated = open(mount, "data", &OpenHow { truncate: true, ..READ_WRITE });
    assert_eq!(mount.size(file.file), 0);
    assert_eq!(truncated.read(0, 10), b"");
}

#[test]
fn rights_of_another_user_are_those_of_the_mode_even_for_the_owner() {
    let mounted = Mounted::new("rights", &[]);
    let mount = &mounted.mount;
    mount.set_attr(Target::Entry(&at(mount, "")), &SetAttributes { mode: Some(0o777), ..SetAttributes::default() }).unwrap();
    let other = attach(&format!("{}&uid=4711&gid=4711", mounted.filer.url));
    drop(open(&other, "mine", &OpenHow { mode: 0o400, ..MAKE }));
    assert_eq!(at(&other, "mine").object.unwrap().attr.uid, 4711);
    let read = OpenHow { read: true, ..OpenHow::default() };
    open(&other, "mine", &read);
    assert_eq!(try_open(&other, "mine", &READ_WRITE).err().and_then(|error| error.fs_error()), Some(FsError::AccessDenied));
    drop(open(mount, "roots", &MAKE));
    assert_eq!(try_open(&other, "roots", &read).err().and_then(|error| error.fs_error()), Some(FsError::AccessDenied));
}

workers!(worker_unlinks, worker_holds_unlinked, worker_swaps_directories);
