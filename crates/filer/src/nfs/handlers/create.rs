//! CREATE, MKDIR, SYMLINK, MKNOD (RFC 1813 3.3.8 to 3.3.11).
//!
//! **Durability**: object, attributes and name are durable when these return.

use nfs_proto::nfs3::{
    CreateArgs, CreateHow, CreateOk, CreateResult, DirOpArgs, FileType, MkDirArgs, MkNodArgs, NfsStatus, NodeData, SymLinkArgs,
    WccData,
};
use volume::NodeKind;

use super::{Context, refused};
use crate::nfs::convert;
use crate::operations::New;

pub(super) fn create(context: &Context<'_>, args: &CreateArgs<'_>) -> CreateResult {
    let how = match &args.how {
        CreateHow::Unchecked(set) => convert::set_attr(set).map(volume::CreateHow::Unchecked),
        CreateHow::Guarded(set) => convert::set_attr(set).map(volume::CreateHow::Guarded),
        CreateHow::Exclusive(verifier) => Ok(volume::CreateHow::Exclusive(verifier.0)),
    };
    make(context, &args.place, how.map(New::File))
}

pub(super) fn mkdir(context: &Context<'_>, args: &MkDirArgs<'_>) -> CreateResult {
    make(context, &args.place, convert::set_attr(&args.attributes).map(New::Directory))
}

pub(super) fn symlink(context: &Context<'_>, args: &SymLinkArgs<'_>) -> CreateResult {
    make(context, &args.place, convert::set_attr(&args.attributes).map(|set| New::Symlink(args.target.0, set)))
}

pub(super) fn mknod(context: &Context<'_>, args: &MkNodArgs<'_>) -> CreateResult {
    let new = match &args.what {
        NodeData::Device(kind, set, numbers) => Ok((*kind, set, (numbers.major, numbers.minor))),
        NodeData::Pipe(kind, set) => Ok((*kind, set, (0, 0))),
        NodeData::Other(_) => Err(NfsStatus::BadType),
    };
    let new = new.and_then(|(kind, set, numbers)| Ok(New::Node(node_kind(kind)?, numbers, convert::set_attr(set)?)));
    make(context, &args.place, new)
}

const fn node_kind(kind: FileType) -> Result<NodeKind, NfsStatus> {
    match kind {
        FileType::Block => Ok(NodeKind::Block),
        FileType::Character => Ok(NodeKind::Character),
        FileType::Socket => Ok(NodeKind::Socket),
        FileType::Fifo => Ok(NodeKind::Fifo),
        FileType::Regular | FileType::Directory | FileType::SymLink => Err(NfsStatus::BadType),
    }
}

/// Finds the directory, creates the object in it, and assembles the result. `new` is an error if its arguments are not valid.
fn make(context: &Context<'_>, place: &DirOpArgs<'_>, new: Result<New<'_>, NfsStatus>) -> CreateResult {
    let dir = match context.node(&place.dir) {
        Ok(dir) => dir,
        Err(status) => return refused(status, WccData::default()),
    };
    let (made, around) = match new {
        Ok(new) => {
            let (made, around) = context.operator().create(&dir, place.name.0, new);
            (made.map_err(|error| context.status(&error)), around)
        }
        Err(status) => (Err(status), None),
    };
    let dir_wcc = context.wcc_around(&dir, around);
    match made {
        Ok((node, attr)) => Ok(CreateOk { object: context.handle(&node), attributes: Some(convert::fattr(&attr)), dir_wcc }),
        Err(status) => refused(status, dir_wcc),
    }
}
