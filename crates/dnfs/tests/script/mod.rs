//! A small NFS server in a thread, that does to its replies what a test asks for: drop, cut, shuffle, split, spoil.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::result_large_err,
    clippy::too_many_lines,
    reason = "test support: each test uses a part of it, and a broken script fails the test"
)]

use dnfs::{Client, Credentials, MountParts, NfsUrl};
use nfs_proto::nfs3::*;
use nfs_proto::record::{self, Framed};
use nfs_proto::rpc::{CallHeader, Groups, ReplyHeader, ReplyStatus, Xid, encode_reply};
use nfs_proto::xdr::{Decode, Encode, Reader, Writer};
use sim::Rng;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What happens to one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The call is done, the connection ends without the reply.
    Lose,
    /// The call is not even looked at, the connection ends.
    Ignore,
    /// The call is not looked at, nor is any other with its xid; the connection stays.
    Swallow,
    /// As `Ignore`, and the server has another verifier afterwards.
    Reboot,
    /// So many bytes of the reply, then the end.
    Cut(usize),
    /// The reply in fragments of that many bytes.
    Split(usize),
    /// So many bytes at a time, each in a segment of its own.
    Drip(usize),
    /// A reply to a call nobody made, then the reply.
    Stray,
    /// A spoiled word at this offset of the record.
    Spoil(usize),
    /// NFS3ERR_JUKEBOX instead of doing it.
    JukeBox,
    /// Without attributes.
    Bare,
    /// Half of the bytes asked for.
    Short,
}

/// Which fault befalls a reply: by procedure and how many replies there were.
pub type Plan = Box<dyn FnMut(Procedure, u64) -> Fault + Send>;

/// A call that came: how it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    pub procedure: Procedure,
    pub xid: Xid,
    /// Of the client.
    pub port: u16,
    pub at: Instant,
    /// The connections that had ended by then.
    pub ended: u64,
}

/// One object of the server.
#[derive(Clone, Debug)]
pub struct Object {
    pub kind: FileType,
    /// As given to the call that made it.
    pub atime: NfsTime,
    pub data: Vec<u8>,
    pub target: Vec<u8>,
    pub nlink: u32,
}

/// Everything the server holds; one directory, its own handle 1.
pub struct State {
    pub objects: BTreeMap<u64, Object>,
    pub names: BTreeMap<Vec<u8>, u64>,
    next: u64,
    plan: Plan,
    pub replies: u64,
    pub verifier: WriteVerifier,
    /// All calls of NFS, in the order they came.
    pub sendings: Vec<Sending>,
    swallowed: Vec<Xid>,
    ended: u64,
    /// Whether objects keep the access time that they are given.
    pub keeps_atime: bool,
    /// Directory cookies lead in a circle.
    pub listing_goes_round: bool,
}

pub struct Server {
    pub address: SocketAddr,
    pub state: Arc<Mutex<State>>,
    pub connections: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Server {
    pub fn start(seed: u64, plan: Plan) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let root = Object { kind: FileType::Directory, atime: NfsTime::default(), data: vec![], target: vec![], nlink: 2 };
        let objects = BTreeMap::from([(1, root)]);
        let state = State {
            objects,
            names: BTreeMap::new(),
            next: 2,
            plan,
            replies: 0,
            verifier: WriteVerifier([1; 8]),
            sendings: vec![],
            swallowed: vec![],
            ended: 0,
            keeps_atime: true,
            listing_goes_round: false,
        };
        let state = Arc::new(Mutex::new(state));
        let (stop, connections) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (shared, stopped, counted) = (Arc::clone(&state), Arc::clone(&stop), Arc::clone(&connections));
        std::thread::spawn(move || {
            let mut rng = Rng::new(seed);
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                counted.fetch_add(1, Ordering::Relaxed);
                let (state, rng) = (Arc::clone(&shared), rng.fork());
                std::thread::spawn(move || serve(stream.unwrap(), &state, rng));
            }
        });
        Self { address, state, connections, stop }
    }

    pub fn file(&self, name: &[u8], data: &[u8]) -> dnfs::FileHandle {
        let mut state = self.state.lock().unwrap();
        let atime = NfsTime::default();
        let id = state.add(name, Object { kind: FileType::Regular, atime, data: data.to_vec(), target: vec![], nlink: 1 });
        handle(id)
    }

    pub fn client(&self, options: &str) -> Client {
        let url: NfsUrl = format!("nfs://{}/x?{options}", self.address).parse().unwrap();
        let parts = MountParts {
            server: self.address,
            addresses: dnfs::AddressSet::default(),
            root: handle(1),
            rtmax: url.options.read_bytes_max,
            wtmax: 1 << 20,
            wtpref: 1 << 20,
            dtpref: 65536,
            fsid: 1,
            host: 0,
        };
        let who = Credentials { uid: 1, gid: 1, groups: Groups::default(), machine: b"test".to_vec() };
        Client::from_parts(parts, &url, &who).unwrap()
    }

    pub fn plan(&self, plan: Plan) {
        self.state.lock().unwrap().plan = plan;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// A plan of one fault for the first reply to this procedure.
pub fn once(procedure: Procedure, fault: Fault) -> Plan {
    let mut done = false;
    Box::new(move |asked, _| if asked == procedure && !std::mem::replace(&mut done, true) { fault } else { Fault::None })
}

pub fn handle(id: u64) -> dnfs::FileHandle {
    dnfs::FileHandle::new(wire_handle(id).as_bytes()).unwrap()
}

fn wire_handle(id: u64) -> FileHandle {
    FileHandle::new(&[&id.to_be_bytes()[..], &[7; 20]].concat()).unwrap()
}

/// Answers calls until the connection ends; calls that came together are answered in any order.
fn serve(mut stream: TcpStream, state: &Mutex<State>, mut rng: Rng) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        let Ok(bytes @ 1..) = stream.read(&mut chunk) else {
            state.lock().unwrap().ended += 1;
            return;
        };
        buffer.extend_from_slice(&chunk[..bytes]);
        let mut calls = Vec::new();
        while let Framed::Record { body, consumed } = record::frame(&mut buffer, 2 << 20).unwrap() {
            calls.push(buffer[body].to_vec());
            buffer.drain(..consumed);
        }
        while !calls.is_empty() {
            let call = calls.swap_remove(rng.index(calls.len()));
            if !answer(&mut stream, state, &call) {
                return;
            }
        }
    }
}

fn answer(stream: &mut TcpStream, state: &Mutex<State>, call: &[u8]) -> bool {
    let mut input = Reader::new(call);
    let header = CallHeader::decode(&mut input).unwrap();
    if header.program != PROGRAM {
        let mut refusal = Vec::new();
        encode_reply(&ReplyHeader { xid: header.xid, status: ReplyStatus::ProgramUnavailable }, &(), &mut refusal);
        return stream.write_all(&refusal).is_ok();
    }
    let procedure = Procedure::from_number(header.procedure).unwrap();
    let (fault, mut reply) = {
        let mut state = state.lock().unwrap();
        let count = state.replies;
        state.replies += 1;
        if procedure != Procedure::Null {
            let (port, ended) = (stream.peer_addr().map_or(0, |peer| peer.port()), state.ended);
            state.sendings.push(Sending { procedure, xid: header.xid, port, at: Instant::now(), ended });
        }
        if state.swallowed.contains(&header.xid) {
            return true;
        }
        let fault = (state.plan)(procedure, count);
        if fault == Fault::Swallow {
            state.swallowed.push(header.xid);
            return true;
        }
        if fault == Fault::Reboot {
            state.verifier = WriteVerifier([9; 8]);
        }
        if matches!(fault, Fault::Ignore | Fault::Reboot) {
            return false;
        }
        (fault, state.reply(header.xid, procedure, &mut input, fault))
    };
    match fault {
        Fault::Lose => return false,
        Fault::Cut(at) => {
            let _ = stream.write_all(&reply[..at.min(reply.len())]);
            return at >= reply.len();
        }
        Fault::Split(bytes) => {
            let body = reply.split_off(4);
            let last = body.len().div_ceil(bytes) - 1;
            let parts = body.chunks(bytes).enumerate().flat_map(|(index, part)| {
                let mark = part.len() as u32 | if index == last { record::LAST_FRAGMENT } else { 0 };
                [&mark.to_be_bytes(), part].concat()
            });
            reply = parts.collect();
        }
        Fault::Spoil(at) => {
            let at = at / 4 * 4 % reply.len();
            reply[at..at + 4].copy_from_slice(&0xdead_beef_u32.to_be_bytes());
        }
        Fault::Stray => {
            let mut stray = Vec::new();
            encode_reply(&ReplyHeader { xid: Xid(header.xid.0 ^ 0x8000_0000), status: ReplyStatus::Success }, &7u32, &mut stray);
            reply.splice(0..0, stray);
        }
        Fault::Drip(bytes) => return reply.chunks(bytes).all(|part| stream.write_all(part).is_ok()),
        _ => {}
    }
    stream.write_all(&reply).is_ok()
}

fn reply_of<O: Encode, F: Encode>(xid: Xid, outcome: &Outcome<O, F>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_reply(&ReplyHeader { xid, status: ReplyStatus::Success }, outcome, &mut out);
    out
}

impl State {
    pub fn add(&mut self, name: &[u8], object: Object) -> u64 {
        let id = self.next;
        self.next += 1;
        self.objects.insert(id, object);
        self.names.insert(name.to_vec(), id);
        id
    }

    fn attributes(&self, id: u64) -> Fattr {
        let object = &self.objects[&id];
        let time = NfsTime::default();
        let atime = if self.keeps_atime { object.atime } else { time };
        Fattr {
            kind: object.kind,
            mode: 0o644,
            nlink: object.nlink,
            uid: 1,
            gid: 1,
            size: object.data.len() as u64,
            used: 0,
            rdev: SpecData::default(),
            fsid: 1,
            fileid: id,
            atime,
            mtime: time,
            ctime: time,
        }
    }

    fn reply(&mut self, xid: Xid, procedure: Procedure, input: &mut Reader<'_>, fault: Fault) -> Vec<u8> {
        let refused = |status| Err::<(), _>(Failure { status, body: WccData::default() });
        if fault == Fault::JukeBox {
            return match procedure {
                Procedure::Read => reply_of::<(), _>(xid, &Err(Failure { status: NfsStatus::JukeBox, body: None::<Fattr> })),
                _ => reply_of(xid, &refused(NfsStatus::JukeBox)),
            };
        }
        match procedure {
            Procedure::Read => self.read(xid, &ReadArgs::decode(input).unwrap(), fault),
            Procedure::Write => self.write(xid, &WriteArgs::decode(input).unwrap(), fault),
            Procedure::Commit => reply_of::<_, WccData>(xid, &Ok(CommitOk { wcc: WccData::default(), verifier: self.verifier })),
            Procedure::GetAttr => {
                let id = id_of(&ObjectArgs::decode(input).unwrap().object);
                reply_of::<_, ()>(xid, &Ok(GetAttrOk { attributes: self.attributes(id) }))
            }
            Procedure::Lookup => {
                let args = DirOpArgs::decode(input).unwrap();
                match self.names.get(args.name.0) {
                    Some(&id) => {
                        let attributes = Some(self.attributes(id)).filter(|_| fault != Fault::Bare);
                        let ok = LookupOk { object: wire_handle(id), attributes, dir_attributes: None };
                        reply_of::<_, PostOpAttr>(xid, &Ok(ok))
                    }
                    None => reply_of::<(), PostOpAttr>(xid, &Err(Failure { status: NfsStatus::NoEnt, body: None })),
                }
            }
            Procedure::Null => {
                let mut out = Vec::new();
                encode_reply(&ReplyHeader { xid, status: ReplyStatus::Success }, &(), &mut out);
                out
            }
            Procedure::SetAttr => reply_of::<_, WccData>(xid, &Ok(WccData::default())),
            Procedure::Access => reply_of::<_, PostOpAttr>(xid, &Ok(AccessOk { attributes: None, access: 0x3f })),
            Procedure::FsStat => reply_of::<_, PostOpAttr>(xid, &Ok(fsstat())),
            Procedure::ReadDir => self.list(xid, ReadDirArgs::decode(input).unwrap().cookie, false),
            Procedure::ReadDirPlus => self.list(xid, ReadDirPlusArgs::decode(input).unwrap().cookie, true),
            Procedure::ReadLink => {
                let id = id_of(&ObjectArgs::decode(input).unwrap().object);
                let target = Path(&self.objects[&id].target);
                reply_of::<_, PostOpAttr>(xid, &Ok(ReadLinkOk { attributes: None, target }))
            }
            Procedure::Create => {
                let args = CreateArgs::decode(input).unwrap();
                let (CreateHow::Unchecked(set) | CreateHow::Guarded(set)) = &args.how else { panic!("EXCLUSIVE") };
                let take = matches!(args.how, CreateHow::Unchecked(_));
                self.make(xid, args.place.name.0, (FileType::Regular, set), b"", take)
            }
            Procedure::MkDir => {
                let args = MkDirArgs::decode(input).unwrap();
                self.make(xid, args.place.name.0, (FileType::Directory, &args.attributes), b"", false)
            }
            Procedure::SymLink => {
                let args = SymLinkArgs::decode(input).unwrap();
                self.make(xid, args.place.name.0, (FileType::SymLink, &args.attributes), args.target.0, false)
            }
            Procedure::MkNod => {
                let args = MkNodArgs::decode(input).unwrap();
                let NodeData::Pipe(kind, set) = &args.what else { panic!("{:?}", args.what) };
                self.make(xid, args.place.name.0, (*kind, set), b"", false)
            }
            Procedure::Remove | Procedure::RmDir => {
                let args = DirOpArgs::decode(input).unwrap();
                match self.names.remove(args.name.0) {
                    Some(_) => reply_of::<_, WccData>(xid, &Ok(WccData::default())),
                    None => reply_of(xid, &refused(NfsStatus::NoEnt)),
                }
            }
            Procedure::Rename => {
                let args = RenameArgs::decode(input).unwrap();
                match self.names.remove(args.from.name.0) {
                    Some(id) => {
                        self.names.insert(args.to.name.0.to_vec(), id);
                        reply_of::<_, RenameWcc>(xid, &Ok(RenameWcc::default()))
                    }
                    None => reply_of::<(), _>(xid, &Err(Failure { status: NfsStatus::NoEnt, body: RenameWcc::default() })),
                }
            }
            Procedure::Link => {
                let args = LinkArgs::decode(input).unwrap();
                if self.names.contains_key(args.link.name.0) {
                    let body = LinkWcc::default();
                    return reply_of::<(), _>(xid, &Err(Failure { status: NfsStatus::Exist, body }));
                }
                self.names.insert(args.link.name.0.to_vec(), id_of(&args.file));
                reply_of::<_, LinkWcc>(xid, &Ok(LinkWcc::default()))
            }
            other => panic!("{other:?} is not in the script"),
        }
    }

    /// One name, `x`, in each reply: after the second comes the end, or the first again.
    fn list(&self, xid: Xid, cookie: u64, plus: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let eof = cookie == 2 && !self.listing_goes_round;
        let next = if eof { None } else { Some(cookie % 2 + 1) };
        let mut words = vec![0, 0, 0, 0]; // NFS3_OK, no attributes, the cookie verifier
        if let Some(next) = next {
            words.extend([1, 0, 7, 1, u32::from_be_bytes(*b"x\0\0\0"), 0, next as u32]); // number, name, cookie
            words.extend(if plus { &[0, 0][..] } else { &[] }); // neither attributes nor handle
        }
        words.extend([0, u32::from(eof)]);
        encode_reply(&ReplyHeader { xid, status: ReplyStatus::Success }, &Words(words), &mut out);
        out
    }

    fn make(&mut self, xid: Xid, name: &[u8], (kind, set): (FileType, &SetAttr), target: &[u8], take: bool) -> Vec<u8> {
        let atime = if let SetTime::Client(given) = set.atime { given } else { NfsTime::default() };
        let id = match self.names.get(name) {
            Some(&id) if take => id,
            Some(_) => {
                return reply_of::<(), _>(xid, &Err(Failure { status: NfsStatus::Exist, body: WccData::default() }));
            }
            None => self.add(name, Object { kind, atime, data: vec![], target: target.to_vec(), nlink: 1 }),
        };
        let attributes = Some(self.attributes(id));
        reply_of::<_, WccData>(xid, &Ok(CreateOk { object: Some(wire_handle(id)), attributes, dir_wcc: WccData::default() }))
    }

    fn read(&self, xid: Xid, args: &ReadArgs, fault: Fault) -> Vec<u8> {
        let id = id_of(&args.file);
        let data = &self.objects[&id].data;
        let start = (args.offset as usize).min(data.len());
        let asked = if fault == Fault::Short { args.count.div_ceil(2) } else { args.count } as usize;
        let end = (start + asked).min(data.len());
        let attributes = Some(self.attributes(id)).filter(|_| fault != Fault::Bare);
        let count = (end - start) as u32;
        reply_of::<_, PostOpAttr>(xid, &Ok(ReadOk { attributes, count, eof: end == data.len(), data: Data(&data[start..end]) }))
    }

    fn write(&mut self, xid: Xid, args: &WriteArgs<'_>, fault: Fault) -> Vec<u8> {
        let bytes = if fault == Fault::Short { args.data.0.len().div_ceil(2) } else { args.data.0.len() };
        let data = &mut self.objects.get_mut(&id_of(&args.file)).unwrap().data;
        let end = args.offset as usize + bytes;
        if data.len() < end && bytes > 0 {
            data.resize(end, 0);
        }
        if bytes > 0 {
            data[args.offset as usize..end].copy_from_slice(&args.data.0[..bytes]);
        }
        let ok = WriteOk { wcc: WccData::default(), count: bytes as u32, committed: args.stable, verifier: self.verifier };
        reply_of::<_, WccData>(xid, &Ok(ok))
    }
}

/// Words as they are.
struct Words(Vec<u32>);

impl Encode for Words {
    fn encode(&self, out: &mut Writer<'_>) {
        self.0.iter().for_each(|word| word.encode(out));
    }
}

fn fsstat() -> FsStatOk {
    FsStatOk {
        attributes: None,
        total_bytes: 1,
        free_bytes: 1,
        available_bytes: 1,
        total_files: 1,
        free_files: 1,
        available_files: 1,
        invariant_seconds: 0,
    }
}

fn id_of(handle: &FileHandle) -> u64 {
    u64::from_be_bytes(handle.as_bytes()[..8].try_into().unwrap())
}
