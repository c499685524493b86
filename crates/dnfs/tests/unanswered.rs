//! A server that leaves one call unanswered while it answers others: it swallows an xid, and whatever comes with it, for ever.

#![allow(clippy::unwrap_used, reason = "a panic is the verdict of a test")]

mod script;

use dnfs::file::{AccessRights, CreateMode, DirectoryPosition, SpecialFile};
use dnfs::{Cause, Client, Error, Event, FileHandle, SetAttributes, Stability, Work};
use nfs_proto::nfs3::Procedure;
use script::{Fault, Sending, Server, handle, once};
use std::cell::Cell;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// The time after which a call is overdue, and `timeo`, after which the client would resend it anyway.
const OVERDUE: Duration = Duration::from_secs(5);
const TIMEO: Duration = Duration::from_secs(60);

static EVENTS: Mutex<Vec<Event>> = Mutex::new(Vec::new());

fn server() -> Server {
    dnfs::report_to(|event| EVENTS.lock().unwrap().push(event));
    Server::start(1, Box::new(|_, _| Fault::None))
}

/// What was reported of a server.
fn events(server: &Server) -> Vec<Event> {
    let of_it = |event: &&Event| match event {
        Event::NotResponding { server: at, .. } | Event::Unanswered { server: at, .. } | Event::Denied { server: at, .. } => {
            *at == server.address
        }
        _ => false,
    };
    EVENTS.lock().unwrap().iter().filter(of_it).cloned().collect()
}

fn sendings(server: &Server, procedure: Procedure) -> Vec<Sending> {
    server.state.lock().unwrap().sendings.iter().filter(|sending| sending.procedure == procedure).cloned().collect()
}

type Call = fn(&Client, &FileHandle);

fn read(client: &Client, file: &FileHandle) {
    let mut bytes = [0; 100];
    let done = client.read(file, 4096, &mut [IoSliceMut::new(&mut bytes)]).unwrap();
    assert!(done.bytes == 100 && bytes == [7; 100]);
}

fn write(client: &Client, file: &FileHandle) {
    assert_eq!(client.write(file, 8192, &[IoSlice::new(&[9; 100])], Stability::Unstable).unwrap().bytes, 100);
}

fn list(client: &Client, plus: bool) {
    let (root, from) = (handle(1), DirectoryPosition::default());
    let refused = AtomicU32::new((!plus).into());
    client.list(&root, from, &refused, &mut |_| true).unwrap().unwrap();
}

#[test]
fn an_idempotent_call_that_a_server_swallows_is_named_and_sent_under_another_xid_on_another_connection() {
    let calls: [(Procedure, Call); 9] = [
        (Procedure::Read, read),
        (Procedure::Write, write),
        (Procedure::Commit, |client, file| assert!(client.commit(file).is_ok())),
        (Procedure::GetAttr, |client, file| assert!(client.getattr(file).is_ok())),
        (Procedure::Lookup, |client, _| assert!(client.lookup(&handle(1), b"f").is_ok())),
        (Procedure::Access, |client, file| assert!(client.access(file, AccessRights::default()).is_ok())),
        (Procedure::FsStat, |client, file| assert!(client.fsstat(file).is_ok())),
        (Procedure::ReadDir, |client, _| list(client, false)),
        (Procedure::ReadDirPlus, |client, _| list(client, true)),
    ];
    std::thread::scope(|scope| {
        for (procedure, call) in calls {
            scope.spawn(move || {
                let server = server();
                let file = server.file(b"f", &[7; 20_000]);
                let client = server.client("");
                server.plan(once(procedure, Fault::Swallow));
                let begun = Instant::now();
                call(&client, &file);
                let took = begun.elapsed();
                let fence = if procedure == Procedure::Write { Duration::from_secs(1) } else { Duration::ZERO };
                assert!(took >= OVERDUE + fence && took < TIMEO, "{procedure:?} took {took:?}");
                let [first, second] = sendings(&server, procedure)[..] else { panic!("{procedure:?}") };
                assert!(first.xid != second.xid && first.port != second.port, "{first:?} {second:?}");
                if procedure == Procedure::Write {
                    assert!(second.at - first.at >= OVERDUE + fence && second.ended > 0, "{first:?} {second:?}");
                }
                let [Event::Unanswered { call, renewed: true, .. }] = events(&server)[..] else {
                    panic!("{:?}", events(&server))
                };
                assert_eq!(call.procedure().to_string(), format!("{procedure:?}").to_uppercase());
                let is_of_root = matches!(procedure, Procedure::Lookup | Procedure::ReadDir | Procedure::ReadDirPlus);
                assert_eq!(call.file, Some(if is_of_root { handle(1) } else { file }));
                let offset = match procedure {
                    Procedure::Read => Some(4096),
                    Procedure::Write => Some(8192),
                    Procedure::Commit => Some(0),
                    _ => None,
                };
                assert!(call.offset == offset && call.age >= OVERDUE, "{call:?}");
            });
        }
    });
}

#[test]
fn all_other_calls_keep_xid_and_port_however_long_a_server_swallows_them() {
    let calls: [(Procedure, Call); 9] = [
        (Procedure::SetAttr, |client, file| drop(client.setattr(file, &SetAttributes::default(), None))),
        (Procedure::Create, |client, _| drop(client.create(&handle(1), b"n", CreateMode::Guarded(SetAttributes::default())))),
        (Procedure::MkDir, |client, _| drop(client.mkdir(&handle(1), b"n", &SetAttributes::default()))),
        (Procedure::SymLink, |client, _| drop(client.symlink(&handle(1), b"n", b"t", &SetAttributes::default()))),
        (Procedure::MkNod, |client, _| drop(client.mknod(&handle(1), b"n", SpecialFile::Fifo, &SetAttributes::default()))),
        (Procedure::Remove, |client, _| drop(client.remove(&handle(1), b"f"))),
        (Procedure::RmDir, |client, _| drop(client.rmdir(&handle(1), b"f"))),
        (Procedure::Rename, |client, _| drop(client.rename(&handle(1), b"f", &handle(1), b"n"))),
        (Procedure::Link, |client, file| drop(client.link(file, &handle(1), b"n"))),
    ];
    std::thread::scope(|scope| {
        for (procedure, call) in calls {
            scope.spawn(move || {
                let server = server();
                let file = server.file(b"f", b"data");
                // Given up after 8 s, which a hard mount never does; sent again after 2, 4 and 6.
                let client = server.client("timeo=20&soft&retrans=3");
                server.plan(once(procedure, Fault::Swallow));
                call(&client, &file);
                let sent = sendings(&server, procedure);
                assert!(sent.len() >= 4, "{sent:?}");
                assert!(sent.iter().all(|sending| sending.xid == sent[0].xid && sending.port == sent[0].port), "{sent:?}");
                // Named all the same, and never taken for a sign that the server is away.
                let [Event::Unanswered { call, renewed: false, .. }] = events(&server)[..] else {
                    panic!("{:?}", events(&server))
                };
                assert_eq!(call.procedure().to_string(), format!("{procedure:?}").to_uppercase());
            });
        }
    });
}

#[test]
fn one_call_of_many_in_flight_is_sent_again_though_the_others_are_answered_all_the_time() {
    let server = server();
    let file = server.file(b"f", &vec![7; 1 << 20]);
    let client = server.client("");
    let mut pipeline = client.pipeline(&file, Work::Read, 512, 8, &[]).unwrap();
    server.plan(once(Procedure::Read, Fault::Swallow));
    let (begun, mut answered, mut asked) = (Instant::now(), 0, 0);
    let longest = Cell::new(Duration::ZERO);
    // The server answers other calls until the client has the answer to the one that was swallowed.
    let mut next = || {
        asked += 512;
        std::thread::sleep(Duration::from_millis(2)); // so that the test computes little
        (longest.get() < OVERDUE && begun.elapsed() < TIMEO).then_some(asked % (1 << 20))
    };
    pipeline
        .run(&mut next, &mut |answer| {
            answered += 1;
            longest.set(longest.get().max(answer.latency));
        })
        .unwrap();
    let longest = longest.get();
    assert!(longest >= OVERDUE && longest < TIMEO, "{longest:?}");
    let at_end = sendings(&server, Procedure::Read).len();
    assert!(answered > 100 && answered < at_end, "{answered} of {at_end}: those in flight were sent again");
    assert!(matches!(events(&server)[..], [Event::Unanswered { renewed: true, .. }]), "{:?}", events(&server));
}

#[test]
fn a_server_whose_time_to_resend_is_short_is_asked_under_another_xid_too() {
    let server = server();
    let file = server.file(b"f", &[7; 20_000]);
    let client = server.client("timeo=10");
    server.plan(once(Procedure::Read, Fault::Swallow));
    read(&client, &file);
    let sent = sendings(&server, Procedure::Read);
    assert!(sent.len() > 2 && sent.last().unwrap().xid != sent[0].xid, "{sent:?}");
}

#[test]
fn a_server_that_answers_nothing_is_waited_for_and_said_not_to_answer() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut server = server();
    let file = server.file(b"f", b"data");
    server.address = silent.local_addr().unwrap();
    let client = server.client("timeo=10&soft&retrans=5");
    let done = client.getattr(&file);
    assert!(matches!(done, Err(Error::TimedOut { .. })), "{done:?}");
    let events = events(&server);
    assert!(matches!(events[..], [Event::NotResponding { cause: Cause::NoReply, .. }]), "{events:?}");
}
