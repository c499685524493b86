//! READ CAPACITY (10) and (16) (SBC-3 5.15, 5.16).

use super::call::Call;
use super::completion::Completion;
use super::store::Store;
use super::unit::LogicalUnit;

const LBPME: u8 = 0x80;
const LBPRZ: u8 = 0x40;

pub(super) fn capacity10<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>, data_in: &mut [u8]) -> Completion {
    // For a unit that is too large for this command, the number is FFFFFFFFh. READ CAPACITY (16) returns the correct
    // number.
    let last = u32::try_from(unit.block_count().saturating_sub(1)).unwrap_or(u32::MAX);
    let mut data = [0; 8];
    data[..4].copy_from_slice(&last.to_be_bytes());
    data[4..].copy_from_slice(&unit.store.block_bytes().to_be_bytes());
    call.reply(&data, data_in)
}

pub(super) fn capacity16<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>, data_in: &mut [u8]) -> Completion {
    let mut data = [0; 32];
    data[..8].copy_from_slice(&unit.block_count().saturating_sub(1).to_be_bytes());
    data[8..12].copy_from_slice(&unit.store.block_bytes().to_be_bytes());
    data[13] = unit.physical_blocks().ilog2() as u8;
    data[14] = if unit.settings.thin { LBPME | LBPRZ } else { 0 };
    call.reply(&data, data_in)
}
