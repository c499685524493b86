//! Several exports behind one filer: each call finds its own by its handle, and the rules of that one count.

#![allow(clippy::unwrap_used, clippy::result_large_err, reason = "a panic is a test's verdict; results are those of the wire")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use filer::exports::{Entry, Exports, ExportsError, View};
use filer::policy::{Client, Network, Peer, Policy, Rights, Rule, Squash};
use filer::{Config, Export, Filer, ListenerRole, dispatch};
use nfs_proto::mount3::{self, DirPath, MountArgs, MountResult, MountStatus};
use nfs_proto::nfs3::{
    self, ACCESS_EXTEND, ACCESS_MODIFY, ACCESS_READ, AccessArgs, AccessResult, CreateArgs, CreateHow, CreateResult, DirOpArgs,
    FileHandle, FsStatResult, GetAttrResult, LinkArgs, LinkResult, Name, NfsStatus, ObjectArgs, Procedure, RenameArgs,
    RenameResult, SetAttr, StableHow, WriteArgs, WriteResult,
};
use nfs_proto::record;
use nfs_proto::rpc::{
    AUTH_SYS, AuthBody, AuthSys, CallHeader, Groups, MachineName, OpaqueAuth, RPC_VERSION, ReplyHeader, ReplyStatus, Xid,
    encode_call,
};
use nfs_proto::xdr::{Decode, Encode, Reader, encode_to};
use volume::Volume;

/// A filer on folders of its own.
struct Stage {
    filer: Filer,
    _folders: tempfile::TempDir,
}

/// A client of it.
struct Caller<'a> {
    filer: &'a Filer,
    view: Arc<View>,
    uid: u32,
    xid: u32,
}

impl Stage {
    /// Exports `/NAME` of these names and rules.
    fn new(exports: Vec<(&str, Policy)>) -> Self {
        let folders = tempfile::tempdir().unwrap();
        let entry = |(name, policy): (&str, Policy)| {
            let export = Export::new(name, &format!("/{name}"), open(folders.path(), name));
            Entry { export: Arc::new(export), policy }
        };
        let exports = Exports::new(exports.into_iter().map(entry).collect()).unwrap();
        Self { filer: Filer::new(Config { exports, only: None, port: 2049 }), _folders: folders }
    }

    fn client(&self, address: &str, uid: u32) -> Caller<'_> {
        let address: SocketAddr = address.parse().unwrap();
        Caller { filer: &self.filer, view: self.filer.view(Peer::at(address, ListenerRole::Nfs)), uid, xid: uid * 1000 }
    }
}

fn open(folders: &std::path::Path, name: &str) -> Volume {
    let dir = folders.join(name);
    std::fs::create_dir(&dir).unwrap();
    Volume::open(volume::Config {
        dir,
        state_dir: folders.join(format!("{name}-state")),
        loss: None,
        options: volume::Options::default(),
    })
    .unwrap()
}

impl Caller<'_> {
    fn raw(&mut self, program: u32, version: u32, procedure: u32, args: &dyn Encode) -> Vec<u8> {
        self.xid += 1;
        let mut body = Vec::new();
        let (uid, gids) = (self.uid, Groups::default());
        encode_to(&AuthSys { stamp: 0, machine_name: MachineName(b"test"), uid, gid: uid, gids }, &mut body);
        let header = CallHeader {
            xid: Xid(self.xid),
            rpc_version: RPC_VERSION,
            program,
            version,
            procedure,
            credential: OpaqueAuth { flavor: AUTH_SYS, body: AuthBody(&body) },
            verifier: OpaqueAuth::NONE,
        };
        let (mut call, mut reply) = (Vec::new(), Vec::new());
        encode_call(&header, args, &mut call);
        let _ = dispatch::serve(self.filer, &self.view, &call[record::MARK_BYTES..], &mut reply);
        reply.split_off(record::MARK_BYTES)
    }

    fn nfs(&mut self, procedure: Procedure, args: &dyn Encode) -> Vec<u8> {
        self.raw(nfs3::PROGRAM, nfs3::VERSION, procedure.number(), args)
    }

    fn mount(&mut self, path: &str) -> Result<FileHandle, MountStatus> {
        let args = MountArgs { path: DirPath(path.as_bytes()) };
        let reply = self.raw(mount3::PROGRAM, mount3::VERSION, mount3::Procedure::Mnt.number(), &args);
        results::<MountResult>(&reply).map(|ok| ok.root)
    }

    fn create(&mut self, dir: FileHandle, name: &str) -> Result<FileHandle, NfsStatus> {
        let how = CreateHow::Guarded(SetAttr::default());
        let reply = self.nfs(Procedure::Create, &CreateArgs { place: place(dir, name), how });
        results::<CreateResult>(&reply).map(|ok| ok.object.unwrap()).map_err(|failure| failure.status)
    }

    fn getattr(&mut self, object: FileHandle) -> Result<nfs3::Fattr, NfsStatus> {
        let reply = self.nfs(Procedure::GetAttr, &ObjectArgs { object });
        results::<GetAttrResult>(&reply).map(|ok| ok.attributes).map_err(|failure| failure.status)
    }

    fn write(&mut self, file: FileHandle) -> Result<u32, NfsStatus> {
        let (stable, data) = (StableHow::FileSync, nfs3::Data(b"four"));
        let reply = self.nfs(Procedure::Write, &WriteArgs { file, offset: 0, count: 4, stable, data });
        results::<WriteResult>(&reply).map(|ok| ok.count).map_err(|failure| failure.status)
    }
}

fn results<'a, R: Decode<'a>>(reply: &'a [u8]) -> R {
    let mut input = Reader::new(reply);
    assert_eq!(ReplyHeader::decode(&mut input).unwrap().status, ReplyStatus::Success);
    let results = R::decode(&mut input).unwrap();
    input.finish().unwrap();
    results
}

fn place(dir: FileHandle, name: &str) -> DirOpArgs<'_> {
    DirOpArgs { dir, name: Name(name.as_bytes()) }
}

fn everybody(rights: Rights) -> Policy {
    Policy::open(rights)
}

fn root() -> Rights {
    Rights { squash: Squash::None, ..Rights::default() }
}

/// Rights for one address only.
fn only(address: &str, rights: Rights) -> Policy {
    let networks = vec![Network::of(address.parse().unwrap())];
    Policy { rules: vec![Rule { clients: vec![Client { written: address.into(), networks }], rights }] }
}

const HERE: &str = "10.0.0.1:700";

#[test]
fn each_export_is_mounted_by_its_path_and_its_handles_lead_to_it() {
    let names: Vec<String> = (0..40).map(|n| format!("volume{n}")).collect();
    let stage = Stage::new(names.iter().map(|name| (name.as_str(), everybody(root()))).collect());
    // Among 40 volumes two have one tag, most probably: what is said below holds for these too.
    let tags: HashMap<u8, usize> = stage.filer.exports().entries().iter().fold(HashMap::new(), |mut tags, entry| {
        *tags.entry(entry.export.volume().tag()).or_default() += 1;
        tags
    });
    let mut client = stage.client(HERE, 0);
    let mut file_systems = Vec::new();
    for name in &names {
        let dir = client.mount(&format!("/{name}")).unwrap();
        let file = client.create(dir, name).unwrap();
        assert_eq!(client.write(file), Ok(4), "{tags:?}");
        file_systems.push(client.getattr(file).unwrap().fsid);
    }
    file_systems.sort_unstable();
    file_systems.dedup();
    assert_eq!(file_systems.len(), names.len(), "each has its own fsid");
    for entry in stage.filer.exports().entries() {
        let volume = entry.export.volume();
        assert!(volume.lookup(&volume.root(), entry.export.name().as_bytes()).is_ok(), "written in its own folder");
        assert_eq!(entry.export.stats().procedures()["WRITE"].calls, 1);
    }
    assert_eq!(stage.filer.procedures()["WRITE"].calls, 40);
}

#[test]
fn a_handle_that_no_volume_made_is_bad_and_counted_to_none() {
    let stage = Stage::new(vec![("one", everybody(root())), ("other", everybody(root()))]);
    let mut client = stage.client(HERE, 0);
    let made = client.mount("/one").unwrap();
    let mut forged = made.as_bytes().to_vec();
    *forged.last_mut().unwrap() ^= 1;
    for bytes in [&forged[..], &[], &[1; 56]] {
        assert_eq!(client.getattr(FileHandle::new(bytes).unwrap()), Err(NfsStatus::BadHandle));
    }
}

#[test]
fn rename_and_link_do_not_cross_from_one_export_to_another() {
    let stage = Stage::new(vec![("one", everybody(root())), ("other", everybody(root()))]);
    let mut client = stage.client(HERE, 0);
    let (one, other) = (client.mount("/one").unwrap(), client.mount("/other").unwrap());
    let file = client.create(one, "file").unwrap();
    let reply = client.nfs(Procedure::Rename, &RenameArgs { from: place(one, "file"), to: place(other, "file") });
    assert_eq!(results::<RenameResult>(&reply).unwrap_err().status, NfsStatus::XDev);
    let reply = client.nfs(Procedure::Link, &LinkArgs { file, link: place(other, "file") });
    assert_eq!(results::<LinkResult>(&reply).unwrap_err().status, NfsStatus::XDev);
    let reply = client.nfs(Procedure::Rename, &RenameArgs { from: place(one, "file"), to: place(one, "renamed") });
    assert!(results::<RenameResult>(&reply).is_ok());
}

#[test]
fn who_is_named_by_no_rule_gets_neither_mount_nor_use_of_a_handle_from_elsewhere() {
    let stage = Stage::new(vec![("open", everybody(root())), ("closed", only("10.0.0.1", root()))]);
    let (mut friend, mut stranger) = (stage.client(HERE, 0), stage.client("10.0.0.2:700", 0));
    let dir = friend.mount("/closed").unwrap();
    let file = friend.create(dir, "file").unwrap();
    assert_eq!(stranger.mount("/closed"), Err(MountStatus::Acces));
    assert_eq!(stranger.mount("/closed/missing"), Err(MountStatus::Acces), "not even what is there is told");
    assert_eq!(stranger.getattr(dir), Err(NfsStatus::Acces));
    assert_eq!(stranger.write(file), Err(NfsStatus::Acces));
    assert_eq!(stranger.create(dir, "another"), Err(NfsStatus::Acces));
    let reply = stranger.nfs(Procedure::FsStat, &ObjectArgs { object: dir });
    assert_eq!(results::<FsStatResult>(&reply).unwrap_err().status, NfsStatus::Acces);
    assert!(stranger.mount("/open").is_ok());
    assert_eq!(friend.write(file), Ok(4));
}

#[test]
fn a_read_only_export_is_read_and_nothing_more() {
    let ro = Rights { read_only: true, ..root() };
    let rules = vec![only("10.0.0.1", root()).rules.remove(0), everybody(ro).rules.remove(0)];
    let stage = Stage::new(vec![("data", Policy { rules }), ("other", everybody(root()))]);
    let (mut writer, mut reader) = (stage.client(HERE, 0), stage.client("10.0.0.2:700", 0));
    let dir = writer.mount("/data").unwrap();
    let file = writer.create(dir, "file").unwrap();
    assert_eq!(reader.mount("/data"), Ok(dir));
    assert!(reader.getattr(file).is_ok());
    assert_eq!(reader.write(file), Err(NfsStatus::RoFs));
    assert_eq!(reader.create(dir, "another"), Err(NfsStatus::RoFs));
    let asked = ACCESS_READ | ACCESS_MODIFY | ACCESS_EXTEND;
    let granted = |client: &mut Caller<'_>| {
        let reply = client.nfs(Procedure::Access, &AccessArgs { object: file, access: asked });
        results::<AccessResult>(&reply).unwrap().access
    };
    assert_eq!((granted(&mut reader), granted(&mut writer)), (ACCESS_READ, asked));
    let other = reader.mount("/other").unwrap();
    assert!(reader.create(other, "file").is_ok(), "the rules of one export are not those of the other");
}

#[test]
fn squashed_callers_own_what_they_make_as_the_anonymous_user_of_the_export() {
    let rights = |squash| Rights { squash, anonymous_uid: 7001, anonymous_gid: 7002, ..Rights::default() };
    let stage = Stage::new(vec![
        ("root", everybody(rights(Squash::Root))),
        ("all", everybody(rights(Squash::All))),
        ("none", everybody(rights(Squash::None))),
    ]);
    if !std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0) {
        return sim::skip_unsupported("only root can set owners of others");
    }
    for entry in stage.filer.exports().entries() {
        let volume = entry.export.volume();
        let open = volume::SetAttr { mode: Some(0o777), ..volume::SetAttr::default() };
        volume.set_attr(&volume.root(), &open, None).unwrap();
    }
    let owners = |uid: u32, path: &str| {
        let mut client = stage.client(HERE, uid);
        let dir = client.mount(path).unwrap();
        let file = client.create(dir, &format!("file{uid}")).unwrap();
        let made = client.getattr(file).unwrap();
        (made.uid, made.gid)
    };
    assert_eq!([owners(0, "/root"), owners(500, "/root")], [(7001, 7002), (500, 500)]);
    assert_eq!([owners(0, "/all"), owners(500, "/all")], [(7001, 7002), (7001, 7002)]);
    assert_eq!([owners(0, "/none"), owners(500, "/none")], [(0, 0), (500, 500)]);
}

#[test]
fn a_port_that_anybody_may_take_is_refused_where_privilege_is_asked_for() {
    let stage = Stage::new(vec![("data", everybody(Rights { privileged_ports: true, ..root() }))]);
    let dir = stage.client("10.0.0.1:1023", 0).mount("/data").unwrap();
    let mut other = stage.client("10.0.0.1:1024", 0);
    assert_eq!(other.mount("/data"), Err(MountStatus::Perm));
    assert_eq!(other.getattr(dir), Err(NfsStatus::Perm));
}

#[test]
fn export_lists_paths_with_the_clients_as_their_rules_name_them() {
    let stage = Stage::new(vec![("open", everybody(root())), ("closed", only("10.0.0.1", root()))]);
    let reply = stage.client("10.0.0.9:700", 0).raw(mount3::PROGRAM, mount3::VERSION, mount3::Procedure::Export.number(), &());
    let mut input = Reader::new(&reply);
    ReplyHeader::decode(&mut input).unwrap();
    let listed = mount3::decode_exports(&mut input).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let listed: Vec<(String, Vec<String>)> =
        listed.iter().map(|(path, groups)| (text(path.0), groups.iter().map(|group| text(group.0)).collect())).collect();
    assert_eq!(listed, [("/open".into(), vec![]), ("/closed".into(), vec!["10.0.0.1".into()])]);
}

#[test]
fn of_exports_below_each_other_the_deepest_is_mounted() {
    let folders = tempfile::tempdir().unwrap();
    let entry = |name: &str, path: &str| {
        let export = Export::new(name, path, open(folders.path(), name));
        Entry { export: Arc::new(export), policy: everybody(root()) }
    };
    let exports = Exports::new(vec![entry("outer", "/srv"), entry("inner", "/srv/db/")]).unwrap();
    let filer = Filer::new(Config { exports, only: None, port: 2049 });
    let view = filer.view(Peer::at(HERE.parse().unwrap(), ListenerRole::Nfs));
    let mut client = Caller { filer: &filer, view, uid: 0, xid: 0 };
    let (outer, inner) = (client.mount("/srv").unwrap(), client.mount("//srv/db").unwrap());
    assert_ne!(outer, inner);
    assert_eq!(client.mount("/srv/other"), Err(MountStatus::NoEnt));
    assert_eq!(client.mount("/"), Err(MountStatus::NoEnt));
    assert_eq!(client.mount("/srv/db/../.."), Err(MountStatus::Inval));
    let exports = filer.exports();
    let again = |name: &str, path: &str| {
        let export = Export::new(name, path, exports.entries()[0].export.volume().clone());
        Exports::new(vec![exports.entries()[1].clone(), Entry { export: Arc::new(export), policy: everybody(root()) }]).err()
    };
    assert_eq!(again("inner", "/x"), Some(ExportsError::Name("inner".into())));
    assert_eq!(again("x", "/srv//db"), Some(ExportsError::Path("/srv//db".into())));
    assert_eq!(Exports::new(Vec::new()).err(), Some(ExportsError::Empty));
}
