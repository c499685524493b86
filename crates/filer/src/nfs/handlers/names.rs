//! LOOKUP, READLINK, REMOVE, RMDIR, RENAME, LINK (RFC 1813 3.3.3, 3.3.5, 3.3.12 to 3.3.15).

use nfs_proto::nfs3::{
    DirOpArgs, LinkArgs, LinkResult, LinkWcc, LookupOk, LookupResult, NfsStatus, ObjectArgs, Outcome, Path, PostOpAttr,
    ReadLinkOk, RenameArgs, RenameResult, RenameWcc, WccData, WccResult,
};
use nfs_proto::rpc::ReplyStatus;
use nfs_proto::xdr::encode_to;
use volume::{Attr, Error, Kind, Node, Subject};

use super::{Context, Done, arguments, fail, refused};
use crate::nfs::convert;

pub(super) fn lookup(context: &Context<'_>, args: &DirOpArgs<'_>) -> LookupResult {
    let dir = match context.node(&args.dir) {
        Ok(dir) => dir,
        Err(status) => return refused(status, None),
    };
    let found = (|| {
        let attr = context.subject(&dir)?;
        if attr.kind != Kind::Directory {
            return Err(NfsStatus::NotDir);
        }
        if !context.caller.may_search(&attr) {
            return Err(NfsStatus::Acces);
        }
        context.find(&dir, args.name.0).map_err(|error| {
            // RFC 1813 3.3.3 does not list NFS3ERR_XDEV for LOOKUP, but no other NFSv3 status names the cause.
            if error == Error::CrossDevice {
                context.view.log_crossing(context.export, args.name.0);
            }
            context.status(&error)
        })
    })();
    let dir_attributes = context.post(&dir);
    match found {
        Ok((object, attr)) => Ok(LookupOk { object, attributes: Some(convert::fattr(&attr)), dir_attributes }),
        Err(status) => refused(status, dir_attributes),
    }
}

/// READLINK. The caller needs no right for the link itself.
pub(super) fn read_link(context: &Context<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<Done, ReplyStatus> {
    let args: ObjectArgs = arguments(bytes)?;
    let node = match context.node(&args.object) {
        Ok(node) => node,
        Err(status) => return Ok(fail(status, &PostOpAttr::None, out)),
    };
    let attributes = context.post(&node);
    match context.export.volume.read_link(&node) {
        Ok(target) => {
            let ok = ReadLinkOk { attributes, target: Path(&target) };
            encode_to(&Outcome::<_, PostOpAttr>::Ok(ok), out);
            Ok(Done::OK)
        }
        Err(error) => Ok(fail(context.status(&error), &attributes, out)),
    }
}

/// REMOVE, or RMDIR if `directory` is set. **Durability**: the removal of the name is durable when this returns.
pub(super) fn remove(context: &Context<'_>, args: &DirOpArgs<'_>, directory: bool) -> WccResult {
    let dir = match context.node(&args.dir) {
        Ok(dir) => dir,
        Err(status) => return refused(status, WccData::default()),
    };
    let name = args.name.0;
    let volume = &context.export.volume;
    let removed = (|| {
        if directory && name == b"." {
            return Err(NfsStatus::Inval);
        }
        if name == b".." {
            return Err(if directory { NfsStatus::Exist } else { NfsStatus::IsDir });
        }
        let dir_attr = searchable(context, &dir)?;
        volume
            .remove_if(&dir, name, directory, &|victim| may_remove(context, &dir_attr, victim))
            .map_err(|error| context.status(&error))
    })();
    match removed {
        Ok(around) => Ok(context.wcc_around(&dir, around)),
        Err(status) => refused(status, context.wcc(&dir)),
    }
}

/// The attributes of a directory that the caller may look names up in.
fn searchable<'s>(context: &'s Context<'_>, dir: &'s Node) -> Result<Subject<'s>, NfsStatus> {
    let attr = context.subject(dir)?;
    if attr.kind != Kind::Directory {
        return Err(NfsStatus::NotDir);
    }
    if context.caller.may_search(&attr) { Ok(attr) } else { Err(NfsStatus::Acces) }
}

/// Whether the caller may remove the name of `victim` from a directory. Called at the moment of the removal: before it, the name could
/// come to mean another object.
fn may_remove(context: &Context<'_>, dir: &Subject<'_>, victim: &Attr) -> Result<(), Error> {
    if context.caller.may_remove(dir, victim) { Ok(()) } else { Err(Error::Access) }
}

/// RENAME. **Durability**: when this returns, the change is durable: only the new name exists.
pub(super) fn rename(context: &Context<'_>, args: &RenameArgs<'_>) -> RenameResult {
    let (from_dir, to_dir) = match (context.node(&args.from.dir), context.second_node(&args.to.dir)) {
        (Ok(from_dir), Ok(to_dir)) => (from_dir, to_dir),
        (Err(status), _) | (_, Err(status)) => return refused(status, RenameWcc::default()),
    };
    let (from, to) = (args.from.name.0, args.to.name.0);
    let volume = &context.export.volume;
    let renamed = (|| {
        if [from, to].iter().any(|name| [&b"."[..], b".."].contains(name)) {
            return Err(NfsStatus::Inval);
        }
        let (from_attr, to_attr) = (searchable(context, &from_dir)?, context.subject(&to_dir)?);
        if to_attr.kind != Kind::Directory {
            return Err(NfsStatus::NotDir);
        }
        let may_move = |moved: &Subject<'_>| {
            may_remove(context, &from_attr, moved)?;
            let may = context.caller.may_add(&to_attr) && context.caller.may_move(moved, from_dir != to_dir);
            if may { Ok(()) } else { Err(Error::Access) }
        };
        let may_replace = |replaced: &Subject<'_>| may_remove(context, &to_attr, replaced);
        volume.rename_if((&from_dir, from), (&to_dir, to), &may_move, &may_replace).map_err(|error| context.status(&error))
    })();
    let [from_around, to_around] = renamed.unwrap_or_default();
    let wcc = RenameWcc { from_dir: context.wcc_around(&from_dir, from_around), to_dir: context.wcc_around(&to_dir, to_around) };
    match renamed {
        Ok(_) => Ok(wcc),
        Err(status) => refused(status, wcc),
    }
}

/// LINK. **Durability**: the new name is durable when this returns.
pub(super) fn link(context: &Context<'_>, args: &LinkArgs<'_>) -> LinkResult {
    let (node, dir) = match (context.node(&args.file), context.second_node(&args.link.dir)) {
        (Ok(node), Ok(dir)) => (node, dir),
        (Err(status), _) | (_, Err(status)) => return refused(status, LinkWcc::default()),
    };
    let linked = (|| {
        let dir_attr = context.subject(&dir)?;
        if dir_attr.kind != Kind::Directory {
            return Err(NfsStatus::NotDir);
        }
        if !context.caller.may_add(&dir_attr) {
            return Err(NfsStatus::Acces);
        }
        context
            .export
            .volume
            .link(&node, &dir, args.link.name.0)
            .map_err(|error| context.status(&error))
            .map(|(_, around)| around)
    })();
    let link_dir = context.wcc_around(&dir, linked.unwrap_or_default());
    let wcc = LinkWcc { attributes: context.post(&node), link_dir };
    match linked {
        Ok(_) => Ok(wcc),
        Err(status) => refused(status, wcc),
    }
}
