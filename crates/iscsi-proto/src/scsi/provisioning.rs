//! UNMAP, WRITE SAME and GET LBA STATUS (SBC-3 5.28, 5.49, 5.4).

use std::ops::Range;

use super::call::Call;
use super::cdb::Blocks;
use super::completion::{Completion, Failure};
use super::media::check_protection;
use super::sense::{Asc, Sense};
use super::store::{Store, StoreError};
use super::unit::LogicalUnit;
use crate::limits::{
    SCSI_CHUNK_BYTES, SCSI_LBA_STATUS_DESCRIPTORS_MAX, SCSI_UNMAP_BLOCKS_MAX, SCSI_UNMAP_DESCRIPTORS_MAX,
    SCSI_WRITE_SAME_BYTES_MAX,
};

const UNMAP_ANCHOR: u8 = 0x01;
const WRITE_SAME_ANCHOR: u8 = 0x10;
const WRITE_SAME_UNMAP: u8 = 0x08;
const WRITE_SAME_NO_DATA_OUT: u8 = 0x01;
/// Sizes of the header and of a descriptor of UNMAP's parameter list, in bytes.
const UNMAP_HEADER: usize = 8;
const UNMAP_DESCRIPTOR: usize = 16;

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

pub(super) fn unmap<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    if call.cdb.flag(UNMAP_ANCHOR) {
        // ANC_SUP is 0.
        return Err(Sense::cdb_field(1, Some(0)).into());
    }
    let list = call.parameters()?;
    unit.may_write(call.nexus)?;
    if list.is_empty() {
        return Ok(Completion::good(0, 0));
    }
    let ranges = unmap_ranges(unit, list)?;
    for bytes in ranges.iter().filter(|bytes| !bytes.is_empty()) {
        let _lock = unit.begin_write(call, bytes)?;
        // One flush below makes all of them durable.
        unit.change(call.nexus, false, || unit.store.unmap(bytes.start, bytes.end - bytes.start))?;
    }
    if !ranges.is_empty() && !unit.modes.has_write_cache() {
        unit.flush(call.nexus)?;
    }
    Ok(Completion::good(list.len() as u64, 0))
}

/// The ranges of UNMAP's parameter list. All of them are checked.
fn unmap_ranges<S: Store>(unit: &LogicalUnit<S>, list: &[u8]) -> Result<Vec<Range<u64>>, Sense> {
    let Some((header, descriptors)) = list.split_at_checked(UNMAP_HEADER) else {
        return Err(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR));
    };
    let length = number(header.get(2..4).unwrap_or_default()) as usize;
    // SBC-3 5.28.2: a length beyond the list is an error. An incomplete descriptor at the end is ignored.
    let Some(descriptors) = descriptors.get(..length) else {
        return Err(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR));
    };
    let descriptors = descriptors.chunks_exact(UNMAP_DESCRIPTOR);
    if descriptors.len() > SCSI_UNMAP_DESCRIPTORS_MAX {
        return Err(Sense::parameter_field(2, None));
    }
    let mut ranges = Vec::with_capacity(descriptors.len());
    let mut total = 0;
    for (index, descriptor) in descriptors.enumerate() {
        let (lba, count) = descriptor.split_at(8);
        let blocks = Blocks { lba: number(lba), count: number(count.get(..4).unwrap_or_default()) };
        total += blocks.count;
        if total > SCSI_UNMAP_BLOCKS_MAX {
            return Err(Sense::parameter_field((UNMAP_HEADER + index * UNMAP_DESCRIPTOR + 8) as u16, None));
        }
        ranges.push(unit.bytes_of(blocks)?);
    }
    Ok(ranges)
}

/// Most blocks of a WRITE SAME.
pub(super) const fn write_same_blocks_max(block_bytes: u64) -> u64 {
    SCSI_WRITE_SAME_BYTES_MAX / block_bytes
}

pub(super) fn write_same<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    check_protection(call)?;
    let unmap = call.cdb.flag(WRITE_SAME_UNMAP);
    if call.cdb.flag(WRITE_SAME_ANCHOR) {
        return Err(Sense::cdb_field(1, Some(4)).into());
    }
    if unmap && !unit.settings.thin {
        return Err(Sense::cdb_field(1, Some(3)).into());
    }
    let blocks = call.cdb.blocks();
    // WSNZ is 1: a number of 0 does not mean all blocks up to the end.
    if blocks.count == 0 || blocks.count > write_same_blocks_max(unit.block_bytes()) {
        return Err(Sense::cdb_field(call.cdb.count_byte(), None).into());
    }
    let bytes = unit.bytes_of(blocks)?;
    unit.may_write(call.nexus)?;
    let no_data = call.cdb.info.length == 16 && call.cdb.flag(WRITE_SAME_NO_DATA_OUT);
    let block = unit.block_bytes();
    let expected = if no_data { 0 } else { block };
    if u64::from(call.request.expected_bytes) != expected {
        return Err(Sense::cdb_field(call.cdb.count_byte(), None).into());
    }
    let Some(pattern) = call.request.data_out.get(..expected as usize) else {
        return Err(Sense::cdb_field(call.cdb.count_byte(), None).into());
    };
    let zeros = pattern.iter().all(|byte| *byte == 0);
    let _lock = unit.begin_write(call, &bytes)?;
    let (offset, length) = (bytes.start, bytes.end - bytes.start);
    // WRITE SAME has no FUA bit.
    let durable = !unit.modes.has_write_cache();
    // SBC-3 5.49: unmapped blocks must read as the pattern, and they read as zeros (LBPRZ).
    if unmap && zeros {
        unit.change(call.nexus, false, || unit.store.unmap(offset, length))?;
        if durable {
            unit.flush(call.nexus)?;
        }
    } else if zeros {
        unit.change(call.nexus, durable, || unit.store.write_zeroes(offset, length, durable))?;
    } else {
        unit.change(call.nexus, durable, || write_pattern(unit, &bytes, pattern, durable))?;
    }
    Ok(Completion::good(expected, 0))
}

/// Writes a block repeatedly.
fn write_pattern<S: Store>(unit: &LogicalUnit<S>, bytes: &Range<u64>, pattern: &[u8], durable: bool) -> Result<(), StoreError> {
    let length = bytes.end - bytes.start;
    let chunk = pattern.repeat((SCSI_CHUNK_BYTES / pattern.len().max(1)).min((length / unit.block_bytes()) as usize));
    let mut offset = bytes.start;
    while offset < bytes.end {
        let count = (chunk.len() as u64).min(bytes.end - offset);
        unit.store.write(offset, chunk.get(..count as usize).unwrap_or_default(), durable)?;
        offset += count;
    }
    Ok(())
}

pub(super) fn lba_status<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>, data_in: &mut [u8]) -> Result<Completion, Failure> {
    let first = call.cdb.number(2, 8);
    let block = unit.block_bytes();
    if first >= unit.block_count() {
        return Err(Sense::illegal(Asc::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE).into());
    }
    let allocation = call.cdb.number(10, 4) as usize;
    let most = (allocation.saturating_sub(8) / 16).clamp(1, SCSI_LBA_STATUS_DESCRIPTORS_MAX);
    let mut data = vec![0; 8];
    let mut lba = first;
    for _ in 0..most {
        let left = unit.block_count().saturating_sub(lba);
        if left == 0 {
            break;
        }
        let extent = unit.store.extent(lba * block);
        let count = (extent.bytes / block).clamp(1, left.min(u64::from(u32::MAX)));
        data.extend_from_slice(&lba.to_be_bytes());
        data.extend_from_slice(&(count as u32).to_be_bytes());
        // PROVISIONING STATUS: 0h mapped, 1h deallocated.
        data.extend_from_slice(&[u8::from(!extent.mapped), 0, 0, 0]);
        lba += count;
    }
    let length = (data.len() - 4) as u32;
    if let Some(field) = data.get_mut(..4) {
        field.copy_from_slice(&length.to_be_bytes());
    }
    Ok(call.reply(&data, data_in))
}
