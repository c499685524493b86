//! New objects. **Durability**: object, attributes and name are durable when an operation returns.

use std::cell::Cell;

use volume::{Attr, CreateHow, Creator, Error, Node, NodeKind, Owner, SetAttr, Subject, Wcc};

use super::{Changed, Operator, allowed, size_allowed};

const SET_GID: u32 = 0o2000;

/// A new object.
pub(crate) enum New<'n> {
    /// A file.
    File(CreateHow),
    /// A directory.
    Directory(SetAttr),
    /// A symbolic link to this path.
    Symlink(&'n [u8], SetAttr),
    /// A device, FIFO or socket, with major and minor number.
    Node(NodeKind, (u32, u32), SetAttr),
}

/// The object that was created, or that existed.
pub(crate) type Made = (Node, Attr);

/// Here the volume stores the directory's attributes from before and after the change.
type Around = Cell<Option<Wcc>>;

impl Operator<'_> {
    /// Creates an object with this name in a directory.
    pub(crate) fn create(&self, dir: &Node, name: &[u8], new: New<'_>) -> Changed<Made> {
        let around = Cell::new(None);
        let made = (|| {
            let attr = self.searchable(dir)?;
            if [&b"."[..], b".."].contains(&name) {
                return Err(Error::Exists);
            }
            self.make(dir, &attr, name, new, &around)
        })();
        let around = if made.is_ok() { around.take() } else { None };
        (made, around)
    }

    fn make(&self, dir: &Node, attr: &Subject<'_>, name: &[u8], new: New<'_>, around: &Around) -> Result<Made, Error> {
        let volume = self.volume;
        match new {
            New::File(how) => self.make_file(dir, attr, name, how, around),
            New::Directory(set) => {
                let set = self.addable(attr, set)?;
                if set.size.is_some() {
                    return Err(Error::Invalid);
                }
                self.with_creator(attr, around, |creator| volume.mkdir(dir, name, &set, creator))
            }
            New::Symlink(target, set) => {
                // The host gives every symbolic link the same mode, and a size that follows from the target.
                let set = SetAttr { mode: None, size: None, ..self.addable(attr, set)? };
                self.with_creator(attr, around, |creator| volume.symlink(dir, name, target, &set, creator))
            }
            New::Node(kind, rdev, set) => {
                let set = self.addable(attr, set)?;
                // A device gives access to the server's hardware, so only root may create one, as on a local disk.
                if matches!(kind, NodeKind::Block | NodeKind::Character) && self.caller.uid != 0 {
                    return Err(Error::NotPermitted);
                }
                self.with_creator(attr, around, |creator| volume.mknod(dir, name, kind, rdev, &set, creator))
            }
        }
    }

    fn make_file(&self, dir: &Node, attr: &Subject<'_>, name: &[u8], how: CreateHow, around: &Around) -> Result<Made, Error> {
        let how = match how {
            // An existing file is opened, so a caller that may write to it may cut or extend it.
            CreateHow::Unchecked(set) => CreateHow::Unchecked(self.new_attributes(attr, set)?),
            CreateHow::Guarded(set) => CreateHow::Guarded(self.addable(attr, set)?),
            CreateHow::Exclusive(verifier) => {
                allowed(self.caller.may_add(attr))?;
                CreateHow::Exclusive(verifier)
            }
        };
        let cuts = matches!(how, CreateHow::Unchecked(SetAttr { size: Some(_), .. }));
        let create = || self.with_creator(attr, around, |creator| self.volume.create(dir, name, how, creator));
        if cuts { self.keeping_roots_set_id(create) } else { create() }
    }

    /// The attributes of a new object, if the caller may add a name to the directory.
    fn addable(&self, dir: &Subject<'_>, set: SetAttr) -> Result<SetAttr, Error> {
        allowed(self.caller.may_add(dir))?;
        self.new_attributes(dir, set)
    }

    /// The attributes of a new object. Sets owner and group only as the owner could set them later.
    fn new_attributes(&self, dir: &Attr, mut set: SetAttr) -> Result<SetAttr, Error> {
        size_allowed(set.size)?;
        let owner = self.owner(dir);
        // Clients send the caller's own ids here. That does not change the owner, which an unprivileged filer could not do.
        set.uid = set.uid.filter(|uid| *uid != owner.uid);
        set.gid = set.gid.filter(|gid| *gid != owner.gid);
        let gives_away = set.uid.is_some() || set.gid.is_some_and(|gid| !self.caller.in_group(gid));
        if self.caller.uid != 0 && gives_away { Err(Error::NotPermitted) } else { Ok(set) }
    }

    /// Creates an object in a directory for the caller.
    fn with_creator<T>(&self, dir: &Subject<'_>, around: &Around, make: impl FnOnce(Creator<'_>) -> T) -> T {
        let caller = self.caller;
        make(Creator {
            owner: self.owner(dir),
            in_group: &|gid| caller.uid == 0 || caller.in_group(gid),
            may_add: allowed(caller.may_add(dir)),
            may_take: &|file| allowed(caller.may_write(file)),
            dir_wcc: Some(around),
        })
    }

    /// The owner of a new object: the caller, with the group of a set-group-id directory.
    fn owner(&self, dir: &Attr) -> Owner {
        let gid = match self.own_group {
            _ if dir.mode & SET_GID != 0 => dir.gid,
            Some(own_gid) => own_gid,
            None => self.caller.gid,
        };
        Owner { uid: self.caller.uid, gid }
    }
}
