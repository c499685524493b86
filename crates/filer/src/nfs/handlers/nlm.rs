//! Network Lock Manager version 4 (`nfs_proto::nlm4`): each reply says that there are no locks.
//!
//! The filer keeps no locks between hosts (docs/compat/nfs3.md). A kernel client that is mounted without `nolock` finds this
//! program by portmap, and its programs get ENOLCK at once. Without this program they would wait forever.

use nfs_proto::nlm4::{self, Cookie, LockResult, Procedure, Status};
use nfs_proto::rpc::ReplyStatus;
use nfs_proto::xdr::{Decode, Reader, encode_to};

use super::{Program, ProgramCall, Serve};
use crate::nfs::call::Served;

pub(super) const PROGRAM: Program = Program {
    number: nlm4::PROGRAM,
    version: nlm4::VERSION,
    is_served: |_| true,
    waits_for_others: false,
    serve: Serve::Results(serve),
};

/// Serves one call.
fn serve(call: &ProgramCall<'_>, out: &mut Vec<u8>) -> Result<Served, ReplyStatus> {
    let status = match Procedure::from_number(call.procedure).ok_or(ReplyStatus::ProcedureUnavailable)? {
        Procedure::Null => return Ok(Served::Answered),
        Procedure::Test | Procedure::Lock => Status::DeniedNoLocks,
        // No lock exists, so no lock is held after the call.
        Procedure::Cancel | Procedure::Unlock => Status::Granted,
    };
    // The result does not depend on the file and the range.
    let cookie = Cookie::decode(&mut Reader::new(call.arguments)).map_err(|_| ReplyStatus::GarbageArguments)?;
    encode_to(&LockResult { cookie, status }, out);
    Ok(Served::Answered)
}
