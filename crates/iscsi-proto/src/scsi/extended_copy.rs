//! EXTENDED COPY and RECEIVE COPY RESULTS with 8-bit list identifiers (SPC-4 6.4, 6.22, 6.23). Copies are possible only within
//! the unit. Another unit is a copy target that cannot be reached.

use std::ops::Range;

use super::call::Call;
use super::cdb::Blocks;
use super::completion::{Completion, Failure};
use super::copy_results::CopyResult;
use super::sense::{Asc, Sense, SenseKey};
use super::store::Store;
use super::unit::LogicalUnit;
use super::write_checks::read_failure;
use crate::limits::{
    SCSI_CHUNK_BYTES, SCSI_COPY_LISTS_MAX, SCSI_COPY_SEGMENT_BYTES_MAX, SCSI_COPY_SEGMENTS_MAX, SCSI_COPY_TARGETS_MAX,
};

const HEADER_BYTES: usize = 16;
const TARGET_BYTES: usize = 32;
const SEGMENT_BYTES: usize = 28;
/// Identification descriptor CSCD descriptor, and block device to block device segment descriptor.
const TARGET_TYPE: u8 = 0xe4;
const SEGMENT_TYPE: u8 = 0x02;
const LIST_BYTES_MAX: usize = SCSI_COPY_TARGETS_MAX * TARGET_BYTES + SCSI_COPY_SEGMENTS_MAX * SEGMENT_BYTES;

struct Segment {
    from: Range<u64>,
    to: Range<u64>,
}

fn number(bytes: &[u8], at: usize, count: usize) -> u64 {
    bytes.iter().skip(at).take(count).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

const fn aborted(asc: Asc) -> Sense {
    Sense::new(SenseKey::CopyAborted, asc)
}

pub(super) fn extended_copy<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    let list = call.parameters()?;
    unit.may_write(call.nexus)?;
    if list.is_empty() {
        return Ok(Completion::good(0, 0));
    }
    let segments = read_list(unit, list)?;
    let mut result = CopyResult { nexus: call.nexus.clone(), list: list[0], failed: false, segments: 0, bytes: 0 };
    let mut outcome = Ok(());
    for segment in &segments {
        outcome = copy(unit, call, segment);
        if outcome.is_err() {
            result.failed = true;
            break;
        }
        result.segments += 1;
        result.bytes = result.bytes.saturating_add((segment.to.end - segment.to.start) as u32);
    }
    // LIST ID USAGE 00b: the result is kept for RECEIVE COPY RESULTS.
    if list[1] & 0x18 == 0 {
        unit.copy_results.keep(result);
    }
    outcome?;
    Ok(Completion::good(list.len() as u64, 0))
}

/// Parses the parameter list and checks all of it before anything is copied.
fn read_list<S: Store>(unit: &LogicalUnit<S>, list: &[u8]) -> Result<Vec<Segment>, Failure> {
    let length_error = Failure::Check(Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR));
    let (header, descriptors) = list.split_at_checked(HEADER_BYTES).ok_or(length_error)?;
    let (target_bytes, segment_bytes) = (number(header, 2, 2) as usize, number(header, 8, 4) as usize);
    if number(header, 12, 4) != 0 {
        return Err(Sense::illegal(Asc::INLINE_DATA_LENGTH_EXCEEDED).into());
    }
    let total = target_bytes.saturating_add(segment_bytes);
    if total > descriptors.len() || total > LIST_BYTES_MAX || !target_bytes.is_multiple_of(TARGET_BYTES) {
        return Err(length_error);
    }
    let (targets, segments) = descriptors.split_at(target_bytes);
    if target_bytes / TARGET_BYTES > SCSI_COPY_TARGETS_MAX {
        return Err(Sense::illegal(Asc::TOO_MANY_TARGET_DESCRIPTORS).into());
    }
    let segments = segments.get(..segment_bytes).unwrap_or_default();
    if segment_bytes > SCSI_COPY_SEGMENTS_MAX * SEGMENT_BYTES {
        return Err(Sense::illegal(Asc::TOO_MANY_SEGMENT_DESCRIPTORS).into());
    }
    for (index, target) in targets.chunks_exact(TARGET_BYTES).enumerate() {
        check_target(unit, target, HEADER_BYTES + index * TARGET_BYTES)?;
    }
    if segments.first().is_some_and(|kind| *kind != SEGMENT_TYPE) {
        return Err(Sense::illegal(Asc::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE).into());
    }
    if !segments.len().is_multiple_of(SEGMENT_BYTES) {
        return Err(length_error);
    }
    let target_count = target_bytes / TARGET_BYTES;
    let read = |(index, segment)| read_segment(unit, segment, target_count, HEADER_BYTES + target_bytes + index * SEGMENT_BYTES);
    segments.chunks_exact(SEGMENT_BYTES).enumerate().map(read).collect()
}

/// Checks that a CSCD descriptor names this unit.
fn check_target<S: Store>(unit: &LogicalUnit<S>, target: &[u8], at: usize) -> Result<(), Failure> {
    let byte = |index: usize| target.get(index).copied().unwrap_or(0);
    if byte(0) != TARGET_TYPE {
        return Err(Sense::illegal(Asc::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE).into());
    }
    // SPC-4 6.4.6.5: LU ID TYPE is ignored, NUL is obsolete.
    let designator = target.get(8..8 + usize::from(byte(7)).min(20)).unwrap_or_default();
    if !unit.identity.is_designator(byte(4) & 0x0f, byte(5) & 0x3f, designator) {
        return Err(aborted(Asc::COPY_TARGET_DEVICE_NOT_REACHABLE).into());
    }
    if number(target, 29, 3) != unit.block_bytes() {
        return Err(Sense::parameter_field(at as u16 + 29, None).into());
    }
    Ok(())
}

fn read_segment<S: Store>(unit: &LogicalUnit<S>, segment: &[u8], targets: usize, at: usize) -> Result<Segment, Failure> {
    if segment.first() != Some(&SEGMENT_TYPE) {
        return Err(Sense::illegal(Asc::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE).into());
    }
    if number(segment, 2, 2) as usize != SEGMENT_BYTES - 4 {
        return Err(Sense::parameter_field(at as u16 + 2, None).into());
    }
    if number(segment, 4, 2) as usize >= targets || number(segment, 6, 2) as usize >= targets {
        return Err(aborted(Asc::UNREACHABLE_COPY_TARGET).into());
    }
    let count = number(segment, 10, 2);
    if count * unit.block_bytes() > SCSI_COPY_SEGMENT_BYTES_MAX {
        return Err(Sense::parameter_field(at as u16 + 10, None).into());
    }
    let bytes_at = |lba| unit.bytes_of(Blocks { lba, count }).map_err(|_| aborted(Asc::NONE));
    Ok(Segment { from: bytes_at(number(segment, 12, 8))?, to: bytes_at(number(segment, 20, 8))? })
}

/// Copies a segment in ascending order.
fn copy<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>, segment: &Segment) -> Result<(), Failure> {
    let length = segment.from.end - segment.from.start;
    let mut buffer = vec![0; SCSI_CHUNK_BYTES.min(length as usize)];
    let mut done = 0;
    while done < length {
        let count = (buffer.len() as u64).min(length - done);
        let chunk = buffer.get_mut(..count as usize).unwrap_or_default();
        let from = segment.from.start + done..segment.from.start + done + count;
        let to = segment.to.start + done..segment.to.start + done + count;
        {
            let _lock = unit.begin_read(call, &from)?;
            unit.store.read(from.start, chunk).map_err(read_failure)?;
        }
        let _lock = unit.begin_write(call, &to)?;
        let durable = !unit.modes.has_write_cache();
        unit.change(call.nexus, durable, || unit.store.write(to.start, chunk, durable))?;
        done += count;
    }
    Ok(())
}

pub(super) fn receive_copy_results<S: Store>(
    unit: &LogicalUnit<S>,
    call: &Call<'_>,
    data_in: &mut [u8],
) -> Result<Completion, Failure> {
    if call.cdb.byte(1) & 0x1f == 3 {
        return Ok(call.reply(&operating_parameters(unit), data_in));
    }
    let list = call.cdb.byte(2);
    let result = unit.copy_results.of(call.nexus, list).ok_or(Sense::cdb_field(2, None))?;
    let [high, low] = result.segments.to_be_bytes();
    // COPY STATUS: 1h without errors, 2h with errors; the count is in bytes.
    let mut data = vec![0, 0, 0, 8, 1 + u8::from(result.failed), high, low, 0];
    data.extend_from_slice(&result.bytes.to_be_bytes());
    Ok(call.reply(&data, data_in))
}

fn operating_parameters<S: Store>(unit: &LogicalUnit<S>) -> Vec<u8> {
    let mut data = vec![0; 44];
    data[3] = 42; // length of the rest
    data[8..10].copy_from_slice(&(SCSI_COPY_TARGETS_MAX as u16).to_be_bytes());
    data[10..12].copy_from_slice(&(SCSI_COPY_SEGMENTS_MAX as u16).to_be_bytes());
    data[12..16].copy_from_slice(&(LIST_BYTES_MAX as u32).to_be_bytes());
    data[16..20].copy_from_slice(&(SCSI_COPY_SEGMENT_BYTES_MAX as u32).to_be_bytes());
    // A nexus may have one copy in progress for each list identifier that is kept.
    data[34..36].copy_from_slice(&(SCSI_COPY_LISTS_MAX as u16).to_be_bytes());
    data[36] = SCSI_COPY_LISTS_MAX as u8;
    data[37] = unit.block_bytes().ilog2() as u8;
    data[43] = 2;
    data.extend_from_slice(&[SEGMENT_TYPE, TARGET_TYPE]);
    data
}
