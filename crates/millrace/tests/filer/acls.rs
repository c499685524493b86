//! POSIX ACLs of the exported directory: the filer grants each user the same rights as the host.

use crate::support::Scratch;
use crate::support::filer::Filer;
use crate::support::mounted::Mounted;
use crate::support::wire::{Wire, place};
use nfs_proto::nfs3::{
    ACCESS_LOOKUP, ACCESS_MODIFY, ACCESS_READ, AccessArgs, AccessResult, CreateHow, CreateResult, FileHandle, MkDirArgs,
    NfsStatus, Procedure, ReadArgs, ReadResult, RenameArgs, RenameResult, SetAttr, StableHow,
};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const NOBODY: u32 = u32::MAX;

type Entry = (u16, u16, u32);

fn set_acl(path: &Path, kind: &str, entries: &[Entry]) {
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        value.extend([&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    rustix::fs::setxattr(path, format!("system.posix_acl_{kind}"), &value, rustix::fs::XattrFlags::empty()).unwrap();
}

fn acl(path: &Path, kind: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let bytes = rustix::fs::getxattr(path, format!("system.posix_acl_{kind}"), &mut value).ok()?;
    value.truncate(bytes);
    Some(value)
}

/// Whether the host grants a user a right, according to test(1) with `-r` or `-w`.
fn host_allows(wire: &Wire, right: &str, path: &Path) -> bool {
    let groups: Vec<String> = wire.groups.iter().map(u32::to_string).collect();
    let groups = if groups.is_empty() { "--clear-groups".into() } else { format!("--groups={}", groups.join(",")) };
    let (uid, gid) = (format!("--reuid={}", wire.uid), format!("--regid={}", wire.gid));
    Command::new("setpriv").args([&uid, &gid, &groups, "test", right]).arg(path).status().unwrap().success()
}

fn access(wire: &mut Wire, object: FileHandle) -> u32 {
    let all = ACCESS_READ | ACCESS_MODIFY | ACCESS_LOOKUP;
    wire.nfs(Procedure::Access, &AccessArgs { object, access: all }).results::<AccessResult>().unwrap().access
}

fn can_read(wire: &mut Wire, file: FileHandle) -> bool {
    wire.nfs(Procedure::Read, &ReadArgs { file, offset: 0, count: 1 }).results::<ReadResult<'_>>().is_ok()
}

/// Connections of the owner, of members of the owning group, of a named group and of both, of a
/// named user, and of another user.
fn callers(port: u16) -> Vec<Wire> {
    let member = |uid, gid, groups: &[u32]| Wire { groups: groups.to_vec(), ..Wire::as_user(port, uid, gid) };
    vec![
        member(3000, 1, &[]),
        member(5000, 4000, &[]),
        member(5000, 1, &[70]),
        member(5000, 4000, &[70]),
        member(3001, 4000, &[70]),
        member(5000, 1, &[]),
    ]
}

#[test]
fn a_user_has_the_rights_that_the_acl_grants_on_the_host() {
    let scratch = Scratch::new("acls");
    std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let filer = Filer::start(&scratch, &[]);
    let root = Wire::connect(filer.port).root();
    let mut callers = callers(filer.port);
    let file = filer.export().join("file");
    let lists: &[&[Entry]] = &[
        &[(USER_OBJ, 6, NOBODY), (GROUP_OBJ, 4, NOBODY), (OTHER, 4, NOBODY)],
        &[(USER_OBJ, 6, NOBODY), (USER, 6, 3001), (GROUP_OBJ, 0, NOBODY), (MASK, 6, NOBODY), (OTHER, 0, NOBODY)],
        &[(USER_OBJ, 6, NOBODY), (USER, 0, 3001), (GROUP_OBJ, 4, NOBODY), (MASK, 4, NOBODY), (OTHER, 4, NOBODY)],
        &[(USER_OBJ, 0, NOBODY), (USER, 6, 3001), (GROUP_OBJ, 6, NOBODY), (GROUP, 2, 70), (MASK, 4, NOBODY), (OTHER, 6, NOBODY)],
        &[(USER_OBJ, 6, NOBODY), (GROUP_OBJ, 4, NOBODY), (GROUP, 2, 70), (MASK, 6, NOBODY), (OTHER, 0, NOBODY)],
        &[(USER_OBJ, 6, NOBODY), (USER, 6, 3001), (GROUP_OBJ, 6, NOBODY), (MASK, 0, NOBODY), (OTHER, 4, NOBODY)],
    ];
    std::fs::write(&file, b"data").unwrap();
    std::os::unix::fs::chown(&file, Some(3000), Some(4000)).unwrap();
    let handle = callers[0].lookup(root, "file").unwrap().object;
    // Each list is tested twice, so that the test notices a cached ACL of the list before.
    for list in lists.iter().chain(lists) {
        set_acl(&file, "access", list);
        for wire in &mut callers {
            let (reads, writes) = (host_allows(wire, "-r", &file), host_allows(wire, "-w", &file));
            let who = format!("{}:{}:{:?} by {list:?}", wire.uid, wire.gid, wire.groups);
            let granted = access(wire, handle);
            assert_eq!((granted & ACCESS_READ != 0, granted & ACCESS_MODIFY != 0), (reads, writes), "{who}");
            let owns = wire.uid == 3000;
            assert_eq!(can_read(wire, handle), reads || owns, "{who}");
            assert_eq!(wire.try_write(handle, 0, b"d", StableHow::Unstable).is_ok(), writes || owns, "{who}");
        }
    }
}

#[test]
fn the_acl_of_a_directory_decides_who_may_look_up_and_add_names() {
    let scratch = Scratch::new("acls-names");
    let filer = Filer::start(&scratch, &[]);
    let root = Wire::connect(filer.port).root();
    let dir = filer.export().join("dir");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("file"), b"x").unwrap();
    set_acl(
        &dir,
        "access",
        &[(USER_OBJ, 7, NOBODY), (USER, 7, 3001), (GROUP_OBJ, 0, NOBODY), (MASK, 7, NOBODY), (OTHER, 0, NOBODY)],
    );
    let (mut named, mut other) = (Wire::as_user(filer.port, 3001, 1), Wire::as_user(filer.port, 3002, 0));
    let handle = named.lookup(root, "dir").unwrap().object;
    assert!(named.lookup(handle, "file").is_ok());
    assert_eq!(
        other.lookup(handle, "file").unwrap_err().status,
        NfsStatus::Acces,
        "a member of the owning group, whose mode bits are the mask"
    );
    assert_eq!((access(&mut named, handle) & ACCESS_LOOKUP, access(&mut other, handle)), (ACCESS_LOOKUP, 0));
    named.create(handle, "new");
    let guarded = CreateHow::Guarded(SetAttr::default());
    assert_eq!(other.create_with(handle, "mine", guarded).unwrap_err().status, NfsStatus::Acces);
}

#[test]
fn an_object_created_below_a_default_acl_has_the_mode_and_acl_that_the_host_gives_it() {
    let scratch = Scratch::new("acls-default");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let dir = filer.export().join("dir");
    std::fs::create_dir(&dir).unwrap();
    set_acl(
        &dir,
        "default",
        &[(USER_OBJ, 7, NOBODY), (USER, 6, 3001), (GROUP_OBJ, 5, NOBODY), (MASK, 5, NOBODY), (OTHER, 0, NOBODY)],
    );
    let root = wire.root();
    let handle = wire.lookup(root, "dir").unwrap().object;
    for mode in [0o666, 0o644, 0o600, 0o2755, 0o777] {
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        let attributes = set;
        let (file, folder) = (format!("f{mode:o}"), format!("d{mode:o}"));
        wire.create_with(handle, &file, CreateHow::Guarded(set)).unwrap();
        let made = wire.nfs(Procedure::MkDir, &MkDirArgs { place: place(handle, &folder), attributes });
        made.results::<CreateResult>().unwrap();
        // The same objects, created on the host. The umask does not apply below a default ACL.
        let local_file = dir.join(format!("host-{file}"));
        let local_folder = dir.join(format!("host-{folder}"));
        let open = rustix::fs::OFlags::CREATE | rustix::fs::OFlags::WRONLY;
        rustix::fs::open(&local_file, open, rustix::fs::Mode::from_raw_mode(mode & 0o777)).unwrap();
        rustix::fs::mkdir(&local_folder, rustix::fs::Mode::from_raw_mode(mode & 0o777)).unwrap();
        for (ours, local, kept) in [(dir.join(&file), local_file, 0o6000), (dir.join(&folder), local_folder, 0)] {
            let bits = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
            assert_eq!(bits(&ours), bits(&local) | mode & kept, "{mode:o}");
            assert_eq!(acl(&ours, "access"), acl(&local, "access"), "{mode:o}");
            assert_eq!(acl(&ours, "default"), acl(&local, "default"), "{mode:o}");
        }
    }
}

#[test]
fn a_rename_of_a_mounted_file_system_without_acls_leaves_the_acls_of_the_volume_in_force() {
    let scratch = Scratch::new("acls-mounted");
    let filer = Filer::start(&scratch, &[]);
    let (mount, file) = (filer.export().join("mount"), filer.export().join("file"));
    let Some(_mounted) = Mounted::without_acls(mount.clone()) else { return };
    std::fs::create_dir(filer.export().join("other")).unwrap();
    for dir in [filer.export(), &mount, &filer.export().join("other")] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o777)).unwrap();
    }
    std::fs::write(&file, b"data").unwrap();
    std::os::unix::fs::chown(&file, Some(1), Some(70)).unwrap();
    set_acl(
        &file,
        "access",
        &[(USER_OBJ, 6, NOBODY), (USER, 6, 3001), (GROUP_OBJ, 0, NOBODY), (MASK, 6, NOBODY), (OTHER, 0, NOBODY)],
    );
    let (mut member, mut other) = (Wire::as_user(filer.port, 5000, 70), Wire::as_user(filer.port, 6000, 6000));
    let root = member.root();
    let handle = member.lookup(root, "file").unwrap().object;
    assert!(!can_read(&mut member, handle), "its mode bits are the mask");
    let to = other.lookup(root, "other").unwrap().object;
    let args = RenameArgs { from: place(root, "mount"), to: place(to, "mount") };
    other.nfs(Procedure::Rename, &args).results::<RenameResult>().unwrap_err();
    assert!(!can_read(&mut member, handle), "the ACL still decides");
}
