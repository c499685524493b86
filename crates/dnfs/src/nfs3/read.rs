//! READ calls of a table that belongs to no version.

use nfs_proto::nfs3::{Procedure, ReadArgs, ReadResult};
use nfs_proto::xdr::{Decode as _, Encode as _, Reader, Writer};

use super::types::WireHandle;
use crate::rpc::fault::Fault;

/// The number of READ.
pub(crate) const READ: u32 = Procedure::Read.number();

/// Appends the arguments of a READ.
pub(crate) fn encode(file: WireHandle, offset: u64, bytes: usize, out: &mut Writer<'_>) {
    ReadArgs { file, offset, count: bytes as u32 }.encode(out);
}

/// The data of a READ, and whether it reaches the end of the file. `None` if the server refused the call.
///
/// # Errors
/// The results cannot be decoded.
pub(crate) fn decode<'r>(results: &mut Reader<'r>) -> Result<Option<(&'r [u8], bool)>, Fault> {
    Ok(ReadResult::decode(results)?.ok().map(|ok| (ok.data.0, ok.eof)))
}
