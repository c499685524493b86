//! Attributes and names: every procedure that is one call and one answer. What a resend may have done twice is healed.

use crate::client::Client;
use crate::error::Error;
use crate::heal;
use nfs_proto::nfs3::{
    AccessArgs, AccessResult, CreateArgs, CreateHow, CreateResult, DirOpArgs, Failure, Fattr, FileHandle, FsStatOk, FsStatResult,
    GetAttrResult, LinkArgs, LinkResult, LookupResult, MkDirArgs, MkNodArgs, Name, NfsStatus, NfsTime, NodeData, ObjectArgs,
    Path, PathConfOk, PathConfResult, Procedure, ReadLinkResult, RenameArgs, RenameResult, SetAttr, SetAttrArgs, SymLinkArgs,
    WccData, WccResult,
};
use nfs_proto::xdr::Decode;

/// A new object: its handle and attributes, as far as the server sent them.
pub type Created = (Option<FileHandle>, Option<Fattr>);

impl Client {
    /// Does nothing, on the server too (RFC 1813 3.3.0): is it there?
    ///
    /// # Errors
    /// [`Error`] of the mount.
    pub fn null(&self) -> Result<(), Error> {
        self.call_with(Procedure::Null, &(), |_| Ok(NfsStatus::Ok)).map(|_| ())
    }

    /// Attributes of an object (RFC 1813 3.3.1).
    ///
    /// # Errors
    /// The server's refusal.
    pub fn getattr(&self, object: &FileHandle) -> Result<Fattr, Error> {
        let (outcome, _): (GetAttrResult, _) = self.call(Procedure::GetAttr, &ObjectArgs { object: *object })?;
        refusal(outcome).map(|ok| ok.attributes)
    }

    /// Changes attributes (RFC 1813 3.3.2); `guard` is the ctime the object must have. Its attributes afterwards.
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn setattr(&self, object: &FileHandle, set: &SetAttr, guard: Option<NfsTime>) -> Result<Option<Fattr>, Error> {
        let arguments = SetAttrArgs { object: *object, new_attributes: *set, guard };
        let (outcome, resent): (WccResult, _) = self.call(Procedure::SetAttr, &arguments)?;
        match refusal(outcome) {
            Err(error) if resent && error.status() == Some(NfsStatus::NotSync) => heal::set_attr(self, object, set, error),
            other => other.map(|wcc| wcc.after),
        }
    }

    /// Handle and attributes of a name (RFC 1813 3.3.3).
    ///
    /// # Errors
    /// The server's refusal.
    pub fn lookup(&self, dir: &FileHandle, name: &[u8]) -> Result<(FileHandle, Option<Fattr>), Error> {
        let (outcome, _): (LookupResult, _) = self.call(Procedure::Lookup, &place(dir, name)?)?;
        refusal(outcome).map(|ok| (ok.object, ok.attributes))
    }

    /// Which of the rights `access` (`ACCESS_*`) the caller has (RFC 1813 3.3.4).
    ///
    /// # Errors
    /// The server's refusal.
    pub fn access(&self, object: &FileHandle, access: u32) -> Result<u32, Error> {
        let (outcome, _): (AccessResult, _) = self.call(Procedure::Access, &AccessArgs { object: *object, access })?;
        refusal(outcome).map(|ok| ok.access)
    }

    /// Text of a symbolic link (RFC 1813 3.3.5), in place of what `target` held.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn readlink(&self, link: &FileHandle, target: &mut Vec<u8>) -> Result<(), Error> {
        let mut answer = NfsStatus::Ok;
        self.call_with(Procedure::ReadLink, &ObjectArgs { object: *link }, |results| {
            answer = match ReadLinkResult::decode(results)? {
                Ok(ok) => {
                    target.clear();
                    target.extend_from_slice(ok.target.0);
                    NfsStatus::Ok
                }
                Err(failure) => failure.status,
            };
            Ok(answer)
        })?;
        if answer == NfsStatus::Ok { Ok(()) } else { Err(Error::Status(answer)) }
    }

    /// Creates a regular file (RFC 1813 3.3.8).
    ///
    /// **Durability**: the name is stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn create(&self, dir: &FileHandle, name: &[u8], how: CreateHow) -> Result<Created, Error> {
        let arguments = CreateArgs { place: place(dir, name)?, how };
        let (outcome, resent): (CreateResult, _) = self.call(Procedure::Create, &arguments)?;
        match created(outcome) {
            // UNCHECKED is not refused, EXCLUSIVE is recognised by the server itself.
            Err(error) if resent && matches!(how, CreateHow::Guarded(_)) => heal::created_file(self, dir, name, error),
            other => other,
        }
    }

    /// Creates a directory (RFC 1813 3.3.9).
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn mkdir(&self, dir: &FileHandle, name: &[u8], attributes: &SetAttr) -> Result<Created, Error> {
        let arguments = MkDirArgs { place: place(dir, name)?, attributes: *attributes };
        let (outcome, resent): (CreateResult, _) = self.call(Procedure::MkDir, &arguments)?;
        match created(outcome) {
            Err(error) if resent => heal::created_directory(self, dir, name, error),
            other => other,
        }
    }

    /// Creates a symbolic link with this text (RFC 1813 3.3.10).
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn symlink(&self, dir: &FileHandle, name: &[u8], target: &[u8], attributes: &SetAttr) -> Result<Created, Error> {
        if target.len() > nfs_proto::limits::PATH_BYTES_MAX {
            return Err(Error::Status(NfsStatus::NameTooLong));
        }
        let arguments = SymLinkArgs { place: place(dir, name)?, attributes: *attributes, target: Path(target) };
        let (outcome, resent): (CreateResult, _) = self.call(Procedure::SymLink, &arguments)?;
        match created(outcome) {
            Err(error) if resent => heal::created_symlink(self, dir, name, target, error),
            other => other,
        }
    }

    /// Creates a device, socket or pipe (RFC 1813 3.3.11).
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn mknod(&self, dir: &FileHandle, name: &[u8], what: NodeData) -> Result<Created, Error> {
        let (outcome, resent): (CreateResult, _) = self.call(Procedure::MkNod, &MkNodArgs { place: place(dir, name)?, what })?;
        match (created(outcome), what) {
            (Err(error), NodeData::Device(kind, ..) | NodeData::Pipe(kind, _)) if resent => {
                heal::created_of_kind(self, dir, name, kind, error)
            }
            (other, _) => other,
        }
    }

    /// Removes a name that is not a directory (RFC 1813 3.3.12).
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn remove(&self, dir: &FileHandle, name: &[u8]) -> Result<(), Error> {
        let (outcome, resent): (WccResult, _) = self.call(Procedure::Remove, &place(dir, name)?)?;
        heal::removed(refusal(outcome).map(|_| ()), resent)
    }

    /// Removes an empty directory (RFC 1813 3.3.13).
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn rmdir(&self, dir: &FileHandle, name: &[u8]) -> Result<(), Error> {
        let (outcome, resent): (WccResult, _) = self.call(Procedure::RmDir, &place(dir, name)?)?;
        heal::removed(refusal(outcome).map(|_| ()), resent)
    }

    /// Renames (RFC 1813 3.3.14); what stood under the new name is replaced.
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn rename(&self, from_dir: &FileHandle, from: &[u8], to_dir: &FileHandle, to: &[u8]) -> Result<(), Error> {
        self.rename_object(from_dir, from, to_dir, to, None)
    }

    /// [`Self::rename`] of an object whose number is known, so that a resend is healed for this object only.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn rename_object(
        &self,
        from_dir: &FileHandle,
        from: &[u8],
        to_dir: &FileHandle,
        to: &[u8],
        fileid: Option<u64>,
    ) -> Result<(), Error> {
        let arguments = RenameArgs { from: place(from_dir, from)?, to: place(to_dir, to)? };
        let (outcome, resent): (RenameResult, _) = self.call(Procedure::Rename, &arguments)?;
        match refusal(outcome) {
            Err(error) if resent => heal::renamed(self, (to_dir, to), fileid, error),
            other => other.map(|_| ()),
        }
    }

    /// Gives a file a further name (RFC 1813 3.3.15). Its attributes afterwards.
    ///
    /// **Durability**: stable when it returns.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn link(&self, file: &FileHandle, dir: &FileHandle, name: &[u8]) -> Result<Option<Fattr>, Error> {
        let arguments = LinkArgs { file: *file, link: place(dir, name)? };
        let (outcome, resent): (LinkResult, _) = self.call(Procedure::Link, &arguments)?;
        match refusal(outcome) {
            Err(error) if resent => heal::linked(self, file, dir, name, error),
            other => other.map(|wcc| wcc.attributes),
        }
    }

    /// Space and files of the export (RFC 1813 3.3.18).
    ///
    /// # Errors
    /// The server's refusal.
    pub fn fsstat(&self, object: &FileHandle) -> Result<FsStatOk, Error> {
        let (outcome, _): (FsStatResult, _) = self.call(Procedure::FsStat, &ObjectArgs { object: *object })?;
        refusal(outcome)
    }

    /// POSIX limits of the export (RFC 1813 3.3.20).
    ///
    /// # Errors
    /// The server's refusal.
    pub fn pathconf(&self, object: &FileHandle) -> Result<PathConfOk, Error> {
        let (outcome, _): (PathConfResult, _) = self.call(Procedure::PathConf, &ObjectArgs { object: *object })?;
        refusal(outcome)
    }
}

/// Directory and name of a call. A name no server takes never leaves this host.
pub(crate) fn place<'a>(dir: &FileHandle, name: &'a [u8]) -> Result<DirOpArgs<'a>, Error> {
    if name.len() > nfs_proto::limits::NAME_BYTES_MAX {
        return Err(Error::Status(NfsStatus::NameTooLong));
    }
    Ok(DirOpArgs { dir: *dir, name: Name(name) })
}

fn refusal<O, F>(outcome: Result<O, Failure<F>>) -> Result<O, Error> {
    outcome.map_err(|failure| Error::Status(failure.status))
}

fn created(outcome: Result<nfs_proto::nfs3::CreateOk, Failure<WccData>>) -> Result<Created, Error> {
    refusal(outcome).map(|ok| (ok.object, ok.attributes))
}
