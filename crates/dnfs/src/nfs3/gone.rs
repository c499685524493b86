//! An export that the server withdrew: calls wait until the server exports it again (docs/design/026-away.md).
//!
//! The server may refuse a handle because its file was removed, or because the whole export is gone. A GETATTR of the root shows
//! which. The client sends it after NFS3ERR_STALE and NFS3ERR_BADHANDLE only.

use crate::error::Error;
use crate::file::{FileHandle, FsError};
use crate::limits::{GONE_PAUSE_MS_MAX, GONE_PAUSE_MS_MIN};
use crate::nfs3::client::{Nfs3, Refusals};
use crate::nfs3::types as convert;
use crate::options::GonePolicy;
use crate::protocol::FileProtocol as _;
use crate::rpc::route::RetryPolicy;
use crate::segment::ExportState;
use crate::sys::clock;
use nfs_proto::nfs3::{GetAttrResult, NfsStatus, ObjectArgs, Procedure};
use nfs_proto::xdr::Decode;
use std::time::{Duration, Instant};

/// What the server's answer shows about the root of a mount.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    /// The server knows the handle.
    Known,
    /// The server has the volume, but not this directory.
    Removed,
    /// The server does not export the volume, or not under this URL.
    Refused,
}

impl Nfs3 {
    /// Whether to repeat a call that the server answered with `status`. Waits while the server does not export the volume.
    ///
    /// # Errors
    /// [`FsError::Stale`] if the server now exports another volume; [`Error::ExportGone`] if the time of a soft mount is over.
    pub(crate) fn is_to_repeat(&self, status: NfsStatus, refusals: &mut Refusals) -> Result<bool, Error> {
        if !matches!(status, NfsStatus::Stale | NfsStatus::BadHandle) {
            return Ok(false);
        }
        let Some(export) = &self.route.endpoints.export_state else { return Ok(false) };
        if export.is_retired() {
            return Err(self.volume_replaced());
        }
        if self.root_state()? != Root::Refused {
            // The export may have come back between the two answers. A second refusal is about the file.
            return Ok(!std::mem::replace(&mut refusals.is_repeated, true));
        }
        if self.gone_policy == GonePolicy::Error {
            export.note_gone(); // the keeper asks for another volume
            return Ok(false);
        }
        self.await_export(export).map(|()| true)
    }

    /// Waits until the server knows the root.
    fn await_export(&self, export: &ExportState) -> Result<(), Error> {
        let limit = match (self.gone_policy, self.route.retry_policy) {
            (GonePolicy::Report, _) => Some(Duration::ZERO),
            (_, RetryPolicy::Soft(limit)) => Some(limit),
            _ => None,
        };
        let noted = self.route.membership.note_call(Procedure::GetAttr.number(), Duration::ZERO);
        let outcome = self.await_root(export, limit);
        self.route.membership.forget_call(noted);
        outcome
    }

    fn await_root(&self, export: &ExportState, limit: Option<Duration>) -> Result<(), Error> {
        let since = Instant::now();
        let mut pause = Duration::from_millis(GONE_PAUSE_MS_MIN);
        loop {
            export.note_gone();
            if limit.is_some_and(|limit| since.elapsed() >= limit) {
                return Err(Error::ExportGone { server: self.server() });
            }
            self.gone.gone(self.server(), since.elapsed());
            clock::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(GONE_PAUSE_MS_MAX));
            if export.is_retired() {
                return Err(self.volume_replaced());
            }
            match self.root_state()? {
                Root::Known => self.gone.served(self.server()),
                Root::Removed => self.gone.removed(self.server()),
                Root::Refused => continue,
            }
            export.note_served();
            return Ok(());
        }
    }

    /// Asks the server for the root. The keeper removes the note of a URL whose directory was removed. If there still
    /// is a note, the server withdrew one of several exports of the volume.
    fn root_state(&self) -> Result<Root, Error> {
        if self.serves(&self.parts.root)? {
            return Ok(Root::Known);
        }
        let export = self.route.endpoints.export_state.as_ref();
        let may_be_removed =
            self.gone_policy == GonePolicy::Report || export.is_some_and(|export| !export.is_noted(&self.parts.root));
        Ok(if may_be_removed && self.serves_another_root()? { Root::Removed } else { Root::Refused })
    }

    pub(super) fn serves_another_root(&self) -> Result<bool, Error> {
        let Some(export) = &self.route.endpoints.export_state else { return Ok(false) };
        for root in export.roots().iter().filter(|root| **root != self.parts.root) {
            if self.serves(root)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn check_volume(&self) -> Result<(), Error> {
        match self.getattr(&self.parts.root) {
            Err(Error::Fs(FsError::Stale | FsError::BadHandle)) if self.serves_another_root()? => Ok(()),
            known => known.map(drop),
        }
    }

    pub(super) fn serves(&self, root: &FileHandle) -> Result<bool, Error> {
        let arguments = ObjectArgs { object: convert::handle(root)? };
        let mut status = NfsStatus::Ok;
        self.call_once(Procedure::GetAttr, &arguments, &mut |results| {
            let result: GetAttrResult = Decode::decode(results)?;
            status = result.map_or_else(|failure| failure.status, |_| NfsStatus::Ok);
            Ok(status)
        })?;
        Ok(!matches!(status, NfsStatus::Stale | NfsStatus::BadHandle))
    }

    pub(super) fn volume_replaced(&self) -> Error {
        self.gone.replaced(self.server());
        Error::Fs(FsError::Stale)
    }
}
