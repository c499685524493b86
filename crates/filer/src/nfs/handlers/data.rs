//! READ, WRITE, COMMIT (RFC 1813 3.3.6, 3.3.7, 3.3.21).

use nfs_proto::limits::TRANSFER_BYTES_MAX;
use nfs_proto::nfs3::{
    CommitArgs, CommitOk, CommitResult, NfsStatus, Outcome, PostOpAttr, ReadArgs, ReadOkHead, StableHow, WccData, WriteArgs,
    WriteArgsHead, WriteOk, WriteResult,
};
use nfs_proto::rpc::ReplyStatus;
use nfs_proto::xdr::{Decode, Reader, encode_to, padding};
use volume::medium::Kind as MediumKind;

use super::{Context, Done, arguments, fail, refused};
use crate::limits::TRANSFER_MAX;
use crate::nfs::convert;
use crate::operations::State;

/// Size of status, attributes, count, eof and length before the payload of a READ, in bytes.
const READ_HEAD_BYTES: usize = 4 + 4 + 84 + 4 + 4 + 4;

/// Reads the payload directly into the reply, after space for the head. The head has a fixed length and is written when
/// its values are known.
pub(super) fn read(context: &Context<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<Done, ReplyStatus> {
    let args: ReadArgs = arguments(bytes)?;
    let node = match context.node(&args.file) {
        Ok(node) => node,
        Err(status) => return Ok(fail(status, &None::<nfs_proto::nfs3::Fattr>, out)),
    };
    let start = out.len();
    let payload = start + READ_HEAD_BYTES;
    let wanted = args.count.min(TRANSFER_MAX) as usize;
    out.resize(payload + wanted, 0);
    let buffer = out.get_mut(payload..).unwrap_or_default();
    match context.operator().read(State::None, &node, args.offset, buffer, context.may_wait) {
        None => {
            out.truncate(start);
            Ok(Done::COLD)
        }
        Some(Ok((count, eof, attr))) => {
            out.truncate(payload + count);
            out.resize(payload + count + padding(count), 0);
            let count = count as u32;
            let head = ReadOkHead { attributes: Some(convert::fattr(&attr)), count, eof, data_bytes: count };
            write_head(&head, start, out);
            // The medium does not see reads beyond the end of a file.
            let operation =
                if count > 0 { context.operation(MediumKind::Read, &args.file, args.offset, count.into()) } else { None };
            Ok(Done { bytes: u64::from(count), operation, ..Done::OK })
        }
        Some(Err(error)) => {
            out.truncate(start);
            Ok(fail(context.status(&error), &context.post(&node), out))
        }
    }
}

/// Writes the head of a READ into its space.
fn write_head(head: &ReadOkHead, start: usize, out: &mut [u8]) {
    HEAD.with_borrow_mut(|bytes| {
        bytes.clear();
        encode_to(&Outcome::<ReadOkHead, PostOpAttr>::Ok(*head), bytes);
        debug_assert_eq!(bytes.len(), READ_HEAD_BYTES);
        if let Some(room) = out.get_mut(start..start + bytes.len()) {
            room.copy_from_slice(bytes);
        }
    });
}

thread_local! {
    /// Where heads are encoded. The buffer is kept, so that a READ allocates nothing.
    static HEAD: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// WRITE. **Durability**: as `stable` of the call requires, never less.
pub(super) fn write(context: &Context<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<Done, ReplyStatus> {
    let args: WriteArgs<'_> = match arguments(bytes) {
        Ok(args) => args,
        Err(_) if is_oversize(bytes) => return Ok(fail(NfsStatus::Inval, &WccData::default(), out)),
        Err(status) => return Err(status),
    };
    let Some(data) = args.data.0.get(..args.count as usize) else {
        return Err(ReplyStatus::GarbageArguments);
    };
    let outcome = write_data(context, &args, data);
    encode_to(&outcome, out);
    Ok(match &outcome {
        Ok(ok) => {
            let kind = if args.stable == StableHow::Unstable { MediumKind::Buffered } else { MediumKind::Write };
            let operation = context.operation(kind, &args.file, args.offset, ok.count.into());
            Done { bytes: u64::from(ok.count), operation, ..Done::OK }
        }
        Err(failure) => Done::of(failure.status),
    })
}

/// Whether these arguments are invalid only because the payload exceeds the limit that FSINFO reports.
fn is_oversize(bytes: &[u8]) -> bool {
    WriteArgsHead::decode(&mut Reader::new(bytes)).is_ok_and(|head| {
        head.data_bytes > TRANSFER_BYTES_MAX && head.count <= head.data_bytes && head.data_bytes as usize <= bytes.len()
    })
}

fn write_data(context: &Context<'_>, args: &WriteArgs<'_>, data: &[u8]) -> WriteResult {
    let node = match context.node(&args.file) {
        Ok(node) => node,
        Err(status) => return refused(status, WccData::default()),
    };
    // Taken before the write: if unstable data is lost between the two, the client sees an old verifier and resends.
    let verifier = context.verifier();
    let stable = args.stable != StableHow::Unstable;
    let stability = convert::stability(args.stable);
    let written = context.operator().write(State::None, &node, (args.offset, data), stability, context.later.is_some());
    match written {
        Ok((count, flush)) => {
            if let Some(later) = context.later {
                later.replace(flush);
            }
            Ok(WriteOk { wcc: context.wcc_after_write(&node, stable), count: count as u32, committed: args.stable, verifier })
        }
        Err(error) => refused(context.status(&error), context.wcc(&node)),
    }
}

/// COMMIT, with its operation on the modelled medium.
pub(super) fn commit_call(context: &Context<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<Done, ReplyStatus> {
    let args: CommitArgs = arguments(bytes)?;
    let outcome = commit(context, &args);
    encode_to(&outcome, out);
    Ok(match &outcome {
        Ok(_) => Done { operation: context.operation(MediumKind::Flush, &args.file, 0, 0), ..Done::OK },
        Err(failure) => Done::of(failure.status),
    })
}

/// **Durability**: everything that was written to the file before the call is durable when this returns without an
/// error. The range of the call is ignored, because a server may flush more than requested.
fn commit(context: &Context<'_>, args: &CommitArgs) -> CommitResult {
    let node = match context.node(&args.file) {
        Ok(node) => node,
        Err(status) => return refused(status, WccData::default()),
    };
    let committed = context.operator().commit(State::None, &node);
    let wcc = context.wcc(&node);
    match committed {
        // Taken after the flush: if data was lost before it, the client sees the new verifier and resends.
        Ok(()) => Ok(CommitOk { wcc, verifier: context.verifier() }),
        Err(error) => refused(context.status(&error), wcc),
    }
}
