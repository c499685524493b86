//! A client with its own directory. It makes seeded calls, notes the promises that it gets, and
//! checks them after an injected crash.

use super::promises::{Change, File, Names, Object, SECTOR, Value, fill};
use crate::support::wire::{Reply, Wire, place, write_args};
use nfs_proto::nfs3::{
    CommitArgs, CommitResult, CreateArgs, CreateHow, CreateResult, DirOpArgs, FileHandle, GetAttrResult, LinkArgs, LinkResult,
    MkDirArgs, NfsStatus, Path as LinkPath, Procedure, ReadArgs, ReadResult, RenameArgs, RenameResult, SetAttr, SetAttrArgs,
    StableHow, SymLinkArgs, WccResult, WriteResult, WriteVerifier,
};
use nfs_proto::rpc::Xid;
use nfs_proto::xdr::Encode;
use sim::Rng;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::path::Path;

const FILES_MAX: usize = 12;
/// Maximum size of a file, in sectors.
const SIZE_MAX: usize = 512;
/// Maximum size of one write, in sectors.
const WRITE_MAX: u64 = 48;
/// Number of last calls that are printed if something is wrong.
const LATEST: usize = 24;

/// Why a client stopped.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Its connection ended, because of the crash.
    Cut,
    /// The filer promises nothing any more, because a flush failed.
    Refused,
}

/// The client.
pub struct Lane {
    number: u64,
    rng: Rng,
    root: FileHandle,
    /// The two directories that contain its names.
    directories: [FileHandle; 2],
    files: Vec<File>,
    /// The objects of the names: first as acknowledged, then as they may be after calls that failed
    /// or got no reply.
    names: Vec<Names>,
    versions: u32,
    latest: VecDeque<String>,
    /// Number of replies so far.
    pub answers: u64,
    /// Number of replies that reported a full store.
    pub full: u64,
}

type Outcome<T> = Result<T, Stopped>;

impl Lane {
    /// Makes the client's directory.
    pub fn new(wire: &mut Wire, number: u64, rng: Rng) -> Self {
        let root = wire.root();
        let mut make = |dir, name: &str| {
            let attributes = SetAttr { mode: Some(0o750), ..SetAttr::default() };
            let args = MkDirArgs { place: place(dir, name), attributes };
            wire.nfs(Procedure::MkDir, &args).results::<CreateResult>().unwrap().object.unwrap()
        };
        let own = make(root, &format!("lane{number}"));
        let directories = [make(own, "a"), make(own, "b")];
        Self {
            number,
            rng,
            root,
            directories,
            files: Vec::new(),
            names: vec![Names::new()],
            versions: 0,
            latest: VecDeque::new(),
            answers: 0,
            full: 0,
        }
    }

    /// Makes calls until it is stopped. `answered` is called for each reply, and stops the client
    /// by returning false.
    pub fn load(&mut self, port: u16, mut answered: impl FnMut() -> bool) -> Stopped {
        let Ok(mut wire) = Wire::try_connect(port) else { return Stopped::Cut };
        wire.xid = self.rng.below(1 << 31) as u32;
        loop {
            let before = self.answers;
            if let Err(stopped) = self.step(&mut wire) {
                return stopped;
            }
            for _ in before..self.answers {
                if !answered() {
                    return Stopped::Cut;
                }
            }
        }
    }

    fn step(&mut self, wire: &mut Wire) -> Outcome<()> {
        match self.rng.below(100) {
            0..14 => self.create(wire),
            14..17 => self.make_other(wire),
            17..25 => self.remove(wire),
            25..35 => self.rename(wire),
            35..39 => self.link(wire),
            39..47 => self.set_mode(wire),
            47..53 => self.set_size(wire),
            53..85 => self.write(wire),
            _ => self.commit(wire),
        }
    }

    fn spot<'p>(&self, path: &'p str) -> DirOpArgs<'p> {
        let (dir, name) = path.split_once('/').unwrap();
        place(self.directories[usize::from(dir == "b")], name)
    }

    fn a_path(&mut self) -> String {
        format!("{}/n{}", if self.rng.chance(1, 2) { "a" } else { "b" }, self.rng.below(10))
    }

    fn a_free_path(&mut self) -> Option<String> {
        let path = self.a_path();
        (!self.names[0].contains_key(&path)).then_some(path)
    }

    fn a_name(&mut self, wanted: impl Fn(&Object) -> bool) -> Option<String> {
        let paths: Vec<_> = self.names[0].iter().filter(|(_, object)| wanted(object)).map(|(path, _)| path.clone()).collect();
        self.rng.pick(&paths).cloned()
    }

    fn a_file(&mut self) -> Option<(usize, FileHandle)> {
        let path = self.a_name(|object| matches!(object, Object::File(_)))?;
        let Object::File(file) = self.names[0][&path] else { return None };
        Some((file, self.files[file].handle?))
    }

    fn create(&mut self, wire: &mut Wire) -> Outcome<()> {
        let Some(path) = self.a_free_path() else { return Ok(()) };
        if self.names[0].len() >= FILES_MAX {
            return Ok(());
        }
        let mode = 0o600 + self.rng.below(64) as u32;
        let file = self.files.len();
        self.files.push(File::new(None, mode));
        let how = CreateHow::Guarded(SetAttr { mode: Some(mode), ..SetAttr::default() });
        let args = CreateArgs { place: self.spot(&path), how };
        let change = Change::Create { path: path.clone(), file };
        let reply = self.change(wire, Procedure::Create, &args, change, |reply| {
            reply.results::<CreateResult>().map(|ok| ok.object).map_err(|failure| failure.status)
        })?;
        if let Some(handle) = reply {
            self.files[file].handle = handle;
        }
        Ok(())
    }

    fn make_other(&mut self, wire: &mut Wire) -> Outcome<()> {
        let Some(path) = self.a_free_path() else { return Ok(()) };
        let status = |reply: &Reply| reply.results::<CreateResult>().map(drop).map_err(|failure| failure.status);
        if self.rng.chance(1, 2) {
            let attributes = SetAttr { mode: Some(0o750), ..SetAttr::default() };
            let args = MkDirArgs { place: self.spot(&path), attributes };
            self.change(wire, Procedure::MkDir, &args, Change::MakeDirectory { path: path.clone() }, status)?;
        } else {
            let target = format!("../t{}", self.rng.below(1000));
            let attributes = SetAttr::default();
            let args = SymLinkArgs { place: self.spot(&path), attributes, target: LinkPath(target.as_bytes()) };
            let change = Change::Symlink { path: path.clone(), target: target.clone() };
            self.change(wire, Procedure::SymLink, &args, change, status)?;
        }
        Ok(())
    }

    fn remove(&mut self, wire: &mut Wire) -> Outcome<()> {
        let Some(path) = self.a_name(|_| true) else { return Ok(()) };
        let directory = self.names[0][&path] == Object::Directory;
        let procedure = if directory { Procedure::RmDir } else { Procedure::Remove };
        let args = self.spot(&path);
        let change = Change::Remove { path: path.clone() };
        self.change(wire, procedure, &args, change, |reply| reply.results::<WccResult>().map(drop).map_err(|f| f.status))?;
        Ok(())
    }

    fn rename(&mut self, wire: &mut Wire) -> Outcome<()> {
        let Some(from) = self.a_name(|_| true) else { return Ok(()) };
        let to = self.a_path();
        let is_directory = |path: &String| self.names[0].get(path).map(|object| *object == Object::Directory);
        if from == to || is_directory(&to).is_some_and(|directory| Some(directory) != is_directory(&from)) {
            return Ok(());
        }
        let args = RenameArgs { from: self.spot(&from), to: self.spot(&to) };
        let change = Change::Rename { from: from.clone(), to: to.clone() };
        let status = |reply: &Reply| reply.results::<RenameResult>().map(drop).map_err(|failure| failure.status);
        self.change(wire, Procedure::Rename, &args, change, status)?;
        Ok(())
    }

    fn link(&mut self, wire: &mut Wire) -> Outcome<()> {
        let Some(from) = self.a_name(|object| matches!(object, Object::File(_))) else { return Ok(()) };
        let (Some(to), Object::File(file)) = (self.a_free_path(), self.names[0][&from].clone()) else { return Ok(()) };
        let Some(file) = self.files[file].handle else { return Ok(()) };
        let args = LinkArgs { file, link: self.spot(&to) };
        let change = Change::Link { from: from.clone(), to: to.clone() };
        let status = |reply: &Reply| reply.results::<LinkResult>().map(drop).map_err(|failure| failure.status);
        self.change(wire, Procedure::Link, &args, change, status)?;
        Ok(())
    }

    /// Makes a change of names. `None` if it was refused for lack of space.
    fn change<T>(
        &mut self,
        wire: &mut Wire,
        procedure: Procedure,
        args: &dyn Encode,
        change: Change,
        read: impl FnOnce(&Reply) -> Result<T, NfsStatus>,
    ) -> Outcome<Option<T>> {
        let after = change.apply(&self.names[0]);
        self.tell(format!("{change:?}"));
        let Ok(reply) = self.call(wire, procedure, args) else {
            self.names.push(after);
            return Err(Stopped::Cut);
        };
        match read(&reply) {
            Ok(done) => {
                // Changes that failed before were refused and not begun, because a volume that has
                // failed to flush refuses everything.
                self.names = vec![after];
                Ok(Some(done))
            }
            Err(status) => {
                self.names.push(after);
                self.refused(status)?;
                Ok(None)
            }
        }
    }

    fn set_mode(&mut self, wire: &mut Wire) -> Outcome<()> {
        let Some((file, object)) = self.a_file() else { return Ok(()) };
        let mode = 0o600 + self.rng.below(64) as u32;
        let done = self.set_attr(wire, object, SetAttr { mode: Some(mode), ..SetAttr::default() });
        match done {
            Ok(true) => self.files[file].mode = Value::new(mode),
            _ => self.files[file].mode.doubt(mode),
        }
        done.map(drop)
    }

    fn set_size(&mut self, wire: &mut Wire) -> Outcome<()> {
        let Some((file, object)) = self.a_file() else { return Ok(()) };
        let size = self.rng.index(SIZE_MAX);
        let done = self.set_attr(wire, object, SetAttr { size: Some((size * SECTOR) as u64), ..SetAttr::default() });
        match done {
            Ok(true) => self.files[file].resized(size),
            _ => self.files[file].resize_doubted(size),
        }
        done.map(drop)
    }

    /// Returns false if the call was refused for lack of space.
    fn set_attr(&mut self, wire: &mut Wire, object: FileHandle, new_attributes: SetAttr) -> Outcome<bool> {
        self.tell(format!("set mode {:?}, size {:?} of {object:?}", new_attributes.mode, new_attributes.size));
        let reply = self.call(wire, Procedure::SetAttr, &SetAttrArgs { object, new_attributes, guard: None })?;
        match reply.results::<WccResult>() {
            Ok(_) => Ok(true),
            Err(failure) => self.refused(failure.status).map(|()| false),
        }
    }

    /// Sends several writes of different sectors of a file at once.
    fn write(&mut self, wire: &mut Wire) -> Outcome<()> {
        let Some((file, handle)) = self.a_file() else { return Ok(()) };
        let count = 1 + self.rng.index(4);
        let mut calls = BTreeMap::new();
        let mut records = Vec::new();
        for nth in 0..count {
            let share = SIZE_MAX / count;
            let from = nth * share + self.rng.index(share / 2);
            let sectors = from..from + 1 + self.rng.below(WRITE_MAX.min(share as u64 / 2)) as usize;
            let stable =
                *self.rng.pick(&[StableHow::Unstable, StableHow::Unstable, StableHow::DataSync, StableHow::FileSync]).unwrap();
            self.versions += 1;
            let version = self.versions;
            let data: Vec<u8> = sectors.clone().flat_map(|nth| fill(self.key(file), nth, version)).collect();
            records.extend(wire.nfs_record(Procedure::Write, &write_args(handle, (from * SECTOR) as u64, &data, stable)));
            self.tell(format!("write {sectors:?} of file {file} version {version} {stable:?}"));
            calls.insert(wire.xid, (sectors, version, stable));
        }
        let mut outcome = wire.stream.write_all(&records).map_err(|_| Stopped::Cut);
        while outcome.is_ok() && !calls.is_empty() {
            let Ok(reply) = wire.try_receive() else {
                outcome = Err(Stopped::Cut);
                break;
            };
            let Xid(xid) = reply.header().xid;
            let (sectors, version, stable) = calls.remove(&xid).expect("an answer to one of these calls");
            self.answers += 1;
            match reply.results::<WriteResult>() {
                Ok(ok) => {
                    let written = sectors.start..sectors.start + ok.count as usize / SECTOR;
                    self.files[file].write_doubted(written.end..sectors.end, version);
                    self.files[file].written(written, version, stable != StableHow::Unstable, ok.verifier);
                    assert!(ok.committed as u32 >= stable as u32, "a weaker promise than was asked for");
                }
                Err(failure) => {
                    self.files[file].write_doubted(sectors, version);
                    outcome = self.refused(failure.status);
                }
            }
        }
        for (sectors, version, _) in calls.into_values() {
            self.files[file].write_doubted(sectors, version);
        }
        outcome
    }

    fn commit(&mut self, wire: &mut Wire) -> Outcome<()> {
        let Some((file, handle)) = self.a_file() else { return Ok(()) };
        self.tell(format!("commit file {file}"));
        let reply = self.call(wire, Procedure::Commit, &CommitArgs { file: handle, offset: 0, count: 0 })?;
        match reply.results::<CommitResult>() {
            Ok(ok) => self.files[file].committed(ok.verifier),
            Err(failure) => self.refused(failure.status)?,
        }
        Ok(())
    }

    fn call(&mut self, wire: &mut Wire, procedure: Procedure, args: &dyn Encode) -> Outcome<Reply> {
        let record = wire.nfs_record(procedure, args);
        let reply = wire.stream.write_all(&record).and_then(|()| wire.try_receive()).map_err(|_| Stopped::Cut)?;
        assert_eq!(reply.header().xid, Xid(wire.xid));
        self.answers += 1;
        Ok(reply)
    }

    /// Handles a refusal. A full store is part of the test, a filer that fails ends the load, and
    /// anything else is a fault.
    fn refused(&mut self, status: NfsStatus) -> Outcome<()> {
        match status {
            NfsStatus::NoSpc | NfsStatus::DQuot => {
                self.full += 1;
                Ok(())
            }
            NfsStatus::Io | NfsStatus::RoFs | NfsStatus::ServerFault => Err(Stopped::Refused),
            other => panic!("lane {}: {other:?} is no answer to this:\n{}", self.number, self.story()),
        }
    }

    fn tell(&mut self, what: String) {
        if self.latest.len() == LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back(what);
    }

    /// The last calls, for a message.
    pub fn story(&self) -> String {
        Vec::from_iter(self.latest.iter().cloned()).join("\n")
    }

    /// A key that distinguishes the contents of one file from those of any other.
    fn key(&self, file: usize) -> u64 {
        self.number << 56 | (file as u64) << 44
    }

    /// Compares the promises with the current state, over the wire and on the host. Returns what is
    /// wrong. Later promises build on that state.
    pub fn check(&mut self, wire: &mut Wire, export: &Path, verifier: WriteVerifier) -> Vec<String> {
        let found = self.found(wire, export);
        let fits = |names: &Names| {
            names.len() == found.len()
                && names.iter().all(|(path, object)| match (object, found.get(path)) {
                    (Object::File(file), Some(Found::File(handle))) => {
                        self.files[*file].handle.is_none_or(|known| known == *handle)
                    }
                    (Object::Directory, Some(Found::Directory)) => true,
                    (Object::Symlink(target), Some(Found::Symlink(found))) => target == found,
                    _ => false,
                })
        };
        let Some(names) = self.names.iter().find(|names| fits(names)).cloned() else {
            return vec![format!("names are {found:?}\nwhere one of these was promised: {:?}", self.names)];
        };
        let mut faults = Vec::new();
        for (path, object) in &names {
            let (Object::File(file), Some(Found::File(handle))) = (object, found.get(path)) else { continue };
            let (mode, content) = read(wire, *handle);
            let key = self.key(*file);
            let own = &mut self.files[*file];
            own.handle = Some(*handle);
            faults.extend(
                own.faults(key, mode, &content, verifier).into_iter().map(|fault| format!("{path} (file {file}): {fault}")),
            );
        }
        // Adopts the contents only after all comparisons, because a file with two names is compared twice.
        for object in names.values() {
            let Object::File(file) = object else { continue };
            let Some(handle) = self.files[*file].handle else { continue };
            let (mode, content) = read(wire, handle);
            let key = self.key(*file);
            self.files[*file].adopt(key, mode, &content);
        }
        self.names = vec![names];
        faults
    }

    /// All names from the host, with their objects from the filer.
    fn found(&self, wire: &mut Wire, export: &Path) -> BTreeMap<String, Found> {
        let mut found = BTreeMap::new();
        for (dir, handle) in ["a", "b"].into_iter().zip(self.directories) {
            let path = export.join(format!("lane{}/{dir}", self.number));
            for entry in std::fs::read_dir(path).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                let object = wire.lookup(handle, &name).unwrap_or_else(|failure| panic!("{name}: {:?}", failure.status)).object;
                let kind = entry.file_type().unwrap();
                let what = if kind.is_dir() {
                    Found::Directory
                } else if kind.is_symlink() {
                    Found::Symlink(std::fs::read_link(entry.path()).unwrap().display().to_string())
                } else {
                    Found::File(object)
                };
                found.insert(format!("{dir}/{name}"), what);
            }
        }
        assert!(wire.getattr(self.root).is_ok());
        found
    }
}

/// The object that a name is found to have.
#[derive(Debug)]
enum Found {
    File(FileHandle),
    Directory,
    Symlink(String),
}

/// Mode and contents of a file, by its handle.
fn read(wire: &mut Wire, file: FileHandle) -> (u32, Vec<u8>) {
    let attributes: GetAttrResult = wire.getattr(file);
    let mode = attributes.unwrap().attributes.mode;
    let reply = wire.nfs(Procedure::Read, &ReadArgs { file, offset: 0, count: 1 << 20 });
    let read = reply.results::<ReadResult<'_>>().unwrap();
    assert!(read.eof);
    (mode, read.data.0.to_vec())
}
