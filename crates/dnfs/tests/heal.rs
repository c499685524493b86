//! A call whose reply was lost is done twice by a server without a reply cache: the caller still sees it done once.

mod script;

use dnfs::Error;
use dnfs::nfs3::{CreateHow, NfsStatus, Procedure, SetAttr};
use script::{Fault, Server, handle, once};

fn server() -> Server {
    Server::start(1, Box::new(|_, _| Fault::None))
}

fn status<T>(outcome: Result<T, Error>) -> Option<NfsStatus> {
    outcome.err().and_then(|error| error.status())
}

#[test]
fn names_created_or_removed_by_a_lost_reply_are_reported_as_done() {
    let server = server();
    let client = server.client("");
    let root = handle(1);
    let file = server.file(b"old", b"1234");
    let lose = |procedure| server.plan(once(procedure, Fault::Lose));
    lose(Procedure::Create);
    client.create(&root, b"new", CreateHow::Guarded(SetAttr::default())).unwrap().0.unwrap();
    lose(Procedure::MkDir);
    client.mkdir(&root, b"dir", &SetAttr::default()).unwrap().0.unwrap();
    lose(Procedure::SymLink);
    client.symlink(&root, b"sym", b"old", &SetAttr::default()).unwrap().0.unwrap();
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
    let guarded = || client.create(&root, b"there", CreateHow::Guarded(SetAttr::default()));
    assert_eq!(status(guarded()), Some(NfsStatus::Exist));
    assert_eq!(status(client.mkdir(&root, b"there", &SetAttr::default())), Some(NfsStatus::Exist));
    assert_eq!(status(client.link(&file, &root, b"there")), Some(NfsStatus::Exist));
    assert_eq!(status(client.remove(&root, b"gone")), Some(NfsStatus::NoEnt));
    assert_eq!(status(client.rename(&root, b"gone", &root, b"there")), Some(NfsStatus::NoEnt));
}

#[test]
fn what_somebody_else_made_is_not_taken_for_ours() {
    let server = server();
    let client = server.client("");
    let root = handle(1);
    server.file(b"there", b"somebody's data");
    let lose = |procedure| server.plan(once(procedure, Fault::Ignore));
    lose(Procedure::Create);
    assert_eq!(status(client.create(&root, b"there", CreateHow::Guarded(SetAttr::default()))), Some(NfsStatus::Exist));
    lose(Procedure::MkDir);
    assert_eq!(status(client.mkdir(&root, b"there", &SetAttr::default())), Some(NfsStatus::Exist));
    lose(Procedure::SymLink);
    assert_eq!(status(client.symlink(&root, b"there", b"x", &SetAttr::default())), Some(NfsStatus::Exist));
    lose(Procedure::Rename);
    assert_eq!(status(client.rename_object(&root, b"gone", &root, b"there", Some(77))), Some(NfsStatus::NoEnt));
}

#[test]
fn a_name_too_long_for_any_server_never_leaves_this_host() {
    let server = server();
    let client = server.client("");
    let name = vec![b'x'; 5000];
    assert_eq!(status(client.lookup(&handle(1), &name)), Some(NfsStatus::NameTooLong));
    assert_eq!(client.counters().reconnects, 0);
    assert_eq!(server.state.lock().unwrap().replies, 0);
}
