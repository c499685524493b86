//! NFSv3 as a [`FileProtocol`].

use super::client::Nfs3;
use super::io_codec::IO_CODEC;
use crate::client_state::ClientState;
use crate::credentials::Credentials;
use crate::error::Error;
use crate::file::{
    AccessRights, Attributes, CreateMode, Created, DirectoryPosition, FileHandle, FileTime, SetAttributes, SpaceUse, SpecialFile,
    Stability,
};
use crate::io_codec::IoCodec;
use crate::limits::SLOTS_MAX;
use crate::payload::Payload;
use crate::protocol::{Client, FileProtocol, ReadDone, Stable, Visit, WriteDone};
use crate::url::NfsUrl;
use std::io::IoSliceMut;
use std::sync::atomic::AtomicU32;

impl FileProtocol for Nfs3 {
    fn state(&self) -> &ClientState {
        self
    }

    fn state_mut(&mut self) -> &mut ClientState {
        self
    }

    fn with_credentials(&self, url: &NfsUrl, who: &Credentials) -> Result<Client, Error> {
        ClientState::with_credentials(self, url, who).map(|state| Client::of(Self { state }))
    }

    fn io_codec(&self) -> &'static IoCodec {
        &IO_CODEC
    }

    fn null(&self) -> Result<(), Error> {
        Self::null(self)
    }

    fn getattr(&self, object: &FileHandle) -> Result<Attributes, Error> {
        Self::getattr(self, object)
    }

    fn setattr(&self, object: &FileHandle, set: &SetAttributes, guard: Option<FileTime>) -> Result<Option<Attributes>, Error> {
        Self::setattr(self, object, set, guard)
    }

    fn lookup(&self, dir: &FileHandle, name: &[u8]) -> Result<(FileHandle, Option<Attributes>), Error> {
        Self::lookup(self, dir, name)
    }

    fn access(&self, object: &FileHandle, rights: AccessRights) -> Result<AccessRights, Error> {
        Self::access(self, object, rights)
    }

    fn readlink(&self, link: &FileHandle, target: &mut Vec<u8>) -> Result<(), Error> {
        Self::readlink(self, link, target)
    }

    fn create(&self, dir: &FileHandle, name: &[u8], mode: CreateMode) -> Result<Created, Error> {
        Self::create(self, dir, name, mode)
    }

    fn mkdir(&self, dir: &FileHandle, name: &[u8], attributes: &SetAttributes) -> Result<Created, Error> {
        Self::mkdir(self, dir, name, attributes)
    }

    fn symlink(&self, dir: &FileHandle, name: &[u8], target: &[u8], attributes: &SetAttributes) -> Result<Created, Error> {
        Self::symlink(self, dir, name, target, attributes)
    }

    fn mknod(&self, dir: &FileHandle, name: &[u8], what: SpecialFile, attributes: &SetAttributes) -> Result<Created, Error> {
        Self::mknod(self, dir, name, what, attributes)
    }

    fn remove(&self, dir: &FileHandle, name: &[u8]) -> Result<(), Error> {
        Self::remove(self, dir, name)
    }

    fn rmdir(&self, dir: &FileHandle, name: &[u8]) -> Result<(), Error> {
        Self::rmdir(self, dir, name)
    }

    fn rename_object(
        &self,
        from_dir: &FileHandle,
        from: &[u8],
        to_dir: &FileHandle,
        to: &[u8],
        fileid: Option<u64>,
    ) -> Result<(), Error> {
        Self::rename_object(self, from_dir, from, to_dir, to, fileid)
    }

    fn link(&self, file: &FileHandle, dir: &FileHandle, name: &[u8]) -> Result<Option<Attributes>, Error> {
        Self::link(self, file, dir, name)
    }

    fn fsstat(&self, object: &FileHandle) -> Result<SpaceUse, Error> {
        Self::fsstat(self, object)
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

    fn readdirplus(
        &self,
        dir: &FileHandle,
        from: DirectoryPosition,
        visit: Visit<'_>,
    ) -> Result<Option<DirectoryPosition>, Error> {
        Self::readdirplus(self, dir, from, visit)
    }

    fn readdir(&self, dir: &FileHandle, from: DirectoryPosition, visit: Visit<'_>) -> Result<Option<DirectoryPosition>, Error> {
        Self::readdir(self, dir, from, visit)
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
