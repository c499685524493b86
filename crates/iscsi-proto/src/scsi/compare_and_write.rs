//! COMPARE AND WRITE and ORWRITE (SBC-3 5.2, 5.11): a read and a write, with no other command between them.

use super::call::Call;
use super::completion::{Completion, Failure};
use super::media::{check_protection, is_durable};
use super::sense::{Asc, Sense, SenseKey};
use super::store::Store;
use super::unit::LogicalUnit;
use super::write_checks::read_failure;
use crate::limits::SCSI_COMPARE_BYTES_MAX;

/// Most blocks of a COMPARE AND WRITE. Its length field has one byte.
pub(super) fn compare_blocks_max(block_bytes: u64) -> u64 {
    (SCSI_COMPARE_BYTES_MAX / block_bytes).min(255)
}

pub(super) fn compare_and_write<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    check_protection(call)?;
    let blocks = call.cdb.blocks();
    let bytes = unit.bytes_of(blocks)?;
    unit.may_write(call.nexus)?;
    let length = (bytes.end - bytes.start) as usize;
    let fits = blocks.count <= compare_blocks_max(unit.block_bytes());
    if !fits || u64::from(call.request.expected_bytes) != 2 * length as u64 {
        return Err(Sense::cdb_field(call.cdb.count_byte(), None).into());
    }
    let Some((expected, new)) = call.request.data_out.get(..2 * length).and_then(|data| data.split_at_checked(length)) else {
        return Err(Sense::cdb_field(call.cdb.count_byte(), None).into());
    };
    if length > 0 {
        let _lock = unit.begin_exclusive(call, &bytes)?;
        let mut present = vec![0; length];
        unit.store.read(bytes.start, &mut present).map_err(read_failure)?;
        if let Some(offset) = present.iter().zip(expected).position(|(present, expected)| present != expected) {
            let sense = Sense::new(SenseKey::Miscompare, Asc::MISCOMPARE_DURING_VERIFY_OPERATION);
            return Err(sense.with_information(offset as u64).into());
        }
        let durable = is_durable(unit, call);
        unit.change(call.nexus, durable, || unit.store.write(bytes.start, new, durable))?;
    }
    Ok(Completion::good(2 * length as u64, 0))
}

pub(super) fn or_write<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    check_protection(call)?;
    let bytes = unit.transfer_of(&call.cdb)?;
    unit.may_write(call.nexus)?;
    let length = bytes.end - bytes.start;
    let available = (call.request.data_out.len() as u64).min(length);
    let whole = (available - available % unit.block_bytes()) as usize;
    if whole > 0 {
        let _lock = unit.begin_exclusive(call, &bytes)?;
        let mut data = vec![0; whole];
        unit.store.read(bytes.start, &mut data).map_err(read_failure)?;
        for (present, bits) in data.iter_mut().zip(call.request.data_out) {
            *present |= bits;
        }
        let durable = is_durable(unit, call);
        unit.change(call.nexus, durable, || unit.store.write(bytes.start, &data, durable))?;
    }
    Ok(Completion::good(length, 0))
}
