//! GETATTR, SETATTR, ACCESS (RFC 1813 3.3.1, 3.3.2, 3.3.4).

use nfs_proto::nfs3::{
    ACCESS_DELETE, ACCESS_EXTEND, ACCESS_MODIFY, AccessArgs, AccessOk, AccessResult, GetAttrOk, GetAttrResult, NfsStatus,
    ObjectArgs, SetAttrArgs, WccData, WccResult,
};
use volume::{Kind, Node};

use super::{Context, refused, status};
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

/// **Durability**: what was set is durable when this returns.
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
    let attr = context.attr(node)?;
    if let Some(size) = wanted.size {
        match attr.kind {
            Kind::File => {}
            Kind::Directory => return Err(NfsStatus::IsDir),
            _ => return Err(NfsStatus::Inval),
        }
        if size > FILE_BYTES_MAX {
            return Err(NfsStatus::FBig);
        }
    }
    let mut effective = context.caller.settable(&attr, &wanted)?;
    if effective.size.is_some() && effective.mode.is_none() {
        effective.mode = context.caller.mode_after_write(&attr);
    }
    let after = context.export.volume.set_attr(node, &effective, args.guard.map(convert::time)).map_err(status)?;
    Ok(WccData { before: None, after: Some(convert::fattr(&after)) })
}

pub(super) fn access(context: &Context<'_>, args: &AccessArgs) -> AccessResult {
    let attr = match context.any_node(&args.object).and_then(|node| context.attr(&node)) {
        Ok(attr) => attr,
        Err(status) => return refused(status, None),
    };
    // A caller that is not served at all gets no right here, rather than an error that fails its mount.
    let mut access = if context.admitted().is_ok() { context.caller.granted(&attr, args.access) } else { 0 };
    if context.read_only {
        access &= !(ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_DELETE);
    }
    Ok(AccessOk { attributes: Some(convert::fattr(&attr)), access })
}
