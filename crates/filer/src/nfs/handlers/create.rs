//! CREATE, MKDIR, SYMLINK, MKNOD (RFC 1813 3.3.8 to 3.3.11).
//!
//! **Durability**: object, attributes and name are durable when these return.

use std::cell::Cell;

use nfs_proto::nfs3::{
    self, CreateArgs, CreateHow, CreateOk, CreateResult, DirOpArgs, FileType, MkDirArgs, MkNodArgs, NfsStatus, NodeData,
    SymLinkArgs, WccData,
};
use volume::{Attr, Creator, Error, Kind, Node, NodeKind, Owner, SetAttr, Subject, Wcc};

use super::{Context, refused};
use crate::limits::FILE_BYTES_MAX;
use crate::nfs::convert;

const SET_GID: u32 = 0o2000;

/// Where the volume puts the directory's attributes from before and after the change.
type Around = Cell<Option<Wcc>>;

pub(super) fn create(context: &Context<'_>, args: &CreateArgs<'_>) -> CreateResult {
    let volume = &context.export.volume;
    in_directory(context, &args.place, |dir, dir_attr, around| {
        let how = match &args.how {
            // An existing file is opened, so a caller that may write to it may cut or extend it.
            CreateHow::Unchecked(set) => volume::CreateHow::Unchecked(new_attributes(context, set, dir_attr)?),
            CreateHow::Guarded(set) => volume::CreateHow::Guarded(addable(context, dir_attr, set)?),
            CreateHow::Exclusive(_) if !context.caller.may_add(dir_attr) => return Err(NfsStatus::Acces),
            CreateHow::Exclusive(verifier) => volume::CreateHow::Exclusive(verifier.0),
        };
        let create =
            |creator: Creator<'_>| volume.create(dir, args.place.name.0, how, creator).map_err(|error| context.status(&error));
        let cuts = matches!(how, volume::CreateHow::Unchecked(SetAttr { size: Some(_), .. }));
        let created = || with_creator(context, dir_attr, around, create);
        if cuts { context.keeping_roots_set_id(created) } else { created() }
    })
}

pub(super) fn mkdir(context: &Context<'_>, args: &MkDirArgs<'_>) -> CreateResult {
    in_directory(context, &args.place, |dir, dir_attr, around| {
        let set = addable(context, dir_attr, &args.attributes)?;
        if set.size.is_some() {
            return Err(NfsStatus::Inval);
        }
        let make = |creator: Creator<'_>| {
            context.export.volume.mkdir(dir, args.place.name.0, &set, creator).map_err(|error| context.status(&error))
        };
        with_creator(context, dir_attr, around, make)
    })
}

pub(super) fn symlink(context: &Context<'_>, args: &SymLinkArgs<'_>) -> CreateResult {
    in_directory(context, &args.place, |dir, dir_attr, around| {
        let set = addable(context, dir_attr, &args.attributes)?;
        // The host gives every symbolic link the same mode, and a size that follows from the target.
        let set = SetAttr { mode: None, size: None, ..set };
        let volume = &context.export.volume;
        let make = |creator: Creator<'_>| {
            volume.symlink(dir, args.place.name.0, args.target.0, &set, creator).map_err(|error| context.status(&error))
        };
        with_creator(context, dir_attr, around, make)
    })
}

pub(super) fn mknod(context: &Context<'_>, args: &MkNodArgs<'_>) -> CreateResult {
    in_directory(context, &args.place, |dir, dir_attr, around| {
        let (kind, set, rdev) = match &args.what {
            NodeData::Device(kind, set, numbers) => (*kind, set, (numbers.major, numbers.minor)),
            NodeData::Pipe(kind, set) => (*kind, set, (0, 0)),
            NodeData::Other(_) => return Err(NfsStatus::BadType),
        };
        let kind = match kind {
            FileType::Block => NodeKind::Block,
            FileType::Character => NodeKind::Character,
            FileType::Socket => NodeKind::Socket,
            FileType::Fifo => NodeKind::Fifo,
            FileType::Regular | FileType::Directory | FileType::SymLink => return Err(NfsStatus::BadType),
        };
        let set = addable(context, dir_attr, set)?;
        // A device gives access to the server's hardware, so only root may create one, as on a local disk.
        if matches!(kind, NodeKind::Block | NodeKind::Character) && context.caller.uid != 0 {
            return Err(NfsStatus::Perm);
        }
        let volume = &context.export.volume;
        let make = |creator: Creator<'_>| {
            volume.mknod(dir, args.place.name.0, kind, rdev, &set, creator).map_err(|error| context.status(&error))
        };
        with_creator(context, dir_attr, around, make)
    })
}

/// Finds the directory, creates the object in it, and assembles the result.
fn in_directory(
    context: &Context<'_>,
    place: &DirOpArgs<'_>,
    make: impl FnOnce(&Node, &Subject<'_>, &Around) -> Result<(Node, Attr), NfsStatus>,
) -> CreateResult {
    let dir = match context.node(&place.dir) {
        Ok(dir) => dir,
        Err(status) => return refused(status, WccData::default()),
    };
    let around = Cell::new(None);
    let made = (|| {
        let dir_attr = context.subject(&dir)?;
        if dir_attr.kind != Kind::Directory {
            return Err(NfsStatus::NotDir);
        }
        if !context.caller.may_search(&dir_attr) {
            return Err(NfsStatus::Acces);
        }
        if [&b"."[..], b".."].contains(&place.name.0) {
            return Err(NfsStatus::Exist);
        }
        make(&dir, &dir_attr, &around)
    })();
    let dir_wcc = context.wcc_around(&dir, if made.is_ok() { around.take() } else { None });
    match made {
        Ok((node, attr)) => Ok(CreateOk { object: context.handle(&node), attributes: Some(convert::fattr(&attr)), dir_wcc }),
        Err(status) => refused(status, dir_wcc),
    }
}

/// The attributes of a new object, if the caller may add a name to the directory.
fn addable(context: &Context<'_>, dir: &Subject<'_>, set: &nfs3::SetAttr) -> Result<SetAttr, NfsStatus> {
    if !context.caller.may_add(dir) {
        return Err(NfsStatus::Acces);
    }
    new_attributes(context, set, dir)
}

/// The attributes of a new object. Sets owner and group only as a SETATTR by the owner could.
fn new_attributes(context: &Context<'_>, set: &nfs3::SetAttr, dir: &Attr) -> Result<SetAttr, NfsStatus> {
    let mut set = convert::set_attr(set)?;
    if set.size.is_some_and(|size| size > FILE_BYTES_MAX) {
        return Err(NfsStatus::FBig);
    }
    let owner = owner(context, dir);
    // Clients send the caller's own ids here. That does not change the owner, which an unprivileged filer could not do.
    set.uid = set.uid.filter(|uid| *uid != owner.uid);
    set.gid = set.gid.filter(|gid| *gid != owner.gid);
    if context.caller.uid != 0 {
        if set.uid.is_some() {
            return Err(NfsStatus::Perm);
        }
        if let Some(gid) = set.gid
            && !context.caller.in_group(gid)
        {
            return Err(NfsStatus::Perm);
        }
    }
    Ok(set)
}

/// Creates an object in a directory for the caller.
fn with_creator<T>(context: &Context<'_>, dir: &Subject<'_>, around: &Around, make: impl FnOnce(Creator<'_>) -> T) -> T {
    let caller = &context.caller;
    let allowed = |may: bool| if may { Ok(()) } else { Err(Error::Access) };
    make(Creator {
        owner: owner(context, dir),
        in_group: &|gid| caller.uid == 0 || caller.in_group(gid),
        may_add: allowed(caller.may_add(dir)),
        may_take: &|file| allowed(caller.may_write(file)),
        dir_wcc: Some(around),
    })
}

/// The owner of a new object: the caller, with the group of a set-group-id directory.
fn owner(context: &Context<'_>, dir: &Attr) -> Owner {
    let gid = match context.filer.only {
        _ if dir.mode & SET_GID != 0 => dir.gid,
        Some((_, own_gid)) => own_gid,
        None => context.caller.gid,
    };
    Owner { uid: context.caller.uid, gid }
}
