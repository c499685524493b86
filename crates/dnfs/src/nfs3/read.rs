//! READ calls of a table that belongs to no version.

use nfs_proto::nfs3::{Procedure, ReadArgs, ReadResult};
use nfs_proto::xdr::{Decode as _, Encode as _, Reader, Writer};

use super::read_reply;
use super::types::handle;
use crate::file::FileHandle;
use crate::rpc::calls::ReadHead;
use crate::rpc::fault::Fault;

/// The number of READ.
pub(crate) const READ: u32 = Procedure::Read.number();

/// Bytes before the data in the usual reply.
pub(crate) const HEAD_BYTES: usize = read_reply::READ_HEAD_BYTES;

/// Reads the head of the usual reply. See [`crate::rpc::calls::Calls::read_head`].
pub(crate) fn head(bytes: &[u8], data_bytes_max: usize) -> Option<ReadHead> {
    read_reply::parse(bytes, data_bytes_max)
}

/// Appends the arguments of a READ of a file whose handle [has a valid size](super::types::has_valid_size).
pub(crate) fn encode(file: &FileHandle, offset: u64, bytes: usize, out: &mut Writer<'_>) {
    if let Ok(file) = handle(file) {
        ReadArgs { file, offset, count: bytes as u32 }.encode(out);
    }
}

/// The data of a READ, and whether it reaches the end of the file. `None` if the server refused the call.
///
/// # Errors
/// The results cannot be decoded.
pub(crate) fn decode<'r>(results: &mut Reader<'r>) -> Result<Option<(&'r [u8], bool)>, Fault> {
    Ok(ReadResult::decode(results)?.ok().map(|ok| (ok.data.0, ok.eof)))
}
