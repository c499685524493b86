//! READ, WRITE, WRITE AND VERIFY, VERIFY, PRE-FETCH and SYNCHRONIZE CACHE (SBC-3 5).

use std::ops::Range;

use super::call::Call;
use super::completion::{Completion, Failure};
use super::sense::{Asc, Sense, SenseKey};
use super::store::Store;
use super::unit::LogicalUnit;
use super::write_checks::read_failure;
use crate::limits::SCSI_CHUNK_BYTES;

/// Bits of byte 1 of the CDBs of medium accesses.
const PROTECT: u8 = 0xe0;
const FORCE_UNIT_ACCESS: u8 = 0x08;

/// What VERIFY and WRITE AND VERIFY compare the blocks with (SBC-3 5.39, BYTCHK).
enum Compare<'a> {
    /// No data: the blocks must be readable.
    Nothing,
    /// The same number of bytes.
    All(&'a [u8]),
    /// One block, with which each block is compared.
    EachBlock(&'a [u8]),
}

/// Refuses protection information, which no unit has (SBC-3 4.22): RDPROTECT, WRPROTECT or VRPROTECT.
pub(super) fn check_protection(call: &Call<'_>) -> Result<(), Sense> {
    // READ (6) and WRITE (6) have the upper bits of the address at this position.
    if call.cdb.info.length > 6 && call.cdb.flag(PROTECT) { Err(Sense::cdb_field(1, Some(7))) } else { Ok(()) }
}

/// Whether a write must be durable when it completes.
pub(super) fn is_durable<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> bool {
    let force = call.cdb.info.length > 6 && call.cdb.flag(FORCE_UNIT_ACCESS);
    force || !unit.modes.has_write_cache()
}

/// The data of the whole blocks that were received: fewer than those of the CDB if the initiator sends fewer (RFC 7143
/// 11.4.5.2).
fn data_for<'a, S: Store>(unit: &LogicalUnit<S>, call: &Call<'a>, bytes: &Range<u64>) -> &'a [u8] {
    let available = (call.request.data_out.len() as u64).min(bytes.end - bytes.start);
    let whole = available - available % unit.block_bytes();
    call.request.data_out.get(..whole as usize).unwrap_or_default()
}

pub(super) fn read<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>, data_in: &mut [u8]) -> Result<Completion, Failure> {
    check_protection(call)?;
    let bytes = unit.transfer_of(&call.cdb)?;
    let transfer = bytes.end - bytes.start;
    let wanted = data_in.len().min(transfer as usize);
    let data_in = data_in.get_mut(..wanted).unwrap_or_default();
    let _lock = unit.begin_read(call, &bytes)?;
    let (whole, part) = data_in.split_at_mut(wanted - wanted % unit.block_bytes() as usize);
    if !whole.is_empty() {
        unit.store.read(bytes.start, whole).map_err(read_failure)?;
    }
    if !part.is_empty() {
        // The initiator receives a part of a block, but the store reads whole blocks.
        let mut block = vec![0; unit.block_bytes() as usize];
        unit.store.read(bytes.start + whole.len() as u64, &mut block).map_err(read_failure)?;
        for (to, from) in part.iter_mut().zip(&block) {
            *to = *from;
        }
    }
    Ok(Completion::good(transfer, wanted))
}

pub(super) fn write<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    check_protection(call)?;
    let bytes = unit.transfer_of(&call.cdb)?;
    unit.may_write(call.nexus)?;
    let data = data_for(unit, call, &bytes);
    if !data.is_empty() {
        let _lock = unit.begin_write(call, &bytes)?;
        let durable = is_durable(unit, call);
        unit.change(call.nexus, durable, || unit.store.write(bytes.start, data, durable))?;
    }
    Ok(Completion::good(bytes.end - bytes.start, 0))
}

pub(super) fn write_and_verify<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    check_protection(call)?;
    let bytes = unit.transfer_of(&call.cdb)?;
    unit.may_write(call.nexus)?;
    let data = data_for(unit, call, &bytes);
    let compare = match bytchk(call) {
        0 => Compare::Nothing,
        1 => Compare::All(data),
        _ => return Err(Sense::cdb_field(1, Some(2)).into()),
    };
    if !data.is_empty() {
        // The lock excludes other commands, because another write could cause a miscompare.
        let _lock = unit.begin_exclusive(call, &bytes)?;
        // SBC-3 5.45: the blocks are written to the medium before they are verified.
        unit.change(call.nexus, true, || unit.store.write(bytes.start, data, true))?;
        verify_blocks(unit, bytes.start..bytes.start + data.len() as u64, &compare)?;
    }
    Ok(Completion::good(bytes.end - bytes.start, 0))
}

pub(super) fn verify<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    check_protection(call)?;
    let bytes = unit.transfer_of(&call.cdb)?;
    let length = bytes.end - bytes.start;
    let block = unit.block_bytes();
    let (compare, transfer, verified) = match bytchk(call) {
        0 => (Compare::Nothing, 0, length),
        1 => {
            let data = data_for(unit, call, &bytes);
            (Compare::All(data), length, data.len() as u64)
        }
        3 if length == 0 => (Compare::Nothing, 0, 0),
        3 => match call.request.data_out.get(..block as usize) {
            Some(data) => (Compare::EachBlock(data), block, length),
            None => (Compare::Nothing, block, 0),
        },
        _ => return Err(Sense::cdb_field(1, Some(2)).into()),
    };
    let _lock = unit.begin_read(call, &bytes)?;
    verify_blocks(unit, bytes.start..bytes.start + verified, &compare)?;
    Ok(Completion::good(transfer, 0))
}

fn bytchk(call: &Call<'_>) -> u8 {
    call.cdb.byte(1) >> 1 & 3
}

/// Reads blocks and compares them.
///
/// # Errors
/// MEDIUM ERROR or MISCOMPARE.
fn verify_blocks<S: Store>(unit: &LogicalUnit<S>, bytes: Range<u64>, compare: &Compare<'_>) -> Result<(), Failure> {
    let mut buffer = vec![0; SCSI_CHUNK_BYTES.min((bytes.end - bytes.start) as usize)];
    let mut done = 0;
    while bytes.start + (done as u64) < bytes.end {
        let offset = bytes.start + done as u64;
        let count = buffer.len().min((bytes.end - offset) as usize);
        let chunk = buffer.get_mut(..count).unwrap_or_default();
        unit.store.read(offset, chunk).map_err(read_failure)?;
        let same = match compare {
            Compare::Nothing => true,
            Compare::All(data) => data.get(done..done + count) == Some(&*chunk),
            Compare::EachBlock(block) => chunk.chunks(block.len().max(1)).all(|each| each == *block),
        };
        if !same {
            return Err(Sense::new(SenseKey::Miscompare, Asc::MISCOMPARE_DURING_VERIFY_OPERATION).into());
        }
        done += count;
    }
    Ok(())
}

/// PRE-FETCH is a hint. A unit without a cache of its own only checks it. GOOD means that not all blocks are in a cache.
pub(super) fn prefetch<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    unit.bytes_of(call.cdb.blocks())?;
    Ok(Completion::good(0, 0))
}

/// Flushes all blocks, whatever the range. With IMMED too, the reply comes after the flush.
pub(super) fn synchronize_cache<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    unit.bytes_of(call.cdb.blocks())?;
    unit.flush(call.nexus)?;
    Ok(Completion::good(0, 0))
}
