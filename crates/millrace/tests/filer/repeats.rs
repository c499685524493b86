//! Calls that the Direct NFS client resends because its connection broke or its timer expired. In
//! whatever order the copies arrive, the filer executes the call once, and every copy gets the same
//! reply.
//!
//! Two filers get the same seeded calls. One gets each call once. The other gets each call in one
//! to four copies: on the same connection, on others of the same channel, after each other, after
//! other calls, and over broken connections. The replies to the copies are identical, the statuses
//! of the two filers are equal, and so are the trees that they serve in the end.
//! `MILLRACE_E2E_SEEDS` times 4 seeds (2 by default, so 8). `MILLRACE_SEED` replays one.

use crate::fence::attach;
use crate::support::Scratch;
use crate::support::filer::Filer;
use crate::support::wire::{Reply, Wire, place};
use nfs_proto::channel1::ChannelStatus;
use nfs_proto::nfs3::{
    CreateArgs, CreateHow, CreateResult, FileHandle, FileType, LinkArgs, MkDirArgs, MkNodArgs, NfsStatus, NodeData, ObjectArgs,
    Path as LinkText, Procedure, RenameArgs, SetAttr, SetAttrArgs, StableHow, SymLinkArgs,
};
use nfs_proto::xdr::Encode;
use sim::Rng;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const CALLS: usize = 60;
/// The process number of the client's channel.
const PROCESS: u64 = 0x5eed_0000_0000_0001;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// One call, with indexes of its objects in the lists of each filer, so that both filers can get it.
#[derive(Clone, Copy, Debug)]
enum Action {
    Create {
        dir: usize,
        name: &'static str,
        guarded: bool,
    },
    MkDir {
        dir: usize,
        name: &'static str,
    },
    SymLink {
        dir: usize,
        name: &'static str,
    },
    MkNod {
        dir: usize,
        name: &'static str,
    },
    Remove {
        dir: usize,
        name: &'static str,
    },
    RmDir {
        dir: usize,
        name: &'static str,
    },
    Rename {
        from: (usize, &'static str),
        to: (usize, &'static str),
    },
    Link {
        object: usize,
        dir: usize,
        name: &'static str,
    },
    Shorten {
        object: usize,
        bytes: u64,
        guarded: bool,
    },
    /// A call whose reply the filer does not store. A repetition of an earlier call would destroy its data.
    Fill {
        object: usize,
        byte: u8,
    },
}

/// A filer, and what a client knows of it.
struct Side {
    filer: Filer,
    wire: Wire,
    dirs: Vec<FileHandle>,
    objects: Vec<FileHandle>,
}

impl Side {
    fn start(scratch: &Scratch) -> Self {
        let filer = Filer::start(scratch, &[]);
        let mut wire = Wire::connect(filer.port);
        let root = wire.root();
        let first = wire.create(root, "first");
        assert_eq!(attach(&mut wire, PROCESS, 1), ChannelStatus::Ok);
        Self { filer, wire, dirs: vec![root], objects: vec![first] }
    }

    /// The record of a call with the next xid.
    fn record(&mut self, action: Action) -> Vec<u8> {
        let set = SetAttr { mode: Some(0o640), ..SetAttr::default() };
        let dir = |side: &Self, dir: usize| side.dirs[dir % side.dirs.len()];
        let object = |side: &Self, object: usize| side.objects[object % side.objects.len()];
        let (procedure, arguments): (Procedure, Box<dyn Encode>) = match action {
            Action::Create { dir: at, name, guarded } => {
                let how = if guarded { CreateHow::Guarded(set) } else { CreateHow::Unchecked(SetAttr { size: Some(0), ..set }) };
                (Procedure::Create, Box::new(CreateArgs { place: place(dir(self, at), name), how }))
            }
            Action::MkDir { dir: at, name } => {
                (Procedure::MkDir, Box::new(MkDirArgs { place: place(dir(self, at), name), attributes: set }))
            }
            Action::SymLink { dir: at, name } => {
                let (place, target) = (place(dir(self, at), name), LinkText(b"elsewhere"));
                (Procedure::SymLink, Box::new(SymLinkArgs { place, attributes: SetAttr::default(), target }))
            }
            Action::MkNod { dir: at, name } => {
                let what = NodeData::Pipe(FileType::Fifo, set);
                (Procedure::MkNod, Box::new(MkNodArgs { place: place(dir(self, at), name), what }))
            }
            Action::Remove { dir: at, name } => (Procedure::Remove, Box::new(place(dir(self, at), name))),
            Action::RmDir { dir: at, name } => (Procedure::RmDir, Box::new(place(dir(self, at), name))),
            Action::Rename { from, to } => {
                let args = RenameArgs { from: place(dir(self, from.0), from.1), to: place(dir(self, to.0), to.1) };
                (Procedure::Rename, Box::new(args))
            }
            Action::Link { object: file, dir: at, name } => {
                (Procedure::Link, Box::new(LinkArgs { file: object(self, file), link: place(dir(self, at), name) }))
            }
            Action::Shorten { object: file, bytes, guarded } => {
                let object = object(self, file);
                // With a guard, a repeated call fails if the first one succeeded.
                let guard = guarded.then(|| self.wire.getattr(object).ok().map(|ok| ok.attributes.ctime)).flatten();
                let new_attributes = SetAttr { size: Some(bytes), ..SetAttr::default() };
                (Procedure::SetAttr, Box::new(SetAttrArgs { object, new_attributes, guard }))
            }
            Action::Fill { object: file, byte } => {
                let data = [byte; 64];
                let args = crate::support::wire::write_args(object(self, file), 0, &data, StableHow::Unstable);
                return self.wire.nfs_record(Procedure::Write, &args);
            }
        };
        self.wire.nfs_record(procedure, &*arguments)
    }

    /// Stores the handle of what a call made.
    fn learn(&mut self, action: Action, reply: &Reply) {
        let made = match action {
            Action::Create { .. } | Action::MkDir { .. } => reply.results::<CreateResult>().ok().and_then(|ok| ok.object),
            _ => None,
        };
        match (action, made) {
            (Action::MkDir { .. }, Some(made)) => self.dirs.push(made),
            (_, Some(made)) => self.objects.push(made),
            _ => {}
        }
    }
}

fn some_action(rng: &mut Rng) -> Action {
    let mut at = || (rng.index(64), NAMES[rng.index(NAMES.len())]);
    let ((dir, name), to) = (at(), at());
    let object = rng.index(64);
    match rng.below(13) {
        0 | 1 => Action::Create { dir, name, guarded: rng.chance(2, 3) },
        2 => Action::MkDir { dir, name },
        3 => Action::SymLink { dir, name },
        4 => Action::MkNod { dir, name },
        5 | 6 => Action::Remove { dir, name },
        7 => Action::RmDir { dir, name },
        8 | 9 => Action::Rename { from: (dir, name), to },
        10 => Action::Link { object, dir, name },
        11 => Action::Shorten { object, bytes: rng.below(100), guarded: rng.chance(1, 2) },
        _ => Action::Fill { object, byte: rng.bits() as u8 },
    }
}

/// Replaces a connection by another one of the same channel, from another port.
fn reconnect(wire: &mut Wire, port: u16, generation: &mut u32) {
    let mut next = Wire::connect(port);
    next.xid = wire.xid;
    *generation += 1;
    assert_eq!(attach(&mut next, PROCESS, *generation), ChannelStatus::Ok);
    *wire = next;
}

/// Sends copies of one record in a way that the seed chooses. Returns the replies.
fn send_copies(wire: &mut Wire, port: u16, generation: &mut u32, record: &[u8], rng: &mut Rng) -> Vec<Reply> {
    let mut replies = Vec::new();
    match rng.below(4) {
        0 => {
            // Both copies in one send. If the second arrives while the first is running, one reply answers both.
            wire.send(&[record, record].concat());
            replies.push(wire.receive());
            reconnect(wire, port, generation);
        }
        1 => {
            // The connection breaks before the answer.
            wire.send(record);
            let broken = std::mem::replace(wire, Wire::connect(port));
            wire.xid = broken.xid;
            broken.reset();
            reconnect(wire, port, generation);
            wire.send(record);
            replies.push(wire.receive());
        }
        2 => {
            // The connection breaks after a part of the record.
            wire.send(&record[..1 + rng.index(record.len() - 1)]);
            reconnect(wire, port, generation);
            wire.send(record);
            replies.push(wire.receive());
        }
        _ => {
            // A copy, another one after the reply, and a third one on another connection.
            for _ in 0..2 {
                wire.send(record);
                replies.push(wire.receive());
            }
            reconnect(wire, port, generation);
            wire.send(record);
            replies.push(wire.receive());
        }
    }
    replies
}

fn status(reply: &Reply) -> [u8; 4] {
    *reply.body().first_chunk().unwrap()
}

/// The exported tree: for each path the kind and mode, the links, the size and the contents.
fn tree(dir: &Path) -> BTreeMap<String, (u32, u64, u64, Vec<u8>)> {
    fn visit(dir: &Path, prefix: &str, found: &mut BTreeMap<String, (u32, u64, u64, Vec<u8>)>) {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let (path, meta) = (entry.path(), entry.metadata().unwrap());
            let name = format!("{prefix}/{}", entry.file_name().to_string_lossy());
            let mut content = Vec::new();
            if meta.is_file() {
                std::fs::File::open(&path).unwrap().read_to_end(&mut content).unwrap();
            } else if meta.is_symlink() {
                content.extend(std::fs::read_link(&path).unwrap().to_string_lossy().bytes());
            } else if meta.is_dir() {
                visit(&path, &name, found);
            }
            let bytes = if meta.is_file() { meta.len() } else { 0 };
            found.insert(name, (meta.mode(), meta.nlink(), bytes, content));
        }
    }
    let mut found = BTreeMap::new();
    visit(dir, "", &mut found);
    found
}

#[test]
fn a_call_in_many_copies_is_done_once_and_every_copy_gets_its_reply() {
    for seed in crate::support::seeds(|count| 4 * count) {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let (scratch, plain_scratch) = (Scratch::new("repeats"), Scratch::new("once"));
        let (mut side, mut plain) = (Side::start(&scratch), Side::start(&plain_scratch));
        let (mut earlier, mut generation): (Vec<(Vec<u8>, Reply)>, u32) = (Vec::new(), 1);
        for nth in 0..CALLS {
            let action = some_action(&mut rng);
            let record = side.record(action);
            let once = plain.record(action);
            plain.wire.send(&once);
            let expected = plain.wire.receive();
            let replies = match action {
                Action::Fill { .. } => {
                    side.wire.send(&record);
                    vec![side.wire.receive()]
                }
                _ => {
                    let port = side.filer.port;
                    send_copies(&mut side.wire, port, &mut generation, &record, &mut rng)
                }
            };
            for reply in &replies {
                assert_eq!(reply.0, replies[0].0, "seed {seed}, call {nth}: {action:?}");
            }
            assert_eq!(status(&replies[0]), status(&expected), "seed {seed}, call {nth}: {action:?}");
            side.learn(action, &replies[0]);
            plain.learn(action, &expected);
            if !matches!(action, Action::Fill { .. }) {
                earlier.extend(replies.into_iter().next().map(|reply| (record, reply)));
            }
            // A delayed copy arrives after later calls have changed the same objects.
            if let Some((record, reply)) = rng.pick(&earlier).filter(|_| nth % 3 == 0) {
                side.wire.send(record);
                assert_eq!(side.wire.receive().0, reply.0, "seed {seed}, a late copy after call {nth}");
            }
        }
        assert_eq!(tree(side.filer.export()), tree(plain.filer.export()), "seed {seed}");
    }
}

/// As documented, a restart and a power cut forget stored replies. A copy of an old call is then a
/// new call, with the same effect as any client's. Its status shows the client the outcome of the
/// call that it resends.
#[test]
fn after_a_restart_a_copy_is_a_new_call_and_says_so() {
    let scratch = Scratch::new("repeats-restart");
    let mut filer = Filer::start(&scratch, &["--loss-layer"]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    wire.create(root, "old");
    wire.create(root, "gone");
    let how = CreateHow::Guarded(SetAttr::default());
    let records = [
        (wire.nfs_record(Procedure::Create, &CreateArgs { place: place(root, "new"), how }), NfsStatus::Exist),
        (wire.nfs_record(Procedure::Remove, &place(root, "gone")), NfsStatus::NoEnt),
        (
            wire.nfs_record(Procedure::Rename, &RenameArgs { from: place(root, "old"), to: place(root, "young") }),
            NfsStatus::NoEnt,
        ),
    ];
    for (record, _) in &records {
        wire.send(record);
        assert_eq!(status(&wire.receive()), [0; 4]);
    }
    let before = tree(filer.export());
    for kill in [true, false] {
        if kill {
            filer.kill();
            filer.restart();
        } else {
            assert_eq!(filer.admin(r#"{"op":"power-cut"}"#)["ok"], true);
        }
        let mut wire = Wire::connect(filer.port);
        for (record, expected) in &records {
            wire.send(record);
            assert_eq!(status(&wire.receive()), expected.number().to_be_bytes());
            // The refusal is stored like any other reply.
            wire.send(record);
            assert_eq!(status(&wire.receive()), expected.number().to_be_bytes());
        }
        assert_eq!(tree(filer.export()), before);
    }
}

/// The first call lasts until all copies have arrived.
#[test]
fn forty_copies_at_once_are_one_call_and_each_gets_the_reply() {
    let scratch = Scratch::new("repeats-many");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    crate::faults::add(&filer, "slow-flush,delay_ms=500");
    for round in 0..2 {
        let name = format!("dir{round}");
        let args = MkDirArgs { place: place(root, &name), attributes: SetAttr::default() };
        let record = wire.nfs_record(Procedure::MkDir, &args);
        let mut wires: Vec<Wire> = (0..40).map(|_| Wire::connect(filer.port)).collect();
        wires.iter_mut().for_each(|wire| wire.stream.write_all(&record).unwrap());
        let replies: Vec<Vec<u8>> = wires.iter_mut().map(|wire| wire.receive().0).collect();
        assert!(replies.iter().all(|reply| *reply == replies[0]));
        let made = Reply(replies.into_iter().next().unwrap()).results::<CreateResult>().unwrap().object.unwrap();
        assert_eq!(wire.nfs(Procedure::GetAttr, &ObjectArgs { object: made }).body()[..4], [0; 4]);
    }
    assert_eq!(std::fs::read_dir(filer.export()).unwrap().count(), 2);
}
