//! LOOKUP, READLINK, REMOVE, RMDIR, RENAME, LINK (RFC 1813 3.3.3, 3.3.5, 3.3.12 to 3.3.15).

use nfs_proto::nfs3::{
    DirOpArgs, LinkArgs, LinkResult, LinkWcc, LookupOk, LookupResult, ObjectArgs, Outcome, Path, PostOpAttr, ReadLinkOk,
    RenameArgs, RenameResult, RenameWcc, WccData, WccResult,
};
use nfs_proto::rpc::ReplyStatus;
use nfs_proto::xdr::encode_to;
use volume::Error;

use super::{Context, Done, arguments, fail, refused};
use crate::nfs::convert;

pub(super) fn lookup(context: &Context<'_>, args: &DirOpArgs<'_>) -> LookupResult {
    let dir = match context.node(&args.dir) {
        Ok(dir) => dir,
        Err(status) => return refused(status, None),
    };
    let found = (|| {
        context.operator().searchable(&dir).map_err(|error| context.status(&error))?;
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
    match context.operator().remove(&dir, args.name.0, directory) {
        Ok(around) => Ok(context.wcc_around(&dir, around)),
        Err(error) => refused(context.status(&error), context.wcc(&dir)),
    }
}

/// RENAME. **Durability**: when this returns, the change is durable: only the new name exists.
pub(super) fn rename(context: &Context<'_>, args: &RenameArgs<'_>) -> RenameResult {
    let (from_dir, to_dir) = match (context.node(&args.from.dir), context.second_node(&args.to.dir)) {
        (Ok(from_dir), Ok(to_dir)) => (from_dir, to_dir),
        (Err(status), _) | (_, Err(status)) => return refused(status, RenameWcc::default()),
    };
    let renamed = context.operator().rename((&from_dir, args.from.name.0), (&to_dir, args.to.name.0));
    let [from_around, to_around] = renamed.unwrap_or_default();
    let wcc = RenameWcc { from_dir: context.wcc_around(&from_dir, from_around), to_dir: context.wcc_around(&to_dir, to_around) };
    match renamed {
        Ok(_) => Ok(wcc),
        Err(error) => refused(context.status(&error), wcc),
    }
}

/// LINK. **Durability**: the new name is durable when this returns.
pub(super) fn link(context: &Context<'_>, args: &LinkArgs<'_>) -> LinkResult {
    let (node, dir) = match (context.node(&args.file), context.second_node(&args.link.dir)) {
        (Ok(node), Ok(dir)) => (node, dir),
        (Err(status), _) | (_, Err(status)) => return refused(status, LinkWcc::default()),
    };
    let linked = context.operator().link(&node, &dir, args.link.name.0);
    let link_dir = context.wcc_around(&dir, linked.unwrap_or_default());
    let wcc = LinkWcc { attributes: context.post(&node), link_dir };
    match linked {
        Ok(_) => Ok(wcc),
        Err(error) => refused(context.status(&error), wcc),
    }
}
