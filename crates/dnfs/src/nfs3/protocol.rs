//! NFSv3 as a [`FileProtocol`]. Each procedure that is one call and one answer is here.
//!
//! The server may have executed a resent call twice.
//! [`retry_outcome`] finds out whether the first transmission succeeded. REMOVE, RMDIR and LINK leave no evidence of that, so a
//! refusal is final.

use super::client::Nfs3;
use super::io_codec::IO_CODEC;
use super::types::{self as convert, attributes_of, handle, handle_of, refusal};
use crate::client_state::ClientState;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{
    AccessRights, Attributes, CreateMode, Created, DirectoryPosition, FileHandle, FileKind, FileTime, FsError, SetAttributes,
    SpaceUse, SpecialFile, Stability,
};
use crate::io_codec::IoCodec;
use crate::limits::SLOTS_MAX;
use crate::payload::Payload;
use crate::protocol::{FileProtocol, ReadDone, Stable, Visit, WriteDone};
use crate::retry_outcome;
use crate::url::NfsUrl;
use nfs_proto::nfs3::{
    AccessArgs, AccessResult, CreateArgs, CreateOk, CreateResult, DirOpArgs, Failure, FsStatResult, GetAttrResult, LinkArgs,
    LinkResult, LookupResult, MkDirArgs, MkNodArgs, Name, NfsStatus, ObjectArgs, Path, Procedure, ReadLinkResult, RenameArgs,
    RenameResult, SetAttrArgs, SymLinkArgs, WccData, WccResult,
};
use nfs_proto::xdr::Decode;
use std::io::IoSliceMut;
use std::sync::atomic::AtomicU32;

impl FileProtocol for Nfs3 {
    fn state(&self) -> &ClientState {
        self
    }

    fn state_mut(&mut self) -> &mut ClientState {
        self
    }

    fn with_credentials(&self, url: &NfsUrl, who: &Credentials) -> Result<Box<dyn FileProtocol>, Error> {
        Ok(Box::new(Self { state: ClientState::with_credentials(self, url, who)? }))
    }

    fn io_codec(&self) -> &'static IoCodec {
        &IO_CODEC
    }

    fn null(&self) -> Result<(), Error> {
        self.call_with(Procedure::Null, &(), |_| Ok(NfsStatus::Ok)).map(|_| ())
    }

    fn getattr(&self, object: &FileHandle) -> Result<Attributes, Error> {
        let (outcome, _): (GetAttrResult, _) = self.call(Procedure::GetAttr, &ObjectArgs { object: handle(object)? })?;
        answer(outcome).map(|ok| attributes_of(&ok.attributes))
    }

    fn setattr(&self, object: &FileHandle, set: &SetAttributes, guard: Option<FileTime>) -> Result<Option<Attributes>, Error> {
        let (new_attributes, guard) = (convert::set_attr(set), guard.map(convert::time_to));
        let arguments = SetAttrArgs { object: handle(object)?, new_attributes, guard };
        let (outcome, resent): (WccResult, _) = self.call(Procedure::SetAttr, &arguments)?;
        match answer(outcome) {
            Err(error) if resent && error.fs_error() == Some(FsError::NotSync) => {
                retry_outcome::set_attr(self, object, set, error)
            }
            other => other.map(|wcc| wcc.after.as_ref().map(attributes_of)),
        }
    }

    fn lookup(&self, dir: &FileHandle, name: &[u8]) -> Result<(FileHandle, Option<Attributes>), Error> {
        let (outcome, _): (LookupResult, _) = self.call(Procedure::Lookup, &name_in(dir, name)?)?;
        answer(outcome).map(|ok| (handle_of(&ok.object), ok.attributes.as_ref().map(attributes_of)))
    }

    fn access(&self, object: &FileHandle, rights: AccessRights) -> Result<AccessRights, Error> {
        let arguments = AccessArgs { object: handle(object)?, access: convert::access_bits(rights) };
        let (outcome, _): (AccessResult, _) = self.call(Procedure::Access, &arguments)?;
        answer(outcome).map(|ok| convert::rights_of(ok.access))
    }

    fn readlink(&self, link: &FileHandle, target: &mut Vec<u8>) -> Result<(), Error> {
        let mut status = NfsStatus::Ok;
        self.call_with(Procedure::ReadLink, &ObjectArgs { object: handle(link)? }, |results| {
            status = match ReadLinkResult::decode(results)? {
                Ok(ok) => {
                    target.clear();
                    target.extend_from_slice(ok.target.0);
                    NfsStatus::Ok
                }
                Err(failure) => failure.status,
            };
            Ok(status)
        })?;
        if status == NfsStatus::Ok { Ok(()) } else { Err(refusal(status)) }
    }

    fn create(&self, dir: &FileHandle, name: &[u8], mode: CreateMode) -> Result<Created, Error> {
        let mode = match mode {
            CreateMode::Guarded(set) => CreateMode::Guarded(retry_outcome::marked(&set)),
            other => other,
        };
        let arguments = CreateArgs { place: name_in(dir, name)?, how: convert::create_how(mode) };
        let (outcome, resent): (CreateResult, _) = self.call(Procedure::Create, &arguments)?;
        match created(outcome) {
            // The server does not refuse UNCHECKED, and recognises EXCLUSIVE itself.
            Err(error) if resent => match mode {
                CreateMode::Guarded(set) => retry_outcome::created(self, (dir, name), FileKind::Regular, set.atime, error),
                _ => Err(error),
            },
            other => other,
        }
    }

    fn mkdir(&self, dir: &FileHandle, name: &[u8], attributes: &SetAttributes) -> Result<Created, Error> {
        let set = retry_outcome::marked(attributes);
        let arguments = MkDirArgs { place: name_in(dir, name)?, attributes: convert::set_attr(&set) };
        let (outcome, resent): (CreateResult, _) = self.call(Procedure::MkDir, &arguments)?;
        match created(outcome) {
            Err(error) if resent => retry_outcome::created(self, (dir, name), FileKind::Directory, set.atime, error),
            other => other,
        }
    }

    fn symlink(&self, dir: &FileHandle, name: &[u8], target: &[u8], attributes: &SetAttributes) -> Result<Created, Error> {
        if target.len() > nfs_proto::limits::PATH_BYTES_MAX {
            return Err(Error::Fs(FsError::NameTooLong));
        }
        let set = retry_outcome::marked(attributes);
        let arguments = SymLinkArgs { place: name_in(dir, name)?, attributes: convert::set_attr(&set), target: Path(target) };
        let (outcome, resent): (CreateResult, _) = self.call(Procedure::SymLink, &arguments)?;
        match created(outcome) {
            Err(error) if resent => retry_outcome::created(self, (dir, name), FileKind::Symlink, set.atime, error),
            other => other,
        }
    }

    fn mknod(&self, dir: &FileHandle, name: &[u8], what: SpecialFile, attributes: &SetAttributes) -> Result<Created, Error> {
        let set = retry_outcome::marked(attributes);
        let arguments = MkNodArgs { place: name_in(dir, name)?, what: convert::node_data(what, &set) };
        let (outcome, resent): (CreateResult, _) = self.call(Procedure::MkNod, &arguments)?;
        let kind = match what {
            SpecialFile::Fifo => FileKind::Fifo,
            SpecialFile::Socket => FileKind::Socket,
            SpecialFile::Character(_) => FileKind::Character,
            SpecialFile::Block(_) => FileKind::Block,
        };
        match created(outcome) {
            Err(error) if resent => retry_outcome::created(self, (dir, name), kind, set.atime, error),
            other => other,
        }
    }

    fn remove(&self, dir: &FileHandle, name: &[u8]) -> Result<(), Error> {
        let (outcome, _): (WccResult, _) = self.call(Procedure::Remove, &name_in(dir, name)?)?;
        answer(outcome).map(|_| ())
    }

    fn rmdir(&self, dir: &FileHandle, name: &[u8]) -> Result<(), Error> {
        let (outcome, _): (WccResult, _) = self.call(Procedure::RmDir, &name_in(dir, name)?)?;
        answer(outcome).map(|_| ())
    }

    fn rename_object(
        &self,
        from_dir: &FileHandle,
        from: &[u8],
        to_dir: &FileHandle,
        to: &[u8],
        fileid: Option<u64>,
    ) -> Result<(), Error> {
        let arguments = RenameArgs { from: name_in(from_dir, from)?, to: name_in(to_dir, to)? };
        let run = self.route.endpoints.channel_support.run();
        let (outcome, resent): (RenameResult, _) = self.call(Procedure::Rename, &arguments)?;
        match answer(outcome) {
            Err(error) if resent => {
                let exact = run.is_some() && run == self.route.endpoints.channel_support.run();
                retry_outcome::renamed(self, (to_dir, to), fileid, exact, error)
            }
            other => other.map(|_| ()),
        }
    }

    fn link(&self, file: &FileHandle, dir: &FileHandle, name: &[u8]) -> Result<Option<Attributes>, Error> {
        let arguments = LinkArgs { file: handle(file)?, link: name_in(dir, name)? };
        let (outcome, _): (LinkResult, _) = self.call(Procedure::Link, &arguments)?;
        answer(outcome).map(|wcc| wcc.attributes.as_ref().map(attributes_of))
    }

    fn fsstat(&self, object: &FileHandle) -> Result<SpaceUse, Error> {
        let (outcome, _): (FsStatResult, _) = self.call(Procedure::FsStat, &ObjectArgs { object: handle(object)? })?;
        answer(outcome).map(|ok| convert::space_of(&ok))
    }

    fn list(
        &self,
        dir: &FileHandle,
        from: DirectoryPosition,
        refused: &AtomicU32,
        visit: Visit<'_>,
    ) -> Result<Option<DirectoryPosition>, Error> {
        Self::list(self, dir, from, refused, visit)
    }

    fn read(&self, file: &FileHandle, offset: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<ReadDone, Error> {
        Self::read(self, file, offset, bufs)
    }

    fn write_payload(
        &self,
        file: &FileHandle,
        offset: u64,
        payload: &mut Payload<'_, '_>,
        how: Stability,
        keep: &mut dyn FnMut(&Payload<'_, '_>, usize),
    ) -> Result<WriteDone, Error> {
        Self::write_payload(self, file, offset, payload, how, keep)
    }

    fn write_gathered(&self, file: &FileHandle, offset: u64, bytes: &[u8]) -> Result<WriteDone, Error> {
        Self::write_gathered(self, file, offset, bytes)
    }

    fn commit(&self, file: &FileHandle) -> Result<Stable, Error> {
        Self::commit(self, file)
    }

    fn commit_together(
        &self,
        files: &[Option<FileHandle>; SLOTS_MAX],
        answered: &mut dyn FnMut(usize, Result<Stable, Error>),
    ) -> Result<(), Error> {
        Self::commit_together(self, files, answered)
    }

    fn serves(&self, root: &FileHandle) -> Result<bool, Error> {
        Self::serves(self, root)
    }

    fn serves_another_root(&self) -> Result<bool, Error> {
        Self::serves_another_root(self)
    }

    fn check_volume(&self) -> Result<(), Error> {
        Self::check_volume(self)
    }

    fn volume_replaced(&self) -> Error {
        Self::volume_replaced(self)
    }
}

/// Directory and name of a call. A name that no server accepts is refused without a call.
pub(crate) fn name_in<'a>(dir: &FileHandle, name: &'a [u8]) -> Result<DirOpArgs<'a>, Error> {
    if name.len() > nfs_proto::limits::NAME_BYTES_MAX {
        return Err(Error::Fs(FsError::NameTooLong));
    }
    Ok(DirOpArgs { dir: handle(dir)?, name: Name(name) })
}

fn answer<O, F>(outcome: Result<O, Failure<F>>) -> Result<O, Error> {
    outcome.map_err(|failure| refusal(failure.status))
}

fn created(outcome: Result<CreateOk, Failure<WccData>>) -> Result<Created, Error> {
    answer(outcome).map(|ok| convert::created_of(&ok))
}
