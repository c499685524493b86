//! GETATTR, SETATTR, ACCESS (RFC 1813 3.3.1, 3.3.2, 3.3.4).

use std::cell::Cell;

use nfs_proto::nfs3::{
    ACCESS_DELETE, ACCESS_EXTEND, ACCESS_MODIFY, AccessArgs, AccessOk, AccessResult, GetAttrOk, GetAttrResult, NfsStatus,
    ObjectArgs, SetAttrArgs, WccData, WccResult,
};
use volume::{Attr, Error, Kind, Node};

use super::{Context, refused};
use crate::limits::FILE_BYTES_MAX;
use crate::nfs::convert;

pub(super) fn get_attr(context: &Context<'_>, args: &ObjectArgs) -> GetAttrResult {
    let attr = context.any_node(&args.object).and_then(|node| {
        context.export.volume.attr_asked(&node);
        context.attr(&node)
    });
    match attr {
        Ok(attr) => Ok(GetAttrOk { attributes: convert::fattr(&attr) }),
        Err(status) => refused(status, ()),
    }
}

/// SETATTR. **Durability**: the new attributes are durable when this returns.
pub(super) fn set_attr(context: &Context<'_>, args: &SetAttrArgs) -> WccResult {
    let node = match context.node(&args.object) {
        Ok(node) => node,
        Err(status) => return refused(status, WccData::default()),
    };
    match set(context, &node, args) {
        Ok(after) => Ok(after),
        Err(status) => refused(status, context.wcc(&node)),
    }
}

fn set(context: &Context<'_>, node: &Node, args: &SetAttrArgs) -> Result<WccData, NfsStatus> {
    let wanted = convert::set_attr(&args.new_attributes)?;
    if let Some(size) = wanted.size {
        match node.kind() {
            Kind::File => {}
            Kind::Directory => return Err(NfsStatus::IsDir),
            _ => return Err(NfsStatus::Inval),
        }
        if size > FILE_BYTES_MAX {
            return Err(NfsStatus::FBig);
        }
    }
    // Checked at the moment of the change. Earlier, another caller could still change the owner after the check.
    let refusal = Cell::new(None);
    let decide = |now: &Attr| {
        context.caller.settable(&context.export.volume.subject(node, *now), &wanted).map_err(|status| {
            refusal.set(Some(status));
            Error::Access
        })
    };
    let set = || context.export.volume.set_attr_if(node, args.guard.map(convert::time), &decide);
    let wcc = if wanted.size.is_some() { context.keeping_roots_set_id(set) } else { set() };
    let wcc = wcc.map_err(|error| refusal.take().unwrap_or_else(|| context.status(&error)))?;
    Ok(convert::wcc_data(&wcc))
}

pub(super) fn access(context: &Context<'_>, args: &AccessArgs) -> AccessResult {
    let found = context.any_node(&args.object);
    let attr = match found.as_ref().map_err(|status| *status).and_then(|node| context.subject(node)) {
        Ok(attr) => attr,
        Err(status) => return refused(status, None),
    };
    // A caller that the filer cannot serve gets no rights here. An error would fail its mount.
    let mut access = if context.admitted().is_ok() { context.caller.granted(&attr, args.access) } else { 0 };
    if context.read_only {
        access &= !(ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_DELETE);
    }
    Ok(AccessOk { attributes: Some(convert::fattr(&attr)), access })
}
