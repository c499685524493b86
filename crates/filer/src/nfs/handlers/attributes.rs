//! GETATTR, SETATTR, ACCESS (RFC 1813 3.3.1, 3.3.2, 3.3.4).

use nfs_proto::nfs3::{
    ACCESS_DELETE, ACCESS_EXECUTE, ACCESS_EXTEND, ACCESS_LOOKUP, ACCESS_MODIFY, ACCESS_READ, AccessArgs, AccessOk, AccessResult,
    GetAttrOk, GetAttrResult, ObjectArgs, SetAttrArgs, WccData, WccResult,
};
use volume::Kind;

use super::{Context, refused};
use crate::nfs::convert;
use crate::operations::State;
use crate::operations::access::{EXECUTE, READ, WRITE};

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
    let set = convert::set_attr(&args.new_attributes).and_then(|wanted| {
        let set = context.operator().set_attr(State::None, &node, &wanted, args.guard.map(convert::time));
        set.map_err(|error| context.status(&error))
    });
    match set {
        Ok(wcc) => Ok(convert::wcc_data(&wcc)),
        Err(status) => refused(status, context.wcc(&node)),
    }
}

pub(super) fn access(context: &Context<'_>, args: &AccessArgs) -> AccessResult {
    let found = context.any_node(&args.object);
    let attr = match found.as_ref().map_err(|status| *status).and_then(|node| context.subject(node)) {
        Ok(attr) => attr,
        Err(status) => return refused(status, None),
    };
    // A caller that the filer cannot serve gets no rights here. An error would fail its mount.
    let is_admitted = context.admitted().is_ok();
    let granted = |(right, rights): &(u32, u32)| args.access & right != 0 && context.caller.is_granted(&attr, *rights);
    let mut access =
        rights_of(attr.kind).iter().filter(|right| is_admitted && granted(right)).fold(0, |all, (right, _)| all | right);
    if context.read_only {
        access &= !(ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_DELETE);
    }
    Ok(AccessOk { attributes: Some(convert::fattr(&attr)), access })
}

/// The bits of ACCESS for an object of this kind, each with the rights that it takes (RFC 1813 3.3.4).
const fn rights_of(kind: Kind) -> &'static [(u32, u32)] {
    match kind {
        Kind::Directory => &[
            (ACCESS_READ, READ),
            (ACCESS_LOOKUP, EXECUTE),
            (ACCESS_MODIFY, WRITE | EXECUTE),
            (ACCESS_EXTEND, WRITE | EXECUTE),
            (ACCESS_DELETE, WRITE | EXECUTE),
        ],
        _ => &[(ACCESS_READ, READ), (ACCESS_MODIFY, WRITE), (ACCESS_EXTEND, WRITE), (ACCESS_EXECUTE, EXECUTE)],
    }
}
