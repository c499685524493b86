//! Network Lock Manager version 4 (`nfs_proto::nlm4`): answers that there are no locks.
//!
//! Locks between hosts are not kept here (docs/compat/nfs3.md). A kernel client that is mounted without `nolock` finds this by
//! portmap, and its programs get ENOLCK at once; without it they would wait for ever.

use nfs_proto::nlm4::{self, Cookie, LockResult, Procedure, Status};
use nfs_proto::rpc::ReplyStatus;
use nfs_proto::xdr::{Decode, Reader, encode_to};

use super::{Program, ProgramCall};
use crate::nfs::call::Served;

pub(super) const PROGRAM: Program =
    Program { number: nlm4::PROGRAM, version: nlm4::VERSION, is_served: |_| true, waits_for_others: false, serve };

/// Serves one call.
fn serve(call: &ProgramCall<'_>, out: &mut Vec<u8>) -> Result<Served, ReplyStatus> {
    let status = match Procedure::from_number(call.procedure).ok_or(ReplyStatus::ProcedureUnavailable)? {
        Procedure::Null => return Ok(Served::Answered),
        Procedure::Test | Procedure::Lock => Status::DeniedNoLocks,
        // There is no lock that could still be held.
        Procedure::Cancel | Procedure::Unlock => Status::Granted,
    };
    // Which file and range are meant changes nothing.
    let cookie = Cookie::decode(&mut Reader::new(call.arguments)).map_err(|_| ReplyStatus::GarbageArguments)?;
    encode_to(&LockResult { cookie, status }, out);
    Ok(Served::Answered)
}
