//! Every procedure of NFS version 3, MOUNT and portmap against a running filer: what it grants, and
//! what it refuses.

use crate::support::Scratch;
use crate::support::filer::Filer;
use crate::support::wire::{Wire, place, write_args};
use nfs_proto::mount3::{self, DirPath, MountArgs, MountStatus};
use nfs_proto::nfs3::{
    ACCESS_READ, AccessArgs, AccessResult, CommitArgs, CommitResult, CookieVerifier, CreateHow, CreateResult, CreateVerifier,
    Data, FileHandle, FileType, FsInfoResult, FsStatResult, LinkArgs, LinkResult, MkDirArgs, MkNodArgs, NfsStatus, NfsTime,
    NodeData, ObjectArgs, Path, PathConfResult, Procedure, ReadArgs, ReadDirArgs, ReadDirPlusArgs, ReadDirPlusResult,
    ReadDirResult, ReadLinkResult, ReadResult, RenameArgs, RenameResult, SetAttr, SetAttrArgs, StableHow, SymLinkArgs, WccResult,
    WriteArgs,
};
use nfs_proto::nlm4;
use nfs_proto::portmap2::{self, IPPROTO_TCP, Mapping};
use nfs_proto::rpc::{AuthStat, ReplyStatus};
use nfs_proto::xdr::{Encode, Reader, Writer, decode_all};
use std::collections::BTreeSet;

const NONE: SetAttr = SetAttr {
    mode: None,
    uid: None,
    gid: None,
    size: None,
    atime: nfs_proto::nfs3::SetTime::DontChange,
    mtime: nfs_proto::nfs3::SetTime::DontChange,
};

/// Bytes that are not the arguments of any procedure.
struct Garbage;

impl Encode for Garbage {
    fn encode(&self, out: &mut Writer<'_>) {
        out.raw(&[0xff; 24]);
    }
}

fn status<O, F>(result: Result<O, nfs_proto::nfs3::Failure<F>>) -> NfsStatus {
    result.err().map_or(NfsStatus::Ok, |failure| failure.status)
}

fn served() -> (Scratch, Filer, Wire, FileHandle) {
    let scratch = Scratch::new("procedures");
    let filer = Filer::start(&scratch, &[]);
    let mut wire = Wire::connect(filer.port);
    let root = wire.root();
    (scratch, filer, wire, root)
}

#[test]
fn rpc_refusals_name_what_is_missing() {
    let (_scratch, _filer, mut wire, _root) = served();
    let nfs = nfs_proto::nfs3::PROGRAM;
    assert_eq!(wire.raw(nfs, 3, 0, &()).status(), ReplyStatus::Success);
    assert_eq!(wire.raw(nfs, 4, 0, &()).status(), ReplyStatus::ProgramMismatch { low: 3, high: 3 });
    assert_eq!(wire.raw(100_021, 3, 0, &()).status(), ReplyStatus::ProgramMismatch { low: 4, high: 4 });
    assert_eq!(wire.raw(100_011, 2, 0, &()).status(), ReplyStatus::ProgramUnavailable);
    assert_eq!(wire.raw(nfs, 3, 22, &()).status(), ReplyStatus::ProcedureUnavailable);
    for procedure in Procedure::ALL.iter().filter(|procedure| **procedure != Procedure::Null) {
        assert_eq!(wire.nfs(*procedure, &Garbage).status(), ReplyStatus::GarbageArguments, "{procedure:?}");
    }
    // The same call under RPC version 3, and with an unknown authentication flavor.
    let call = wire.nfs_record(Procedure::Null, &());
    for (at, value, expected) in
        [(12, 3u32, ReplyStatus::RpcMismatch { low: 2, high: 2 }), (28, 6, ReplyStatus::AuthError(AuthStat::BadCred))]
    {
        let mut changed = call.clone();
        changed[at..at + 4].copy_from_slice(&value.to_be_bytes());
        wire.send(&changed);
        assert_eq!(wire.receive().status(), expected);
    }
}

#[test]
fn mount_gives_the_export_and_directories_below_it_and_nothing_else() {
    let (_scratch, filer, mut wire, root) = served();
    std::fs::create_dir_all(filer.export().join("a/b")).unwrap();
    std::fs::write(filer.export().join("file"), b"x").unwrap();
    std::os::unix::fs::symlink("/etc", filer.export().join("out")).unwrap();
    let a = wire.lookup(root, "a").unwrap().object;
    assert_eq!(wire.mount("/vol/a/b/"), Ok(wire.lookup(a, "b").unwrap().object));
    for (path, refusal) in [
        ("/", MountStatus::NoEnt),
        ("/volume", MountStatus::NoEnt),
        ("/vol/missing", MountStatus::NoEnt),
        ("/vol/../etc", MountStatus::Inval),
        ("/vol/file", MountStatus::NotDir),
        ("/vol/out", MountStatus::NotDir),
    ] {
        assert_eq!(wire.mount(path), Err(refusal), "{path}");
    }
    let call = |wire: &mut Wire, procedure: mount3::Procedure, args: &dyn Encode| {
        wire.raw(mount3::PROGRAM, mount3::VERSION, procedure.number(), args)
    };
    let exports = call(&mut wire, mount3::Procedure::Export, &());
    assert_eq!(mount3::decode_exports(&mut Reader::new(exports.body())).unwrap(), [(DirPath(b"/vol"), vec![])]);
    let mounted = |wire: &mut Wire| {
        let reply = call(wire, mount3::Procedure::Dump, &());
        let list = mount3::decode_mounts(&mut Reader::new(reply.body())).unwrap();
        list.iter().map(|(_, path)| String::from_utf8_lossy(path.0).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(mounted(&mut wire), ["/vol", "/vol/a/b/"]);
    assert_eq!(call(&mut wire, mount3::Procedure::Umnt, &MountArgs { path: DirPath(b"/vol") }).status(), ReplyStatus::Success);
    assert_eq!(mounted(&mut wire), ["/vol/a/b/"]);
    call(&mut wire, mount3::Procedure::UmntAll, &());
    assert!(mounted(&mut wire).is_empty());
    assert_eq!(call(&mut wire, mount3::Procedure::Null, &()).status(), ReplyStatus::Success);
    assert_eq!(call(&mut wire, mount3::Procedure::Mnt, &Garbage).status(), ReplyStatus::GarbageArguments);
}

#[test]
fn portmap_knows_the_port_of_what_is_served() {
    let (_scratch, filer, mut wire, _root) = served();
    let mut ask = |procedure: portmap2::Procedure, args: &dyn Encode| {
        wire.raw(portmap2::PROGRAM, portmap2::VERSION, procedure.number(), args)
    };
    let mapping = |program, version| Mapping { program, version, protocol: IPPROTO_TCP, port: 0 };
    for (program, version, port) in
        [(100_003, 3, filer.port), (100_005, 3, filer.port), (100_003, 4, 0), (100_021, 4, filer.port), (100_021, 3, 0)]
    {
        assert_eq!(ask(portmap2::Procedure::GetPort, &mapping(program, version)).results::<u32>(), u32::from(port));
    }
    let list = ask(portmap2::Procedure::Dump, &());
    assert_eq!(portmap2::decode_mappings(&mut Reader::new(list.body())).unwrap().len(), 4);
    assert_eq!(ask(portmap2::Procedure::Null, &()).status(), ReplyStatus::Success);
    assert_eq!(ask(portmap2::Procedure::Set, &mapping(1, 1)).status(), ReplyStatus::ProcedureUnavailable);
}

#[test]
fn a_lock_is_refused_at_once_and_an_unlock_is_granted() {
    let (_scratch, _filer, mut wire, _root) = served();
    let mut ask =
        |procedure: nlm4::Procedure, args: &dyn Encode| wire.raw(nlm4::PROGRAM, nlm4::VERSION, procedure.number(), args);
    let cookie = nlm4::Cookie(b"paired");
    for (procedure, status) in [
        (nlm4::Procedure::Test, nlm4::Status::DeniedNoLocks),
        (nlm4::Procedure::Lock, nlm4::Status::DeniedNoLocks),
        (nlm4::Procedure::Cancel, nlm4::Status::Granted),
        (nlm4::Procedure::Unlock, nlm4::Status::Granted),
    ] {
        let reply = ask(procedure, &cookie);
        let result: nlm4::LockResult<'_> = decode_all(reply.body()).unwrap();
        assert_eq!((result.cookie, result.status), (cookie, status), "{procedure:?}");
    }
    assert_eq!(ask(nlm4::Procedure::Null, &()).status(), ReplyStatus::Success);
    assert_eq!(ask(nlm4::Procedure::Lock, &()).status(), ReplyStatus::GarbageArguments, "without a cookie");
}

#[test]
fn attributes_are_told_set_and_guarded() {
    let (_scratch, filer, mut wire, root) = served();
    let file = wire.create(root, "f");
    let before = wire.getattr(file).unwrap().attributes;
    assert_eq!((before.kind, before.mode, before.size, before.nlink), (FileType::Regular, 0o644, 0, 1));
    let mut set = |new_attributes, guard| -> WccResult {
        wire.nfs(Procedure::SetAttr, &SetAttrArgs { object: file, new_attributes, guard }).results()
    };
    let wanted = SetAttr { mode: Some(0o600), uid: Some(7), gid: Some(8), size: Some(4097), ..NONE };
    let wcc = set(wanted, Some(before.ctime)).unwrap();
    assert_eq!(wcc.before, None);
    let after = wcc.after.unwrap();
    assert_eq!((after.mode, after.uid, after.gid, after.size), (0o600, 7, 8, 4097));
    assert_eq!(status(set(wanted, Some(NfsTime { seconds: 1, nseconds: 1 }))), NfsStatus::NotSync);
    let at = NfsTime { seconds: 1_000_000_000, nseconds: 123_456_789 };
    let timed = SetAttr { mtime: nfs_proto::nfs3::SetTime::Client(at), ..NONE };
    assert_eq!(set(timed, None).unwrap().after.unwrap().mtime, at);
    assert_eq!(status(set(SetAttr { size: Some(u64::MAX), ..NONE }, None)), NfsStatus::FBig);
    let dir_size = SetAttrArgs { object: root, new_attributes: SetAttr { size: Some(0), ..NONE }, guard: None };
    assert_eq!(status(wire.nfs(Procedure::SetAttr, &dir_size).results::<WccResult>()), NfsStatus::IsDir);

    let rights = AccessArgs { object: file, access: 0x3f };
    assert_eq!(wire.nfs(Procedure::Access, &rights).results::<AccessResult>().unwrap().access, 0x1 | 0x4 | 0x8);
    let mut other = Wire::as_user(filer.port, 99, 99);
    assert_eq!(other.nfs(Procedure::Access, &rights).results::<AccessResult>().unwrap().access & ACCESS_READ, 0);

    std::fs::remove_file(filer.export().join("f")).unwrap();
    assert_eq!(status(wire.getattr(file)), NfsStatus::Stale);
    assert_eq!(status(wire.nfs(Procedure::Access, &rights).results::<AccessResult>()), NfsStatus::Stale);
    let mut forged = root.as_bytes().to_vec();
    forged[12] ^= 1;
    for handle in [&forged[..], b"", &[7; 64]] {
        assert_eq!(status(wire.getattr(FileHandle::new(handle).unwrap())), NfsStatus::BadHandle);
    }
}

#[test]
fn names_are_found_and_links_are_read_but_never_followed() {
    let (_scratch, _filer, mut wire, root) = served();
    let file = wire.create(root, "f");
    assert_eq!(wire.lookup(root, "f").unwrap().object, file);
    assert_eq!(wire.lookup(root, "..").unwrap().object, root, "the root is its own parent");
    for (name, refusal) in [
        ("missing", NfsStatus::NoEnt),
        ("", NfsStatus::Inval),
        ("a/b", NfsStatus::Inval),
        (&"n".repeat(256), NfsStatus::NameTooLong),
        (&"n".repeat(4000), NfsStatus::NameTooLong),
    ] {
        assert_eq!(status(wire.lookup(root, name)), refusal, "{name:.9}");
    }
    assert_eq!(status(wire.lookup(file, "x")), NfsStatus::NotDir);
    let link = SymLinkArgs { place: place(root, "l"), attributes: NONE, target: Path(b"/etc/passwd") };
    let made = wire.nfs(Procedure::SymLink, &link).results::<CreateResult>().unwrap();
    assert_eq!(made.attributes.unwrap().kind, FileType::SymLink);
    let object = made.object.unwrap();
    let reply = wire.nfs(Procedure::ReadLink, &ObjectArgs { object });
    assert_eq!(reply.results::<ReadLinkResult<'_>>().unwrap().target.0, b"/etc/passwd");
    let reply = wire.nfs(Procedure::ReadLink, &ObjectArgs { object: file });
    assert_eq!(status(reply.results::<ReadLinkResult<'_>>()), NfsStatus::Inval);
    assert_eq!(status(wire.nfs(Procedure::SymLink, &link).results::<CreateResult>()), NfsStatus::Exist);
    assert_eq!(status(wire.lookup(object, "x")), NfsStatus::NotDir);
    let read = ReadArgs { file: object, offset: 0, count: 10 };
    assert_eq!(status(wire.nfs(Procedure::Read, &read).results::<ReadResult<'_>>()), NfsStatus::Inval);
}

#[test]
fn data_comes_back_as_written_up_to_a_mebibyte() {
    let (_scratch, filer, mut wire, root) = served();
    let file = wire.create(root, "f");
    let data: Vec<u8> = (0..1u32 << 20).map(|at| ((at * 31) >> 3) as u8).collect();
    let first = wire.write(file, 0, &data, StableHow::Unstable);
    assert_eq!((first.count, first.committed, first.wcc.before), (1 << 20, StableHow::Unstable, None));
    let tail = wire.write(file, 1 << 20, b"tail", StableHow::FileSync);
    assert_eq!((tail.committed, tail.verifier), (StableHow::FileSync, first.verifier));
    // After a stable write, the server may omit attributes (RFC 1813 2.6 post_op_attr).
    assert!(tail.wcc.after.is_none_or(|after| after.size == (1 << 20) + 4));
    assert_eq!(wire.getattr(file).unwrap().attributes.size, (1 << 20) + 4);
    let commit: CommitResult = wire.nfs(Procedure::Commit, &CommitArgs { file, offset: 0, count: 0 }).results();
    assert_eq!(commit.unwrap().verifier, first.verifier);
    assert_eq!(std::fs::read(filer.export().join("f")).unwrap()[..1 << 20], data);

    for (offset, count, length, eof) in [
        (0, 1 << 20, 1 << 20, false),
        (4, 1 << 20, 1 << 20, true),
        (5, 1 << 20, (1 << 20) - 1, true),
        (7, 13, 13, false),
        (0, u32::MAX, 1 << 20, false),
        (1 << 20, 4, 4, true),
        (1 << 21, 10, 0, true),
        (u64::MAX, 10, 0, true),
        (3, 0, 0, false),
    ] {
        let reply = wire.nfs(Procedure::Read, &ReadArgs { file, offset, count });
        let read = reply.results::<ReadResult<'_>>().unwrap();
        assert_eq!((read.count, read.data.0.len(), read.eof), (length, length as usize, eof), "{offset} {count}");
        assert_eq!(read.attributes.unwrap().size, (1 << 20) + 4);
        let end = (offset as usize + length as usize).min(data.len());
        if (offset as usize) < data.len() {
            let part = &data[offset as usize..end];
            assert_eq!(&read.data.0[..part.len()], part);
        }
    }
    let rows = filer.admin(r#"{"op":"stats"}"#);
    assert_eq!(rows["procedures"]["WRITE"]["bytes"], (1 << 20) + 4);
}

#[test]
fn data_calls_that_make_no_sense_are_refused() {
    let (_scratch, _filer, mut wire, root) = served();
    let file = wire.create(root, "f");
    assert_eq!(
        status(wire.nfs(Procedure::Read, &ReadArgs { file: root, offset: 0, count: 1 }).results::<ReadResult<'_>>()),
        NfsStatus::IsDir
    );
    assert_eq!(status(wire.try_write(root, 0, b"x", StableHow::Unstable)), NfsStatus::IsDir);
    assert_eq!(status(wire.try_write(file, u64::MAX - 1, b"x", StableHow::Unstable)), NfsStatus::FBig);
    assert_eq!(wire.write(file, 0, b"", StableHow::FileSync).count, 0);
    let more = WriteArgs { count: 5, ..write_args(file, 0, b"four", StableHow::Unstable) };
    assert_eq!(wire.nfs(Procedure::Write, &more).status(), ReplyStatus::GarbageArguments);
    let fewer = WriteArgs { file, offset: 0, count: 2, stable: StableHow::Unstable, data: Data(b"four") };
    assert_eq!(wire.nfs(Procedure::Write, &fewer).results::<nfs_proto::nfs3::WriteResult>().unwrap().count, 2);
    let over = vec![1; (1 << 20) + 4];
    assert_eq!(status(wire.try_write(file, 0, &over, StableHow::Unstable)), NfsStatus::Inval);
    assert_eq!(wire.getattr(file).unwrap().attributes.size, 2);
}

#[test]
fn files_are_created_the_three_ways() {
    let (_scratch, _filer, mut wire, root) = served();
    let sized = SetAttr { mode: Some(0o640), size: Some(10), ..NONE };
    let made = wire.create_with(root, "u", CreateHow::Unchecked(sized)).unwrap();
    assert_eq!((made.attributes.unwrap().mode, made.attributes.unwrap().size), (0o640, 10));
    let again = wire.create_with(root, "u", CreateHow::Unchecked(SetAttr { size: Some(0), ..NONE })).unwrap();
    assert_eq!((again.object, again.attributes.unwrap().size), (made.object, 0));
    assert_eq!(status(wire.create_with(root, "u", CreateHow::Guarded(NONE))), NfsStatus::Exist);
    let key = CreateVerifier(*b"\x01\xff\x00\x80abcd");
    let exclusive = wire.create_with(root, "e", CreateHow::Exclusive(key)).unwrap().object;
    assert_eq!(wire.create_with(root, "e", CreateHow::Exclusive(key)).unwrap().object, exclusive);
    let other = CreateVerifier(*b"\x01\xff\x00\x80abcD");
    assert_eq!(status(wire.create_with(root, "e", CreateHow::Exclusive(other))), NfsStatus::Exist);
    assert_eq!(status(wire.create_with(root, ".", CreateHow::Unchecked(NONE))), NfsStatus::Exist);
    assert_eq!(status(wire.create_with(made.object.unwrap(), "x", CreateHow::Unchecked(NONE))), NfsStatus::NotDir);
    let dir = MkDirArgs { place: place(root, "d"), attributes: SetAttr { mode: Some(0o700), ..NONE } };
    wire.nfs(Procedure::MkDir, &dir).results::<CreateResult>().unwrap();
    assert_eq!(status(wire.nfs(Procedure::MkDir, &dir).results::<CreateResult>()), NfsStatus::Exist);
    assert_eq!(status(wire.create_with(root, "d", CreateHow::Unchecked(NONE))), NfsStatus::Exist);
    let pipe = |name, what| MkNodArgs { place: place(root, name), what };
    let made: CreateResult = wire.nfs(Procedure::MkNod, &pipe("p", NodeData::Pipe(FileType::Fifo, NONE))).results();
    assert_eq!(made.unwrap().attributes.unwrap().kind, FileType::Fifo);
    let refused: CreateResult = wire.nfs(Procedure::MkNod, &pipe("q", NodeData::Other(FileType::Regular))).results();
    assert_eq!(status(refused), NfsStatus::BadType);
    // A read of a pipe must not wait for a writer.
    let pipe = wire.lookup(root, "p").unwrap().object;
    assert_eq!(
        status(wire.nfs(Procedure::Read, &ReadArgs { file: pipe, offset: 0, count: 1 }).results::<ReadResult<'_>>()),
        NfsStatus::Inval
    );
}

#[test]
fn names_are_removed_renamed_and_linked() {
    let (_scratch, _filer, mut wire, root) = served();
    let file = wire.create(root, "f");
    let make = MkDirArgs { place: place(root, "d"), attributes: SetAttr { mode: Some(0o755), ..NONE } };
    let dir = wire.nfs(Procedure::MkDir, &make).results::<CreateResult>().unwrap().object.unwrap();
    let link = |wire: &mut Wire, dir, name| {
        wire.nfs(Procedure::Link, &LinkArgs { file, link: place(dir, name) }).results::<LinkResult>()
    };
    assert_eq!(link(&mut wire, dir, "g").unwrap().attributes.unwrap().nlink, 2);
    assert_eq!(status(link(&mut wire, dir, "g")), NfsStatus::Exist);
    let rename = |wire: &mut Wire, from, to| wire.nfs(Procedure::Rename, &RenameArgs { from, to }).results::<RenameResult>();
    rename(&mut wire, place(root, "f"), place(dir, "h")).unwrap();
    assert_eq!(status(rename(&mut wire, place(root, "f"), place(dir, "h"))), NfsStatus::NoEnt);
    assert_eq!(status(rename(&mut wire, place(root, "."), place(dir, "x"))), NfsStatus::Inval);
    assert_eq!(wire.lookup(dir, "h").unwrap().object, file, "a rename keeps the handle");
    assert_eq!(wire.getattr(file).unwrap().attributes.nlink, 2);
    let call = |wire: &mut Wire, procedure, dir, name| status(wire.nfs(procedure, &place(dir, name)).results::<WccResult>());
    assert_eq!(call(&mut wire, Procedure::RmDir, root, "d"), NfsStatus::NotEmpty);
    assert_eq!(call(&mut wire, Procedure::RmDir, root, "."), NfsStatus::Inval);
    assert_eq!(call(&mut wire, Procedure::Remove, root, "d"), NfsStatus::IsDir);
    assert_eq!(call(&mut wire, Procedure::RmDir, dir, "h"), NfsStatus::NotDir);
    assert_eq!(call(&mut wire, Procedure::Remove, dir, "h"), NfsStatus::Ok);
    assert_eq!(call(&mut wire, Procedure::Remove, dir, "h"), NfsStatus::NoEnt);
    assert_eq!(wire.getattr(file).unwrap().attributes.nlink, 1, "the other name keeps the file");
    assert_eq!(call(&mut wire, Procedure::Remove, dir, "g"), NfsStatus::Ok);
    assert_eq!(call(&mut wire, Procedure::RmDir, root, "d"), NfsStatus::Ok);
    assert_eq!(status(wire.getattr(dir)), NfsStatus::Stale);
}

#[test]
fn listings_honour_both_counts_and_lose_no_name() {
    let (_scratch, filer, mut wire, root) = served();
    let mut expected: BTreeSet<String> = (0..300).map(|n| format!("name-{n}-{}", "x".repeat(n % 50))).collect();
    for name in &expected {
        std::fs::write(filer.export().join(name), name).unwrap();
    }
    expected.extend([".".to_owned(), "..".to_owned()]);
    for (dir_count, max_count) in [(u32::MAX, u32::MAX), (4096, 8192), (300, 2000), (1, 600)] {
        let (mut names, mut plain) = (Vec::new(), Vec::new());
        let (mut cookie, mut cookie_verifier) = (0, CookieVerifier::default());
        loop {
            let reply =
                wire.nfs(Procedure::ReadDirPlus, &ReadDirPlusArgs { dir: root, cookie, cookie_verifier, dir_count, max_count });
            assert!(reply.body().len() - 4 <= max_count as usize);
            let ok = reply.results::<ReadDirPlusResult<'_>>().unwrap();
            for entry in ok.entries.iter() {
                assert_eq!(entry.attributes.unwrap().fileid, entry.fileid);
                names.push(String::from_utf8(entry.name.0.to_vec()).unwrap());
                cookie = entry.cookie;
            }
            cookie_verifier = ok.cookie_verifier;
            if ok.entries.eof() {
                break;
            }
        }
        (cookie, cookie_verifier) = (0, CookieVerifier::default());
        loop {
            let reply = wire.nfs(Procedure::ReadDir, &ReadDirArgs { dir: root, cookie, cookie_verifier, count: max_count });
            assert!(reply.body().len() - 4 <= max_count as usize);
            let ok = reply.results::<ReadDirResult<'_>>().unwrap();
            for entry in ok.entries.iter() {
                plain.push(String::from_utf8(entry.name.0.to_vec()).unwrap());
                cookie = entry.cookie;
            }
            cookie_verifier = ok.cookie_verifier;
            if ok.entries.eof() {
                break;
            }
        }
        assert_eq!((names.len(), plain.len()), (expected.len(), expected.len()), "counts {dir_count} {max_count}");
        assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), expected);
        assert_eq!(plain.into_iter().collect::<BTreeSet<_>>(), expected);
    }
    let small = ReadDirArgs { dir: root, cookie: 0, cookie_verifier: CookieVerifier::default(), count: 110 };
    assert_eq!(status(wire.nfs(Procedure::ReadDir, &small).results::<ReadDirResult<'_>>()), NfsStatus::TooSmall);
    let foreign = ReadDirArgs { cookie: 5, cookie_verifier: CookieVerifier([9; 8]), count: 4096, ..small };
    assert_eq!(status(wire.nfs(Procedure::ReadDir, &foreign).results::<ReadDirResult<'_>>()), NfsStatus::BadCookie);
    let file = wire.lookup(root, "name-0-").unwrap().object;
    let no_dir =
        ReadDirPlusArgs { dir: file, cookie: 0, cookie_verifier: small.cookie_verifier, dir_count: 512, max_count: 4096 };
    assert_eq!(status(wire.nfs(Procedure::ReadDirPlus, &no_dir).results::<ReadDirPlusResult<'_>>()), NfsStatus::NotDir);
}

#[test]
fn the_file_system_tells_its_limits() {
    let (_scratch, _filer, mut wire, root) = served();
    let object = ObjectArgs { object: root };
    let info = wire.nfs(Procedure::FsInfo, &object).results::<FsInfoResult>().unwrap();
    assert_eq!((info.read_max, info.write_max, info.write_multiple, info.dir_preferred), (1 << 20, 1 << 20, 4096, 65_536));
    assert_eq!((info.properties, info.file_size_max), (0x1b, i64::MAX as u64));
    let room = wire.nfs(Procedure::FsStat, &object).results::<FsStatResult>().unwrap();
    assert!(room.total_bytes >= room.free_bytes && room.free_bytes >= room.available_bytes && room.total_bytes > 0);
    let names = wire.nfs(Procedure::PathConf, &object).results::<PathConfResult>().unwrap();
    assert_eq!((names.name_max, names.no_trunc, names.case_preserving, names.case_insensitive), (255, true, true, false));
    let nowhere = ObjectArgs { object: FileHandle::new(b"nowhere").unwrap() };
    assert_eq!(status(wire.nfs(Procedure::FsInfo, &nowhere).results::<FsInfoResult>()), NfsStatus::BadHandle);
    assert_eq!(status(wire.nfs(Procedure::FsStat, &nowhere).results::<FsStatResult>()), NfsStatus::BadHandle);
    assert_eq!(status(wire.nfs(Procedure::PathConf, &nowhere).results::<PathConfResult>()), NfsStatus::BadHandle);
    assert_eq!(
        status(wire.nfs(Procedure::Commit, &CommitArgs { file: nowhere.object, offset: 0, count: 0 }).results::<CommitResult>()),
        NfsStatus::BadHandle
    );
}

#[test]
fn a_resent_call_gets_its_first_answer_and_a_new_xid_is_a_new_call() {
    let (_scratch, _filer, mut wire, root) = served();
    wire.create(root, "f");
    let call = wire.nfs_record(Procedure::Remove, &place(root, "f"));
    wire.send(&call);
    let first = wire.receive();
    assert_eq!(status(first.results::<WccResult>()), NfsStatus::Ok);
    wire.send(&call);
    assert_eq!(wire.receive().0, first.0);
    assert_eq!(
        status(wire.nfs(Procedure::Remove, &place(root, "f")).results::<WccResult>()),
        NfsStatus::NoEnt,
        "a new xid is a new call"
    );
}

#[test]
fn stable_writes_in_flight_are_all_answered_whatever_their_order() {
    let (_scratch, filer, mut wire, root) = served();
    let file = wire.create(root, "f");
    let mut calls = Vec::new();
    let mut waiting = BTreeSet::new();
    for block in 0..64u64 {
        let data = [block as u8; 8192];
        calls.extend(wire.nfs_record(Procedure::Write, &write_args(file, block * 8192, &data, StableHow::FileSync)));
        waiting.insert(wire.xid);
    }
    wire.send(&calls);
    while !waiting.is_empty() {
        let reply = wire.receive();
        assert!(waiting.remove(&reply.header().xid.0), "answered twice");
        let ok = reply.results::<nfs_proto::nfs3::WriteResult>().unwrap();
        assert_eq!((ok.count, ok.committed), (8192, StableHow::FileSync));
    }
    let written = std::fs::read(filer.export().join("f")).unwrap();
    assert!(written.chunks(8192).enumerate().all(|(block, data)| data == [block as u8; 8192]));
}

#[test]
fn access_is_checked_by_the_filer_itself() {
    let (_scratch, filer, mut wire, root) = served();
    let open_to_all = SetAttrArgs { object: root, new_attributes: SetAttr { mode: Some(0o755), ..NONE }, guard: None };
    wire.nfs(Procedure::SetAttr, &open_to_all).results::<WccResult>().unwrap();
    let (mut owner, mut member, mut other) =
        (Wire::as_user(filer.port, 501, 500), Wire::as_user(filer.port, 502, 1), Wire::as_user(filer.port, 503, 3));
    member.groups = vec![9, 600];
    assert_eq!(status(owner.create_with(root, "x", CreateHow::Unchecked(NONE))), NfsStatus::Acces);
    let file = wire.create(root, "f");
    let give = SetAttr { mode: Some(0o060), uid: Some(501), gid: Some(600), ..NONE };
    wire.nfs(Procedure::SetAttr, &SetAttrArgs { object: file, new_attributes: give, guard: None })
        .results::<WccResult>()
        .unwrap();
    let can = |wire: &mut Wire| {
        let written = status(wire.try_write(file, 0, b"data", StableHow::Unstable));
        let read = status(wire.nfs(Procedure::Read, &ReadArgs { file, offset: 0, count: 4 }).results::<ReadResult<'_>>());
        (written, read)
    };
    assert_eq!(can(&mut owner), (NfsStatus::Ok, NfsStatus::Ok), "the owner may, whatever the mode");
    assert_eq!(can(&mut member), (NfsStatus::Ok, NfsStatus::Ok), "by a supplementary group");
    assert_eq!(can(&mut other), (NfsStatus::Acces, NfsStatus::Acces));
    assert_eq!(status(other.nfs(Procedure::Remove, &place(root, "f")).results::<WccResult>()), NfsStatus::Acces);
    let chmod = SetAttrArgs { object: file, new_attributes: SetAttr { mode: Some(0o777), ..NONE }, guard: None };
    assert_eq!(status(member.nfs(Procedure::SetAttr, &chmod).results::<WccResult>()), NfsStatus::Perm);
    owner.nfs(Procedure::SetAttr, &chmod).results::<WccResult>().unwrap();
    assert_eq!(can(&mut other), (NfsStatus::Ok, NfsStatus::Ok));
    assert_eq!(
        status(other.nfs(Procedure::Commit, &CommitArgs { file, offset: 0, count: 0 }).results::<CommitResult>()),
        NfsStatus::Ok
    );
}
