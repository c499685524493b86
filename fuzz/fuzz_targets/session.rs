//! A live session of the filer on a real folder: whatever comes, in whatever pieces, is answered or ends the
//! connection, and every answer decodes as what was asked.
//!
//! The first byte chooses: raw bytes as received, or calls whose handles are valid ones (no chance would hit their
//! MAC) with arguments from the input.
#![no_main]

#[path = "../../crates/nfs-proto/tests/every/mod.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod every;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use filer::dispatch::{Call, Served, serve_call};
use filer::exports::{Exports, View};
use filer::policy::{Door, Peer, Policy, Rights};
use filer::session::Session;
use filer::{Config, Export, Filer};
use libfuzzer_sys::fuzz_target;
use nfs_proto::nfs3::{self, FileHandle};
use nfs_proto::record::{self, Framed};
use nfs_proto::rpc::{AUTH_SYS, AuthBody, AuthSys, CallHeader, Groups, MachineName, OpaqueAuth, RPC_VERSION, Xid};
use nfs_proto::xdr::encode_to;
use volume::Volume;

/// The objects every input meets, in the served folder.
const OBJECTS: [&str; 3] = ["file", "folder", "link"];
const CALLS_MAX: usize = 32;

struct Stage {
    export: PathBuf,
    volume: Volume,
    filer: Filer,
    view: Arc<View>,
}

fuzz_target!(|input: &[u8]| {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    let stage = STAGE.get_or_init(Stage::new);
    stage.reset();
    let [kind, piece, rest @ ..] = input else { return };
    let received = if kind & 1 == 0 { rest.to_vec() } else { stage.calls(rest) };
    stage.serve(&received, usize::from(*piece).max(1) * 16);
});

impl Stage {
    fn new() -> Self {
        let base = std::env::temp_dir().join(format!("millrace-fuzz-{}", std::process::id()));
        let (export, state) = (base.join("export"), base.join("state"));
        for folder in [&export, &state] {
            fs::create_dir_all(folder).expect("make a folder");
        }
        fs::set_permissions(&export, fs::Permissions::from_mode(0o777)).expect("open it to everybody");
        let volume = Volume::open(volume::Config {
            dir: export.clone(),
            state_dir: state,
            loss: None,
            options: volume::Options::default(),
        })
        .expect("open the volume");
        let exports = Exports::one(Export::new("vol", "/vol", volume.clone()), Policy::open(Rights::default()));
        let filer = Filer::new(Config { exports, only: None, port: 2049 });
        let view = filer.view(Peer::at(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 700), Door::Nfs));
        Self { export, volume, filer, view }
    }

    /// Takes back what the input before did.
    fn reset(&self) {
        for entry in fs::read_dir(&self.export).expect("list the folder").flatten() {
            let path = entry.path();
            let _ =
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        let [file, folder, link] = OBJECTS.map(|name| self.export.join(name));
        fs::write(&file, b"eight by").expect("make the file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("open it to everybody");
        fs::create_dir(&folder).expect("make the folder");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("open it to everybody");
        std::os::unix::fs::symlink("file", &link).expect("make the link");
    }

    /// Handle of the folder itself or of one of the objects.
    fn handle(&self, which: u8) -> FileHandle {
        let volume = &self.volume;
        let root = volume.root();
        let name = OBJECTS.get(usize::from(which % 4).wrapping_sub(1));
        let node = name.map_or(Ok(root.clone()), |name| volume.lookup(&root, name.as_bytes()).map(|(node, _)| node));
        FileHandle::new(volume.handle(&node.unwrap_or(root)).as_bytes()).expect("a handle of the volume fits the wire")
    }

    /// Calls of NFS: two bytes say procedure, handle and length, then come the arguments behind the handle.
    fn calls(&self, mut input: &[u8]) -> Vec<u8> {
        let mut received = Vec::new();
        for xid in 0..CALLS_MAX {
            let [procedure, choice, rest @ ..] = input else { break };
            let (arguments, rest) = rest.split_at(rest.len().min(usize::from(choice >> 2) * 4));
            input = rest;
            let mut body = Vec::new();
            let credential =
                AuthSys { stamp: 0, machine_name: MachineName(b"fuzz"), uid: 1000, gid: 1000, gids: Groups::default() };
            let mut credential_bytes = Vec::new();
            encode_to(&credential, &mut credential_bytes);
            let header = CallHeader {
                xid: Xid(xid as u32),
                rpc_version: RPC_VERSION,
                program: nfs3::PROGRAM,
                version: nfs3::VERSION,
                procedure: u32::from(procedure % 23),
                credential: OpaqueAuth { flavor: AUTH_SYS, body: AuthBody(&credential_bytes) },
                verifier: OpaqueAuth::NONE,
            };
            encode_to(&header, &mut body);
            encode_to(&self.handle(*choice), &mut body);
            body.extend_from_slice(arguments);
            received.extend_from_slice(&(body.len() as u32 | 1 << 31).to_be_bytes());
            received.extend_from_slice(&body);
        }
        received
    }

    /// Receives in pieces and serves, as a connection does.
    fn serve(&self, mut received: &[u8], piece: usize) {
        let mut session = Session::default();
        while !received.is_empty() {
            let room = session.room();
            let taken = received.len().min(room.len()).min(piece);
            room[..taken].copy_from_slice(&received[..taken]);
            session.received(taken);
            received = &received[taken..];
            loop {
                let Ok(next) = session.next_record() else { return };
                let Some(record) = next else { break };
                let Some(call) = Call::parse(record.bytes) else { return };
                let mut out = Vec::new();
                if serve_call(&self.filer, &self.view, &call, &mut out) == Served::Close {
                    return;
                }
                check_reply(record.bytes, &mut out);
            }
        }
    }
}

/// The reply belongs to the call and its results decode as those of the procedure.
fn check_reply(call: &[u8], out: &mut [u8]) {
    let (kind, xid, _) = every::call_parts(call).expect("the filer took it for a call");
    let Framed::Record { body, consumed } = record::frame(out, usize::MAX >> 1).expect("frame the reply") else {
        panic!("the reply is not whole");
    };
    assert_eq!(consumed, out.len(), "one reply to one call");
    let (answered, results) = every::reply_parts(&out[body]).expect("decode the reply");
    assert_eq!(answered, xid);
    if !results.is_empty() {
        every::check(every::Kind { is_reply: true, ..kind }, results).expect("decode the results");
    }
}
