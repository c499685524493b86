//! A call whose reply was lost is done twice by a server without a reply cache: the caller still sees it done once.

mod script;

use dnfs::file::{CreateMode, FileTime, SetTime};
use dnfs::{Error, FsError, SetAttributes};
use nfs_proto::nfs3::Procedure;
use script::{Fault, Server, handle, once};

fn server() -> Server {
    Server::start(1, Box::new(|_, _| Fault::None))
}

fn fs_error<T>(outcome: Result<T, Error>) -> Option<FsError> {
    outcome.err().and_then(|error| error.fs_error())
}

#[test]
fn names_created_or_removed_by_a_lost_reply_are_reported_as_done() {
    let server = server();
    let client = server.client("");
    let root = handle(1);
    let file = server.file(b"old", b"1234");
    let lose = |procedure| server.plan(once(procedure, Fault::Lose));
    lose(Procedure::Create);
    client.create(&root, b"new", CreateMode::Guarded(SetAttributes::default())).unwrap().0.unwrap();
    lose(Procedure::MkDir);
    client.mkdir(&root, b"dir", &SetAttributes::default()).unwrap().0.unwrap();
    lose(Procedure::SymLink);
    client.symlink(&root, b"sym", b"old", &SetAttributes::default()).unwrap().0.unwrap();
    lose(Procedure::Link);
    client.link(&file, &root, b"hard").unwrap().unwrap();
    lose(Procedure::Rename);
    client.rename_object(&root, b"old", &root, b"young", Some(2)).unwrap();
    lose(Procedure::Remove);
    client.remove(&root, b"hard").unwrap();
    lose(Procedure::RmDir);
    client.rmdir(&root, b"dir").unwrap();
    let names: Vec<Vec<u8>> = server.state.lock().unwrap().names.keys().cloned().collect();
    assert_eq!(names, [b"new".to_vec(), b"sym".to_vec(), b"young".to_vec()]);
    assert_eq!(client.counters().resends, 7);
}

#[test]
fn refusals_stay_refusals_when_nothing_was_sent_twice() {
    let server = server();
    let client = server.client("");
    let root = handle(1);
    let file = server.file(b"there", b"1234");
    let guarded = || client.create(&root, b"there", CreateMode::Guarded(SetAttributes::default()));
    assert_eq!(fs_error(guarded()), Some(FsError::Exists));
    assert_eq!(fs_error(client.mkdir(&root, b"there", &SetAttributes::default())), Some(FsError::Exists));
    assert_eq!(fs_error(client.link(&file, &root, b"there")), Some(FsError::Exists));
    assert_eq!(fs_error(client.remove(&root, b"gone")), Some(FsError::NotFound));
    assert_eq!(fs_error(client.rename(&root, b"gone", &root, b"there")), Some(FsError::NotFound));
}

#[test]
fn what_somebody_else_made_is_not_taken_for_ours() {
    let server = server();
    let client = server.client("");
    let root = handle(1);
    server.file(b"there", b"somebody's data");
    let lose = |procedure| server.plan(once(procedure, Fault::Ignore));
    lose(Procedure::Create);
    assert_eq!(fs_error(client.create(&root, b"there", CreateMode::Guarded(SetAttributes::default()))), Some(FsError::Exists));
    // Empty as ours would be, but not with the access time that ours was given.
    server.file(b"empty", b"");
    lose(Procedure::Create);
    let atime = SetTime::To(FileTime { seconds: 1_700_000_000, nanoseconds: 123_456_789 });
    let ours = SetAttributes { atime, ..SetAttributes::default() };
    assert_eq!(fs_error(client.create(&root, b"empty", CreateMode::Guarded(ours))), Some(FsError::Exists));
    lose(Procedure::MkDir);
    assert_eq!(fs_error(client.mkdir(&root, b"there", &SetAttributes::default())), Some(FsError::Exists));
    lose(Procedure::SymLink);
    assert_eq!(fs_error(client.symlink(&root, b"there", b"x", &SetAttributes::default())), Some(FsError::Exists));
    lose(Procedure::Rename);
    assert_eq!(fs_error(client.rename_object(&root, b"gone", &root, b"there", Some(77))), Some(FsError::NotFound));
}

#[test]
fn a_name_too_long_for_any_server_never_leaves_this_host() {
    let server = server();
    let client = server.client("");
    let name = vec![b'x'; 5000];
    assert_eq!(fs_error(client.lookup(&handle(1), &name)), Some(FsError::NameTooLong));
    assert_eq!(client.counters().reconnects, 0);
    assert_eq!(server.state.lock().unwrap().replies, 0);
}
