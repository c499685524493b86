//! Every decoder under one function: what a record says it is, is decoded as that and written again.
//! Shared by the tests here and by the fuzz targets.

use nfs_proto::nfs3::{self, *};
use nfs_proto::rpc::{AuthSys, CallHeader, ReplyHeader, ReplyStatus};
use nfs_proto::xdr::{Decode, DecodeError, Encode, Reader, Writer, decode_all, encode_to};
use nfs_proto::{mount3, portmap2};

/// What a body belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub program: u32,
    pub procedure: u32,
    pub is_reply: bool,
}

/// Decodes a call's header; gives what its arguments are, and the arguments.
pub fn call_parts(record: &[u8]) -> Result<(Kind, u32, &[u8]), DecodeError> {
    let mut input = Reader::new(record);
    let header = CallHeader::decode(&mut input)?;
    let mut again = Vec::new();
    encode_to(&header, &mut again);
    assert_eq!(again, record[..input.position()], "call header");
    if header.credential.flavor == nfs_proto::rpc::AUTH_SYS {
        canonical::<AuthSys<'_>>(header.credential.body.0)?;
    }
    Ok((Kind { program: header.program, procedure: header.procedure, is_reply: false }, header.xid.0, input.rest()))
}

/// Decodes a reply's header; gives its xid and the results.
pub fn reply_parts(record: &[u8]) -> Result<(u32, &[u8]), DecodeError> {
    let mut input = Reader::new(record);
    let header = ReplyHeader::decode(&mut input)?;
    let results = if header.status == ReplyStatus::Success { input.rest() } else { &[] };
    Ok((header.xid.0, results))
}

/// Decodes a body and checks that writing it again gives the same bytes: XDR has one form for each value.
pub fn check(kind: Kind, body: &[u8]) -> Result<(), DecodeError> {
    match (kind.program, kind.is_reply) {
        (nfs3::PROGRAM, false) => nfs_arguments(kind.procedure, body),
        (nfs3::PROGRAM, true) => nfs_results(kind.procedure, body),
        (mount3::PROGRAM, _) => mount(kind, body),
        (portmap2::PROGRAM, _) => portmap(kind, body),
        _ => Ok(()),
    }
}

fn nfs_arguments(procedure: u32, body: &[u8]) -> Result<(), DecodeError> {
    let Some(procedure) = Procedure::from_number(procedure) else { return Ok(()) };
    match procedure {
        Procedure::Null => canonical::<()>(body),
        Procedure::GetAttr | Procedure::ReadLink | Procedure::FsStat | Procedure::FsInfo | Procedure::PathConf => {
            canonical::<ObjectArgs>(body)
        }
        Procedure::SetAttr => canonical::<SetAttrArgs>(body),
        Procedure::Lookup | Procedure::Remove | Procedure::RmDir => canonical::<DirOpArgs<'_>>(body),
        Procedure::Access => canonical::<AccessArgs>(body),
        Procedure::Read => canonical::<ReadArgs>(body),
        Procedure::Write => {
            head::<WriteArgsHead>(body)?;
            canonical::<WriteArgs<'_>>(body)
        }
        Procedure::Create => canonical::<CreateArgs<'_>>(body),
        Procedure::MkDir => canonical::<MkDirArgs<'_>>(body),
        Procedure::SymLink => canonical::<SymLinkArgs<'_>>(body),
        Procedure::MkNod => canonical::<MkNodArgs<'_>>(body),
        Procedure::Rename => canonical::<RenameArgs<'_>>(body),
        Procedure::Link => canonical::<LinkArgs<'_>>(body),
        Procedure::ReadDir => canonical::<ReadDirArgs>(body),
        Procedure::ReadDirPlus => canonical::<ReadDirPlusArgs>(body),
        Procedure::Commit => canonical::<CommitArgs>(body),
    }
}

fn nfs_results(procedure: u32, body: &[u8]) -> Result<(), DecodeError> {
    let Some(procedure) = Procedure::from_number(procedure) else { return Ok(()) };
    match procedure {
        Procedure::Null => canonical::<()>(body),
        Procedure::GetAttr => canonical::<GetAttrResult>(body),
        Procedure::SetAttr | Procedure::Remove | Procedure::RmDir => canonical::<WccResult>(body),
        Procedure::Lookup => canonical::<LookupResult>(body),
        Procedure::Access => canonical::<AccessResult>(body),
        Procedure::ReadLink => canonical::<ReadLinkResult<'_>>(body),
        Procedure::Read => {
            head::<ReadHeadResult>(body)?;
            canonical::<ReadResult<'_>>(body)
        }
        Procedure::Write => canonical::<WriteResult>(body),
        Procedure::Create | Procedure::MkDir | Procedure::SymLink | Procedure::MkNod => canonical::<CreateResult>(body),
        Procedure::Rename => canonical::<RenameResult>(body),
        Procedure::Link => canonical::<LinkResult>(body),
        Procedure::ReadDir => {
            if let Ok(Ok(ok)) = decode_all::<ReadDirResult<'_>>(body) {
                assert!(ok.entries.iter().count() <= body.len() / 24);
            }
            canonical::<ReadDirResult<'_>>(body)
        }
        Procedure::ReadDirPlus => {
            if let Ok(Ok(ok)) = decode_all::<ReadDirPlusResult<'_>>(body) {
                assert!(ok.entries.iter().count() <= body.len() / 32);
            }
            canonical::<ReadDirPlusResult<'_>>(body)
        }
        Procedure::FsStat => canonical::<FsStatResult>(body),
        Procedure::FsInfo => canonical::<FsInfoResult>(body),
        Procedure::PathConf => canonical::<PathConfResult>(body),
        Procedure::Commit => canonical::<CommitResult>(body),
    }
}

fn mount(kind: Kind, body: &[u8]) -> Result<(), DecodeError> {
    use mount3::Procedure as P;
    match (P::from_number(kind.procedure), kind.is_reply) {
        (Some(P::Mnt | P::Umnt), false) => canonical::<mount3::MountArgs<'_>>(body),
        (Some(P::Mnt), true) => canonical::<mount3::MountResult>(body),
        (Some(P::Export), true) => list(body, mount3::decode_exports, |exports, out| mount3::encode_exports(exports, out)),
        (Some(P::Dump), true) => list(body, mount3::decode_mounts, |mounts, out| mount3::encode_mounts(mounts, out)),
        (None, _) => Ok(()),
        _ => canonical::<()>(body),
    }
}

fn portmap(kind: Kind, body: &[u8]) -> Result<(), DecodeError> {
    use portmap2::Procedure as P;
    match (P::from_number(kind.procedure), kind.is_reply) {
        (Some(P::Set | P::Unset | P::GetPort), false) => canonical::<portmap2::Mapping>(body),
        (Some(P::Set | P::Unset), true) => canonical::<bool>(body),
        (Some(P::GetPort), true) => canonical::<u32>(body),
        (Some(P::Dump), true) => list(body, portmap2::decode_mappings, portmap2::encode_mappings),
        (Some(P::Null | P::Dump), _) => canonical::<()>(body),
        _ => Ok(()),
    }
}

fn canonical<'a, T: Decode<'a> + Encode>(body: &'a [u8]) -> Result<(), DecodeError> {
    let value = decode_all::<T>(body)?;
    let mut again = Vec::new();
    encode_to(&value, &mut again);
    assert_eq!(again, body, "{} is not written as it was read", std::any::type_name::<T>());
    Ok(())
}

/// A value in front of a payload: what it takes of the body is what it writes.
fn head<'a, T: Decode<'a> + Encode>(body: &'a [u8]) -> Result<(), DecodeError> {
    let mut input = Reader::new(body);
    let value = T::decode(&mut input)?;
    let mut again = Vec::new();
    encode_to(&value, &mut again);
    assert_eq!(again, body[..input.position()]);
    Ok(())
}

fn list<'a, T>(
    body: &'a [u8],
    decode: impl Fn(&mut Reader<'a>) -> Result<Vec<T>, DecodeError>,
    encode: impl Fn(&[T], &mut Writer<'_>),
) -> Result<(), DecodeError> {
    let mut input = Reader::new(body);
    let items = decode(&mut input)?;
    input.finish()?;
    let mut again = Vec::new();
    encode(&items, &mut Writer::new(&mut again));
    assert_eq!(again, body);
    Ok(())
}
