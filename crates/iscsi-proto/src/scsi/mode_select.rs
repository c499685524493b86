//! MODE SELECT (6) and (10) (SPC-4 6.9, 6.10).

use super::attention::Condition;
use super::call::Call;
use super::completion::{Completion, Failure};
use super::mode_pages::{Bits, Values, page};
use super::mode_sense::{long_descriptor, short_descriptor};
use super::sense::{Asc, Sense};
use super::store::Store;
use super::unit::LogicalUnit;

const PAGE_FORMAT: u8 = 0x10;
const SAVE_PAGES: u8 = 0x01;

pub(super) fn mode_select<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>) -> Result<Completion, Failure> {
    if call.cdb.flag(SAVE_PAGES) {
        return Err(Sense::cdb_field(1, Some(0)).into());
    }
    if !call.cdb.flag(PAGE_FORMAT) {
        // Vendor-specific pages.
        return Err(Sense::cdb_field(1, Some(4)).into());
    }
    let list = call.parameters()?;
    if list.is_empty() {
        return Ok(Completion::good(0, 0));
    }
    let before = unit.modes.bits();
    let after = read_list(unit, call, list, before)?;
    if before.write_cache && !after.write_cache {
        // SBC-3 6.5.5: the content of the cache becomes durable before the cache is turned off.
        unit.flush(call.nexus)?;
    }
    if after != before {
        // Reported before the change, so that no initiator takes a cached write for a durable one. Reported after it too, so that an
        // initiator that has read the page meanwhile reads it again.
        let report = || unit.attentions.add_to_all(Some(call.nexus), Condition::Attention(Asc::MODE_PARAMETERS_CHANGED));
        report();
        unit.modes.set(after);
        report();
    }
    if before.write_cache && !after.write_cache {
        // A write that was in progress meanwhile may still have seen the cache on.
        unit.drain_writes();
        unit.flush(call.nexus)?;
    }
    Ok(Completion::good(list.len() as u64, 0))
}

/// Checks the complete parameter list and returns the new bits.
fn read_list<S: Store>(unit: &LogicalUnit<S>, call: &Call<'_>, list: &[u8], before: Bits) -> Result<Bits, Sense> {
    let long = call.cdb.info.length == 10;
    let header_bytes = if long { 8 } else { 4 };
    let length_error = Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR);
    let (header, rest) = list.split_at_checked(header_bytes).ok_or(length_error)?;
    let byte = |at: usize| header.get(at).copied().unwrap_or(0);
    let (medium_type_at, descriptor_length) =
        if long { (2, usize::from(u16::from_be_bytes([byte(6), byte(7)]))) } else { (1, usize::from(byte(3))) };
    if byte(medium_type_at) != 0 {
        return Err(Sense::parameter_field(medium_type_at as u16, None));
    }
    let (descriptor, mut pages) = rest.split_at_checked(descriptor_length).ok_or(length_error)?;
    let long_lba = long && byte(4) & 1 != 0;
    if !descriptor.is_empty() {
        check_descriptor(unit, descriptor, long_lba).map_err(|at| Sense::parameter_field((header_bytes + at) as u16, None))?;
    }
    let mut at = header_bytes + descriptor_length;
    let mut bits = before;
    while !pages.is_empty() {
        let length = pages.get(1).map(|length| usize::from(*length) + 2).ok_or(length_error)?;
        let (sent, rest) = pages.split_at_checked(length).ok_or(length_error)?;
        check_page(unit, sent, before).map_err(|(offset, bit)| Sense::parameter_field((at + offset) as u16, bit))?;
        bits.take(sent);
        at += length;
        pages = rest;
    }
    Ok(bits)
}

/// Checks that a block descriptor matches the unit. Returns the byte that does not.
fn check_descriptor<S: Store>(unit: &LogicalUnit<S>, descriptor: &[u8], long_lba: bool) -> Result<(), usize> {
    let (own, count_bytes) = if long_lba { (long_descriptor(unit), 8) } else { (short_descriptor(unit), 4) };
    let (Some((count, length)), Some((own_count, own_length))) =
        (descriptor.split_at_checked(count_bytes), own.split_at_checked(count_bytes))
    else {
        return Err(0);
    };
    if descriptor.len() != own.len() {
        return Err(0);
    }
    // SBC-3 6.5.2: 0 and all ones keep the number of blocks.
    let keeps = count == own_count || count.iter().all(|byte| *byte == 0) || count.iter().all(|byte| *byte == 0xff);
    if !keeps {
        return Err(0);
    }
    if length == own_length { Ok(()) } else { Err(count_bytes) }
}

/// Checks that the unit has the page, and that the page differs only in bits that can be changed. Returns the first wrong byte and bit.
fn check_page<S: Store>(unit: &LogicalUnit<S>, sent: &[u8], before: Bits) -> Result<(), (usize, Option<u8>)> {
    let first = sent.first().copied().unwrap_or(0);
    // SPF: the unit has no sub-pages.
    if first & 0x40 != 0 {
        return Err((0, Some(6)));
    }
    let code = first & 0x3f;
    let default = Bits::default_of(unit.settings.write_cache);
    let current = page(code, Values::Current, before, default);
    if current.is_empty() {
        return Err((0, Some(5)));
    }
    if current.len() != sent.len() {
        return Err((1, None));
    }
    let mask = page(code, Values::Changeable, before, default);
    // PS, the highest bit of the first byte, is reserved here. It may be set, because initiators send back MODE SENSE data.
    for (offset, ((sent, current), mask)) in sent.iter().zip(&current).zip(&mask).enumerate().skip(2) {
        let wrong = (sent ^ current) & !mask;
        if wrong != 0 {
            return Err((offset, Some(7 - wrong.leading_zeros() as u8)));
        }
    }
    Ok(())
}
