//! Bare calls to a filer: Millrace's codec over one socket, without retries.
#![allow(clippy::result_large_err, reason = "results are those of the wire")]

use nfs_proto::mount3::{self, DirPath, MountArgs, MountResult, MountStatus};
use nfs_proto::nfs3::{
    self, CreateArgs, CreateHow, CreateResult, DirOpArgs, FileHandle, GetAttrResult, LookupResult, Name, ObjectArgs, Procedure,
    SetAttr, StableHow, WriteArgs, WriteOk, WriteResult,
};
use nfs_proto::rpc::{
    AUTH_SYS, AuthBody, AuthSys, CallHeader, Groups, MachineName, OpaqueAuth, RPC_VERSION, ReplyHeader, ReplyStatus, Xid,
    encode_call,
};
use nfs_proto::xdr::{Decode, Encode, Reader, encode_to};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// One connection, and the user of its calls.
pub struct Wire {
    pub stream: TcpStream,
    pub xid: u32,
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// A reply record.
pub struct Reply(pub Vec<u8>);

impl Reply {
    /// The status of the call, and its xid.
    pub fn header(&self) -> ReplyHeader {
        ReplyHeader::decode(&mut Reader::new(&self.0)).unwrap()
    }

    pub fn status(&self) -> ReplyStatus {
        self.header().status
    }

    /// The results of an accepted call. They must fill the record.
    pub fn results<'a, R: Decode<'a>>(&'a self) -> R {
        let mut input = Reader::new(&self.0);
        assert_eq!(ReplyHeader::decode(&mut input).unwrap().status, ReplyStatus::Success);
        let results = R::decode(&mut input).unwrap();
        input.finish().unwrap();
        results
    }

    /// The bytes after the header.
    pub fn body(&self) -> &[u8] {
        let mut input = Reader::new(&self.0);
        ReplyHeader::decode(&mut input).unwrap();
        input.rest()
    }
}

impl Wire {
    pub fn connect(port: u16) -> Self {
        Self::over(TcpStream::connect(("127.0.0.1", port)).unwrap())
    }

    pub fn try_connect(port: u16) -> std::io::Result<Self> {
        TcpStream::connect(("127.0.0.1", port)).map(Self::over)
    }

    /// Connects from 127.0.0.`host`.
    pub fn connect_from(host: u8, port: u16) -> Self {
        let stream: std::io::Result<TcpStream> = super::block_on(async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind((Ipv4Addr::new(127, 0, 0, host), 0).into())?;
            socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?.into_std()
        });
        let stream = stream.unwrap();
        stream.set_nonblocking(false).unwrap();
        Self::over(stream)
    }

    pub fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { stream, xid: 1000, uid: 0, gid: 0, groups: Vec::new() }
    }

    /// Ends the connection at once. A close would not suffice, because a child that another test
    /// starts keeps the descriptor, and so the connection, until its exec.
    pub fn reset(self) {
        rustix::net::connect_unspec(&self.stream).unwrap();
    }

    pub fn as_user(port: u16, uid: u32, gid: u32) -> Self {
        Self { uid, gid, ..Self::connect(port) }
    }

    /// The record of a call with the next xid.
    pub fn record(&mut self, program: u32, version: u32, procedure: u32, args: &dyn Encode) -> Vec<u8> {
        self.xid += 1;
        let mut body = Vec::new();
        let gids = Groups::new(&self.groups);
        encode_to(&AuthSys { stamp: 0, machine_name: MachineName(b"test"), uid: self.uid, gid: self.gid, gids }, &mut body);
        let header = CallHeader {
            xid: Xid(self.xid),
            rpc_version: RPC_VERSION,
            program,
            version,
            procedure,
            credential: OpaqueAuth { flavor: AUTH_SYS, body: AuthBody(&body) },
            verifier: OpaqueAuth::NONE,
        };
        let mut record = Vec::new();
        encode_call(&header, args, &mut record);
        record
    }

    pub fn nfs_record(&mut self, procedure: Procedure, args: &dyn Encode) -> Vec<u8> {
        self.record(nfs3::PROGRAM, nfs3::VERSION, procedure.number(), args)
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self) -> Reply {
        self.try_receive().unwrap()
    }

    pub fn try_receive(&mut self) -> std::io::Result<Reply> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        assert!(mark >> 31 == 1, "a reply in several fragments");
        let mut body = vec![0; (mark & 0x7fff_ffff) as usize];
        self.stream.read_exact(&mut body)?;
        Ok(Reply(body))
    }

    pub fn raw(&mut self, program: u32, version: u32, procedure: u32, args: &dyn Encode) -> Reply {
        let record = self.record(program, version, procedure, args);
        self.send(&record);
        let reply = self.receive();
        assert_eq!(reply.header().xid, Xid(self.xid));
        reply
    }

    pub fn nfs(&mut self, procedure: Procedure, args: &dyn Encode) -> Reply {
        self.raw(nfs3::PROGRAM, nfs3::VERSION, procedure.number(), args)
    }

    pub fn mount(&mut self, path: &str) -> Result<FileHandle, MountStatus> {
        let args = MountArgs { path: DirPath(path.as_bytes()) };
        let reply = self.raw(mount3::PROGRAM, mount3::VERSION, mount3::Procedure::Mnt.number(), &args);
        reply.results::<MountResult>().map(|ok| ok.root)
    }

    pub fn root(&mut self) -> FileHandle {
        self.mount("/vol").unwrap()
    }

    pub fn lookup(&mut self, dir: FileHandle, name: &str) -> LookupResult {
        self.nfs(Procedure::Lookup, &place(dir, name)).results()
    }

    pub fn getattr(&mut self, object: FileHandle) -> GetAttrResult {
        self.nfs(Procedure::GetAttr, &ObjectArgs { object }).results()
    }

    pub fn create_with(&mut self, dir: FileHandle, name: &str, how: CreateHow) -> CreateResult {
        self.nfs(Procedure::Create, &CreateArgs { place: place(dir, name), how }).results()
    }

    /// Makes a new file with mode 0644.
    pub fn create(&mut self, dir: FileHandle, name: &str) -> FileHandle {
        let set = SetAttr { mode: Some(0o644), ..SetAttr::default() };
        self.create_with(dir, name, CreateHow::Guarded(set)).unwrap().object.unwrap()
    }

    pub fn try_write(&mut self, file: FileHandle, offset: u64, data: &[u8], stable: StableHow) -> WriteResult {
        self.nfs(Procedure::Write, &write_args(file, offset, data, stable)).results()
    }

    pub fn write(&mut self, file: FileHandle, offset: u64, data: &[u8], stable: StableHow) -> WriteOk {
        self.try_write(file, offset, data, stable).unwrap()
    }
}

pub fn place(dir: FileHandle, name: &str) -> DirOpArgs<'_> {
    DirOpArgs { dir, name: Name(name.as_bytes()) }
}

pub fn write_args(file: FileHandle, offset: u64, data: &[u8], stable: StableHow) -> WriteArgs<'_> {
    WriteArgs { file, offset, count: data.len() as u32, stable, data: nfs3::Data(data) }
}
