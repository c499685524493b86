//! READDIR and READDIRPLUS: one call, its entries visited where they were received.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, ProtocolError};
use crate::file::{DirectoryEntry, DirectoryPosition, FileHandle, FsError};
use crate::nfs3::client::Nfs3;
use crate::nfs3::types::{attributes_of, handle, handle_of, refusal};
use crate::protocol::Visit;
use crate::rpc::fault::Fault;
use nfs_proto::nfs3::{
    CookieVerifier, Entry, EntryPlus, NfsStatus, Procedure, ReadDirArgs, ReadDirPlusArgs, ReadDirPlusResult, ReadDirResult,
};
use nfs_proto::rpc::ReplyStatus;
use nfs_proto::xdr::Decode;

impl Nfs3 {
    pub(super) fn list(
        &self,
        dir: &FileHandle,
        from: DirectoryPosition,
        refused: &AtomicU32,
        visit: Visit<'_>,
    ) -> Result<Option<DirectoryPosition>, Error> {
        if refused.load(Relaxed) == 0 {
            match self.readdirplus(dir, from, visit) {
                Err(Error::Fs(FsError::NotSupported) | Error::Refused { status: ReplyStatus::ProcedureUnavailable, .. }) => {
                    refused.store(1, Relaxed)
                }
                other => return other,
            }
        }
        self.readdir(dir, from, visit)
    }

    fn readdirplus(
        &self,
        dir: &FileHandle,
        from: DirectoryPosition,
        visit: Visit<'_>,
    ) -> Result<Option<DirectoryPosition>, Error> {
        let (bytes, cookie_verifier) = (self.parts.dtpref, CookieVerifier(from.verifier));
        let arguments =
            ReadDirPlusArgs { dir: handle(dir)?, cookie: from.cookie, cookie_verifier, dir_count: bytes, max_count: bytes };
        let mut answer = Err(NfsStatus::ServerFault);
        self.call_with(Procedure::ReadDirPlus, &arguments, |results| {
            answer = match ReadDirPlusResult::decode(results)? {
                Ok(ok) => {
                    let entries = ok.entries.iter().map(|entry| (entry.cookie, described_plus(&entry)));
                    listed(from, ok.cookie_verifier, ok.entries.eof(), entries, visit)?
                }
                Err(failure) => Err(failure.status),
            };
            Ok(answer.err().unwrap_or(NfsStatus::Ok))
        })?;
        answer.map_err(refusal)
    }

    fn readdir(&self, dir: &FileHandle, from: DirectoryPosition, visit: Visit<'_>) -> Result<Option<DirectoryPosition>, Error> {
        let cookie_verifier = CookieVerifier(from.verifier);
        let arguments = ReadDirArgs { dir: handle(dir)?, cookie: from.cookie, cookie_verifier, count: self.parts.dtpref };
        let mut answer = Err(NfsStatus::ServerFault);
        self.call_with(Procedure::ReadDir, &arguments, |results| {
            answer = match ReadDirResult::decode(results)? {
                Ok(ok) => {
                    let entries = ok.entries.iter().map(|entry| (entry.cookie, described(&entry)));
                    listed(from, ok.cookie_verifier, ok.entries.eof(), entries, visit)?
                }
                Err(failure) => Err(failure.status),
            };
            Ok(answer.err().unwrap_or(NfsStatus::Ok))
        })?;
        answer.map_err(refusal)
    }
}

/// Visits the entries of a reply. A reply without entries that does not end the directory is malformed. A reply that leads back
/// to its own position would be requested without end.
fn listed<'a>(
    from: DirectoryPosition,
    verifier: CookieVerifier,
    eof: bool,
    entries: impl Iterator<Item = (u64, DirectoryEntry<'a>)>,
    visit: Visit<'_>,
) -> Result<Result<Option<DirectoryPosition>, NfsStatus>, Fault> {
    let mut last = None;
    let mut stopped = false;
    for (cookie, entry) in entries {
        last = Some(cookie);
        if !visit(&entry) {
            stopped = true;
            break;
        }
    }
    if eof && !stopped {
        return Ok(Ok(None));
    }
    match last {
        None => Err(ProtocolError::NoProgress.into()),
        Some(cookie) => Ok(from.next(cookie, verifier.0).map(Some).ok_or(NfsStatus::ServerFault)),
    }
}

fn described_plus<'a>(entry: &EntryPlus<'a>) -> DirectoryEntry<'a> {
    DirectoryEntry {
        name: entry.name.0,
        fileid: entry.fileid,
        attributes: entry.attributes.as_ref().map(attributes_of),
        handle: entry.handle.as_ref().map(handle_of),
    }
}

fn described<'a>(entry: &Entry<'a>) -> DirectoryEntry<'a> {
    DirectoryEntry { name: entry.name.0, fileid: entry.fileid, attributes: None, handle: None }
}
