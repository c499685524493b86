//! Attributes of objects.

use std::cell::Cell;

use volume::{Attr, Error, Kind, Node, SetAttr, Time, Wcc};

use super::{Operator, State, size_allowed};

impl Operator<'_> {
    /// Sets attributes, if the object's ctime is that of `guard`. **Durability**: they are durable when this returns.
    pub(crate) fn set_attr(&self, _state: State, node: &Node, wanted: &SetAttr, guard: Option<Time>) -> Result<Wcc, Error> {
        if wanted.size.is_some() {
            match node.kind() {
                Kind::File => {}
                Kind::Directory => return Err(Error::IsDirectory),
                _ => return Err(Error::Invalid),
            }
            size_allowed(wanted.size)?;
        }
        // Access is checked at the moment of the change. After an earlier check, another caller
        // could change the owner before the change.
        let refusal = Cell::new(None);
        let decide = |now: &Attr| {
            let set = self.caller.settable(&self.volume.subject(node, *now), wanted);
            set.inspect_err(|error| refusal.set(Some(*error)))
        };
        let set = || self.volume.set_attr_if(node, guard, &decide);
        let set = if wanted.size.is_some() { self.keeping_roots_set_id(set) } else { set() };
        set.map_err(|error| refusal.take().unwrap_or(error))
    }
}
