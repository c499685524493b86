//! Names in directories: lookup, listing, removal, renaming and links.

use volume::{Attr, Error, Node, Subject, Wcc};

use super::{Operator, allowed, require_directory};

/// The attributes around the changes of the two directories of a rename.
type Renamed = [Option<Wcc>; 2];

impl Operator<'_> {
    /// The attributes of a directory in which the caller may look up names.
    pub(crate) fn searchable<'s>(&'s self, dir: &'s Node) -> Result<Subject<'s>, Error> {
        let attr = self.subject(dir)?;
        require_directory(&attr)?;
        allowed(self.caller.may_search(&attr))?;
        Ok(attr)
    }

    /// Checks that the caller may list a directory with these attributes.
    pub(crate) fn may_list(&self, dir: &Node, attr: Attr) -> Result<(), Error> {
        require_directory(&attr)?;
        allowed(self.caller.may_list(&self.volume.subject(dir, attr)))
    }

    /// Whether the caller may look up names in a directory with these attributes.
    pub(crate) fn may_search(&self, dir: &Node, attr: Attr) -> bool {
        self.caller.may_search(&self.volume.subject(dir, attr))
    }

    /// Removes a name, which must be that of a directory if `directory` is set, and of another
    /// object if not. **Durability**: the removal is durable when this returns.
    pub(crate) fn remove(&self, dir: &Node, name: &[u8], directory: bool) -> Result<Option<Wcc>, Error> {
        if directory && name == b"." {
            return Err(Error::Invalid);
        }
        if name == b".." {
            return Err(if directory { Error::Exists } else { Error::IsDirectory });
        }
        let attr = self.searchable(dir)?;
        self.volume.remove_if(dir, name, directory, &|victim| self.may_remove(&attr, victim))
    }

    /// Whether the caller may remove the name of `victim` from a directory. The volume calls this
    /// at the moment of the removal: after an earlier check, the name could belong to another
    /// object.
    fn may_remove(&self, dir: &Subject<'_>, victim: &Attr) -> Result<(), Error> {
        allowed(self.caller.may_remove(dir, victim))
    }

    /// Renames an object. **Durability**: when this returns, the change is durable: only the new name exists.
    pub(crate) fn rename(&self, (from_dir, from): (&Node, &[u8]), (to_dir, to): (&Node, &[u8])) -> Result<Renamed, Error> {
        if [from, to].iter().any(|name| [&b"."[..], b".."].contains(name)) {
            return Err(Error::Invalid);
        }
        let (from_attr, to_attr) = (self.searchable(from_dir)?, self.subject(to_dir)?);
        require_directory(&to_attr)?;
        let may_move = |moved: &Subject<'_>| {
            self.may_remove(&from_attr, moved)?;
            allowed(self.caller.may_add(&to_attr) && self.caller.may_move(moved, from_dir != to_dir))
        };
        let may_replace = |replaced: &Subject<'_>| self.may_remove(&to_attr, replaced);
        self.volume.rename_if((from_dir, from), (to_dir, to), &may_move, &may_replace)
    }

    /// Gives an object another name. **Durability**: the name is durable when this returns.
    pub(crate) fn link(&self, node: &Node, dir: &Node, name: &[u8]) -> Result<Option<Wcc>, Error> {
        let attr = self.subject(dir)?;
        require_directory(&attr)?;
        allowed(self.caller.may_add(&attr))?;
        self.volume.link(node, dir, name).map(|(_, around)| around)
    }
}
