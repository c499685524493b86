//! READDIR and READDIRPLUS: one call, its entries visited where they were received.

use crate::client::Client;
use crate::error::{Error, ProtocolError};
use nfs_proto::nfs3::{
    CookieVerifier, Entry, EntryPlus, FileHandle, NfsStatus, Procedure, ReadDirArgs, ReadDirPlusArgs, ReadDirPlusResult,
    ReadDirResult,
};
use nfs_proto::xdr::Decode;

impl Client {
    /// Names, attributes and handles behind `cookie` (RFC 1813 3.3.17), as many as one reply holds, until `visit` says no.
    /// The verifier for the next call, and whether the directory ends with what was sent.
    ///
    /// # Errors
    /// The server's refusal; `BadCookie` means: begin anew.
    pub fn readdirplus(
        &self,
        dir: &FileHandle,
        cookie: u64,
        verifier: CookieVerifier,
        visit: &mut dyn FnMut(&EntryPlus<'_>) -> bool,
    ) -> Result<(CookieVerifier, bool), Error> {
        let bytes = self.parts.dtpref;
        let arguments = ReadDirPlusArgs { dir: *dir, cookie, cookie_verifier: verifier, dir_count: bytes, max_count: bytes };
        let mut answer = Err(NfsStatus::ServerFault);
        self.call_with(Procedure::ReadDirPlus, &arguments, |results| {
            let ok = match ReadDirPlusResult::decode(results)? {
                Ok(ok) => ok,
                Err(failure) => {
                    answer = Err(failure.status);
                    return Ok(failure.status);
                }
            };
            let mut advanced = false;
            for entry in ok.entries.iter() {
                advanced = true;
                if !visit(&entry) {
                    break;
                }
            }
            if !advanced && !ok.entries.eof() {
                return Err(ProtocolError::NoProgress.into());
            }
            answer = Ok((ok.cookie_verifier, ok.entries.eof()));
            Ok(NfsStatus::Ok)
        })?;
        answer.map_err(Error::Status)
    }

    /// Names behind `cookie` (RFC 1813 3.3.16); otherwise as [`Self::readdirplus`].
    ///
    /// # Errors
    /// The server's refusal.
    pub fn readdir(
        &self,
        dir: &FileHandle,
        cookie: u64,
        verifier: CookieVerifier,
        visit: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Result<(CookieVerifier, bool), Error> {
        let arguments = ReadDirArgs { dir: *dir, cookie, cookie_verifier: verifier, count: self.parts.dtpref };
        let mut answer = Err(NfsStatus::ServerFault);
        self.call_with(Procedure::ReadDir, &arguments, |results| {
            let ok = match ReadDirResult::decode(results)? {
                Ok(ok) => ok,
                Err(failure) => {
                    answer = Err(failure.status);
                    return Ok(failure.status);
                }
            };
            let mut advanced = false;
            for entry in ok.entries.iter() {
                advanced = true;
                if !visit(&entry) {
                    break;
                }
            }
            if !advanced && !ok.entries.eof() {
                return Err(ProtocolError::NoProgress.into());
            }
            answer = Ok((ok.cookie_verifier, ok.entries.eof()));
            Ok(NfsStatus::Ok)
        })?;
        answer.map_err(Error::Status)
    }
}
