//! A call whose reply was lost is done twice by a server without a reply cache: the caller still sees it done once.

mod script;

use dnfs::file::{CreateMode, FileTime, SetTime, SpecialFile};
use dnfs::{Client, Error, FsError, SetAttributes};
use nfs_proto::nfs3::Procedure;
use script::{Fault, Server, handle, once};

fn server() -> Server {
    Server::start(1, Box::new(|_, _| Fault::None))
}

fn fs_error<T>(outcome: Result<T, Error>) -> Option<FsError> {
    outcome.err().and_then(|error| error.fs_error())
}

/// Makes a file, a directory, a link and a pipe by calls whose first replies are lost: what came of each.
fn made_by_lost_replies(server: &Server, client: &Client) -> Vec<Option<FsError>> {
    let (root, set) = (handle(1), SetAttributes::default());
    let lose = |procedure| server.plan(once(procedure, Fault::Lose));
    lose(Procedure::Create);
    let mut made = vec![fs_error(client.create(&root, b"new", CreateMode::Guarded(set)))];
    lose(Procedure::MkDir);
    made.push(fs_error(client.mkdir(&root, b"dir", &set)));
    lose(Procedure::SymLink);
    made.push(fs_error(client.symlink(&root, b"sym", b"old", &set)));
    lose(Procedure::MkNod);
    made.push(fs_error(client.mknod(&root, b"pipe", SpecialFile::Fifo, &set)));
    made
}

#[test]
fn an_object_made_by_a_call_whose_reply_was_lost_is_known_by_the_time_that_it_was_given() {
    let server = server();
    let client = server.client("");
    assert_eq!(made_by_lost_replies(&server, &client), [None; 4]);
    assert_eq!(client.counters().resends, 4);
}

#[test]
fn without_evidence_that_the_first_sending_made_it_an_object_is_somebody_elses() {
    let server = server();
    server.state.lock().unwrap().keeps_atime = false;
    assert_eq!(made_by_lost_replies(&server, &server.client("")), [Some(FsError::Exists); 4]);
}

#[test]
fn a_name_that_is_gone_when_its_removal_is_sent_again_was_perhaps_removed_by_somebody_else() {
    let server = server();
    let client = server.client("");
    let root = handle(1);
    for procedure in [Procedure::Remove, Procedure::RmDir] {
        server.file(b"name", b"");
        server.plan(once(procedure, Fault::Lose));
        let done = if procedure == Procedure::Remove { client.remove(&root, b"name") } else { client.rmdir(&root, b"name") };
        assert_eq!(fs_error(done), Some(FsError::NotFound));
    }
    let file = server.file(b"old", b"1234");
    server.plan(once(Procedure::Link, Fault::Lose));
    assert_eq!(fs_error(client.link(&file, &root, b"hard")), Some(FsError::Exists));
}

#[test]
fn a_renamed_object_is_known_by_its_number() {
    let server = server();
    let client = server.client("");
    let root = handle(1);
    server.file(b"old", b"1234");
    server.plan(once(Procedure::Rename, Fault::Lose));
    client.rename_object(&root, b"old", &root, b"young", Some(2)).unwrap();
    server.plan(once(Procedure::Rename, Fault::Lose));
    assert_eq!(
        fs_error(client.rename(&root, b"young", &root, b"old")),
        Some(FsError::NotFound),
        "of an object that is not known"
    );
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
