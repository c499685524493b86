//! What targets that drive a filer share: a volume on a folder of its own, sound calls about its objects, and a look at
//! every reply.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nfs_proto::nfs3::{self, FileHandle};
use nfs_proto::rpc::{AUTH_SYS, AuthBody, AuthSys, CallHeader, Groups, MachineName, OpaqueAuth, RPC_VERSION, Xid, encode_call};
use nfs_proto::xdr::{Encode, Writer, encode_to};
use volume::Volume;

use crate::every;

/// The objects every input meets, in the served folder.
const OBJECTS: [&str; 3] = ["file", "folder", "link"];

/// A served folder.
pub struct Stage {
    pub export: PathBuf,
    pub volume: Volume,
}

/// Bytes that are arguments already.
pub struct Raw<'a>(pub &'a [u8]);

impl Encode for Raw<'_> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.raw(self.0);
    }
}

impl Stage {
    /// A folder of this name, which nobody else uses, and its volume.
    pub fn new(name: &str) -> Self {
        let base = std::env::temp_dir().join(format!("millrace-fuzz-{}-{name}", std::process::id()));
        let (export, state) = (base.join("export"), base.join("state"));
        for folder in [&export, &state] {
            fs::create_dir_all(folder).expect("make a folder");
        }
        open_to_all(&export, 0o777);
        let config = volume::Config { dir: export.clone(), state_dir: state, loss: None, options: volume::Options::default() };
        let volume = Volume::open(config).expect("open the volume");
        Self { export, volume }
    }

    /// Takes back what the input before did.
    pub fn reset(&self) {
        for entry in fs::read_dir(&self.export).expect("list the folder").flatten() {
            let path = entry.path();
            let _ =
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        let [file, folder, link] = OBJECTS.map(|name| self.export.join(name));
        fs::write(&file, b"eight by").expect("make the file");
        open_to_all(&file, 0o666);
        fs::create_dir(&folder).expect("make the folder");
        open_to_all(&folder, 0o777);
        std::os::unix::fs::symlink("file", &link).expect("make the link");
    }

    /// Handle of the folder itself or of one of the objects.
    pub fn handle(&self, which: u8) -> FileHandle {
        match OBJECTS.get(usize::from(which % 4).wrapping_sub(1)) {
            Some(name) => self.handle_of(name),
            None => handle(&self.volume, &self.volume.root()),
        }
    }

    /// Handle of what has this name in the folder, or of the folder when nothing has.
    pub fn handle_of(&self, name: &str) -> FileHandle {
        let root = self.volume.root();
        let node = self.volume.lookup(&root, name.as_bytes()).map(|(node, _)| node);
        handle(&self.volume, &node.unwrap_or(root))
    }

    /// The record of a call of NFS about one of the objects; what follows its handle is given.
    pub fn nfs_call(&self, xid: u32, procedure: u8, which: u8, arguments: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        encode_to(&self.handle(which), &mut body);
        body.extend_from_slice(arguments);
        call(xid, nfs3::PROGRAM, nfs3::VERSION, u32::from(procedure % 23), &Raw(&body))
    }
}

/// Modes as said: what the process may make is less.
pub fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("open it to everybody");
}

fn handle(volume: &Volume, node: &volume::Node) -> FileHandle {
    FileHandle::new(volume.handle(node).as_bytes()).expect("a handle of the volume fits the wire")
}

/// The record of a call by a user.
pub fn call(xid: u32, program: u32, version: u32, procedure: u32, arguments: &dyn Encode) -> Vec<u8> {
    let caller = AuthSys { stamp: 0, machine_name: MachineName(b"fuzz"), uid: 1000, gid: 1000, gids: Groups::default() };
    let mut credential = Vec::new();
    encode_to(&caller, &mut credential);
    let header = CallHeader {
        xid: Xid(xid),
        rpc_version: RPC_VERSION,
        program,
        version,
        procedure,
        credential: OpaqueAuth { flavor: AUTH_SYS, body: AuthBody(&credential) },
        verifier: OpaqueAuth::NONE,
    };
    let mut record = Vec::new();
    encode_call(&header, arguments, &mut record);
    record
}

/// The reply belongs to the call and its results decode as those of the procedure. Both without record mark.
pub fn check_reply(call: &[u8], reply: &[u8]) {
    let (kind, xid, _) = every::call_parts(call).expect("the filer took it for a call");
    let (answered, results) = every::reply_parts(reply).expect("decode the reply");
    assert_eq!(answered, xid);
    if !results.is_empty() {
        every::check(every::Kind { is_reply: true, ..kind }, results).expect("decode the results");
    }
}
