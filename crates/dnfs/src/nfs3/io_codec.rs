//! READ and WRITE of NFSv3 on the wire (RFC 1813 3.3.6, 3.3.7).

use nfs_proto::nfs3::{NfsStatus, Procedure, ReadArgs, ReadResult, WriteArgsHead, WriteResult};
use nfs_proto::xdr::{Decode, Encode};

use super::read_reply;
use super::types::{attributes_of, handle, has_valid_size, refusal, stability_of, stable_how};
use crate::io_codec::{IoCodec, ReadData, Refused, Written};

/// READ and WRITE of NFSv3.
pub(super) const IO_CODEC: IoCodec = IoCodec {
    read: Procedure::Read.number(),
    write: Procedure::Write.number(),
    read_head_bytes: read_reply::READ_HEAD_BYTES,
    read_head: read_reply::parse,
    takes: has_valid_size,
    encode_read: |file, offset, count, out| {
        if let Ok(file) = handle(file) {
            ReadArgs { file, offset, count }.encode(out);
        }
    },
    encode_write: |file, offset, count, stability, out| {
        if let Ok(file) = handle(file) {
            WriteArgsHead { file, offset, count, stable: stable_how(stability), data_bytes: count }.encode(out);
        }
    },
    decode_read: |results| {
        Ok(match ReadResult::decode(results)? {
            Ok(ok) => Ok(ReadData { data: ok.data.0, eof: ok.eof }),
            Err(failure) => Err(refused(failure.status)),
        })
    },
    decode_write: |results| {
        Ok(match WriteResult::decode(results)? {
            Ok(ok) => Ok(Written {
                count: ok.count as usize,
                committed: stability_of(ok.committed),
                attributes: ok.wcc.after.as_ref().map(attributes_of),
            }),
            Err(failure) => Err(refused(failure.status)),
        })
    },
};

fn refused(status: NfsStatus) -> Refused {
    match status {
        NfsStatus::JukeBox | NfsStatus::Stale | NfsStatus::BadHandle => Refused::TryAlone(refusal(status)),
        status => Refused::Error(refusal(status)),
    }
}
